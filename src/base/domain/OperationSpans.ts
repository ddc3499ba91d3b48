/**
 * Spans of the runtime's operations in the tracer of an application, by Effect's own `Tracer`: no exporter of this
 * runtime is needed. Names and attributes follow the GenAI semantic conventions of OpenTelemetry.
 *
 * **Details**
 *
 * Without a tracer in the fiber an operation costs one comparison. Prompts, answers, arguments and results are not
 * part of a span, and a failure is recorded by its type alone.
 *
 * Source: OpenTelemetry, "Semantic Conventions for Generative AI systems".
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"

/** Attributes by name. Those that are undefined are left out. */
export type Attributes = Readonly<Record<string, string | number | boolean | ReadonlyArray<string> | undefined>>

/** An operation that has a span. */
export interface Operation {
  readonly name: string
  readonly kind: Tracer.SpanKind
  readonly attributes: Attributes
}

/** Names of the conventions for providers that they know. */
const providers: Readonly<Record<string, string>> = {
  "openai-codex": "openai",
  bedrock: "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gemini",
  gemini: "gcp.gemini",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
  mistral: "mistral_ai",
  moonshot: "moonshot_ai",
  kimi: "moonshot_ai"
}

/** Returns the name of a provider in the conventions. */
export const toProviderName = (name: string): string =>
  Object.hasOwn(providers, name) ? (providers[name] ?? name) : name

/** Returns the server of an MCP tool and the tool's name on that server, or `undefined` for every other tool. */
export const parseMcpTool = (tool: string): { readonly server: string; readonly tool: string } | undefined => {
  const [, server, name] = /^mcp__(.+?)__(.+)$/u.exec(tool) ?? []
  return server === undefined || name === undefined ? undefined : { server, tool: name }
}

const addAttributes = (span: Tracer.Span, attributes: Readonly<Record<string, unknown>>): void => {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) span.attribute(name, value)
}

/**
 * Returns whether fibers with these services record spans: their tracer is not Effect's default, which discards them.
 */
const isRecorded = (context: Context.Context<never>): boolean =>
  Context.get(context, Tracer.Tracer) !== Tracer.nativeTracer && Context.get(context, References.TracerEnabled)

const readTime = (context: Context.Context<never>): bigint => Context.get(context, Clock.Clock).currentTimeNanosUnsafe()

const findParent = (context: Context.Context<never>): Option.Option<Tracer.AnySpan> =>
  Option.filter(
    Context.getOption(context, Tracer.ParentSpan),
    ({ annotations }) => !Context.get(annotations, Tracer.DisablePropagation)
  )

/** Begins the span of an operation; undefined if the fiber has no tracer. */
export const beginSpan = (
  context: Context.Context<never>,
  describe: () => Operation | undefined
): Tracer.Span | undefined => {
  const operation = isRecorded(context) ? describe() : undefined
  if (operation === undefined) return undefined
  const parent = findParent(context)
  const span = Context.get(context, Tracer.Tracer).span({
    name: operation.name,
    kind: operation.kind,
    parent,
    root: false,
    annotations: Context.empty(),
    links: [...Context.get(context, References.TracerSpanLinks)],
    startTime: readTime(context),
    sampled: Option.isNone(parent) || parent.value.sampled
  })
  addAttributes(span, Context.get(context, References.TracerSpanAnnotations))
  addAttributes(span, operation.attributes)
  return span
}

/** The type of an error: its tag, or the tag of its reason, which is more exact. */
const readErrorType = (error: unknown): string =>
  Predicate.hasProperty(error, "reason") && Predicate.hasProperty(error.reason, "_tag")
    ? String(error.reason._tag)
    : Predicate.hasProperty(error, "_tag")
      ? String(error._tag)
      : error instanceof Error
        ? error.name
        : "Error"

/** The error of a failed span has no message and no stack, which may repeat contents. */
const makeFailure = (type: string): Exit.Exit<never, Error> => {
  const error = Object.assign(new Error(type), { name: type })
  error.stack = type
  return Exit.fail(error)
}

/** Ends a span with the outcome of its operation; `failure` is the type of a failure that is not an exit. */
export const endSpan = (
  span: Tracer.Span,
  context: Context.Context<never>,
  exit: Exit.Exit<unknown, unknown>,
  {
    attributes = {},
    failure
  }: { readonly attributes?: Attributes | undefined; readonly failure?: string | undefined } = {}
): void => {
  const type =
    failure ?? (Exit.isFailure(exit) && !Exit.hasInterrupts(exit) ? readErrorType(Cause.squash(exit.cause)) : undefined)
  addAttributes(span, { ...attributes, "error.type": type })
  span.end(
    readTime(context),
    type !== undefined ? makeFailure(type) : Exit.isFailure(exit) ? Exit.interrupt() : Exit.void
  )
}

/** Runs an operation in its span. `describeEnd` returns the attributes of its result. */
export const traceOperation = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  describe: () => Operation | undefined,
  describeEnd?: (result: A) => Attributes
): Effect.Effect<A, E, R> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const span = beginSpan(context, describe)
    if (span === undefined) return effect
    return effect.pipe(
      Effect.provideService(Tracer.ParentSpan, span),
      Effect.onExit((exit) =>
        Effect.sync(() =>
          endSpan(span, context, exit, { attributes: Exit.isSuccess(exit) ? describeEnd?.(exit.value) : undefined })
        )
      )
    )
  })
