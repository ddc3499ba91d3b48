/**
 * `hermes tools`: which tools there are, and which of them runs get.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

const flags = {
  json: Flags.yes("json", "One JSON document"),
  summary: Flags.yes("summary", "A line for each toolset")
}

type Form = Parameters<typeof import("./Tools.ts").list>[1]

const list = (own: Form) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Tools.ts"), ({ list }) => list(shared, own)))

const changed = {
  toolset: Argument.String("toolset").pipe(Argument.withDescription("Names of toolsets"), Argument.atLeast(1)),
  platform: Flags.text("platform", "NAME", "For one platform alone: cli, cron, …")
}

type Changes = typeof import("./ToolsChange.ts")

const change = (work: (changes: Changes) => Changes["enable"]) => (own: Parameters<Changes["enable"]>[1]) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ToolsChange.ts"), (changes) => work(changes)(shared, own)))

/** See the module. */
export const toolsCommand = Command.make("tools", flags, list).pipe(
  Command.withDescription("Show the toolsets and their tools, and which of them a run gets"),
  Command.withSubcommands([
    Command.make("list", flags, list).pipe(Command.withDescription("The same")),
    Command.make("enable", changed, change(({ enable }) => enable)).pipe(Command.withDescription("Let runs have toolsets")),
    Command.make("disable", changed, change(({ disable }) => disable)).pipe(Command.withDescription("Keep toolsets from runs"))
  ])
)
