/**
 * One pass of the loop: one model call, and the tools that it requested. Contains no policy: returns the outcome.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type { CompressionExhausted, SessionStoreError } from "../base/domain/AgentError.ts"
import * as AnswerText from "../base/domain/AnswerText.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { ContentPart, ModelResponse } from "../base/domain/ModelCall.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { CallIds } from "../middleware/Kind.ts"
import * as ResultText from "../tools/ResultText.ts"
import * as Normalise from "../tools/calls/Normalise.ts"
import * as Prepare from "../tools/Prepare.ts"
import * as ToolCalls from "../tools/ToolCalls.ts"
import type { ToolContext } from "../tools/ToolContext.ts"
import type { Snapshot } from "../tools/ToolRegistry.ts"
import * as Budget from "./Budget.ts"
import * as ModelRequest from "./ModelRequest.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import {
  getApiRequestId,
  getCurrentRoute,
  emit,
  makeBatch,
  noBatch,
  postponeMessages,
  type RunState,
  storeMessages,
  storeMessagesIn
} from "./RunState.ts"
import { type MiddlewareFailure, Services } from "./Services.ts"

/** Outcome of one step. */
export type Outcome =
  /** The model answered and asks for nothing more. */
  | { readonly _tag: "Finished"; readonly text: string }
  /** Tools were asked for, and every call has its result. */
  | ContinueOutcome
  /** The output limit cut the answer. Its text is in the conversation, unless calls were cut: then nothing of it is. */
  | { readonly _tag: "Truncated"; readonly text: string; readonly cut: "text" | "calls" | "thinking" }
  /** The answer went beyond a bound and was ended there; its text up to it is in the conversation. */
  | { readonly _tag: "Endless"; readonly text: string }
  /**
   * The connection was lost in the middle of the answer, and the rest could not be had. Its text is in the
   * conversation.
   */
  | { readonly _tag: "BrokenOff"; readonly text: string }
  /** The provider paused in the middle of an answer, which is kept; asked again, it goes on. */
  | { readonly _tag: "Paused"; readonly text: string }
  /** Neither text nor calls; `reasoned` when there was reasoning, which is in the conversation then. */
  | { readonly _tag: "Empty"; readonly reasoned: boolean }
  /** The provider's content filter ended the answer. */
  | { readonly _tag: "Filtered"; readonly text: string }
  /** A guardrail ended the run. */
  | { readonly _tag: "Halted"; readonly message: string }

/** See {@link Outcome}. */
interface ContinueOutcome {
  readonly _tag: "Continue"
  /** Text beside the calls. */
  readonly text: string
  readonly tools: ReadonlyArray<string>
  /** True when a call of the step could not even be tried: an unknown tool, arguments that are no object. */
  readonly invalid: boolean
}

/** Times in a row that middleware may go on after an answer that asks for nothing. */
const maxForced = 8

/** Default number of `delegate_task` calls accepted in one message (`ARCHITECTURE.md` §7). */
const delegationsPerStep = 1

/** A part of an answer as the conversation has it. */
export const toPromptPart =
  (step: number) =>
  (part: ContentPart, index: number): Prompt.AssistantMessagePart => {
    switch (part.type) {
      case "text":
        return Prompt.textPart({ text: part.text, options: part.metadata })
      case "reasoning":
        return Prompt.reasoningPart({ text: part.text, options: part.metadata })
      case "file":
        return Prompt.filePart({ mediaType: part.mediaType, data: part.data, options: part.metadata })
      case "tool-call":
        return Prompt.toolCallPart({
          // An answer without an id gets one that is the same whenever it is read again.
          id: part.id === "" ? `call_${step}_${index}` : part.id,
          name: part.name,
          params: part.params,
          providerExecuted: part.providerExecuted,
          options: part.metadata
        })
    }
  }

