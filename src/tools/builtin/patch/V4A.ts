/**
 * Parses the V4A patch text into operations on files. Pure; no file is read here.
 *
 * **Details**
 *
 * ```
 * *** Begin Patch
 * *** Update File: src/a.ts
 * *** Move to: src/b.ts
 * @@ class Greeter
 *    greet() {
 * -    return "hi"
 * +    return "hello"
 *    }
 * *** Add File: src/c.ts
 * +export const c = 1
 * *** Delete File: src/d.ts
 * *** Move File: src/e.ts -> src/f.ts
 * *** End Patch
 * ```
 *
 * `@@` begins a hunk. The text after it is a line above the hunk that locates it; several such lines may be nested.
 * `*** End of File` in a hunk means that it ends at the end of the file. Both frame lines are required: a patch without
 * its end may be truncated. Text around the frame, such as a code fence, is ignored.
 *
 * Source: `hermes-product.md` §2.3 (`patch`).
 */
import * as Result from "effect/Result"
import * as Indent from "./Match.ts"
import { toSource } from "./Match.ts"

/** One line of a hunk. */
interface HunkLine {
  readonly kind: "context" | "add" | "delete"
  readonly text: string
}

/** A place in a file and its changes. */
export interface Hunk {
  /** Line of the patch text at which the hunk begins, starting at 1. */
  readonly at: number
  readonly markers: ReadonlyArray<string>
  readonly lines: ReadonlyArray<HunkLine>
  readonly endOfFile: boolean
}

/** Operation on a file. */
export type Operation =
  | { readonly _tag: "Add"; readonly path: string; readonly content: string }
  | { readonly _tag: "Delete"; readonly path: string }
  | {
      readonly _tag: "Update"
      readonly path: string
      readonly moveTo: string | undefined
      readonly hunks: ReadonlyArray<Hunk>
    }

interface OpenHunk {
  readonly at: number
  readonly markers: Array<string>
  readonly lines: Array<HunkLine>
  endOfFile: boolean
}

const header = /^\*\*\* (Add|Update|Delete) File: *(\S.*)$/
const moveHeader = /^\*\*\* Move File: *(\S.*)$/
const moveTo = /^\*\*\* Move to: *(\S.*)$/i

/** Parses the two paths of `*** Move File: a -> b`. */
const parseMove = (line: string): readonly [from: string, to: string] | undefined => {
  const paths = moveHeader.exec(line)?.[1] ?? ""
  const arrow = paths.lastIndexOf(" -> ")
  const [from, to] = [paths.slice(0, Math.max(0, arrow)).trim(), paths.slice(arrow + 4).trim()]
  return arrow === -1 || from === "" || to === "" ? undefined : [from, to]
}
/** `@@ -1,2 +3,4 @@ heading` of a unified diff: its numbers and heading are approximate and are not used. */
const unifiedRange = /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/

const kinds: Readonly<Record<string, HunkLine["kind"]>> = { " ": "context", "+": "add", "-": "delete" }

const isChange = ({ lines }: Hunk): boolean => lines.some(({ kind }) => kind !== "context")

/**
 * Completely empty lines at the end of a section are mistakes of the model and are dropped. Between other lines, such a
 * line is an empty line of the file whose leading space was lost.
 */
const dropTrailingBlanks = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  let end = lines.length
  while (end > 0 && lines[end - 1] === "") end--
  return lines.slice(0, end)
}

const parseHunks = (body: ReadonlyArray<string>, first: number): Result.Result<ReadonlyArray<Hunk>, string> => {
  const hunks: Array<OpenHunk> = []
  let hunk: OpenHunk | undefined
  let blank = 0
  const openHunk = (at: number): OpenHunk => {
    hunk = { at, markers: [], lines: [], endOfFile: false }
    hunks.push(hunk)
    return hunk
  }
  for (const [index, line] of body.entries()) {
    const at = first + index
    if (line === "") {
      blank++
    } else if (line.startsWith("@@")) {
      blank = 0
      const current = hunk === undefined || hunk.lines.length > 0 ? openHunk(at) : hunk
      const marker = unifiedRange.test(line) ? "" : line.slice(2).trim()
      if (marker !== "") current.markers.push(marker)
    } else if (line.trimEnd() === "*** End of File") {
      blank = 0
      const current = hunk ?? openHunk(at)
      current.endOfFile = true
    } else if (!line.startsWith("\\ No newline")) {
      const kind = kinds[line.slice(0, 1)]
      if (kind === undefined) {
        return Result.fail(
          `line ${at} of the patch begins with none of " ", "+", "-", "@@", "***": ${JSON.stringify(line.slice(0, 80))}`
        )
      }
      const current = hunk ?? openHunk(at)
      if (current.lines.length > 0) {
        for (; blank > 0; blank--) current.lines.push({ kind: "context", text: "" })
      }
      blank = 0
      current.lines.push({ kind, text: line.slice(1) })
    }
  }
  return Result.succeed(hunks)
}

