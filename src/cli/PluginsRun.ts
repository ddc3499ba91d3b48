/**
 * Commands of the program that plugins bring: `hermes name …`. They are looked for only when the program has no command of
 * that name and the user has enabled plugins.
 *
 * Source: `hermes-contract.md` §3.5 (`register_cli_command`).
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Config from "../config/Config.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { Plugins } from "../plugin/Plugins.ts"
import { nameOf } from "../plugin/Commands.ts"
import { Program } from "./Program.ts"

const surroundings = Layer.provideMerge(Environment.layer, Home.layer)

/** Runs a command of a plugin and gives its exit code; undefined where no plugin has it. */
export const run = Effect.fnUntraced(function*(
  word: string,
  args: ReadonlyArray<string>,
  reserved: ReadonlyArray<string>
) {
  const program = yield* Program
  // What is wrong with the settings is told by the commands that need them.
  const loaded = yield* Effect.option(Config.load())
  if (Option.isNone(loaded) || loaded.value.settings.plugins.enabled.length === 0) return undefined
  const runtime = program.layer(loaded.value.settings, {
    withoutModel: true,
    reserved: { commands: [], cliCommands: reserved }
  })
  return yield* Effect.gen(function*() {
    const { cliCommands } = yield* Plugins.use(({ loaded }) => loaded)
    const command = cliCommands.find(({ name }) => name === nameOf(word))
    return command === undefined ? undefined : (yield* command.run(args)) ?? 0
  }).pipe(Effect.provide(runtime))
}, Effect.provide(surroundings))
