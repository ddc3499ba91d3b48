/**
 * `hermes hooks`: programs of the user that are run on events, and what events carry.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./Hooks.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Hooks.ts"), (actions) => work(actions, shared)))

const event = Argument.String("event").pipe(Argument.withDescription("A hook, such as pre_tool_call"))
const json = Flags.yes("json", "One JSON document")

const list = Command.make("list", { json }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("The programs of the configuration, and whether they may run")
)

const test = Command.make(
  "test",
  {
    event,
    tool: Flags.text("for-tool", "NAME", "The tool that the event is about; terminal when not given"),
    payload: Flags.text("payload-file", "PATH", "JSON object with fields of the event, in place of made-up ones")
  },
  (flags) => act((actions, shared) => actions.test(shared, flags))
).pipe(Command.withDescription("Run those of an event on a made-up one"))

const revoke = Command.make(
  "revoke",
  { command: Argument.String("command").pipe(Argument.withDescription("The command, as it stands in the configuration")) },
  (flags) => act((actions, shared) => actions.revoke(shared, flags))
).pipe(Command.withDescription("Forget that a command was approved"))

const doctor = Command.make("doctor", { json }, (flags) => act((actions, shared) => actions.doctor(shared, flags))).pipe(
  Command.withDescription("Try each, and say what is wrong with it")
)

const schema = Command.make(
  "schema",
  {
    event: Argument.optional(event),
    output: Flags.text("output", "DIRECTORY", "Write <event>.schema.json for each there", "o")
  },
  (flags) => act((actions) => actions.schema(flags))
).pipe(Command.withDescription("The JSON Schema of what events carry: of one, or of all"))

/** See the module. Without a word behind it: the list. */
export const hooksCommand = Command.make("hooks", { json }, (flags) => act((actions, shared) => actions.list(shared, flags)))
  .pipe(
    Command.withDescription("List, try and revoke the shell hooks of the configuration, and print the schemas of events"),
    Command.withSubcommands([list, test, revoke, doctor, schema])
  )
