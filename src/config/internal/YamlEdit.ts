/**
 * Changes one place of a YAML text and leaves every other byte as it is.
 *
 * **Details**
 *
 * The place is found by indentation, its lines are written anew, and the result is read again: if it does not say exactly
 * what it should, nothing is changed. So a text that is laid out in a way this module does not know costs a refusal, never
 * a damaged file. Mappings in braces are written anew as a whole; a list keeps the lines of the items that stay.
 *
 * @since 0.1.0
 */
import { isDeepStrictEqual } from "node:util"
import * as Yaml from "../Yaml.ts"
import * as Tree from "./Tree.ts"
import * as Blocks from "./YamlBlocks.ts"

/** The reader: throws on what it can not read. */
export type Parse = (text: string) => unknown

interface Splice {
  readonly start: number
  readonly end: number
  readonly lines: ReadonlyArray<string>
}

interface Place {
  readonly lines: ReadonlyArray<string>
  readonly from: number
  readonly to: number
  /** What is there now. */
  readonly tree: unknown
  readonly parse: Parse
}

const attempt = (parse: Parse, text: string): unknown => {
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

const indented = (lines: ReadonlyArray<string>, indent: number): ReadonlyArray<string> =>
  lines.map((line) => line === "" ? line : " ".repeat(indent) + line)

/** The comment at the end of a line: the shortest rest without which the value is the same. */
const commentOf = (rest: string, parse: Parse): string => {
  const value = attempt(parse, `k:${rest}`)
  for (const { index } of rest.matchAll(/(?<=^|\s)#/g)) {
    if (isDeepStrictEqual(attempt(parse, `k:${rest.slice(0, index)}`), value)) return ` ${rest.slice(index)}`
  }
  return ""
}

const isFilled = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : Tree.isMapping(value) && Object.keys(value).length > 0

/** The lines of a list, in which the items that were there before keep theirs. */
const listLines = (
  lines: ReadonlyArray<string>,
  entry: Blocks.Entry,
  before: ReadonlyArray<unknown>,
  after: ReadonlyArray<unknown>
): ReadonlyArray<string> | undefined => {
  const { indent, items } = Blocks.list(lines, entry.start + 1, entry.end)
  if (items.length !== before.length) return undefined
  const left = new Set(items.keys())
  return after.flatMap((value) => {
    const known = Array.from(left).find((index) => isDeepStrictEqual(before[index], value))
    const item = known === undefined ? undefined : items[known]
    if (known === undefined || item === undefined) return indented(Yaml.lines([value]), indent)
    left.delete(known)
    return lines.slice(item.lead, item.end)
  })
}

/** Whether what an entry holds stands on the lines below its key. */
const opensBlock = ({ rest }: Blocks.Entry): boolean => /^\s*(?:#|$)/.test(rest)

/** The comment lines behind a value, which stay; the rest of a block scalar may look like some. */
const commentsBehind = (lines: ReadonlyArray<string>, { end, rest, start }: Blocks.Entry, before: unknown): number => {
  let at = end
  if (isFilled(before) || /^\s*[|>]/.test(rest)) return at
  while (at > start + 1 && (lines[at - 1] ?? "").trimStart().startsWith("#")) at--
  return at
}

/** Writes the value of an entry anew. */
const rewrite = (
  { lines, parse }: Place,
  entry: Blocks.Entry,
  before: unknown,
  after: unknown,
  indent: number
): Splice => {
  const comment = commentOf(entry.rest, parse)
  const inPlace = { start: entry.start, end: commentsBehind(lines, entry, before) }
  if (Array.isArray(before) && Array.isArray(after) && isFilled(before) && isFilled(after) && opensBlock(entry)) {
    const kept = listLines(lines, entry, before, after)
    if (kept !== undefined) return { ...inPlace, lines: [lines[entry.start] ?? "", ...kept] }
  }
  return isFilled(after)
    ? { ...inPlace, lines: [entry.head + comment, ...indented(Yaml.lines(after), indent + 2)] }
    : { ...inPlace, lines: [`${entry.head} ${Yaml.render(after)}${comment}`] }
}

/** `{ a: { b: value } }` of a path and a value. */
const nest = (path: ReadonlyArray<string>, value: unknown): unknown => Tree.set({}, path, value)

const keyOf = (entry: Blocks.Entry, parse: Parse): string | undefined => {
  const value = attempt(parse, `${entry.key}: 0`)
  return Tree.isMapping(value) ? Object.keys(value)[0] : undefined
}

/** Behind the last entry; in a text without any, at its end. */
const insert = ({ lines, to }: Place, { entries, indent }: Blocks.Block, path: ReadonlyArray<string>, value: unknown): Splice => {
  const [key = "", ...rest] = path
  const end = to === lines.length && lines.at(-1) === "" ? to - 1 : to
  const start = entries.at(-1)?.end ?? end
  return { start, end: start, lines: indented(Yaml.entry(key, rest.length === 0 ? value : nest(rest, value)), indent) }
}

/** The indentation of what stands below a key without a value: that of the comments there, if any. */
const indentBelow = (lines: ReadonlyArray<string>, { end, start }: Blocks.Entry, indent: number): number => {
  const comment = lines.slice(start + 1, end).find((line) => line.trim() !== "")
  return comment === undefined ? indent + 2 : comment.length - comment.trimStart().length
}

/** Which lines change so that `path` has `value`; `change` makes the new value of an entry that is written anew. */
const edit = (
  place: Place,
  path: ReadonlyArray<string>,
  change: (before: unknown, path: ReadonlyArray<string>) => unknown
): Splice => {
  const { from, lines, parse, to, tree } = place
  const block = Blocks.mapping(lines, from, to)
  const [key = "", ...rest] = path
  const entry = block.entries.find((entry) => keyOf(entry, parse) === key)
  if (entry === undefined) return insert(place, block, path, change(undefined, []))
  const before = Tree.get(tree, [key])
  if (rest.length > 0 && opensBlock(entry)) {
    const inside = { lines, from: entry.start + 1, to: entry.end, tree: before, parse }
    if (isFilled(before)) return edit(inside, rest, change)
    if (before === null) {
      const below = { indent: indentBelow(lines, entry, block.indent), entries: [] }
      return insert(inside, below, rest, change(undefined, []))
    }
  }
  const after = change(before, rest)
  return after === undefined
    ? { start: entry.start, end: entry.end, lines: [] }
    : rewrite(place, entry, before, after, block.indent)
}

/** The text with some lines replaced; every other line keeps its line break. */
const apply = (text: string, parse: Parse, splice: (place: Place) => Splice): string => {
  const mark = text.startsWith("\uFEFF") ? "\uFEFF" : ""
  const pieces = text.slice(mark.length).split(/(\r?\n)/)
  const lines = pieces.filter((_, index) => index % 2 === 0)
  const breaks = pieces.filter((_, index) => index % 2 === 1)
  const eol = breaks[0] ?? "\n"
  const change = splice({ lines, from: 0, to: lines.length, tree: parse(text), parse })
  const removed = change.end - change.start
  const after = lines.toSpliced(change.start, removed, ...change.lines)
  const afterBreaks = breaks.toSpliced(change.start, removed, ...change.lines.map(() => eol))
  const last = after.length - 1
  const ending = after[last] === "" || last < 0 ? "" : eol
  return mark + after.map((line, index) => index === last ? line + ending : line + (afterBreaks[index] ?? eol)).join("")
}

/** The text if it reads as the tree that it should. */
const proven = (text: string, parse: Parse, expected: unknown): string | undefined =>
  isDeepStrictEqual(attempt(parse, text) ?? {}, expected) ? text : undefined

/** The text with a value at a place, or undefined when it can not be changed without rewriting it. */
export const set = (text: string, path: ReadonlyArray<string>, value: unknown, parse: Parse): string | undefined => {
  const tree = parse(text) ?? {}
  const changed = apply(text, parse, (place) =>
    edit(place, path, (before, rest) => rest.length === 0 ? value : Tree.set(before, rest, value))
  )
  return proven(changed, parse, Tree.set(tree, path, value))
}

/** The path to the outermost mapping that has nothing but the place in it, or the place itself. */
const emptied = (tree: unknown, path: ReadonlyArray<string>): ReadonlyArray<string> => {
  const parent = path.slice(0, -1)
  const siblings = Tree.get(tree, parent)
  return parent.length > 0 && Tree.isMapping(siblings) && Object.keys(siblings).length === 1 ? emptied(tree, parent) : path
}

/** The text without a place and the mappings that would be left empty; see {@link set}. */
export const unset = (text: string, path: ReadonlyArray<string>, parse: Parse): string | undefined => {
  const tree = parse(text) ?? {}
  if (Tree.get(tree, path) === undefined) return text
  const target = emptied(tree, path)
  const changed = apply(text, parse, (place) =>
    edit(place, target, (before, rest) => rest.length === 0 ? undefined : Tree.remove(before, rest))
  )
  return proven(changed, parse, Tree.remove(tree, target))
}
