/**
 * Runs the tool calls of one assistant message as a batch. The calls are prepared in model order, scheduled and run,
 * and each is closed with exactly one result; the results are returned in model order. A failed call produces an error
 * result for the model and never fails the run.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import { ConversationHistory, NestedCalls, type NestedOutcome, type NestedRun, ToolContext } from "./ToolContext.ts"
import * as CallClosing from "./CallClosing.ts"
import * as CallRecording from "./CallRecording.ts"
import * as Normalise from "./calls/Normalise.ts"
import * as Prepare from "./Prepare.ts"
import * as RunningCall from "./RunningCall.ts"
import * as ResultText from "./ResultText.ts"
import * as ToolSchedule from "./ToolSchedule.ts"

/** Calls of one answer, with the parts of their run. `E` is the error type of `begin` and `settled`. */
interface Batch<E> extends Prepare.CallEnvironment, CallClosing.ClosingBatch<E> {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  /** Limits on the results that reach the model. */
  readonly limits: ResultText.Limits
  /**
   * Returns true if a call may start. A call that may not start waits until it is interrupted. By default, every call
   * may start.
   */
  readonly mayStart?: (() => boolean) | undefined
  /**
   * Returns true if a tool result in the conversation contains a text; `undefined` for calls outside a conversation.
   */
  readonly history?: ((json: string) => boolean) | undefined
  /**
   * Stores that calls are about to start, before any of them starts. `told` records the starts; call it after they are
   * stored.
   */
  readonly begin: (calls: ReadonlyArray<Prompt.ToolCallPart>, told: () => void) => Effect.Effect<void, E>
}

/** Outcome of a batch. */
export interface BatchOutcome {
  /** Result messages, in model order. */
  readonly messages: ReadonlyArray<Prompt.ToolMessage>
  /** Reason why the run must end, if a guard ends it. */
  readonly halted: string | undefined
  /** True if a call could not be attempted: its tool is unknown, or its arguments are not an object. */
  readonly invalid: boolean
  /** Ids of the calls that wait for an answer, and of those that run after them. They have no result. */
  readonly waiting: ReadonlyArray<string>
}

/**
 * Returns true if a call must be recorded as started, so that it is never mistaken for a call that did not run. Tools
 * that are declared read-only and work on this machine are excluded: repeating such a call has no effect.
 */
const canLeaveTraces = ({ bound: { facts } }: Prepare.ReadyCall): boolean => facts.readonly !== true || facts.foreign

/**
 * Plans when starts are recorded: calls that start together are recorded together, and every other call is recorded
 * right before it starts.
 */
const planStarts = <E>(
  { begin, emit }: Batch<E>,
  entries: ReadonlyArray<Prepare.PreparedCall>,
  { closer, concurrency, recording }: Pick<BatchPlan<E>, "closer" | "concurrency" | "recording">
) => {
  const noted =
    concurrency === 1
      ? []
      : entries.filter((entry): entry is Prepare.ReadyCall => entry._tag === "Ready" && canLeaveTraces(entry))
  // Calls that start together.
  const together = noted.slice(0, concurrency)
  // Calls that start together are recorded together, before any of them runs.
  const recordStarts = (some: Iterable<Prepare.ReadyCall>): void => {
    if (recording !== undefined) for (const one of some) CallRecording.recordStart(recording, one)
  }
  const startNoted = (some: ReadonlyArray<Prepare.ReadyCall>): Effect.Effect<void, E> =>
    Effect.uninterruptibleMask(() => {
      const calls = some.map(({ call }) => call)
      const stored = begin(calls, () => recordStarts(some))
      const begun = emit === undefined ? stored : Effect.andThen(stored, closer.report)
      return recording === undefined ? begun : Effect.andThen(begun, recording.recorder.flush)
    })
  const startQuietly = (one: Prepare.ReadyCall): Effect.Effect<void> => {
    const recorded = Effect.sync(() => recordStarts([one]))
    return recording?.recorder.isHeard() === true ? Effect.andThen(recorded, recording.recorder.flush) : recorded
  }
  return {
    first: together.length === 0 ? Effect.void : startNoted(together),
    of: (one: Prepare.ReadyCall): Effect.Effect<void, E> =>
      together.includes(one) ? Effect.void : canLeaveTraces(one) ? startNoted([one]) : startQuietly(one)
  }
}

/** Prepared calls of a batch, with their concurrency and record. */
interface BatchPlan<E> {
  readonly concurrency: number
  readonly recording: CallRecording.Recording | undefined
  readonly closer: CallClosing.CallCloser<E>
  readonly entries: ReadonlyArray<Prepare.PreparedCall>
  /** `isHeld` is true after a call was suspended in whose place the calls after it must not run. */
  readonly order: { isHeld: boolean }
}

