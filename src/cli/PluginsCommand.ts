/**
 * `hermes plugins`: which plugins there are, and which of them are used.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./Plugins.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Plugins.ts"), (actions) => work(actions, shared)))

const name = Argument.String("name").pipe(
  Argument.withDescription("Its key, such as observability/nemo_relay, or its name")
)
const json = Flags.yes("json", "One JSON document")

const listFlags = {
  enabled: Flags.yes("enabled", "Only those that are enabled"),
  user: Flags.yes("user", "Only those of your plugins directory"),
  withoutBundled: Flags.yes("no-bundled", "Without those of the program"),
  plain: Flags.yes("plain", "A line for each, its columns apart by tabs"),
  json
}

const list = Command.make("list", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("All plugins that are here, with their state")
)

const info = Command.make("info", { name, json }, (flags) => act((actions, shared) => actions.info(shared, flags))).pipe(
  Command.withDescription("What is known of one, without running it")
)

const enable = Command.make("enable", { name }, (flags) => act((actions, shared) => actions.enable(shared, flags))).pipe(
  Command.withDescription("Use one from the next session on")
)

const disable = Command.make("disable", { name }, (flags) => act((actions, shared) => actions.disable(shared, flags))).pipe(
  Command.withDescription("Use one no longer; this wins over every way of enabling it")
)

const install = Command.make(
  "install",
  {
    source: Argument.String("source").pipe(
      Argument.withDescription("A folder, the address of a git repository, or owner/repo of GitHub")
    ),
    force: Flags.yes("force", "Replace one of the same name"),
    enable: Flags.yes("enable", "Enable it too"),
    withoutEnabling: Flags.yes("no-enable", "Do not ask whether to enable it")
  },
  (flags) => act((actions, shared) => actions.install(shared, flags))
).pipe(Command.withDescription("Copy one into your plugins directory; none of its code is run"))

const update = Command.make("update", { name }, (flags) => act((actions, shared) => actions.update(shared, flags))).pipe(
  Command.withDescription("Bring one that was cloned to its last version")
)

const flags = { name }
const description = "Take one out of your plugins directory"
const remove = Command.make("remove", flags, (flags) => act((actions, shared) => actions.remove(shared, flags))).pipe(
  Command.withAlias("rm"),
  Command.withDescription(description)
)
const uninstall = Command.make("uninstall", flags, (flags) => act((actions, shared) => actions.remove(shared, flags))).pipe(
  Command.withDescription(`${description}: the same as remove`)
)

/** See the module. Without a word behind it: the list. */
export const pluginsCommand = Command.make(
  "plugins",
  listFlags,
  (flags) => act((actions, shared) => actions.list(shared, flags))
).pipe(
  Command.withDescription("List, enable, disable, install, update and remove plugins"),
  Command.withSubcommands([list, info, enable, disable, install, update, remove, uninstall])
)
