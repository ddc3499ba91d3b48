/**
 * Sends one question to the model within a run: through the middleware and the router, with the answer observed while
 * it streams and its usage charged.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import {
  CompressionExhausted,
  ExecutionBlocked,
  MiddlewareFailure,
  type SessionStoreError
} from "../base/domain/AgentError.ts"
import type { ResponseFormat, ContentPart, ModelCall, OnPart, StreamPart } from "../base/domain/ModelCall.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import * as WrapperFailures from "../middleware/WrapperFailures.ts"
import { insertPrefill } from "../tools/prompt/Prefill.ts"
import { type AttemptLog, callModel, makeLog } from "../models/routing/ModelRouter.ts"
import * as AnswerProgress from "../models/routing/AnswerProgress.ts"
import { CurrentSpending } from "../models/routing/SpendingPort.ts"
import * as AnswerText from "../base/domain/AnswerText.ts"
import * as Budget from "./Budget.ts"
import { noteAnswerStored } from "./RunConversation.ts"
import { emit, replaceText, type RunState } from "./RunState.ts"
import {
  beginQuestion,
  getSpending,
  noteAnsweringRoute,
  noteAttempt,
  noteOutputBase,
  recordAnswer
} from "./RunUsage.ts"
import { type MiddlewareFailure as AnyMiddlewareFailure, Services } from "./Services.ts"

/** Format of the answers of a run without an output schema. */
const textFormat: ResponseFormat = { type: "text" }

/** Converts parts of an answer to the events that are shown to the user. */
const toRunEvents = (parts: ReadonlyArray<StreamPart>, readsText: boolean): Array<RunEvent> => {
  const events: Array<RunEvent> = []
  for (const part of parts) {
    switch (part.type) {
      case "text-delta":
        if (readsText) events.push({ _tag: "TextDelta", text: part.delta })
        break
      case "reasoning-delta":
        events.push({ _tag: "ReasoningDelta", text: part.delta })
        break
      case "tool-params-start":
        events.push({ _tag: "ToolInputStarted", callId: part.id, name: part.name })
        break
      case "tool-params-delta":
        events.push({ _tag: "ToolInputDelta", callId: part.id, text: part.delta })
        break
    }
  }
  return events
}

/** Observer of an answer while it arrives. */
interface Watch {
  readonly onPart: OnPart
  /** Emits text that was held back. */
  readonly end: Effect.Effect<void>
  /** Discards text that was held back. */
  readonly forget: () => void
}

/** Retracts the shown text of a failed attempt. */
const retractAttempt = (run: RunState, progress: AnswerProgress.AnswerProgress): Effect.Effect<void> => {
  const { isRead } = progress
  AnswerProgress.retractAttempt(progress)
  return isRead ? replaceText(run, run.steps.count, progress.text) : Effect.void
}

/** Retracts all shown text of an answer that middleware rejected. No part of the answer is stored. */
export const withdrawAnswer = (run: RunState): Effect.Effect<void> => {
  const { answer } = run.questions
  const { text } = answer
  AnswerProgress.showInstead(answer, "")
  return text === "" ? Effect.void : replaceText(run, run.steps.count, "")
}

/**
 * Returns true for a failure of the middleware itself: a veto, a failed policy, or another typed failure that does not
 * translate a provider's failure.
 */
const isRefusal = (cause: Cause.Cause<unknown>): boolean => {
  const failed = cause.reasons.find(Cause.isFailReason)?.error
  if (failed === undefined || AiError.isAiError(failed) || failed instanceof CompressionExhausted) return false
  return (
    failed instanceof ExecutionBlocked ||
    failed instanceof MiddlewareFailure ||
    WrapperFailures.findDownstreamFailure(cause) === undefined
  )
}

