/**
 * `hermes tools`: which tools there are, and which of them runs get.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

const flags = {
  json: Flags.yes("json", "Print JSON"),
  summary: Flags.yes("summary", "One line per toolset")
}

type Form = Parameters<typeof import("./ToolsActions.ts").list>[1]

const list = (own: Form) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ToolsActions.ts"), ({ list }) => list(shared, own)))

const changed = {
  toolset: Argument.String("toolset").pipe(Argument.withDescription("Toolset names"), Argument.atLeast(1)),
  platform: Flags.text("platform", "NAME", "Only for this platform: cli, cron, …")
}

type Changes = typeof import("./ToolsChange.ts")

const change = (work: (changes: Changes) => Changes["enable"]) => (own: Parameters<Changes["enable"]>[1]) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./ToolsChange.ts"), (changes) => work(changes)(shared, own)))

export const toolsCommand = Command.make("tools", flags, list).pipe(
  Command.withDescription("List toolsets and tools, and which of them are selected"),
  Command.withSubcommands([
    Command.make("list", flags, list).pipe(Command.withDescription("List toolsets and tools (same as without a command)")),
    Command.make("enable", changed, change(({ enable }) => enable)).pipe(Command.withDescription("Enable toolsets")),
    Command.make("disable", changed, change(({ disable }) => disable)).pipe(Command.withDescription("Disable toolsets"))
  ])
)
