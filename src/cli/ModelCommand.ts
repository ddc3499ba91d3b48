/**
 * `hermes model`: which model answers, which there are, another one, and whether it answers at all.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./ModelCommandActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) =>
    perform(shared, () => import("./ModelCommandActions.ts"), (actions) => work(actions, shared)))

const json = Flags.yes("json", "One JSON document")

const search = Flag.String("search").pipe(
  Flag.withMetavar("TEXT"),
  Flag.withDescription("Only models whose name has this in it"),
  Flag.withDefault("")
)

const list = Command.make("list", { json, search }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("The models that the provider lists; another one's by --provider")
)

const set = Command.make(
  "set",
  { model: Argument.String("model").pipe(Argument.withDescription("Its name, as the provider knows it")) },
  (flags) => act((actions, shared) => actions.set(shared, flags))
).pipe(Command.withDescription("Make it the main model; its provider and address by --provider and --base-url"))

const test = Command.make("test", { json }, (flags) => act((actions, shared) => actions.test(shared, flags))).pipe(
  Command.withDescription("Ask the model for the shortest answer there is, and say how it went")
)

const signIn = <A, E, R>(work: (login: typeof import("./ModelLogin.ts"), shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ModelLogin.ts"), (login) => work(login, shared)))

const login = Command.make("login", {}, () => signIn((actions, shared) => actions.login(shared))).pipe(
  Command.withDescription("Log in to ChatGPT by a code, for the models of openai-codex")
)

const logout = Command.make("logout", {}, () => signIn((actions, shared) => actions.logout(shared))).pipe(
  Command.withDescription("Forget that login")
)

/** See the module. */
export const modelCommand = Command.make("model", { json }, (flags) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ModelSetup.ts"), ({ run }) => run(shared, flags))))
  .pipe(
    Command.withDescription("Show the model that answers; on a terminal also choose, test and save another one"),
    Command.withSubcommands([list, set, test, login, logout])
  )
