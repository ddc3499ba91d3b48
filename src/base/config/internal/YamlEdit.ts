/**
 * Changes one value in a YAML file and leaves every other byte unchanged.
 *
 * **Details**
 *
 * The value is found in the syntax tree, its lines are rewritten, and the result is parsed again. If the parsed result
 * differs from the intended one, the change is discarded. A layout that this module cannot change in place is rejected,
 * and the text remains unchanged. Mappings in braces are rewritten as a whole; a list retains the lines of its
 * remaining items.
 */
import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import type { Pair, ParsedNode, YAMLMap, YAMLSeq } from "yaml"
import type { Yaml } from "../Yaml.ts"
import * as Tree from "./Tree.ts"

/** Replacement of the lines from `start` to `end` (exclusive) by `lines`. */
interface Splice {
  readonly start: number
  readonly end: number
  readonly lines: ReadonlyArray<string>
}

/** A YAML document with its lines and its parser. */
interface Source {
  readonly yaml: Yaml
  readonly text: string
  readonly lines: ReadonlyArray<string>
  /** Returns the line of an offset, counted from 0. */
  readonly findLine: (offset: number) => number
}

type Entry = Pair<ParsedNode, ParsedNode | null>
type Mapping = YAMLMap.Parsed
type Path = ReadonlyArray<string>

const measureIndent = (line: string): number => line.length - line.trimStart().length
const isComment = (line: string): boolean => /^\s*#/.test(line)
const isBlank = (line: string): boolean => line.trim() === ""

const indentLines = (lines: ReadonlyArray<string>, indent: number): ReadonlyArray<string> =>
  lines.map((line) => (line === "" ? line : " ".repeat(indent) + line))

const renderLines = (yaml: Yaml, value: unknown): ReadonlyArray<string> => yaml.render(value).split("\n")

const isFilled = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length > 0

const isEmptyNode = (node: ParsedNode | null): boolean => node === null || node.range[0] === node.range[1]

/** Tests whether a node is on the lines below its key. */
const isBlock = (node: ParsedNode | null): boolean =>
  node?.srcToken?.type === "block-map" || node?.srcToken?.type === "block-seq"

/** Returns the line after the last line of a node, without trailing blank lines. */
const findEnd = ({ findLine, lines }: Source, start: number, node: ParsedNode | null): number => {
  const last = node === null || isEmptyNode(node) ? start : findLine(node.range[1] - 1)
  let end = Math.max(last, start) + 1
  while (end > start + 1 && isBlank(lines[end - 1] ?? "")) end--
  // In the library, the range of a block includes comments after its last entry. These are excluded here.
  while (isBlock(node) && end > start + 1 && (isComment(lines[end - 1] ?? "") || isBlank(lines[end - 1] ?? ""))) end--
  return end
}

/** Returns the end of an entry, including following comments that are indented further than its key. */
const findEndWithComments = ({ lines }: Source, end: number, indent: number): number => {
  let found = end
  for (let at = end; at < lines.length; at++) {
    const line = lines[at] ?? ""
    if (isBlank(line)) continue
    if (!isComment(line) || measureIndent(line) <= indent) break
    found = at + 1
  }
  return found
}

