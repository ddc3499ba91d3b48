/**
 * The command `hermes` with the flags that every command shares.
 */
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"

/** As an Effect, gives the {@link Flags.Globals} of the command line to the handlers of its commands. */
export const hermes = Command.make("hermes", Flags.chat).pipe(
  Command.withSharedFlags(Flags.globals),
  Command.withDescription(
    "An agent for your terminal: it calls a model, runs tools, and repeats until the task is done."
  ),
  Command.withExamples([
    { command: "hermes", description: "Start a conversation" },
    { command: "hermes -q 'What is in README.md?' -t file", description: "Send one prompt, with file tools" },
    { command: "hermes -c", description: "Resume the latest session" }
  ])
)
