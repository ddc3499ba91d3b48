/**
 * The durable workflow of a run. Its attempts after a failure are activities, and the pauses between them continue
 * even if the runner dies.
 *
 * **Details**
 *
 * The runner that owns the shard of a run starts the run, unless its limit of concurrent runs is reached. Waiting runs
 * remain in the database and move to another runner with their shard. If a runner dies, another runner restarts its
 * run, and the handler continues from the state in the store ({@link "./DurableRun.ts"}). The outcome of a run is
 * written once.
 *
 * Turns of one session are chained: a turn that is behind another one suspends its workflow on a durable deferred, and
 * the end of each run completes the deferred of the first turn that is left. A waiting turn has no fiber, no place in a
 * runner, and makes no statements. The end and the wake-up are part of the workflow of the ended run, so they are
 * repeated if its runner dies between them.
 *
 * A run that asks ends its attempt and suspends its workflow on a durable deferred, without a place in a runner. The
 * answers are stored in the session by the process that gives them, which then completes the deferred.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as ClusterSchema from "effect/cluster/ClusterSchema"
import { Sharding } from "effect/cluster/Sharding"
import * as Activity from "effect/workflow/Activity"
import * as DurableClock from "effect/workflow/DurableClock"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import * as Workflow from "effect/workflow/Workflow"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { CurrentTenant } from "../../store/TenantScope.ts"
import { turnKind } from "./Cluster.ts"
import { Inbox, type ReceivedMessage } from "./Inbox.ts"
import { type Outcome, Outcome as OutcomeSchema, Request, Suspended } from "./RunForms.ts"
import { cancelledOutcome, makeBrokenOutcome, makeFailedOutcome } from "./RunOutcomes.ts"
import { Runs } from "./Runs.ts"
import { type SteeringSource, toTurnRequest } from "./Steering.ts"
import { repeatAfterLoss } from "./StorageLoss.ts"

/** The workflow of a run. Each id has one execution. */
export const RunWorkflow = Workflow.make("hermes/Run", {
  payload: Request,
  success: Schema.Void,
  idempotencyKey: ({ id }) => id
})

/** Returns the id of the execution of a run. */
export const computeExecutionId = (id: string): Effect.Effect<string> =>
  // The execution id depends only on the run's id.
  RunWorkflow.executionId({ id, batch: "", kind: "", sessionId: "", input: "", retries: 0 })

/** Input of a handler: the request, and the number of messages in its session before the first start. */
export interface Work extends Request {
  readonly firstPosition: number
  readonly starts: number
  /** Completes when the run is cancelled. The handler then has ten seconds to end. */
  readonly cancelled?: Effect.Effect<void> | undefined
  /** Messages for the session, which a handler may deliver to the model. */
  readonly steering?: SteeringSource | undefined
}

/** Executes the requests of one kind. Failures are returned as outcomes. A run may wait for answers instead. */
export type Handler = (work: Work) => Effect.Effect<Outcome | Suspended>

/** End of an attempt after which the run is over. Its outcome is stored with the run, and not again in the workflow. */
const Stored = Schema.Struct({ status: Schema.Literal("stored") })

const isOutcome = Schema.is(OutcomeSchema)

const AttemptEnd = Schema.Union([OutcomeSchema, Suspended, Stored])
type AttemptEnd = typeof AttemptEnd.Type

/** Service that executes runs in this process. */
export interface WorkerService {
  /** Executes one attempt of a run as soon as the limit of concurrent runs allows it. */
  readonly attempt: (request: Request) => Effect.Effect<AttemptEnd>
  /** Returns true if the session of a suspended run has answers that its calls have not used. */
  readonly hasAnswers: (sessionId: string) => Effect.Effect<boolean>
  readonly running: () => number
  /** Returns true if this process has an attempt of the run that is active or waiting to start. */
  readonly has: (id: string) => boolean
  /** Returns true if this process has an attempt of a run in the session. */
  readonly isActive: (sessionId: string) => boolean
  /** Starts no more runs, and waits until the active ones have ended. */
  readonly close: Effect.Effect<void>
}

/** Service that executes the runs of a runner. */
export class Worker extends Context.Service<Worker, WorkerService>()("hermes-effect/cluster/Worker") {}