/** Returns the comment after an offset on the same line. */
const readCommentBehind = (text: string, offset: number): string => {
  const [, comment] = /^[^\r\n]*?(?<=^|\s)(#[^\r\n]*)/.exec(text.slice(offset)) ?? []
  return comment === undefined ? "" : ` ${comment}`
}

const computeColumn = (text: string, offset: number): number => offset - (text.lastIndexOf("\n", offset - 1) + 1)

/** Lines of an entry of a block mapping. */
interface Extent {
  readonly start: number
  readonly end: number
  readonly indent: number
  /** The line of the key, up to the colon. */
  readonly head: string
  /** The comment to preserve after the key or the value. */
  readonly comment: string
}

const findExtent = (source: Source, { key, value }: Entry, map: Mapping, index: number): Extent | undefined => {
  const token = map.srcToken?.type === "block-map" ? map.srcToken.items[index] : undefined
  const colon = token?.sep?.find(({ type }) => type === "map-value-ind")?.offset
  const start = source.findLine(key.range[0])
  if (colon === undefined || source.findLine(colon) !== start) return undefined
  const isBelow = value === null || isBlock(value) || isEmptyNode(value) || value.srcToken?.type === "block-scalar"
  return {
    start,
    end: findEnd(source, start, value),
    indent: computeColumn(source.text, key.range[0]),
    head: (source.lines[start] ?? "").slice(0, computeColumn(source.text, colon) + 1),
    comment: readCommentBehind(source.text, isBelow ? colon + 1 : value.range[1])
  }
}

/** Renders the lines of a list; existing items retain their lines. */
const listLines = (
  source: Source,
  from: number,
  list: YAMLSeq.Parsed,
  before: ReadonlyArray<unknown>,
  after: ReadonlyArray<unknown>
) => {
  const token = list.srcToken?.type === "block-seq" ? list.srcToken : undefined
  if (token === undefined) return undefined
  let lead = from
  const items = list.items.map((item, index) => {
    const dash = token.items[index]?.start.find(({ type }) => type === "seq-item-ind")?.offset ?? item.range[0]
    const end = findEnd(source, source.findLine(dash), item)
    const lines = source.lines.slice(lead, end)
    lead = end
    return { indent: computeColumn(source.text, dash), lines }
  })
  const left = new Set(items.keys())
  return after.flatMap((value) => {
    const known = Array.from(left).find((index) => Equal.equals(before[index], value))
    if (known === undefined) return indentLines(renderLines(source.yaml, [value]), items[0]?.indent ?? 0)
    left.delete(known)
    return items[known]?.lines ?? []
  })
}

/** Rewrites the value of an entry. */
const rewriteEntry = (
  source: Source,
  { comment, end, head, indent, start }: Extent,
  node: ParsedNode | null,
  before: unknown,
  after: unknown
): Splice => {
  if (
    node !== null &&
    source.yaml.library.isSeq(node) &&
    Array.isArray(before) &&
    Array.isArray(after) &&
    after.length > 0
  ) {
    const kept = listLines(source, start + 1, node, before, after)
    if (kept !== undefined) return { start, end, lines: [source.lines[start] ?? "", ...kept] }
  }
  return isFilled(after)
    ? { start, end, lines: [head + comment, ...indentLines(renderLines(source.yaml, after), indent + 2)] }
    : { start, end, lines: [`${head} ${renderInline(source.yaml, after)}${comment}`] }
}

/** Renders a scalar or an empty collection for use on the line of its key. */
const renderInline = (yaml: Yaml, value: unknown): string => yaml.render({ k: value }).slice("k: ".length)

/** Renders the lines of a new entry with the value at a path. */
const renderEntryLines = (source: Source, path: Path, value: unknown, indent: number): ReadonlyArray<string> =>
  indentLines(renderLines(source.yaml, Tree.set({}, path, value)), indent)

/** Creates a splice that inserts lines. */
const insertAt = (start: number, lines: ReadonlyArray<string>): Splice => ({ start, end: start, lines })

const isKey = ({ library }: Yaml, key: ParsedNode, name: string): boolean =>
  library.isScalar(key) && String(key.value ?? "") === name

/**
 * Finds the lines that change in a block mapping. `change` receives the old value of the rewritten entry and the rest
 * of the path below that entry, and returns the new value.
 */
const editMapping = (
  source: Source,
  map: Mapping,
  tree: unknown,
  path: Path,
  change: (before: unknown, rest: Path) => unknown
): Splice | undefined => {
  const [name = "", ...rest] = path
  const index = map.items.findIndex(({ key }) => isKey(source.yaml, key, name))
  const pair = map.items[index]
  if (pair === undefined) {
    const last = map.items.length - 1
    const extent = map.items[last] && findExtent(source, map.items[last], map, last)
    if (extent === undefined) return undefined
    return insertAt(
      findEndWithComments(source, extent.end, extent.indent),
      renderEntryLines(source, path, change(undefined, []), extent.indent)
    )
  }
  const extent = findExtent(source, pair, map, index)
  if (extent === undefined) return undefined
  const { end, indent, start } = extent
  const before = Tree.get(tree, [name])
  if (rest.length > 0 && pair.value !== null) {
    if (source.yaml.library.isMap(pair.value) && isBlock(pair.value))
      return editMapping(source, pair.value, before, rest, change)
    if (before === null && isEmptyNode(pair.value)) {
      const below = findEndWithComments(source, end, indent)
      const comment = source.lines.slice(start + 1, below).find((line) => !isBlank(line))
      return insertAt(
        below,
        renderEntryLines(
          source,
          rest,
          change(undefined, []),
          comment === undefined ? indent + 2 : measureIndent(comment)
        )
      )
    }
  }
  const after = change(before, rest)
  return after === undefined
    ? { start, end: findEndWithComments(source, end, indent), lines: [] }
    : rewriteEntry(source, extent, pair.value, before, after)
}

const makeSource = (yaml: Yaml, text: string): Source => {
  const starts = [0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)]
  return {
    yaml,
    text,
    lines: text.split(/\r?\n/),
    findLine: (offset) => starts.findLastIndex((start) => start <= offset)
  }
}

