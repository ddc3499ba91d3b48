/**
 * `hermes trace`: what happened in a run, from a file of events, a trajectory, or a stored session.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Option from "effect/Option"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./TraceActions.ts")

const act = <A, E, R>(work: (actions: Actions) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./TraceActions.ts"), work))

const source = Argument.String("trace").pipe(
  Argument.withDescription("ATOF or ATIF file, or a session: id, id prefix, title, or latest")
)
const json = Flags.yes("json", "Print JSON")

const convert = Command.make("convert", {
  source,
  session: Flags.text("session", "ID", "Only this session"),
  output: Flags.text("output", "PATH", "Output file, or directory for several; default: stdout", "o"),
  agentName: Flags.text("agent-name", "NAME", "Agent name, if the events have none")
}, (flags) => act(({ convert }) => convert(flags))).pipe(Command.withDescription("Convert to an ATIF trajectory"))

const validate = Command.make("validate", {
  files: Argument.String("file").pipe(Argument.withDescription("ATIF or ATOF files"), Argument.atLeast(1)),
  json
}, (flags) => act(({ validate }) => validate(flags))).pipe(
  Command.withDescription("Validate files against their format")
)

const stats = Command.make("stats", { source, json }, (flags) => act(({ stats }) => stats(flags))).pipe(
  Command.withDescription("Show calls, tokens, cost, time and errors")
)

const view = Command.make("view", {
  source,
  other: Argument.optional(Argument.String("other").pipe(Argument.withDescription("Trace to compare with"))),
  output: Flags.text("output", "PATH", "Output page; default: a temporary file", "o")
}, ({ other, ...flags }) => act(({ view }) => view({ ...flags, other: Option.getOrUndefined(other) }))).pipe(
  Command.withDescription("Write a page that shows a trace, or compares two")
)

export const traceCommand = Command.make("trace").pipe(
  Command.withDescription("Convert, validate, summarise and view traces of runs"),
  Command.withSubcommands([convert, validate, stats, view])
)
