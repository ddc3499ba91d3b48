/**
 * Adapts tools that plugins on disk register as plain functions: a JSON Schema of the arguments, and a handler that
 * receives the arguments and returns a value, a promise or an Effect.
 *
 * **Gotchas**
 *
 * The handler must validate the arguments: they arrive as sent by the model, not checked against the schema. A tool
 * that is not marked `readonly` counts as destructive.
 *
 * Source: `hermes-contract.md` §3.5 (`register_tool`).
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Tool from "effect/ai/Tool"
import * as Json from "../../base/domain/Json.ts"
import { redactKeys } from "../../base/domain/Redaction.ts"
import { type Registry, Secrets } from "../../base/domain/Secrets.ts"
import { ToolFailed, type ToolOutput } from "../../base/domain/ToolOutput.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Frozen from "../../middleware/Frozen.ts"
import * as PlainReturn from "../../middleware/PlainReturn.ts"
import * as Annotations from "../../tools/Annotations.ts"
import { ToolContext } from "../../tools/ToolContext.ts"
import { type BoundTool, fromBound, type Toolset } from "../../tools/Toolset.ts"

/** Context of a handler, in addition to the arguments. */
interface Call {
  readonly session_id: string
  readonly task_id: string
  readonly turn_id: string
  readonly tool_call_id: string
  readonly cwd: string
  /** Signal that is aborted when the call is interrupted. */
  readonly signal: AbortSignal
}

/** A tool as a plugin on disk registers it. */
export interface PlainTool {
  readonly name: string
  /** Name of the toolset. Defaults to the plugin's name. */
  readonly toolset?: string | undefined
  readonly description?: string | undefined
  /** JSON Schema of the arguments, an object. Without a schema the tool takes no arguments. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined
  readonly handler: (args: Readonly<Record<string, unknown>>, call: Call) => unknown
  readonly readonly?: boolean | undefined
  readonly destructive?: boolean | undefined
  readonly idempotent?: boolean | undefined
  /** Time limit of a call, in seconds. Defaults to 300. */
  readonly timeout?: number | undefined
  /** Names of arguments that contain paths, for the scheduler. */
  readonly pathArguments?: ReadonlyArray<string> | undefined
  /**
   * Returns true if the tool can currently be used, as a value, a promise or an Effect. Without this function the tool
   * is always available.
   */
  readonly available?: (() => unknown) | undefined
}

const noParameters = { type: "object", properties: {}, additionalProperties: false } as const

const readTextField = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim() : undefined

const readFlag = (value: unknown): boolean | undefined => (typeof value === "boolean" ? value : undefined)

const readTimeout = (tool: string, value: unknown): number | undefined => {
  if (value === undefined || (typeof value === "number" && value > 0)) return value
  throw new TypeError(`registerTool: timeout of the tool "${tool}" is a number of seconds above 0`)
}

/**
 * Validates a tool that a plugin registered. Throws a description of the first error. `schema` may be the contract's
 * function schema.
 */
export const readPlainTool = (given: unknown): PlainTool => {
  if (!Json.isFields(given))
    throw new TypeError("registerTool takes one object: { name, description, parameters, handler }")
  const schema = Json.isFields(given["schema"]) ? given["schema"] : {}
  const name = readTextField(given["name"]) ?? readTextField(schema["name"])
  if (name === undefined) throw new TypeError("registerTool: the tool has no name")
  const { handler } = given
  if (!Predicate.isFunction(handler)) throw new TypeError(`registerTool: the tool "${name}" has no handler function`)
  const parameters = given["parameters"] ?? schema["parameters"]
  if (parameters !== undefined && !Json.isFields(parameters)) {
    throw new TypeError(`registerTool: the parameters of the tool "${name}" are not a JSON Schema object`)
  }
  const { pathArguments } = given
  const available = given["available"] ?? given["check_fn"]
  if (available !== undefined && !Predicate.isFunction(available)) {
    throw new TypeError(`registerTool: available of the tool "${name}" is not a function`)
  }
  return {
    name,
    toolset: readTextField(given["toolset"]),
    description: readTextField(given["description"]) ?? readTextField(schema["description"]),
    parameters,
    // A plain function may return any value, which is checked after the call.
    handler: handler as PlainTool["handler"],
    readonly: readFlag(given["readonly"]),
    destructive: readFlag(given["destructive"]),
    idempotent: readFlag(given["idempotent"]),
    timeout: readTimeout(name, given["timeout"]),
    pathArguments: Array.isArray(pathArguments) ? pathArguments.filter(Predicate.isString) : undefined,
    // The return value is checked after the call.
    available: available as PlainTool["available"]
  }
}

