/**
 * Tracing and metrics of runs for an application that has its own: spans, metrics and the trace of each call are Effect's,
 * so that whatever exports those of the application (`effect/observability` `Otlp`, an SDK, a test) exports these.
 *
 * **Details**
 *
 * | span | of |
 * | --- | --- |
 * | `invoke_agent` | a run, or a child below the tool call that delegated to it |
 * | `step` | a step of a run |
 * | `chat` | an attempt to call a model |
 * | `execute_tool` | a tool call, from its preparation to its end |
 * | `approval` | a question, and how long the answer took |
 *
 * Names of attributes and metrics are those of the GenAI semantic conventions. The middleware puts model calls and tool
 * calls into their spans, so that what happens in them (spans of a tool, log lines, MCP calls, child processes) belongs to
 * their trace. Without a tracer in the fiber nothing is kept.
 *
 * **Gotchas**
 *
 * What was said is part of a span only with `captureContent`; it is redacted then. For the same reason what runs inside of
 * a call cannot annotate the span of the call, only spans of its own. One value belongs to one runtime.
 *
 * **Example** (An application that exports over OTLP)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { layer as http } from "effect/http/FetchHttpClient"
 * import * as Otlp from "effect/observability/Otlp"
 * import { Agent, Runtime, Telemetry } from "hermes-effect"
 *
 * const exporting = Otlp.layerJson({ baseUrl: "http://localhost:4318", resource: { serviceName: "my-service" } }).pipe(Layer.provide(http))
 * const agent = Runtime.layer({ ...Telemetry.make({ agentName: "helper" }) })
 *
 * const program = Agent.run({ prompt: "hello" }).pipe(Effect.withSpan("my request"), Effect.provide(Layer.merge(agent, exporting)))
 * ```
 *
 * Source: OpenTelemetry, "Semantic Conventions for Generative AI systems".
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type * as Tracer from "effect/Tracer"
import type { Hook } from "../hooks/Hook.ts"
import * as Middleware from "../middleware/Middleware.ts"
import type { Sampler } from "./otel/Sampler.ts"
import * as Spans from "./otel/Spans.ts"
import * as TrackerHook from "./span/TrackerHook.ts"

/** Options of an application; everything has a default. */
export interface Options {
  /** Name of the agent in spans; `hermes` when absent. */
  readonly agentName?: string | undefined
  /** Adds prompts, answers, arguments and results to the spans; not when absent. */
  readonly captureContent?: boolean | undefined
  /** The tracer of the fiber when absent. */
  readonly tracer?: Tracer.Tracer | undefined
  /** Registry of the metrics; that of the fiber when absent. */
  readonly registry?: Context.Context<never> | undefined
  /** Parent of runs where the application has no span. */
  readonly parent?: Tracer.AnySpan | undefined
  /** Selects the runs that are traced; as the span above says, else all, when absent. */
  readonly sampler?: Sampler | undefined
  /** A number from 0 to 1, for the sampler. */
  readonly chance?: (() => number) | undefined
  /** Loggers that are told what went wrong and how runs ended, and what is logged inside of model and tool calls. */
  readonly loggers?: ReadonlySet<Logger.Logger<unknown, unknown>> | undefined
}

/** Telemetry of a runtime, as parts of its options. */
export interface Telemetry {
  readonly hooks: ReadonlyArray<Hook>
  readonly middleware: readonly [Middleware.LlmExecution, Middleware.ToolExecution]
}

const tell = (lines: ReadonlyArray<Spans.Line>, loggers: ReadonlySet<Logger.Logger<unknown, unknown>>): Effect.Effect<void> =>
  Effect.forEach(
    lines,
    ({ attributes, level, message, span }) =>
      Effect.logWithLevel(level)(message).pipe(Effect.annotateLogs(attributes), Effect.withParentSpan(span, { captureStackTrace: false })),
    { discard: true }
  ).pipe(Effect.provideService(Logger.CurrentLoggers, loggers), Effect.provideService(References.MinimumLogLevel, "Info"))

/** The parts, and what ends every span that is still open. */
export const open = (options: Options = {}): Telemetry & { readonly close: Effect.Effect<void> } => {
  const { loggers } = options
  let lines: Array<Spans.Line> = []
  const { enter, exporter } = Spans.make({
    agentName: options.agentName ?? "hermes",
    captureContent: options.captureContent ?? false,
    tracer: options.tracer,
    registry: options.registry,
    parent: options.parent,
    sampler: options.sampler,
    chance: options.chance ?? (() => 0),
    say: loggers === undefined ? undefined : (line) => lines.push(line)
  })
  const leave = loggers === undefined ? Effect.void : Effect.suspend(() => {
    const said = lines
    lines = []
    return said.length === 0 ? Effect.void : tell(said, loggers)
  })
  const { close, hook, tracker } = TrackerHook.of("otel", { exporter, enter, leave })

  /** Puts what an Effect does into a span, if it has one. */
  const inside = (live: Spans.Live | undefined) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    if (live === undefined) return effect
    const placed = Effect.withParentSpan(effect, live.place, { captureStackTrace: false })
    return loggers === undefined
      ? placed
      : Effect.updateService(placed, Logger.CurrentLoggers, (current) => new Set([...current, ...loggers]))
  }
  return {
    hooks: [hook],
    middleware: [
      Middleware.llmExecution({
        name: "otel",
        wrap: (next, { apiRequestId, turnId }) => (request) => Effect.suspend(() => inside(tracker.model(turnId, apiRequestId))(next(request)))
      }),
      Middleware.toolExecution({
        name: "otel",
        wrap: (next, { toolCallId, turnId }) => (args) => Effect.suspend(() => inside(tracker.tool(turnId, toolCallId))(next(args)))
      })
    ],
    close
  }
}

/** See the module: `Runtime.layer({ ...Telemetry.make(), … })`. */
export const make = (options?: Options): Telemetry => {
  const { hooks, middleware } = open(options)
  return { hooks, middleware }
}
