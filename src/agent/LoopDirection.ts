/**
 * Applies results of lifecycle methods that control the loop (`LoopControl`) to a step: ends the run, calls the model
 * again, or runs tool calls that middleware requests.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { ContentPart } from "../base/domain/ModelCall.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import type { ParsedCall } from "../middleware/Lifecycle.ts"
import * as Normalise from "../tools/calls/Normalise.ts"
import type { ToolContext } from "../tools/ToolContext.ts"
import type { Snapshot } from "../tools/ToolRegistry.ts"
import { isBlank, isCall, type Outcome, toPromptPart } from "./AnswerOutcome.ts"
import { appendMessages, appendOwnAnswer, makeAnswer, openBatch } from "./RunConversation.ts"
import * as RunEnd from "./RunEnd.ts"
import * as RunEnding from "./RunEnding.ts"
import { type Direction, identifyCalls, skipReview } from "./RunLifecycle.ts"
import { emit, makeResult, type RunState } from "./RunState.ts"
import { beginStep } from "./RunUsage.ts"
import { Services } from "./Services.ts"
import * as StepCalls from "./StepCalls.ts"

const runRequestedCalls = Effect.fnUntraced(function* (
  run: RunState,
  parts: ReadonlyArray<ContentPart>,
  tools: Snapshot
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const services = yield* Services
  const normalised = Normalise.normalise(parts, tools, { delegations: parts.length })
  const content = normalised.parts.map(toPromptPart(run.steps.count))
  const calls = content.filter(isCall)
  return yield* StepCalls.runAnswerCalls(
    run,
    { calls, content, normalised, text: "", writer: "runtime" },
    skipReview(parts),
    { services, tools }
  )
})

/** Applies a result of `before_model`: the step does not call the model. */
export const replaceModelCall = Effect.fnUntraced(function* (
  run: RunState,
  { by, result }: Direction,
  tools: Snapshot,
  makePart: (call: ParsedCall) => ContentPart
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const outcome =
    result._tag === "GoToTools"
      ? yield* runRequestedCalls(run, identifyCalls(run, result.calls).map(makePart), tools)
      : yield* RunEnding.endRun(run, RunEnding.makeEnding(by, result._tag === "EndWith" ? result.answer : "", true), "")
  yield* emit(run, {
    _tag: "StepFinished",
    step: run.steps.count,
    finishReason: result._tag === "GoToTools" ? "tool-calls" : "stop"
  })
  return outcome
})

/** Returns true if the conversation contains an answer from an index onwards. */
const hasAnswer = ({ conversation: { messages } }: RunState, from: number): boolean =>
  messages.slice(from).some(({ role }) => role === "assistant")

/**
 * Applies a result of `after_model` after the answer was shown and stored, from the message with the index `from`. Its
 * calls did not run and have an error as their result.
 */
export const leaveAnswer = Effect.fnUntraced(function* (
  run: RunState,
  { by, result }: Direction,
  from: number
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  const { text } = run.questions.answer
  // A cut answer is not stored.
  if (!isBlank(text) && !hasAnswer(run, from)) yield* appendOwnAnswer(run, makeAnswer(run, [Prompt.textPart({ text })]))
  if (result._tag !== "GoToModel") return { _tag: "Ended", exit: "ended_by_middleware", by, text }
  const feedback = result.feedback ?? (run.conversation.messages.at(-1)?.role === "assistant" ? "Continue." : "")
  if (feedback !== "")
    yield* appendMessages(run, Prompt.userMessage({ content: [Prompt.textPart({ text: feedback })] }))
  return { _tag: "Continue", text, tools: [], invalid: false }
})

/** Ends a run with an answer of `before_agent`, in a step that does not call the model. */
export const answerWithoutLoop = Effect.fnUntraced(function* (
  run: RunState,
  ending: RunEnding.RunEnding
): Effect.fn.Return<RunResult, SessionStoreError, Services> {
  if (run.unfinished.length > 0) {
    openBatch(run, run.unfinished)
    yield* RunEnd.cutStep(run)
  }
  beginStep(run, "")
  yield* emit(run, { _tag: "StepStarted", step: run.steps.count })
  const { by, exit, text } = yield* RunEnding.endRun(run, ending, "")
  yield* emit(run, { _tag: "StepFinished", step: run.steps.count, finishReason: "stop" })
  return makeResult(run, exit, text, { endedBy: by })
})
