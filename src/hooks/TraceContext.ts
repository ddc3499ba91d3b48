/**
 * Converts the trace of a fiber to and from W3C Trace Context, for MCP servers and child processes that continue the
 * work.
 *
 * **Details**
 *
 * The trace is Effect's own, so a tracer (of the embedding application or a plugin) needs no port of this runtime: a
 * span in the fiber is enough. Spans of Effect's default tracer, which discards them, are skipped in favour of the
 * nearest other span. `Tracer.DisablePropagation` on a span prevents its propagation.
 *
 * **Example** (The trace of a request, continued by a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { TraceContext } from "hermes-effect/observability"
 *
 * const span = TraceContext.parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
 * const run = Agent.run({ prompt: "Reply exactly hello" })
 * const program = span === undefined ? run : Effect.withParentSpan(run, span)
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).text)
 * // => hello
 * ```
 *
 * Source: W3C Trace Context, "Environment Variables as Context Propagation Carriers" of OpenTelemetry, MCP SEP-414.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** Returns the nearest recorded span of a fiber, or `undefined` if there is no such span. */
export const findNearestSpan = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  let span = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
  // Another tracer may create spans of this class and record them.
  if (Context.get(context, Tracer.Tracer) !== Tracer.nativeTracer) return span
  while (span?._tag === "Span" && span instanceof Tracer.NativeSpan) span = Option.getOrUndefined(span.parent)
  return span
}

const traceId = /^[0-9a-f]{1,32}$/u
const spanId = /^[0-9a-f]{16}$/u
const isZero = (id: string): boolean => /^0+$/u.test(id)

/**
 * Formats a span as `traceparent`. Returns `undefined` for a span that is not propagated, or whose ids do not fit the
 * W3C format.
 */
export const format = (span: Tracer.AnySpan): string | undefined =>
  Context.get(span.annotations, Tracer.DisablePropagation) ||
  !traceId.test(span.traceId) ||
  !spanId.test(span.spanId) ||
  isZero(span.traceId) ||
  isZero(span.spanId)
    ? undefined
    : `00-${span.traceId.padStart(32, "0")}-${span.spanId}-${span.sampled ? "01" : "00"}`

/**
 * `tracestate` of a span, which is passed to all systems that continue the trace. An application that received a
 * `tracestate` annotates the span of the request with it.
 */
export const TraceState = Context.Reference<string | undefined>("hermes-effect/hooks/TraceState", {
  defaultValue: () => undefined
})

const stateKey = /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})$/u
const stateValue = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/u

/** Maximum number of members in a `tracestate`. */
const maxMembers = 32

/**
 * Normalizes a `tracestate` for propagation. Returns `undefined` for an empty or malformed value, which W3C requires to
 * be dropped as a whole.
 */
const parseState = (text: string | undefined): string | undefined => {
  const members = (text ?? "")
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "")
  const keys = members.map((member) => member.slice(0, Math.max(0, member.indexOf("="))))
  const isSound =
    members.length <= maxMembers &&
    new Set(keys).size === keys.length &&
    members.every(
      (member, index) =>
        stateKey.test(keys[index] ?? "") && stateValue.test(member.slice((keys[index] ?? "").length + 1))
    )
  return members.length > 0 && isSound ? members.join(",") : undefined
}

/**
 * Parses a `traceparent` and its `tracestate` to a span. Returns `undefined` if it is malformed. Values of later
 * versions may be longer.
 */
export const parse = (traceparent: string | undefined, tracestate?: string): Tracer.ExternalSpan | undefined => {
  const [, version, trace = "", span = "", flags = "", rest = ""] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/u.exec(traceparent?.trim() ?? "") ?? []
  if (version === undefined || version === "ff" || (version === "00" && rest !== "") || isZero(trace) || isZero(span))
    return undefined
  const state = parseState(tracestate)
  return Tracer.externalSpan({
    traceId: trace,
    spanId: span,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    ...(state === undefined ? {} : { annotations: Context.make(TraceState, state) })
  })
}

/** Returns the `tracestate` of a span, or of its nearest ancestor in the same trace with a `tracestate`. */
export const findTraceState = (span: Tracer.AnySpan | undefined): string | undefined => {
  for (let at = span; at !== undefined; at = at._tag === "Span" ? Option.getOrUndefined(at.parent) : undefined) {
    const state = Context.get(at.annotations, TraceState)
    if (state !== undefined) return state
  }
  return undefined
}

/** Trace context of a fiber as header fields. */
export interface Carrier {
  readonly traceparent: string
  readonly tracestate?: string
}

/** Returns the trace context of a fiber's services, or `undefined` without tracing. */
export const readCarrier = (context: Context.Context<never>): Carrier | undefined => {
  const span = findNearestSpan(context)
  const traceparent = span === undefined ? undefined : format(span)
  const tracestate = findTraceState(span)
  return traceparent === undefined ? undefined : { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
}

/** Returns the trace context of this fiber, or `undefined` without tracing. */
export const current: Effect.Effect<Carrier | undefined> = Effect.contextWith((context: Context.Context<never>) =>
  Effect.succeed(readCarrier(context))
)

/**
 * Returns the variables that pass the trace to a child process: `TRACEPARENT` and `TRACESTATE`. Empty without tracing.
 */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.map(
  current,
  (carrier): Readonly<Record<string, string>> =>
    carrier === undefined
      ? {}
      : {
          TRACEPARENT: carrier.traceparent,
          ...(carrier.tracestate === undefined ? {} : { TRACESTATE: carrier.tracestate })
        }
)
