const units = ["B", "KiB", "MiB", "GiB"]

/** A size for people. */
export const format = (bytes) => {
  if (bytes < 0) return `-${format(-bytes)}`
  const power = bytes === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(bytes) / Math.log(1024)))
  return `${Number((bytes / 1024 ** power).toFixed(2))} ${units[power]}`
}