/** Notes that a call waits. Calls that run one after another wait with it. */
const noteWaitingCall = <E>(plan: BatchPlan<E>, index: number): void => {
  const entry = plan.entries[index]
  if (entry?._tag === "Ready" && plan.recording !== undefined && !plan.order.isHeld)
    CallRecording.recordSuspension(plan.recording, entry.call)
  if (plan.concurrency === 1) plan.order.isHeld = true
}

const toRefusedCall = (refused: Prepare.RefusedCall): CallClosing.SettledCall => ({
  ...refused,
  ran: false,
  isFailure: refused.status !== "ok",
  modelOutput: undefined,
  blockedBy: undefined,
  durationMillis: 0,
  bound: undefined
})

/** A call of a batch. Runs it and closes it. */
type CallWork<E> = <A>(close: RunningCall.Close<A, E>) => Effect.Effect<A, E, ToolContext>

const runPreparedCall = <E, A>(
  batch: Batch<E>,
  begin: (ready: Prepare.ReadyCall) => Effect.Effect<void, E>,
  prepared: Prepare.PreparedCall,
  { concurrency, order, recording }: BatchPlan<E>,
  close: RunningCall.Close<A, E>
): Effect.Effect<A, E, ToolContext> =>
  prepared._tag === "Ready"
    ? Effect.suspend((): Effect.Effect<A, E, ToolContext> => {
        if (batch.mayStart?.() === false) return Effect.never
        if (order.isHeld) return close(undefined)
        const ran = RunningCall.runReadyCall(batch, prepared, recording, close)
        // All parallel calls begin before any of them ends, even if one finishes immediately.
        return Effect.andThen(begin(prepared), concurrency === 1 ? ran : Effect.andThen(Effect.yieldNow, ran))
      })
    : Effect.uninterruptible(
        Effect.suspend(() => close(prepared._tag === "Suspended" ? undefined : toRefusedCall(prepared)))
      )

/** Decides how many calls run at a time, and reports the number to observers of the run. */
const decideConcurrency = Effect.fnUntraced(function* (
  { emit, tools }: Pick<Batch<never>, "emit" | "tools">,
  entries: ReadonlyArray<Prepare.PreparedCall>
): Effect.fn.Return<number, never, ToolContext> {
  const { cwd } = yield* ToolContext
  const candidates = entries.flatMap((entry) => {
    if (entry._tag === "Ready") return [{ name: entry.call.name, facts: entry.bound.facts, params: entry.args }]
    // A call that waits counts, so that a call that depends on it does not run before it.
    const facts = entry._tag === "Suspended" ? tools.get(entry.call.name)?.facts : undefined
    return facts === undefined ? [] : [{ name: entry.call.name, facts, params: entry.call.params }]
  })
  if (candidates.length < 2) return 1
  const { mode, reason } = ToolSchedule.decide(candidates, cwd)
  if (emit !== undefined) yield* emit([{ _tag: "ToolsScheduled", calls: candidates.length, mode, reason }])
  return mode === "parallel" ? ToolSchedule.maxConcurrency : 1
})

/** A call of a batch that has ended, by its place in the batch. */
interface IndexedCall extends CallClosing.EndedCall {
  readonly index: number
}

/** Returns true if the start of a call is stored at once, before anything else happens. */
const startsAtOnce = <E>({ mayStart }: Batch<E>, next: Prepare.PreparedCall | undefined): boolean =>
  next?._tag === "Ready" && canLeaveTraces(next) && mayStart?.() !== false

/** Closes the calls of a batch in the order in which they end. Results wait only for a write that follows at once. */
const makeClosingLine = <E>(batch: Batch<E>, { closer, concurrency, entries }: BatchPlan<E>) => {
  const closed = new Map<number, CallClosing.ClosedCall>()
  /** Calls whose results are stored by the fiber that has the first of them. */
  let ready: Array<IndexedCall> = []

  const closeReady = Effect.suspend(() => {
    const group = ready
    ready = []
    return group.length === 0
      ? Effect.void
      : Effect.map(closer.closeAll(group), (answers) =>
          answers.forEach((answer, at) => closed.set(group[at]?.index ?? 0, answer))
        )
  })
  return {
    closeReady,
    closeAll: (calls: ReadonlyArray<IndexedCall>): Effect.Effect<void, E> => {
      ready.push(...calls)
      return closeReady
    },
    close: (one: IndexedCall): Effect.Effect<void, E> => {
      if (concurrency === 1) {
        const isNextStarted = startsAtOnce(batch, entries[one.index + 1])
        return Effect.map(
          isNextStarted ? closer.postpone(one) : closer.close(one),
          (answer) => void closed.set(one.index, answer)
        )
      }
      ready.push(one)
      // Calls that end at the same time are closed by one write.
      return ready.length > 1 ? Effect.void : Effect.andThen(Effect.yieldNow, closeReady)
    },
    /** Returns the closed calls in the order of the batch. */
    listClosed: (): ReadonlyArray<CallClosing.ClosedCall> =>
      Array.from(closed)
        .sort(([a], [b]) => a - b)
        .map(([, answer]) => answer)
  }
}

