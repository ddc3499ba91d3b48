/**
 * Selects the session for a prompt: a new session, or the session selected by `--resume` or `--continue`. `latest` is
 * the newest session of the folder in which the program was started. A session from another folder is selected by its
 * id, and a note names its folder.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import { Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionActivity } from "../../store/SessionActivity.ts"
import type { SessionInbox } from "../../store/SessionInbox.ts"
import type { SessionMaintenance } from "../../store/SessionMaintenance.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import type { SessionRetention } from "../../store/SessionRetention.ts"
import { SessionNotFound, type SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as Ids from "../../base/domain/Ids.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import type * as Flags from "./Flags.ts"
import { printNote, type Output } from "./ProgramOutput.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as SafeText from "./render/SafeText.ts"

/** Session in which a command works. */
export interface ChosenSession {
  readonly id: Ids.SessionId
  /** Stored session; `undefined` for a new session. */
  readonly known: SessionStore.Session | undefined
}

/** Services of the session store. */
type StoreServices =
  | RunRecord
  | SessionActivity
  | SessionInbox
  | SessionMaintenance
  | SessionRetention
  | SessionSearch
  | SessionStore.SessionStore

/** Value of the last argument of {@link withStore} and {@link withStoredSession} if the work only reads. */
export const forReading = true

/**
 * Runs `work` with the session store that the settings select, or `otherwise` if its file does not exist yet. The file
 * is not created.
 */
export const withStore = <A, E>(
  work: Effect.Effect<A, E, StoreServices | FileSystem.FileSystem | Path.Path>,
  otherwise: Effect.Effect<A, E>,
  readOnly = false
): Effect.Effect<A, E, FileSystem.FileSystem | Home | Path.Path> =>
  Effect.gen(function* () {
    const { exists, layer } = yield* StoredSessions.findConfigured(readOnly)
    return yield* (yield* exists) ? Effect.provide(work, layer) : otherwise
  })

/**
 * Reads the folder to which sessions started here belong: the project around the working directory, identified by its
 * repository.
 */
export const readFolder: Effect.Effect<SessionStore.SessionFolder, never, FileSystem.FileSystem | Home | Path.Path> =
  Effect.gen(function* () {
    const { findOwnProject } = yield* FolderTrust.make
    const path = yield* findOwnProject(getWorkingDirectory())
    return { path, holds: (directory) => Effect.map(findOwnProject(directory), (project) => project === path) }
  })

/** Runs an effect with the stored session selected by a reference. */
export const withStoredSession = <A, E>(
  reference: string,
  work: (session: SessionStore.Session) => Effect.Effect<A, E, StoreServices>,
  readOnly = false
): Effect.Effect<A, E | SessionNotFound | SessionStoreError, FileSystem.FileSystem | Home | Path.Path> =>
  Effect.flatMap(readFolder, (folder) =>
    withStore<A, E | SessionNotFound | SessionStoreError>(
      Effect.flatMap(
        SessionStore.SessionStore.use((store) => store.resolve(reference, folder)),
        work
      ),
      Effect.fail(new SessionNotFound({ sessionId: reference, candidates: [] })),
      readOnly
    )
  )

/** Opens the newest part of a stored session's conversation. */
export const openStored = (
  reference: string
): Effect.Effect<ChosenSession, SessionNotFound | SessionStoreError, FileSystem.FileSystem | Home | Path.Path> =>
  withStoredSession(reference, (named) =>
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      // A compacted session continues in another session.
      const id = yield* store.newest(named.id)
      const known = id === named.id ? named : Option.getOrElse(yield* store.get(id), () => named)
      return { id: known.id, known }
    })
  )

/** Returns the session selected by the flags. `fresh` is the id of a new session. */
export const choose = (
  flags: Pick<Flags.Globals, "continue" | "resume">,
  fresh: Ids.SessionId
): Effect.Effect<ChosenSession, SessionNotFound | SessionStoreError, FileSystem.FileSystem | Home | Path.Path> => {
  const reference = flags.resume ?? flags.continue
  return reference === undefined ? Effect.succeed({ id: fresh, known: undefined }) : openStored(reference)
}

/** Returns the folder to which a session belongs, or `undefined` if it belongs to this folder. */
export const findOtherFolder = (
  { holds }: SessionStore.SessionFolder,
  { cwd }: Pick<SessionStore.Session, "cwd">
): Effect.Effect<string | undefined> =>
  cwd === undefined
    ? Effect.succeed("no recorded folder")
    : Effect.map(holds(cwd), (isHere) => (isHere ? undefined : SafeText.toLine(cwd)))

/** Prints the folder in which the tools work if the session belongs to another folder. */
export const mentionFolder = Effect.fnUntraced(function* (
  known: SessionStore.Session | undefined
): Effect.fn.Return<void, never, FileSystem.FileSystem | Home | Output | Path.Path> {
  if (known === undefined) return
  const other = yield* findOtherFolder(yield* readFolder, known)
  if (other === undefined) return
  if (known.cwd === undefined)
    return yield* printNote(`Note: session ${known.id} has no recorded folder; its tools work in this folder`)
  // A missing folder is reported when the session is opened.
  const files = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(files.exists(known.cwd), () => false))
    yield* printNote(`Note: session ${known.id} belongs to another folder; its tools work in ${other}`)
})