/** Creates an observer that forwards the streamed parts, and records the shown text in case the answer never ends. */
const watchParts = (run: RunState, redact: boolean, progress: AnswerProgress.AnswerProgress): Watch => {
  const watcher = AnswerText.makeWatcher(redact)
  const hasReader = run.emit !== undefined && run.readsText
  const values = hasReader ? run.output?.makeValueReader(run.steps.answerText) : undefined
  const displayParts = (parts: ReadonlyArray<StreamPart>): Effect.Effect<void> => {
    AnswerProgress.showParts(progress, parts, hasReader)
    if (run.emit === undefined) return Effect.void
    const events = toRunEvents(parts, run.readsText)
    if (values !== undefined) events.push(...values.readParts(parts))
    return events.length === 0 ? Effect.void : run.emit(events)
  }
  const onPart: OnPart = (parts) => {
    AnswerProgress.receiveParts(progress, parts)
    return Effect.as(displayParts(watcher.see(parts)), parts)
  }
  return {
    onPart,
    end: Effect.suspend(() => displayParts(watcher.end())),
    forget: () => {
      watcher.end()
      values?.startAgain()
    }
  }
}

/** Tools and additional messages of a request, besides the conversation. */
interface Question extends Pick<ModelCall, "tools" | "toolChoice"> {
  /** Message sent after the conversation, without being added to it. */
  readonly last?: Prompt.Message | undefined
  /** Messages from middleware, sent in the same way as {@link last}. */
  readonly promptMessages?: ReadonlyArray<Prompt.Message> | undefined
}

const sendQuestion = (
  run: RunState,
  { last, promptMessages = [], toolChoice, tools }: Question,
  log: AttemptLog
): Effect.Effect<ModelAnswer, AiError.AiError | AnyMiddlewareFailure, Services> =>
  Services.use(({ compaction, interceptors, router, settings }) =>
    Effect.withFiber((fiber) => {
      const call: ModelCall = {
        messages: insertPrefill(
          last === undefined && promptMessages.length === 0
            ? run.conversation.messages
            : [...run.conversation.messages, ...promptMessages, ...(last === undefined ? [] : [last])],
          settings.prefill
        ),
        tools,
        toolChoice,
        responseFormat: run.output?.responseFormat ?? textFormat,
        stream: run.streaming,
        maxOutputTokens: run.tokens.outputLimit ?? settings.maxOutputTokens,
        temperature: settings.temperature,
        seed: run.seed,
        reasoningEffort: run.reasoningEffort,
        contextEdits: compaction.edits,
        cache: run.promptCache,
        conversationId: run.conversationId,
        sharedCacheId: run.lineage?.kind
      }
      const progress = run.questions.answer
      const { isRead } = progress
      const retracted = retractAttempt(run, progress)
      noteAnswerStored(run, false)
      const now = fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
      const left = Budget.computeMillisLeft(run.budget, now)
      const watched = run.streaming ? watchParts(run, fiber.getRef(RedactSecrets), progress) : undefined
      const asked = callModel<AnyMiddlewareFailure>(router, interceptors, {
        call,
        log,
        progress,
        route: run.routeWanted,
        context: {
          sessionId: run.sessionId,
          taskId: run.taskId,
          turnId: run.turnId,
          platform: run.platform,
          apiCallCount: run.questions.count
        },
        userMessage: run.userMessage,
        getSpending: () => getSpending(run),
        spending: fiber.getRef(CurrentSpending),
        notify: run.recorder === undefined ? run.emit : (events) => emit(run, ...events),
        heartbeat:
          run.emit === undefined ? undefined : (waitedMillis) => emit(run, { _tag: "Heartbeat", waitedMillis }),
        deadline: left === undefined ? undefined : now + left,
        // The router has reported that the answer broke off, and the reason.
        discard: Effect.suspend(() => {
          watched?.forget()
          return retractAttempt(run, progress)
        }),
        options: watched
      })
      // Text that was held back is also shown if the answer breaks off.
      const shown = watched === undefined ? asked : Effect.ensuring(asked, watched.end)
      return isRead ? Effect.andThen(retracted, shown) : shown
    })
  )

/** Sends the question, and compacts the conversation until it fits. */
const sendUntilFits = (
  run: RunState,
  question: Question,
  log: AttemptLog
): Effect.Effect<ModelAnswer, AiError.AiError | CompressionExhausted | AnyMiddlewareFailure, Services> =>
  Effect.catchIf(
    sendQuestion(run, question, log),
    (error): error is AiError.AiError => AiError.isAiError(error),
    (error) =>
      Effect.andThen(
        Effect.flatMap(
          Effect.promise(() => import("./ContextOverflow.ts")),
          ({ recover }) => recover(run, error, log)
        ),
        sendUntilFits(run, question, log)
      )
  )

