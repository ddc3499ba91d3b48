/**
 * Runs one prepared call: its services, its span, its execution, and the notification of its observers at its end.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as CallSuspension from "../base/domain/CallSuspension.ts"
import type { Restore } from "../base/domain/IsolatedCall.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import { Correlation } from "../hooks/Correlation.ts"
import type { Interceptors } from "../models/routing/Interceptors.ts"
import type { SettledCall } from "./CallClosing.ts"
import * as CallRecording from "./CallRecording.ts"
import { CurrentCall } from "./CallQuestions.ts"
import * as CallSpan from "./CallSpan.ts"
import { ChangeSink, type Sink } from "./ChangeRecording.ts"
import * as LifecycleTools from "./LifecycleTools.ts"
import * as Prepare from "./Prepare.ts"
import * as ResultText from "./ResultText.ts"
import { StopRequested, type ToolContext } from "./ToolContext.ts"
import * as ToolEvents from "./ToolEvents.ts"
import * as ToolExecution from "./ToolExecution.ts"

/** The parts of a batch with which its calls run. */
export interface RunningBatch extends Prepare.CallEnvironment {
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
}

/** Notifies the hooks of the end of a call and returns the result, as transformed by them for the model. */
const notifyToolEnd = (
  { hooks }: Interceptors,
  { announced, context }: Prepare.ReadyCall,
  { args, blockedBy, output, status }: ToolExecution.Settlement,
  durationMillis: number
): Effect.Effect<string> => {
  if (!hooks.has("post_tool_call") && !hooks.has("transform_tool_result")) return Effect.succeed(output)
  const end: ToolEvents.CallEnd = {
    args,
    result: output,
    durationMillis,
    outcome: status === "cancelled" ? ToolEvents.cancelled : ToolEvents.toOutcome(status, output, blockedBy)
  }
  const closed = ToolEvents.close(announced, context, end)
  return status === "blocked"
    ? Effect.as(closed, output)
    : Effect.andThen(closed, ToolEvents.transformResult(hooks, context, end))
}

const checkLoopGuard = (
  { guard }: Pick<RunningBatch, "guard">,
  ready: Prepare.ReadyCall,
  settlement: ToolExecution.Settlement
) =>
  guard.after({
    name: ready.call.name,
    args: settlement.args,
    output: settlement.output,
    isFailure: settlement.isFailure,
    idempotent: Prepare.isIdempotent(ready.bound)
  })

/** Creates a sink that reports the files changed by a call and adds them to the record. */
const makeChangeSink = (
  emit: RunningBatch["emit"],
  callId: string,
  recorder: Recorder | undefined
): Sink | undefined => {
  if (emit === undefined && recorder === undefined) return undefined
  return {
    changed: (changes) => {
      const events = changes.map((change) => ({ ...change, callId }))
      if (recorder !== undefined) for (const event of events) recorder.write(event)
      return emit === undefined ? Effect.void : emit(events)
    },
    notice: (message) => {
      const notice = { _tag: "Notice", level: "info", message } as const
      recorder?.write(notice)
      return emit === undefined ? Effect.void : emit([notice])
    }
  }
}

/** Marks the end of a call that was asked to stop and returned its results so far. */
const markStopped = (settlement: ToolExecution.Settlement): ToolExecution.Settlement =>
  settlement.status === "blocked" ? settlement : { ...settlement, status: "cancelled", isFailure: true }

/** State of a running call. */
interface CallState {
  isStopped: boolean
  /** True from the end of the call, including its observers, on. */
  isClosing: boolean
  readonly suspension: CallSuspension.CallSuspension | undefined
}

/** Adds the services of a call to the services of its batch. */
const makeServices = (
  { emit, questions }: RunningBatch,
  { call: { id, name }, context }: Prepare.ReadyCall,
  services: Context.Context<ToolContext>,
  recorder: Recorder | undefined,
  state: CallState
): Context.Context<ToolContext> => {
  const { suspension } = state
  const stop = Context.get(services, StopRequested)
  const noteStop = Effect.map(stop, () => {
    state.isStopped = true
  })
  const asking =
    questions === undefined || suspension === undefined
      ? undefined
      : { callId: id, tool: name, book: questions, suspension, asked: 0, delegated: 0 }
  let own = Context.add(services, Correlation, ToolEvents.toCorrelation(context))
  own = Context.add(own, ChangeSink, makeChangeSink(emit, id, recorder))
  own = Context.add(own, CallSuspension.CurrentSuspension, suspension)
  own = Context.add(own, CurrentCall, asking)
  return Context.add(own, StopRequested, noteStop)
}

/** Creates the receiver of the reports of a call; `undefined` if they have no observer. */
const makeProgress = (emit: RunningBatch["emit"], { call: { id, name } }: Prepare.ReadyCall) =>
  emit === undefined
    ? undefined
    : (output: unknown) =>
        RedactSecrets.use((redact) =>
          emit([{ _tag: "ToolProgress", callId: id, name, text: ResultText.renderProgress(output, redact) }])
        )

/** Closes a call that has ended; `undefined` is a call that waits for an answer. */
export type Close<A, E> = (ended: SettledCall | undefined) => Effect.Effect<A, E, ToolContext>

