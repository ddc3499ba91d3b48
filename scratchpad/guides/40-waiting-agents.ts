import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import { Steps, WorkflowRuns } from "../../src/kit/entry/workflow.ts"

const toolkit = Toolkit.make(Tool.make("price", { success: Schema.Int }))
const prices = Toolset.make(
  "prices",
  toolkit,
  toolkit.toLayer({ price: () => Effect.orDie(Ask.form(Schema.Int, { title: "How many euros?" })) })
)

const offer = Steps.make("offer", {
  version: 1,
  input: Schema.String,
  output: Schema.String,
  steps: (start) => start.pipe(Steps.agent("draft", { prompt: ({ input }) => `Write an offer for ${input}.` }))
})

const program = Effect.gen(function* () {
  yield* WorkflowRuns.start(offer, { id: "ada", input: "Ada" })
  const { prompt, question } = yield* WorkflowRuns.waitForQuestion("ada")
  console.log(prompt)
  yield* WorkflowRuns.answer({ id: "ada", question, answer: 20 })
  console.log(yield* WorkflowRuns.wait(offer, "ada"))
})

const model = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "price", params: {} }] }),
  Scripted.complete("For you, Ada: 20 euros.")
])
const store = SessionStore.layerMemory
const agent = Runtime.layer({ provider: model, tools: [prices], store }).pipe(Layer.provideMerge(store))
const workflows = WorkflowRuns.layerMemory({ workflows: [offer] }).pipe(Layer.provide(agent))
await program.pipe(Effect.provide(workflows), Effect.runPromise)
// => How many euros?
// => For you, Ada: 20 euros.
