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
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { OtlpSerialization } from "effect/observability/OtlpSerialization"
import * as Tracer from "effect/Tracer"
import * as Plugin from "../agent/plugin/Plugin.ts"
import type { RunRecord } from "../store/RunRecord.ts"
import type * as Conventions from "./otel/Conventions.ts"
import type { Sampler } from "./otel/Sampler.ts"
import type * as RunSpans from "./RunSpans.ts"
import type { Loggers } from "./SpanMiddleware.ts"

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

export { type Contribution, isLogged, type Loggers, makeMiddleware, type Places } from "./SpanMiddleware.ts"

/**
 * Writes the log record of a span for which `isLogged` is true. The record has the time at which the span ended.
 */
export const logSpan = (
  span: RunSpans.Span,
  agentName: string,
  loggers: Loggers,
  conventions?: Conventions.Table
): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.promise(() => import("./SpanLog.ts")),
    (log) => log.logSpan(span, agentName, loggers, conventions)
  )

/** Name of the target for tracing to an application's tracer. */
export const tracerTarget = "tracer"

/** Advice in the warning that is logged when runs would be traced twice. */
export const exclusive = "use Telemetry or enable observability/otel, not both."

/** Creates a plugin that reports runs to the application's tracer and metrics. */
export const makePlugin = (options: Options = {}): Plugin.Plugin<RunRecord> =>
  Plugin.make({
    name: "telemetry",
    description: "Traces runs into the tracer and the metrics of the application",
    build: Effect.flatMap(
      Effect.promise(() => import("./TracerContribution.ts")),
      ({ buildContribution }) => buildContribution(options, { target: tracerTarget, remedy: exclusive })
    )
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
