/**
 * Translates failures of the official client. Errors are distinguished by their fields, so that the client need not be
 * loaded here: a protocol error has a numeric code, a client error has a text code, and an HTTP error has a status.
 */
import * as Predicate from "effect/Predicate"
import { McpError, toOneLine, type Reason } from "./McpConnection.ts"

const reasons: ReadonlyMap<unknown, Reason> = new Map<unknown, Reason>([
  ["REQUEST_TIMEOUT", "timeout"],
  ["CONNECTION_CLOSED", "closed"],
  ["NOT_CONNECTED", "closed"],
  ["SEND_FAILED", "closed"],
  ["INVALID_RESULT", "protocol"],
  ["UNSUPPORTED_RESULT_TYPE", "protocol"],
  ["LIST_PAGINATION_EXCEEDED", "protocol"],
  ["ERA_NEGOTIATION_FAILED", "protocol"],
  ["CLIENT_HTTP_UNEXPECTED_CONTENT", "protocol"],
  ["CLIENT_HTTP_AUTHENTICATION", "unauthorized"],
  ["CLIENT_HTTP_FORBIDDEN", "unauthorized"]
])

/** Returns the HTTP status of an error; `undefined` if it has no status. */
export const readStatus = (error: unknown): number | undefined =>
  Predicate.hasProperty(error, "status") && typeof error.status === "number" ? error.status : undefined

const classifyReason = (error: unknown): Reason => {
  const status = readStatus(error)
  const name = error instanceof Error ? error.name : ""
  if (
    status === 401 ||
    status === 403 ||
    name === "UnauthorizedError" ||
    describeError(error).includes("hermes mcp login")
  )
    return "unauthorized"
  if (Predicate.hasProperty(error, "code")) {
    return typeof error.code === "number" ? "refused" : (reasons.get(error.code) ?? "start")
  }
  return name === "ZodError" || name === "SyntaxError" ? "protocol" : "start"
}

const advice: Readonly<Partial<Record<Reason, (name: string) => string>>> = {
  unauthorized: (name) =>
    `: check mcp_servers.${name}.headers, or set mcp_servers.${name}.oauth to true and run \`hermes mcp login ` +
    `${name}\``,
  timeout: (name) => `: raise mcp_servers.${name}.timeout if it needs longer`
}

const findAdvice = (server: string, reason: Reason, error: unknown): string =>
  // A message that explains how to log in needs no further advice.
  describeError(error).includes("hermes mcp login") ? "" : (advice[reason]?.(server) ?? "")

const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const message = error.message === "" ? error.name : error.message
  const inner =
    error.cause instanceof Error && !message.includes(error.cause.message) ? ` (${error.cause.message})` : ""
  return message + inner
}

/** Converts failures of the official client to MCP errors. */
export const toMcpError =
  (server: string, doing: string) =>
  (error: unknown): McpError => {
    const reason = classifyReason(error)
    return new McpError({
      server,
      reason,
      message:
        `MCP server "${server}": ${doing} failed: ` +
        `${toOneLine(describeError(error))}${findAdvice(server, reason, error)}`,
      cause: error
    })
  }

/** Error of a server that did not respond in time. */
export const makeTimeoutError = (server: string, millis: number): McpError =>
  new McpError({
    server,
    reason: "timeout",
    message: `MCP server "${server}" did not answer within ${millis / 1000} s`
  })

/** Creates the error for a server whose connection closed. */
export const makeClosedError = (server: string): McpError =>
  new McpError({ server, reason: "closed", message: `MCP server "${server}" went away` })
