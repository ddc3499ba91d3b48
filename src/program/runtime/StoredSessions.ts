/**
 * The session store that the settings select: a Postgres database (`store.url`), or the file in the home directory.
 *
 * All commands open their sessions here, so that lists, searches, statistics, traces and resumed conversations read the
 * database to which conversations are written.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as SessionStore from "../../store/SessionStore.ts"

/** Maximum number of connections of one program to the database, with the one that listens for messages. */
const connections = 5

/** Creates the layer of the store. `path` is the file that is used if the settings name no database. */
export const makeLayer = (
  { store }: Pick<Values, "store">,
  path: string,
  readOnly = false
): ReturnType<typeof SessionStore.layerSqlite> =>
  store.url === undefined
    ? SessionStore.layerSqlite({ path, readOnly })
    : SessionStore.layerPostgres({ url: store.url, connections })

/** The store of a command, and a test of its existence. */
export interface StoredSessions {
  readonly layer: ReturnType<typeof SessionStore.layerSqlite>
  /** False if no session has been stored yet. If the path of the file cannot be examined, the store reports it. */
  readonly exists: Effect.Effect<boolean>
  /** Address of the database, or `undefined` for the file in the home directory. */
  readonly url: string | undefined
}

/** Finds the store for settings that are already loaded. */
export const findStore = Effect.fnUntraced(function* (settings: Pick<Values, "store">, readOnly = false) {
  const { database } = yield* Home
  const fs = yield* FileSystem.FileSystem
  const stored: StoredSessions = {
    layer: makeLayer(settings, database, readOnly),
    url: settings.store.url === undefined ? undefined : Redacted.value(settings.store.url),
    exists:
      settings.store.url === undefined ? Effect.orElseSucceed(fs.exists(database), () => true) : Effect.succeed(true)
  }
  return stored
})

/** Loads the settings that select the store. Mistakes in other settings are reported by the commands that use them. */
const loadSelection: Effect.Effect<Pick<Values, "store">, never, FileSystem.FileSystem | Home> = Config.load().pipe(
  Effect.map(({ settings }): Pick<Values, "store"> => settings),
  Effect.provide(Environment.layer),
  Effect.orElseSucceed((): Pick<Values, "store"> => ({ store: {} }))
)

/** Finds the store for a command that does not load settings. */
export const findConfigured = (readOnly = false): Effect.Effect<StoredSessions, never, FileSystem.FileSystem | Home> =>
  Effect.flatMap(loadSelection, (settings) => findStore(settings, readOnly))

/** Layer of the store for a command that does not load settings. */
export const layerConfigured = Layer.unwrap(Effect.map(findConfigured(), ({ layer }) => layer))
