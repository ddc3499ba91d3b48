const parsed = (version) => {
  const [core, ...rest] = version.split("-")
  return { core: core.split("."), pre: rest.length === 0 ? [] : rest.join("-").split(".") }
}

const compareParts = (a, b) => {
  if (/^\d+$/.test(a) && /^\d+$/.test(b)) return Number(a) - Number(b)
  return a < b ? -1 : a > b ? 1 : 0
}

const compareLists = (a, b) => {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    if (a[at] === undefined) return -1
    if (b[at] === undefined) return 1
    const order = compareParts(a[at], b[at])
    if (order !== 0) return order
  }
  return 0
}

/** Negative where a version is older than another one, positive where it is newer. */
export const compare = (a, b) => {
  const [first, second] = [parsed(a), parsed(b)]
  const order = compareLists(first.core, second.core)
  if (order !== 0) return order
  if (first.pre.length === 0 || second.pre.length === 0) return second.pre.length - first.pre.length
  return compareLists(first.pre, second.pre)
}
