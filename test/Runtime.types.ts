// What a runtime fails with and needs is exactly what its parts fail with and need. This file is compiled, never run.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { type AgentError, Agent, Files, Hooks, Provider, Runtime, Terminal, Toolset } from "../src/index.ts"
import * as Todo from "../src/tool/builtin/Todo.ts"

class Weather extends Context.Service<Weather, { readonly celsius: number }>()("test/Weather") {}
class Diary extends Context.Service<Diary, { readonly write: (line: string) => Effect.Effect<void> }>()("test/Diary") {}
class Broken extends Schema.TaggedError<Broken>()("Broken", {}) {}

const tool = Tool.make("weather", { description: "How warm it is", success: Schema.Finite })
const toolkit = Toolkit.make(tool)
const weather = Toolset.make(
  "weather",
  toolkit,
  toolkit.toLayer(Effect.map(Weather, ({ celsius }) => ({ weather: () => Effect.succeed(celsius) })))
)
const diary = Hooks.on("post_tool_call", () => Effect.flatMap(Diary, ({ write }) => write("a tool ran")))
const provider = Layer.effect(Provider.Provider, Effect.fail(new Broken()))

const run = Agent.run({ prompt: "hello" })

/** Nothing is missing: the built-in toolsets need no more than the runtime. */
export const whole: Effect.Effect<unknown, typeof AgentError.AgentError.Type> = run.pipe(
  Effect.provide(Runtime.layer({ tools: [Files.toolset, Terminal.toolset, Todo.toolset] }))
)

/** What a toolset and a hook need is missing until it is given. */
export const open: Effect.Effect<unknown, typeof AgentError.AgentError.Type, Weather | Diary> = run.pipe(
  Effect.provide(Runtime.layer({ tools: [weather, Files.toolset], hooks: [diary] }))
)

// @ts-expect-error Weather is missing
export const withoutWeather: Effect.Effect<unknown, unknown, Diary> = open

/** What a provider fails with, the whole fails with. */
export const failing: Effect.Effect<unknown, typeof AgentError.AgentError.Type | Broken> = run.pipe(
  Effect.provide(Runtime.layer({ provider }))
)

// @ts-expect-error Broken is not among these failures
export const withoutFailure: Effect.Effect<unknown, typeof AgentError.AgentError.Type> = failing