/** Puts messages into the conversation and the store, at once. */
export const appendMessages = (
  run: RunState,
  ...messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> => {
  run.messages.push(...messages)
  return storeMessages(run, messages)
}

/**
 * Returns the size limits of a step's tool results in characters: the agent's settings, or limits that fit the window
 * of the run's model.
 *
 * Source: `hermes-llm.md` §19.9.
 */
const getResultLimits = (run: RunState): Effect.Effect<ResultText.Limits, never, Services> =>
  Services.use(({ router: { catalogue }, settings }) => {
    if (settings.resultLimits !== undefined) return Effect.succeed(settings.resultLimits)
    if (catalogue === undefined) return Effect.succeed(ResultText.defaultLimits)
    const known = Effect.flatMap(getCurrentRoute(run, run.routeWanted), (route) => catalogue.known(route))
    // An unknown window is no reason to give less.
    return Effect.map(known, ({ window: { source, tokens } }) =>
      ResultText.computeLimits(source === "default" ? undefined : tokens)
    )
  })

const toCallIds = (run: RunState): CallIds => ({
  sessionId: run.sessionId,
  taskId: run.taskId,
  turnId: run.turnId,
  apiRequestId: getApiRequestId(run)
})

/** Notes for the model, by the calls whose results they are added to. */
type Notes = ReadonlyMap<Prompt.ToolCallPart, string>

const noNotes: Notes = new Map()

const runTools = Effect.fnUntraced(function* (
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  notes: Notes,
  tools: Snapshot
): Effect.fn.Return<ToolCalls.BatchOutcome, SessionStoreError, Services | ToolContext> {
  const { approvals, interceptors, store } = yield* Services
  const { batch, recorder } = run
  // Observers of a call may take their time.
  if (recorder !== undefined && !Prepare.isUnobserved(interceptors)) {
    yield* recorder.settled
    yield* recorder.flush
  }
  return yield* ToolCalls.run({
    calls,
    notes,
    tools,
    interceptors,
    guard: run.guard,
    approvals,
    limits: yield* getResultLimits(run),
    messages: run.messages,
    ids: toCallIds(run),
    emit: run.emit,
    history: (json) => Conversation.hasResultText(run.messages, json),
    mayStart: () => !run.isStopping,
    stored: recorder === undefined ? undefined : Effect.andThen(recorder.settled, recorder.flush),
    begin: (started) => {
      const ids = started.map(({ id }) => id)
      const noted = store.begin(run.sessionId, ids)
      return Effect.map(recorder === undefined ? noted : recorder.storing(noted, () => {}), () => {
        for (const id of ids) batch.begun.add(id)
      })
    },
    settled: (call, message, told) =>
      Effect.map(storeMessagesIn(store, run, [message], told), () => void batch.results.set(call.id, message)),
    quota: () => Budget.takeToolCall(run.budget)
  })
})

/** Tools that a model may go in circles with; any other shows that it does not. */
const looking: ReadonlySet<string> = new Set(["read_file", "search_files"])

/** True of a call that the runtime is to run. */
export const isCall = <P extends ContentPart | Prompt.AssistantMessagePart>(
  part: P
): part is Extract<P, { readonly type: "tool-call" }> => part.type === "tool-call" && !part.providerExecuted

/** Collects the notes of the calls as they are stored, in the order of the answer's parts. */
const collectNotes = (
  { notes, parts }: Normalise.NormalisedCalls,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Notes =>
  notes.size === 0
    ? noNotes
    : new Map(
        content.flatMap((stored, index) => {
          const part = parts[index]
          const note = part === undefined ? undefined : notes.get(part)
          return note !== undefined && isCall(stored) ? [[stored, note]] : []
        })
      )

/**
 * The calls that are run, and their notes: without those that middleware removed, and with the parameters that it gave.
 */
const selectWantedCalls = (
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  notes: Notes,
  { edited, removed }: RunLifecycle.ReviewedAnswer
): { readonly notes: Notes; readonly wanted: ReadonlyArray<Prompt.ToolCallPart> } => {
  if (removed.size === 0 && edited.size === 0) return { notes, wanted: calls }
  const changed = new Map(notes)
  const wanted = calls.flatMap((call) => {
    if (removed.has(call.id)) return []
    const other = edited.has(call.id) ? Prompt.toolCallPart({ ...call, params: edited.get(call.id) }) : call
    const note = notes.get(call)
    if (note !== undefined) changed.set(other, note)
    return [other]
  })
  return { notes: changed, wanted }
}

/** Keeps what is fit to be sent back of an answer. */
const storeAnswer = (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Effect.Effect<void, SessionStoreError, Services> => {
  run.textStored = true
  return content.length === 0 ? Effect.void : appendMessages(run, Prompt.assistantMessage({ content }))
}

/** Stores an answer with calls, together with the beginning of the first calls if nothing happens in between. */
const storeToolCalls = (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  calls: ReadonlyArray<Prompt.ToolCallPart>
): Effect.Effect<void, SessionStoreError, Services> =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      run.textStored = true
      const message = Prompt.assistantMessage({ content })
      run.messages.push(message)
      // Calls that are in the session are closed, wherever the run is cut.
      return Effect.map(postponeMessages(run, [message]), () => void (run.batch = makeBatch(calls)))
    })
  )

