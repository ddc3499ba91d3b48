/**
 * The durable workflow of a run. Its attempts after a failure are activities, and the pauses between them continue even
 * if the runner dies.
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
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Activity from "effect/workflow/Activity"
import * as DurableClock from "effect/workflow/DurableClock"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import * as Workflow from "effect/workflow/Workflow"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { turnKind } from "./Cluster.ts"
import { Inbox, type ReceivedMessage } from "./Inbox.ts"
import { type Outcome, Request, type Suspended } from "./RunForms.ts"
import { Runs } from "./Runs.ts"
import { toTurnRequest } from "./Steering.ts"
import { AttemptEnd, makeFailedOutcome, type Stored, Worker } from "./RunWorker.ts"
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

const computeWait = (attempt: number): number => Math.min(2 ** attempt, 60) * 1000

/** Makes the outcome of a run whose workflow failed unexpectedly because of a program defect or a database failure. */
export const makeBrokenOutcome = (cause: Cause.Cause<unknown>): Outcome => {
  const error = Cause.squash(cause)
  const reason = (error instanceof Error ? error.message || error.name : String(error)).replaceAll(/\s+/g, " ")
  return { ...makeFailedOutcome(`the run broke off: ${reason}`, true), isBroken: true }
}

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
 * Ends a run, unless the attempt stored its outcome, and wakes the next turn of its session. The next turn is looked up after the end is committed: a turn
 * that was submitted meanwhile either sees the end or is found. `afterEnd` runs if the session has messages that the
 * model of the run did not get.
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
