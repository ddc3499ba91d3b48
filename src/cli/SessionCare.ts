/**
 * Subcommands of `hermes sessions` that find, copy, remove and look after sessions: search, fork, delete, import, stats, optimize, repair.
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
import { Home } from "../config/Environment.ts"
import type { SessionStoreError } from "../domain/AgentError.ts"
import { reasonOf } from "../domain/PathProblem.ts"
import * as Redaction from "../domain/Redaction.ts"
import * as SearchQuery from "../session/SearchQuery.ts"
import * as SearchScan from "../session/SearchScan.ts"
import * as SessionFork from "../session/SessionFork.ts"
import * as SessionExport from "../session/SessionExport.ts"
import * as SessionImport from "../session/SessionImport.ts"
import * as SessionMaintenance from "../session/SessionMaintenance.ts"
import { defaultLimit as defaultHits, hiddenSources, type Hit, SessionSearch } from "../session/SessionSearch.ts"
import { layerSqlite, type Session, SessionStore } from "../session/SessionStore.ts"
import * as StoredForm from "../session/StoredForm.ts"
import * as Title from "../session/Title.ts"
import * as Confirm from "./Confirm.ts"
import { failed, notDone, silent, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line, note, table } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { counted } from "./render/UsageText.ts"
import { forReading, opened, stored } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(Argument.withDescription("Session id, id prefix, title, or latest (of this folder)"))
const json = Flags.yes("json", "Print JSON")
const yes = Flags.yes("yes", "Do not ask", "y")

/** A message that fits a search, as it may be shown. */
interface Found {
  readonly session: string
  readonly title: string | null
  readonly position: number
  readonly role: string
  readonly text: string
}

/**
 * Texts of the hits. A key that stands around the words is only seen in the whole message: an excerpt of the store is not shown.
 */
