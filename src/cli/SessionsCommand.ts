/**
 * `hermes sessions`: what was said before.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../config/Environment.ts"
import { Settings } from "../config/Settings.ts"
import type { SessionStoreError } from "../domain/AgentError.ts"
import * as Ids from "../domain/Ids.ts"
import * as Json from "../domain/Json.ts"
import * as Redaction from "../domain/Redaction.ts"
import * as Usage from "../domain/Usage.ts"
import * as SessionExport from "../session/SessionExport.ts"
import { hiddenSources } from "../session/SessionSearch.ts"
import * as SessionRetention from "../session/SessionRetention.ts"
import { defaultLimit, type Session, SessionStore } from "../session/SessionStore.ts"
import * as Title from "../session/Title.ts"
import { provide } from "./CommandSettings.ts"
import { type Failure, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { line, table } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as SessionDocument from "./render/SessionDocument.ts"
import * as ToolText from "./render/ToolText.ts"
import * as Width from "./render/Width.ts"
import * as Confirm from "./Confirm.ts"
import * as SessionChanges from "./SessionChanges.ts"
import * as SessionCare from "./SessionCare.ts"
import { forReading, opened, otherFolder, readFolder, stored } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest (of this folder)")
)
const source = Flags.text("source", "TAG", "Only sessions with this label: cli, oneshot, batch, …")
const json = Flags.yes("json", "Print JSON")
const atMost = (otherwise: string) =>
  Flags.last(Flag.Int("limit").pipe(Flag.withMetavar("N")), `Maximum number of sessions; default: ${otherwise}`)
const limit = atMost("20")

interface Filter {
  readonly source: string | undefined
  readonly limit: number | undefined
}

/** `2026-11-22 00:16`, in the machine's zone. */
const when = (millis: number): string => {
  const parts = DateTime.toParts(DateTime.makeZonedUnsafe(millis, { timeZone: DateTime.zoneMakeLocal() }))
  const two = (n: number): string => String(n).padStart(2, "0")
  return `${parts.year}-${two(parts.month)}-${two(parts.day)} ${two(parts.hour)}:${two(parts.minute)}`
}

const checked = ({ limit, source }: Filter): Effect.Effect<Filter, Failure> =>
  limit !== undefined && limit < 1 ? Effect.fail(usage("--limit is a number of sessions, 1 or more")) : Effect.succeed({ limit, source })

/** The newest sessions; those that nobody talked in (children, tools) only when their source is asked for. */
const found = Effect.fnUntraced(function*(filter: Filter, otherwise: number) {
  const { limit = otherwise, source } = filter
  const store = yield* SessionStore
  if (source !== undefined) return yield* store.list({ source, limit })
  const all = yield* store.list({ limit: Number.MAX_SAFE_INTEGER })
  return all.filter(({ source }) => !hiddenSources.includes(source)).slice(0, limit)
})

const newest = (filter: Filter) => stored<ReadonlyArray<Session>, SessionStoreError>(found(filter, defaultLimit), Effect.succeed([]), forReading)

/** A line of a list; the folder stands at the end of one that is not of this folder. */
const row = (session: Session, other?: string): ReadonlyArray<string> => [
  session.id,
  when(session.startedAt),
  session.source,
  session.model,
  `${session.messageCount} messages`,
  session.title ?? "",
  ...other === undefined ? [] : [other]
]

/** Prints the newest sessions. */
const listNewest = Effect.fn("hermes sessions list")(function*({ json, ...flags }: Filter & { readonly json: boolean }) {
  const sessions = yield* newest(yield* checked(flags))
  if (json) return yield* line(SafeText.json(sessions.map(SessionExport.summary), 2))
  if (sessions.length === 0) return yield* line("There are no sessions yet")
  const folder = yield* readFolder
  yield* line(table(yield* Effect.forEach(sessions, (session) => Effect.map(otherFolder(folder, session), (other) => row(session, other)))))
}, Effect.provide(Home.layer))

const list = Command.make("list", { source, limit, json }, listNewest).pipe(
  Command.withDescription("List the newest sessions")
)

/** Columns of a tool's arguments or result. */
const previewColumns = 120

const text = (part: Prompt.Part): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`}]`
    case "tool-call":
      return `┊ ${part.name} ${Width.cut(ToolText.preview(part.params), previewColumns)}`.trimEnd()
    case "tool-result":
      return `┊ ${part.name}${part.isFailure ? " failed" : ""}: ${
        Width.cut(ToolText.lines(Json.toText(part.result), 1).lines.join(""), previewColumns)
      }`
    default:
      return ""
  }
}

const speakers: Readonly<Record<Prompt.Message["role"], string>> = { system: "System", user: "You", assistant: "Agent", tool: "" }

const said = (message: Prompt.Message): ReadonlyArray<string> => {
  const body = typeof message.content === "string" ? message.content : message.content.map(text).filter(Boolean).join("\n")
  if (body.trim() === "") return []
  const speaker = speakers[message.role]
  return [speaker === "" ? body : `${speaker}: ${body}`]
}

