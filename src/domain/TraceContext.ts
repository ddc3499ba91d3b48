/**
 * Trace of the work of a fiber in the form of W3C Trace Context, for those who continue the work: an MCP server, a child
 * process.
 *
 * **Details**
 *
 * The trace is the one of Effect's own tracing, so whoever traces (the embedding application, a plugin) needs no port of
 * ours: a span in the fiber is enough. Spans of Effect's default tracer, which keeps none, are passed over; the nearest
 * other one counts. `Tracer.DisablePropagation` on a span keeps it here.
 *
 * Source: W3C Trace Context, "Environment Variables as Context Propagation Carriers" of OpenTelemetry, MCP SEP-414.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** The nearest span of a fiber that somebody keeps; undefined where there is none. */
export const nearest = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  let span = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
  // Another tracer may make spans of this class and keep them.
  if (Context.get(context, Tracer.Tracer) !== Tracer.nativeTracer) return span
  while (span?._tag === "Span" && span instanceof Tracer.NativeSpan) span = Option.getOrUndefined(span.parent)
  return span
}

const traceId = /^[0-9a-f]{1,32}$/u
const spanId = /^[0-9a-f]{16}$/u

/** A span as `traceparent`; undefined for one that is kept here, or whose ids W3C has no place for. */
export const format = (span: Tracer.AnySpan): string | undefined =>
  Context.get(span.annotations, Tracer.DisablePropagation) || !traceId.test(span.traceId) || !spanId.test(span.spanId)
    ? undefined
    : `00-${span.traceId.padStart(32, "0")}-${span.spanId}-${span.sampled ? "01" : "00"}`

/** The `traceparent` of the work of this fiber; undefined without tracing. */
export const current: Effect.Effect<string | undefined> = Effect.contextWith((context: Context.Context<never>) => {
  const span = nearest(context)
  return Effect.succeed(span === undefined ? undefined : format(span))
})

/** The variables that take the trace into a child process: `TRACEPARENT`, or none. */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.map(
  current,
  (traceparent): Readonly<Record<string, string>> => traceparent === undefined ? {} : { TRACEPARENT: traceparent }
)
