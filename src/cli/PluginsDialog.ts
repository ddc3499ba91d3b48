/**
 * Slash commands that plugins bring to a session.
 *
 * Source: `hermes-contract.md` §3.5 (`register_command`).
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redaction from "../domain/Redaction.ts"
import type { Command } from "../plugin/Plugin.ts"
import type { Reserved } from "../plugin/Registration.ts"
import * as ErrorLine from "./ErrorLine.ts"
import * as BuiltinCommands from "./interactive/BuiltinCommands.ts"
import { stay } from "./interactive/SlashCommands.ts"
import { type Dialog, type DialogCommand, say } from "./interactive/Dialog.ts"
import * as SafeText from "./render/SafeText.ts"

/** Time limit of a command. */
const deadline = Duration.seconds(30)

/** The names of the program's own commands. */
export const reserved: Reserved = {
  commands: BuiltinCommands.commands.flatMap(({ aliases, name }) => [name, ...aliases]),
  cliCommands: []
}

const complain = (dialog: Dialog, line: string): void =>
  say(dialog, dialog.screen.asidePaint.text(ErrorLine.render(line).trimEnd(), "red"), "")

const dialogCommand = ({ argsHint, description, name, run }: Command): DialogCommand => ({
  name,
  aliases: [],
  usage: SafeText.line(argsHint ?? ""),
  help: Redaction.redactText(SafeText.line(description ?? "")),
  run: (argument, dialog) =>
    Effect.suspend(() => run(argument)).pipe(
      Effect.timeoutOption(deadline),
      Effect.matchCauseEffect({
        onFailure: (cause) =>
          Cause.hasInterrupts(cause)
            ? Effect.interrupt
            : Effect.sync(() => complain(dialog, ErrorLine.ofCause(cause).line)),
        onSuccess: (said) =>
          Effect.sync(() => {
            if (Option.isNone(said)) complain(dialog, `/${name} took longer than ${Duration.format(deadline)} and was stopped`)
            else if (typeof said.value === "string" && said.value !== "") say(dialog, Redaction.redactText(SafeText.text(said.value)), "")
          })
      }),
      Effect.as(stay)
    )
})

/** The commands of plugins as a session takes them. */
export const commands = (given: ReadonlyArray<Command>): ReadonlyArray<DialogCommand> => given.map(dialogCommand)