/** Nothing that a user could see. */
const isBlank = (text: string): boolean => text.trim() === ""

const withoutText = (content: ReadonlyArray<Prompt.AssistantMessagePart>): ReadonlyArray<Prompt.AssistantMessagePart> =>
  content.filter(({ type }) => type !== "text")

/** An answer that the output limit cut. One with calls is not kept: the same question is asked again. */
const handleTruncatedAnswer = Effect.fnUntraced(function* (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  text: string,
  callsCut: boolean
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  if (callsCut) return { _tag: "Truncated", text, cut: "calls" }
  if (isBlank(text))
    return { _tag: "Truncated", text: "", cut: withoutText(content).length === 0 ? "text" : "thinking" }
  yield* storeAnswer(run, content)
  return { _tag: "Truncated", text, cut: "text" }
})

/** An answer without calls. */
const handleFinalAnswer = Effect.fnUntraced(function* (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  text: string,
  reason: ModelResponse["finishReason"]
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const reasoned = content.some((part) => part.type === "reasoning")
  if (isBlank(text) && reason !== "pause") {
    if (reason === "content-filter") return { _tag: "Filtered", text }
    // Providers refuse a history with empty texts.
    yield* storeAnswer(run, withoutText(content))
    return { _tag: "Empty", reasoned }
  }
  yield* storeAnswer(run, content)
  if (reason === "pause") return { _tag: "Paused", text }
  return { _tag: reason === "content-filter" ? "Filtered" : "Finished", text }
})

/** Handles an answer whose rest could not be received: stores the part that was read, with a mark. */
const handleBrokenAnswer = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const text = yield* ModelRequest.showText(run, parts)
  run.textStored = true
  const content = parts.map(toPromptPart(run.steps))
  yield* appendMessages(run, Prompt.assistantMessage({ content, options: Conversation.brokenOff }))
  return { _tag: "BrokenOff", text }
})

const describeOverflow = (overflow: AnswerText.Overflow): string =>
  `Not executed: the answer went beyond ${AnswerText.describeBound(overflow)}. Use fewer calls with less content each, for ` +
  "instance by writing a large file in several parts."

/** An answer that went beyond a bound: its calls are answered with an error, so that the model can do it otherwise. */
const handleOverlongAnswer = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>,
  overflow: AnswerText.Overflow
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const text = yield* ModelRequest.showText(run, parts)
  const ofCalls = overflow === "arguments" || overflow === "calls"
  const content = parts
    .filter((part) => part.type === "text" || (ofCalls && part.type === "tool-call"))
    .map(toPromptPart(run.steps))
  yield* storeAnswer(run, content)
  if (!ofCalls) {
    return {
      _tag: "Endless",
      text: text === "" ? `No answer: the model went beyond ${AnswerText.describeBound(overflow)}.` : text
    }
  }
  const output = describeOverflow(overflow)
  const calls = content.filter(isCall)
  yield* appendMessages(run, ...calls.map((call) => Conversation.makeToolResult(call, { output, isFailure: true })))
  for (const { id, name } of calls) {
    run.recorder?.write({
      _tag: "CallEnded",
      callId: id,
      name,
      status: "error",
      ran: false,
      reason: "answer_too_long",
      durationMillis: 0
    })
  }
  const { interceptors } = yield* Services
  for (const call of calls) {
    const refused = Prepare.refuseCall(call, "error", output, "answer_too_long")
    yield* Effect.scoped(
      Prepare.notifyRefusedCall(
        { ids: toCallIds(run), interceptors },
        refused,
        Prepare.isArguments(call.params) ? call.params : {}
      )
    )
  }
  yield* emit(
    run,
    ...calls.map((call): RunEvent => ({
      _tag: "ToolFinished",
      callId: call.id,
      name: call.name,
      status: "error",
      output,
      durationMillis: 0
    }))
  )
  return { _tag: "Continue", text, tools: calls.map(({ name }) => name), invalid: true }
})

