import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"

const Pay = Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String })
const Delete = Tool.make("delete", {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Pay, Delete)
const tools = [
  Toolset.make(
    "office",
    toolkit,
    toolkit.toLayer({
      delete: ({ path }) => Effect.succeed(`deleted ${path}`),
      pay: Effect.fn(function* ({ to }) {
        // Runs once, however often the call runs again.
        const invoice = yield* Ask.once(
          "invoice",
          Effect.sync(() => (console.log("invoice"), 7))
        )
        const euros = yield* Effect.orDie(Ask.form(Schema.Int, { title: `How much does ${to} get?` }))
        return `invoice ${invoice}: ${euros} euros to ${to}`
      })
    })
  )
]

const folder = mkdtempSync(join(tmpdir(), "suspended-"))
const store = SessionStore.layerSqlite({ path: join(folder, "state.db") })
const questions = { unanswered: "suspend", expiresAfter: "7 days" } as const

// The first process: the run ends as soon as it has to wait.
const ask = Effect.gen(function* () {
  const { exit, questions: open = [] } = yield* Agent.run({ prompt: "Tidy up.", sessionId: "office", questions })
  console.log(exit)
  for (const { kind, title } of open) console.log(`${kind}: ${title}`)
})
const model = Scripted.layer([
  Scripted.complete({
    toolCalls: [
      { name: "pay", params: { to: "Bob" } },
      { name: "delete", params: { path: "draft.txt" } }
    ]
  })
])

// Another process, on any machine that has the store, and at any time.
const answer = Effect.gen(function* () {
  const open = yield* Agent.questions("office")
  const answers = open.map(({ id, kind }) => ({
    questionId: id,
    answer: kind === "form" ? 20 : { choice: "once", params: { path: "old.txt" } },
    by: "Ada"
  }))
  const { text } = yield* Agent.resume({ sessionId: "office", answers, questions })
  console.log(text)
  // Each question is answered once.
  const again = yield* Effect.flip(Agent.resume({ sessionId: "office", answers }))
  console.log(again._tag)
})

try {
  await ask.pipe(Effect.provide(Runtime.layer({ provider: model, tools, store })), Effect.runPromise)
  const rest = Scripted.layer([Scripted.complete("Bob is paid, and old.txt is gone.")])
  await answer.pipe(Effect.provide(Runtime.layer({ provider: rest, tools, store })), Effect.runPromise)
} finally {
  rmSync(folder, { recursive: true })
}
// => invoice
// => suspended
// => approval: delete asks for an approval
// => form: How much does Bob get?
// => Bob is paid, and old.txt is gone.
// => QuestionAnswered
