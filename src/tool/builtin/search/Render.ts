/**
 * Matches as a text grouped by file, which takes far fewer tokens than a list of objects. Pure.
 *
 * **Example**
 *
 * ```
 * src/a.ts
 *   12: const found = 1
 *   13- return found
 *   --
 *   40: found()
 * ```
 *
 * @since 0.1.0
 */

/** A matching line of a file. */
export interface Match {
  readonly path: string
  readonly line: number
  readonly content: string
  readonly before?: ReadonlyArray<string>
  readonly after?: ReadonlyArray<string>
}

/** Lines of a match and around it, by number. */
const linesOf = ({ after = [], before = [], content, line }: Match): ReadonlyArray<readonly [number, string]> => [
  ...before.map((text, index) => [line - before.length + index, `-${text}`] as const),
  [line, `:${content}`],
  ...after.map((text, index) => [line + index + 1, `-${text}`] as const)
]

/** See the module. Matches of one file follow each other; a line that belongs to several of them is shown once. */
export const grouped = (matches: ReadonlyArray<Match>): string => {
  const files = new Map<string, Map<number, string>>()
  for (const match of matches) {
    const lines = files.get(match.path) ?? new Map<number, string>()
    files.set(match.path, lines)
    for (const [number, text] of linesOf(match)) {
      if (!lines.has(number) || text.startsWith(":")) lines.set(number, text)
    }
  }
  const withContext = matches.some(({ after, before }) => after !== undefined || before !== undefined)
  return Array.from(files, ([path, lines]) => {
    let last: number | undefined
    const shown = Array.from(lines).sort(([a], [b]) => a - b).flatMap(([number, text]) => {
      const gap = withContext && last !== undefined && number > last + 1
      last = number
      return [...(gap ? ["  --"] : []), `  ${number}${text.slice(0, 1)} ${text.slice(1)}`]
    })
    return [path, ...shown].join("\n")
  }).join("\n")
}