/** Prints one session. */
const show = Command.make("show", { session }, Effect.fn("hermes sessions show")(function*({ session }) {
  const text = yield* opened(session, (found) =>
    Effect.map(SessionExport.messages(found.id), (messages) =>
      [
        [`${found.id}${found.title === undefined ? "" : `  ${found.title}`}`,
        `${when(found.startedAt)}, ${found.model} (${found.provider}), ${found.source}, ${
          found.endReason ?? "not ended"
        }, ${Usage.totalTokens(found.usage)} tokens`].join("\n"),
        ...messages.flatMap(said)
      ].join("\n\n")), forReading)
  yield* line(Redaction.redactText(text))
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Show the messages of a session"))

/** Gives a session a title. */
const rename = Command.make("rename", {
  session,
  title: Argument.String("title").pipe(Argument.withDescription("New title; up to 100 characters, unique"))
}, Effect.fn("hermes sessions rename")(function*({ session, title }) {
  const id = yield* opened(session, ({ id }) =>
    Effect.as(SessionStore.use((store) => store.rename(id, title)), id))
  yield* line(`${id} is now called ${Title.normalise(title)}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Set the title of a session"))

type Format = "jsonl" | "md" | "html"

interface Exported {
  readonly count: number
  readonly content: string | Uint8Array
}

/** A document of sessions in a format. */
const written = Effect.fnUntraced(function*(format: Format, sessions: ReadonlyArray<Session>) {
  if (format === "jsonl") return (yield* Effect.forEach(sessions, SessionExport.whole)).map((whole) => `${SafeText.json(whole)}\n`).join("")
  const all = yield* Effect.forEach(sessions, (session) => Effect.map(SessionExport.messages(session.id), (messages) => ({ session, messages })))
  return format === "md" ? SessionDocument.markdown(all) : SessionDocument.html(all)
})

/** An archive with a document for each session. */
const archived = (format: Format, sessions: ReadonlyArray<Session>) =>
  Stream.mkUint8Array(SessionExport.archive(Stream.mapEffect(Stream.fromIterable(sessions), (session) =>
    Effect.map(written(format, [session]), (content) =>
      ({ name: `${Ids.inFileName(session.id)}.${format}`, content, changedAt: session.startedAt })))))

/** Writes sessions in one of the formats. */
const exportCommand = Command.make("export", {
  session: Flags.text("session-id", "SESSION", "Only this session"),
  source,
  limit: atMost("all"),
  format: Flags.last(
    Flag.Literals("format", ["jsonl", "md", "html"]),
    "jsonl: one line of JSON per session, which `import` reads (default); md: Markdown; html: one page"
  ),
  output: Flags.text("output", "PATH", "Output file; default: stdout; one that ends in .tar.gz has a file per session", "o")
}, Effect.fn("hermes sessions export")(function*({ format = "jsonl", output, session, ...flags }) {
  const filter = yield* checked(flags)
  const isArchive = output !== undefined && SessionExport.isArchive(output)
  const put = Effect.fnUntraced(function*(sessions: ReadonlyArray<Session>): Effect.fn.Return<Exported, SessionStoreError, SessionStore> {
    return { count: sessions.length, content: yield* isArchive ? archived(format, sessions) : written(format, sessions) }
  })
  const { content, count } = session === undefined
    ? yield* stored<Exported, SessionStoreError>(
      Effect.flatMap(found(filter, Number.MAX_SAFE_INTEGER), put),
      Effect.succeed({ count: 0, content: "" }),
      forReading
    )
    : yield* opened(session, (one) => put([one]), forReading)
  if (output === undefined) return yield* line(String(content).trimEnd())
  yield* OutputFile.write(output, content)
  yield* line(`${count === 1 ? "1 session is" : `${count} sessions are`} in ${output}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Export sessions with all messages, secrets redacted"))

const counted = (count: number): string => count === 1 ? "1 session" : `${count} sessions`

/** Removes old sessions. */
const pruneCommand = Command.make("prune", {
  olderThan: Flags.last(
    Flag.Finite("older-than").pipe(Flag.withMetavar("DAYS")),
    "Days since the last activity; default: sessions.retention_days (90)"
  ),
  source,
  dryRun: Flags.yes("dry-run", "List the sessions and remove nothing"),
  yes: Flags.yes("yes", "Do not ask", "y")
}, Effect.fn("hermes sessions prune")(function*({ dryRun, olderThan, source, yes }) {
  const { sessions: { retentionDays, vacuumAfterPrune } } = yield* Settings
  const days = olderThan ?? retentionDays
  if (days < 0) return yield* usage("--older-than is a number of days, 0 or more")
  const limit = { before: yield* SessionRetention.beforeDays(days), source }
  const found = yield* stored<ReadonlyArray<Session>, SessionStoreError>(
    SessionRetention.SessionRetention.use(({ expired }) => expired(limit)),
    Effect.succeed([])
  )
  if (found.length === 0) return yield* line(`No ended session is older than ${days} days`)
  if (dryRun) return yield* line(`${table(found.map((session) => row(session)))}\n\n${counted(found.length)} would be removed`)
  if (!yes && !(yield* Confirm.required(
    `Remove ${counted(found.length)} older than ${days} days, with their run records?`,
    "Not a terminal. Pass --yes to remove these sessions, or --dry-run to list them."
  ))) {
    return yield* line("Nothing was removed")
  }
  const { kept, removed } = yield* stored<SessionRetention.Pruned, SessionStoreError>(
    SessionRetention.prune(limit, vacuumAfterPrune),
    Effect.succeed({ removed: 0, kept: 0 })
  )
  yield* line(`Removed ${counted(removed)}${kept === 0 ? "" : `; ${kept} in use ${kept === 1 ? "was" : "were"} kept`}`)
}, provide, Effect.provide(Home.layer))).pipe(
  Command.withDescription("Remove ended sessions older than 90 days, with their run records; sessions.auto_prune does it once a day")
)

export const command = Command.make("sessions", { source, limit, json }, listNewest).pipe(
  Command.withSubcommands([list, show, rename, exportCommand, pruneCommand, ...SessionCare.commands, ...SessionChanges.commands])
)