/** Takes the messages that other processes sent to sessions, from the store of the sessions. */
export interface RemoteTaker {
  /** Takes the messages to the given sessions, and to claimed sessions. */
  readonly take: (isMeant: (sessionId: string) => boolean) => Effect.Effect<void>
  /** Completes when no messages are being taken. The inbox of the cluster then has the texts that were taken. */
  readonly idle: Effect.Effect<void>
}

/** Settings of a worker. */
export interface WorkerOptions {
  /** Name of this runner. */
  readonly runner: string
  /** Maximum number of concurrent runs. */
  readonly concurrency: number
  readonly handlers: Readonly<Record<string, Handler>>
  /** Returns the number of messages in the session of a request. */
  readonly messages: (sessionId: string) => Effect.Effect<number, { readonly message: string }>
  /** Returns true if a session has answers that its calls have not used. */
  readonly hasAnswers: (sessionId: string) => Effect.Effect<boolean, { readonly message: string }>
  /** Posts the run that waits for answers in a session, or removes it. */
  readonly claim: (sessionId: string, run: string | undefined) => Effect.Effect<void>
  /** Messages of other processes, from the store of the sessions. */
  readonly remote: RemoteTaker
  /** Called with the number of active runs whenever it changes. */
  readonly report: (running: number) => void
  /**
   * Waits until the limits shared with other runs allow the run to start. Returns a reason if the run must not start at
   * all.
   */
  readonly admit?: ((request: Request) => Effect.Effect<string | undefined>) | undefined
}

/**
 * Number of consecutive runner crashes at the same point of a run after which the run itself is considered the cause.
 */
const mostStalls = 10

/** Time that a cancelled run has to end, before it is interrupted. */
const cancellationGrace = "10 seconds"

/** Messages to an attempt. */
interface AttemptSignals extends Pick<Work, "steering"> {
  readonly cancelled: Effect.Effect<void>
  /** Takes the messages that are in the inbox of the session. */
  readonly handleMessages: Effect.Effect<void, { readonly message: string }>
}

/** Makes one attempt of a run: asks for admission, records the start in the database, and runs the handler. */
const runAttempt = Effect.fnUntraced(function* (
  { admit, claim, handlers, messages, remote, runner }: WorkerOptions,
  runs: Runs["Service"],
  request: Request,
  { cancelled, handleMessages, steering }: AttemptSignals
): Effect.fn.Return<AttemptEnd, { readonly message: string }> {
  const { id, kind, sessionId, tenant } = request
  const handler = handlers[kind]
  if (handler === undefined) return makeFailedOutcome(`this version has no handler of kind "${kind}"`, false)
  const refused = yield* admit?.(request) ?? Effect.succeed(undefined)
  if (refused !== undefined) return makeFailedOutcome(refused, false)
  const counted = Effect.provideService(messages(sessionId), CurrentTenant, tenant)
  const started = yield* runs.start(id, runner, yield* counted)
  if (started === undefined) return { status: "stored" }
  if (started.starts > 1) yield* claim(sessionId, undefined)
  if (started.stalls >= mostStalls) {
    return makeFailedOutcome(
      `the runner ended ${mostStalls} times in a row at the same point of this run; it is not begun again`,
      false
    )
  }
  // An earlier runner, which died, may have taken texts of other processes.
  const takeTexts = started.starts > 1 ? remote.take((active) => active === sessionId) : remote.idle
  if (started.starts > 1) yield* takeTexts
  if (started.hasMessages || started.starts > 1) {
    // They may have been sent to a runner that died.
    yield* handleMessages
    if ((yield* runs.find(id))?.state === "done") return { status: "stored" }
  }
  const outcome = yield* Effect.raceFirst(
    Effect.provideService(handler({ ...request, ...started, cancelled, steering }), CurrentTenant, tenant),
    cancelled.pipe(Effect.andThen(Effect.sleep(cancellationGrace)), Effect.as(cancelledOutcome))
  )
  // The workflow breaks off at an outcome without a stored form.
  if (outcome.status === "finished" && !isOutcome(outcome)) return outcome
  yield* takeTexts
  const isStored =
    outcome.status === "finished"
      ? yield* runs.finishAttempt(id, started.starts, outcome)
      : yield* runs.pause(id, started.starts, outcome.status === "suspended" ? "suspended" : "waiting")
  if (!isStored) {
    const run = yield* runs.find(id)
    // A frozen runner may continue after another one began the run again. Its end is not the end of the run.
    if (run !== undefined && run.state !== "done" && run.starts !== started.starts) return yield* Effect.never
  }
  if (outcome.status === "finished") return { status: "stored" }
  return outcome.status === "suspended" ? { ...outcome, starts: started.starts } : outcome
})

