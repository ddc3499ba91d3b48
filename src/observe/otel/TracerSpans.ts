/**
 * Puts spans of runs into the tracer of the fiber that a run is in, or into a given one. The ids are the tracer's, so
 * the span of a call that is under way is made when the call begins, with the run and the step that it is in;
 * attributes and the end come with the record.
 */
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import * as TraceContext from "../../hooks/TraceContext.ts"
import { redactText } from "../../base/domain/Redaction.ts"
import { JoinedText } from "../JoinedText.ts"
import type * as LiveSpans from "../LiveSpans.ts"
import * as RunSpans from "../RunSpans.ts"
import type { Sampler } from "./Sampler.ts"

/** Choices of the application. */
export interface Options {
  readonly agentName: string
  /** The tracer of the fiber when absent. */
  readonly tracer: Tracer.Tracer | undefined
  /** Parent span of runs if the application has no active span. */
  readonly parent: Tracer.AnySpan | undefined
  readonly sampler: Sampler | undefined
}

/** A call that begins, in the run of a fiber. */
export interface BegunCall {
  readonly context: Context.Context<never>
  readonly turnId: string
  readonly sessionId: string
  /** True in the run of a child agent. */
  readonly isChild: boolean
  readonly startedAt: number
}

/** Sink of spans, and the calls that begin and end in a fiber. */
export interface TracerSpans {
  readonly sink: LiveSpans.Sink
  /** Notes the fiber of a run: its tracer, and the span that the run is under. */
  readonly enter: (turnId: string, context: Context.Context<never>) => void
  /** Services of the fiber of a run. */
  readonly makeContext: (turnId: string) => Context.Context<never> | undefined
  /** The place of an attempt; `step` is undefined for a side task. */
  readonly attempt: (
    begun: BegunCall,
    ids: { readonly apiRequestId: string; readonly step: number | undefined; readonly model: string }
  ) => Tracer.AnySpan | undefined
  /** The place of a tool call. */
  readonly call: (
    begun: BegunCall,
    ids: { readonly apiRequestId: string; readonly callId: string; readonly name: string }
  ) => Tracer.AnySpan | undefined
  /** Ends spans that the record never told of, as interrupted. */
  readonly close: (at: number) => void
}

/** Runs that are over whose spans late side tasks are put under. */
const recentRuns = 256

const toNanos = (millis: number): bigint => BigInt(Math.round(millis * 1000)) * 1000n

/** Maps an outcome to the exit of its span. The error has no stack, because this program did not throw it. */
export const toExit = (outcome: RunSpans.Outcome): Exit.Exit<void, Error> => {
  if (outcome._tag === "Done") return Exit.void
  if (outcome._tag === "Cut") return Exit.interrupt()
  const error = Object.assign(new Error(redactText(outcome.failure.message)), { name: outcome.failure.type })
  error.stack = `${error.name}: ${error.message}`
  return Exit.fail(error)
}

interface WantedSpan extends Pick<RunSpans.SpanHead, "kind" | "name" | "spanId" | "startedAt"> {
  /** Seed of the sampler for a run without a parent span. */
  readonly traceId: string
}