const parseAddedFile = (body: ReadonlyArray<string>, first: number): Result.Result<string, string> => {
  const lines = dropTrailingBlanks(body)
  const wrong = lines.findIndex((line) => line !== "" && !line.startsWith("+"))
  return wrong === -1
    ? Result.succeed(lines.map((line) => `${line.slice(1)}\n`).join(""))
    : Result.fail(`line ${first + wrong} of the patch is inside an added file and does not begin with "+"`)
}

const parseUpdatedFile = (
  path: string,
  body: ReadonlyArray<string>,
  first: number
): Result.Result<Operation, string> => {
  const target = moveTo.exec(body[0] ?? "")?.[1]?.trimEnd()
  const skipped = target === undefined ? 0 : 1
  return Result.flatMap(parseHunks(body.slice(skipped), first + skipped), (hunks) => {
    const changes = hunks.filter(isChange)
    return changes.length === 0 && (target === undefined || hunks.length > 0)
      ? Result.fail(`the patch changes nothing in ${path}: it has context but no line that begins with "+" or "-"`)
      : Result.succeed({ _tag: "Update", path, moveTo: target, hunks: changes })
  })
}

/** Parses the operations of a patch text in order. The failure is a one-line description of the mistake. */
export const parse = (text: string): Result.Result<ReadonlyArray<Operation>, string> => {
  const all = text.split("\n").map((line) => line.replace(/\r$/, ""))
  const begin = all.findIndex((line) => line.trim() === "*** Begin Patch")
  const end = all.findLastIndex((line) => line.trim() === "*** End Patch")
  if (begin === -1) return Result.fail(`the patch does not begin with "*** Begin Patch"`)
  if (end < begin) return Result.fail(`the patch does not end with "*** End Patch": it may have been cut off`)

  const operations: Array<Operation> = []
  for (let at = begin + 1; at < end;) {
    const line = all[at] ?? ""
    const from = at + 1
    let to = from
    while (to < end && !header.test(all[to] ?? "") && parseMove(all[to] ?? "") === undefined) to++
    const move = parseMove(line)
    const found = header.exec(line)
    const [kind, path = ""] = [found?.[1], found?.[2]?.trimEnd()]
    const body = all.slice(from, to)
    if (line.trim() === "" && kind === undefined) {
      at++
      continue
    }
    let operation: Result.Result<Operation, string>
    if (move !== undefined) {
      operation =
        dropTrailingBlanks(body).length > 0
          ? Result.fail(
              `line ${from + 1} of the patch: "*** Move File:" has no lines of its own; use "*** Update File:"`
            )
          : Result.succeed({ _tag: "Update", path: move[0], moveTo: move[1], hunks: [] })
    } else if (kind === "Add") {
      operation = Result.map(parseAddedFile(body, from + 1), (content) => ({ _tag: "Add", path, content }))
    } else if (kind === "Delete") {
      operation =
        dropTrailingBlanks(body).length > 0
          ? Result.fail(`line ${from + 1} of the patch: "*** Delete File:" has no lines of its own`)
          : Result.succeed({ _tag: "Delete", path })
    } else if (kind === "Update") {
      operation = parseUpdatedFile(path, body, from + 1)
    } else {
      operation = Result.fail(
        `line ${at + 1} of the patch is not "*** Add File: …", "*** Update File: …", "*** Delete File: …" or ` +
          `"*** Move File: … -> …": ${JSON.stringify(line.slice(0, 80))}`
      )
    }
    if (Result.isFailure(operation)) return Result.fail(operation.failure)
    operations.push(operation.success)
    at = to
  }
  return operations.length === 0 ? Result.fail("the patch names no file") : Result.succeed(operations)
}

// Applies the hunks of a V4A patch to the text of one file. Pure.
//
// **Details**
//
// Hunks follow the order of the file. The context and removed lines of a hunk are searched for below the previous hunk:
// exactly, then without trailing whitespace, then without indentation, then with typographic characters converted to
// plain ones. The first form that matches decides. It must match exactly one place, unless a marker that occurs exactly
// once sets the start: then the first match after it counts. Context lines remain as they are in the file.

/** Refusal of a hunk that matches no place in a text. Line numbers start at 1. */
export type HunkRefusal =
  | { readonly _tag: "NotFound"; readonly hunk: Hunk; readonly above: boolean }
  | { readonly _tag: "NoMarker"; readonly hunk: Hunk; readonly marker: string }
  | { readonly _tag: "Ambiguous"; readonly hunk: Hunk; readonly lines: ReadonlyArray<number> }
  | { readonly _tag: "NoPlace"; readonly hunk: Hunk }

const normalizeLine = (line: string): string =>
  line
    .replace(/[\u2018\u2019\u2032]/g, "'")
    .replace(/[\u201C\u201D\u2033]/g, '"')
    .replace(/[\u2010-\u2015\u2212]/g, "-")
    .normalize("NFKD")
    .replace(/\s+/g, " ")
    .trim()

