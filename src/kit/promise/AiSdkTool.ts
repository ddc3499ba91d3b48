/**
 * An agent as a tool of the AI SDK: another model passes it a task, and receives its final text.
 *
 * **Details**
 *
 * Each call is a run in a new session. A failed run becomes a tool error with the tag and the message of its
 * `HermesError`; a run ended by a limit is a result that reports the limit. With an `output` schema, the result of the
 * tool is the value of the run. An aborted call interrupts the run.
 *
 * **Gotchas**
 *
 * The agent sees only the task, not the rest of the conversation. Its own tools and approvals limit its actions; the
 * approvals of the AI SDK apply to the tool as a whole.
 *
 * **Example** (A model with an agent among its tools)
 *
 * ```ts
 * import { agentTool } from "hermes-effect/ai-sdk"
 * import { createHermes } from "hermes-effect/promise"
 *
 * const hermes = createHermes({ model: "offline" })
 * const research = agentTool(hermes, { description: "Looks things up in the project and answers" })
 *
 * // In an application: generateText({ model, prompt, tools: { research } })
 * console.log(await research.execute({ task: "Reply exactly hello" }, {}))
 * await hermes.dispose()
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Schema from "effect/Schema"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import type { HermesView } from "./CreateHermes.ts"
import type { HermesInput } from "./HermesOptions.ts"
import type { ContextOption } from "./PlainContext.ts"
import type { PlainOutput, ValueOf } from "./PlainOutput.ts"

/** Input schema of the tool. */
const Task = Schema.Struct({
  task: Schema.String.annotate({
    description:
      "The task, with everything that has to be known about it: the agent sees nothing else of this conversation"
  })
})

const inputSchema = Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(Task))

/** Description of the tool, and settings of each of its runs. With an `output` schema, the result is the value. */
export interface AgentToolOptions<Schema extends PlainOutput = PlainOutput> extends Omit<
  HermesInput<Schema>,
  "goesOn" | "history" | "prompt" | "sessionId" | "signal"
> {
  /** Description that tells the model when to use the tool. */
  readonly description: string
}

/** An agent in the form of an AI SDK tool. `Result` is its final text, or its value. */
export interface AgentTool<Result = string> {
  readonly description: string
  readonly inputSchema: typeof inputSchema
  readonly execute: (
    input: { readonly task: string },
    options: { readonly abortSignal?: AbortSignal | undefined }
  ) => Promise<Result>
}

/** Converts an agent to a tool for `generateText`, `streamText` and agents of the AI SDK. */
export const agentTool: {
  <Schema extends PlainOutput, Context = unknown>(
    hermes: HermesView<Context>,
    options: AgentToolOptions<Schema> & ContextOption<Context> & { readonly output: Schema }
  ): AgentTool<ValueOf<Schema>>
  <Context = unknown>(
    hermes: HermesView<Context>,
    options: AgentToolOptions & ContextOption<Context> & { readonly output?: undefined }
  ): AgentTool
} = <Context>(hermes: HermesView<Context>, options: AgentToolOptions & ContextOption<Context>): AgentTool<never> =>
  // The context that the agent requires is in the options.
  makeTool(hermes as HermesView, options)

const makeTool = (hermes: HermesView, { description, ...run }: AgentToolOptions): AgentTool<never> => ({
  description,
  inputSchema,
  execute: async ({ task }, { abortSignal }) => {
    const { exit, text, ...rest } = await hermes.run({
      source: "ai-sdk",
      ...run,
      prompt: task,
      ...(abortSignal === undefined ? {} : { signal: abortSignal })
    })
    const shown = isCompletedExit(exit) ? text : `${text}\n\n[The run ended early: ${exit}.]`.trim()
    // The overloads name the type: a run with a schema ends with its value, and any other with text.
    return (run.output === undefined ? shown : rest.value) as never
  }
})