/** Spans in tracers of applications. */
export const make = ({ agentName, parent, sampler, tracer }: Options): TracerSpans => {
  /** By the ids of the record. */
  const open = new Map<string, Tracer.Span>()
  const recent = new Map<string, Tracer.AnySpan>()
  const fibers = new Map<string, Context.Context<never>>()
  /** Last step of each run, by turn. */
  const steps = new Map<string, string>()
  /** Ids of the record of calls, by the id in the tracer, with their turn. */
  const places = new Map<string, { readonly spanId: string; readonly turnId: string }>()

  const selectTracer = (context: Context.Context<never> | undefined): Tracer.Tracer | undefined => {
    const found = tracer ?? (context === undefined ? undefined : Context.get(context, Tracer.Tracer))
    // The default tracer discards spans.
    return found === Tracer.nativeTracer ? undefined : found
  }
  const beginSpan = (
    { kind, name, spanId, startedAt, traceId }: WantedSpan,
    context: Context.Context<never> | undefined,
    below: Tracer.AnySpan | undefined
  ): Tracer.Span | undefined => {
    const known = open.get(spanId)
    const found = selectTracer(context)
    if (known !== undefined || found === undefined) return known
    const above = below ?? (context === undefined ? undefined : TraceContext.findNearestSpan(context)) ?? parent
    const span = found.span({
      name,
      parent: Option.fromUndefinedOr(above),
      annotations: Context.empty(),
      links: [],
      startTime: toNanos(startedAt),
      kind,
      root: above === undefined,
      sampled: below?.sampled ?? sampler?.(above, above?.traceId ?? traceId) ?? above?.sampled ?? true
    })
    open.set(spanId, span)
    return span
  }
  const findSpan = (spanId: string | undefined): Tracer.AnySpan | undefined =>
    spanId === undefined ? undefined : (open.get(spanId) ?? recent.get(spanId))

  /** The call that the fiber is in. */
  const findCall = ({ context }: BegunCall) => {
    let at = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
    while (at !== undefined && !places.has(at.spanId))
      at = at._tag === "Span" ? Option.getOrUndefined(at.parent) : undefined
    return at === undefined ? undefined : places.get(at.spanId)
  }
  /** The call of the same run that the fiber is in. */
  const findEnclosingSpan = (begun: BegunCall): Tracer.AnySpan | undefined => {
    const call = findCall(begun)
    return call?.turnId === begun.turnId ? open.get(call.spanId) : undefined
  }
  /** Returns the span of a run; the span of a child is under the call that delegated to it. */
  const getRunSpan = (begun: BegunCall): Tracer.AnySpan | undefined => {
    const { context, isChild, sessionId, startedAt, turnId } = begun
    const spanId = isChild ? RunSpans.makeChildSpanId(sessionId) : RunSpans.makeRunSpanId(turnId)
    const wanted = {
      name: `invoke_agent ${agentName}`,
      kind: "internal",
      spanId,
      startedAt,
      traceId: RunSpans.makeTraceId(turnId)
    } as const
    return findSpan(spanId) ?? beginSpan(wanted, context, isChild ? findSpan(findCall(begun)?.spanId) : undefined)
  }
  /**
   * Those who run inside of a call belong to its span and cannot write on it, as Effect's toolkits do with arguments.
   */
  const toPlace = (span: Tracer.Span | undefined): Tracer.AnySpan | undefined =>
    span === undefined
      ? undefined
      : Tracer.externalSpan({
          traceId: span.traceId,
          spanId: span.spanId,
          sampled: span.sampled,
          annotations: Context.make(TraceContext.TraceState, TraceContext.findTraceState(span))
        })

  const beginInnerSpan = (
    begun: BegunCall,
    wanted: Omit<WantedSpan, "startedAt" | "traceId">,
    below: Tracer.AnySpan | undefined
  ): Tracer.Span | undefined =>
    below === undefined
      ? undefined
      : beginSpan({ ...wanted, startedAt: begun.startedAt, traceId: below.traceId }, begun.context, below)

  return {
    enter: (turnId, context) => void fibers.set(turnId, context),
    makeContext: (turnId) => fibers.get(turnId),
    attempt: (begun, { apiRequestId, model, step }) => {
      fibers.set(begun.turnId, fibers.get(begun.turnId) ?? begun.context)
      const run = getRunSpan(begun)
      const id = step === undefined ? undefined : RunSpans.makeStepSpanId(begun.turnId, step)
      if (id !== undefined) steps.set(begun.turnId, id)
      const below =
        id === undefined
          ? (findEnclosingSpan(begun) ?? run)
          : beginInnerSpan(begun, { name: `step ${step}`, kind: "internal", spanId: id }, run)
      return toPlace(
        beginInnerSpan(
          begun,
          { name: `chat ${model}`, kind: "client", spanId: RunSpans.makeAttemptSpanId(apiRequestId) },
          below
        )
      )
    },
    call: (begun, { apiRequestId, callId, name }) => {
      const below = findEnclosingSpan(begun) ?? findSpan(steps.get(begun.turnId)) ?? getRunSpan(begun)
      const spanId = RunSpans.makeCallSpanId(apiRequestId, callId)
      const span = beginInnerSpan(begun, { name: `execute_tool ${name}`, kind: "internal", spanId }, below)
      if (span !== undefined) places.set(span.spanId, { spanId, turnId: begun.turnId })
      return toPlace(span)
    },
    close: (at) => {
      for (const span of Array.from(open.values()).toReversed()) span.end(toNanos(at), toExit({ _tag: "Cut" }))
      open.clear()
    },
    sink: {
      open: (head) => {
        const run = RunSpans.findRun(head.node)
        const context =
          fibers.get(run.turnId) ?? (run.child === undefined ? undefined : fibers.get(run.child.parent.turnId))
        const below = findSpan(head.parentSpanId)
        if (below !== undefined || head.node.kind === "run") beginSpan(head, context, below)
      },
      close: (span) => {
        const { attributes, endedAt, events, node, outcome, spanId } = span
        const live = open.get(spanId)
        if (node.kind === "run" || (node.kind === "child" && node.run !== undefined)) {
          const { turnId } = node.kind === "run" ? node : (node.run ?? node.parent)
          fibers.delete(turnId)
          steps.delete(turnId)
        }
        if (live === undefined) return
        open.delete(spanId)
        places.delete(live.spanId)
        if (node.kind === "run") {
          recent.set(spanId, live)
          for (const oldest of recent.keys()) {
            if (recent.size <= recentRuns) break
            recent.delete(oldest)
          }
        }
        for (const [name, value] of Object.entries(attributes)) {
          if (value !== undefined) live.attribute(name, value instanceof JoinedText ? value.toString() : value)
        }
        for (const { at, attributes: facts, name } of events) live.event(name, toNanos(at), facts)
        live.end(toNanos(endedAt), toExit(outcome))
      }
    }
  }
}
