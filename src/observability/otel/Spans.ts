/**
 * Makes Effect spans of what a tracker tells, with the numbers and the log records that go with them.
 *
 * **Details**
 *
 * - Spans are made by the tracer that is in the fiber of the run, or by one that is given; the outermost is under the span
 *   that the application runs the agent in, or under one that is given.
 * - A tool call or model call that a tool makes (`execute_code`, `vision_analyze`) is under its call.
 * - Whether a run is traced is decided when it begins; numbers count in either case.
 */
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import * as TraceContext from "../../domain/TraceContext.ts"
import { type Fields, object, text } from "../atof/Facts.ts"
import * as Tracker from "../span/Tracker.ts"
import * as Attributes from "./Attributes.ts"
import * as Metrics from "./Metrics.ts"
import type { Sampler } from "./Sampler.ts"

/** A line about a span that is over. */
export interface Line {
  readonly level: "Info" | "Warn" | "Error"
  readonly message: string
  readonly span: Tracer.Span
  readonly attributes: Attributes.Attributes
}

/** What may be said of the spans; see `Telemetry.Options`. */
export interface Options extends Attributes.Options {
  /** The tracer that is in the fiber, when absent. */
  readonly tracer: Tracer.Tracer | undefined
  /** Where numbers are counted: what is in the fiber, when absent. */
  readonly registry: Context.Context<never> | undefined
  /** What the outermost span is under where the application has none. */
  readonly parent: Tracer.AnySpan | undefined
  readonly sampler: Sampler | undefined
  /** A number from 0 to 1, for the sampler. */
  readonly chance: () => number
  /** Told of what is over. */
  readonly say: ((line: Line) => void) | undefined
}

/** A span that is open. */
export interface Live {
  readonly kind: Tracker.Kind
  readonly span: Tracer.Span
  /** The span for those who run inside of it: they belong to it and can not write on it, as Effect's toolkits do with arguments. */
  readonly place: Tracer.AnySpan
  /** Whether anybody keeps it: facts are written on no other. */
  readonly isKept: boolean
  readonly start: bigint
  readonly labels: Attributes.Attributes
  /** What its model calls used. */
  readonly sums: { input: number; output: number; cost: number }
  readonly parent: Live | undefined
}

const nameOf = (kind: Tracker.Kind, payload: Fields, { agentName }: Options): string => {
  switch (kind) {
    case "model":
      return `chat ${text(payload, "model")}`
    case "tool":
      return `execute_tool ${text(payload, "tool_name")}`
    case "approval":
      return "approval"
    case "step":
      return `step ${String(payload["api_call_count"])}`
    default:
      return `invoke_agent ${agentName}`
  }
}