/** Normal forms in which lines are compared, strictest first. */
const forms: ReadonlyArray<(line: string) => string> = [
  (line) => line,
  (line) => line.trimEnd(),
  (line) => line.trim(),
  normalizeLine
]

/** Finds every index of `block` in `lines` from `from` on, using the first form that matches. */
const findPlaces = (
  lines: ReadonlyArray<string>,
  block: ReadonlyArray<string>,
  from: number
): ReadonlyArray<number> => {
  for (const form of forms) {
    const wanted = block.map(form)
    const compared: Array<string | undefined> = []
    const normalizeAt = (index: number): string => (compared[index] ??= form(lines[index] ?? ""))
    const found: Array<number> = []
    for (let first = from; first + wanted.length <= lines.length; first++) {
      if (wanted.every((line, index) => normalizeAt(first + index) === line)) found.push(first)
    }
    if (found.length > 0) return found
  }
  return []
}

/** Finds the places of a marker: lines that are equal to it, or else lines that begin with it. */
const findMarkerPlaces = (lines: ReadonlyArray<string>, marker: string, from: number): ReadonlyArray<number> => {
  const same = findPlaces(lines, [marker], from)
  if (same.length > 0) return same
  return lines.flatMap((line, index) => (index >= from && line.trimStart().startsWith(marker) ? [index] : []))
}

interface HunkStart {
  /** First line at which the hunk may start. */
  readonly from: number
  /** Lines of the last marker; empty without markers. */
  readonly marked: ReadonlyArray<number>
}

const findStart = (lines: ReadonlyArray<string>, hunk: Hunk, cursor: number): Result.Result<HunkStart, HunkRefusal> => {
  let start: HunkStart = { from: cursor, marked: [] }
  for (const marker of hunk.markers) {
    const marked = findMarkerPlaces(lines, marker, start.from)
    const [first] = marked
    if (first === undefined) return Result.fail({ _tag: "NoMarker", hunk, marker })
    start = { from: first, marked }
  }
  return Result.succeed(start)
}

const shownPlaces = 10

/** Finds the line at which a hunk begins. */
const locateHunk = (lines: ReadonlyArray<string>, hunk: Hunk, cursor: number): Result.Result<number, HunkRefusal> =>
  Result.flatMap(findStart(lines, hunk, cursor), ({ from, marked }): Result.Result<number, HunkRefusal> => {
    const block = hunk.lines.filter(({ kind }) => kind !== "add").map(({ text }) => text)
    const failAmbiguous = (at: ReadonlyArray<number>): Result.Result<number, HunkRefusal> =>
      Result.fail({ _tag: "Ambiguous", hunk, lines: at.slice(0, shownPlaces).map((index) => index + 1) })
    if (block.length === 0) {
      if (hunk.endOfFile || lines.length === 0) return Result.succeed(lines.length)
      const [only] = marked
      if (only === undefined) return Result.fail({ _tag: "NoPlace", hunk })
      return marked.length > 1 ? failAmbiguous(marked) : Result.succeed(only + 1)
    }
    const found = findPlaces(lines, block, hunk.endOfFile ? Math.max(from, lines.length - block.length) : from)
    const [first] = found
    if (first === undefined) {
      return Result.fail({ _tag: "NotFound", hunk, above: findPlaces(lines.slice(0, from), block, 0).length > 0 })
    }
    return found.length === 1 || marked.length === 1 ? Result.succeed(first) : failAmbiguous(found)
  })

/** Returns the lines that replace the place of a hunk. */
const applyHunk = (lines: ReadonlyArray<string>, hunk: Hunk, place: number): ReadonlyArray<string> => {
  const old = hunk.lines.filter(({ kind }) => kind !== "add")
  const adapt = Indent.makeIndentAdapter(
    old.map(({ text }) => text),
    lines.slice(place, place + old.length)
  )
  const result: Array<string> = []
  let at = place
  for (const { kind, text } of hunk.lines) {
    if (kind === "add") result.push(adapt(text))
    else {
      const kept = lines[at++]
      if (kind === "context" && kept !== undefined) result.push(kept)
    }
  }
  return result
}

/** Returns the text with every hunk applied, or the first hunk that matches no place. */
export const apply = (text: string, hunks: ReadonlyArray<Hunk>): Result.Result<string, HunkRefusal> => {
  const lines = toSource(text).lines.map((line) => line.text)
  const pieces: Array<ReadonlyArray<string>> = []
  let cursor = 0
  for (const hunk of hunks) {
    const place = locateHunk(lines, hunk, cursor)
    if (Result.isFailure(place)) return Result.fail(place.failure)
    pieces.push(lines.slice(cursor, place.success), applyHunk(lines, hunk, place.success))
    cursor = place.success + hunk.lines.filter(({ kind }) => kind !== "add").length
  }
  pieces.push(lines.slice(cursor))
  const result = pieces.flat()
  const closed = text === "" || text.endsWith("\n")
  return Result.succeed(result.join("\n") + (closed && result.length > 0 ? "\n" : ""))
}
