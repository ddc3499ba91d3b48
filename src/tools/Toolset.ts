/**
 * A named group of `effect/ai` tools with their handlers. An application's own `Tool.make(…)` and `Toolkit.make(…)`
 * work unchanged; a toolset binds each toolkit to its own handlers, so that two tools with the same name never share a
 * handler.
 *
 * **Example** (A toolset with one tool)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Toolset } from "hermes-effect"
 *
 * const Double = Tool.make("double", {
 *   description: "Doubles a number",
 *   parameters: Schema.Struct({ n: Schema.Finite }),
 *   success: Schema.Finite
 * })
 * const toolkit = Toolkit.make(Double)
 * export const toolset = Toolset.make("maths", toolkit, toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))
 * ```
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-product.md` §2.1.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import type { JsonSchema } from "effect/JsonSchema"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as FileSystem from "effect/FileSystem"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Json from "../base/domain/Json.ts"
import * as Interruption from "../base/domain/Interruption.ts"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import * as CommandEnvironment from "../places/CommandEnvironment.ts"
import { CallConversation, CallDirectory, CurrentWorkspace } from "../base/domain/CallContext.ts"
import { ToolFailed, type ToolOutput } from "../base/domain/ToolOutput.ts"
import type { ToolArguments } from "../middleware/Kind.ts"
import * as Annotations from "./Annotations.ts"
import type { Concern } from "./approval/ApprovalRequest.ts"
import type { Finding } from "./danger/Command.ts"
import { ToolContext } from "./ToolContext.ts"
import * as ToolHandler from "./ToolHandler.ts"

const TypeId = "~hermes-effect/tool/Toolset"

/**
 * Removes the findings about a call that an undo covers. The keys of the remaining deletions name the parts that the
 * undo does not cover.
 */
export type Uncovered = (
  args: ToolArguments,
  found: ReadonlyArray<Finding>
) => Effect.Effect<ReadonlyArray<Finding>, never, ToolContext>

/** A tool that is ready to be called. */
export interface BoundTool {
  readonly toolset: string
  readonly tool: Tool.Any
  readonly definition: ToolDefinition
  readonly facts: Annotations.ToolFacts
  /**
   * Decodes the arguments and runs the handler. `onProgress` receives preliminary results; without it, they are
   * ignored.
   */
  readonly run: (
    params: unknown,
    callId: string,
    onProgress?: (output: unknown) => Effect.Effect<void>
  ) => Effect.Effect<ToolOutput, ToolFailed, ToolContext>
  /**
   * Finds reasons to ask about a call, from its arguments and the state of this machine. By default, there are no such
   * reasons.
   */
  readonly concerns?: ((args: ToolArguments) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>) | undefined
  /** Selects the findings about one call that an undo does not cover. By default, an undo covers no findings. */
  readonly uncovered?: Uncovered | undefined
  /** True if an environment decides what the tool's commands can do; see {@link inEnvironment}. */
  readonly isConfined?: boolean | undefined
  /**
   * True if the tool fetches addresses and its requests may be redirected to other hosts; `EgressGate` decides about
   * those hosts.
   */
  readonly mayBeSentOn?: boolean | undefined
  /** Hosts that the tool's commands can reach inside the sandbox. */
  readonly reach?: CommandEnvironment.Service["reach"] | undefined
}

/**
 * Any toolset, as an element type of lists. It has no `bind`, so that the types of a toolset created inside a list are
 * inferred from its handlers.
 */
export interface Any<out T extends Tool.Any = Tool.Any> {
  readonly [TypeId]: typeof TypeId
  readonly name: string
  readonly tools: ReadonlyArray<T>
}

/**
 * A named group of `effect/ai` tools with their handlers. `E` and `R` are the errors and requirements of building its
 * handlers, and `T` is the union of its tools.
 */
export interface Toolset<out E = never, out R = never, out T extends Tool.Any = Tool.Any> extends Any<T> {
  readonly bind: Effect.Effect<ReadonlyArray<BoundTool>, E, R | Scope.Scope>
}

