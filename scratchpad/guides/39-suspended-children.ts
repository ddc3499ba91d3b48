import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Delegate, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ euros: Schema.Int }), success: Schema.String })
)
const payments = Toolset.make(
  "payments",
  toolkit,
  toolkit.toLayer({
    pay: ({ euros }) =>
      Effect.map(Ask.approval({ title: `Pay ${euros} euros?` }), ({ isApproved }) => (isApproved ? "paid" : "not paid"))
  })
)

// The answers of the parent and of its child, in order.
const model = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: "Pay the invoice." } }] }),
  Scripted.complete({ toolCalls: [{ name: "pay", params: { euros: 7 } }] }),
  Scripted.complete("The invoice is paid."),
  Scripted.complete("My child paid the invoice.")
])

const program = Effect.gen(function* () {
  const { exit, questions: open = [] } = yield* Agent.run({ prompt: "Have the invoice paid.", sessionId: "invoice" })
  console.log(exit)
  for (const { origin = [], title } of open) console.log(`${title} (${origin.map(({ goal }) => goal).join(" > ")})`)
  const answers = open.map(({ id }) => ({ questionId: id, answer: { choice: "once" } }))
  console.log((yield* Agent.resume({ sessionId: "invoice", answers })).text)
})

const runtime = Runtime.layer({
  provider: model,
  tools: [payments, Delegate.toolset],
  store: SessionStore.layerMemory,
  questions: { unanswered: "suspend" }
})
await program.pipe(Effect.provide(runtime), Effect.runPromise)
// => suspended
// => Pay 7 euros? (Pay the invoice.)
// => My child paid the invoice.
