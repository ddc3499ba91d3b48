/**
 * Streams of runs, and readers that return to a run: of this process while the run is active, else by the run record.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Agent from "../../agent/Agent.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as RunCursor from "../../store/RunCursor.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import * as RunWatch from "../../store/RunWatch.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import type { Selection } from "../../tools/ToolRegistry.ts"
import * as EventIterator from "./EventIterator.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"
import * as PlainRun from "./PlainRun.ts"
import { presentMessages } from "./PlainSessions.ts"
import * as RunLog from "./RunLog.ts"
import * as StreamCursor from "./StreamCursor.ts"

/** A run that a reader returns to. */
export interface WatchInput {
  readonly sessionId: string
  /** Cursor of the stream that the reader left. */
  readonly after?: string | undefined
  /** Signal that ends the reading, which then rejects with `Aborted`. */
  readonly signal?: AbortSignal | undefined
}

const watchOptions: Options.Checks<WatchInput> = {
  sessionId: Options.name,
  after: Options.name,
  signal: Options.makeKindCheck("an AbortSignal", (signal) => signal instanceof AbortSignal)
}
const checkWatch = Options.makeMembersCheck("option of a reader", watchOptions, ["sessionId"])

/** A run that is watched from a position. */
interface WatchedRun {
  readonly sessionId: string
  readonly after: RunCursor.RunPosition | undefined
}

/** Reads the input of a reader. Throws an `InvalidInput` that names each mistake. */
const planWatch = (input: WatchInput): WatchedRun & Pick<WatchInput, "signal"> => {
  Options.requireArgument(input, checkWatch, "input")
  const { after: cursor, sessionId, signal } = input
  const after = cursor === undefined ? undefined : RunCursor.parseCursor(cursor)
  if (cursor !== undefined && after === undefined)
    throw new HermesError("InvalidInput", "after: this is not a cursor: pass `cursor` of the stream that was left")
  return { sessionId, after, signal }
}

/** Logs of the active runs of this process, and the tenant of their reader. */
interface ReadableLogs {
  readonly logs: RunLog.RunLogs
  readonly tenant: string | undefined
}

/** Returns the log of the active run of a session. A tenant finds its own runs only. */
const getLog = ({ logs, tenant }: ReadableLogs, sessionId: string): RunLog.RunLog | undefined => {
  const log = logs.get(sessionId)
  return tenant === undefined || log?.tenant === tenant ? log : undefined
}

/** Finds the log of an active run of this process. */
const findLog = (logs: ReadableLogs, { after, sessionId }: WatchedRun) => {
  const log = getLog(logs, sessionId)
  return after === undefined || log?.turnId() === after.turnId ? log : undefined
}

type RecordNeeds = RunRecord | SessionStore

/** Runs an effect with the record of the runtime. Fails if the layer of the runtime provides none. */
const useRecord = <A>(work: Effect.Effect<A, unknown, RecordNeeds>): Effect.Effect<A, unknown> =>
  Effect.gen(function* () {
    const record = yield* Effect.serviceOption(RunRecord)
    const store = yield* Effect.serviceOption(SessionStore)
    if (Option.isNone(record) || Option.isNone(store))
      return yield* Effect.fail(
        new HermesError("ConfigError", "the layer of this runtime provides no store and no run record")
      )
    return yield* work.pipe(
      Effect.provideService(RunRecord, record.value),
      Effect.provideService(SessionStore, store.value)
    )
  })

/** Returns the events of a run that a reader has not seen: of a run of this process, or from the run record. */
const readRun = (logs: ReadableLogs, watched: WatchedRun): Stream.Stream<RunEvent, unknown> =>
  Stream.suspend(() => {
    const { after, sessionId } = watched
    const log = findLog(logs, watched)
    if (log !== undefined) return log.read(after)
    return Stream.unwrap(
      useRecord(
        Effect.gen(function* () {
          const turnId = after?.turnId ?? (yield* RunWatch.findActive(sessionId))
          if (turnId === undefined) return Stream.empty
          const services = yield* Effect.context<RecordNeeds>()
          return Stream.provideContext(RunWatch.watchRun(sessionId, { after, turnId }), services)
        })
      )
    )
  })

