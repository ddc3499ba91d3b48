/**
 * Converts an answer of a model into the outcome of one step: its text is shown, and the parts that can be sent back to
 * the model are stored.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §15.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as AnswerText from "../base/domain/AnswerText.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { ContentPart, ModelResponse } from "../base/domain/ModelCall.ts"
import type { Question } from "../base/domain/Question.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import * as Prepare from "../tools/Prepare.ts"
import * as ModelRequest from "./ModelRequest.ts"
import { appendMessages, makeAnswer, noteAnswerStored } from "./RunConversation.ts"
import { emit, type RunState, toCallIds } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Outcome of one step. */
export type Outcome =
  /** The model answered and called no tools. */
  | { readonly _tag: "Finished"; readonly text: string }
  /** The model called tools, and every call has its result. */
  | ContinueOutcome
  /**
   * The output limit cut the answer. Its text is in the conversation. If calls were cut, no part of the answer is in
   * the conversation.
   */
  | { readonly _tag: "Truncated"; readonly text: string; readonly cut: "text" | "calls" | "thinking" }
  /** The answer exceeded a limit and was ended there. The text before the limit is in the conversation. */
  | { readonly _tag: "Endless"; readonly text: string }
  /**
   * The connection was lost in the middle of the answer, and the rest could not be received. The received text is in
   * the conversation.
   */
  | { readonly _tag: "BrokenOff"; readonly text: string }
  /**
   * The provider paused in the middle of the answer. The received part is in the conversation, and another request
   * continues it.
   */
  | { readonly _tag: "Paused"; readonly text: string }
  /**
   * The answer has neither text nor calls. `reasoned` is true if it has reasoning, which is then in the conversation.
   */
  | { readonly _tag: "Empty"; readonly reasoned: boolean }
  /**
   * The model wrote a call of this tool as the text of its answer. The text was retracted, and no part of the answer is
   * in the conversation.
   */
  | { readonly _tag: "Leaked"; readonly tool: string; readonly text: string }
  /** The provider's content filter ended the answer. */
  | { readonly _tag: "Filtered"; readonly text: string }
  /** A guardrail ended the run. */
  | { readonly _tag: "Halted"; readonly message: string }
  | EndedOutcome
  | SuspendedOutcome

/** Calls of the step wait for answers. Their questions are stored, and the other calls of the step have results. */
export interface SuspendedOutcome {
  readonly _tag: "Suspended"
  /** Text that accompanies the calls. */
  readonly text: string
  readonly questions: ReadonlyArray<Question>
}

/**
 * A stop tool or lifecycle middleware ended the run with this text, which has been shown. `by` is the name of the tool
 * or of the middleware.
 */
export interface EndedOutcome {
  readonly _tag: "Ended"
  readonly exit: "stop_tool_triggered" | "ended_by_middleware"
  readonly by: string
  readonly text: string
}

/** The tools of a step ran; see {@link Outcome}. */
interface ContinueOutcome {
  readonly _tag: "Continue"
  /** Text that accompanies the calls. */
  readonly text: string
  readonly tools: ReadonlyArray<string>
  /**
   * True if a call of the step could not be attempted, because its tool is unknown or its arguments are not an object.
   */
  readonly invalid: boolean
}

/** Converts a part of an answer to a part of a conversation message. */
export const toPromptPart =
  (step: number) =>
  (part: ContentPart, index: number): Prompt.AssistantMessagePart => {
    switch (part.type) {
      case "text":
        return Prompt.textPart({ text: part.text, options: Conversation.shareOptions(part.metadata) })
      case "reasoning":
        return Prompt.reasoningPart({ text: part.text, options: Conversation.shareOptions(part.metadata) })
      case "file":
        return Prompt.filePart({
          mediaType: part.mediaType,
          data: part.data,
          options: Conversation.shareOptions(part.metadata)
        })
      case "tool-call":
        return Prompt.toolCallPart({
          // A part without an id gets one that is the same each time the answer is read.
          id: part.id === "" ? `call_${step}_${index}` : part.id,
          name: part.name,
          params: part.params,
          providerExecuted: part.providerExecuted,
          options: Conversation.shareOptions(part.metadata)
        })
    }
  }

/** Returns true for a tool call that the runtime has to run. */
export const isCall = <P extends ContentPart | Prompt.AssistantMessagePart>(
  part: P
): part is Extract<P, { readonly type: "tool-call" }> => part.type === "tool-call" && !part.providerExecuted

/** Stores the parts of an answer that can be sent back. */
const storeAnswer = (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Effect.Effect<void, SessionStoreError, Services> => {
  noteAnswerStored(run, true)
  return content.length === 0 ? Effect.void : appendMessages(run, makeAnswer(run, content))
}

/** Returns true if a string has no characters that a user could see. */
export const isBlank = (text: string): boolean => text.trim() === ""

const withoutText = (content: ReadonlyArray<Prompt.AssistantMessagePart>): ReadonlyArray<Prompt.AssistantMessagePart> =>
  content.filter(({ type }) => type !== "text")

/**
 * Handles an answer cut by the output limit. An answer with cut calls is discarded, and the same question is asked
 * again.
 */
export const handleTruncatedAnswer = Effect.fnUntraced(function* (
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

/** Handles an answer without calls. */
export const handleFinalAnswer = Effect.fnUntraced(function* (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>,
  text: string,
  reason: ModelResponse["finishReason"]
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const reasoned = content.some((part) => part.type === "reasoning")
  if (isBlank(text) && reason !== "pause") {
    if (reason === "content-filter") return { _tag: "Filtered", text }
    // Providers reject a history that contains empty text.
    yield* storeAnswer(run, withoutText(content))
    return { _tag: "Empty", reasoned }
  }
  yield* storeAnswer(run, content)
  if (reason === "pause") return { _tag: "Paused", text }
  return { _tag: reason === "content-filter" ? "Filtered" : "Finished", text }
})

/** Handles an answer whose rest could not be received: stores the received part, with a mark. */
export const handleBrokenAnswer = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const text = yield* ModelRequest.showText(run, parts)
  noteAnswerStored(run, true)
  const content = parts.map(toPromptPart(run.steps.count))
  yield* appendMessages(run, makeAnswer(run, content, Conversation.brokenOff))
  return { _tag: "BrokenOff", text }
})

const describeOverflow = (overflow: AnswerText.Overflow): string =>
  `Not executed: the answer went beyond ${AnswerText.describeBound(overflow)}. Use fewer calls with less content each, ` +
  "for instance by writing a large file in several parts."

/**
 * Handles an answer that exceeded a limit. Its calls are answered with an error, so that the model can try another way.
 */
export const handleOverlongAnswer = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>,
  overflow: AnswerText.Overflow
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const text = yield* ModelRequest.showText(run, parts)
  const ofCalls = overflow === "arguments" || overflow === "calls"
  const content = parts
    .filter((part) => part.type === "text" || (ofCalls && part.type === "tool-call"))
    .map(toPromptPart(run.steps.count))
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