/** Runs a call and closes it. Once the call has ended, an interruption waits until it is closed. */
export const runReadyCall = <A, E>(
  batch: RunningBatch,
  ready: Prepare.ReadyCall,
  recording: CallRecording.Recording | undefined,
  close: Close<A, E>
): Effect.Effect<A, E, ToolContext> =>
  Effect.withFiber((fiber) => {
    const { approvals, emit, interceptors, questions } = batch
    const { args, call } = ready
    const clock = fiber.getRef(Clock.Clock)
    // The context of a fiber contains the services that its effects require.
    const services = fiber.context as Context.Context<ToolContext>
    const span = CallSpan.beginSpan(services, ready, interceptors.stack)
    const started = clock.currentTimeMillisUnsafe()
    const state: CallState = {
      isStopped: false,
      isClosing: false,
      suspension: questions === undefined ? undefined : CallSuspension.makeSuspension()
    }
    const own = makeServices(
      batch,
      ready,
      span === undefined ? services : CallSpan.enterSpan(services, span),
      recording?.recorder,
      state
    )
    const closeCall = (settled: SettledCall | undefined): Effect.Effect<A, E, ToolContext> => {
      state.isClosing = true
      return close(settled)
    }
    const finishCall: ToolExecution.Finish<A, E> = (ended, restore) => {
      if (state.suspension?.isSuspended === true) return closeCall(undefined)
      const settlement = state.isStopped ? markStopped(ended) : ended
      const durationMillis = clock.currentTimeMillisUnsafe() - started
      return isObserved(interceptors)
        ? Effect.flatMap(finishObservedCall(batch, ready, settlement, durationMillis, restore), closeCall)
        : closeCall(toSettledCall(batch, ready, settlement, durationMillis, settlement.output, undefined))
    }
    const executed = ToolExecution.execute(
      interceptors.stack,
      approvals,
      ready,
      {
        services: own,
        trace: span === undefined ? undefined : CallSpan.makeTrace(span, services),
        onProgress: makeProgress(emit, ready),
        suspension: state.suspension,
        questions,
        redact: fiber.getRef(RedactSecrets)
      },
      finishCall
    )
    const ran = CallRecording.recordNestedInterrupt(recording, ready, () => state.isClosing)(executed)
    return emit === undefined
      ? ran
      : Effect.andThen(emit([{ _tag: "ToolStarted", callId: call.id, name: call.name, params: args }]), ran)
  })

/** Returns true if hooks or middleware observe the end of a call or may change its result. */
const isObserved = ({ hooks, stack }: Interceptors): boolean =>
  stack.lifecycle !== undefined || hooks.has("post_tool_call") || hooks.has("transform_tool_result")

/**
 * Notifies hooks and middleware of the end of a call. If they may change its result, an interruption stops them and the
 * call has no result. Otherwise they have their deadlines, and the result is not lost.
 */
const finishObservedCall = (
  batch: RunningBatch,
  ready: Prepare.ReadyCall,
  settlement: ToolExecution.Settlement,
  durationMillis: number,
  restore: Restore
): Effect.Effect<SettledCall> => {
  const { hooks, stack } = batch.interceptors
  const observed = Effect.flatMap(notifyToolEnd(batch.interceptors, ready, settlement, durationMillis), (seen) =>
    stack.lifecycle === undefined || settlement.status === "blocked"
      ? Effect.succeed(toSettledCall(batch, ready, settlement, durationMillis, seen, undefined))
      : Effect.map(applyAfterTool(batch, ready, settlement, stack.lifecycle, seen), (after) =>
          toSettledCall(batch, ready, settlement, durationMillis, seen, after)
        )
  )
  return stack.lifecycle !== undefined || hooks.has("transform_tool_result") ? restore(observed) : observed
}

type AfterToolResult = Effect.Success<ReturnType<typeof LifecycleTools.applyAfterTool>>

/** Runs the `afterTool` methods of a call, which may change its result or end the run. */
const applyAfterTool = (
  batch: RunningBatch,
  ready: Prepare.ReadyCall,
  { args, isFailure: isError, output, raw }: ToolExecution.Settlement,
  lifecycle: NonNullable<Interceptors["stack"]["lifecycle"]>,
  seen: string
): Effect.Effect<AfterToolResult> =>
  Effect.tap(
    LifecycleTools.applyAfterTool(
      lifecycle,
      ready.context,
      args,
      { raw, llm: seen === output ? undefined : seen, isError },
      ready.bound.facts
    ),
    ({ end }) => Effect.sync(() => end !== undefined && batch.endRun?.(ready.call.id, end))
  )

const toSettledCall = (
  batch: RunningBatch,
  ready: Prepare.ReadyCall,
  settlement: ToolExecution.Settlement,
  durationMillis: number,
  seen: string,
  after: AfterToolResult | undefined
): SettledCall => {
  const { args, blockedBy, isFailure, modelOutput, output, status, value } = settlement
  const isChanged = after?.isChanged === true
  const isRefused = after?.isRefused === true
  const verdict = checkLoopGuard(batch, ready, settlement)
  return {
    status: isRefused ? "error" : status,
    isFailure: isRefused || isFailure,
    blockedBy,
    args,
    call: ready.call,
    ran: status !== "blocked",
    durationMillis,
    output: isChanged ? after.output : seen,
    value: isChanged || isFailure || seen !== output ? undefined : value,
    modelOutput: isChanged ? undefined : modelOutput,
    bound: ready.bound.facts.resultBound,
    remark: verdict._tag === "Fine" ? undefined : verdict.message,
    halted: verdict._tag === "Halt" ? verdict.message : undefined
  }
}
