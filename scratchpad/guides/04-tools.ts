import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Approvals, type RunEvent, Runtime, Scripted, ToolContext, Toolset } from "../../src/index.ts"

const Balance = Tool.make("balance", {
  description: "Balance of an account",
  parameters: Schema.Struct({ account: Schema.String }),
  success: Schema.Struct({ euros: Schema.Finite }),
  failure: Schema.Struct({ error: Schema.String }),
  failureMode: "return"
}).annotate(Tool.Readonly, true)

const Transfer = Tool.make("transfer", {
  description: "Transfers money",
  parameters: Schema.Struct({ to: Schema.String, euros: Schema.Finite }),
  success: Schema.String,
  dependencies: [ToolContext.ToolContext]
}).annotate(Tool.Destructive, true)

const toolkit = Toolkit.make(Balance, Transfer)
const bank = Toolset.make(
  "bank",
  toolkit,
  toolkit.toLayer({
    balance: ({ account }) =>
      account === "mine" ? Effect.succeed({ euros: 100 }) : Effect.fail({ error: `no account "${account}"` }),
    transfer: ({ euros, to }) => Effect.as(ToolContext.ToolContext, `${euros} euros sent to ${to}`)
  })
)

const provider = Scripted.layer([
  Scripted.complete({
    toolCalls: [
      { name: "balance", params: { account: "yours" } },
      { name: "transfer", params: { to: "Ann", euros: 5 } }
    ]
  }),
  Scripted.complete({ toolCalls: [{ name: "transfer", params: { to: "Bob", euros: 5000 } }] }),
  Scripted.complete("Done.")
])

// Read-only tools run; a destructive one is asked about. The answer holds for this call alone.
const approvals = Approvals.layerCallback(({ command }) => Effect.succeed(command.includes("5000") ? "deny" : "once"))

const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  Effect.sync(() => {
    for (const event of events) if (event._tag === "ToolFinished") console.log(`${event.name}: ${event.status}`)
  })

await Agent.run({ prompt: "Pay them.", onEvent }).pipe(
  Effect.provide(Runtime.layer({ provider, tools: [bank], approvals })),
  Effect.runPromise
)
// => balance: error
// => transfer: ok
// => transfer: blocked