const excerpts = Effect.fnUntraced(function*(query: string, hits: ReadonlyArray<Hit>) {
  const store = yield* SessionStore
  const parsed = SearchQuery.parse(query)
  const titles = new Map<string, string | undefined>()
  const found: Array<Found> = []
  for (const { messageId, role, sessionId } of hits) {
    if (!titles.has(sessionId)) titles.set(sessionId, Option.getOrUndefined(yield* store.get(sessionId))?.title)
    const title = titles.get(sessionId)
    // A message that cannot be read has no excerpt; the hit is still told.
    const [message] = yield* Effect.orElseSucceed(store.messages(sessionId, { from: messageId, to: messageId + 1 }), (): ReadonlyArray<Prompt.Message> => [])
    const { content, toolCalls, toolNames } = message === undefined ? { content: "", toolCalls: "", toolNames: "" } : StoredForm.searchText(message)
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

/** Finds messages. */
const search = Command.make("search", {
  words: Argument.String("words").pipe(
    Argument.withDescription("Words that must all be there; \"a phrase\", word*, OR and NOT are understood"),
    Argument.atLeast(1)
  ),
  session: Flags.text("session-id", "SESSION", "Only this session"),
  role: Flags.last(Flag.Literals("role", ["user", "assistant", "tool"]), "Only messages of this role"),
  sort: Flags.last(Flag.Literals("sort", ["best", "newest", "oldest"]), "Order of the messages; default: the best first"),
  limit: Flags.last(Flag.Int("limit").pipe(Flag.withMetavar("N")), `Maximum number of messages; default: ${defaultHits}`),
  json
}, Effect.fn("hermes sessions search")(function*({ json, limit = defaultHits, role, session, sort, words }) {
  if (limit < 1) return yield* usage("--limit is a number of messages, 1 or more")
  // Words of a quoted argument stay together only where the user quoted them in the query.
  const query = words.join(" ")
  const find = (only: Session | undefined) =>
    SessionSearch.use(({ search }) =>
      Effect.flatMap(
        search(query, {
          limit,
          ...(only === undefined ? {} : { sessionId: only.id }),
          ...(role === undefined ? {} : { roles: [role] }),
          ...(sort === undefined || sort === "best" ? {} : { sort })
        }),
        (hits) => excerpts(query, hits)
      ))
  const found = session === undefined
    ? yield* stored<ReadonlyArray<Found>, SessionStoreError>(find(undefined), Effect.succeed([]), forReading)
    : yield* opened(session, find, forReading)
  if (json) return yield* line(SafeText.json(found, 2))
  if (found.length === 0) return yield* line("No message fits. Fewer words find more; word* finds words that begin so.")
  yield* line(found.map(({ position, role, session, text, title }) =>
    `${session}${title === null ? "" : `  ${SafeText.line(title)}`}\n  ${position} ${role}: ${SafeText.line(text)}`).join("\n"))
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Search the messages of all sessions, the best first"))

const forked = Effect.fnUntraced(function*(source: Session, step: number | undefined, title: string | undefined) {
  const store = yield* SessionStore
  const originals = yield* store.messages(source.id)
  const history = SessionFork.upTo(originals, step)
  if (history === undefined) return undefined
  const fork = yield* SessionFork.fork(source, {
    history,
    originals,
    position: history.length,
    changed: [],
    // A conversation of its own is found and listed, also when it was a sub-agent's.
    source: hiddenSources.includes(source.source) ? "cli" : source.source,
    title
  })
  return { id: fork.id, messages: history.length, source: source.id }
})

/** Copies a session. */
const fork = Command.make("fork", {
  session,
  step: Flags.last(Flag.Int("step").pipe(Flag.withMetavar("N")), "Only the messages up to the end of the Nth answer with its tool results; default: all"),
  title: Flags.text("title", "NAME", "Title of the new session")
}, Effect.fn("hermes sessions fork")(function*({ session, step, title }) {
  if (step !== undefined && step < 1) return yield* usage("--step is the number of an answer, 1 or more")
  const name = title === undefined ? undefined : yield* Title.clean("fork", title)
  const made = yield* opened(session, (source) => forked(source, step, name))
  if (made === undefined) return yield* usage(`--step ${step} is too large: the session has fewer answers; \`hermes sessions show\` prints them`)
  yield* line(`${made.id} has ${counted(made.messages, "message")} of ${made.source}. Continue it with: hermes --resume ${made.id}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Copy a session, up to a step, as a new one; the original stays"))

const named = ({ id, messageCount, title }: Session): string =>
  `${id}${title === undefined ? "" : ` "${Redaction.redactText(title)}"`} (${counted(messageCount, "message")})`

/** Removes one session. */
const remove = Command.make("delete", { session, yes }, Effect.fn("hermes sessions delete")(function*({ session, yes }) {
  const found = yield* opened(session, Effect.succeed)
  if (
    !yes && !(yield* Confirm.required(
      `Delete ${named(found)} with its sub-agents and run records?`,
      `Not a terminal. Pass --yes to delete session ${found.id}.`
    ))
  ) return yield* line("Nothing was deleted")
  const count = yield* opened(found.id, ({ id }) => SessionMaintenance.SessionMaintenance.use(({ remove }) => remove(id)))
  yield* line(`Deleted ${named(found)}${count > 1 ? ` and ${counted(count - 1, "session")} of its sub-agents` : ""}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Delete a session with its sub-agents and run records; not while it is in use"))

/** Adds exported sessions. */
const importCommand = Command.make("import", {
  file: Argument.String("file").pipe(Argument.withDescription("File of `hermes sessions export`: one session per line, or a .tar.gz of such files")),
  newIds: Flags.yes("new-ids", "Give sessions whose id exists a new one; default: leave them out")
}, Effect.fn("hermes sessions import")(function*({ file, newIds }) {
  const fs = yield* FileSystem.FileSystem
  const { database } = yield* Home
  const unreadable = (reason: string) => usage(`cannot read ${file}: ${reason}`)
  const bytes = yield* Effect.mapError(fs.readFile(file), (error) => unreadable(reasonOf(error)))
  const text = SessionExport.isArchive(file)
    ? yield* Effect.mapError(Effect.fromResult(SessionExport.readArchive(bytes)), unreadable)
    : new TextDecoder().decode(bytes)
  const { added, notes, refused } = yield* Effect.provide(SessionImport.add(text, { newIds }), layerSqlite({ path: database }))
  for (const told of notes) yield* note(Redaction.redactText(SafeText.line(told)))
  yield* line(`Added ${counted(added.length, "session")}${refused === 0 ? "" : `; ${counted(refused, "line")} left out`}`)
  if (refused > 0) return yield* silent(failed)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Add sessions from a JSON Lines export"))

const bytes = (count: number): string => {
  if (count < 1024) return `${count} B`
  return count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`
}

const nothing: SessionMaintenance.Stats = {
  sessions: 0, continuations: 0, messages: 0, toolCalls: 0, recordEntries: 0, sources: [], oldestAt: undefined, newestAt: undefined,
  fileBytes: 0, freeBytes: 0, messageBytes: 0, recordBytes: 0, promptBytes: 0
}

const day = (at: number | undefined): string => at === undefined ? "none" : new Date(at).toISOString().slice(0, 10)

const share = (part: number, whole: number): string => whole === 0 ? "0%" : `${Math.round(part / whole * 100)}%`

/** Prints counts and sizes. */
const stats = Command.make("stats", { json }, Effect.fn("hermes sessions stats")(function*({ json }) {
  const found = yield* stored<SessionMaintenance.Stats, SessionStoreError>(
    SessionMaintenance.SessionMaintenance.use(({ stats }) => stats),
    Effect.succeed(nothing),
    forReading
  )
  if (json) {
    return yield* line(SafeText.json({
      sessions: found.sessions,
      continuations: found.continuations,
      messages: found.messages,
      tool_calls: found.toolCalls,
      record_entries: found.recordEntries,
      sources: found.sources.map(({ messages, sessions, source, toolCalls }) => ({ source, sessions, messages, tool_calls: toolCalls })),
      oldest_at: found.oldestAt ?? null,
      newest_at: found.newestAt ?? null,
      bytes: { file: found.fileBytes, free: found.freeBytes, messages: found.messageBytes, run_record: found.recordBytes, system_prompts: found.promptBytes }
    }, 2))
  }
  yield* line([
    table([
      ["Sessions", `${found.sessions}`, `${day(found.oldestAt)} to ${day(found.newestAt)}`],
      ...(found.continuations === 0 ? [] : [["Continued", `${found.continuations}`, "sessions go on from a compacted one"]]),
      ["Messages", `${found.messages}`, bytes(found.messageBytes)],
      ["Tool calls", `${found.toolCalls}`, ""],
      ["Run record", `${found.recordEntries}`, bytes(found.recordBytes)],
      ["System prompts", "", bytes(found.promptBytes)],
      ["File", "", `${bytes(found.fileBytes)}, ${share(found.freeBytes, found.fileBytes)} free`]
    ]),
    ...(found.sources.length === 0 ? [] : ["", table(found.sources.map(({ messages, sessions, source }) =>
      [SafeText.line(source), counted(sessions, "session"), counted(messages, "message")]))])
  ].join("\n"))
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Show how many sessions there are, and their sizes"))

/** Gives free space back. */
const optimize = Command.make("optimize", {}, Effect.fn("hermes sessions optimize")(function*() {
  const { after, before } = yield* stored<SessionMaintenance.Optimized, SessionStoreError>(
    SessionMaintenance.SessionMaintenance.use(({ optimize }) => optimize),
    Effect.succeed({ before: 0, after: 0 })
  )
  yield* line(`The database has ${bytes(after)}${after < before ? `; ${bytes(before - after)} were given back` : ""}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Give free space back and tidy the search index"))

/** Checks and repairs the database. */
const repair = Command.make("repair", {
  check: Flags.yes("check", "Only say what is damaged; exit code 1 if something is")
}, Effect.fn("hermes sessions repair")(function*({ check }) {
  const { database } = yield* Home
  const fs = yield* FileSystem.FileSystem
  if (!(yield* Effect.orElseSucceed(fs.exists(database), () => true))) return yield* line("There are no sessions yet")
  const { done, keptAt, problems } = yield* SessionMaintenance.repair(database, { checkOnly: check })
  if (problems.length === 0) return yield* line("The database is sound")
  for (const problem of problems) yield* line(`Found: ${SafeText.line(problem)}`)
  if (check) return yield* notDone("the database is damaged: run `hermes sessions repair`")
  for (const one of done) yield* line(`Repaired: ${SafeText.line(one)}`)
  if (keptAt !== undefined) yield* line(`The damaged file is kept as ${keptAt}`)
}, Effect.provide(Home.layer))).pipe(Command.withDescription("Check the database, rebuild its search index, and rescue what is readable of a damaged one"))

export const commands = [search, fork, remove, importCommand, stats, optimize, repair] as const
