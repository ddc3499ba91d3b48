/**
 * An agent as a tool of the AI SDK: another model passes it a task, and receives its final text.
 *
 * **Details**
 *
 * Each call is a run in a new session. A failed run becomes a tool error with the tag and the message of its
 * `HermesError`; a run ended by a limit is a result that reports the limit. An aborted call interrupts the run.
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
import type { Hermes } from "./CreateHermes.ts"
import type { HermesInput } from "./HermesOptions.ts"
import type { ContextOption } from "./PlainContext.ts"

/** Input schema of the tool. */
const Task = Schema.Struct({
  task: Schema.String.annotate({
    description:
      "The task, with everything that has to be known about it: the agent sees nothing else of this conversation"
  })
})

const inputSchema = Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(Task))

/** Description of the tool, and settings of each of its runs. */
export interface AgentToolOptions extends Omit<HermesInput, "goesOn" | "history" | "prompt" | "sessionId" | "signal"> {
  /** Description that tells the model when to use the tool. */
  readonly description: string
}

/** An agent in the form of an AI SDK tool. */
export interface AgentTool {
  readonly description: string
  readonly inputSchema: typeof inputSchema
  readonly execute: (
    input: { readonly task: string },
    options: { readonly abortSignal?: AbortSignal | undefined }
  ) => Promise<string>
}

/** Converts an agent to a tool for `generateText`, `streamText` and agents of the AI SDK. */
export const agentTool = <Context = unknown>(
  hermes: Hermes<Context>,
  { description, ...run }: AgentToolOptions & ContextOption<Context>
): AgentTool =>
  // The context that the agent requires is in the options.
  makeTool(hermes as Hermes, { description, ...run })

const makeTool = (hermes: Hermes, { description, ...run }: AgentToolOptions): AgentTool => ({
  description,
  inputSchema,
  execute: async ({ task }, { abortSignal }) => {
    const { exit, text } = await hermes.run({
      source: "ai-sdk",
      ...run,
      prompt: task,
      ...(abortSignal === undefined ? {} : { signal: abortSignal })
    })
    return isCompletedExit(exit) ? text : `${text}\n\n[The run ended early: ${exit}.]`.trim()
  }
})
