/**
 * The tool `Agent`, which sends a message to one of the sub-agents named in an agent file and waits for its report.
 *
 * **Details**
 *
 * The sub-agent is a child of the run (`Delegator`), with the system prompt, model, tools and middleware from its own
 * file. The names of the sub-agents are part of the tool's parameters, so that they are visible to the model.
 *
 * Source: `hermes-product.md` §3.1.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Timeout } from "../Annotations.ts"
import * as Delegator from "../Delegator.ts"
import { ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"
import { ofSubAgents } from "../Toolsets.ts"

/** A sub-agent as described to the model. */
export interface AgentDescription {
  readonly name: string
  readonly description?: string | undefined
}

const toolName = "Agent"

const Refusal = Schema.Struct({ success: Schema.Literal(false), error: Schema.String })

const describeAgent = ({ description, name }: AgentDescription): string =>
  description === undefined ? `- ${name}` : `- ${name}: ${description}`

/** Creates the toolset for these sub-agents. */
export const make = (agents: ReadonlyArray<AgentDescription>) => {
  const tool = Tool.make(toolName, {
    description: [
      "Gives a message to one of your agents, which works on it with its own tools and a conversation of its " +
        "own, and returns its report.",
      `Your agents:\n${agents.map(describeAgent).join("\n")}`
    ].join("\n\n"),
    parameters: Schema.Struct({
      name: Schema.Literals(agents.map(({ name }) => name)),
      message: Schema.String.annotate({
        description: "Task of the agent, complete in itself: it knows nothing of this conversation."
      })
    }),
    success: Delegator.ChildReport,
    failure: Refusal,
    failureMode: "return",
    dependencies: [ToolContext]
  })
    .annotate(Tool.Readonly, false)
    .annotate(Tool.Destructive, false)
    .annotate(Tool.Idempotent, false)
    .annotate(Timeout, Duration.infinity)
  const toolkit = Toolkit.make(tool)
  const makeRefusal = (error: string) => ({ success: false as const, error })
  return Toolset.make(
    ofSubAgents,
    toolkit,
    toolkit.toLayer({
      [toolName]: Effect.fnUntraced(function* ({ message, name }) {
        const delegator = yield* Delegator.Delegator
        if (message.trim() === "") return yield* Effect.fail(makeRefusal("message is empty: say what to do"))
        const reports = yield* Effect.mapError(
          delegator.delegate([{ goal: message, role: "leaf", agent: name }]),
          (error) => makeRefusal(error.message)
        )
        const [report] = reports
        return report ?? (yield* Effect.fail(makeRefusal("there is no report")))
      })
    })
  )
}
