/**
 * `hermes plugins`: which plugins there are, and which of them are used.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./PluginsActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./PluginsActions.ts"), (actions) => work(actions, shared)))

const name = Argument.String("name").pipe(
  Argument.withDescription("Plugin key such as observability/nemo_relay, or its name")
)
const json = Flags.yes("json", "Print JSON")

const listFlags = {
  enabled: Flags.yes("enabled", "Only enabled plugins"),
  user: Flags.yes("user", "Only plugins of your plugins directory"),
  withoutBundled: Flags.yes("no-bundled", "Without built-in plugins"),
  plain: Flags.yes("plain", "One line per plugin, columns separated by tabs"),
  json
}

const list = Command.make("list", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("List plugins and their state")
)

const info = Command.make("info", { name, json }, (flags) => act((actions, shared) => actions.info(shared, flags))).pipe(
  Command.withDescription("Show the details of a plugin without running it")
)

const enable = Command.make("enable", { name }, (flags) => act((actions, shared) => actions.enable(shared, flags))).pipe(
  Command.withDescription("Enable a plugin from the next session on")
)

const disable = Command.make("disable", { name }, (flags) => act((actions, shared) => actions.disable(shared, flags))).pipe(
  Command.withDescription("Disable a plugin (overrides every enable)")
)

const install = Command.make(
  "install",
  {
    source: Argument.String("source").pipe(
      Argument.withDescription("Folder, address of a git repository, or owner/repo of GitHub")
    ),
    force: Flags.yes("force", "Replace a plugin with the same name"),
    enable: Flags.yes("enable", "Enable the plugin after installing it"),
    withoutEnabling: Flags.yes("no-enable", "Do not ask to enable the plugin")
  },
  (flags) => act((actions, shared) => actions.install(shared, flags))
).pipe(Command.withDescription("Install a plugin into your plugins directory; none of its code is run"))

const update = Command.make("update", { name }, (flags) => act((actions, shared) => actions.update(shared, flags))).pipe(
  Command.withDescription("Update a plugin installed from git")
)

const flags = { name }
const description = "Remove a plugin from your plugins directory"
const remove = Command.make("remove", flags, (flags) => act((actions, shared) => actions.remove(shared, flags))).pipe(
  Command.withAlias("rm"),
  Command.withDescription(description)
)
const uninstall = Command.make("uninstall", flags, (flags) => act((actions, shared) => actions.remove(shared, flags))).pipe(
  Command.withDescription(`${description} (same as remove)`)
)

/** Without a word behind it: the list. */
export const pluginsCommand = Command.make(
  "plugins",
  listFlags,
  (flags) => act((actions, shared) => actions.list(shared, flags))
).pipe(
  Command.withDescription("List, enable, disable, install, update and remove plugins"),
  Command.withSubcommands([list, info, enable, disable, install, update, remove, uninstall])
)