/** The services that a handler requires at call time and that the runtime does not provide. */
export type CallServices<Tools extends Record<string, Tool.Any>> = Exclude<
  Tool.HandlerServices<Tools[keyof Tools]>,
  ToolContext
>

/** Keywords that allow the same values if they are absent. */
const implied: ReadonlyArray<readonly [name: string, value: unknown]> = [
  ["additionalProperties", true],
  ["maximum", Number.MAX_SAFE_INTEGER],
  ["minimum", Number.MIN_SAFE_INTEGER]
]

/** Keywords whose values are schemas by name, and keywords whose values are data. */
const named: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"])
const data: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"])

const mapValues = (
  fields: Readonly<Record<string, unknown>>,
  map: (value: unknown) => unknown
): Record<string, unknown> => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(value)]))

const visitKeyword = ([name, value]: readonly [string, unknown]): readonly [string, unknown] => {
  if (data.has(name)) return [name, value]
  return [name, named.has(name) && Predicate.isObject(value) ? mapValues(value, visitValue) : visitValue(value)]
}

const visitSchema = (schema: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(schema)
      .filter(([name, value]) => !implied.some(([keyword, omitted]) => keyword === name && omitted === value))
      .map(visitKeyword)
  )

const visitValue = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(visitValue)
  return Predicate.isObject(value) ? visitSchema(value) : value
}

/**
 * Returns a JSON Schema without the keywords that `Schema` adds to every object and integer and that allow the same
 * values if they are absent. Each request contains the schemas of all tools.
 */
const omitImplied = (schema: JsonSchema): JsonSchema => visitSchema(schema)

const toDefinition = (tool: Tool.Any): ToolDefinition => ({
  name: tool.name,
  description: Tool.getDescription(tool) ?? "",
  // The schemas of dynamic tools are the contract of their server.
  parameters: Tool.isDynamic(tool) ? Tool.getJsonSchema(tool) : omitImplied(Tool.getJsonSchema(tool))
})

const classifyPhase = (reason: AiError.AiErrorReason): ToolFailed["phase"] => {
  switch (reason._tag) {
    case "ToolParameterValidationError":
      return "parameters"
    case "InvalidToolResultError":
    case "ToolResultEncodingError":
      return "result"
    default:
      return "handler"
  }
}

const describeError = (error: unknown): string => {
  if (AiError.isAiError(error)) return error.reason.message
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  return Json.toText(error)
}

/** Fails a tool call with `ToolFailed`, for a defect or a typed error of its handler. */
const failTool = (tool: string, cause: Cause.Cause<unknown>): Effect.Effect<never, ToolFailed> => {
  const error = Cause.squash(cause)
  return Effect.fail(
    new ToolFailed({
      tool,
      phase: AiError.isAiError(error) ? classifyPhase(error.reason) : "handler",
      message: describeError(error),
      cause: error
    })
  )
}

const bindTool = (toolset: string, tool: Tool.Any, handle: ToolHandler.Handle): BoundTool => {
  const run: BoundTool["run"] = (params, callId, onProgress) =>
    Effect.catchCause(handle(params, callId, onProgress), (cause) =>
      Cause.hasInterrupts(cause)
        ? Effect.catchCause(
            Interruption.containCause(cause, () => new Interruption.SelfInterrupted(`the tool ${tool.name}`)),
            (contained) => failTool(tool.name, contained)
          )
        : failTool(tool.name, cause)
    )
  return { toolset, tool, definition: toDefinition(tool), facts: Annotations.readFacts(tool), run }
}

/** Binds tools with the current services; the services of a call override them. */
const bindWith = <Tools extends Record<string, Tool.Any>>(
  name: string,
  tools: Tools,
  getHandle: (tool: Tool.Any, services: Context.Context<never>) => ToolHandler.Handle
): Effect.Effect<ReadonlyArray<BoundTool>, never, CallServices<Tools>> =>
  Effect.map(Effect.context<CallServices<Tools>>(), (services) =>
    Object.values(tools).map((tool) => bindTool(name, tool, getHandle(tool, services as Context.Context<never>)))
  )

