/**
 * Closes the calls of a batch: the result of each call is stored, and then its end is reported.
 *
 * **Details**
 *
 * Results are stored before anything else happens. A write that follows at once may take a result with it: the start of
 * the next call, or the results of calls that end at the same time. The store then commits once for several results.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import type { CallEnd } from "../base/domain/RunDetails.ts"
import type { RunEvent, ToolFinished } from "../base/domain/RunEvent.ts"
import * as CallRecording from "./CallRecording.ts"
import type * as ResultText from "./ResultText.ts"
import type * as ToolExecution from "./ToolExecution.ts"

/**
 * Function that stores the result of a call. `recordEndOfCall` records the end of the call; it is called after the
 * result is stored.
 */
export type StoreResult<E> = (
  call: Prompt.ToolCallPart,
  message: Prompt.ToolMessage,
  recordEndOfCall: () => void,
  facts: CallFacts
) => Effect.Effect<void, E>

/** The parts of a batch that its calls are closed with. `E` is the error type of the store. */
export interface ClosingBatch<E> {
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Notes for the model. They are added to the results of calls that were changed before they reached the batch. */
  readonly notes?: ReadonlyMap<Prompt.ToolCallPart, string> | undefined
  /**
   * Receives each successful call of the answer, with the arguments and the result before remarks are added to it.
   */
  readonly succeeded?: ((call: Prompt.ToolCallPart, args: unknown, text: string) => void) | undefined
  /** Stores every result as soon as it exists, in order of completion. */
  readonly settled: StoreResult<E>
  /**
   * Like `settled`, but the result is stored by the next `begin`, `settled` or `stored`, whichever comes first. By
   * default, every result is stored by `settled`.
   */
  readonly postponed?: StoreResult<E> | undefined
  /**
   * Stores the answer that contains the calls and the postponed results, unless they are already stored. Only `begin`
   * is called earlier.
   */
  readonly stored?: Effect.Effect<void, E> | undefined
}

/** Facts about the end of a call. */
export interface CallFacts {
  /** Reason why the call did not run; `undefined` if it ran. */
  readonly reason: string | undefined
  readonly end: CallEnd
}

/** Settlement of one call, with the data needed to close it. */
export interface SettledCall extends Omit<ToolExecution.Settlement, "args" | "raw" | "value"> {
  readonly call: Prompt.ToolCallPart
  /** Value of the result; `undefined` if the text of the result is not the tool's own. */
  readonly value?: unknown
  /** Arguments that reached the tool; `undefined` if the call did not run. */
  readonly args?: unknown
  /** Reason why the call did not run; `undefined` if it ran. */
  readonly reason?: string | undefined
  readonly ran: boolean
  readonly durationMillis: number
  /** The tool's own limit on its results. */
  readonly bound: number | undefined
  /** Remark of the loop guard, added to the result. */
  readonly remark?: string | undefined
  readonly halted?: string | undefined
}

/** A call with a stored result. */
export interface ClosedCall {
  readonly message: Prompt.ToolMessage
  readonly halted: string | undefined
}

/** A call that has ended, with the text of its result within the limits. */
export interface EndedCall {
  readonly ended: SettledCall
  readonly text: string
}

/**
 * Creates the event of the end of a call. Its JSON contains the result once, as text: the value is not enumerable.
 */
const makeFinished = (
  event: Omit<typeof ToolFinished.Type, "_tag" | "result">,
  value: unknown
): typeof ToolFinished.Type => {
  const finished = { _tag: "ToolFinished" as const, ...event }
  return value === undefined ? finished : Object.defineProperty(finished, "result", { value, enumerable: false })
}

/** Returns the text of a result that the limits apply to. Its images and files are not part of it. */
const readLimitedText = ({ modelOutput, output }: Pick<SettledCall, "modelOutput" | "output">): string =>
  modelOutput === undefined
    ? output
    : modelOutput.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

/** Returns the output of a call with its text within the limits. */
const takeBoundedText = (ended: SettledCall, text: string): Pick<SettledCall, "modelOutput" | "output"> => {
  const { modelOutput, output } = ended
  if (modelOutput === undefined) return { output: text, modelOutput }
  if (text === readLimitedText(ended)) return { output, modelOutput }
  return {
    output: text,
    modelOutput: [Prompt.textPart({ text }), ...modelOutput.filter(({ type }) => type === "file")]
  }
}

/** Returns the text of a result to which limits are applied. */
export const toResult = (ended: SettledCall): ResultText.Result => ({
  callId: ended.call.id,
  tool: ended.call.name,
  text: readLimitedText(ended),
  bound: ended.bound
})

