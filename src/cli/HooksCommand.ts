/**
 * `hermes hooks`: programs of the user that are run on events, and what events carry.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./HooksActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./HooksActions.ts"), (actions) => work(actions, shared)))

const event = Argument.String("event").pipe(Argument.withDescription("Event such as pre_tool_call"))
const json = Flags.yes("json", "Print JSON")

const list = Command.make("list", { json }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("List shell hooks and their consent")
)

const test = Command.make(
  "test",
  {
    event,
    tool: Flags.text("for-tool", "NAME", "Tool of the event; default: terminal"),
    payload: Flags.text("payload-file", "PATH", "JSON file with event fields; default: sample values")
  },
  (flags) => act((actions, shared) => actions.test(shared, flags))
).pipe(Command.withDescription("Run the hooks of an event with sample data"))

const revoke = Command.make(
  "revoke",
  { command: Argument.String("command").pipe(Argument.withDescription("Command as written in the configuration")) },
  (flags) => act((actions, shared) => actions.revoke(shared, flags))
).pipe(Command.withDescription("Revoke the approval of a command"))

const doctor = Command.make("doctor", { json }, (flags) => act((actions, shared) => actions.doctor(shared, flags))).pipe(
  Command.withDescription("Run every hook with sample data and report problems")
)

const schema = Command.make(
  "schema",
  {
    event: Argument.optional(event),
    output: Flags.text("output", "DIRECTORY", "Write <event>.schema.json files to this directory", "o")
  },
  (flags) => act((actions) => actions.schema(flags))
).pipe(Command.withDescription("Print the JSON Schema of one event, or of all events"))

/** Without a word behind it: the list. */
export const hooksCommand = Command.make("hooks", { json }, (flags) => act((actions, shared) => actions.list(shared, flags)))
  .pipe(
    Command.withDescription("List, test and revoke shell hooks, and print event schemas"),
    Command.withSubcommands([list, test, revoke, doctor, schema])
  )
