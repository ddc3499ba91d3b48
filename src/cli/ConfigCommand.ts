/**
 * `hermes config`: shows and changes the settings.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./ConfigActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) =>
    perform(shared, () => import("./ConfigActions.ts"), (actions) => work(actions, shared)))

const key = Argument.String("key").pipe(Argument.withDescription("Key such as agent.max_turns"))
const json = Flags.yes("json", "Print JSON instead of YAML")

const show = Command.make("show", { json }, (flags) => act((actions, shared) => actions.show(shared, flags))).pipe(
  Command.withDescription("Show all settings in effect, secrets masked")
)
const path = Command.make("path", {}, () => act(({ path }) => path)).pipe(
  Command.withDescription("Print the path of config.yaml")
)
const envPath = Command.make("env-path", {}, () => act(({ envPath }) => envPath)).pipe(
  Command.withDescription("Print the path of the .env file")
)
const get = Command.make("get", { key, json }, (flags) => act(({ get }) => get(flags))).pipe(
  Command.withDescription("Show the value of a key")
)
const set = Command.make(
  "set",
  { key, value: Argument.String("value").pipe(Argument.withDescription("New value")) },
  (flags) => act(({ set }) => set(flags))
).pipe(Command.withDescription("Set a key; secrets (…_api_key, …_token, …_secret) are stored in .env"))
const unset = Command.make("unset", { key }, (flags) => act(({ unset }) => unset(flags))).pipe(
  Command.withDescription("Remove a key")
)
const edit = Command.make("edit", {}, () => act(({ edit }) => edit)).pipe(
  Command.withDescription("Edit config.yaml in $VISUAL or $EDITOR and check it afterwards")
)
const check = Command.make("check", {}, () => act(({ check }, shared) => check(shared))).pipe(
  Command.withDescription("Check the settings and report all problems")
)

export const configCommand = Command.make("config", { json }, (flags) => act((actions, shared) => actions.show(shared, flags)))
  .pipe(
    Command.withDescription("Show and change the settings"),
    Command.withSubcommands([show, get, set, unset, edit, check, path, envPath])
  )
