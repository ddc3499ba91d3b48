/** Middleware that runs model calls and tool calls in the spans of their run, and the parts of a tracing plugin. */
import * as Context from "effect/Context"
import * as Logger from "effect/Logger"
import * as Tracer from "effect/Tracer"
import { type Recorder, RunRecorder } from "../base/domain/RunRecorder.ts"
import type { Hook } from "../hooks/Hook.ts"
import type { LlmContext, ToolCallContext } from "../middleware/Kind.ts"
import * as Middleware from "../middleware/Middleware.ts"
import type * as RunSpans from "./RunSpans.ts"

/** Parts that a tracing plugin contributes to a runtime. */
export interface Contribution {
  readonly hooks: ReadonlyArray<Hook>
  readonly middleware: readonly [Middleware.LlmExecution, Middleware.ToolExecution] | readonly []
}

/** Functions that return the span of an active call, or `undefined` if the call is not traced. */
export interface Places {
  readonly attempt: (context: Context.Context<never>, run: Recorder, attempt: LlmContext) => Tracer.AnySpan | undefined
  readonly call: (context: Context.Context<never>, run: Recorder, call: ToolCallContext) => Tracer.AnySpan | undefined
}

/** Loggers that receive a record of each run, approval and failure, and all log entries of model and tool calls. */
export type Loggers = ReadonlySet<Logger.Logger<unknown, unknown>>

/** Creates middleware that runs model calls and tool calls of recorded runs in their spans. */
export const makeMiddleware = (places: Places, loggers: Loggers | undefined): Contribution["middleware"] => {
  /** Loggers of the last call combined with `loggers`. They are cached because most calls have the same loggers. */
  let both: { readonly of: Loggers; readonly all: Loggers } | undefined
  const addOwnLoggers = (given: Loggers, own: Loggers): Loggers => {
    if (both?.of !== given) both = { of: given, all: new Set([...given, ...own]) }
    return both.all
  }
  const enterSpan = (
    context: Context.Context<never>,
    findPlace: (run: Recorder) => Tracer.AnySpan | undefined
  ): Context.Context<never> => {
    const recorder = Context.get(context, RunRecorder)
    const place = recorder === undefined ? undefined : findPlace(recorder)
    if (place === undefined) return context
    const placed = Context.add(context, Tracer.ParentSpan, place)
    return loggers === undefined
      ? placed
      : Context.add(placed, Logger.CurrentLoggers, addOwnLoggers(Context.get(context, Logger.CurrentLoggers), loggers))
  }
  return [
    Middleware.llmServices({
      name: "otel",
      traces: true,
      services: (context, attempt) => enterSpan(context, (run) => places.attempt(context, run, attempt))
    }),
    Middleware.toolServices({
      name: "otel",
      services: (context, call) => enterSpan(context, (run) => places.call(context, run, call))
    })
  ]
}

/** Tests whether a log record is written for a span. This applies to runs, approvals and failures. */
export const isLogged = ({ node, outcome }: RunSpans.Span): boolean =>
  outcome._tag === "Failed" || node.kind === "run" || node.kind === "approval"
