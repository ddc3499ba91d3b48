/**
 * Node's own SQLite, loaded when the first database is opened, and the files it works on.
 */
import { chmodSync, closeSync, fstatSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import type { SQLInputValue, StatementSync } from "node:sqlite"

/** An open database. Every member throws what SQLite reports. */
export interface Database {
  /** Runs one statement, prepared on first use, and returns its rows. */
  readonly all: (sql: string, parameters: ReadonlyArray<unknown>) => ReadonlyArray<Row>
  /** The same without keeping the prepared statement. */
  readonly once: (sql: string, parameters: ReadonlyArray<unknown>) => ReadonlyArray<Row>
  readonly isTransaction: () => boolean
  readonly close: () => void
}

/** A row by column name. */
export type Row = Readonly<Record<string, unknown>>

/** Milliseconds that a statement waits for another process before it reports that the database is locked. */
const busyTimeout = 1000

/** `node:sqlite` without the warning that older versions of Node print when it is loaded. */
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
 * Makes sure that the file is there and that nobody but its owner reads it: conversations hold what users show to nobody
 * else. SQLite gives its own files beside it the same mode.
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

/** Opens a database file, and creates it with its directory where they are missing. */
export const open = async (path: string): Promise<Database> => {
  const file = resolve(path)
  const { DatabaseSync } = await loadSqlite()
  prepareFile(file)
  const database = new DatabaseSync(file, { timeout: busyTimeout })
  const prepared = new Map<string, StatementSync>()
  const prepare = (sql: string): StatementSync => {
    let statement = prepared.get(sql)
    if (statement === undefined) {
      statement = database.prepare(sql)
      prepared.set(sql, statement)
    }
    return statement
  }
  return {
    all: (sql, parameters) => prepare(sql).all(...parameters.map(toInput)),
    once: (sql, parameters) => database.prepare(sql).all(...parameters.map(toInput)),
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}