const listTools = <Tools extends Record<string, Tool.Any>>(tools: Tools): ReadonlyArray<Tools[keyof Tools]> =>
  // The keys of a record of tools are their names.
  (Object.keys(tools) as ReadonlyArray<keyof Tools & string>).map((name) => tools[name])

/** Creates a toolset whose handlers come from the surrounding context, as provided by `toolkit.toLayer(…)`. */
export const fromToolkit = <Tools extends Record<string, Tool.Any>>(
  name: string,
  toolkit: Toolkit.Toolkit<Tools>
): Toolset<never, Tool.HandlersFor<Tools> | CallServices<Tools>, Tools[keyof Tools]> => ({
  [TypeId]: TypeId,
  name,
  tools: listTools(toolkit.tools),
  bind: Effect.flatMap(Effect.context<Tool.HandlersFor<Tools>>(), (handlers) =>
    bindWith(name, toolkit.tools, (tool, services) => ToolHandler.make(tool, handlers, services))
  )
})

/**
 * Creates a toolset with its own handlers. The Layer is built for this toolset alone and closed with the registry.
 *
 * **Gotchas**
 *
 * Calls of one message run in parallel only if all of their tools are declared read-only (`Tool.Readonly`) or if their
 * paths do not overlap (`Annotations.PathArguments`). Eight calls of a tool without annotations take eight times as
 * long as one; the registry logs the names of these tools at debug level.
 */
export const make = <Tools extends Record<string, Tool.Any>, E, R>(
  name: string,
  toolkit: Toolkit.Toolkit<Tools>,
  handlers: Layer.Layer<Tool.HandlersFor<Tools>, E, R>
): Toolset<NoInfer<E>, NoInfer<R> | CallServices<Tools>, Tools[keyof Tools]> => ({
  [TypeId]: TypeId,
  name,
  tools: listTools(toolkit.tools),
  bind: Effect.gen(function* () {
    const built = yield* Layer.build(Layer.fresh(handlers))
    return yield* bindWith(name, toolkit.tools, (tool, services) => ToolHandler.make(tool, built, services))
  })
})

/** Creates a toolset from a toolkit whose handlers are already bound. */
export const fromHandlers = <Tools extends Record<string, Tool.Any>>(
  name: string,
  handled: Toolkit.WithHandler<Tools>
): Toolset<never, CallServices<Tools>, Tools[keyof Tools]> => ({
  [TypeId]: TypeId,
  name,
  tools: listTools(handled.tools),
  bind: bindWith(name, handled.tools, (tool, services) =>
    // From here on, tools are looked up by name at run time, so the exact type of the record is not needed.
    ToolHandler.fromToolkit(tool, handled as unknown as ToolHandler.BoundToolkit, services)
  )
})

/** Fails a call that would run a program outside of a sandbox in the work for a tenant with a workspace. */
const requireConfinement = <A>(tool: string, run: Effect.Effect<A, ToolFailed, ToolContext>) =>
  Effect.flatMap(CurrentWorkspace, (workspace) =>
    workspace === undefined
      ? run
      : Effect.fail(
          new ToolFailed({
            tool,
            phase: "handler",
            message:
              `${tool} was not run: programs of this run must stay in ${workspace.directory}, and there is no sandbox. ` +
              "Use the file tools, or tell the user that the server needs a sandbox."
          })
        )
  )

/**
 * Returns the toolset with the processes and files of the runtime's environment instead of this machine's. A call works
 * in the environment's directory that corresponds to the call's own directory, and may write there.
 */
