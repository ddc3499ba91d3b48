/**
 * `hermes tools`: which tools there are, and which of them a run gets.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

const flags = { json: Flags.yes("json", "One JSON document") }

const list = (own: { readonly json: boolean }) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Tools.ts"), ({ list }) => list(shared, own)))

/** See the module. */
export const toolsCommand = Command.make("tools", flags, list).pipe(
  Command.withDescription("Show the toolsets and their tools, and which of them a run gets"),
  Command.withSubcommands([Command.make("list", flags, list).pipe(Command.withDescription("The same"))])
)
