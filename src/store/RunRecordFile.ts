/**
 * The run record as a JSON Lines file: one entry per line, to be read by other programs, attached to a bug report, or
 * read by this program again. A line is written completely or not at all.
 *
 * **Details**
 *
 * `{ "v": 1, "sessionId": …, "turnId": …, "at": …, "event": { "_tag": … } }`; a message has the same form as in the
 * session store. If the file cannot be written, one warning is logged, and a `Gap` precedes the next entry that is
 * written. A truncated line, or one of a newer version that this one cannot read, is skipped by `read` and counted by
 * `unread`. With `maxBytes` the oldest entries are removed when the file is full.
 *
 * **Example** (A file in the program's directory)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime } from "hermes-effect"
 * import { RunRecordFile } from "hermes-effect/observability"
 *
 * const record = RunRecordFile.layer({ path: "runs.jsonl" }).pipe(Layer.provide(NodeServices.layer))
 *
 * await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), Runtime.layer({ record })))
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §8 (run record).
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { SessionStoreError } from "../base/domain/AgentError.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import * as StoredForm from "./StoredForm.ts"
import * as RunRecord from "./RunRecord.ts"
import * as Unread from "./Unread.ts"

/** Path and maximum size of the file. */
export interface Options {
  readonly path: string
  /** Size in bytes beyond which the oldest entries are removed. `undefined` if there is no limit. */
  readonly maxBytes?: number | undefined
}

/**
 * Returns the newest lines that fit into `maxBytes`, but at least one line. They are preceded by the lines that were
 * written only once for their sessions: tool definitions, and messages that are sent but not stored.
 */
const selectNewestLines = (lines: ReadonlyArray<string>, maxBytes: number): ReadonlyArray<string> => {
  let first = lines.length
  for (let bytes = 0; first > 0; first--) {
    bytes += encoder.encode(lines[first - 1] ?? "").length + 1
    if (bytes > maxBytes && first < lines.length) break
  }
  const kept = lines.slice(first)
  const sessions = new Set(
    kept.flatMap((line) =>
      Option.match(StoredForm.readPlace(line), { onNone: () => [], onSome: ({ sessionId }) => [sessionId] })
    )
  )
  const once = new Map(
    lines.slice(0, first).flatMap((line) => {
      const entry = Option.getOrUndefined(StoredForm.getValue(StoredForm.readEntry(line)))
      const key = entry === undefined || !sessions.has(entry.sessionId) ? undefined : RunRecord.getContentKey(entry)
      return entry === undefined || key === undefined ? [] : [[`${entry.sessionId} ${key}`, line] as const]
    })
  )
  return [...once.values(), ...kept]
}

/**
 * Tests whether a line may match the session and turn of a filter. A line without a session or turn may match any
 * filter.
 */
const canFit = ({ sessionId, turnId }: RunRecord.Filter, line: string): boolean =>
  Option.match(StoredForm.readPlace(line), {
    onNone: () => true,
    onSome: (place) =>
      (sessionId === undefined || place.sessionId === sessionId) && (turnId === undefined || place.turnId === turnId)
  })

const encoder = new TextEncoder()

const make = ({ maxBytes = Number.POSITIVE_INFINITY, path }: Options) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const lock = yield* Semaphore.make(1)
    let lost = 0
    let reason = ""
    let isOpen = false
    let size = 0

    const open = Effect.gen(function* () {
      if (isOpen) return
      yield* fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 })
      // If the last line is truncated, a line feed is added, so that the next line is complete.
      if (yield* fs.exists(path)) {
        const text = yield* fs.readFileString(path)
        if (text !== "" && !text.endsWith("\n")) yield* fs.writeFileString(path, "\n", { flag: "a" })
        size = encoder.encode(text).length + 1
      }
      isOpen = true
    })

    /** Replaces the file with its newer half. Otherwise a full file would have to be rewritten at each step. */
    const shrink = Effect.gen(function* () {
      const lines = (yield* fs.readFileString(path)).split("\n").filter((line) => line !== "")
      const text = selectNewestLines(lines, maxBytes / 2)
        .map((line) => `${line}\n`)
        .join("")
      yield* fs.writeFileString(`${path}.draft`, text, { mode: 0o600 })
      yield* fs.rename(`${path}.draft`, path)
      size = encoder.encode(text).length
    }).pipe(
      Effect.catch((error) => {
        // After a failure, shrinking is tried again only after the same amount has been written.
        size = 0
        return Effect.logWarning(`Run record: old entries are not removed from ${path}: ${error.message}`)
      })
    )

    const reportLoss = (count: number, message: string) =>
      Effect.suspend(() => {
        const isFirst = lost === 0
        lost += count
        reason = message
        return isFirst ? Effect.logWarning(`Run record: entries are not written to ${path}: ${message}`) : Effect.void
      })

    const storeEntries = (entries: ReadonlyArray<Entry>): Effect.Effect<void> =>
      Effect.gen(function* () {
        const [first] = entries
        if (first === undefined) return
        const all =
          lost === 0 ? entries : [{ ...first, event: { _tag: "Gap" as const, entries: lost, reason } }, ...entries]
        const lines = yield* Effect.fromResult(Result.all(all.map(StoredForm.encodeEntry)))
        yield* open
        const text = `${lines.join("\n")}\n`
        yield* fs.writeFileString(path, text, { flag: "a", mode: 0o600 })
        lost = 0
        size += encoder.encode(text).length
        if (size > maxBytes) yield* shrink
      }).pipe(
        Effect.catch((error) => reportLoss(entries.length, error.message)),
        lock.withPermit
      )

    const lines: Stream.Stream<string, SessionStoreError> = Stream.unwrap(
      Effect.map(fs.exists(path), (exists) =>
        exists ? Stream.splitLines(Stream.decodeText(fs.stream(path))) : Stream.empty
      )
    ).pipe(
      Stream.filter((line) => line !== ""),
      Stream.mapError(
        (error) =>
          new SessionStoreError({
            operation: "record",
            message: `${path} cannot be read: ${error.message}`,
            cause: error
          })
      )
    )

    return RunRecord.RunRecord.of({
      ...RunRecord.makeMaskedWriter((entries, then = Effect.void) => Effect.andThen(storeEntries(entries), then)),
      read: (filter = {}) =>
        lines.pipe(
          Stream.flatMap((line) =>
            Option.match(StoredForm.getValue(StoredForm.readEntry(line)), {
              onNone: () => Stream.empty,
              onSome: Stream.succeed
            })
          ),
          Stream.filter(RunRecord.isInFilter(filter)),
          RunRecord.removeRepeatedContent
        ),
      unread: (filter = {}) =>
        Stream.runFold(
          lines,
          () => Unread.none,
          (sum, line) => (canFit(filter, line) ? Unread.addReading(sum, StoredForm.readEntry(line)) : sum)
        )
    })
  })

/** Layer with the record in the file at `path`. Creates the file and its directory if necessary. */
export const layer = (options: Options): Layer.Layer<RunRecord.RunRecord, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(RunRecord.RunRecord, make(options))
