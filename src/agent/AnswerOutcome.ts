/**
 * The outcome of one step. An answer becomes an outcome here: its text is shown, and the parts that can be sent back
 * are stored.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §15.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as AnswerText from "../base/domain/AnswerText.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { ContentPart, ModelResponse } from "../base/domain/ModelCall.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import * as Prepare from "../tools/Prepare.ts"
import * as ModelRequest from "./ModelRequest.ts"
import { appendMessages, noteAnswerStored } from "./RunConversation.ts"
import { emit, type RunState, toCallIds } from "./RunState.ts"
import { Services } from "./Services.ts"

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
  /** The provider paused in the middle of the answer, which is in the conversation. Another request continues it. */
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
  /** Text that accompanies the calls. */
  readonly text: string
  readonly tools: ReadonlyArray<string>
  /** True when a call of the step could not even be tried: an unknown tool, arguments that are no object. */
  readonly invalid: boolean
}

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

/** True for a call that the runtime is to run. */
export const isCall = <P extends ContentPart | Prompt.AssistantMessagePart>(
  part: P
): part is Extract<P, { readonly type: "tool-call" }> => part.type === "tool-call" && !part.providerExecuted

/** Stores the parts of an answer that can be sent back. */
const storeAnswer = (
  run: RunState,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Effect.Effect<void, SessionStoreError, Services> => {
  noteAnswerStored(run, true)
  return content.length === 0 ? Effect.void : appendMessages(run, Prompt.assistantMessage({ content }))
}

/** Returns whether a text has nothing that a user could see. */
export const isBlank = (text: string): boolean => text.trim() === ""

const withoutText = (content: ReadonlyArray<Prompt.AssistantMessagePart>): ReadonlyArray<Prompt.AssistantMessagePart> =>
  content.filter(({ type }) => type !== "text")

/** Handles an answer cut by the output limit. One with cut calls is discarded, and the same question is asked again. */
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

/** An answer without calls. */
export const handleFinalAnswer = Effect.fnUntraced(function* (
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
export const handleBrokenAnswer = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const text = yield* ModelRequest.showText(run, parts)
  noteAnswerStored(run, true)
  const content = parts.map(toPromptPart(run.steps.count))
  yield* appendMessages(run, Prompt.assistantMessage({ content, options: Conversation.brokenOff }))
  return { _tag: "BrokenOff", text }
})

const describeOverflow = (overflow: AnswerText.Overflow): string =>
  `Not executed: the answer went beyond ${AnswerText.describeBound(overflow)}. Use fewer calls with less content each, for ` +
  "instance by writing a large file in several parts."

/** An answer that went beyond a bound: its calls are answered with an error, so that the model can do it otherwise. */
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
