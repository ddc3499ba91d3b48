/** Describes failures of Postgres for users, with the remedy, and without the password in the address. */
import * as Redacted from "effect/Redacted"
import type { SqlError } from "effect/sql/SqlError"

const readProperty = (cause: unknown, name: string): unknown =>
  typeof cause === "object" && cause !== null ? Reflect.get(cause, name) : undefined

/**
 * Returns the error code of the server (five characters) or of the network (`ECONNREFUSED`) from anywhere in the chain
 * of causes.
 */
const readCode = (error: SqlError): string => {
  let cause: unknown = error.reason.cause
  for (let depth = 0; depth < 5 && cause !== undefined; depth++) {
    const code = readProperty(cause, "code")
    if (typeof code === "string") return code
    cause = readProperty(cause, "cause")
  }
  return ""
}

/** Tests whether the failure means that the address is invalid. */
const isAddress = ({ message }: SqlError): boolean =>
  /connection URL|in URL|sslmode|percent-encoding|No username/.test(message)

// Codes of temporary failures: shutdown, crash and start of the server, and too many connections.
const passing: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300"])

/** Tests whether a failure means that the server is unavailable and may answer later. */
export const isAway = (error: SqlError): boolean => {
  const code = readCode(error)
  if (passing.has(code)) return true
  return (
    error.reason._tag === "ConnectionError" && !isAddress(error) && !/^(28|3D|42)/.test(code) && code !== "ENOTFOUND"
  )
}

/** Formats an address without its user name and password. */
export const formatPlace = (url: Redacted.Redacted): string => {
  try {
    const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
    const host = searchParams.get("host") ?? hostname
    return `${host === "" ? "localhost" : host}${host.startsWith("/") ? "" : `:${port === "" ? "5432" : port}`}${pathname}`
  } catch {
    // Opening the database reports the invalid address.
    return "(not an address)"
  }
}

/** Settings from which an address may come. */
const setting = "store.url or cluster.database_url"

/** Describes the failure of a statement in the database at `url`. */
export const describe = (url: Redacted.Redacted, error: SqlError): string => {
  const code = readCode(error)
  const name = `Postgres at ${formatPlace(url)}`
  if (isAddress(error)) return `${setting} is not a Postgres address: write postgres://user:password@host:port/database`
  if (code === "ENOTFOUND") return `${name}: no such host; correct ${setting}`
  if (code.startsWith("28")) return `${name} refuses the login: correct user and password of ${setting}`
  if (code === "3D000") return `${name}: no such database; create it, or correct ${setting}`
  if (code === "42501") return `${name}: the user may not do this; grant it the rights on its database`
  if (code === "53100") return `${name} has no free disk space: free some, nothing stored is lost`
  if (isAway(error)) return `${name} does not answer (${code === "" ? "connection lost" : code})`
  return `${name}: ${(readProperty(error.reason.cause, "message") ?? error.message).toString().replace(/\s+/gu, " ")}`
}
