/**
 * The command `hermes` with the flags that every command shares.
 */
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"

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

/** Runs the part of the program that does the work of a command, loaded only now, as loud as the user wants it. */
export const perform = <M, A, E, R>(
  { verbose }: Pick<Flags.Globals, "verbose">,
  load: () => Promise<M>,
  work: (module: M) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.promise(load).pipe(
    Effect.flatMap(work),
    Effect.provideService(References.MinimumLogLevel, verbose ? "Debug" : "Warn")
  )
