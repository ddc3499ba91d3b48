/**
 * ATOF and ATIF exporters: one file for the stream of events, and one file for the trajectory of each session. Both are
 * built from the run record while it is written.
 *
 * **Details**
 *
 * Runs are not slowed down: a separate fiber converts the entries to events and documents and writes them. When the
 * plugin is unloaded or its runtime ends, all open scopes are ended and the files are completed.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import { Runtime } from "hermes-effect"
 * import { TracePlugin } from "hermes-effect/observability"
 *
 * const tracing = TracePlugin.make({
 *   agent: { name: "my agent", version: "1.0.0" },
 *   atof: { directory: "traces", filename: "events.jsonl", mode: "append" },
 *   atif: undefined
 * })
 * const layer = Runtime.layer({ plugins: [tracing] })
 * ```
 *
 * Source: the NeMo Relay document, `hermes-contract.md` §4, `ARCHITECTURE.md` §7 (exporters).
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { Environment } from "../base/config/Environment.ts"
import { SessionId } from "../base/domain/Ids.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import * as Plugin from "../agent/plugin/Plugin.ts"
import { RunRecord, type Service } from "../store/RunRecord.ts"
import { SessionStore } from "../store/SessionStore.ts"
import type { Pictures } from "./atif/RunContent.ts"
import type { Event } from "./Atof.ts"
import type { Stream as AtofStream } from "./atof/FromRuns.ts"
import * as EntrySlices from "./EntrySlices.ts"
import * as RecordBatches from "./RecordBatches.ts"
import * as StoredRuns from "./StoredRuns.ts"
import * as TraceSettings from "./TraceSettings.ts"

/**
 * For each exporter, a function that returns true if something else currently writes the same output. It is called when
 * a session begins.
 */
export interface TakenExporters {
  readonly atof: () => boolean
  readonly atif: () => boolean
}

/** Other writers of the same output, and the source of entries for the exporters that run alongside them. */
export interface SiblingWriters {
  readonly taken: TakenExporters
  /** Source of entries that is used instead of the record. */
  readonly listen: Service["listen"]
}

/**
 * Creates a filter of entries. It excludes sessions that began while something else wrote the same output, and their
 * children.
 */
const makeTakenFilter = (isTaken: () => boolean): ((entry: Entry) => boolean) => {
  const known = new Map<string, boolean>()
  return ({ event, sessionId }) => {
    if (event._tag === "RunStarted" && !known.has(sessionId)) {
      known.set(sessionId, known.get(event.parent?.sessionId ?? "") ?? isTaken())
    }
    const isOut = known.get(sessionId) === true
    if (event._tag === "SessionEnded") known.delete(sessionId)
    return !isOut
  }
}

/**
 * Passes batches of entries to `handle` in a separate fiber, in order; `finish` runs last. If `handle` returns a time
 * in milliseconds, it is called again after that time at the latest.
 */
const followEntries = Effect.fnUntraced(function* (
  label: string,
  {
    finish,
    handle
  }: {
    readonly handle: (entries: ReadonlyArray<Entry>) => Effect.Effect<number | undefined>
    readonly finish: Effect.Effect<void>
  },
  listen: Service["listen"]
): Effect.fn.Return<void, never, Scope.Scope> {
  const deadline = yield* TraceSettings.FlushDeadline
  const queue = yield* Queue.unbounded<ReadonlyArray<Entry>, Cause.Done>()
  // Handles all batches that arrived in the meantime at once, so that a slow disk causes a delay of one write and not
  // of one write per run.
  let wait: number | undefined
  const taken = Effect.suspend(() =>
    wait === undefined
      ? Queue.takeAll(queue)
      : Effect.timeoutOrElse(Queue.takeAll(queue), { duration: wait, orElse: () => Effect.succeed([]) })
  )
  const next = Effect.map(
    Effect.flatMap(taken, (batches) => handle(batches.flat())),
    (millis) => {
      wait = millis
    }
  )
  const work = Effect.forever(next).pipe(
    // Ending the queue stops the fiber.
    Effect.catchTag("Done", () => finish)
  )
  const worker = yield* Effect.forkScoped(work)
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => Queue.endUnsafe(queue)).pipe(
      Effect.andThen(Effect.timeoutOption(Fiber.await(worker), deadline)),
      Effect.flatMap((done) =>
        Option.isSome(done)
          ? Effect.void
          : Effect.logWarning(`some ${label} were not written: it took longer than ${Duration.format(deadline)}`)
      )
    )
  )
  yield* listen((entries) => void Queue.offerUnsafe(queue, entries))
})

