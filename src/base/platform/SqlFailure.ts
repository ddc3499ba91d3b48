/** Describes a failure of SQLite or of the file system in one line, with its remedy. */
import type { SqlError } from "effect/sql/SqlError"

const readProperty = (cause: unknown, name: string): unknown =>
  typeof cause === "object" && cause !== null ? Reflect.get(cause, name) : undefined

/** Returns SQLite's primary result code, without the upper bits of the extended code. */
const readResultCode = (cause: unknown): number | undefined => {
  const code = readProperty(cause, "errcode")
  return typeof code === "number" ? code & 0xff : undefined
}

const describeSqliteCode = (code: number | undefined): string | undefined => {
  switch (code) {
    case 5: // BUSY
    case 6: // LOCKED
      return "stayed locked: another program is holding it, close that one and try again"
    case 8: // READONLY
    case 3: // PERM
      return "cannot be written: make the file and its directory writable, or set another HERMES_HOME"
    case 14: // CANTOPEN
      return "cannot be opened: check that its directory is there and writable, or set another HERMES_HOME"
    case 13: // FULL
      return "cannot grow because the disk is full: free some space and try again, nothing stored is lost"
    case 10: // IOERR
      return "cannot be read or written: check the disk and its free space and try again"
    case 11: // CORRUPT
      return "is damaged: `hermes sessions repair` rescues what is readable and keeps the damaged file"
    case 26: // NOTADB
      return (
        "is damaged or no database: move it away to start a new one, or try `hermes sessions repair`, which " +
        "keeps the damaged file"
      )
    default:
      return undefined
  }
}

const describeFileSystemCode = (code: unknown): string | undefined => {
  switch (code) {
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return describeSqliteCode(8)
    case "ENOSPC":
    case "EDQUOT":
      return describeSqliteCode(13)
    case "EISDIR":
    case "ENOTDIR":
    case "EEXIST":
    case "ENOENT":
      return "cannot be created: check that its path names a file inside a directory, or set another HERMES_HOME"
    default:
      return undefined
  }
}

/** Tests whether a failure means that the database file is damaged. */
export const isDamaged = (error: SqlError): boolean => readResultCode(error.reason.cause) === 11

/** Tests whether a failure means that the table rejected a row because of a constraint or the type of a value. */
export const isRefusedRow = (error: SqlError): boolean => {
  const code = readResultCode(error.reason.cause)
  return code === 19 || code === 20
}

/** Describes the failure of a statement on the database at `path`. */
export const describe = (path: string, error: SqlError): string => {
  const { cause } = error.reason
  const known = describeSqliteCode(readResultCode(cause)) ?? describeFileSystemCode(readProperty(cause, "code"))
  return known === undefined ? `${path}: ${error.message.replace(/\s+/gu, " ")}` : `${path} ${known}`
}
