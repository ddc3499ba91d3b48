/**
 * The batch of tool calls of one assistant message: prepared in model order, scheduled, run, and each closed with
 * exactly one result; the results come back in model order. A failed call is an error result for the model, never a
 * failed run.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import { Correlation } from "../hooks/Correlation.ts"
import type { Interceptors } from "../models/routing/Interceptors.ts"
import {
  ConversationHistory,
  NestedCalls,
  type NestedOutcome,
  type NestedRun,
  StopRequested,
  ToolContext
} from "./ToolContext.ts"
import { ChangeSink, type Sink } from "./ChangeRecording.ts"
import * as CallRecording from "./CallRecording.ts"
import * as Normalise from "./calls/Normalise.ts"
import * as ToolExecution from "./ToolExecution.ts"
import * as Prepare from "./Prepare.ts"
import * as LifecycleTools from "./LifecycleTools.ts"
import * as ResultText from "./ResultText.ts"
import * as ToolSchedule from "./ToolSchedule.ts"
import * as ToolEvents from "./ToolEvents.ts"

/** Calls of one answer, with the parts of their run. `E` is what `begin` and `settled` can fail with. */
interface Batch<E> extends Prepare.CallEnvironment {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  /** Bounds of the results that reach the model. */
  readonly limits: ResultText.Limits
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Reports whether a call may start: while it may not, it waits to be interrupted. It always may when absent. */
  readonly mayStart?: (() => boolean) | undefined
  /** Tests whether results in the conversation contain a text; absent for calls outside a conversation. */
  readonly history?: ((json: string) => boolean) | undefined
  /** Stores the answer of the calls unless it is already stored. Only {@link Batch.begin} is notified earlier. */
  readonly stored?: Effect.Effect<void, E> | undefined
  /** Notes calls that are about to start, before the first of them does. */
  readonly begin: (calls: ReadonlyArray<Prompt.ToolCallPart>) => Effect.Effect<void, E>
  /** Notes for the model, added to the results of calls that were changed before they came here. */
  readonly notes?: ReadonlyMap<Prompt.ToolCallPart, string> | undefined
  /**
   * Stores every result as soon as it exists, in order of completion; `told` writes the end of its call to the record
   * once it is stored. `reason` explains why a call did not run.
   */
  readonly settled: (
    call: Prompt.ToolCallPart,
    message: Prompt.ToolMessage,
    told: () => void,
    reason: SettledCall["reason"]
  ) => Effect.Effect<void, E>
}

/** A batch that ran. */
export interface BatchOutcome {
  /** In model order. */
  readonly messages: ReadonlyArray<Prompt.ToolMessage>
  /** Reason why the run must end, if a guard says so. */
  readonly halted: string | undefined
  /** True if a call could not be attempted: its tool is unknown, or its arguments are not an object. */
  readonly invalid: boolean
}

/** Settlement of one call, with the data needed to close it. */
interface SettledCall extends Omit<ToolExecution.Settlement, "args" | "raw"> {
  readonly call: Prompt.ToolCallPart
  /** Reason why it did not run; absent of a call that ran. */
  readonly reason?: string | undefined
  readonly ran: boolean
  readonly durationMillis: number
  /** The tool's own bound on its results. */
  readonly bound: number | undefined
  /** Remark of the loop guard, added to the result. */
  readonly remark?: string | undefined
  readonly halted?: string | undefined
}

