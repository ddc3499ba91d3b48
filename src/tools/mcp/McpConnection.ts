/**
 * The port for one connected MCP server, and the service that connects servers.
 *
 * **Example** (Fake servers in a test)
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

// Failure of an MCP server. `message` is one line that names the server and says what to do next; it never contains a
// value of the server's environment or headers.

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

/** Formats a text of a server as one line of limited length. */
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

/** A resource of a server. */
export interface Resource {
  readonly uri: string
  readonly name: string
  readonly description?: string | undefined
  readonly mimeType?: string | undefined
}

/** A prompt template of a server. */
export interface PromptInfo {
  readonly name: string
  readonly description?: string | undefined
  readonly arguments: ReadonlyArray<{ readonly name: string; readonly required: boolean }>
}

/** Capabilities of a server besides tools. */
export interface Offers {
  readonly tools: boolean
  readonly resources: boolean
  readonly prompts: boolean
}

/** The port for one connected MCP server. The connection lasts until its scope closes. */
export interface Connection {
  readonly protocol: string
  /** Returns the session id assigned by a server with an address. */
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
  /** Checks that the server responds. */
  readonly ping: Effect.Effect<void, McpError>
  /** Receives an element when the server reports that its tools changed. */
  readonly toolsChanged: Queue.Dequeue<void>
  /** Waits until the connection closes, and returns the reason. */
  readonly closed: Effect.Effect<McpError>
}

/** Connects servers. */
export interface Service {
  readonly connect: (config: ServerConfig) => Effect.Effect<Connection, McpError, Scope.Scope>
}

/** See {@link Service}. */
export class McpConnector extends Context.Service<McpConnector, Service>()("hermes-effect/tool/McpConnector") {}
