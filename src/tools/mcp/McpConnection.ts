/**
 * The port to one connected MCP server, and to how one is connected.
 *
 * **Example** (Servers that a test makes up)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { McpConnection } from "hermes-effect/tools/mcp"
 *
 * // They never answer.
 * export const silent = Layer.succeed(McpConnection.McpConnector, { connect: () => Effect.never })
 * ```
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as TextCut from "../../base/domain/TextCut.ts"
import type { ServerConfig } from "./ServerConfig.ts"

// Failure of an MCP server. `message` is one line that names the server and says what to
// do next; it never holds a value of its environment or of its headers.

/** Failure of an MCP server. */
export class McpError extends Schema.TaggedError<McpError>("hermes-effect/McpError")("McpError", {
  server: Schema.String,
  /**
   * `config`: its configuration is invalid. `start`: it could not be started or reached. `unauthorized`: it requires
   * other credentials. `protocol`: it violated the MCP protocol. `timeout`: it did not answer in time. `closed`: it
   * closed the connection. `refused`: it answered with an error.
   */
  reason: Schema.Literals(["config", "start", "unauthorized", "protocol", "timeout", "closed", "refused"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** Kinds of failure of a server. */
export type Reason = McpError["reason"]

const maxChars = 600

/** A text of a server on one line of bounded length. */
export const toOneLine = (text: string): string =>
  TextCut.shorten(
    TextCut.takeHead(text, maxChars * 4)
      .replaceAll(/\s+/g, " ")
      .trim(),
    maxChars
  )

/** Claims of a server about a tool. */
export interface Hints {
  readonly readOnlyHint?: boolean | undefined
  readonly destructiveHint?: boolean | undefined
  readonly idempotentHint?: boolean | undefined
}

/** One tool as its server describes it. */
export interface Descriptor {
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly annotations?: Hints | undefined
}

/** A content block of a server's answer. */
export type Block =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "media"; readonly mimeType: string; readonly data: string }
  | { readonly type: "link"; readonly uri: string; readonly name: string | undefined }

/** Result of a tool call. */
export interface CallResult {
  readonly blocks: ReadonlyArray<Block>
  readonly structured: unknown
  readonly isError: boolean
}

/** Something that can be read. */
export interface Resource {
  readonly uri: string
  readonly name: string
  readonly description?: string | undefined
  readonly mimeType?: string | undefined
}

/** A prepared request. */
export interface PromptInfo {
  readonly name: string
  readonly description?: string | undefined
  readonly arguments: ReadonlyArray<{ readonly name: string; readonly required: boolean }>
}

/** Abilities of a server besides tools. */
export interface Offers {
  readonly tools: boolean
  readonly resources: boolean
  readonly prompts: boolean
}

/**
 * The port to one connected MCP server, and to how one is connected. It lives as long as the scope that it was
 * connected in.
 */
export interface Connection {
  readonly protocol: string
  /** Id of the session that a server with an address gave. */
  readonly session?: (() => string | undefined) | undefined
  /** Name and version reported by the server. */
  readonly server: string
  readonly offers: Offers
  readonly listTools: Effect.Effect<ReadonlyArray<Descriptor>, McpError>
  readonly callTool: (
    name: string,
    args: Readonly<Record<string, unknown>>,
    onProgress?: (message: string) => void
  ) => Effect.Effect<CallResult, McpError>
  readonly listResources: Effect.Effect<ReadonlyArray<Resource>, McpError>
  readonly readResource: (uri: string) => Effect.Effect<ReadonlyArray<Block>, McpError>
  readonly listPrompts: Effect.Effect<ReadonlyArray<PromptInfo>, McpError>
  readonly getPrompt: (
    name: string,
    args: Readonly<Record<string, string>>
  ) => Effect.Effect<ReadonlyArray<Block>, McpError>
  /** Asks whether the server is there. */
  readonly ping: Effect.Effect<void, McpError>
  /** Has an element when the server said that its tools are others now. */
  readonly toolsChanged: Queue.Dequeue<void>
  /** Waits until the server went away, and says why. */
  readonly closed: Effect.Effect<McpError>
}

/** Connects servers. */
export interface Service {
  readonly connect: (config: ServerConfig) => Effect.Effect<Connection, McpError, Scope.Scope>
}

/** See {@link Service}. */
export class McpConnector extends Context.Service<McpConnector, Service>()("hermes-effect/tool/McpConnector") {}
