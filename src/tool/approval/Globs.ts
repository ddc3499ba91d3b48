/**
 * Globs over commands, for what operators deny and allow: `*` is anything, `?` one character, case does not matter.
 *
 * @since 0.1.0
 */

/** Whether a text matches; in time of the product of both lengths at most, whatever they are. */
export const matches = (glob: string, text: string): boolean => {
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

/** The first glob that matches one of the texts. */
export const firstMatch = (globs: ReadonlyArray<string>, texts: ReadonlyArray<string>): string | undefined =>
  globs.find((glob) => texts.some((text) => matches(glob, text)))