const describeRemoval = (by: string): string =>
  `Not executed: the middleware "${by}" removed this call. Do it another way, or answer without it.`

/** Closes calls that middleware removed from the answer, each with an error. */
const closeRemoved = (
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  by: string
): Effect.Effect<void, SessionStoreError, Services> =>
  Effect.uninterruptible(
    Effect.gen(function* () {
      const output = describeRemoval(by)
      for (const call of calls) {
        const message = Conversation.makeToolResult(call, { output, isFailure: true })
        yield* storeMessages(run, [message], () =>
          run.recorder?.write({
            _tag: "CallEnded",
            callId: call.id,
            name: call.name,
            status: "blocked",
            ran: false,
            reason: "after_model",
            durationMillis: 0
          })
        )
        run.batch.results.set(call.id, message)
        yield* emit(run, {
          _tag: "ToolFinished",
          callId: call.id,
          name: call.name,
          status: "blocked",
          output,
          durationMillis: 0
        })
      }
    })
  )

const isEnd = ({ _tag }: Outcome): boolean => _tag === "Finished" || _tag === "Empty"

/**
 * Takes over what middleware adds after an answer; goes on although the answer asks for nothing, if middleware wants
 * to.
 */
const continueAfterAnswer = Effect.fnUntraced(function* (
  run: RunState,
  outcome: Outcome,
  { added, forceContinue }: RunLifecycle.ReviewedAnswer
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  if (added.length > 0) yield* appendMessages(run, ...added)
  if (!isEnd(outcome) || !forceContinue) return outcome
  if (run.forced >= maxForced) {
    yield* emit(run, {
      _tag: "Notice",
      level: "warning",
      message: `Middleware asked ${maxForced} times in a row to go on after a final answer; the run ends with this one`
    })
    return outcome
  }
  run.forced++
  if (added.length === 0)
    yield* appendMessages(run, Prompt.userMessage({ content: [Prompt.textPart({ text: "Continue." })] }))
  return { _tag: "Continue", text: outcome._tag === "Finished" ? outcome.text : "", tools: [], invalid: false }
})

const handleAnswer = Effect.fnUntraced(function* (
  run: RunState,
  reviewed: RunLifecycle.ReviewedAnswer,
  reason: ModelResponse["finishReason"],
  tools: Snapshot
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const { by, parts, removed } = reviewed
  const { files, settings } = yield* Services
  const text = yield* ModelRequest.showText(run, parts)
  if (!parts.some(isCall)) {
    const content = parts.map(toPromptPart(run.steps))
    return yield* reason === "length"
      ? handleTruncatedAnswer(run, content, text, false)
      : handleFinalAnswer(run, content, text, reason)
  }
  const normalised = Normalise.normalise(parts, tools, {
    delegations: settings.delegation?.maxCallsPerStep ?? delegationsPerStep
  })
  const { changes } = normalised
  if (changes.length > 0) {
    for (const change of changes) yield* Effect.logDebug(change)
    run.recorder?.write({ _tag: "AnswerAdapted", apiRequestId: getApiRequestId(run), changes })
  }
  const content = normalised.parts.map(toPromptPart(run.steps))
  const calls = content.filter(isCall)
  if (reason === "length" || normalised.truncated) {
    return yield* handleTruncatedAnswer(run, content, text, calls.length > 0 || normalised.truncated)
  }
  if (calls.length === 0) return yield* handleFinalAnswer(run, content, text, reason)
  yield* storeToolCalls(run, content, calls)
  if (removed.size > 0)
    yield* closeRemoved(
      run,
      calls.filter(({ id }) => removed.has(id)),
      by
    )
  const { notes, wanted } = selectWantedCalls(calls, collectNotes(normalised, content), reviewed)
  const { invalid, halted, messages } =
    wanted.length === 0
      ? { invalid: false, halted: undefined, messages: [] }
      : yield* runTools(run, wanted, notes, tools)
  // The run is about to be interrupted.
  if (run.isStopping) return yield* Effect.never
  run.messages.push(...(removed.size === 0 ? messages : calls.flatMap(({ id }) => run.batch.results.get(id) ?? [])))
  run.batch = noBatch
  if (wanted.length === 0)
    return isBlank(text) ? { _tag: "Finished", text: describeRemoval(by) } : { _tag: "Finished", text }
  if (files !== undefined && wanted.some(({ name }) => !looking.has(name))) {
    yield* files.otherToolRan(run.sessionId)
  }
  if (halted !== undefined) return { _tag: "Halted", message: halted }
  return { _tag: "Continue", text, tools: wanted.map(({ name }) => name), invalid }
})

