/**
 * Tracing and metrics of runs for an application with its own telemetry. It uses Effect's tracer and metrics, so the
 * application's exporter (`effect/observability` `Otlp`, an SDK, a test) also exports them.
 *
 * **Details**
 *
 * | span | represents |
 * | --- | --- |
 * | `invoke_agent` | a run, or a child below the tool call that delegated to it |
 * | `step` | a step of a run |
 * | `chat` | an attempt to call a model |
 * | `execute_tool` | a tool call, from its preparation to its end |
 * | `approval` | a request for approval, until it is answered |
 *
 * Attributes and metrics are named according to the GenAI semantic conventions. Spans are built from the run record, so
 * they have its timestamps and its full text of any length. Model calls and tool calls run in their spans, so that
 * everything inside them (spans of a tool, log lines, MCP calls, child processes) belongs to their trace. Without a
 * tracer in the fiber, nothing is recorded.
 *
 * Its spans replace the runtime's own spans of runs, model calls, tool calls and side tasks, which an application with
 * a tracer has without a plugin (`Agent.run`, `chat`, `execute_tool`).
 *
 * **Gotchas**
 *
 * This plugin and `observability/otel` are mutually exclusive: only the first one is active, and a warning is logged
 * for the other.
 *
 * Prompts, answers, arguments and results are part of a span only with `captureContent`, without secrets. For the same
 * reason, code inside a call can annotate only its own spans, not the span of the call.
 *
 * **Example** (An application that exports over OTLP)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { layer as http } from "effect/http/FetchHttpClient"
 * import * as Otlp from "effect/observability/Otlp"
 * import { Agent, Runtime, RunTelemetry } from "hermes-effect"
 *
 * const exporting = Otlp.layerJson({ baseUrl: "http://localhost:4318", resource: { serviceName: "my-service" } }).pipe(Layer.provide(http))
 * const agent = Runtime.layer({ ...RunTelemetry.make({ agentName: "helper" }) })
 *
 * const program = Agent.run({ prompt: "hello" }).pipe(Effect.withSpan("my request"), Effect.provide(Layer.merge(agent, exporting)))
 * ```
 *
 * Source: OpenTelemetry, "Semantic Conventions for Generative AI systems".
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type { OtlpSerialization } from "effect/observability/OtlpSerialization"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { type Recorder, RunRecorder } from "../base/domain/RunRecorder.ts"
import type { Hook } from "../hooks/Hook.ts"
import * as Hooks from "../hooks/Hooks.ts"
import type { LlmContext, ToolCallContext } from "../middleware/Kind.ts"
import * as Middleware from "../middleware/Middleware.ts"
import * as Plugin from "../agent/plugin/Plugin.ts"
import type { RunRecord } from "../store/RunRecord.ts"
import * as Attributes from "./otel/Attributes.ts"
import * as Conventions from "./otel/Conventions.ts"
import * as Metrics from "./otel/Metrics.ts"
import type { Sampler } from "./otel/Sampler.ts"
import * as TracerSpans from "./otel/TracerSpans.ts"
import * as RunSpans from "./RunSpans.ts"
import * as LiveSpans from "./LiveSpans.ts"

/** Options of an application. All are optional. */
export interface Options {
  /** Name of the agent in spans. The default is `hermes`. */
  readonly agentName?: string | undefined
  /** If true, spans include prompts, answers, arguments and results. The default is false. */
  readonly captureContent?: boolean | undefined
  /**
   * Version of the GenAI semantic conventions that names attributes and metrics. The default is 1.41. See
   * `otel/Conventions`.
   */
  readonly conventions?: Conventions.Version | undefined
  /**
   * If true, `invoke_agent` spans have the usage and the cost of all their model calls under the names that model calls
   * use, so that a sum over all spans counts each token twice. The default is false: the totals have other names.
   */
  readonly agentUsage?: boolean | undefined
  /** Tracer to use. The default is the tracer of the fiber. */
  readonly tracer?: Tracer.Tracer | undefined
  /** Registry of the metrics. The default is the registry of the fiber. */
  readonly registry?: Context.Context<never> | undefined
  /** Parent span of runs if the application has no active span. */
  readonly parent?: Tracer.AnySpan | undefined
  /**
   * Decides which runs are traced. By default, a run inherits the sampling decision of its parent span, and is traced
   * if it has no parent span.
   */
  readonly sampler?: Sampler | undefined
}

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

const describeResult = ({ node }: RunSpans.Span): string | undefined => {
  if (node.kind === "approval") return node.event.choice
  return node.kind === "run" ? (node.end?.exit ?? "interrupted") : undefined
}

/** Tests whether a log record is written for a span. This applies to runs, approvals and failures. */
export const isLogged = ({ node, outcome }: RunSpans.Span): boolean =>
  outcome._tag === "Failed" || node.kind === "run" || node.kind === "approval"

