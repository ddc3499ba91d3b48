import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, RunContext, Runtime, Scripted, Toolset } from "../../src/index.ts"

// A value of the request context, typed: a run without it does not compile.
class Tier extends RunContext.Key<Tier, "free" | "paid">()("app/Tier") {}

// new Agent({ name, instructions, model, tools, inputProcessors })
class Support extends Context.Service<Support, Agent.Service<Refused, Tier>>()("app/Support") {}

// createTool({ id, description, inputSchema, outputSchema, execute })
const Limit = Tool.make("limit", {
  description: "Projects that the user may have",
  success: Schema.Int,
  dependencies: [Tier]
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Limit)
const limits = Toolset.make(
  "limits",
  toolkit,
  toolkit.toLayer({ limit: () => Tier.useSync((tier) => (tier === "paid" ? 100 : 3)) })
)

// An input processor that aborts
class Refused extends Schema.TaggedError<Refused>()("Refused", { reason: Schema.String }) {}
const guard = Middleware.wrapModelCall<never, Refused, never>({
  name: "guard",
  wrap: (next) => (params) =>
    JSON.stringify(params.call.messages).includes("password")
      ? Effect.fail(new Refused({ reason: "a password" }))
      : next(params)
})

const provider = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "limit", params: {} }] }),
  Scripted.complete("You may have 100 projects.")
])

// agent.generate(prompt, { requestContext })
const ask = (prompt: string) =>
  Support.use((support) => support.run({ prompt, context: Tier.context("paid") })).pipe(
    Effect.map(({ text }) => text),
    Effect.catchTag("Refused", ({ reason }) => Effect.succeed(`refused: ${reason}`))
  )

const program = Effect.all([ask("How many projects may I have?"), ask("My password is 1234")])
const answers = await program.pipe(
  Effect.provide(
    Runtime.make(Support, { provider, tools: [limits], middleware: [guard], instructions: "You support users." })
  ),
  Effect.runPromise
)
console.log(answers.join("\n"))
// => You may have 100 projects.
// => refused: a password
