/**
 * Creates tools from plain functions, with arguments of any schema that implements Standard Schema: Zod, ArkType,
 * Valibot, Effect.
 *
 * **Details**
 *
 * The model receives the JSON Schema of the schema (Standard JSON Schema; supported by Zod 4.2 and ArkType). For a
 * schema that has no JSON Schema, pass `parameters`. Arguments are checked before `execute`, which receives the output
 * of the schema. Invalid arguments are an error result that names each place, so that the model can correct itself. An
 * error thrown by `execute` is also returned as an error result.
 *
 * **Example** (A tool by a schema)
 *
 * ```ts
 * import { createHermes, tool } from "hermes-effect/promise"
 * import * as z from "zod"
 *
 * const double = tool({
 *   name: "double",
 *   description: "Doubles a number",
 *   input: z.object({ n: z.number() }),
 *   execute: ({ n }) => n * 2
 * })
 *
 * const hermes = createHermes({ model: "offline", tools: [double] })
 * await hermes.dispose()
 * ```
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as Tool from "effect/ai/Tool"
import * as Json from "../../base/domain/Json.ts"
import type { JsonOf, RunCall } from "../../base/domain/RunDetails.ts"
import * as ToolContent from "../../base/domain/ToolContent.ts"
import { ToolFailed } from "../../base/domain/ToolOutput.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Annotations from "../../tools/Annotations.ts"
import { ToolContext } from "../../tools/ToolContext.ts"
import type { BoundTool } from "../../tools/Toolset.ts"
import * as Toolset from "../../tools/Toolset.ts"
import { HermesError } from "./HermesError.ts"
import { prepareAsk, type ToolAsk } from "./PlainAsk.ts"
import { readRunValue } from "./PlainContext.ts"
import * as Options from "./PlainOptions.ts"
import { findJsonSchema, isStandardSchema, readCheckResult } from "./StandardJson.ts"

/** Facts of one call beside its arguments. `Context` is the part of the run's `context` that the tool reads. */
export interface ToolCall<Context = unknown> {
  readonly sessionId: string
  readonly turnId: string
  /** Absolute working directory of the run. */
  readonly cwd: string
  /** Signal that is aborted when the call is interrupted. */
  readonly signal: AbortSignal
  /** The `context` of the run. */
  readonly context: Context
  /** Questions of the call, to people, events and times. */
  readonly ask: ToolAsk
}

/** Definition of a tool by plain functions. */
export interface ToolOptions<
  Input extends StandardSchemaV1,
  Name extends string = string,
  Output = unknown,
  Context = unknown
> {
  readonly name: Name
  readonly description: string
  readonly input: Input
  /**
   * Returns the result of a call, or a promise of it: a value that becomes JSON, or images and files (`ToolContent`).
   */
  readonly execute: (args: StandardSchemaV1.InferOutput<Input>, call: ToolCall<Context>) => Output
  /** JSON Schema of the arguments, for a schema that cannot produce one. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined
  /** True for a read-only tool, whose calls may run concurrently. */
  readonly readonly?: boolean | undefined
  /** True for a tool whose calls need an approval. */
  readonly needsApproval?: boolean | undefined
  /** Time limit of a call, in seconds. Default: 300. */
  readonly timeout?: number | undefined
}

/**
 * A tool for a runtime, created by {@link tool}. `Context` is the part of a run's `context` that it reads, and `Call`
 * is the type of its calls in the result of a run.
 */
export interface HermesTool<in Context = unknown, out Call extends RunCall = RunCall> {
  readonly toolset: Toolset.Toolset
  /** States the type of the context. It has no value. */
  readonly context?: ((context: Context) => void) | undefined
  /** States the type of the calls. It has no value. */
  readonly "~call"?: Call | undefined
}

/** A call of a tool in the result of a run. */
export type CallOfTool<Input extends StandardSchemaV1, Name extends string, Output> = RunCall<
  Name,
  JsonOf<StandardSchemaV1.InferInput<Input>>,
  [Awaited<Output>] extends [void] ? null : JsonOf<Awaited<Output>>
>

type NamedTool = Pick<ToolOptions<StandardSchemaV1>, "input" | "name" | "parameters">

const makeToolError = (name: string, problem: string, cause?: unknown): HermesError =>
  new HermesError("ConfigError", `tool ${Options.quoteValue(name)}: ${problem}`, { cause })

const wanted = "give the JSON Schema of an object as parameters"

const readSchema = ({ input, name }: NamedTool): unknown => {
  try {
    return findJsonSchema(input)
  } catch (error) {
    throw makeToolError(name, `its schema has no JSON Schema (${Faults.describeError(error)}): ${wanted}`, error)
  }
}

