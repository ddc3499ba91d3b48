/** Globs for commands and names: `*` matches any text, `?` matches one character, case is ignored. */

/** Tests whether text matches a glob. The time is at most proportional to the product of both lengths. */
export const isMatch = (glob: string, text: string): boolean => {
  const [pattern, subject] = [glob.trim().toLowerCase(), text.trim().toLowerCase()]
  let at = 0
  let next = 0
  let star = -1
  let from = 0
  while (at < subject.length) {
    const want = pattern.charAt(next)
    if (want === "*") {
      star = next++
      from = at
    } else if (next < pattern.length && (want === "?" || want === subject.charAt(at))) {
      next++
      at++
    } else if (star !== -1) {
      next = star + 1
      at = ++from
    } else return false
  }
  while (pattern.charAt(next) === "*") next++
  return next === pattern.length
}
