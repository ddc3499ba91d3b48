import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, RunContext, Runtime, Scripted, Toolset } from "../../src/index.ts"

// A value of the application that belongs to one run.
class User extends RunContext.Key<User, { readonly name: string }>()("app/User") {}

// The agent of the application: each of its runs has to bring a `User`.
class Desk extends Context.Service<Desk, Agent.Service<never, User>>()("app/Desk") {}

const Whoami = Tool.make("whoami", {
  description: "Name of the user",
  success: Schema.String,
  dependencies: [User]
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Whoami)
const tools = [
  Toolset.make("users", toolkit, toolkit.toLayer({ whoami: () => User.useSync(({ name }) => name) }))
] as const

const provider = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "whoami" }] }),
  Scripted.complete("You are Ann.")
])

const program = Effect.gen(function* () {
  const desk = yield* Desk
  // @ts-expect-error: without its user the run does not compile.
  void (() => desk.run({ prompt: "Who am I?" }))
  return yield* desk.run({ prompt: "Who am I?", context: User.context({ name: "Ann" }) })
})

console.log((await program.pipe(Effect.provide(Runtime.make(Desk, { provider, tools })), Effect.runPromise)).text)
// => You are Ann.