const findParameters = (given: NamedTool): Readonly<Record<string, unknown>> => {
  const { input, name, parameters } = given
  if (!isStandardSchema(input)) throw makeToolError(name, "input must be a schema of Zod, ArkType, Valibot or Effect")
  const schema = parameters ?? readSchema(given)
  if (Json.isFields(schema) && schema["type"] === "object") return schema
  throw makeToolError(
    name,
    `${schema === undefined ? "its schema has no JSON Schema" : "its arguments are not an object"}: ${wanted}`
  )
}

/**
 * Creates the function that runs a tool call: it parses the arguments, and calls `execute` with the output of the
 * schema.
 */
const makeRun =
  <Input extends StandardSchemaV1, Context>({
    execute,
    input,
    name
  }: ToolOptions<Input, string, unknown, Context>): BoundTool["run"] =>
  (params) => {
    const makeFailure = (phase: ToolFailed["phase"]) => (error: unknown) =>
      new ToolFailed({ tool: name, phase, message: Faults.describeError(error), cause: error })
    return Effect.gen(function* () {
      const { cwd, sessionId, turnId } = yield* ToolContext
      const checked = yield* Effect.tryPromise({
        try: async () => readCheckResult(await input["~standard"].validate(params)),
        catch: (error) =>
          makeFailure("handler")(new Error(`its schema failed: ${Faults.describeError(error)}`, { cause: error }))
      })
      if ("problem" in checked) return yield* makeFailure("parameters")(new Error(checked.problem))
      // The schema returned this value, so its type is the schema's output type.
      const args = checked.value as StandardSchemaV1.InferOutput<Input>
      // The runtime requires the context that its tools read.
      const context = (yield* readRunValue) as Context
      const makeAsk = yield* prepareAsk
      const output: unknown = yield* Effect.tryPromise({
        try: async (signal) => await execute(args, { sessionId, turnId, cwd, signal, context, ask: makeAsk(signal) }),
        catch: makeFailure("handler")
      })
      return ToolContent.isToolContent(output)
        ? ToolContent.toToolOutput(output)
        : { output: output ?? null, isFailure: false }
    })
  }

const toolOptions: Options.Checks<ToolOptions<StandardSchemaV1>> = {
  name: Options.text,
  description: Options.text,
  input: Options.skipCheck,
  execute: Options.callback,
  parameters: Options.skipCheck,
  readonly: Options.flag,
  needsApproval: Options.flag,
  timeout: Options.duration
}

const toolProblems = Options.makeMembersCheck("option of a tool", toolOptions, ["name", "description", "execute"])

/** Rule for names that every model API accepts. */
const nameRule = /^[a-zA-Z0-9_-]{1,64}$/

/**
 * Creates a tool for a runtime. Throws a `ConfigError` if the JSON Schema of its arguments is unknown, or if a model
 * API does not accept its name.
 */
export const tool = <Input extends StandardSchemaV1, const Name extends string, Output, Context = unknown>(
  options: ToolOptions<Input, Name, Output, Context>
): HermesTool<Context, CallOfTool<Input, Name, Output>> =>
  Options.readPlainly("ConfigError", "the options of a tool", () => makeTool(options))

const makeTool = <Input extends StandardSchemaV1, Context>(
  options: ToolOptions<Input, string, unknown, Context>
): HermesTool<Context, never> => {
  if (!Json.isFields(options))
    throw new HermesError("ConfigError", "tool takes an object: { name, description, input, execute }")
  const { description, name, needsApproval, timeout } = options
  const problems = toolProblems(options, "")
  if (problems.length > 0)
    throw typeof name === "string"
      ? makeToolError(name, problems.join("; "))
      : new HermesError("ConfigError", `a tool: ${problems.join("; ")}`)
  if (!nameRule.test(name))
    throw makeToolError(name, "its name is not 1 to 64 letters, digits, _ or -: no model API takes another one")
  const parameters = findParameters(options)
  const plain = Tool.dynamic(name, {
    description,
    parameters: { ...parameters },
    ...(needsApproval === undefined ? {} : { needsApproval })
  })
  const facts = Annotations.readFacts(plain)
  const bound: BoundTool = {
    toolset: name,
    tool: plain,
    definition: { name, description, parameters },
    facts: {
      ...facts,
      ...(options.readonly === undefined ? {} : { readonly: options.readonly }),
      ...(timeout === undefined ? {} : { timeout: Duration.seconds(timeout) })
    },
    run: makeRun(options)
  }
  return { toolset: Toolset.fromBound(name, [plain], Effect.succeed([bound])) }
}
