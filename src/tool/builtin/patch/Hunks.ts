/**
 * The hunks of a V4A patch applied to the text of one file. Pure.
 *
 * **Details**
 *
 * Hunks are in the order of the file. What a hunk keeps and takes away is looked for below the hunk before it: as it is,
 * then without blanks at the ends of lines, then without indentation, then with typographic characters made plain; the
 * first of these that finds it decides. It must stand in exactly one place there, unless a marker that stands in exactly
 * one place says where to begin: then the first place from there on is meant. Kept lines stay as the file has them.
 */
import * as Result from "effect/Result"
import * as Indent from "./Match.ts"
import { sourceOf } from "./Match.ts"
import type { Hunk } from "./V4A.ts"

/** Why a hunk has no place in a text. Lines count from 1. */
export type Refused =
  | { readonly _tag: "NotFound"; readonly hunk: Hunk; readonly above: boolean }
  | { readonly _tag: "NoMarker"; readonly hunk: Hunk; readonly marker: string }
  | { readonly _tag: "Ambiguous"; readonly hunk: Hunk; readonly lines: ReadonlyArray<number> }
  | { readonly _tag: "NoPlace"; readonly hunk: Hunk }

const plain = (line: string): string =>
  line.replace(/[\u2018\u2019\u2032]/g, "'").replace(/[\u201C\u201D\u2033]/g, "\"").replace(/[\u2010-\u2015\u2212]/g, "-")
    .normalize("NFKD").replace(/\s+/g, " ").trim()

/** Normal forms in which lines are compared, strictest first. */
const forms: ReadonlyArray<(line: string) => string> = [
  (line) => line,
  (line) => line.trimEnd(),
  (line) => line.trim(),
  plain
]

/** Every index from `from` on where `block` stands in `lines`, by the first form that finds one. */
const places = (lines: ReadonlyArray<string>, block: ReadonlyArray<string>, from: number): ReadonlyArray<number> => {
  for (const form of forms) {
    const wanted = block.map(form)
    const compared: Array<string | undefined> = []
    const at = (index: number): string => compared[index] ??= form(lines[index] ?? "")
    const found: Array<number> = []
    for (let first = from; first + wanted.length <= lines.length; first++) {
      if (wanted.every((line, index) => at(first + index) === line)) found.push(first)
    }
    if (found.length > 0) return found
  }
  return []
}

/** Finds the places of a marker: lines that are equal to it, or else lines that begin with it. */
const markerPlaces = (lines: ReadonlyArray<string>, marker: string, from: number): ReadonlyArray<number> => {
  const same = places(lines, [marker], from)
  if (same.length > 0) return same
  return lines.flatMap((line, index) => index >= from && line.trimStart().startsWith(marker) ? [index] : [])
}

interface Start {
  /** First line that the hunk may stand at. */
  readonly from: number
  /** Lines where the last marker stands; none without markers. */
  readonly marked: ReadonlyArray<number>
}

const startOf = (lines: ReadonlyArray<string>, hunk: Hunk, cursor: number): Result.Result<Start, Refused> => {
  let start: Start = { from: cursor, marked: [] }
  for (const marker of hunk.markers) {
    const marked = markerPlaces(lines, marker, start.from)
    const [first] = marked
    if (first === undefined) return Result.fail({ _tag: "NoMarker", hunk, marker })
    start = { from: first, marked }
  }
  return Result.succeed(start)
}

const shownPlaces = 10

/** The line that a hunk begins at. */
const placeOf = (lines: ReadonlyArray<string>, hunk: Hunk, cursor: number): Result.Result<number, Refused> =>
  Result.flatMap(startOf(lines, hunk, cursor), ({ from, marked }): Result.Result<number, Refused> => {
    const block = hunk.lines.filter(({ kind }) => kind !== "add").map(({ text }) => text)
    const ambiguous = (at: ReadonlyArray<number>): Result.Result<number, Refused> =>
      Result.fail({ _tag: "Ambiguous", hunk, lines: at.slice(0, shownPlaces).map((index) => index + 1) })
    if (block.length === 0) {
      if (hunk.endOfFile || lines.length === 0) return Result.succeed(lines.length)
      const [only] = marked
      if (only === undefined) return Result.fail({ _tag: "NoPlace", hunk })
      return marked.length > 1 ? ambiguous(marked) : Result.succeed(only + 1)
    }
    const found = places(lines, block, hunk.endOfFile ? Math.max(from, lines.length - block.length) : from)
    const [first] = found
    if (first === undefined) {
      return Result.fail({ _tag: "NotFound", hunk, above: places(lines.slice(0, from), block, 0).length > 0 })
    }
    return found.length === 1 || marked.length === 1 ? Result.succeed(first) : ambiguous(found)
  })

/** The lines that a hunk leaves at its place. */
const linesOf = (lines: ReadonlyArray<string>, hunk: Hunk, place: number): ReadonlyArray<string> => {
  const old = hunk.lines.filter(({ kind }) => kind !== "add")
  const adapt = Indent.indentAdapter(old.map(({ text }) => text), lines.slice(place, place + old.length))
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

/** The text with every hunk applied, or the first hunk that has no place. */
export const apply = (text: string, hunks: ReadonlyArray<Hunk>): Result.Result<string, Refused> => {
  const lines = sourceOf(text).lines.map((line) => line.text)
  const pieces: Array<ReadonlyArray<string>> = []
  let cursor = 0
  for (const hunk of hunks) {
    const place = placeOf(lines, hunk, cursor)
    if (Result.isFailure(place)) return Result.fail(place.failure)
    pieces.push(lines.slice(cursor, place.success), linesOf(lines, hunk, place.success))
    cursor = place.success + hunk.lines.filter(({ kind }) => kind !== "add").length
  }
  pieces.push(lines.slice(cursor))
  const result = pieces.flat()
  const closed = text === "" || text.endsWith("\n")
  return Result.succeed(result.join("\n") + (closed && result.length > 0 ? "\n" : ""))
}
