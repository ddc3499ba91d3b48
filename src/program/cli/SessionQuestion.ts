/**
 * Asks what `--continue` or `--resume latest` should open in a folder without sessions: a session from another folder,
 * or a new session. A session that would write to another folder is never resumed without asking.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"
import { Environment } from "../../base/config/Environment.ts"
import type { SessionNotFound, SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import { hiddenSources } from "../../store/SessionSearch.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import * as Overview from "./interactive/Overview.ts"
import { printNote } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as SessionChoice from "./SessionChoice.ts"
import * as SessionList from "./SessionList.ts"

/** Maximum number of sessions that are read to build the list. */
const mostRead = 200

/** Maximum number of folders that are listed, each with its newest session. */
const mostListed = 20

/** Reads the newest session of each folder, newest first. */
const readNewest = Effect.map(
  SessionStore.use((store) => store.list({ limit: mostRead })),
  (list) => {
    const byFolder = new Map<string | undefined, Session>()
    for (const session of list.filter(({ source }) => !hiddenSources.includes(source))) {
      if (!byFolder.has(session.cwd)) byFolder.set(session.cwd, session)
    }
    return Array.from(byFolder.values()).slice(0, mostListed)
  }
)

const formatTitle = (listed: SessionList.ListedSession, now: number): string => {
  const { session, topic } = listed
  const folder = session.cwd === undefined ? "no recorded folder" : SafeText.toLine(session.cwd)
  return [
    topic,
    SessionList.formatPlace({ branch: listed.branch, otherFolder: folder }),
    Overview.formatAgo(now - (session.endedAt ?? session.startedAt))
  ].join(" · ")
}

/**
 * Asks if a session of another folder is to be continued there, because its tools write to that folder. Returns a new
 * session of this folder if the user declines. A terminal that cannot show the question shows a note instead.
 */
export const askForOtherFolder = Effect.fnUntraced(function* (chosen: SessionChoice.ChosenSession, fresh: SessionId) {
  const { known } = chosen
  const { process } = yield* Environment
  if (known?.cwd === undefined || process["TERM"] === "dumb") return chosen
  const other = yield* SessionChoice.findOtherFolder(yield* SessionChoice.readFolder, known)
  if (other === undefined) return chosen
  yield* printNote(`Session ${known.id} belongs to another folder: ${other}`)
  const goesThere = yield* Prompt.Select({
    message: "Go on with",
    choices: [
      { title: "a new session in this folder", value: false },
      { title: `this session; its tools work in ${other}`, value: true }
    ]
  }).pipe(Effect.catchTag("QuitError", () => Effect.succeed(false)))
  const newSession: SessionChoice.ChosenSession = { id: fresh, known: undefined }
  return goesThere ? chosen : newSession
})

/**
 * Asks which session to continue if this folder has no sessions. `fresh` is the id of a new session. Cancelling the
 * question fails with the original error.
 */
export const askForSession = Effect.fnUntraced(function* (error: SessionNotFound, fresh: SessionId) {
  const { process } = yield* Environment
  if (error.folder === undefined || process["TERM"] === "dumb") return yield* error
  const sessions = yield* SessionChoice.withStore<ReadonlyArray<SessionList.ListedSession>, SessionStoreError>(
    Effect.flatMap(readNewest, (found) => SessionList.describeSessions(found, undefined)),
    Effect.succeed([]),
    SessionChoice.forReading
  )
  if (sessions.length === 0) return yield* error
  const now = yield* Clock.currentTimeMillis
  yield* printNote(`This folder has no session (${SafeText.toLine(error.folder)}).`)
  const chosen = yield* Prompt.AutoComplete<SessionId | undefined>({
    message: "Go on with",
    // The default choice does not write to another folder.
    choices: [
      { title: "a new session in this folder", value: undefined },
      ...sessions.map((listed) => ({ title: formatTitle(listed, now), value: listed.session.id }))
    ],
    maxPerPage: 8,
    filterPlaceholder: "type to search"
  }).pipe(Effect.catchTag("QuitError", () => Effect.fail(error)))
  const newSession: SessionChoice.ChosenSession = { id: fresh, known: undefined }
  return chosen === undefined ? newSession : yield* SessionChoice.openStored(chosen)
})
