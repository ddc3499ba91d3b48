/**
 * MCP servers from plain settings: programs to start and addresses, as they are written in `config.yaml` or in the
 * `mcpServers` of another client.
 *
 * **Details**
 *
 * The servers are connected when the layer is built, with the official client, and their tools are available under
 * `mcp__<server>__<tool>` while they are connected. A server that cannot be connected is skipped with a warning; its
 * state is in `McpServers`. Settings that no server can have are a `ConfigError` that names the place.
 *
 * Each tool of a server needs an approval until it is trusted (`trust`), regardless of its annotations. The program of
 * a server receives a few variables of the environment and the ones in `env`, and is removed with the layer.
 *
 * **Example** (A server that is started as a program)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Mcp, Runtime } from "hermes-effect"
 *
 * const servers = Mcp.layer({
 *   files: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."], enabled: false }
 * })
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" })
 * const layer = Layer.provideMerge(servers, Runtime.layer())
 *
 * console.log((await Effect.runPromise(Effect.provide(program, layer))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { ToolRegistry } from "../ToolRegistry.ts"
import type { McpServers } from "./McpServers.ts"

/** A text that may be a secret. */
type Value = string | Redacted.Redacted

/** Settings that each server can have. */
export interface ServerSettings {
  /** False for a server that is not connected. */
  readonly enabled?: boolean | undefined
  /** Time limit of a call, in seconds. Default: 120. */
  readonly timeout?: number | undefined
  /** Time limit of connecting, in seconds. Default: 60. */
  readonly connectTimeout?: number | undefined
  /** Seconds of silence before the server is pinged; 0 disables pings. Default: 180. */
  readonly keepalive?: number | undefined
  /** Tools of the server to include or exclude, as tool names or globs; `include` takes precedence. */
  readonly tools?:
    | { readonly include?: ReadonlyArray<string> | undefined; readonly exclude?: ReadonlyArray<string> | undefined }
    | undefined
  /** True if calls of the server may overlap. Default: false. */
  readonly supportsParallelToolCalls?: boolean | undefined
  /** Tools that run without an approval. By default every tool needs one. */
  readonly trust?:
    | "full"
    | "annotations"
    | "untrusted"
    | { readonly tools?: ReadonlyArray<string> | undefined; readonly annotations?: boolean | undefined }
    | undefined
  /** True if the server may call a model during a tool call, which costs money. Default: false. */
  readonly sampling?: { readonly enabled: boolean } | undefined
  /** True if the server may ask the user during a tool call. Default: true. */
  readonly elicitation?: { readonly enabled: boolean } | undefined
}

/** A server that is started as a program, and speaks over its standard input and output. */
export interface ProgramServer extends ServerSettings {
  readonly command: string
  readonly args?: ReadonlyArray<string> | undefined
  /** Variables of the program, in addition to the few that every program receives. */
  readonly env?: Readonly<Record<string, Value>> | undefined
  readonly cwd?: string | undefined
}

/** A server at an address, with the current or the older HTTP transport. */
export interface AddressServer extends ServerSettings {
  readonly url: string
  readonly headers?: Readonly<Record<string, Value>> | undefined
}

/** A server. Keys may also be written as in `config.yaml` (`connect_timeout`). */
export type Server = ProgramServer | AddressServer

/** Provides the servers, and adds their tools to the registry of the runtime. */
export const layer = (servers: Readonly<Record<string, Server>>): Layer.Layer<McpServers, ConfigError, ToolRegistry> =>
  Layer.unwrap(
    Effect.flatMap(
      Effect.promise(() => import("./GivenServers.ts")),
      ({ makeLayer }) => makeLayer(servers)
    )
  )