const makeToolFailure = (tool: string, phase: ToolFailed["phase"], error: unknown): ToolFailed =>
  new ToolFailed({ tool, phase, message: Faults.describeError(error), cause: error })

const makeRun =
  ({ handler, name }: PlainTool): BoundTool["run"] =>
  (params, callId) =>
    Effect.flatMap(ToolContext, ({ cwd, sessionId, taskId, turnId }) => {
      const abort = new AbortController()
      const call: Call = Object.freeze({
        session_id: sessionId,
        task_id: taskId,
        turn_id: turnId,
        tool_call_id: callId,
        cwd,
        signal: abort.signal
      })
      const args = Frozen.copy(Json.isFields(params) ? params : {})
      // The type of a returned Effect is unknown. Its services are provided as they were when the plugin was loaded.
      const returned = PlainReturn.call(() => handler(args, call)) as Effect.Effect<unknown, PlainReturn.Thrown>
      return returned.pipe(
        Effect.mapError(({ error }) => makeToolFailure(name, "handler", error)),
        Effect.flatMap((output): Effect.Effect<ToolOutput, ToolFailed> =>
          output === undefined
            ? Effect.fail(makeToolFailure(name, "result", new Error("the tool returned nothing")))
            : Effect.succeed({ output, isFailure: false })
        ),
        Effect.onInterrupt(() => Effect.sync(() => abort.abort()))
      )
    })

const makeAvailabilityCheck = ({ available }: PlainTool): Effect.Effect<boolean, unknown> | undefined =>
  available === undefined
    ? undefined
    : Effect.map(
        // As for the handler, the services required by a returned Effect are unknown.
        PlainReturn.call(() => available()) as Effect.Effect<unknown, PlainReturn.Thrown>,
        (answer) => answer === true
      )

const maxDepth = 32

/** Returns a JSON value with every string changed. Member names are unchanged. */
const mapStrings = (value: unknown, change: (text: string) => string, depth = 0): unknown => {
  if (typeof value === "string") return change(value)
  if (typeof value !== "object" || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) return value.map((item: unknown) => mapStrings(item, change, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapStrings(item, change, depth + 1)]))
}

/** Returns the definition of a tool for the model, without secrets. */
const redactDefinition = (
  { description, name, parameters }: BoundTool["definition"],
  secrets: Registry
): BoundTool["definition"] => ({
  name,
  description: redactKeys(description, secrets),
  // Strings are only replaced by strings, so the type is unchanged.
  parameters: mapStrings(parameters, (text) => redactKeys(text, secrets)) as BoundTool["definition"]["parameters"]
})

/** Creates the toolset for one plain tool. */
export const makeToolset = (plain: PlainTool, plugin: string): Toolset<never, unknown> => {
  const { description = "", idempotent, name, parameters = noParameters, pathArguments = [], readonly } = plain
  const tool = Tool.dynamic(name, { description, parameters: { ...parameters } })
  const bound: BoundTool = {
    toolset: plain.toolset ?? plugin,
    tool,
    definition: { name, description, parameters },
    facts: {
      ...Annotations.readFacts(tool),
      readonly,
      destructive: plain.destructive,
      idempotent,
      pathArguments,
      ...(plain.timeout === undefined ? {} : { timeout: Duration.seconds(plain.timeout) }),
      available: makeAvailabilityCheck(plain)
    },
    run: makeRun(plain)
  }
  return fromBound(
    bound.toolset,
    [tool],
    Effect.contextWith((context: Context.Context<unknown>) => {
      const runWithContext: BoundTool["run"] = (params, callId) =>
        Effect.updateContext(bound.run(params, callId), (input: Context.Context<ToolContext>) =>
          Context.merge(context, input)
        )
      const check = bound.facts.available
      const available =
        check && Effect.updateContext(check, (input: Context.Context<never>) => Context.merge(context, input))
      const definition = redactDefinition(bound.definition, Context.get(context, Secrets))
      return Effect.succeed([{ ...bound, definition, run: runWithContext, facts: { ...bound.facts, available } }])
    })
  )
}
