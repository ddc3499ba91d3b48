/**
 * The span of one attempt to call a model, `chat <model>`, in the tracer of the application. It has no content of the
 * request or the answer.
 *
 * Source: OpenTelemetry, "Semantic conventions for generative client AI spans".
 */
import type * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import type * as Tracer from "effect/Tracer"
import * as Cost from "../../base/domain/Cost.ts"
import type { ModelResponse } from "../../base/domain/ModelCall.ts"
import * as OperationSpans from "../../base/domain/OperationSpans.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { formatFinishReason } from "../../hooks/ApiPayload.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { RouteCallState } from "./RouteCallState.ts"

/** An attempt that has a span. */
interface TracedAttempt {
  readonly state: RouteCallState
  readonly provider: Provider
  readonly number: number
}

const sideTask = "auxiliary:"

const describeAttempt = ({ number, provider: { apiMode, info }, state }: TracedAttempt): OperationSpans.Operation => {
  const { call, context } = state.question
  const { apiCallCount, platform, sessionId } = context
  const task = platform.startsWith(sideTask) ? platform.slice(sideTask.length) : undefined
  return {
    name: `chat ${info.model}`,
    kind: "client",
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.conversation.id": sessionId,
      "gen_ai.provider.name": OperationSpans.toProviderName(info.provider),
      "gen_ai.request.model": info.model,
      "gen_ai.request.stream": call.stream ? true : undefined,
      "gen_ai.request.max_tokens": call.maxOutputTokens,
      "gen_ai.request.temperature": call.temperature,
      "hermes.api_mode": apiMode,
      "hermes.platform": platform,
      "hermes.retry_count": number,
      "hermes.step": task === undefined ? apiCallCount : undefined,
      "hermes.task": task
    }
  }
}

const describeAnswer = (
  { known }: RouteCallState,
  { finishReason, id, model, reportedCost, usage: reported }: ModelResponse
): OperationSpans.Attributes => {
  const usage = Usage.fromResponse(reported)
  const { status, usd } = Cost.toSpent(known.cost(usage, reportedCost))
  return {
    "gen_ai.response.finish_reasons": [formatFinishReason(finishReason)],
    "gen_ai.response.id": id,
    "gen_ai.response.model": model,
    "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cacheReadTokens,
    "gen_ai.usage.input_tokens": Usage.countPromptTokens(usage),
    "gen_ai.usage.output_tokens": usage.outputTokens,
    "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens,
    "hermes.cost_usd": status === "unknown" ? undefined : (usd ?? undefined)
  }
}

/** Begins the span of an attempt; undefined if the fiber has no tracer, or if middleware traces the calls. */
export const beginSpan = (context: Context.Context<never>, attempt: TracedAttempt): Tracer.Span | undefined =>
  attempt.state.interceptors.stack.isTraced
    ? undefined
    : OperationSpans.beginSpan(context, () => describeAttempt(attempt))

/** Ends the span of an attempt. */
export const endSpan = (
  span: Tracer.Span,
  context: Context.Context<never>,
  { state }: TracedAttempt,
  exit: Exit.Exit<ModelResponse, unknown>
): void =>
  OperationSpans.endSpan(span, context, exit, {
    attributes: Exit.isSuccess(exit) ? describeAnswer(state, exit.value) : undefined
  })
