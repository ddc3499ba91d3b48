/**
 * Session of a prompt: a new one, or the one that `--resume` or `--continue` means. `latest` is the newest session of
 * the folder that the program was started in; a session of another folder is named by its id, and told.
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
import type { SessionMaintenance } from "../../store/SessionMaintenance.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import type { SessionRetention } from "../../store/SessionRetention.ts"
import { SessionNotFound, type SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as Ids from "../../base/domain/Ids.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import type * as Flags from "./Flags.ts"
import { printNote, type Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Session that a command works in. */
export interface ChosenSession {
  readonly id: Ids.SessionId
  /** Stored session; undefined for a new one. */
  readonly known: SessionStore.Session | undefined
}

/** Services of the store of the home directory. */
type StoreServices =
  | RunRecord
  | SessionActivity
  | SessionMaintenance
  | SessionRetention
  | SessionSearch
  | SessionStore.SessionStore

/** Last argument of {@link withStore} and {@link withStoredSession} for work that writes nothing. */
export const forReading = true

/**
 * Runs `work` with the session store of the home directory, or `otherwise` if its database does not exist yet. The
 * database is not created.
 */
export const withStore = <A, E>(
  work: Effect.Effect<A, E, StoreServices>,
  otherwise: Effect.Effect<A, E>,
  readOnly = false
): Effect.Effect<A, E, FileSystem.FileSystem | Home> =>
  Effect.gen(function* () {
    const { database } = yield* Home
    const fs = yield* FileSystem.FileSystem
    // A path that cannot be examined is the store's to complain about.
    const isThere = yield* Effect.orElseSucceed(fs.exists(database), () => true)
    return yield* isThere ? Effect.provide(work, SessionStore.layerSqlite({ path: database, readOnly })) : otherwise
  })

/**
 * Reads the folder that the program was started in, as sessions belong to it: the project around it, by its repository.
 */
export const readFolder: Effect.Effect<SessionStore.SessionFolder, never, FileSystem.FileSystem | Home | Path.Path> =
  Effect.gen(function* () {
    const { findOwnProject } = yield* FolderTrust.make
    const path = yield* findOwnProject(getWorkingDirectory())
    return { path, holds: (directory) => Effect.map(findOwnProject(directory), (project) => project === path) }
  })

/** Works with the stored session that a reference means. */
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

/** Opens a stored session, in the part of its conversation that is newest. */
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

/** `fresh` is the id of a new session. */
export const choose = (
  flags: Pick<Flags.Globals, "continue" | "resume">,
  fresh: Ids.SessionId
): Effect.Effect<ChosenSession, SessionNotFound | SessionStoreError, FileSystem.FileSystem | Home | Path.Path> => {
  const reference = flags.resume ?? flags.continue
  return reference === undefined ? Effect.succeed({ id: fresh, known: undefined }) : openStored(reference)
}

/** Returns the folder of a session that is not of this one; undefined for one of this folder. */
export const findOtherFolder = (
  { holds }: SessionStore.SessionFolder,
  { cwd }: Pick<SessionStore.Session, "cwd">
): Effect.Effect<string | undefined> =>
  cwd === undefined
    ? Effect.succeed("no recorded folder")
    : Effect.map(holds(cwd), (isHere) => (isHere ? undefined : SafeText.toLine(cwd)))

/** Says where the tools of a session of another folder work. */
export const mentionFolder = Effect.fnUntraced(function* (
  known: SessionStore.Session | undefined
): Effect.fn.Return<void, never, FileSystem.FileSystem | Home | Output | Path.Path> {
  if (known === undefined) return
  const other = yield* findOtherFolder(yield* readFolder, known)
  if (other === undefined) return
  if (known.cwd === undefined)
    return yield* printNote(`Note: session ${known.id} has no recorded folder; its tools work in this folder`)
  // One that is gone is told where the session is opened.
  const files = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(files.exists(known.cwd), () => false))
    yield* printNote(`Note: session ${known.id} belongs to another folder; its tools work in ${other}`)
})
