/**
 * Store, search and run record on one database: what `SqliteSessionStore` loads when it is first used.
 */
import * as Effect from "effect/Effect"
import type * as SessionSearch from "../SessionSearch.ts"
import type * as SessionStore from "../SessionStore.ts"
import * as Database from "./Database.ts"
import * as SqliteRunRecord from "./SqliteRunRecord.ts"
import * as SqliteSearch from "./SqliteSearch.ts"
import * as SqliteStore from "./SqliteStore.ts"

/** Store, search and run record on one database. */
export interface Backend {
  readonly record: SqliteRunRecord.Rows
  readonly store: SessionStore.Service
  readonly search: SessionSearch.Service
}

/** Opens the database in a file. It is closed with the scope. */
export const open = (path: string) =>
  Effect.map(Database.open(path), (database): Backend => ({
    record: SqliteRunRecord.make(database),
    store: SqliteStore.make(database),
    search: SqliteSearch.make(database)
  }))
