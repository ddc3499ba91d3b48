/** Log records of spans: of runs, approvals and failures. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import * as Conventions from "./otel/Conventions.ts"
import * as Metrics from "./otel/Metrics.ts"
import type * as RunSpans from "./RunSpans.ts"
import type { Loggers } from "./SpanMiddleware.ts"

const describeResult = ({ node }: RunSpans.Span): string | undefined => {
  if (node.kind === "approval") return node.event.choice
  return node.kind === "run" ? (node.end?.exit ?? "interrupted") : undefined
}

/**
 * Writes the log record of a span for which `isLogged` is true. The record has the time at which the span ended.
 */
export const logSpan = (
  span: RunSpans.Span,
  agentName: string,
  loggers: Loggers,
  conventions = Conventions.standard
): Effect.Effect<void> => {
  const { endedAt, name, node, outcome, sampled, spanId, traceId } = span
  const failure = outcome._tag === "Failed" ? outcome.failure : undefined
  const result = describeResult(span)
  const level = failure === undefined ? "Info" : node.kind === "run" ? "Error" : "Warn"
  return Effect.logWithLevel(level)(
    failure === undefined ? `${name}: ${result}` : `${name} failed: ${failure.message}`
  ).pipe(
    Effect.annotateLogs({
      ...Metrics.makeLabels(node, agentName, conventions),
      ...(failure === undefined ? {} : { "error.type": failure.type })
    }),
    Effect.withParentSpan(Tracer.externalSpan({ traceId, spanId, sampled }), { captureStackTrace: false }),
    Effect.provideService(Logger.CurrentLoggers, loggers),
    Effect.provideService(References.MinimumLogLevel, "Info"),
    Effect.updateService(Clock.Clock, (clock) => ({
      ...clock,
      currentTimeMillisUnsafe: () => endedAt,
      currentTimeNanosUnsafe: () => BigInt(Math.round(endedAt)) * 1_000_000n
    }))
  )
}