export const inEnvironment = <E, R, T extends Tool.Any>(
  toolset: Toolset<E, R, T>
): Toolset<E, CommandEnvironment.CommandEnvironment | Exclude<R, ChildProcessSpawner | FileSystem.FileSystem>, T> => ({
  ...toolset,
  bind: Effect.gen(function* () {
    const { directory, isConfined, processes, reach } = yield* CommandEnvironment.CommandEnvironment
    const tools = (yield* CommandEnvironment.provide(toolset.bind)).map((bound): BoundTool =>
      isConfined || Context.getOrUndefined(bound.tool.annotations, Annotations.RunsPrograms) !== true
        ? bound
        : { ...bound, run: (...given) => requireConfinement(bound.tool.name, bound.run(...given)) }
    )
    if (!isConfined && processes === "here") return tools
    const inDirectory = Effect.fnUntraced(function* <A, E>(
      effect: Effect.Effect<A, E, ToolContext>
    ): Effect.fn.Return<A, E, ToolContext> {
      const context = yield* ToolContext
      const cwd = yield* directory(context.cwd)
      return yield* effect.pipe(
        Effect.provideService(CallDirectory, cwd),
        Effect.provideService(CallConversation, (yield* CallConversation) ?? context.sessionId),
        Effect.provideService(ToolContext, { ...context, cwd })
      )
    })
    return tools.map((bound): BoundTool => {
      const { concerns, uncovered } = bound
      return {
        ...bound,
        isConfined,
        reach,
        uncovered: uncovered === undefined ? undefined : (args, found) => inDirectory(uncovered(args, found)),
        run: (params, callId, onProgress) => inDirectory(bound.run(params, callId, onProgress)),
        concerns: concerns === undefined ? undefined : (args) => inDirectory(concerns(args))
      }
    })
  })
})

/** Returns reasons to ask about a call of the named tool, in addition to the reasons of the tool itself. */
type FindConcerns = (tool: string, args: ToolArguments) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>

/**
 * Returns the toolset with additional reasons to ask about its calls. These are created when the toolset is bound. Can
 * be used in a pipe.
 */
export const withConcerns: {
  <R2>(make: Effect.Effect<FindConcerns, never, R2>): <E, R>(toolset: Toolset<E, R>) => Toolset<E, R | R2>
  <E, R, R2>(toolset: Toolset<E, R>, make: Effect.Effect<FindConcerns, never, R2>): Toolset<E, R | R2>
} = dual(2, <E, R, R2>(toolset: Toolset<E, R>, make: Effect.Effect<FindConcerns, never, R2>): Toolset<E, R | R2> => ({
  ...toolset,
  bind: Effect.map(Effect.all([toolset.bind, make]), ([tools, concerns]) =>
    tools.map((bound) => {
      const { concerns: before } = bound
      const collectAddedConcerns = (args: ToolArguments) => concerns(bound.tool.name, args)
      return {
        ...bound,
        concerns:
          before === undefined
            ? collectAddedConcerns
            : (args: ToolArguments) =>
                Effect.zipWith(before(args), collectAddedConcerns(args), (some, more) => [...some, ...more])
      }
    })
  )
}))

/** Finds the undo for losses caused by calls of the named tool. */
type FindUndo = (tool: string) => Uncovered | undefined

/** Returns the toolset with an undo for losses caused by its calls. Can be used in a pipe. */
export const withUndo: {
  <R2>(make: Effect.Effect<FindUndo, never, R2>): <E, R>(toolset: Toolset<E, R>) => Toolset<E, R | R2>
  <E, R, R2>(toolset: Toolset<E, R>, make: Effect.Effect<FindUndo, never, R2>): Toolset<E, R | R2>
} = dual(2, <E, R, R2>(toolset: Toolset<E, R>, make: Effect.Effect<FindUndo, never, R2>): Toolset<E, R | R2> => ({
  ...toolset,
  bind: Effect.map(Effect.all([toolset.bind, make]), ([tools, of]) =>
    tools.map((bound) => ({ ...bound, uncovered: of(bound.tool.name) }))
  )
}))

/** Creates a toolset from tools that are already bound, for example by a plugin or by an MCP server. */
export const fromBound = <E, R>(
  name: string,
  tools: ReadonlyArray<Tool.Any>,
  bind: Effect.Effect<ReadonlyArray<BoundTool>, E, R | Scope.Scope>
): Toolset<E, R> => ({ [TypeId]: TypeId, name, tools, bind })