/** Reads the entries of a session that were recorded before one of its turns. */
export type EarlierReader = (sessionId: string, turnId: string) => Effect.Effect<ReadonlyArray<Entry>>

/** Reads the stored entries of a session from before one of its turns. */
export const earlierRuns: Effect.Effect<EarlierReader, never, RunRecord> = Effect.gen(function* () {
  const record = yield* RunRecord
  const store = yield* Effect.serviceOption(SessionStore)
  return (sessionId, turnId) =>
    Option.isNone(store)
      ? Effect.succeed([])
      : StoredRuns.readEarlier(sessionId, turnId).pipe(
          Effect.provideService(SessionStore, store.value),
          Effect.provideService(RunRecord, record),
          Effect.catch((error) =>
            Effect.as(
              Effect.logWarning(
                `The earlier runs of session ${sessionId} cannot be read, ` +
                  `its trace begins with this one: ${error.message}`
              ),
              []
            )
          )
        )
})

/** Tests whether a session was not removed. Without a store, or if it does not answer, the result is true. */
const findStored: Effect.Effect<(sessionId: string) => Effect.Effect<boolean>> = Effect.map(
  Effect.serviceOption(SessionStore),
  (store) => (sessionId) =>
    Option.isNone(store)
      ? Effect.succeed(true)
      : Effect.orElseSucceed(Effect.map(store.value.get(SessionId.make(sessionId)), Option.isSome), () => true)
)

/** Converts entries to events. A session that was recorded before this stream is recalled first. */
export const makeEventConverter = (stream: AtofStream, earlier: EarlierReader) => {
  return Effect.fnUntraced(function* (entries: ReadonlyArray<Entry>) {
    const events: Array<Event> = []
    for (const entry of entries) {
      const { event, sessionId, turnId } = entry
      if (event._tag === "RunStarted" && event.resumed && !stream.knows(sessionId))
        stream.recall(yield* earlier(sessionId, turnId))
      events.push(...stream.add(entry))
      if (event._tag === "SessionEnded" || event._tag === "ChildEnded") stream.forgetEnded(sessionId)
    }
    return events
  })
}

const loadAtifWriter = Effect.promise(() => import("./AtifWriter.ts"))

/** Returns the paths of image files beside the trajectories, relative to the directory of the stream. */
const makePicturePaths = (
  paths: Path.Path,
  stream: string,
  trajectories: string,
  formatName: (mediaType: string, bytes: Uint8Array) => string
): Pictures => {
  const directory = paths.relative(stream, trajectories).replaceAll("\\", "/")
  return (mediaType, bytes) => [...(directory === "" ? [] : [directory]), formatName(mediaType, bytes)].join("/")
}

/** Files that exporters write, by record. */
const claimed = new WeakMap<Service, Set<string>>()

/**
 * Returns the settings without the files that another plugin of the runtime already writes, so that nothing is written
 * twice.
 */