/** Returns the cursor before the first event of the active run of a session. */
const findActiveRun = (logs: ReadableLogs, sessionId: string): Effect.Effect<string | undefined, unknown> =>
  Effect.suspend(() => {
    const turnId = getLog(logs, sessionId)?.turnId()
    const found = turnId === undefined ? useRecord(RunWatch.findActive(sessionId)) : Effect.succeed(turnId)
    return Effect.map(found, (id) => (id === undefined ? undefined : RunCursor.formatCursor(RunCursor.makeStart(id))))
  })

type OnEvent = NonNullable<RunInput["onEvent"]>

const combineListeners =
  (first: OnEvent, second: OnEvent): OnEvent =>
  (events) =>
    Effect.andThen(first(events), second(events))

/** Runtime in which runs are streamed. */
interface StreamRuntime {
  /** Functions that release runs whose readers lag behind. */
  readonly open: Set<() => void>
  /** Selection of tools for runs that make none. */
  readonly own: Selection | undefined
}

/** Starts work, and throws after the end of the runtime. */
type Fork = <A, E>(work: Effect.Effect<A, E, Agent.Agent>) => Fiber.Fiber<A, unknown>

/** Makes the streams of a runtime for a tenant, or for all sessions without one. */
export type StreamsMaker = (fork: Fork, tenant: string | undefined) => RunStreams

/** Streams of the runs of a runtime. */
export interface RunStreams {
  readonly stream: (run: PlainRun.PlannedRun) => StreamCursor.EventStream<RunEvent>
  readonly watch: (input: WatchInput) => StreamCursor.EventStream<RunEvent>
  readonly findActive: (sessionId: string) => Effect.Effect<string | undefined, unknown>
}

/** Makes the streams of a runtime, whose active runs all of them read. */
export const makeStreams = (runtime: StreamRuntime): StreamsMaker => {
  const logs: RunLog.RunLogs = new Map()
  return (fork, tenant) => makeTenantStreams(runtime, { logs, tenant }, fork)
}

const makeTenantStreams = ({ open, own }: StreamRuntime, readable: ReadableLogs, fork: Fork): RunStreams => {
  const startWith = (run: PlainRun.PlannedRun, offer: OnEvent) => {
    const { options } = run
    const offerPlain: OnEvent = (events) => offer(presentMessages(events))
    const onEvent = options.onEvent === undefined ? offerPlain : combineListeners(options.onEvent, offerPlain)
    return PlainRun.startRun({ ...run, options: { ...options, streaming: options.streaming ?? true, onEvent } }, own)
  }
  /** Starts a run that continues without its reader. */
  const forkKept = (run: PlainRun.PlannedRun, offer: OnEvent) => {
    const log = RunLog.makeLog(readable.logs, run.options.tenant ?? readable.tenant)
    const fiber = fork(startWith(run, (events) => Effect.sync(() => log.add(events))))
    fiber.addObserver(log.end)
    run.signal?.addEventListener("abort", () => fiber.interruptUnsafe(), { once: true })
    return fork(Stream.runForEach(log.read(undefined), (event) => offer([event])))
  }
  return {
    stream: (run) => {
      const forkRun = (offer: OnEvent) => (run.isKept ? forkKept(run, offer) : fork(startWith(run, offer)))
      return StreamCursor.addCursor(EventIterator.make({ fork: forkRun, open, signal: run.signal }), undefined)
    },
    watch: (input) => {
      const { after, sessionId, signal } = planWatch(input)
      const forkReader = (offer: OnEvent) =>
        fork(Stream.runForEach(readRun(readable, { sessionId, after }), (event) => offer([event])))
      return StreamCursor.addCursor(EventIterator.make({ fork: forkReader, open, signal }), after)
    },
    findActive: (sessionId) => findActiveRun(readable, sessionId)
  }
}