/** Waits until this runner no longer owns any shards. The next owner of the shard then continues the run. */
const leaveToNextOwner = (sharding: Sharding["Service"]): Effect.Effect<never> =>
  sharding.isShutdown.pipe(
    Effect.repeat({ until: (isShutdown) => isShutdown, schedule: Schedule.spaced("50 millis") }),
    Effect.andThen(
      Effect.withFiber((fiber) => {
        fiber.interruptUnsafe(fiber.id, ClusterSchema.Abandon.annotation)
        return Effect.never
      })
    )
  )

/**
 * Converts the end of an attempt to an outcome. A failure becomes a failed outcome, which permits another attempt. An
 * interruption is not converted.
 */
const toAttemptOutcome = (exit: Exit.Exit<AttemptEnd, unknown>): Effect.Effect<AttemptEnd> => {
  if (Exit.isSuccess(exit)) return Effect.succeed(exit.value)
  // An interrupted run belongs to the next owner of its shard.
  if (Cause.hasInterrupts(exit.cause))
    return Effect.failCause(Cause.fromReasons<never>(exit.cause.reasons.filter(Cause.isInterruptReason)))
  const error = Cause.squash(exit.cause)
  return Effect.succeed({
    ...makeFailedOutcome(error instanceof Error ? error.message : String(error), true),
    isBroken: true
  })
}

/** Schedule for checking if the attempts of a worker that closes have ended. Its scope bounds the wait. */
const endChecks = Schedule.spaced("100 millis")

/** Provides the worker of a runner. */
export const layerWorker = (options: WorkerOptions): Layer.Layer<Worker, never, Inbox | Runs | Sharding> =>
  Layer.effect(
    Worker,
    Effect.gen(function* () {
      const runs = yield* Runs
      const sharding = yield* Sharding
      const level = yield* References.MinimumLogLevel
      const permits = yield* Semaphore.make(options.concurrency)
      const inbox = yield* Inbox
      /** Runs with an attempt that is active or waits for its start, each with its cancellation. */
      const attempts = new Map<string, ActiveAttempt>()
      /** Takes the cancellations of a session: the ends are stored, then running attempts are stopped. */
      const takeCancellations = Effect.fnUntraced(function* (sessionId: string) {
        const ids = yield* inbox.take(sessionId, "cancel", (messages) =>
          Effect.forEach(messages, ({ body }) => Effect.as(runs.finish(body, cancelledOutcome), body))
        )
        for (const id of ids ?? []) {
          const active = attempts.get(id)
          if (active !== undefined) yield* Deferred.succeed(active.cancelled, undefined)
        }
      })
      /** Handles the messages of sessions, of which attempts are active. */
      const handleMessages = Effect.fnUntraced(function* (sessionIds: Iterable<string>) {
        for (const { kind, sessionId } of yield* inbox.listPending(Array.from(new Set(sessionIds)))) {
          if (kind === "cancel") yield* takeCancellations(sessionId)
          else
            for (const active of attempts.values())
              if (active.sessionId === sessionId && active.isBegun) yield* Deferred.succeed(active.steered, undefined)
        }
      })
      const readInbox = Effect.suspend(() =>
        handleMessages(Array.from(attempts.values(), ({ sessionId }) => sessionId))
      ).pipe(Effect.catch(({ message }) => Effect.logWarning(message)))
      yield* Effect.forkScoped(inbox.listen(readInbox))
      const makeSource = (sessionId: string, arrived: Deferred.Deferred<void>): SteeringSource => ({
        hasArrived: () => Deferred.isDoneUnsafe(arrived),
        arrived: Deferred.await(arrived),
        read: inbox.read(sessionId, "steer"),
        remove: inbox.remove
      })
      let running = 0
      let isClosed = false
      const changeRunningCount = (change: number) => Effect.sync(() => options.report((running += change)))

      const attempt: WorkerService["attempt"] = (request) =>
        Effect.gen(function* () {
          const { id, sessionId } = request
          const active: ActiveAttempt = {
            sessionId,
            cancelled: yield* Deferred.make<void>(),
            steered: yield* Deferred.make<void>(),
            isBegun: false
          }
          const signals = {
            cancelled: Deferred.await(active.cancelled),
            steering: makeSource(sessionId, active.steered),
            handleMessages: handleMessages([sessionId])
          }
          attempts.set(id, active)
          return yield* permits.withPermit(
            Effect.suspend(() =>
              isClosed
                ? leaveToNextOwner(sharding)
                : Effect.ensuring(
                    changeRunningCount(1).pipe(
                      Effect.andThen(Effect.sync(() => void (active.isBegun = true))),
                      Effect.andThen(runAttempt(options, runs, request, signals)),
                      Effect.tap(({ status }) =>
                        // A cancellation that was sent to the attempt ends the run that waits.
                        status === "suspended"
                          ? Effect.andThen(options.claim(sessionId, id), takeCancellations(sessionId))
                          : Effect.void
                      )
                    ),
                    changeRunningCount(-1)
                  )
            )
          )
        }).pipe(
          Effect.ensuring(Effect.sync(() => void attempts.delete(request.id))),
          Effect.exit,
          Effect.flatMap(toAttemptOutcome),
          Effect.provideService(References.MinimumLogLevel, level)
        )

      const settled = Effect.repeat(
        Effect.sync(() => running),
        { until: (count) => count === 0, schedule: endChecks }
      )
      return {
        attempt,
        hasAnswers: (sessionId) =>
          Effect.catch(options.hasAnswers(sessionId), ({ message }) => Effect.as(Effect.logWarning(message), false)),
        running: () => running,
        has: (id) => attempts.has(id),
        isActive: (sessionId) => Array.from(attempts.values(), (active) => active.sessionId).includes(sessionId),
        close: Effect.andThen(
          Effect.sync(() => void (isClosed = true)),
          Effect.asVoid(settled)
        )
      }
    })
  )

