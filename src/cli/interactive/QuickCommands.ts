/**
 * The user's own commands (`quick_commands` of the settings): a line for the shell, or another name for a line.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import type { Values } from "../../config/Settings.ts"
import type { Next } from "./SlashCommands.ts"
import type { DialogCommand } from "./Dialog.ts"

/** The line that a command stands for; undefined for one that says nothing. */
const lineOf = ({ command, target, type }: Values["quickCommands"][string]): string | undefined => {
  if (type === "exec") return command === undefined ? undefined : `!${command}`
  return target === undefined ? undefined : target.startsWith("/") ? target : `/${target}`
}

export const make = (quickCommands: Values["quickCommands"]): ReadonlyArray<DialogCommand> =>
  Object.entries(quickCommands).flatMap(([name, quick]) => {
    const line = lineOf(quick)
    if (line === undefined) return []
    return [{
      name,
      aliases: [],
      usage: "",
      help: `Same as ${line}`,
      run: (argument) => Effect.succeed<Next>({ _tag: "Type", line: `${line} ${argument}`.trimEnd() })
    }]
  })
