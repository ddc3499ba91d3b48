/**
 * Computes all changes of an edit before any file is changed.
 *
 * Source: `hermes-product.md` §2.3 (two-phase: validate all, then apply).
 */
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import type { ToolContext } from "../../ToolContext.ts"
import * as Binary from "../file/FileContent.ts"
import * as Problem from "../file/Problem.ts"
import { type Target, Targets } from "../file/Fence.ts"
import * as Change from "./Change.ts"
import * as V4A from "./V4A.ts"
import type { Hunk, Operation } from "./V4A.ts"

type Needs = FileSystem.FileSystem | Targets | ToolContext
type Failed = Problem.Problem | PlatformError

/** A file during planning: its original content, and its content after the operations so far. */
interface PlannedFile {
  readonly found: Change.FoundFile
  readonly after: Uint8Array | undefined
  readonly mode: number | undefined
}

/** Decodes the text of a file to edit. */
export const decodeText = (given: string, bytes: Uint8Array): Effect.Effect<Binary.Text, Problem.Problem> => {
  const kind = Binary.classifyBytes(bytes)
  if (kind !== undefined) return Problem.fail(`${given} is ${kind} and cannot be edited as text`)
  const text = Binary.decode(bytes)
  return text === undefined
    ? Problem.fail(`${given} is not UTF-8: an edit would change bytes that it does not name`, {
        hint: "Convert it to UTF-8 first, for example with iconv in the terminal."
      })
    : Effect.succeed(text)
}

const failHunk = (given: string, refused: V4A.HunkRefusal): Effect.Effect<never, Problem.Problem> => {
  const { hunk } = refused
  const where = `the hunk at line ${hunk.at} of the patch`
  switch (refused._tag) {
    case "NotFound": {
      const expected = hunk.lines.find(({ kind, text }) => kind !== "add" && text.trim() !== "")?.text ?? ""
      return Problem.fail(`${where} does not match ${given}: its lines were not found there`, {
        hint: refused.above
          ? "They stand above the place of the hunk before it: give the hunks in the order of the file."
          : `It was looked for from ${JSON.stringify(Problem.clip(expected.trim(), 120))} on. Read the file ` +
            "again with read_file and copy the context lines exactly."
      })
    }
    case "NoMarker":
      return Problem.fail(`${where} names a line that is not in ${given}: ${JSON.stringify(refused.marker)}`, {
        hint: "After @@ comes a line of the file that stands above the change, copied exactly, or nothing."
      })
    case "Ambiguous":
      return Problem.fail(`${where} matches several places in ${given}: lines ${refused.lines.join(", ")}`, {
        hint: "Add context lines, or a line that stands only once above the change after @@."
      })
    case "NoPlace":
      return Problem.fail(`${where} only adds lines and does not say where in ${given}`, {
        hint: "Add a context line before or after them, or *** End of File."
      })
  }
}

const applyHunks = (
  given: string,
  bytes: Uint8Array,
  hunks: ReadonlyArray<Hunk>
): Effect.Effect<Uint8Array, Problem.Problem> =>
  Effect.flatMap(decodeText(given, bytes), (text) => {
    const result = V4A.apply(text.text, hunks)
    if (Result.isFailure(result)) return failHunk(given, result.failure)
    return Effect.succeed(Binary.encode({ ...text, text: result.success }))
  })

/** Fails if the file to remove is a symbolic link: removing the link's target was not requested. */
const refuseLink = Effect.fnUntraced(function* ({ given, path }: Target) {
  const fs = yield* FileSystem.FileSystem
  const link = yield* Effect.result(fs.readLink(path))
  if (link._tag === "Success") {
    return yield* Problem.fail(`${given} is a symbolic link`, { hint: "Use the terminal to remove or move links." })
  }
})

/** Plans the combined changes of operations, one change for each file whose content changes. */
export const planChanges: (
  operations: ReadonlyArray<Operation>
) => Effect.Effect<ReadonlyArray<Change.Change>, Failed, Needs> = Effect.fnUntraced(function* (operations) {
  const targets = yield* Targets
  const files = new Map<string, PlannedFile>()

  const findPlanned = Effect.fnUntraced(function* (given: string, access: "edit" | "write") {
    const target = yield* targets.resolve(given, access)
    const known = files.get(target.real)
    if (known !== undefined) return known
    const found = yield* Change.findFile(target)
    return { found, after: found.bytes, mode: found.mode } satisfies PlannedFile
  })
  const setPlanned = (file: PlannedFile, after: Uint8Array | undefined, mode: number | undefined = file.mode): void => {
    files.set(file.found.target.real, { ...file, after, mode })
  }
  const requireAbsent = (file: PlannedFile, given: string) =>
    file.after === undefined
      ? Effect.void
      : Problem.fail(`${given} exists already`, { hint: "Use *** Update File: to change it." })

  for (const operation of operations) {
    if (operation._tag === "Add") {
      const file = yield* findPlanned(operation.path, "write")
      yield* requireAbsent(file, operation.path)
      setPlanned(file, Binary.encode(Binary.makePlainText(operation.content)))
      continue
    }
    const file = yield* findPlanned(operation.path, "edit")
    const { target } = file.found
    if (file.after === undefined) return yield* Problem.fail(`no such file: ${operation.path}`)
    if (operation._tag === "Delete") {
      yield* refuseLink(target)
      setPlanned(file, undefined)
      continue
    }
    const after =
      operation.hunks.length === 0 ? file.after : yield* applyHunks(operation.path, file.after, operation.hunks)
    if (operation.moveTo === undefined) {
      setPlanned(file, after)
      continue
    }
    yield* refuseLink(target)
    const destination = yield* findPlanned(operation.moveTo, "write")
    yield* requireAbsent(destination, operation.moveTo)
    setPlanned(file, undefined)
    setPlanned(destination, after, file.mode)
  }

  return Array.from(files.values())
    .filter(({ after, found: { bytes } }) =>
      after === undefined || bytes === undefined ? after !== bytes : !Bytes.Equivalence(after, bytes)
    )
    .map(({ after, found, mode }) => ({ found, after, mode }))
})
