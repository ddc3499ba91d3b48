/**
 * Where the entries of a block mapping and the items of a block list stand in the lines of a YAML text. Indentation alone
 * tells: whatever belongs to an entry stands further right than its key, but for lists and closing brackets.
 *
 * @since 0.1.0
 */

/** Lines `start` to `end` (exclusive), without the blank lines and comments that follow. */
export interface Extent {
  readonly start: number
  readonly end: number
}

/** An entry: its key as it is written, and what stands behind the colon on the same line. */
export interface Entry extends Extent {
  readonly key: string
  readonly head: string
  readonly rest: string
}

/** The entries of a block, which all stand at one indentation. */
export interface Block {
  readonly indent: number
  readonly entries: ReadonlyArray<Entry>
}

const indentOf = (line: string): number => line.length - line.trimStart().length

const isIgnored = (line: string): boolean => /^\s*(?:#|$)/.test(line) || /^(?:---|\.\.\.|%)/.test(line)

/** What stands at the indentation of a key without beginning an entry. */
const continues = (line: string): boolean => /^\s*(?:-(?:\s|$)|[\]}])/.test(line)

const keyLine = /^(\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#[\]{},&*!|>%@`-][^#]*?|-[^\s#][^#]*?)\s*:)(?=\s|$)(.*)$/

/** The end of what starts at a line: before the next line that `begins` accepts, and before blank lines and comments. */
const endOf = (lines: ReadonlyArray<string>, start: number, to: number, indent: number, begins: (line: string) => boolean): number => {
  let next = start + 1
  while (next < to) {
    const line = lines[next] ?? ""
    if (!isIgnored(line) && indentOf(line) <= indent && begins(line)) break
    next++
  }
  while (next > start + 1) {
    const line = lines[next - 1] ?? ""
    // A comment that stands further right than the key belongs to what is inside.
    if (!isIgnored(line) || (line.trim() !== "" && indentOf(line) > indent)) break
    next--
  }
  return next
}

/** The entries of the block mapping in some lines. */
export const mapping = (lines: ReadonlyArray<string>, from: number, to: number): Block => {
  let at = from
  while (at < to && isIgnored(lines[at] ?? "")) at++
  const indent = at < to ? indentOf(lines[at] ?? "") : 0
  const entries: Array<Entry> = []
  while (at < to) {
    const line = lines[at] ?? ""
    if (isIgnored(line)) {
      at++
      continue
    }
    const [, head = "", key = "", rest = ""] = keyLine.exec(line) ?? []
    const end = endOf(lines, at, to, indent, (line) => !continues(line))
    entries.push({ start: at, end, key, head, rest })
    at = end
  }
  return { indent, entries }
}

/** An item of a block list, with the comments above it. */
export interface Item extends Extent {
  readonly lead: number
}

/** The items of the block list in some lines. */
export const list = (lines: ReadonlyArray<string>, from: number, to: number): { readonly indent: number; readonly items: ReadonlyArray<Item> } => {
  const items: Array<Item> = []
  let lead = from
  let at = from
  while (at < to && isIgnored(lines[at] ?? "")) at++
  const indent = indentOf(lines[at] ?? "")
  while (at < to) {
    const end = endOf(lines, at, to, indent, () => true)
    items.push({ lead, start: at, end })
    lead = end
    at = end
    while (at < to && isIgnored(lines[at] ?? "")) at++
  }
  return { indent, items }
}