/** An attempt of this process. */
interface ActiveAttempt {
  readonly sessionId: string
  readonly cancelled: Deferred.Deferred<void>
  /** Completed when messages for the model are there. */
  readonly steered: Deferred.Deferred<void>
  /** False while it waits for a place. */
  isBegun: boolean
}

const computeWait = (attempt: number): number => Math.min(2 ** attempt, 60) * 1000

/** Completed when no earlier run of the session is left. */
const turn = DurableDeferred.make("turn")

/**
 * Waits until the earlier runs of the session are over: turns of one session run in the order of their submission.
 * Returns true if the workflow has no attempt of the run.
 */
const waitForTurn = Effect.fnUntraced(function* ({ id, sessionId }: Request) {
  const runs = yield* Runs
  const { isBehind, isFresh } = yield* runs.readPlace(id, sessionId)
  if (isBehind) yield* DurableDeferred.await(turn)
  return isFresh
})

/** Wakes the workflow of a run that waits for its turn. */
export const wakeTurn = Effect.fnUntraced(function* (id: string) {
  const engine = yield* WorkflowEngine
  yield* engine.deferredDone(turn, {
    workflowName: RunWorkflow._tag,
    executionId: yield* computeExecutionId(id),
    deferredName: turn.name,
    exit: Exit.void
  })
})

/** Completed when answers arrive for a run that was suspended in its start of this number. */
const makeAnswered = (starts: number) => DurableDeferred.make(`answers after start ${starts}`)

/** Wakes the workflow of a run that waits for answers. */
export const wakeAnswered = Effect.fnUntraced(function* (id: string, starts: number) {
  const engine = yield* WorkflowEngine
  const answered = makeAnswered(starts)
  yield* engine.deferredDone(answered, {
    workflowName: RunWorkflow._tag,
    executionId: yield* computeExecutionId(id),
    deferredName: answered.name,
    exit: Exit.void
  })
})

