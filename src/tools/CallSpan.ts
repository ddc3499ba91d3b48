/**
 * The span of one tool call, `execute_tool <name>`, in the tracer of the application. It has no arguments and no
 * result.
 *
 * Source: OpenTelemetry, "Semantic conventions for generative AI agent spans".
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import * as OperationSpans from "../base/domain/OperationSpans.ts"
import * as TraceContext from "../hooks/TraceContext.ts"
import type * as Prepare from "./Prepare.ts"
import type { Settlement } from "./ToolExecution.ts"

const describeCall = (tool: string, callId: string, sessionId: string): OperationSpans.Operation => {
  const mcp = OperationSpans.parseMcpTool(tool)
  return {
    name: `execute_tool ${tool}`,
    kind: "internal",
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.conversation.id": sessionId,
      "gen_ai.tool.call.id": callId,
      "gen_ai.tool.name": tool,
      "gen_ai.tool.type": "function",
      "hermes.mcp.server": mcp?.server,
      "hermes.mcp.tool": mcp?.tool
    }
  }
}

/** Begins the span of a call; undefined if the fiber has no tracer, or if middleware traces the calls. */
export const beginSpan = (
  services: Context.Context<never>,
  { call: { id, name }, context: { sessionId } }: Prepare.ReadyCall,
  { isTraced }: { readonly isTraced: boolean }
): Tracer.Span | undefined =>
  isTraced ? undefined : OperationSpans.beginSpan(services, () => describeCall(name, id, sessionId))

/**
 * Puts what runs inside of a call below its span. It cannot annotate the span, because the toolkits of Effect write
 * arguments on the span that they are in.
 */
export const enterSpan = <R>(services: Context.Context<R>, span: Tracer.Span): Context.Context<R> =>
  Context.add(
    services,
    Tracer.ParentSpan,
    Tracer.externalSpan({
      traceId: span.traceId,
      spanId: span.spanId,
      sampled: span.sampled,
      annotations: Context.make(TraceContext.TraceState, TraceContext.findTraceState(span))
    })
  )

/** Creates the function that ends the span of a call with the call. */
export const makeTrace =
  (span: Tracer.Span, services: Context.Context<never>) =>
  <R>(execution: Effect.Effect<Settlement, never, R>): Effect.Effect<Settlement, never, R> =>
    Effect.onExit(execution, (exit) => Effect.sync(() => endSpan(span, services, exit)))

const endSpan = (span: Tracer.Span, services: Context.Context<never>, exit: Exit.Exit<Settlement, never>): void => {
  const status = Exit.isSuccess(exit) ? exit.value.status : "cancelled"
  OperationSpans.endSpan(span, services, exit, {
    attributes: { "hermes.tool.status": status },
    failure: Exit.isSuccess(exit) && exit.value.isFailure ? status : undefined
  })
}