/** An answer, and the reason if its rest could not be received. */
interface Answer extends ModelAnswer {
  readonly brokenOff?: string | undefined
  /** Limit that the answer exceeded. The answer was cut there. */
  readonly overflow?: AnswerText.Overflow | undefined
}

/** Sends the request. If the rest of a partly read answer cannot be received, returns the part that was read. */
const sendOrReturnPartial = (
  run: RunState,
  question: Question,
  log: AttemptLog
): Effect.Effect<Answer, AiError.AiError | CompressionExhausted | AnyMiddlewareFailure, Services> =>
  Effect.catchIf(
    sendUntilFits(run, question, log),
    (error): error is AiError.AiError | CompressionExhausted =>
      AiError.isAiError(error) || error instanceof CompressionExhausted,
    (error): Effect.Effect<Answer, AiError.AiError | CompressionExhausted> => {
      const { answer } = run.questions
      if (!answer.isRead) AnswerProgress.showInstead(answer, answer.broken.shown)
      if (answer.text === "" || !run.readsText) return Effect.fail(error)
      const parts = [Response.makePart("text", { text: answer.text })]
      return Effect.succeed({
        response: {
          parts,
          finishReason: "error",
          usage: Usage.toResponse({ input: 0, output: 0 }),
          model: undefined,
          id: undefined,
          raw: undefined
        },
        route: run.questions.route,
        attempt: Math.max(0, log.count - 1),
        brokenOff: AiError.isAiError(error) ? error.reason.message : error.message
      })
    }
  )

/** Asks the model one question, with or without tools, and charges its usage. */
export const requestAnswer = Effect.fnUntraced(function* (
  run: RunState,
  question: Question
): Effect.fn.Return<
  Answer,
  AiError.AiError | CompressionExhausted | SessionStoreError | AnyMiddlewareFailure,
  Services
> {
  // Writes the records of earlier events before the wait.
  if (run.recorder !== undefined) yield* run.recorder.flush
  beginQuestion(run)
  const log = makeLog()
  const answered = Effect.ensuring(
    Effect.tapCause(sendOrReturnPartial(run, question, log), (cause) =>
      isRefusal(cause) ? withdrawAnswer(run) : Effect.void
    ),
    // An interrupted question was at its latest attempt.
    Effect.sync(() => noteAttempt(run, log.count - 1))
  )
  // A received answer is charged even if the caller stops waiting for it.
  const answer = yield* Effect.uninterruptibleMask((restore) =>
    Effect.tap(restore(answered), (answer) => {
      noteAnsweringRoute(run, answer)
      return answer.brokenOff === undefined ? recordAnswer(run, answer, question.tools) : Effect.void
    })
  )
  if (answer.brokenOff !== undefined) {
    yield* emit(run, {
      _tag: "Notice",
      level: "warning",
      message: `The connection was lost in the middle of the answer, and the rest could not be had: ${answer.brokenOff}`
    })
    return answer
  }
  noteOutputBase(run, log.outputTokens ?? (yield* Services).settings.maxOutputTokens, answer.response)
  const { overflow, response } = AnswerText.boundAnswer(answer.response)
  if (overflow !== undefined) {
    yield* emit(run, {
      _tag: "Notice",
      level: "warning",
      message: `The answer went beyond ${AnswerText.describeBound(overflow)} and was ended there`
    })
  }
  return { ...answer, overflow, response: AnswerText.cleanAnswer(response) }
})

/**
 * Returns the text of an answer as the user may see it. Emits the part of it that was not streamed, and retracts
 * streamed text that it does not contain.
 */
export const showText = (run: RunState, parts: ReadonlyArray<ContentPart>): Effect.Effect<string> =>
  RedactSecrets.use((redact) => {
    let said = ""
    for (const part of parts) {
      if (part.type === "text") said += part.text
    }
    const text = AnswerText.toDisplayText(said, redact)
    const { answer } = run.questions
    const streamed = run.readsText ? answer.text : ""
    AnswerProgress.showInstead(answer, text)
    if (text === streamed) return Effect.succeed(text)
    const told = text.startsWith(streamed)
      ? emit(run, { _tag: "TextDelta", text: text.slice(streamed.length) })
      : replaceText(run, run.steps.count, text)
    return Effect.as(told, text)
  })
