/**
 * The V4A patch text: what it asks to be done to which files. Pure; nothing is looked up here.
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
 * `@@` begins a hunk; the text after it is a line above the hunk that tells its place, and several nest. `*** End of File`
 * in a hunk says that it ends where the file ends. Both frame lines are required: a patch without its end may have been
 * cut off. Text around the frame, such as a code fence, is not looked at.
 *
 * Source: `hermes-product.md` §2.3 (`patch`).
 */
import * as Result from "effect/Result"

/** One line of a hunk. */
export interface HunkLine {
  readonly kind: "context" | "add" | "delete"
  readonly text: string
}

/** A place in a file and what changes there. */
export interface Hunk {
  /** Line of the patch text, from 1, that it begins at. */
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

/** The two paths of `*** Move File: a -> b`. */
const movedOf = (line: string): readonly [from: string, to: string] | undefined => {
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
 * Lines without even a blank at the end of a section are slips of the writer. Between other lines such a line is an empty
 * line of the file, whose blank got lost.
 */
const withoutTrailingBlank = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  let end = lines.length
  while (end > 0 && lines[end - 1] === "") end--
  return lines.slice(0, end)
}

const hunksOf = (body: ReadonlyArray<string>, first: number): Result.Result<ReadonlyArray<Hunk>, string> => {
  const hunks: Array<OpenHunk> = []
  let hunk: OpenHunk | undefined
  let blank = 0
  const open = (at: number): OpenHunk => {
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
      const current = hunk === undefined || hunk.lines.length > 0 ? open(at) : hunk
      const marker = unifiedRange.test(line) ? "" : line.slice(2).trim()
      if (marker !== "") current.markers.push(marker)
    } else if (line.trimEnd() === "*** End of File") {
      blank = 0
      const current = hunk ?? open(at)
      current.endOfFile = true
    } else if (!line.startsWith("\\ No newline")) {
      const kind = kinds[line.slice(0, 1)]
      if (kind === undefined) {
        return Result.fail(
          `line ${at} of the patch begins with none of " ", "+", "-", "@@", "***": ${JSON.stringify(line.slice(0, 80))}`
        )
      }
      const current = hunk ?? open(at)
      if (current.lines.length > 0) {
        for (; blank > 0; blank--) current.lines.push({ kind: "context", text: "" })
      }
      blank = 0
      current.lines.push({ kind, text: line.slice(1) })
    }
  }
  return Result.succeed(hunks)
}

const added = (body: ReadonlyArray<string>, first: number): Result.Result<string, string> => {
  const lines = withoutTrailingBlank(body)
  const wrong = lines.findIndex((line) => line !== "" && !line.startsWith("+"))
  return wrong === -1
    ? Result.succeed(lines.map((line) => `${line.slice(1)}\n`).join(""))
    : Result.fail(`line ${first + wrong} of the patch is inside an added file and does not begin with "+"`)
}

const updated = (path: string, body: ReadonlyArray<string>, first: number): Result.Result<Operation, string> => {
  const target = moveTo.exec(body[0] ?? "")?.[1]?.trimEnd()
  const skipped = target === undefined ? 0 : 1
  return Result.flatMap(hunksOf(body.slice(skipped), first + skipped), (hunks) => {
    const changes = hunks.filter(isChange)
    return changes.length === 0 && (target === undefined || hunks.length > 0)
      ? Result.fail(`the patch changes nothing in ${path}: it has context but no line that begins with "+" or "-"`)
      : Result.succeed({ _tag: "Update", path, moveTo: target, hunks: changes })
  })
}

/** Reads the operations of a patch text, in its order; fails with one line that names the mistake. */
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
    while (to < end && !header.test(all[to] ?? "") && movedOf(all[to] ?? "") === undefined) to++
    const move = movedOf(line)
    const found = header.exec(line)
    const [kind, path = ""] = [found?.[1], found?.[2]?.trimEnd()]
    const body = all.slice(from, to)
    if (line.trim() === "" && kind === undefined) {
      at++
      continue
    }
    let operation: Result.Result<Operation, string>
    if (move !== undefined) {
      operation = withoutTrailingBlank(body).length > 0
        ? Result.fail(`line ${from + 1} of the patch: "*** Move File:" has no lines of its own; use "*** Update File:"`)
        : Result.succeed({ _tag: "Update", path: move[0], moveTo: move[1], hunks: [] })
    } else if (kind === "Add") {
      operation = Result.map(added(body, from + 1), (content) => ({ _tag: "Add", path, content }))
    } else if (kind === "Delete") {
      operation = withoutTrailingBlank(body).length > 0
        ? Result.fail(`line ${from + 1} of the patch: "*** Delete File:" has no lines of its own`)
        : Result.succeed({ _tag: "Delete", path })
    } else if (kind === "Update") {
      operation = updated(path, body, from + 1)
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
