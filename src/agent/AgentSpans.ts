/**
 * Spans of the operations of an agent that an application calls, in the tracer of the application: `Agent.run`,
 * `Agent.stream`, `Agent.callTool`, `Agent.compact`, `Agent.promptLayers`. Below them are the spans of model calls
 * (`chat <model>`), tool calls (`execute_tool <name>`), child agents (`Agent.run`) and side tasks (`Auxiliary.call`).
 *
 * Source: OpenTelemetry, "Semantic conventions for generative AI agent spans".
 */
import type * as Effect from "effect/Effect"
import { isCompletedExit, type RunResult } from "../base/domain/RunEvent.ts"
import * as OperationSpans from "../base/domain/OperationSpans.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { RunOptions } from "./RunInput.ts"
import type { Lineage } from "./RunState.ts"
import type { AgentServices } from "./Services.ts"

/** Names of the spans. */
export type Name = "run" | "stream" | "resume" | "resumeStream" | "callTool" | "compact" | "promptLayers"

const describeRunEnd = ({ cost, exit, model, provider, sessionId, steps, turnId, usage }: RunResult) => ({
  "gen_ai.conversation.id": sessionId,
  "gen_ai.provider.name": OperationSpans.toProviderName(provider),
  "gen_ai.request.model": model,
  "gen_ai.usage.input_tokens": Usage.countPromptTokens(usage),
  "gen_ai.usage.output_tokens": usage.outputTokens,
  "hermes.completed": isCompletedExit(exit),
  "hermes.cost_usd": cost.status === "unknown" ? undefined : (cost.usd ?? undefined),
  "hermes.exit": exit,
  "hermes.steps": steps,
  "hermes.turn_id": turnId
})

/** Runs an operation in its span, unless middleware traces the calls of the agent. */
export const traceOperation = <A, E, R>(
  { interceptors }: Pick<AgentServices, "interceptors">,
  name: Name,
  effect: Effect.Effect<A, E, R>,
  attributes: OperationSpans.Attributes = {}
): Effect.Effect<A, E, R> =>
  interceptors.stack.isTraced
    ? effect
    : OperationSpans.traceOperation(effect, () => ({ name: `Agent.${name}`, kind: "internal", attributes }))

/** Runs a run, or a child, in its span. */
export const traceRun = <E, R>(
  { interceptors, settings }: Pick<AgentServices, "interceptors" | "settings">,
  name: Name,
  { sessionId }: Pick<RunOptions, "sessionId">,
  lineage: Lineage | undefined,
  run: Effect.Effect<RunResult, E, R>
): Effect.Effect<RunResult, E, R> =>
  interceptors.stack.isTraced
    ? run
    : OperationSpans.traceOperation(
        run,
        () => ({
          name: `Agent.${name}`,
          kind: "internal",
          attributes: {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": lineage?.subagentId,
            "gen_ai.agent.name": lineage?.agent,
            "gen_ai.conversation.id": sessionId,
            "hermes.parent.conversation.id": lineage?.parentSessionId,
            "hermes.platform": settings.platform ?? "library"
          }
        }),
        describeRunEnd
      )
