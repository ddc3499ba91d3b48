/** Negative where a version is older than another one, positive where it is newer. */
export const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0
