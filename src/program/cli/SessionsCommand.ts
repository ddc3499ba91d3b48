/**
 * `hermes sessions`: manages the stored conversations.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Usage from "../../base/domain/Usage.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import * as SessionExport from "../../store/SessionExport.ts"
import { hiddenSources } from "../../store/SessionSearch.ts"
import * as SessionRetention from "../../store/SessionRetention.ts"
import { defaultLimit, type Session, SessionStore } from "../../store/SessionStore.ts"
import * as Title from "../../store/Title.ts"
import { provide } from "./CommandSettings.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { printDocument, printLine, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as SessionDocument from "./render/SessionDocument.ts"
import * as ToolText from "./render/ToolText.ts"
import * as Width from "./render/Width.ts"
import * as Confirm from "./Confirm.ts"
import * as SessionAnswers from "./SessionAnswers.ts"
import * as SessionChanges from "./SessionChanges.ts"
import * as SessionCare from "./SessionCare.ts"
import * as SessionList from "./SessionList.ts"
import { forReading, withStoredSession, readFolder, withStore } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest (of this folder)")
)
const source = Flags.makeText("source", "TAG", "Only sessions with this label: cli, oneshot, batch, workflow, …")
const json = Flags.makeSwitch("json", "Print JSON")
const makeLimitFlag = (otherwise: string) =>
  Flags.takeLast(Flag.Int("limit").pipe(Flag.withMetavar("N")), `Maximum number of sessions; default: ${otherwise}`)
const limit = makeLimitFlag("20")

interface Filter {
  readonly source: string | undefined
  readonly limit: number | undefined
}

/** Formats a time in the machine's time zone: `2026-11-22 00:16`. */
const formatTime = (millis: number): string => {
  const parts = DateTime.toParts(DateTime.makeZonedUnsafe(millis, { timeZone: DateTime.zoneMakeLocal() }))
  const padNumber = (n: number): string => String(n).padStart(2, "0")
  return (
    `${parts.year}-${padNumber(parts.month)}-${padNumber(parts.day)} ` +
    `${padNumber(parts.hour)}:${padNumber(parts.minute)}`
  )
}

const checkFilter = ({ limit, source }: Filter): Effect.Effect<Filter, Failure> =>
  limit !== undefined && limit < 1
    ? Effect.fail(makeUsageFailure("--limit must be 1 or more"))
    : Effect.succeed({ limit, source })

/**
 * Returns the newest sessions. Sessions without a user (sub-agents, workflows, tools) are included only if their source
 * is requested.
 */
const findSessions = Effect.fnUntraced(function* (filter: Filter, otherwise: number) {
  const { limit = otherwise, source } = filter
  const store = yield* SessionStore
  if (source !== undefined) return yield* store.list({ source, limit })
  const all = yield* store.list({ limit: Number.MAX_SAFE_INTEGER })
  return all.filter(({ source }) => !hiddenSources.includes(source)).slice(0, limit)
})

const findNewest = (filter: Filter) =>
  withStore<ReadonlyArray<Session>, SessionStoreError>(
    findSessions(filter, defaultLimit),
    Effect.succeed([]),
    forReading
  )

/** Returns a row of a list. The last column is the folder and branch. */
const toRow = ({ session, ...listed }: SessionList.ListedSession): ReadonlyArray<string> => [
  session.id,
  formatTime(session.startedAt),
  session.source,
  session.model,
  `${session.messageCount} messages`,
  listed.topic,
  SessionList.formatPlace(listed)
]

/** Describes stored sessions for a table. */
const describeFound = (sessions: ReadonlyArray<Session>) =>
  Effect.flatMap(readFolder, (folder) =>
    withStore<ReadonlyArray<SessionList.ListedSession>, SessionStoreError>(
      SessionList.describeSessions(sessions, folder),
      Effect.succeed([]),
      forReading
    )
  )

/** Prints the newest sessions. */
const listNewest = Effect.fn("hermes sessions list")(function* ({
  json,
  ...flags
}: Filter & { readonly json: boolean }) {
  const filter = yield* checkFilter(flags)
  if (json) return yield* printLine(SafeText.toJson((yield* findNewest(filter)).map(SessionExport.toSummary), 2))
  const folder = yield* readFolder
  const sessions = yield* withStore<ReadonlyArray<SessionList.ListedSession>, SessionStoreError>(
    Effect.flatMap(findSessions(filter, defaultLimit), (found) => SessionList.describeSessions(found, folder)),
    Effect.succeed([]),
    forReading
  )
  if (sessions.length === 0)
    return yield* printLine(
      filter.source === undefined
        ? "There are no sessions yet"
        : `No session has the label ${SafeText.toLine(filter.source)}`
    )
  yield* printLine(renderTable(sessions.map(toRow)))
}, Effect.provide(Home.layer))