const labelsOf = (kind: Tracker.Kind, payload: Fields, { agentName }: Options): Attributes.Attributes =>
  kind === "model"
    ? Metrics.modelLabels(payload)
    : kind === "tool"
    ? { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": text(payload, "tool_name") }
    : { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agentName }

/** Exporter and clock of one tracker. */
export interface Spans {
  readonly exporter: Tracker.Exporter<Live>
  readonly enter: (now: bigint, context: Context.Context<never>) => void
}

/** Failure of an operation. `type` is one of few words, for the attribute `error.type`. */
interface Failure {
  readonly type: string
  readonly message: string
}

/** Outcome of an operation: done, cut short, or failed. */
export type Outcome = { readonly _tag: "Done" } | { readonly _tag: "Cut" } | { readonly _tag: "Failed"; readonly failure: Failure }

const done: Outcome = { _tag: "Done" }
const cut: Outcome = { _tag: "Cut" }
const failedWith = (type: string, message: string): Outcome => ({ _tag: "Failed", failure: { type: type || "_OTHER", message: message || type } })

/** Maps the last event of an operation to its outcome. */
export const outcomeOf = (ending: Tracker.Ending, payload: Fields): Outcome => {
  switch (ending) {
    case Tracker.interrupted:
      return cut
    case "api_request_error": {
      const reason = text(payload, "reason")
      return reason === "interrupted" ? cut : failedWith(reason, text(object(payload, "error") ?? {}, "message"))
    }
    case "post_tool_call": {
      const status = text(payload, "status")
      if (status === "ok") return done
      return status === "cancelled" ? cut : failedWith(text(payload, "error_type") || status, text(payload, "error_message"))
    }
    case "subagent_stop": {
      const status = text(payload, "child_status")
      if (status === "completed" || status === "partial") return done
      return status === "interrupted" ? cut : failedWith(status, `the child ended as ${status}`)
    }
    case "on_session_end":
      if (payload["interrupted"] === true) return cut
      return payload["reason"] === "failed" ? failedWith("failed", "the run failed") : done
    default:
      return done
  }
}

/** Maps an outcome to the exit of its span. The error has no stack, because this program did not throw it. */
export const exitOf = (outcome: Outcome): Exit.Exit<void, Error> => {
  if (outcome._tag === "Done") return Exit.void
  if (outcome._tag === "Cut") return Exit.interrupt()
  const error = Object.assign(new Error(outcome.failure.message), { name: outcome.failure.type })
  error.stack = `${error.name}: ${error.message}`
  return Exit.fail(error)
}

const write = (span: Tracer.Span, attributes: Attributes.Attributes): void => {
  for (const [name, value] of Object.entries(attributes)) span.attribute(name, value)
}

/** See the module. */
export const make = (options: Options): Spans => {
  let now = 0n
  let context = Context.empty()
  // Tool calls by the span that is inside of them.
  const tools = new WeakMap<Tracer.AnySpan, Live>()

  /** The tool call that the fiber is in, of those that are made here. */
  const enclosing = (): Live | undefined => {
    let at = Option.getOrUndefined(Context.getOption(context, Tracer.ParentSpan))
    while (at !== undefined && !tools.has(at)) at = at._tag === "Span" ? Option.getOrUndefined(at.parent) : undefined
    return at === undefined ? undefined : tools.get(at)
  }

  const open = (kind: Tracker.Kind, payload: Fields, below: Live | undefined): Live => {
    const inner = kind === "tool" || kind === "model" ? enclosing() : undefined
    // Those of a child run inside of the call that delegated, and belong to the child.
    const parent = inner !== undefined && below !== undefined && runOf(inner) === runOf(below) ? inner : below
    const above = parent?.span ?? TraceContext.nearest(context) ?? options.parent
    const tracer = options.tracer ?? Context.get(context, Tracer.Tracer)
    const span = tracer.span({
      name: nameOf(kind, payload, options),
      parent: Option.fromUndefinedOr(above),
      annotations: Context.empty(),
      links: [],
      startTime: now,
      kind: kind === "model" ? "client" : "internal",
      root: above === undefined,
      sampled: parent?.span.sampled ?? options.sampler?.(above, options.chance()) ?? above?.sampled ?? true
    })
    const isKept = tracer !== Tracer.nativeTracer && span.sampled
    if (isKept) write(span, Attributes.opening(kind, payload, options))
    const live: Live = {
      kind,
      span,
      place: tracer === Tracer.nativeTracer ? span : Tracer.externalSpan({ traceId: span.traceId, spanId: span.spanId, sampled: span.sampled }),
      isKept,
      start: now,
      labels: labelsOf(kind, payload, options),
      sums: { input: 0, output: 0, cost: 0 },
      parent
    }
    if (kind === "tool") tools.set(live.place, live)
    return live
  }

  /** Adds what a model call used to the run that it is of; what a child used is the child's. */
  const charge = (live: Live, payload: Fields): void => {
    const counters = Attributes.usage(payload)
    const run = runOf(live)
    if (run === undefined) return
    run.sums.input += Number(counters["prompt_tokens"] ?? 0)
    run.sums.output += Number(counters["output_tokens"] ?? 0)
    run.sums.cost += Number(payload["estimated_cost_usd"] ?? 0)
  }

  const count = (live: Live, payload: Fields, error: string | undefined, into: Context.Context<never>): void => {
    const labels = { attributes: live.labels, error }
    const elapsed = Number(now - live.start) / 1e9
    if (live.kind === "model") Metrics.model(elapsed, payload, labels, into)
    else if (live.kind === "tool") Metrics.timed(Metrics.toolDuration, elapsed, labels, into)
    else if (live.kind === "run" || live.kind === "child") Metrics.timed(Metrics.runDuration, elapsed, labels, into)
    else return
    if (error !== undefined) Metrics.failed(labels, into)
  }

  const sumsOf = ({ kind, sums }: Live): Attributes.Attributes =>
    kind === "run" || kind === "child"
      ? { "gen_ai.usage.input_tokens": sums.input, "gen_ai.usage.output_tokens": sums.output, "hermes.cost_usd": sums.cost }
      : {}

  return {
    enter: (instant, entered) => {
      now = instant
      context = entered
    },
    exporter: {
      hasSteps: true,
      open,
      note: ({ isKept, span }, event, payload) => {
        if (!isKept) return
        write(span, event === "post_llm_call" ? Attributes.final(payload, options) : Attributes.closing(event, payload, options))
      },
      close: (live, ending, payload) => {
        const { span } = live
        const outcome = outcomeOf(ending, payload)
        const error = outcome._tag === "Failed" ? outcome.failure : undefined
        if (ending === "post_api_request") charge(live, payload)
        if (live.isKept) {
          write(span, { ...Attributes.closing(ending, payload, options), ...sumsOf(live), ...(error && { "error.type": error.type }) })
        }
        span.end(now, exitOf(outcome))
        count(live, payload, error?.type, options.registry ?? context)
        if (options.say !== undefined && (error !== undefined || live.kind === "run" || live.kind === "approval")) {
          const level = error === undefined ? "Info" : live.kind === "run" ? "Error" : "Warn"
          const message = error === undefined ? `${span.name}: ${text(payload, "choice") || text(payload, "reason") || ending}` : `${span.name} failed: ${error.message}`
          options.say({ level, message, span, attributes: { ...live.labels, ...(error === undefined ? {} : { "error.type": error.type }) } })
        }
      }
    }
  }
}

const runOf = (live: Live): Live | undefined => {
  let at: Live | undefined = live
  while (at !== undefined && at.kind !== "run" && at.kind !== "child") at = at.parent
  return at
}