/** A part that middleware made. */
const toContentPart = (
  given: { readonly text: string } | { readonly id: string; readonly name: string; readonly params: unknown }
): ContentPart =>
  "text" in given
    ? Response.makePart("text", { text: given.text })
    : Response.makePart("tool-call", { ...given, providerExecuted: false })

/**
 * Runs the calls that the last answer of the stored session left open; returns the outcome of a guardrail that ends the
 * run.
 */
export const finishCalls = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<Outcome | undefined, SessionStoreError, Services | ToolContext> {
  const { unfinished } = run
  if (unfinished.length === 0) return undefined
  const { files, registry } = yield* Services
  const tools = yield* registry.snapshot(run.tools)
  run.batch = makeBatch(unfinished)
  const { halted, messages } = yield* runTools(run, unfinished, noNotes, tools)
  if (run.isStopping) return yield* Effect.never
  const answer = run.messages.findLastIndex(({ role }) => role === "assistant")
  const tail = run.messages.splice(answer)
  // Results are in the order of their calls.
  run.messages.push(...Conversation.closeOpenCalls([...tail, ...messages]))
  run.batch = noBatch
  if (files !== undefined && unfinished.some(({ name }) => !looking.has(name))) yield* files.otherToolRan(run.sessionId)
  return halted === undefined ? undefined : { _tag: "Halted", message: halted }
})

/** Makes one model call and runs the tools that it asked for. */
export const runStep = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<
  Outcome,
  AiError.AiError | CompressionExhausted | SessionStoreError | MiddlewareFailure,
  Services | ToolContext
> {
  const { registry } = yield* Services
  yield* emit(run, { _tag: "StepStarted", step: run.steps })
  const tools = yield* registry.snapshot(run.tools)
  const promptMessages = yield* RunLifecycle.runBeforeModel(run)
  const { brokenOff, overflow, response } = yield* ModelRequest.requestAnswer(run, {
    tools: tools.definitions,
    toolChoice: "auto",
    promptMessages
  })
  const outcome =
    brokenOff !== undefined
      ? yield* handleBrokenAnswer(run, response.parts)
      : overflow !== undefined
        ? yield* handleOverlongAnswer(run, response.parts, overflow)
        : yield* Effect.flatMap(
            Effect.tapError(RunLifecycle.runAfterModel(run, response, toContentPart), () =>
              ModelRequest.withdrawAnswer(run)
            ),
            (reviewed) =>
              Effect.flatMap(handleAnswer(run, reviewed, response.finishReason, tools), (outcome) => {
                if (!isEnd(outcome)) run.forced = 0
                return reviewed.added.length > 0 || reviewed.forceContinue
                  ? continueAfterAnswer(run, outcome, reviewed)
                  : Effect.succeed(outcome)
              })
          )
  yield* emit(run, { _tag: "StepFinished", step: run.steps, finishReason: response.finishReason })
  return outcome
})
