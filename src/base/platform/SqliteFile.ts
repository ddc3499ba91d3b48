/**
 * Files of SQLite databases, opened with `node:sqlite`, which is loaded when the first one is opened. A missing file is
 * created, readable only by its owner.
 */
import { chmodSync, closeSync, fstatSync, mkdirSync, openSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite"
import { pathToFileURL } from "node:url"

/** A row by column name. */
export type Row = Readonly<Record<string, unknown>>

/** The effect of a statement: the number of changed rows, and the number of the row that was inserted last. */
export interface Changes {
  readonly changes: number | bigint
  readonly lastInsertRowid: number | bigint
}

/** An open database. Every member throws the errors of SQLite. */
export interface Database {
  /** Runs one statement, prepared on first use, and returns its rows. */
  readonly all: (sql: string, parameters: ReadonlyArray<unknown>) => ReadonlyArray<Row>
  /** Runs one statement that returns no rows, prepared on first use. */
  readonly run: (sql: string, parameters: ReadonlyArray<unknown>) => Changes
  /** Runs one statement without caching the prepared statement, and returns its rows. */
  readonly once: (sql: string, parameters: ReadonlyArray<unknown>) => ReadonlyArray<Row>
  readonly isTransaction: () => boolean
  readonly close: () => void
}

/**
 * Time in milliseconds that a statement waits if another process has locked the database. After that, the lock is
 * reported.
 */
const busyTimeout = 1000

/** Loads `node:sqlite` and suppresses the warning that older versions of Node print. */
const loadSqlite = async (): Promise<typeof import("node:sqlite")> => {
  const emitWarning = process.emitWarning
  process.emitWarning = (warning: string | Error, ...rest: ReadonlyArray<unknown>): void => {
    if (!String(warning).includes("SQLite is an experimental feature")) {
      Reflect.apply(emitWarning, process, [warning, ...rest])
    }
  }
  try {
    return await import("node:sqlite")
  } finally {
    process.emitWarning = emitWarning
  }
}

/**
 * Ensures that the file exists and that only its owner can read it, because conversations are private. SQLite creates
 * its additional files with the same mode.
 */
const prepareFile = (path: string): void => {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const file = openSync(path, "a", 0o600)
  try {
    const { mode, uid } = fstatSync(file)
    if ((mode & 0o077) !== 0 && uid === process.geteuid?.()) chmodSync(path, 0o600)
  } finally {
    closeSync(file)
  }
}

const toInput = (value: unknown): SQLInputValue => {
  switch (typeof value) {
    case "string":
    case "number":
    case "bigint":
      return value
    case "boolean":
      return value ? 1 : 0
    case "undefined":
      return null
    default:
      if (value === null || value instanceof Uint8Array) return value
      throw new TypeError(`SQLite cannot store a value of type ${typeof value}`)
  }
}

/** Opens a database file, and creates it and its directory if they are missing. */
export const openFile = async (path: string): Promise<Database> => {
  const file = resolve(path)
  const { DatabaseSync } = await loadSqlite()
  prepareFile(file)
  return wrapDatabase(new DatabaseSync(file, { timeout: busyTimeout }))
}

/**
 * Opens a database file only for reading, and creates no files next to it. If the write-ahead log is empty, the file
 * can be read without SQLite's auxiliary files, even in a directory that is not writable.
 */
export const openFileForReading = async (path: string): Promise<Database> => {
  const file = resolve(path)
  const { DatabaseSync } = await loadSqlite()
  const testDatabase = (database: DatabaseSync): DatabaseSync => {
    try {
      database.prepare("SELECT count(*) FROM sqlite_schema").get()
      return database
    } catch (error) {
      database.close()
      throw error
    }
  }
  try {
    return wrapDatabase(testDatabase(new DatabaseSync(file, { readOnly: true, timeout: busyTimeout })))
  } catch (error) {
    if ((statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) throw error
    const url = pathToFileURL(file)
    url.searchParams.set("immutable", "1")
    return wrapDatabase(testDatabase(new DatabaseSync(url, { readOnly: true })))
  }
}

const wrapDatabase = (database: DatabaseSync): Database => {
  const prepared = new Map<string, StatementSync>()
  const prepareStatement = (sql: string): StatementSync => {
    let statement = prepared.get(sql)
    if (statement === undefined) {
      statement = database.prepare(sql)
      prepared.set(sql, statement)
    }
    return statement
  }
  return {
    all: (sql, parameters) => prepareStatement(sql).all(...parameters.map(toInput)),
    run: (sql, parameters) => prepareStatement(sql).run(...parameters.map(toInput)),
    once: (sql, parameters) => database.prepare(sql).all(...parameters.map(toInput)),
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}
