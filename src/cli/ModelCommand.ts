/**
 * `hermes model`: which model answers, which there are, another one, and whether it answers at all.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./ModelActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) =>
    perform(shared, () => import("./ModelActions.ts"), (actions) => work(actions, shared)))

const json = Flags.yes("json", "Print JSON")

const search = Flag.String("search").pipe(
  Flag.withMetavar("TEXT"),
  Flag.withDescription("Only models whose name contains this text"),
  Flag.withDefault("")
)

const list = Command.make("list", { json, search }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("List the models of the provider, or of another one with --provider")
)

const set = Command.make(
  "set",
  { model: Argument.String("model").pipe(Argument.withDescription("Model name as the provider lists it")) },
  (flags) => act((actions, shared) => actions.set(shared, flags))
).pipe(Command.withDescription("Set the main model; its provider and address with --provider and --base-url"))

const test = Command.make("test", { json }, (flags) => act((actions, shared) => actions.test(shared, flags))).pipe(
  Command.withDescription("Send a short test request to the model")
)

const signIn = <A, E, R>(work: (login: typeof import("./ModelLogin.ts"), shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ModelLogin.ts"), (login) => work(login, shared)))

const login = Command.make("login", {}, () => signIn((actions, shared) => actions.login(shared))).pipe(
  Command.withDescription("Log in to ChatGPT with a code, for the models of openai-codex")
)

const logout = Command.make("logout", {}, () => signIn((actions, shared) => actions.logout(shared))).pipe(
  Command.withDescription("Log out of ChatGPT")
)

export const modelCommand = Command.make("model", { json }, (flags) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ModelSetup.ts"), ({ run }) => run(shared, flags))))
  .pipe(
    Command.withDescription("Show the configured model; on a terminal, choose, test and save another one"),
    Command.withSubcommands([list, set, test, login, logout])
  )
