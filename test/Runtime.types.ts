// What a runtime fails with and needs is exactly what its parts fail with and need. This file is compiled, never run.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { Environment } from "../src/config/Environment.ts"
import type { Home } from "../src/config/Home.ts"
import { Settings } from "../src/config/Settings.ts"
import type { ConfigError } from "../src/domain/AgentError.ts"
import { Files, Hooks, Provider, Runtime, Terminal, Toolset } from "../src/index.ts"
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

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
const same = <A, B>(_: Same<A, B>): void => undefined
type ErrorOf<L> = L extends Layer.Layer<infer _A, infer E, infer _R> ? E : never
type NeedsOf<L> = L extends Layer.Layer<infer _A, infer _E, infer R> ? R : never

// The built-in toolsets need no more than the runtime has.
const whole = Runtime.layer({ tools: [Files.toolset, Terminal.toolset, Todo.toolset] })
same<ErrorOf<typeof whole>, never>(true)
same<NeedsOf<typeof whole>, never>(true)

// What a toolset and a hook need is missing until it is given.
const open = Runtime.layer({ tools: [weather, Files.toolset], hooks: [diary] })
same<ErrorOf<typeof open>, never>(true)
same<NeedsOf<typeof open>, Weather | Diary>(true)

// What a provider fails with, the whole fails with.
const failing = Runtime.layer({ provider })
same<ErrorOf<typeof failing>, Broken>(true)
same<NeedsOf<typeof failing>, never>(true)

// A program needs its surroundings, and fails with one kind of error.
const program = Effect.map(Settings, (settings) => Runtime.program(settings))
same<ErrorOf<Effect.Success<typeof program>>, ConfigError>(true)
same<NeedsOf<Effect.Success<typeof program>>, Home | Environment>(true)
