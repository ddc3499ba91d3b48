/**
 * Follows a run by the record of its store, from any process: the run may be over, active in another process, or in
 * this one.
 *
 * **Details**
 *
 * The record is written once per step, so that the text of an answer arrives as a whole. A reader that returns with a
 * cursor (`RunCursor`) receives what it has not seen, each event once.
 *
 * **Example** (A run that is read again)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { Agent, Runtime, SessionStore } from "hermes-effect"
 * import { RunWatch } from "hermes-effect/sessions"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId, turnId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const events = yield* Stream.runCollect(RunWatch.watchRun(sessionId, { turnId }))
 *   return events.map((event) => event._tag)
 * })
 *
 * const runtime = Runtime.layer({ store: SessionStore.layerMemory })
 * console.log((await Effect.runPromise(Effect.provide(program, runtime))).join(" "))
 * // => RunStarted StepStarted TextDelta RunFinished
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import { SessionId } from "../base/domain/Ids.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import * as RecordedEvents from "./RecordedEvents.ts"
import * as RunCursor from "./RunCursor.ts"
import { RunRecord } from "./RunRecord.ts"
import * as SessionChain from "./SessionChain.ts"
import { SessionActivity } from "./SessionActivity.ts"
import { SessionStore } from "./SessionStorePort.ts"

/** Interval at which the record of an active run is read. */
const interval = "200 millis"

/** The watched run ended without a result: it failed, was interrupted, or its process ended. */
export class RunLost extends Schema.TaggedError<RunLost>("hermes-effect/store/RunLost")("RunLost", {
  sessionId: Schema.String,
  turnId: Schema.String,
  reason: Schema.Literals(["failed", "interrupted", "process_ended", "unknown"]),
  message: Schema.String,
  /** Class name of the error of a run that failed. */
  error: Schema.optionalKey(Schema.String)
}) {}

/** Services that read runs. With `SessionActivity`, only new entries are read. */
type Needs = RunRecord | SessionStore

/** Reads the new entries of a run in a conversation. */
interface EntrySource {
  readonly readNew: Effect.Effect<ReadonlyArray<Entry>, SessionStoreError>
  /** Tests whether a live process works on the conversation. */
  readonly isActive: Effect.Effect<boolean, SessionStoreError>
}

/**
 * Makes a function that lists the sessions of a conversation, to any of which a run may have written. They are listed
 * again if the conversation has been compacted.
 */
const makeParts = (sessionId: string) => {
  let parts: ReadonlyArray<string> = []
  return Effect.gen(function* () {
    const newest = yield* (yield* SessionStore).newest(SessionId.make(sessionId))
    if (parts.at(-1) !== newest) parts = yield* SessionChain.listConversation(newest)
    return parts
  })
}

const makeSource = Effect.fnUntraced(function* (
  sessionId: string,
  turnId: string
): Effect.fn.Return<EntrySource, never, Needs> {
  const record = yield* RunRecord
  const services = yield* Effect.context<Needs>()
  const activity = Option.getOrUndefined(yield* Effect.serviceOption(SessionActivity))
  const listParts = makeParts(sessionId)
  let cursor = 0
  const isOfRun = (entry: Entry): boolean => entry.turnId === turnId
  const readNumbered = Effect.fnUntraced(function* ({ since }: SessionActivity["Service"]) {
    const found = yield* Effect.forEach(yield* listParts, (part) =>
      Stream.runCollect(since(cursor, { sessionId: part, turnId }))
    )
    const entries = found.flat().toSorted((one, other) => one.sequence - other.sequence)
    cursor = entries.at(-1)?.sequence ?? cursor
    return entries.map(({ entry }) => entry)
  })
  const readCounted = Effect.gen(function* () {
    const found = yield* Effect.forEach(yield* listParts, (part) =>
      Stream.runCollect(record.read({ sessionId: part, turnId }))
    )
    const entries = found.flat().filter(isOfRun)
    const added = entries.slice(cursor)
    cursor = entries.length
    return added
  })
  const readNew =
    activity === undefined ? readCounted : Effect.map(readNumbered(activity), (all) => all.filter(isOfRun))
  const isRunning = Effect.fnUntraced(function* ({ running }: SessionActivity["Service"]) {
    const ids = yield* running
    return (yield* listParts).some((part) => ids.has(part))
  })
  return {
    readNew: Effect.provideContext(readNew, services),
    // A run of a store in memory belongs to this process, which records each end.
    isActive: activity === undefined ? Effect.succeed(true) : Effect.provideContext(isRunning(activity), services)
  }
})

/** Adds the questions of a suspended run, which are not part of the record. */
const addQuestions = Effect.fnUntraced(function* (
  events: ReadonlyArray<RunEvent>
): Effect.fn.Return<ReadonlyArray<RunEvent>, SessionStoreError, SessionStore> {
  const last = events.at(-1)
  if (last?._tag !== "RunFinished" || last.exit !== "suspended") return events
  const { listQuestions } = yield* SessionStore
  const states = ["open", "answered", "used", "withdrawn"] as const
  const stored = yield* listQuestions({ sessionId: last.sessionId, states, limit: Number.MAX_SAFE_INTEGER })
  const questions = stored.flatMap(({ question }) => (question.runId === last.turnId ? [question] : []))
  return [
    ...events.slice(0, -1),
    ...questions.map((question) => ({ _tag: "QuestionAsked", question }) as const),
    { ...last, questions }
  ]
})

