/**
 * Text written for one indentation moved to another. When the wanted lines were found with other indentation than they
 * were written with, the replacement was written with the wrong one too. Pure.
 *
 * @since 0.1.0
 */

const indentOf = (line: string): string => line.slice(0, line.length - line.trimStart().length)

/** Pairs of indentation, as written and as found; `undefined` where one was found as several. */
const pairs = (
  written: ReadonlyArray<string>,
  found: ReadonlyArray<string>
): ReadonlyMap<string, string> | undefined => {
  const map = new Map<string, string>()
  for (const [index, line] of written.entries()) {
    const other = found[index]
    if (line.trim() === "" || other === undefined) continue
    const from = indentOf(line)
    const to = indentOf(other)
    const known = map.get(from)
    if (known !== undefined && known !== to) return undefined
    map.set(from, to)
  }
  return map
}

/** What indentation `from` becomes: as a known one did, or by the longest known one that it begins with or ends. */
const moved = (from: string, known: ReadonlyMap<string, string>): string => {
  const direct = known.get(from)
  if (direct !== undefined) return direct
  let best: readonly [string, string] | undefined
  for (const pair of known) {
    if (from.startsWith(pair[0]) && (best === undefined || pair[0].length > best[0].length)) best = pair
  }
  if (best !== undefined) return best[1] + from.slice(best[0].length)
  for (const [written, found] of known) {
    // Less indented than every wanted line: takes off, or adds, at its beginning what they lost or gained.
    if (written.endsWith(found) && from.startsWith(written.slice(0, written.length - found.length))) {
      return from.slice(written.length - found.length)
    }
    if (found.endsWith(written)) return found.slice(0, found.length - written.length) + from
  }
  return from
}

/** How a replacement of the lines `written` fits the lines `found`. */
export const adapter = (
  written: ReadonlyArray<string>,
  found: ReadonlyArray<string>
): (replacement: string) => string => {
  const known = pairs(written, found)
  if (known === undefined || Array.from(known).every(([from, to]) => from === to)) return (replacement) => replacement
  return (replacement) =>
    replacement.split("\n")
      .map((line) => line.trim() === "" ? line : moved(indentOf(line), known) + line.trimStart())
      .join("\n")
}
