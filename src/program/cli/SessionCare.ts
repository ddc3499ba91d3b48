/**
 * Subcommands of `hermes sessions` that find, copy, remove and maintain sessions: search, fork, delete, import, stats,
 * optimize, repair.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../../base/config/Environment.ts"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as SearchQuery from "../../store/SearchQuery.ts"
import * as SearchScan from "../../store/SearchScan.ts"
import * as SessionFork from "../../store/SessionFork.ts"
import * as SessionExport from "../../store/SessionExport.ts"
import * as SessionImport from "../../store/SessionImport.ts"
import * as SessionMaintenance from "../../store/SessionMaintenance.ts"
import { defaultLimit as defaultHits, hiddenSources, type Hit, SessionSearch } from "../../store/SessionSearch.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import * as MessageText from "../../store/MessageText.ts"
import * as Title from "../../store/Title.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as Confirm from "./Confirm.ts"
import { failed, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, printNote, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { formatQuantity } from "./render/UsageText.ts"
import { forReading, withStoredSession, withStore } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest (of this folder)")
)
const json = Flags.makeSwitch("json", "Print JSON")
const yes = Flags.makeSwitch("yes", "Do not ask", "y")

/** A message that matches a search, in a form that may be shown. */
interface FoundMessage {
  readonly session: string
  readonly title: string | null
  readonly position: number
  readonly role: string
  readonly text: string
}

/**
 * Creates the excerpts of the hits. The store's own excerpts are not shown, because an API key around the matched words
 * is recognized only in the whole message.
 */
const makeExcerpts = Effect.fnUntraced(function* (query: string, hits: ReadonlyArray<Hit>) {
  const store = yield* SessionStore
  const parsed = SearchQuery.parse(query)
  const titles = new Map<string, string | undefined>()
  const found: Array<FoundMessage> = []
  for (const { messageId, role, sessionId } of hits) {
    if (!titles.has(sessionId)) titles.set(sessionId, Option.getOrUndefined(yield* store.get(sessionId))?.title)
    const title = titles.get(sessionId)
    // A message that cannot be read has no excerpt; the hit is still reported.
    const [message] = yield* Effect.orElseSucceed(
      store.messages(sessionId, { from: messageId, to: messageId + 1 }),
      (): ReadonlyArray<Prompt.Message> => []
    )
    const { content, toolCalls, toolNames } =
      message === undefined ? { content: "", toolCalls: "", toolNames: "" } : MessageText.extractSearchText(message)
    const text = { content: Redaction.redactText(content), toolNames, toolCalls: Redaction.redactText(toolCalls) }
    const [first = ""] = text.content.split("\n")
    const excerpt = SearchScan.find(parsed, text) ?? Array.from(first).slice(0, 200).join("")
    found.push({
      session: sessionId,
      title: title === undefined ? null : Redaction.redactText(title),
      position: messageId,
      role,
      text: excerpt.replace(/\s+/gu, " ").trim()
    })
  }
  return found
})

