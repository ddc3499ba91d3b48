/**
 * Conducts one run from its start to its result: executes the loop, handles a stop request, and stores the outcome
 * however the run ends.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type { AgentError, SessionBusy } from "../base/domain/AgentError.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import * as Hooks from "../hooks/Hooks.ts"
import { CallConversation } from "../base/domain/CallContext.ts"
import { Delegator, type Service as DelegatorService } from "../tools/Delegator.ts"
import { StopRequested, ToolContext } from "../tools/ToolContext.ts"
import { CallingRun } from "../models/routing/ModelRouter.ts"
import type { Charge } from "./Budget.ts"
import type { Agent as ChildAgent } from "./Child.ts"
import * as Loop from "./Loop.ts"
import * as LoopDirection from "./LoopDirection.ts"
import * as RunCut from "./RunCut.ts"
import * as RunEnd from "./RunEnd.ts"
import type { RunOptions } from "./RunInput.ts"
import * as RunStart from "./RunStart.ts"
import { emit, makeResult, noteStopRequest, type RunState } from "./RunState.ts"
import { getSpending, recordPayment } from "./RunUsage.ts"
import { type AgentServices, type MiddlewareFailure, Services } from "./Services.ts"
import * as Tenancy from "./Tenancy.ts"

/** Runs an effect. Side tasks of its session are charged to the run in the meantime. */
const chargeSideTasks = <A, Error, R>(
  run: RunState,
  effect: Effect.Effect<A, Error, R>
): Effect.Effect<A, Error, R | Services> =>
  Services.use((services) => {
    const chargeEntry: Charge = (entry) =>
      recordPayment(run, entry).pipe(
        Effect.catch((error) => Effect.logError(error.message)),
        Effect.provideService(Services, services)
      )
    return services.accounts === undefined ? effect : services.accounts.during(run.sessionId, chargeEntry, effect)
  })

/** Time for which a stopped run waits for calls that end by themselves. */
const stopGrace = Duration.seconds(1)

/** Creates the signals of a stop request, for tools and for the run. */
const makeStopSignal = (run: RunState, stopped: Deferred.Deferred<void, SessionBusy>) => {
  let listening = 0
  const awaitCalls = (): Effect.Effect<void> => {
    const isSettled = Effect.sync(() =>
      Array.from(run.conversation.batch.begun).every((id) => run.conversation.batch.results.has(id))
    )
    const settled = Effect.repeat(isSettled, { schedule: Schedule.spaced("10 millis"), until: (done) => done })
    return Effect.asVoid(Effect.timeoutOption(settled, stopGrace))
  }
  return {
    /** Signal for `StopRequested`. */
    requested: Effect.suspend(() => {
      listening++
      return Effect.onInterrupt(Effect.ignore(Deferred.await(stopped)), () => Effect.sync(() => void listening--))
    }),
    /** Completes when the run may be interrupted. */
    mayCut: Effect.andThen(
      Deferred.await(stopped),
      Effect.suspend(() => {
        noteStopRequest(run)
        return listening === 0 ? Effect.void : awaitCalls()
      })
    )
  }
}

/** Creates the delegator for `delegate_task`. Its module is loaded with the first task. */
const makeDelegator = (run: RunState, cwd: string, agent: ChildAgent, services: AgentServices): DelegatorService => {
  const loadDelegation = () =>
    Effect.provideService(
      Effect.flatMap(
        Effect.promise(() => import("./Delegation.ts")),
        ({ make }) => make(run, cwd, agent)
      ),
      Services,
      services
    )
  return {
    delegate: (tasks) => Effect.flatMap(loadDelegation(), ({ delegate }) => delegate(tasks)),
    dispatch: (task) => Effect.flatMap(loadDelegation(), ({ dispatch }) => dispatch(task))
  }
}

/** Conducts an opened run until its result: loop, stop and end. */
export const conduct = Effect.fnUntraced(function* (
  opened: RunStart.OpenedRun,
  input: Pick<RunOptions, "onInterrupt" | "source">,
  stopped: Deferred.Deferred<void, SessionBusy>,
  agent: ChildAgent
): Effect.fn.Return<RunResult, AgentError | MiddlewareFailure, Services> {
  const { cwd, ending, notice, resumed, run } = opened
  const services = yield* Services
  const { interceptors, store } = services
  yield* emit(run, {
    _tag: "RunStarted",
    version: 1,
    sessionId: run.sessionId,
    turnId: run.turnId,
    provider: run.questions.route.provider,
    model: run.questions.route.model,
    resumed
  })
  if (notice !== undefined) yield* emit(run, { _tag: "Notice", level: "info", message: notice })
  const { mayCut, requested } = makeStopSignal(run, stopped)
  const runLoop = (
    ending === undefined
      ? Tenancy.endWithoutAllowance(run, Effect.andThen(RunStart.addContext(opened, input), Loop.runLoop(run)))
      : LoopDirection.answerWithoutLoop(run, ending)
  ).pipe(
    Effect.updateContext((outer: Context.Context<Services>) =>
      outer.pipe(
        Context.add(Hooks.Hooks, interceptors.hooks),
        Context.add(CallingRun, { interceptors, getSpending: () => getSpending(run) }),
        Context.add(Delegator, makeDelegator(run, cwd, agent, services)),
        Context.add(StopRequested, requested),
        Context.add(
          CallConversation,
          run.lineage === undefined ? run.conversationId : (Context.get(outer, CallConversation) ?? run.conversationId)
        ),
        Context.add(ToolContext, { sessionId: run.sessionId, turnId: run.turnId, taskId: run.taskId, cwd })
      )
    )
  )
  let isSettled = false
  const settled = Effect.onExit(chargeSideTasks(run, runLoop), (exit) =>
    Effect.sync(() => {
      isSettled = !Exit.hasInterrupts(exit)
    })
  )
  const stop = RunCut.watchInterruption(run, mayCut, () => isSettled)
  const outcome = yield* Effect.raceFirst(settled, stop).pipe(
    Effect.onExit((exit) =>
      Exit.isSuccess(exit) || (input.onInterrupt === "leave" && Exit.hasInterrupts(exit))
        ? Effect.void
        : // The run fails or is interrupted anyway: a store that cannot take the rest is reported, not the result.
          Effect.catch(
            Effect.andThen(RunEnd.takeBackRejected(run, exit), RunEnd.settleSession(run, RunEnd.getEndReason(exit))),
            (error) => Effect.logError(error.message)
          )
    )
  )
  if (outcome === undefined) {
    const stoppedResult = makeResult(run, "interrupted_by_user", run.questions.answer.text)
    yield* RunEnd.settleSession(run, stoppedResult.exit)
    return stoppedResult
  }
  // A suspended run was ended together with its questions, and its answer is still to come.
  if (outcome.exit === "suspended") return outcome
  // Stored together with the end of the record.
  yield* run.recorder?.deferred(store.end(run.sessionId, outcome.exit)) ?? store.end(run.sessionId, outcome.exit)
  return yield* RunEnd.presentResult(run, outcome)
})