/** Waits until the questions of a suspended run have answers, or the time is over at which it needs none. */
const waitForAnswers = Effect.fnUntraced(function* ({ id, sessionId }: Request, { starts = 0, wakeAt }: Suspended) {
  const { hasAnswers } = yield* Worker
  const run = yield* (yield* Runs).find(id)
  // The process that stored the answers may have died before it woke the run.
  if (run?.state === "done" || (yield* hasAnswers(sessionId))) yield* wakeAnswered(id, starts)
  const answered = DurableDeferred.await(makeAnswered(starts))
  if (wakeAt === undefined) return yield* answered
  const duration = Math.max(0, wakeAt - (yield* Clock.currentTimeMillis))
  yield* DurableDeferred.raceAll({
    name: `answers or time ${starts}`,
    success: Schema.Void,
    error: Schema.Never,
    effects: [answered, DurableClock.sleep({ name: `time ${starts}`, duration, inMemoryThreshold: 0 })]
  })
})

/**
 * Ends a run, unless the attempt stored its outcome, and wakes the next turn of its session. The next turn is looked
 * up after the end is committed: a turn that was submitted meanwhile either sees the end or is found. `afterEnd` runs
 * if the session has messages that the model of the run did not get.
 */
export const endRun = Effect.fnUntraced(function* <E = never, R = never>(
  id: string,
  outcome: Outcome | typeof Stored.Type,
  afterEnd: Effect.Effect<void, E, R> = Effect.void
) {
  const runs = yield* Runs
  if (outcome.status !== "stored") yield* runs.finish(id, outcome)
  let { hasMessages, next } = yield* runs.findNextTurn(id)
  if (hasMessages) {
    yield* afterEnd
    next = (yield* runs.findNextTurn(id)).next
  }
  if (next !== undefined) yield* wakeTurn(next)
})

/** Submits a turn, by a name that it has once, for each message that the model of a run does not have. */
export const submitUndelivered = Effect.fnUntraced(function* (
  request: Request,
  messages: ReadonlyArray<ReceivedMessage>
) {
  const runs = yield* Runs
  const inbox = yield* Inbox
  for (const message of messages) {
    const next = toTurnRequest(request, message)
    yield* runs.add(next)
    // The run that ends does not wait for the turn, which waits for its end.
    yield* RunWorkflow.execute(next, { discard: true, detached: true })
    yield* inbox.remove([message.seq])
  }
})

/**
 * Submits the messages to a turn that its model does not have. Reads them after the end of the turn: a message that is
 * sent later is submitted by its sender, which sees the end.
 */
const submitLeft = (request: Request) =>
  request.kind === turnKind
    ? Effect.flatMap(
        Effect.flatMap(Inbox, ({ read }) => read(request.sessionId, "steer")),
        (messages) => submitUndelivered(request, messages)
      )
    : Effect.void

/** Executes the workflow on this runner. */
export const layer = RunWorkflow.toLayer(
  Effect.fnUntraced(function* (request) {
    const { attempt } = yield* Worker
    const makeAttempts = Effect.fnUntraced(function* (isFresh: boolean) {
      // Most runs end with their first attempt, which is therefore stored in the workflow only if another follows.
      let first = isFresh ? yield* attempt(request) : undefined
      if (first?.status === "stored") return first
      let failures = 0
      for (let number = 0; ; number++) {
        const execute = first === undefined ? attempt(request) : Effect.succeed(first)
        first = undefined
        const outcome: AttemptEnd = yield* Activity.make({ name: `attempt ${number}`, success: AttemptEnd, execute })
        if (outcome.status === "suspended") {
          yield* waitForAnswers(request, outcome)
          continue
        }
        if (outcome.status !== "failed" || outcome.isPassing !== true || failures >= request.retries) return outcome
        yield* DurableClock.sleep({ name: `wait ${number}`, duration: computeWait(failures++) })
      }
    })
    // A run that is already over retains its outcome.
    yield* waitForTurn(request).pipe(
      Effect.flatMap(makeAttempts),
      Effect.flatMap((outcome) => endRun(request.id, outcome, submitLeft(request))),
      // The attempts that are stored are not made again.
      repeatAfterLoss,
      // The engine reports a suspension, and the move to another runner, as interrupts.
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.catch(endRun(request.id, makeBrokenOutcome(cause)), () => Effect.failCause(cause))
      ),
      Effect.orDie
    )
  })
)