/**
 * Writes the log record of a span for which {@link isLogged} is true. The record has the time at which the span ended.
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

/** Name of the target for tracing to an application's tracer. */
export const tracerTarget = "tracer"

/** Advice in the warning that is logged when runs would be traced twice. */
export const exclusive = "use Telemetry or enable observability/otel, not both."

/** Returns the step number of an attempt, or `undefined` for a side task. */
const getStepNumber = ({ apiCallCount, platform }: LlmContext): number | undefined =>
  platform.startsWith("auxiliary:") ? undefined : apiCallCount

const buildContribution = (options: Options): Effect.Effect<Contribution, never, RunRecord | Scope.Scope> =>
  Effect.gen(function* () {
    const { agentUsage, captureContent = false, agentName = "hermes", parent, registry, sampler, tracer } = options
    const conventions = Conventions.getTable(options.conventions)
    const isExcluded = (other: string) => other === tracerTarget || other.startsWith("otlp ")
    if (!(yield* LiveSpans.claimTarget(tracerTarget, { excludes: isExcluded, remedy: exclusive })))
      return { hooks: [], middleware: [] }
    const clock = yield* Clock.Clock
    const spans = TracerSpans.make({ agentName, tracer, parent, sampler })
    // The application's tracer assigns ids and parents. The ids returned here only identify spans relative to each
    // other.
    const makeTrace = ({ turnId }: { readonly turnId: string }): RunSpans.Trace => ({
      traceId: RunSpans.makeTraceId(turnId),
      parentSpanId: undefined,
      sampled: true
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => spans.close(clock.currentTimeMillisUnsafe())))
    const registries = new WeakMap<Context.Context<never>, Metrics.MetricRecorder>()
    const getRecorder = (into: Context.Context<never>): Metrics.MetricRecorder => {
      const known = registries.get(into) ?? Metrics.toRegistry(into)
      registries.set(into, known)
      return known
    }
    yield* LiveSpans.listen(
      Attributes.makeView({ agentName, captureContent, conventions, agentUsage }, makeTrace),
      {
        open: spans.sink.open,
        close: (span) => {
          const into = registry ?? spans.makeContext(RunSpans.findRun(span.node).turnId)
          if (into !== undefined) Metrics.recordSpan(span, agentName, getRecorder(into), conventions)
          spans.sink.close(span)
        }
      },
      captureContent
    )
    const toBegunCall = (
      context: Context.Context<never>,
      { isChild, turnId }: Recorder,
      { sessionId }: LlmContext | ToolCallContext
    ): TracerSpans.BegunCall => ({ context, turnId, sessionId, isChild, startedAt: clock.currentTimeMillisUnsafe() })
    return {
      hooks: [
        Hooks.observer(
          { label: "otel" },
          {
            pre_llm_call: ({ turn_id }) =>
              Effect.contextWith((context: Context.Context<never>) => Effect.sync(() => spans.enter(turn_id, context)))
          }
        )
      ],
      middleware: makeMiddleware(
        {
          attempt: (context, run, attempt) =>
            spans.attempt(toBegunCall(context, run, attempt), {
              apiRequestId: attempt.apiRequestId,
              model: attempt.model,
              step: getStepNumber(attempt)
            }),
          call: (context, run, call) =>
            spans.call(toBegunCall(context, run, call), {
              apiRequestId: call.apiRequestId,
              callId: call.toolCallId,
              name: call.toolName
            })
        },
        undefined
      )
    }
  })

/** Creates a plugin that reports runs to the application's tracer and metrics. */
export const makePlugin = (options: Options = {}): Plugin.Plugin<RunRecord> =>
  Plugin.make({
    name: "telemetry",
    description: "Traces runs into the tracer and the metrics of the application",
    build: buildContribution(options)
  })

/** Returns the plugin as an option of a runtime: `Runtime.layer({ ...RunTelemetry.make(), … })`. */
export const make = (options?: Options): { readonly plugins: readonly [Plugin.Plugin<RunRecord>] } => ({
  plugins: [makePlugin(options)]
})

/**
 * Protobuf serialization for Effect's exporters, for programs with long conversations. It produces the same bytes as
 * `OtlpSerialization.layerProtobuf`, which uses many times more memory for spans with long attribute values.
 *
 * **Example** (In the place of `Otlp.layerProtobuf`)
 *
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { layer as http } from "effect/http/FetchHttpClient"
 * import * as Otlp from "effect/observability/Otlp"
 * import { RunTelemetry } from "hermes-effect"
 *
 * const exporting = Otlp.layer({ baseUrl: "http://localhost:4318", resource: { serviceName: "my-service" } }).pipe(
 *   Layer.provide([http, RunTelemetry.layerProtobuf])
 * )
 * ```
 */
export const layerProtobuf: Layer.Layer<OtlpSerialization> = Layer.unwrap(
  Effect.map(
    Effect.promise(() => import("./otlp/Serialization.ts")),
    ({ layer }) => layer
  )
)
