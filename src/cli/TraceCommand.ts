/**
 * `hermes trace`: what happened in a run, from a file of events, a trajectory, or a stored session.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Option from "effect/Option"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./Trace.ts")

const act = <A, E, R>(work: (actions: Actions) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Trace.ts"), work))

const source = Argument.String("trace").pipe(
  Argument.withDescription("A file of ATOF events, an ATIF file, or a session: its id, the beginning of it, its title, or latest")
)
const json = Flags.yes("json", "One JSON document")

const convert = Command.make("convert", {
  source,
  session: Flags.text("session", "ID", "Only the trajectory of this session"),
  output: Flags.text("output", "PATH", "File to write, or the directory for several; stdout when not given", "o"),
  agentName: Flags.text("agent-name", "NAME", "Who ran, where the events do not say")
}, (flags) => act(({ convert }) => convert(flags))).pipe(Command.withDescription("Make an ATIF trajectory of it"))

const validate = Command.make("validate", {
  files: Argument.String("file").pipe(Argument.withDescription("ATIF or ATOF files"), Argument.atLeast(1)),
  json
}, (flags) => act(({ validate }) => validate(flags))).pipe(
  Command.withDescription("Judge files by every rule of their format")
)

const stats = Command.make("stats", { source, json }, (flags) => act(({ stats }) => stats(flags))).pipe(
  Command.withDescription("Calls, tokens, cost, time, and what went wrong")
)

const view = Command.make("view", {
  source,
  other: Argument.optional(Argument.String("other").pipe(Argument.withDescription("Another one to compare it with"))),
  output: Flags.text("output", "PATH", "Page to write; a temporary one when not given", "o")
}, ({ other, ...flags }) => act(({ view }) => view({ ...flags, other: Option.getOrUndefined(other) }))).pipe(
  Command.withDescription("Write a page that shows it, or the difference between two")
)

/** See the module. */
export const traceCommand = Command.make("trace").pipe(
  Command.withDescription("Look at what happened in a run: convert, validate, stats, view"),
  Command.withSubcommands([convert, validate, stats, view])
)