const list = Command.make("list", { source, limit, json }, listNewest).pipe(
  Command.withDescription("List the newest sessions")
)

/** Maximum number of columns shown of a tool's arguments or result. */
const previewColumns = 120

const renderPart = (part: Prompt.Part): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`}]`
    case "tool-call":
      return `┊ ${part.name} ${Width.cut(ToolText.summariseParams(part.params), previewColumns)}`.trimEnd()
    case "tool-result":
      return `┊ ${part.name}${part.isFailure ? " failed" : ""}: ${Width.cut(
        ToolText.toLines(Json.toText(part.result), 1).lines.join(""),
        previewColumns
      )}`
    default:
      return ""
  }
}

const speakers: Readonly<Record<Prompt.Message["role"], string>> = {
  system: "System",
  user: "You",
  assistant: "Agent",
  tool: ""
}

const renderMessage = (message: Prompt.Message): ReadonlyArray<string> => {
  const body =
    typeof message.content === "string" ? message.content : message.content.map(renderPart).filter(Boolean).join("\n")
  if (body.trim() === "") return []
  const speaker = speakers[message.role]
  return [speaker === "" ? body : `${speaker}: ${body}`]
}

/** Prints one session. */
const show = Command.make(
  "show",
  { session },
  Effect.fn("hermes sessions show")(function* ({ session }) {
    const text = yield* withStoredSession(
      session,
      (found) =>
        Effect.map(SessionExport.readMessages(found.id), (messages) =>
          [
            [
              `${found.id}${found.title === undefined ? "" : `  ${found.title}`}`,
              `${formatTime(found.startedAt)}, ${found.model} (${found.provider}), ${found.source}, ${
                found.endReason ?? "not ended"
              }, ${Usage.countTotalTokens(found.usage)} tokens`
            ].join("\n"),
            ...messages.flatMap(renderMessage)
          ].join("\n\n")
        ),
      forReading
    )
    yield* printLine(Redaction.redactText(text))
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Show the messages of a session"))

/** Sets the title of a session. */
const rename = Command.make(
  "rename",
  {
    session,
    title: Argument.String("title").pipe(Argument.withDescription("New title; up to 100 characters, unique"))
  },
  Effect.fn("hermes sessions rename")(function* ({ session, title }) {
    const id = yield* withStoredSession(session, ({ id }) =>
      Effect.as(
        SessionStore.use((store) => store.rename(id, title)),
        id
      )
    )
    yield* printLine(`${id} is now called ${Title.normalise(title)}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Set the title of a session"))

type Format = "jsonl" | "md" | "html"

interface ExportedSessions {
  readonly count: number
  readonly content: string | Uint8Array
}

/** Renders sessions as one document in a format. */
const renderDocument = Effect.fnUntraced(function* (format: Format, sessions: ReadonlyArray<Session>) {
  if (format === "jsonl")
    return (yield* Effect.forEach(sessions, SessionExport.readWithRecord))
      .map((whole) => `${SafeText.toJson(whole)}\n`)
      .join("")
  const all = yield* Effect.forEach(sessions, (session) =>
    Effect.map(SessionExport.readMessages(session.id), (messages) => ({ session, messages }))
  )
  return format === "md" ? SessionDocument.renderMarkdown(all) : SessionDocument.renderHtml(all)
})

/** Creates an archive with a document for each session. */
const makeArchive = (format: Format, sessions: ReadonlyArray<Session>) =>
  Stream.mkUint8Array(
    SessionExport.writeArchive(
      Stream.mapEffect(Stream.fromIterable(sessions), (session) =>
        Effect.map(renderDocument(format, [session]), (content) => ({
          name: `${Ids.toFileName(session.id)}.${format}`,
          content,
          changedAt: session.startedAt
        }))
      )
    )
  )

/** Writes sessions in one of the formats. */
const exportCommand = Command.make(
  "export",
  {
    session: Argument.optional(session),
    sessionId: Flags.makeText("session-id", "SESSION", "The same as the argument"),
    source,
    limit: makeLimitFlag("all"),
    format: Flags.takeLast(
      Flag.Literals("format", ["jsonl", "md", "html"]),
      "jsonl: one line of JSON per session, which `import` reads (default); md: Markdown; html: one page"
    ),
    output: Flags.makeText(
      "output",
      "PATH",
      "Output file; default: stdout; one that ends in .tar.gz has a file per session",
      "o"
    )
  },
  Effect.fn("hermes sessions export")(function* ({ format = "jsonl", output, session: named, sessionId, ...flags }) {
    const session = Option.getOrElse(named, () => sessionId)
    const filter = yield* checkFilter(flags)
    const isArchive = output !== undefined && SessionExport.isArchive(output)
    const exportSessions = Effect.fnUntraced(function* (
      sessions: ReadonlyArray<Session>
    ): Effect.fn.Return<ExportedSessions, SessionStoreError, RunRecord | SessionStore> {
      return {
        count: sessions.length,
        content: yield* isArchive ? makeArchive(format, sessions) : renderDocument(format, sessions)
      }
    })
    const { content, count } =
      session === undefined
        ? yield* withStore<ExportedSessions, SessionStoreError>(
            Effect.flatMap(findSessions(filter, Number.MAX_SAFE_INTEGER), exportSessions),
            Effect.succeed({ count: 0, content: "" }),
            forReading
          )
        : yield* withStoredSession(session, (one) => exportSessions([one]), forReading)
    if (output === undefined) return yield* printDocument(String(content))
    yield* OutputFile.write(output, content)
    yield* printLine(`${count === 1 ? "1 session is" : `${count} sessions are`} in ${output}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Export sessions with all messages, secrets redacted"))

const formatCount = (count: number): string => (count === 1 ? "1 session" : `${count} sessions`)

/** Deletes old sessions. */
const pruneCommand = Command.make(
  "prune",
  {
    olderThan: Flags.takeLast(
      Flag.Finite("older-than").pipe(Flag.withMetavar("DAYS")),
      "Days since the last activity; default: sessions.retention_days (90)"
    ),
    source,
    dryRun: Flags.makeSwitch("dry-run", "List the sessions without removing them"),
    yes: Flags.makeSwitch("yes", "Do not ask", "y")
  },
  Effect.fn("hermes sessions prune")(
    function* ({ dryRun, olderThan, source, yes }) {
      const {
        sessions: { retentionDays, vacuumAfterPrune }
      } = yield* Settings
      const days = olderThan ?? retentionDays
      if (days < 0) return yield* makeUsageFailure("--older-than must be a number of days, 0 or more")
      const limit = { before: yield* SessionRetention.computeCutoff(days), source }
      const found = yield* withStore<ReadonlyArray<Session>, SessionStoreError>(
        SessionRetention.SessionRetention.use(({ expired }) => expired(limit)),
        Effect.succeed([])
      )
      if (found.length === 0) return yield* printLine(`No ended session is older than ${days} days`)
      if (dryRun)
        return yield* printLine(
          `${renderTable((yield* describeFound(found)).map(toRow))}\n\n${formatCount(found.length)} would be removed`
        )
      if (
        !yes &&
        !(yield* Confirm.requireConfirmation(
          `Remove ${formatCount(found.length)} older than ${days} days, with their run records?`,
          "Not a terminal. Pass --yes to remove these sessions, or --dry-run to list them."
        ))
      ) {
        return yield* printLine("Nothing was removed")
      }
      const { kept, removed } = yield* withStore<SessionRetention.PruneResult, SessionStoreError>(
        SessionRetention.prune(limit, vacuumAfterPrune),
        Effect.succeed({ removed: 0, kept: 0 })
      )
      yield* printLine(
        `Removed ${formatCount(removed)}${kept === 0 ? "" : `; ${kept} in use ${kept === 1 ? "was" : "were"} kept`}`
      )
    },
    provide,
    Effect.provide(Home.layer)
  )
).pipe(
  Command.withDescription(
    "Remove ended sessions older than 90 days, with their run records; sessions.auto_prune does it once a day"
  )
)

/** The command `hermes sessions`. */
export const command = Command.make("sessions", { source, limit, json }, listNewest).pipe(
  Command.withSubcommands([
    list,
    show,
    rename,
    exportCommand,
    pruneCommand,
    ...SessionAnswers.commands,
    ...SessionCare.commands,
    ...SessionChanges.commands
  ])
)
