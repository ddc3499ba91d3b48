import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Toolset } from "../src/index.ts"

const Stock = Tool.make("stock", { parameters: Schema.Struct({ article: Schema.String }), success: Schema.Int })
const toolkit = Toolkit.make(Stock)
const stock = Toolset.make("shop", toolkit, toolkit.toLayer({ stock: () => Effect.succeed(3) }))

class TooManyCalls extends Schema.TaggedError<TooManyCalls>()("TooManyCalls", {}) {}
const limit = Middleware.wrapModelCall<never, TooManyCalls>({
  name: "limit",
  wrap:
    (next, { apiCallCount }) =>
    (params) =>
      apiCallCount > 20 ? new TooManyCalls() : next(params)
})

// The type of the agent names the failure that its wrapper adds.
class Clerk extends Context.Service<Clerk, Agent.Service<TooManyCalls>>()("shop/Clerk") {}

const program = Clerk.use((clerk) => clerk.run({ prompt: "Reply exactly: three lamps" })).pipe(
  Effect.map(({ text }) => text),
  Effect.catchTag("TooManyCalls", () => Effect.succeed("Please call us."))
)

const layer = Runtime.make(Clerk, { tools: [stock], middleware: [limit] })
console.log(await program.pipe(Effect.provide(layer), Effect.runPromise))
