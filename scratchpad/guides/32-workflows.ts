import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Runtime, Scripted, SessionStore } from "../../src/index.ts"
import { Steps, WorkflowRuns } from "../../src/kit/entry/workflow.ts"

const Ticket = Schema.Struct({ customer: Schema.String, text: Schema.String })

// Each step reads the values of the steps before it by their names.
const support = Steps.make("support", {
  version: 1,
  input: Ticket,
  output: Schema.String,
  steps: (start) =>
    start.pipe(
      Steps.all("research", {
        topic: (side) =>
          side.pipe(
            Steps.agent("triage", {
              prompt: ({ input }) => `What is this about? ${input.text}`,
              output: Schema.Literals(["billing", "fault"])
            })
          ),
        account: (side) =>
          side.pipe(
            Steps.step("lookup", {
              output: Schema.Struct({ plan: Schema.String }),
              run: ({ input }) => Effect.succeed({ plan: input.customer === "Ada" ? "gold" : "free" })
            })
          )
      }),
      Steps.agent("draft", {
        prompt: ({ input, research }) =>
          `Answer this ${research.topic} question of a ${research.account.plan} customer: ${input.text}`
      }),
      Steps.question("approve", { prompt: ({ draft }) => `Send "${draft}"?`, answer: Schema.Boolean }),
      Steps.when("sent", {
        if: ({ approve }) => approve,
        then: (block) =>
          block.pipe(Steps.step("send", { output: Schema.String, run: ({ draft }) => Effect.succeed(draft) }))
      }),
      Steps.result(({ sent }) => sent ?? "nothing was sent")
    )
})

const program = Effect.gen(function* () {
  yield* WorkflowRuns.start(support, { id: "ticket-7", input: { customer: "Ada", text: "Why two invoices?" } })
  const { question } = yield* WorkflowRuns.waitForQuestion("ticket-7")
  yield* WorkflowRuns.answer({ id: "ticket-7", question, answer: true })
  const answer = yield* WorkflowRuns.wait(support, "ticket-7")
  const { steps } = yield* WorkflowRuns.view("ticket-7")
  return { answer, steps: steps.map(({ kind, path }) => `${path} (${kind})`).toSorted() }
})

const store = SessionStore.layerMemory
const provider = Scripted.layer([Scripted.complete('{"value":"billing"}'), Scripted.complete("One is a copy.")])
const agent = Runtime.layer({ provider, store }).pipe(Layer.provideMerge(store))
const runs = WorkflowRuns.layerMemory({ workflows: [support] }).pipe(Layer.provide(agent))

console.log(await Effect.runPromise(Effect.provide(program, runs)))
// => {
// =>   answer: 'One is a copy.',
// =>   steps: [
// =>     'approve (question)',
// =>     'draft (agent)',
// =>     'research/lookup (step)',
// =>     'research/triage (agent)',
// =>     'sent (branch)',
// =>     'sent/send (step)'
// =>   ]
// => }
