/**
 * Creates spans of runs in the tracer of the run's fiber, or in a given tracer. The tracer assigns the ids, so the span
 * of a call is created when the call begins, along with the spans of its run and step. Attributes and end times are
 * added from the record.
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

/** Options of the application. */
export interface Options {
  readonly agentName: string
  /** Tracer to use. The default is the tracer of the fiber. */
  readonly tracer: Tracer.Tracer | undefined
  /** Parent span of runs if the application has no active span. */
  readonly parent: Tracer.AnySpan | undefined
  readonly sampler: Sampler | undefined
}

/** A call that has just begun in the fiber of a run. */
export interface BegunCall {
  readonly context: Context.Context<never>
  readonly turnId: string
  readonly sessionId: string
  /** True if the run belongs to a child agent. */
  readonly isChild: boolean
  readonly startedAt: number
}

/** Sink of spans, and functions that create the spans of calls in a fiber. */
export interface TracerSpans {
  readonly sink: LiveSpans.Sink
  /** Stores the context of a run's fiber. It contains the tracer and the parent span of the run. */
  readonly enter: (turnId: string, context: Context.Context<never>) => void
  /** Returns the context of a run's fiber. */
  readonly makeContext: (turnId: string) => Context.Context<never> | undefined
  /** Returns the span in which an attempt runs. `step` is `undefined` for a side task. */
  readonly attempt: (
    begun: BegunCall,
    ids: { readonly apiRequestId: string; readonly step: number | undefined; readonly model: string }
  ) => Tracer.AnySpan | undefined
  /** Returns the span in which a tool call runs. */
  readonly call: (
    begun: BegunCall,
    ids: { readonly apiRequestId: string; readonly callId: string; readonly name: string }
  ) => Tracer.AnySpan | undefined
  /** Ends spans whose end was never recorded, as interrupted. */
  readonly close: (at: number) => void
}

/** Maximum number of finished runs whose spans are retained as parents of late side tasks. */
const recentRuns = 256

const toNanos = (millis: number): bigint => BigInt(Math.round(millis * 1000)) * 1000n

/**
 * Maps an outcome to the exit of its span. The error does not have a stack trace, because this program did not throw
 * it.
 */
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

/** Creates a sink that creates spans in the tracer of an application. */
export const make = ({ agentName, parent, sampler, tracer }: Options): TracerSpans => {
  /** Open spans by their id in the record. */
  const open = new Map<string, Tracer.Span>()
  const recent = new Map<string, Tracer.AnySpan>()
  const fibers = new Map<string, Context.Context<never>>()
  /** Last step of each run, by turn. */
  const steps = new Map<string, string>()
  /** For each call, its span id in the record and its turn, by the span id that the tracer assigned. */
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

  /** Finds the call in which the fiber runs. */
  const findCall = ({ context }: BegunCall) => {
    let at = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
    while (at !== undefined && !places.has(at.spanId))
      at = at._tag === "Span" ? Option.getOrUndefined(at.parent) : undefined
    return at === undefined ? undefined : places.get(at.spanId)
  }
  /** Finds the span of the call in which the fiber runs, if it belongs to the same run. */
  const findEnclosingSpan = (begun: BegunCall): Tracer.AnySpan | undefined => {
    const call = findCall(begun)
    return call?.turnId === begun.turnId ? open.get(call.spanId) : undefined
  }
  /** Returns the span of a run. The span of a child is below the call that delegated to it. */
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
   * Returns a read-only reference to a span. Code inside a call creates spans below the call's span, but must not add
   * attributes to it. Effect's toolkits, for example, would add the arguments.
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