/**
 * Closes calls as they end and limits each result and the total to the budget of the batch. The results are returned in
 * the order of the calls.
 *
 * The budget shortens the largest results first, and they are known only when all results are present. A result within
 * an equal share of the budget is never shortened, so it is closed at once and survives a crash of the process. A
 * larger result waits for the others. An interruption closes the waiting results.
 *
 * Source: `hermes-llm.md` §19.9.
 */
const closeAllCalls = <E>(
  batch: Batch<E>,
  work: ReadonlyArray<CallWork<E>>,
  plan: BatchPlan<E>
): Effect.Effect<ReadonlyArray<CallClosing.ClosedCall>, E, ToolContext> =>
  Effect.suspend(() => {
    const { closer, concurrency } = plan
    const { limits } = batch
    const share = limits.perTurn / Math.max(1, work.length)
    const waiting: Array<IndexedCall> = []
    const line = makeClosingLine(batch, plan)
    let spent = 0

    const closeOrDefer = (
      index: number,
      ended: CallClosing.SettledCall | undefined
    ): Effect.Effect<void, E, ToolContext> => {
      if (ended === undefined) {
        noteWaitingCall(plan, index)
        return Effect.void
      }
      const result = CallClosing.toResult(ended)
      return Effect.flatMapEager(ResultText.boundResult(result, limits), (text) => {
        if (text === result.text && text.length > share && ResultText.isMovable(result)) {
          waiting.push({ index, ended, text })
          return Effect.void
        }
        spent += text.length
        return line.close({ index, ended, text })
      })
    }
    // Closes all waiting results or none: an interruption would leave the rest open.
    const closeWaiting = Effect.uninterruptible(
      Effect.suspend(() => {
        const late = waiting.splice(0)
        if (late.length === 0) return line.closeReady
        const left = { ...limits, perTurn: Math.max(0, limits.perTurn - spent) }
        return Effect.flatMap(
          ResultText.boundAll(
            late.map(({ ended }) => CallClosing.toResult(ended)),
            left
          ),
          (texts) => line.closeAll(late.map((one, at) => ({ ...one, text: texts[at] ?? one.text })))
        )
      })
    )

    return Effect.forEach(work, (runCall, index) => runCall((ended) => closeOrDefer(index, ended)), {
      concurrency,
      discard: true
    }).pipe(
      Effect.onInterrupt(() => Effect.andThen(closer.settle, closeWaiting)),
      Effect.andThen(closeWaiting),
      Effect.map(() => line.listClosed())
    )
  })

/** {@link closeAllCalls} for a single call, whose share is the whole budget. */
const closeSingleCall = <E>(
  batch: Batch<E>,
  runCall: CallWork<E>,
  plan: BatchPlan<E>
): Effect.Effect<ReadonlyArray<CallClosing.ClosedCall>, E, ToolContext> =>
  runCall((ended): Effect.Effect<ReadonlyArray<CallClosing.ClosedCall>, E, ToolContext> => {
    if (ended === undefined) {
      noteWaitingCall(plan, 0)
      return Effect.succeed([])
    }
    const result = CallClosing.toResult(ended)
    return Effect.flatMapEager(ResultText.boundResult(result, batch.limits), (text) =>
      text === result.text && text.length > batch.limits.perTurn
        ? closeAllCalls(batch, [(close) => close(ended)], plan)
        : Effect.map(plan.closer.close({ ended, text }), (answer) => [answer])
    )
  })

/** Note for the model about a call that was approved with other parameters. */
const describeEdit = (params: unknown): string =>
  `The user changed the parameters of this call before approving it; it ran with ${JSON.stringify(params)}`

/** Applies the answers of earlier runs to the calls of a batch: parameters that an answer changed. */
const applyEdits = <E>(batch: Batch<E>): Batch<E> => {
  const { questions } = batch
  if (questions === undefined || !batch.calls.some(({ id }) => questions.findEdit(id) !== undefined)) return batch
  const notes = new Map(batch.notes)
  const calls = batch.calls.map((call) => {
    const edit = questions.findEdit(call.id)
    if (edit === undefined) return call
    const edited = Prompt.toolCallPart({ ...call, params: edit.params })
    notes.set(edited, describeEdit(edit.params))
    return edited
  })
  return { ...batch, calls, notes }
}

