/**
 * Runs one pass of the loop: one model call, and the tools that it requested. Contains no policy and returns the
 * outcome.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type { CompressionExhausted, SessionStoreError } from "../base/domain/AgentError.ts"
import type { ContentPart, ModelResponse } from "../base/domain/ModelCall.ts"
import * as Normalise from "../tools/calls/Normalise.ts"
import type { ToolContext } from "../tools/ToolContext.ts"
import type { Snapshot } from "../tools/ToolRegistry.ts"
import * as AnswerOutcome from "./AnswerOutcome.ts"
import type { Outcome } from "./AnswerOutcome.ts"
import * as LeakedCalls from "./LeakedCalls.ts"
import * as LoopDirection from "./LoopDirection.ts"
import * as ModelRequest from "./ModelRequest.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import { appendMessages } from "./RunConversation.ts"
import { getApiRequestId, emit, type RunState } from "./RunState.ts"
import { forgetForcedSteps, takeForcedStep } from "./RunUsage.ts"
import { type AgentServices, type MiddlewareFailure, Services } from "./Services.ts"
import * as StepCalls from "./StepCalls.ts"

/** Default number of `delegate_task` calls accepted in one message (`ARCHITECTURE.md` §7). */
const delegationsPerStep = 1

/** Maximum number of consecutive times that middleware may continue after an answer without calls. */
const maxForced = 8

const isEnd = ({ _tag }: Outcome): boolean => _tag === "Finished" || _tag === "Empty"

/**
 * Applies the additions of middleware after an answer. Continues after an answer without calls if middleware requests
 * it.
 */
const continueAfterAnswer = Effect.fnUntraced(function* (
  run: RunState,
  outcome: Outcome,
  { added, forceContinue }: RunLifecycle.ReviewedAnswer
): Effect.fn.Return<Outcome, SessionStoreError, Services> {
  // Messages between the calls that wait and their results would be moved behind the results.
  if (outcome._tag === "Suspended") return outcome
  if (added.length > 0) yield* appendMessages(run, ...added)
  if (!isEnd(outcome) || !forceContinue) return outcome
  if (!takeForcedStep(run, maxForced)) {
    yield* emit(run, {
      _tag: "Notice",
      level: "warning",
      message: `Middleware asked ${maxForced} times in a row to go on after a final answer; the run ends with this one`
    })
    return outcome
  }
  if (added.length === 0)
    yield* appendMessages(run, Prompt.userMessage({ content: [Prompt.textPart({ text: "Continue." })] }))
  return { _tag: "Continue", text: outcome._tag === "Finished" ? outcome.text : "", tools: [], invalid: false }
})

const joinText = (parts: ReadonlyArray<ContentPart>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

/** Parts of an agent that handle the answers of a step: its services, and the tools of the step. */
interface StepParts {
  readonly services: AgentServices
  readonly tools: Snapshot
}

const handleAnswer = Effect.fnUntraced(function* (
  run: RunState,
  reviewed: RunLifecycle.ReviewedAnswer,
  reason: ModelResponse["finishReason"],
  { services, tools }: StepParts
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const { parts } = reviewed
  const { settings } = services
  const hasCalls = parts.some(AnswerOutcome.isCall)
  const written = hasCalls ? "" : joinText(parts)
  const leaked = LeakedCalls.findLeakedCall(written, tools.names)
  if (leaked !== undefined) {
    yield* ModelRequest.withdrawAnswer(run)
    return { _tag: "Leaked", tool: leaked, text: written }
  }
  const text = yield* ModelRequest.showText(run, parts)
  const makePart = AnswerOutcome.toPromptPart(run.steps.count)
  if (!hasCalls) {
    const content = parts.map(makePart)
    return yield* reason === "length"
      ? AnswerOutcome.handleTruncatedAnswer(run, content, text, false)
      : AnswerOutcome.handleFinalAnswer(run, content, text, reason)
  }
  const normalised = Normalise.normalise(parts, tools, {
    delegations: settings.delegation?.maxCallsPerStep ?? delegationsPerStep
  })
  const { changes } = normalised
  if (changes.length > 0) {
    for (const change of changes) yield* Effect.logDebug(change)
    run.recorder?.write({ _tag: "AnswerAdapted", apiRequestId: getApiRequestId(run), changes })
  }
  const content = normalised.parts.map(makePart)
  const calls = content.filter(AnswerOutcome.isCall)
  if (reason === "length" || normalised.truncated) {
    return yield* AnswerOutcome.handleTruncatedAnswer(run, content, text, calls.length > 0 || normalised.truncated)
  }
  if (calls.length === 0) return yield* AnswerOutcome.handleFinalAnswer(run, content, text, reason)
  return yield* StepCalls.runAnswerCalls(run, { calls, content, normalised, text }, reviewed, { services, tools })
})

/** Handles an answer after which `after_model` ends the run or calls the model again. None of its calls run. */
const handleDirectedAnswer = Effect.fnUntraced(function* (
  run: RunState,
  reviewed: RunLifecycle.ReviewedAnswer,
  direction: RunLifecycle.Direction,
  parts: StepParts
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const from = run.conversation.messages.length
  yield* handleAnswer(run, reviewed, "stop", parts)
  if (reviewed.added.length > 0) yield* appendMessages(run, ...reviewed.added)
  return yield* LoopDirection.leaveAnswer(run, direction, from)
})

/** Converts a part created by middleware to a content part. */
const toContentPart = (
  given: { readonly text: string } | { readonly id: string; readonly name: string; readonly params: unknown }
): ContentPart =>
  "text" in given
    ? Response.makePart("text", { text: given.text })
    : Response.makePart("tool-call", { ...given, providerExecuted: false })

/** Makes one model call and runs the tools that the answer calls. */
export const runStep = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<
  Outcome,
  AiError.AiError | CompressionExhausted | SessionStoreError | MiddlewareFailure,
  Services | ToolContext
> {
  const services = yield* Services
  yield* emit(run, { _tag: "StepStarted", step: run.steps.count })
  const tools = yield* services.registry.snapshot(run.tools)
  const parts: StepParts = { services, tools }
  const { direction, promptMessages } = yield* RunLifecycle.runBeforeModel(run)
  if (direction !== undefined) return yield* LoopDirection.replaceModelCall(run, direction, tools, toContentPart)
  const { brokenOff, overflow, response } = yield* ModelRequest.requestAnswer(run, {
    tools: tools.definitions,
    toolChoice: "auto",
    promptMessages
  })
  const outcome =
    brokenOff !== undefined
      ? yield* AnswerOutcome.handleBrokenAnswer(run, response.parts)
      : overflow !== undefined
        ? yield* AnswerOutcome.handleOverlongAnswer(run, response.parts, overflow)
        : yield* Effect.flatMap(
            Effect.tapError(RunLifecycle.runAfterModel(run, response, toContentPart), () =>
              ModelRequest.withdrawAnswer(run)
            ),
            (reviewed) => {
              if (reviewed.direction !== undefined)
                return handleDirectedAnswer(run, reviewed, reviewed.direction, parts)
              return Effect.flatMap(handleAnswer(run, reviewed, response.finishReason, parts), (outcome) => {
                if (!isEnd(outcome)) forgetForcedSteps(run)
                return reviewed.added.length > 0 || reviewed.forceContinue
                  ? continueAfterAnswer(run, outcome, reviewed)
                  : Effect.succeed(outcome)
              })
            }
          )
  yield* emit(run, { _tag: "StepFinished", step: run.steps.count, finishReason: response.finishReason })
  return outcome
})