/** Replaces the lines of a splice in the text. Every other line retains its line break. */
const applySplice = (text: string, { end, lines, start }: Splice): string => {
  const pieces = text.match(/[^\n]*\n|[^\n]+$/g) ?? []
  const eol = pieces[0]?.endsWith("\r\n") === true ? "\r\n" : "\n"
  const before = pieces.slice(0, start).map((line) => (line.endsWith("\n") ? line : line + eol))
  return [...before, ...lines.map((line) => line + eol), ...pieces.slice(end)].join("")
}

/** Changes the value at a path of a YAML document. Returns `undefined` if the result would not parse as `expected`. */
const changeText = (
  yaml: Yaml,
  marked: string,
  expected: unknown,
  path: Path,
  change: (before: unknown, rest: Path) => unknown
): string | undefined => {
  const mark = marked.startsWith("\uFEFF") ? "\uFEFF" : ""
  const text = marked.slice(mark.length)
  const source = makeSource(yaml, text)
  const { contents } = yaml.document(text)
  const isNew = contents === null || isEmptyNode(contents)
  const end = source.lines.length - (source.lines.at(-1) === "" ? 1 : 0)
  const splice = isNew
    ? insertAt(end, renderEntryLines(source, path, change(undefined, []), 0))
    : yaml.library.isMap(contents) && isBlock(contents)
      ? editMapping(source, contents, Result.getOrUndefined(yaml.parse(text)), path, change)
      : undefined
  if (splice === undefined) return undefined
  const after = mark + applySplice(text, splice)
  return Equal.equals(Result.getOrUndefined(yaml.parse(after)) ?? {}, expected) ? after : undefined
}

const parseTree = (yaml: Yaml, text: string): unknown => Result.getOrUndefined(yaml.parse(text)) ?? {}

/** Returns the text with a value at a place; `undefined` if the text cannot be changed in place. */
export const set = (yaml: Yaml, text: string, path: Path, value: unknown): string | undefined =>
  changeText(yaml, text, Tree.set(parseTree(yaml, text), path, value), path, (before, rest) =>
    rest.length === 0 ? value : Tree.set(before, rest, value)
  )

/**
 * Returns the path of the outermost mapping that contains nothing but the place. If the place has siblings, returns the
 * place itself.
 */
const findEmptiedPath = (tree: unknown, path: Path): Path => {
  const parent = path.slice(0, -1)
  const siblings = Tree.get(tree, parent)
  return parent.length > 0 && Tree.isMapping(siblings) && Object.keys(siblings).length === 1
    ? findEmptiedPath(tree, parent)
    : path
}

/**
 * Returns the text without a place and without the mappings that would become empty; `undefined` if the text cannot be
 * changed in place.
 */
export const unset = (yaml: Yaml, text: string, path: Path): string | undefined => {
  const tree = parseTree(yaml, text)
  if (Tree.get(tree, path) === undefined) return text
  const target = findEmptiedPath(tree, path)
  return changeText(yaml, text, Tree.remove(tree, target), target, (before, rest) =>
    rest.length === 0 ? undefined : Tree.remove(before, rest)
  )
}