/** Options of a reader. */
export interface WatchOptions {
  /** Id of the run. By default, the run of `after`. */
  readonly turnId?: string | undefined
  /** Position of the last event that the reader has seen. By default, it has seen none. */
  readonly after?: RunCursor.RunPosition | undefined
}

const makeLost = (sessionId: string, turnId: string, reason: RunLost["reason"], message: string): RunLost =>
  new RunLost({ sessionId, turnId, reason, message })

const endings = {
  unknown: "the run has no record in this store: read the messages of its session",
  interrupted: "the run was interrupted",
  process_ended: "the process of the run ended: continue the session with a message"
} as const

/** Fails if the run ended without a result. */
const checkEnd = (sessionId: string, turnId: string, end: ReturnType<RecordedEvents.RecordedRun["end"]>) => {
  if (end?.exit === "failed")
    return Effect.fail(
      new RunLost({
        sessionId,
        turnId,
        reason: "failed",
        message: end.failure?.message ?? "the run failed",
        ...(end.failure === undefined ? {} : { error: end.failure.type })
      })
    )
  return end?.exit === "interrupted"
    ? Effect.fail(makeLost(sessionId, turnId, "interrupted", endings.interrupted))
    : Effect.void
}

/**
 * Returns the events of a run that a reader has not seen, and follows the run until its end. Fails with `RunLost` if
 * the run ends without a result.
 */
export const watchRun = (
  sessionId: string,
  { after, turnId = after?.turnId ?? "" }: WatchOptions
): Stream.Stream<RunEvent, RunLost | SessionStoreError, Needs> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { isActive, readNew } = yield* makeSource(sessionId, turnId)
      const services = yield* Effect.context<Needs>()
      const run = RecordedEvents.makeReader()
      const rest = RunCursor.makeRest(after ?? RunCursor.makeStart(turnId))
      let isKnown = false
      let wasActive = true
      const next = Effect.gen(function* (): Effect.gen.Return<
        ReadonlyArray<RunEvent>,
        Cause.Done | RunLost | SessionStoreError,
        Needs
      > {
        if (run.end() !== undefined) {
          yield* checkEnd(sessionId, turnId, run.end())
          return yield* Cause.done()
        }
        const entries = yield* readNew
        isKnown ||= entries.length > 0
        if (entries.length > 0) return (yield* addQuestions(run.read(entries))).flatMap(rest.take)
        if (!isKnown) return yield* makeLost(sessionId, turnId, "unknown", endings.unknown)
        // The last entries may have been written after they were read.
        if (!wasActive) return yield* makeLost(sessionId, turnId, "process_ended", endings.process_ended)
        wasActive = yield* isActive
        if (wasActive) yield* Effect.sleep(interval)
        return []
      })
      return Stream.flattenIterable(Stream.fromEffectRepeat(Effect.provideContext(next, services)))
    })
  )

/** Reads the starts and ends of the runs of a conversation, the oldest first. */
const readRuns = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<ReadonlyArray<Entry>, SessionStoreError, Needs> {
  const record = yield* RunRecord
  const parts = yield* SessionChain.listConversation(SessionId.make(sessionId))
  const entries = yield* Effect.forEach(parts, (part) =>
    Stream.runCollect(record.read({ sessionId: part, kinds: ["RunStarted", "RunEnded"] }))
  )
  return entries.flat()
})

const findLastStart = (entries: ReadonlyArray<Entry>): string | undefined =>
  entries.findLast(({ event }) => event._tag === "RunStarted")?.turnId

/** Returns the id of the run of a conversation that began last, in any process; `undefined` without one. */
export const findNewest = (sessionId: string): Effect.Effect<string | undefined, SessionStoreError, Needs> =>
  Effect.map(readRuns(sessionId), findLastStart)

/** Returns the id of the active run of a conversation in any process; `undefined` without one. */
export const findActive = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<string | undefined, SessionStoreError, Needs> {
  const entries = yield* readRuns(sessionId)
  const last = findLastStart(entries)
  if (last === undefined || entries.some(({ event, turnId }) => event._tag === "RunEnded" && turnId === last))
    return undefined
  const { isActive } = yield* makeSource(sessionId, last)
  return (yield* isActive) ? last : undefined
})

/** Message of the user with which a run began, and its place in the session. */
export interface RunPrompt {
  readonly text: string
  readonly sessionId: string
  /** Position of the first message of the user. `undefined` for a run without one. */
  readonly position: number | undefined
}

/** Returns the message of the user with which a run began. A run that continues began without one. */
export const readPrompt = Effect.fnUntraced(function* (
  sessionId: string,
  runId: string
): Effect.fn.Return<RunPrompt, SessionStoreError, RunRecord> {
  const { read } = yield* RunRecord
  const entries = yield* Stream.runCollect(read({ turnId: runId, kinds: ["MessageAppended"], origins: ["user"] }))
  const asked = entries.flatMap((entry) =>
    entry.turnId === runId && entry.event._tag === "MessageAppended" && entry.event.message !== undefined
      ? [
          {
            sessionId: entry.sessionId,
            position: entry.event.position,
            text: Conversation.readText(entry.event.message)
          }
        ]
      : []
  )
  const [first] = asked
  return {
    text: asked.map(({ text }) => text).join("\n\n"),
    sessionId: first?.sessionId ?? sessionId,
    position: first?.position
  }
})
