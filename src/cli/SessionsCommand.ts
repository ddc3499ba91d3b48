/**
 * `hermes sessions`: what was said before.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./SessionsActions.ts")

const act = <A, E, R>(work: (actions: Actions) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./SessionsActions.ts"), work))

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest")
)
const source = Flags.text("source", "TAG", "Only sessions with this label: cli, oneshot, batch, …")
const json = Flags.yes("json", "Print JSON")
const atMost = (otherwise: string) =>
  Flags.last(Flag.Int("limit").pipe(Flag.withMetavar("N")), `Maximum number of sessions; default: ${otherwise}`)
const limit = atMost("20")

const list = Command.make("list", { source, limit, json }, (flags) => act(({ list }) => list(flags))).pipe(
  Command.withDescription("List the newest sessions")
)
const show = Command.make("show", { session }, (flags) => act(({ show }) => show(flags))).pipe(
  Command.withDescription("Show the messages of a session")
)
const rename = Command.make(
  "rename",
  { session, title: Argument.String("title").pipe(Argument.withDescription("New title; up to 100 characters, unique")) },
  (flags) => act(({ rename }) => rename(flags))
).pipe(Command.withDescription("Set the title of a session"))
const exportCommand = Command.make(
  "export",
  {
    session: Flags.text("session-id", "SESSION", "Only this session"),
    source,
    limit: atMost("all"),
    format: Flags.last(Flag.Literals("format", ["jsonl"]), "One line of JSON per session"),
    output: Flags.text("output", "PATH", "Output file; default: stdout", "o")
  },
  (flags) => act((actions) => actions.exportSessions(flags))
).pipe(Command.withDescription("Export sessions with all messages, secrets redacted"))

export const sessionsCommand = Command.make("sessions", { source, limit, json }, (flags) => act(({ list }) => list(flags)))
  .pipe(
    Command.withDescription("List, show, rename and export sessions"),
    Command.withSubcommands([list, show, rename, exportCommand])
  )