/** The result of a call, which is stored and then reported. */
interface Closing<E> {
  readonly closed: ClosedCall
  readonly store: (store: StoreResult<E>) => Effect.Effect<void, E>
  /** Event of the end of the call. It is emitted only from here. */
  readonly finished: RunEvent | undefined
}

const prepareClosing = <E>(
  { emit, notes, succeeded }: ClosingBatch<E>,
  { ended, text }: EndedCall,
  recording: CallRecording.Recording | undefined
): Closing<E> => {
  const { blockedBy, call, durationMillis, halted, isFailure, reason = blockedBy, remark, status, value } = ended
  const bounded = takeBoundedText(ended, text)
  const remarks = [notes?.get(call), remark].flatMap((line) => (line === undefined ? [] : [`[${line}]`]))
  const output = [bounded.output, ...remarks].join("\n\n")
  const modelOutput = bounded.modelOutput && [
    ...bounded.modelOutput,
    ...remarks.map((line) => Prompt.textPart({ text: line }))
  ]
  const message = Conversation.makeToolResult(call, { output, isFailure, modelOutput })
  const isOwn = value !== undefined && bounded.output === ended.output
  const end: CallEnd = {
    status,
    form: isOwn ? (typeof value === "string" ? "text" : "json") : "other",
    length: ended.output.length
  }
  if (!isFailure) succeeded?.(call, ended.args ?? call.params, bounded.output)
  const recordEndOfCall = (): void => {
    if (recording !== undefined) CallRecording.recordEnd(recording, ended, output)
  }
  return {
    closed: { message, halted },
    store: (store) => store(call, message, recordEndOfCall, { reason, end }),
    finished:
      emit === undefined
        ? undefined
        : makeFinished({ callId: call.id, name: call.name, status, output, durationMillis }, value)
  }
}

/**
 * Closes the calls of one batch. `close`, `closeAll` and `postpone` must run in an uninterruptible region, so that a
 * result is both stored and reported.
 */
export interface CallCloser<E> {
  /** Stores the result of a call and reports its end. */
  readonly close: (one: EndedCall) => Effect.Effect<ClosedCall, E>
  /** Stores the results of calls in one write, and reports their ends in the same order. */
  readonly closeAll: (all: ReadonlyArray<EndedCall>) => Effect.Effect<ReadonlyArray<ClosedCall>, E>
  /**
   * Like `close`, but the result is stored by the next start of a call, which then runs {@link CallCloser.report}. If
   * no start follows, {@link CallCloser.settle} is necessary.
   */
  readonly postpone: (one: EndedCall) => Effect.Effect<ClosedCall, E>
  /** Reports the calls whose results were postponed and are now stored. */
  readonly report: Effect.Effect<void>
  /** Stores the postponed results and reports their calls. */
  readonly settle: Effect.Effect<void, E>
}

/** Creates the closer of a batch whose calls are recorded in `recording`. */
export const makeCloser = <E>(
  batch: ClosingBatch<E>,
  recording: CallRecording.Recording | undefined
): CallCloser<E> => {
  const { emit, settled, postponed = settled, stored = Effect.void } = batch
  let unreported: Array<RunEvent> = []

  const report = Effect.suspend(() => {
    if (emit === undefined || unreported.length === 0) return Effect.void
    const events = unreported
    unreported = []
    return Effect.forEach(events, (event) => emit([event]), { discard: true })
  })
  const storeLater = (one: EndedCall): Effect.Effect<ClosedCall, E> => {
    const { closed, finished, store } = prepareClosing(batch, one, recording)
    return Effect.map(store(postponed), () => {
      if (finished !== undefined) unreported.push(finished)
      return closed
    })
  }
  const storeNow = (one: EndedCall): Effect.Effect<ClosedCall, E> => {
    const { closed, finished, store } = prepareClosing(batch, one, recording)
    const now = store(settled)
    return emit === undefined || finished === undefined
      ? Effect.as(now, closed)
      : Effect.as(Effect.andThen(now, Effect.andThen(report, emit([finished]))), closed)
  }
  return {
    report,
    settle: Effect.uninterruptible(
      Effect.suspend(() =>
        unreported.length === 0 && batch.postponed === undefined ? Effect.void : Effect.andThen(stored, report)
      )
    ),
    close: storeNow,
    closeAll: (all) => Effect.forEach(all, (one, index) => (index < all.length - 1 ? storeLater(one) : storeNow(one))),
    postpone: storeLater
  }
}
