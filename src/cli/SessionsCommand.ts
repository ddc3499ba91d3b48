/**
 * `hermes sessions`: what was said before.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./Sessions.ts")

const act = <A, E, R>(work: (actions: Actions) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./Sessions.ts"), work))

const session = Argument.String("session").pipe(
  Argument.withDescription("Its id, the beginning of it, its title, or latest")
)
const source = Flags.text("source", "TAG", "Only those that this made: cli, oneshot, batch, …")
const json = Flags.yes("json", "One JSON document")
const atMost = (otherwise: string) =>
  Flags.last(Flag.Int("limit").pipe(Flag.withMetavar("N")), `At most this many; ${otherwise} when not given`)
const limit = atMost("20")

const list = Command.make("list", { source, limit, json }, (flags) => act(({ list }) => list(flags))).pipe(
  Command.withDescription("The newest sessions")
)
const show = Command.make("show", { session }, (flags) => act(({ show }) => show(flags))).pipe(
  Command.withDescription("What was said in one")
)
const rename = Command.make(
  "rename",
  { session, title: Argument.String("title").pipe(Argument.withDescription("At most 100 characters, no other session's")) },
  (flags) => act(({ rename }) => rename(flags))
).pipe(Command.withDescription("Give one a title"))
const exportCommand = Command.make(
  "export",
  {
    session: Flags.text("session-id", "SESSION", "Only this one"),
    source,
    limit: atMost("all"),
    format: Flags.last(Flag.Literals("format", ["jsonl"]), "A line of JSON for each session"),
    output: Flags.text("output", "PATH", "File to write; stdout when not given", "o")
  },
  (flags) => act((actions) => actions.exportSessions(flags))
).pipe(Command.withDescription("Write sessions with all their messages, secrets redacted"))

/** See the module. */
export const sessionsCommand = Command.make("sessions", { source, limit, json }, (flags) => act(({ list }) => list(flags)))
  .pipe(
    Command.withDescription("List, show, rename and export what was said before"),
    Command.withSubcommands([list, show, rename, exportCommand])
  )