const claimFiles = Effect.fnUntraced(function* ({
  agent,
  atif,
  atof
}: TraceSettings.TraceSettings): Effect.fn.Return<TraceSettings.TraceSettings, never, RunRecord | Scope.Scope> {
  const record = yield* RunRecord
  const files = claimed.get(record) ?? new Set()
  claimed.set(record, files)
  const wanted = {
    atof: atof && JSON.stringify(["atof", atof.directory, atof.filename]),
    atif: atif && JSON.stringify(["atif", atif.directory, atif.filenameTemplate])
  }
  const keys = [wanted.atof, wanted.atif].filter((key) => key !== undefined)
  const taken = new Set(keys.filter((key) => files.has(key)))
  if (taken.size > 0) {
    yield* Effect.logWarning(
      "Two plugins would write the same ATOF and ATIF files; they are written once: " +
        "enable observability/trace or observability/nemo_relay, not both."
    )
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => keys.forEach((key) => files.add(key))),
    () => Effect.sync(() => keys.forEach((key) => taken.has(key) || files.delete(key)))
  )
  const isFree = (key: string | undefined): boolean => key !== undefined && !taken.has(key)
  return { agent, atof: isFree(wanted.atof) ? atof : undefined, atif: isFree(wanted.atif) ? atif : undefined }
})

/**
 * Opens the enabled exporters, which write their files until the scope closes. If all are disabled, the record is not
 * read. Files that another plugin of the runtime already writes are left out, with one warning.
 */
export const openExporters = (
  settings: TraceSettings.TraceSettings,
  beside?: SiblingWriters
): Effect.Effect<void, never, RunRecord | FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const { agent, atif, atof } = yield* claimFiles(settings)
    /**
     * Returns batches of the entries that an exporter writes. A session is included or excluded when it begins, so that
     * all its events have the same writer.
     */
    const makeBatches = (exporter: keyof TakenExporters) => {
      if (beside === undefined) return RecordBatches.ofRecord
      const isWanted = makeTakenFilter(beside.taken[exporter])
      return RecordBatches.make((listener) => beside.listen((entries) => listener(entries.filter(isWanted))))
    }
    const paths = yield* Path.Path
    if (atof !== undefined) {
      const [AtofWriter, FromRuns] = yield* Effect.promise(() =>
        Promise.all([import("./AtofWriter.ts"), import("./atof/FromRuns.ts")])
      )
      const writer = yield* AtofWriter.make(atof)
      const stream = FromRuns.make(
        agent,
        atif === undefined || beside !== undefined
          ? undefined
          : makePicturePaths(paths, atof.directory, atif.directory, (yield* loadAtifWriter).formatPictureName)
      )
      const events = makeEventConverter(stream, yield* earlierRuns)
      const writeEvents = (given: ReadonlyArray<Entry>) =>
        Effect.as(
          EntrySlices.forEachSlice(given, (slice) => Effect.flatMap(events(slice), writer.write)),
          undefined
        )
      yield* followEntries(
        "ATOF events",
        { handle: writeEvents, finish: Effect.suspend(() => writer.write(stream.close())) },
        (yield* makeBatches("atof")).listen
      )
    }
    if (atif !== undefined) {
      const AtifWriter = yield* loadAtifWriter
      const writer = yield* AtifWriter.make(atif, yield* earlierRuns, yield* findStored)
      yield* followEntries(
        "ATIF files",
        { handle: writer.write, finish: writer.close },
        (yield* makeBatches("atif")).listen
      )
    }
  })

const details = {
  name: "observability/trace",
  description:
    "Writes ATOF events and ATIF trajectories, configured by HERMES_NEMO_RELAY_ATOF_* and HERMES_NEMO_RELAY_ATIF_*"
}

/** Creates the plugin with the settings of an application. */
export const make = (settings: TraceSettings.TraceSettings) =>
  Plugin.make({ ...details, build: Effect.as(openExporters(settings), {}) })

/** The plugin `observability/trace`, configured by environment variables. */
export const plugin = Plugin.make({
  ...details,
  build: Effect.as(
    Effect.flatMap(Environment, ({ get }) => openExporters(TraceSettings.fromVariables(get))),
    {}
  )
})
