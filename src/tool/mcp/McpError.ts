/**
 * Failure of an MCP server. `message` is one line that names the server and says what to
 * do next; it never holds a value of its environment or of its headers.
 */
import * as Schema from "effect/Schema"

/** Failure of an MCP server. */
export class McpError extends Schema.TaggedError<McpError>("hermes-effect/McpError")("McpError", {
  server: Schema.String,
  /**
   * `config`: what is written about it can not work. `start`: it could not be started or reached. `unauthorized`: it wants
   * other credentials. `protocol`: it says what no MCP server says. `timeout`: it said nothing in time. `closed`: it went
   * away. `refused`: it answered with an error.
   */
  reason: Schema.Literals(["config", "start", "unauthorized", "protocol", "timeout", "closed", "refused"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** Why a server can not be used. */
export type Reason = McpError["reason"]

const maxChars = 600

/** A text of a server on one line of bounded length. */
export const oneLine = (text: string): string => {
  const flat = text.slice(0, maxChars * 4).replaceAll(/\s+/g, " ").trim()
  return flat.length <= maxChars ? flat : `${flat.slice(0, maxChars)}…`
}