/** Returns the ids of the calls without a result. */
const listOpenIds = <E>({ calls }: Batch<E>, results: ReadonlyArray<CallClosing.ClosedCall>): ReadonlyArray<string> => {
  const closed = new Set(results.flatMap(({ message }) => Conversation.listResultIds(message)))
  return calls.flatMap(({ id }) => (closed.has(id) ? [] : [id]))
}

const runBatch = Effect.fnUntraced(function* <E>(
  given: Batch<E>
): Effect.fn.Return<BatchOutcome, E, ToolContext | Scope.Scope> {
  const batch = applyEdits(given)
  const entries: Array<Prepare.PreparedCall> = []
  const { questions } = batch
  for (const call of batch.calls) {
    const isWaiting =
      questions?.hasQuestions(call.id) === true && questions.isWaiting(call.id, yield* Clock.currentTimeMillis)
    entries.push(isWaiting ? { _tag: "Suspended", call } : yield* Prepare.prepare(batch, call))
  }
  const [first] = entries
  if (batch.stored !== undefined && (first?._tag !== "Ready" || !canLeaveTraces(first))) yield* batch.stored
  const concurrency = entries.length === 1 ? 1 : yield* decideConcurrency(batch, entries)
  const recording = yield* CallRecording.findRecording(batch, concurrency > 1)
  const closer = CallClosing.makeCloser(batch, recording)
  const plan: BatchPlan<E> = { closer, concurrency, recording, entries, order: { isHeld: false } }
  const begin = planStarts(batch, entries, plan)
  if (concurrency > 1) yield* begin.first
  const work = entries.map(
    (entry): CallWork<E> =>
      (close) =>
        runPreparedCall(batch, begin.of, entry, plan, close)
  )
  const [only] = work
  const results = yield* only !== undefined && work.length === 1
    ? closeSingleCall(batch, only, plan)
    : closeAllCalls(batch, work, plan)
  return {
    waiting: results.length === entries.length ? [] : listOpenIds(batch, results),
    messages: results.map(({ message }) => message),
    halted: results.find(({ halted }) => halted !== undefined)?.halted,
    invalid:
      entries.some((entry) => entry._tag === "Refused" && entry.invalid === true) ||
      entries.every((entry) => entry._tag === "Refused" && entry.status === "error")
  }
})

/** Runs a batch. Interruption interrupts every running call. An announced call is closed in all cases. */
export const run = <E>(batch: Batch<E>): Effect.Effect<BatchOutcome, E, ToolContext> =>
  Effect.updateContext(Effect.scoped(runBatch(batch)), (context: Context.Context<ToolContext>) => {
    const { history } = batch
    const nesting = Context.add(context, NestedCalls, makeNestedRun(batch))
    return history === undefined ? nesting : Context.add(nesting, ConversationHistory, history)
  })

/** Runs a call that does not come from the model: its result is returned and not stored. */
export const runOne = (
  batch: Omit<
    Batch<never>,
    "begin" | "calls" | "history" | "notes" | "postponed" | "questions" | "settled" | "stored" | "succeeded"
  >,
  { params, ...call }: Prompt.ToolCallPart
): Effect.Effect<NestedOutcome, never, ToolContext> => {
  const part = Prompt.toolCallPart({ ...call, params: Normalise.readArguments(call.name, params, batch.tools) })
  const ran = run<never>({
    ...batch,
    calls: [part],
    notes: undefined,
    begin: (_calls, told) => Effect.sync(told),
    settled: (_call, _message, told) => Effect.sync(told)
  })
  return Effect.map(Effect.provideService(ran, ConversationHistory, undefined), ({ messages }) => {
    const part = messages[0]?.content.find((part) => part.type === "tool-result")
    return part === undefined
      ? { output: { error: "the call gave no result" }, isFailure: true }
      : { output: part.result, isFailure: part.isFailure, modelOutput: part.modelOutput }
  })
}

/**
 * Creates the function that runs calls made by a tool of the batch. They run like the batch's calls but are not
 * reported as results of the model's calls. The tool receives their complete results.
 */
const makeNestedRun =
  <E>(batch: Batch<E>): NestedRun =>
  (call) => {
    const { history: _, postponed: _____, questions: ____, stored: __, succeeded: ___, ...rest } = batch
    return runOne({ ...rest, limits: ResultText.unlimited }, call)
  }