const closeCall = <E>(
  { emit, notes, settled }: Batch<E>,
  ended: SettledCall,
  text: string,
  recording: CallRecording.Recording | undefined
): Effect.Effect<ClosedCall, E> => {
  const { blockedBy, call, durationMillis, halted, isFailure, modelOutput, reason = blockedBy, remark, status } = ended
  const output = [notes?.get(call), remark].reduce<string>(
    (text, line) => (line === undefined ? text : `${text}\n\n[${line}]`),
    text
  )
  const message = Conversation.makeToolResult(call, { output, isFailure, modelOutput })
  const stored = settled(
    call,
    message,
    () => {
      if (recording !== undefined) CallRecording.recordEnd(recording, ended, output)
    },
    reason
  )
  // The end of a call with a stored result is reported in the same step, and only here.
  const told =
    emit === undefined
      ? stored
      : Effect.andThen(
          stored,
          emit([{ _tag: "ToolFinished", callId: call.id, name: call.name, status, output, durationMillis }])
        )
  return Effect.as(Effect.uninterruptible(told), { message, halted })
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
  { guard }: Pick<Batch<unknown>, "guard">,
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

/**
 * A call whose start is noted, so that it is never taken for one that did not run. Tools that were stated to be
 * read-only and that work on this machine are left out: repeating one changes nothing.
 */
const canLeaveTraces = ({ bound: { facts } }: Prepare.ReadyCall): boolean => facts.readonly !== true || facts.foreign

/** Notes the starts of a batch: those that start together in one go, every other one right before it. */
const planStarts = <E>(
  { begin }: Batch<E>,
  entries: ReadonlyArray<Prepare.PreparedCall>,
  concurrency: number,
  recording: CallRecording.Recording | undefined
) => {
  const noted =
    concurrency === 1
      ? []
      : entries.filter((entry): entry is Prepare.ReadyCall => entry._tag === "Ready" && canLeaveTraces(entry))
  // Those that start together.
  const together = noted.slice(0, concurrency)
  // Calls that start together are written together, before the first of them does anything.
  const recordStarts = (some: Iterable<Prepare.ReadyCall>): void => {
    if (recording !== undefined) for (const one of some) CallRecording.recordStart(recording, one)
  }
  const startNoted = (some: ReadonlyArray<Prepare.ReadyCall>): Effect.Effect<void, E> =>
    Effect.uninterruptible(
      Effect.suspend(() => {
        recordStarts(some)
        const begun = begin(some.map(({ call }) => call))
        return recording === undefined ? begun : Effect.andThen(begun, recording.recorder.flush)
      })
    )
  return {
    first: together.length === 0 ? Effect.void : startNoted(together),
    of: (one: Prepare.ReadyCall): Effect.Effect<void, E> =>
      together.includes(one)
        ? Effect.void
        : canLeaveTraces(one)
          ? startNoted([one])
          : Effect.sync(() => recordStarts([one]))
  }
}

/** Tells of the files that a call changes, and writes them to the record. */
const makeChangeSink = (
  emit: Batch<never>["emit"],
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

/** End of a call that was asked to stop, and that gave back what it had. */
const markStopped = (settlement: ToolExecution.Settlement): ToolExecution.Settlement =>
  settlement.status === "blocked" ? settlement : { ...settlement, status: "cancelled", isFailure: true }

const runReadyCall = <E>(
  batch: Batch<E>,
  ready: Prepare.ReadyCall,
  recorder: Recorder | undefined
): Effect.Effect<SettledCall, never, ToolContext> =>
  Effect.clockWith((clock) => {
    const { approvals, emit, interceptors } = batch
    const { args, call } = ready
    const started = clock.currentTimeMillisUnsafe()
    const onProgress =
      emit === undefined
        ? undefined
        : (output: unknown) =>
            RedactSecrets.use((redact) => {
              const text = ResultText.renderProgress(output, redact)
              return emit([{ _tag: "ToolProgress", callId: call.id, name: call.name, text }])
            })
    let isStopped = false
    const noteStop = (stop: Effect.Effect<void>): Effect.Effect<void> =>
      Effect.map(stop, () => {
        isStopped = true
      })
    const executed = Effect.flatMap(
      ToolExecution.execute(interceptors.stack, approvals, ready, onProgress).pipe(
        Effect.updateContext((context: Context.Context<ToolContext>) =>
          context.pipe(
            Context.add(Correlation, ToolEvents.toCorrelation(ready.context)),
            Context.add(ChangeSink, makeChangeSink(emit, call.id, recorder)),
            Context.add(StopRequested, noteStop(Context.get(context, StopRequested)))
          )
        )
      ),
      (ended) => {
        const settlement = isStopped ? markStopped(ended) : ended
        const durationMillis = clock.currentTimeMillisUnsafe() - started
        return isObserved(interceptors)
          ? finishObservedCall(batch, ready, settlement, durationMillis)
          : Effect.succeed(toSettledCall(batch, ready, settlement, durationMillis, settlement.output, undefined))
      }
    )
    return emit === undefined
      ? executed
      : Effect.andThen(emit([{ _tag: "ToolStarted", callId: call.id, name: call.name, params: args }]), executed)
  })

/** Tests whether hooks or middleware observe the end of a call or may change its result. */
const isObserved = ({ hooks, stack }: Interceptors): boolean =>
  stack.lifecycle !== undefined || hooks.has("post_tool_call") || hooks.has("transform_tool_result")

const finishObservedCall = Effect.fnUntraced(function* <E>(
  batch: Batch<E>,
  ready: Prepare.ReadyCall,
  settlement: ToolExecution.Settlement,
  durationMillis: number
): Effect.fn.Return<SettledCall> {
  const { interceptors } = batch
  const seen = yield* notifyToolEnd(interceptors, ready, settlement, durationMillis)
  const { lifecycle } = interceptors.stack
  const after =
    lifecycle === undefined || settlement.status === "blocked"
      ? undefined
      : yield* LifecycleTools.applyAfterTool(
          lifecycle,
          ready.context,
          settlement.args,
          { raw: settlement.raw, llm: seen === settlement.output ? undefined : seen, isError: settlement.isFailure },
          ready.bound.facts
        )
  return toSettledCall(batch, ready, settlement, durationMillis, seen, after)
})

type AfterToolResult = Effect.Success<ReturnType<typeof LifecycleTools.applyAfterTool>>

const toSettledCall = <E>(
  batch: Batch<E>,
  ready: Prepare.ReadyCall,
  settlement: ToolExecution.Settlement,
  durationMillis: number,
  seen: string,
  after: AfterToolResult | undefined
): SettledCall => {
  const isChanged = after?.isChanged === true
  const verdict = checkLoopGuard(batch, ready, settlement)
  return {
    ...settlement,
    call: ready.call,
    ran: settlement.status !== "blocked",
    durationMillis,
    output: isChanged ? after.output : seen,
    ...(isChanged ? { modelOutput: undefined } : {}),
    ...(after?.isRefused === true ? { status: "error" as const, isFailure: true } : {}),
    bound: ready.bound.facts.resultBound,
    remark: verdict._tag === "Fine" ? undefined : verdict.message,
    halted: verdict._tag === "Halt" ? verdict.message : undefined
  }
}

const runPreparedCall = <E>(
  batch: Batch<E>,
  begin: (ready: Prepare.ReadyCall) => Effect.Effect<void, E>,
  prepared: Prepare.PreparedCall,
  concurrency: number,
  recording: CallRecording.Recording | undefined
): Effect.Effect<SettledCall, E, ToolContext> =>
  prepared._tag === "Ready"
    ? Effect.suspend(() => {
        if (batch.mayStart?.() === false) return Effect.never
        const ran = CallRecording.recordNestedInterrupt(
          recording,
          prepared
        )(runReadyCall(batch, prepared, recording?.recorder))
        // Calls side by side all begin before one of them ends, however quick it is.
        return Effect.andThen(begin(prepared), concurrency === 1 ? ran : Effect.andThen(Effect.yieldNow, ran))
      })
    : Effect.succeed({
        ...prepared,
        ran: false,
        isFailure: prepared.status !== "ok",
        modelOutput: undefined,
        blockedBy: undefined,
        durationMillis: 0,
        bound: undefined
      })

/** Number of calls that run at a time, reported to observers of the run. */
const decideConcurrency = Effect.fnUntraced(function* (
  emit: Batch<never>["emit"],
  entries: ReadonlyArray<Prepare.PreparedCall>
): Effect.fn.Return<number, never, ToolContext> {
  const { cwd } = yield* ToolContext
  const candidates = entries.flatMap((entry) =>
    entry._tag === "Ready" ? [{ name: entry.call.name, facts: entry.bound.facts, params: entry.args }] : []
  )
  if (candidates.length < 2) return 1
  const { mode, reason } = ToolSchedule.decide(candidates, cwd)
  if (emit !== undefined) yield* emit([{ _tag: "ToolsScheduled", calls: candidates.length, mode, reason }])
  return mode === "parallel" ? ToolSchedule.maxConcurrency : 1
})

interface ClosedCall {
  readonly message: Prompt.ToolMessage
  readonly halted: string | undefined
}

const toResult = ({ bound, call, modelOutput, output }: SettledCall): ResultText.Result => ({
  callId: call.id,
  tool: call.name,
  text: output,
  bound,
  multimodal: modelOutput !== undefined
})

/**
 * Closes calls as they end, each result within its limit and all within the budget of the batch; the answers are in the
 * order of the work.
 *
 * The budget takes the largest results first, which are not known before all are there. But a result of no more than an
 * equal share of the budget is never one of them, and is closed at once, so that it outlives a crash of the process; a
 * larger one waits for the others. An interrupt closes those that wait.
 *
 * Source: `hermes-llm.md` §19.9.
 */
const closeAllCalls = <E>(
  batch: Batch<E>,
  work: ReadonlyArray<Effect.Effect<SettledCall, E, ToolContext>>,
  concurrency: number,
  recording: CallRecording.Recording | undefined
): Effect.Effect<ReadonlyArray<ClosedCall>, E, ToolContext> =>
  Effect.suspend(() => {
    const { limits } = batch
    const share = limits.perTurn / Math.max(1, work.length)
    const waiting: Array<{ readonly index: number; readonly ended: SettledCall }> = []
    const closed = new Map<number, ClosedCall>()
    let spent = 0

    const closeWithText = (index: number, ended: SettledCall, text: string) =>
      Effect.map(closeCall(batch, ended, text, recording), (answer) => void closed.set(index, answer))
    const closeOrDefer = (index: number, ended: SettledCall): Effect.Effect<void, E, ToolContext> => {
      const result = toResult(ended)
      return Effect.flatMap(ResultText.boundResult(result, limits), (text) => {
        if (text === result.text && text.length > share && ResultText.isMovable(result)) {
          waiting.push({ index, ended })
          return Effect.void
        }
        spent += text.length
        return closeWithText(index, ended, text)
      })
    }
    // Whole or not at all: an interrupt would leave the rest open.
    const closeWaiting = Effect.uninterruptible(
      Effect.suspend(() => {
        const late = waiting.splice(0)
        if (late.length === 0) return Effect.void
        const left = { ...limits, perTurn: Math.max(0, limits.perTurn - spent) }
        return Effect.flatMap(
          ResultText.boundAll(
            late.map(({ ended }) => toResult(ended)),
            left
          ),
          (texts) =>
            Effect.forEach(late, ({ ended, index }, at) => closeWithText(index, ended, texts[at] ?? ended.output), {
              discard: true
            })
        )
      })
    )

    return Effect.forEach(work, (one, index) => Effect.flatMap(one, (ended) => closeOrDefer(index, ended)), {
      concurrency,
      discard: true
    }).pipe(
      Effect.onInterrupt(() => closeWaiting),
      Effect.andThen(closeWaiting),
      Effect.map(() =>
        Array.from(closed)
          .sort(([a], [b]) => a - b)
          .map(([, answer]) => answer)
      )
    )
  })

/** {@link closeAllCalls} of a single call: its share is the whole budget. */
const closeSingleCall = <E>(
  batch: Batch<E>,
  work: Effect.Effect<SettledCall, E, ToolContext>,
  recording: CallRecording.Recording | undefined
): Effect.Effect<ReadonlyArray<ClosedCall>, E, ToolContext> =>
  Effect.flatMap(work, (ended) => {
    const result = toResult(ended)
    return Effect.flatMap(ResultText.boundResult(result, batch.limits), (text) =>
      text === result.text && text.length > batch.limits.perTurn
        ? closeAllCalls(batch, [Effect.succeed(ended)], 1, recording)
        : Effect.map(closeCall(batch, ended, text, recording), (answer) => [answer])
    )
  })

const runBatch = Effect.fnUntraced(function* <E>(
  batch: Batch<E>
): Effect.fn.Return<BatchOutcome, E, ToolContext | Scope.Scope> {
  const entries: Array<Prepare.PreparedCall> = []
  for (const call of batch.calls) {
    entries.push(yield* Prepare.prepare(batch, call))
  }
  const [first] = entries
  if (batch.stored !== undefined && (first?._tag !== "Ready" || !canLeaveTraces(first))) yield* batch.stored
  const concurrency = entries.length === 1 ? 1 : yield* decideConcurrency(batch.emit, entries)
  const recording = yield* CallRecording.findRecording(batch, concurrency > 1)
  const begin = planStarts(batch, entries, concurrency, recording)
  if (concurrency > 1) yield* begin.first
  const work = entries.map((entry) => runPreparedCall(batch, begin.of, entry, concurrency, recording))
  const [only] = work
  const results = yield* only !== undefined && work.length === 1
    ? closeSingleCall(batch, only, recording)
    : closeAllCalls(batch, work, concurrency, recording)
  return {
    messages: results.map(({ message }) => message),
    halted: results.find(({ halted }) => halted !== undefined)?.halted,
    invalid:
      entries.some((entry) => entry._tag === "Refused" && entry.invalid === true) ||
      entries.every((entry) => entry._tag === "Refused" && entry.status === "error")
  }
})

/**
 * Runs a batch. Interruption interrupts every call that still runs; a call that was announced is closed on every path.
 */
export const run = <E>(batch: Batch<E>): Effect.Effect<BatchOutcome, E, ToolContext> =>
  Effect.updateContext(Effect.scoped(runBatch(batch)), (context: Context.Context<ToolContext>) => {
    const { history } = batch
    const nesting = Context.add(context, NestedCalls, makeNestedRun(batch))
    return history === undefined ? nesting : Context.add(nesting, ConversationHistory, history)
  })

/** A call that is not run for the model: its result is returned and not stored. */
export const runOne = (
  batch: Omit<Batch<never>, "begin" | "calls" | "history" | "notes" | "settled" | "stored">,
  { params, ...call }: Prompt.ToolCallPart
): Effect.Effect<NestedOutcome, never, ToolContext> => {
  const part = Prompt.toolCallPart({ ...call, params: Normalise.readArguments(call.name, params, batch.tools) })
  const ran = run<never>({
    ...batch,
    calls: [part],
    notes: undefined,
    begin: () => Effect.void,
    settled: (_call, _message, told) => Effect.sync(told)
  })
  return Effect.map(Effect.provideService(ran, ConversationHistory, undefined), ({ messages }) => {
    const part = messages[0]?.content.find((part) => part.type === "tool-result")
    return part === undefined
      ? { output: { error: "the call gave no result" }, isFailure: true }
      : { output: part.result, isFailure: part.isFailure }
  })
}

/**
 * Calls that a tool of the batch makes: run like the batch's calls, but not reported as results of the model's calls.
 * The tool gets their complete results.
 */
const makeNestedRun =
  <E>(batch: Batch<E>): NestedRun =>
  (call) => {
    const { history: _, stored: __, ...rest } = batch
    return runOne({ ...rest, limits: ResultText.unlimited }, call)
  }