/** Searches messages. */
const search = Command.make(
  "search",
  {
    words: Argument.String("words").pipe(
      Argument.withDescription('Words that must all be there; "a phrase", word*, OR and NOT are understood'),
      Argument.atLeast(1)
    ),
    session: Flags.makeText("session-id", "SESSION", "Only this session"),
    role: Flags.takeLast(Flag.Literals("role", ["user", "assistant", "tool"]), "Only messages of this role"),
    sort: Flags.takeLast(
      Flag.Literals("sort", ["best", "newest", "oldest"]),
      "Order of the messages; default: best matches first"
    ),
    limit: Flags.takeLast(
      Flag.Int("limit").pipe(Flag.withMetavar("N")),
      `Maximum number of messages; default: ${defaultHits}`
    ),
    json
  },
  Effect.fn("hermes sessions search")(function* ({ json, limit = defaultHits, role, session, sort, words }) {
    if (limit < 1) return yield* makeUsageFailure("--limit must be 1 or more")
    // Words of a quoted argument are a phrase only if the query itself contains quotes.
    const query = words.join(" ")
    const searchMessages = (only: Session | undefined) =>
      SessionSearch.use(({ search }) =>
        Effect.flatMap(
          search(query, {
            limit,
            ...(only === undefined ? {} : { sessionId: only.id }),
            ...(role === undefined ? {} : { roles: [role] }),
            ...(sort === undefined || sort === "best" ? {} : { sort })
          }),
          (hits) => makeExcerpts(query, hits)
        )
      )
    const found =
      session === undefined
        ? yield* withStore<ReadonlyArray<FoundMessage>, SessionStoreError>(
            searchMessages(undefined),
            Effect.succeed([]),
            forReading
          )
        : yield* withStoredSession(session, searchMessages, forReading)
    if (json) return yield* printLine(SafeText.toJson(found, 2))
    if (found.length === 0)
      return yield* printLine("No message matches. Use fewer words, or word* for words with that beginning.")
    yield* printLine(
      found
        .map(
          ({ position, role, session, text, title }) =>
            `${session}${title === null ? "" : `  ${SafeText.toLine(title)}`}\n  ${position} ${role}: ` +
            `${SafeText.toLine(text)}`
        )
        .join("\n")
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Search the messages of all sessions, best matches first"))

const forkSession = Effect.fnUntraced(function* (source: Session, step: number | undefined, title: string | undefined) {
  const store = yield* SessionStore
  const originals = yield* store.messages(source.id)
  const history = SessionFork.sliceToStep(originals, step)
  if (history === undefined) return undefined
  const fork = yield* SessionFork.fork(source, {
    history,
    originals,
    position: history.length,
    changed: [],
    // The copy is an independent conversation, so it is found and listed even if the original belongs to a sub-agent.
    source: hiddenSources.includes(source.source) ? "cli" : source.source,
    title
  })
  return { id: fork.id, messages: history.length, source: source.id }
})

/** Copies a session. */
const fork = Command.make(
  "fork",
  {
    session,
    step: Flags.takeLast(
      Flag.Int("step").pipe(Flag.withMetavar("N")),
      "Only the messages up to the end of the Nth answer with its tool results; default: all"
    ),
    title: Flags.makeText("title", "NAME", "Title of the new session")
  },
  Effect.fn("hermes sessions fork")(function* ({ session, step, title }) {
    if (step !== undefined && step < 1)
      return yield* makeUsageFailure("--step must be the number of an answer, 1 or more")
    const name = title === undefined ? undefined : yield* Title.clean("fork", title)
    const made = yield* withStoredSession(session, (source) => forkSession(source, step, name))
    if (made === undefined)
      return yield* makeUsageFailure(
        `--step ${step} is too large: the session has fewer answers; \`hermes sessions show\` prints them`
      )
    yield* printLine(
      `${made.id} has ${formatQuantity(made.messages, "message")} of ${made.source}. Continue it with: ` +
        `hermes --resume ${made.id}`
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Copy a session, up to a step, into a new one; the original is kept"))

const describeSession = ({ id, messageCount, title }: Session): string =>
  `${id}${title === undefined ? "" : ` "${Redaction.redactText(title)}"`} (${formatQuantity(messageCount, "message")})`

/** Deletes a session. */
const remove = Command.make(
  "delete",
  { session, yes },
  Effect.fn("hermes sessions delete")(function* ({ session, yes }) {
    const found = yield* withStoredSession(session, Effect.succeed)
    if (
      !yes &&
      !(yield* Confirm.requireConfirmation(
        `Delete ${describeSession(found)} with its sub-agents and run records?`,
        `Not a terminal. Pass --yes to delete session ${found.id}.`
      ))
    )
      return yield* printLine("Nothing was deleted")
    const count = yield* withStoredSession(found.id, ({ id }) =>
      SessionMaintenance.SessionMaintenance.use(({ remove }) => remove(id))
    )
    yield* printLine(
      `Deleted ${describeSession(found)}${count > 1 ? ` and ${formatQuantity(count - 1, "session")} of its sub-agents` : ""}`
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Delete an unused session with its sub-agents and run records"))

/** Imports exported sessions. */
const importCommand = Command.make(
  "import",
  {
    file: Argument.String("file").pipe(
      Argument.withDescription("File from `hermes sessions export`: one session per line, or a .tar.gz of such files")
    ),
    newIds: Flags.makeSwitch("new-ids", "Import sessions with existing ids under new ids; default: skip them")
  },
  Effect.fn("hermes sessions import")(function* ({ file, newIds }) {
    const fs = yield* FileSystem.FileSystem
    const makeReadFailure = (reason: string) => makeUsageFailure(`cannot read ${file}: ${reason}`)
    const bytes = yield* Effect.mapError(fs.readFile(file), (error) => makeReadFailure(describeReason(error)))
    const text = SessionExport.isArchive(file)
      ? yield* Effect.mapError(Effect.fromResult(SessionExport.readArchive(bytes)), makeReadFailure)
      : new TextDecoder().decode(bytes)
    const { added, notes, refused } = yield* Effect.provide(
      SessionImport.addSessions(text, { newIds }),
      StoredSessions.layerConfigured
    )
    for (const told of notes) yield* printNote(Redaction.redactText(SafeText.toLine(told)))
    yield* printLine(
      `Added ${formatQuantity(added.length, "session")}${refused === 0 ? "" : `; ${formatQuantity(refused, "line")} left out`}`
    )
    if (refused > 0) return yield* makeSilentFailure(failed)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Add sessions from a JSON Lines export"))

const formatBytes = (count: number): string => {
  if (count < 1024) return `${count} B`
  return count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`
}

const nothing: SessionMaintenance.Stats = {
  sessions: 0,
  continuations: 0,
  messages: 0,
  toolCalls: 0,
  recordEntries: 0,
  sources: [],
  oldestAt: undefined,
  newestAt: undefined,
  fileBytes: 0,
  freeBytes: 0,
  messageBytes: 0,
  recordBytes: 0,
  promptBytes: 0
}

const formatDay = (at: number | undefined): string =>
  at === undefined ? "none" : new Date(at).toISOString().slice(0, 10)

const formatShare = (part: number, whole: number): string =>
  whole === 0 ? "0%" : `${Math.round((part / whole) * 100)}%`

/** Prints the number and the sizes of sessions. */
const stats = Command.make(
  "stats",
  { json },
  Effect.fn("hermes sessions stats")(function* ({ json }) {
    const found = yield* withStore<SessionMaintenance.Stats, SessionStoreError>(
      SessionMaintenance.SessionMaintenance.use(({ stats }) => stats),
      Effect.succeed(nothing),
      forReading
    )
    if (json) {
      return yield* printLine(
        SafeText.toJson(
          {
            sessions: found.sessions,
            continuations: found.continuations,
            messages: found.messages,
            tool_calls: found.toolCalls,
            record_entries: found.recordEntries,
            sources: found.sources.map(({ messages, sessions, source, toolCalls }) => ({
              source,
              sessions,
              messages,
              tool_calls: toolCalls
            })),
            oldest_at: found.oldestAt ?? null,
            newest_at: found.newestAt ?? null,
            bytes: {
              file: found.fileBytes,
              free: found.freeBytes,
              messages: found.messageBytes,
              run_record: found.recordBytes,
              system_prompts: found.promptBytes
            }
          },
          2
        )
      )
    }
    yield* printLine(
      [
        renderTable([
          ["Sessions", `${found.sessions}`, `${formatDay(found.oldestAt)} to ${formatDay(found.newestAt)}`],
          ...(found.continuations === 0
            ? []
            : [["Continued", `${found.continuations}`, "sessions go on from a compacted one"]]),
          ["Messages", `${found.messages}`, formatBytes(found.messageBytes)],
          ["Tool calls", `${found.toolCalls}`, ""],
          ["Run record", `${found.recordEntries}`, formatBytes(found.recordBytes)],
          ["System prompts", "", formatBytes(found.promptBytes)],
          ["File", "", `${formatBytes(found.fileBytes)}, ${formatShare(found.freeBytes, found.fileBytes)} free`]
        ]),
        ...(found.sources.length === 0
          ? []
          : [
              "",
              renderTable(
                found.sources.map(({ messages, sessions, source }) => [
                  SafeText.toLine(source),
                  formatQuantity(sessions, "session"),
                  formatQuantity(messages, "message")
                ])
              )
            ])
      ].join("\n")
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Show the number and sizes of sessions"))

/** Releases free space of the database. */
const optimize = Command.make(
  "optimize",
  {},
  Effect.fn("hermes sessions optimize")(function* () {
    const { after, before } = yield* withStore<SessionMaintenance.OptimizeResult, SessionStoreError>(
      SessionMaintenance.SessionMaintenance.use(({ optimize }) => optimize),
      Effect.succeed({ before: 0, after: 0 })
    )
    yield* printLine(
      `The database has ${formatBytes(after)}${after < before ? `; ${formatBytes(before - after)} were given back` : ""}`
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Release free space and optimise the search index"))

/** Checks and repairs the database. */
const repair = Command.make(
  "repair",
  { check: Flags.makeSwitch("check", "Only report damage; exit code 1 if there is any") },
  Effect.fn("hermes sessions repair")(function* ({ check }) {
    const { url } = yield* StoredSessions.findConfigured()
    if (url !== undefined)
      return yield* makeUsageFailure(
        "the sessions are in the database of store.url, which its server checks: this command repairs a file"
      )
    const { database } = yield* Home
    const fs = yield* FileSystem.FileSystem
    if (!(yield* Effect.orElseSucceed(fs.exists(database), () => true)))
      return yield* printLine("There are no sessions yet")
    const { done, keptAt, problems } = yield* SessionMaintenance.repair(database, { checkOnly: check })
    if (problems.length === 0) return yield* printLine("The database is sound")
    for (const problem of problems) yield* printLine(`Found: ${SafeText.toLine(problem)}`)
    if (check) return yield* makeWorkFailure("the database is damaged: run `hermes sessions repair`")
    for (const one of done) yield* printLine(`Repaired: ${SafeText.toLine(one)}`)
    if (keptAt !== undefined) yield* printLine(`The damaged file is kept as ${keptAt}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Check the database, rebuild its search index, and recover a damaged one"))

/** Subcommands of `hermes sessions` that search and maintain the store. */
export const commands = [search, fork, remove, importCommand, stats, optimize, repair] as const
