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
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { mcpServer } from "../../base/config/ProgramSections.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import type { ToolRegistry } from "../ToolRegistry.ts"
import type { McpServers } from "./McpServers.ts"
import type { Section } from "./ServerConfig.ts"

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

/** Returns the name of a setting as written in `config.yaml`. */
const toFileKey = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const decodeSection = Schema.decodeUnknownResult(mcpServer, { onExcessProperty: "error" })
/** Names of the settings as written in `config.yaml`. */
const known = Object.keys(mcpServer.to.fields).map(toFileKey)

const readSecrets = (value: unknown): unknown =>
  Json.isFields(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, Redacted.isRedacted(one) ? Redacted.value(one) : one])
      )
    : value

const makeRefusal = (place: string, problem: string): ConfigError =>
  new ConfigError({ path: place, message: `${place}: ${problem}` })

/** Reads the settings of one server. */
const readServer = (name: string, server: unknown): Effect.Effect<Section, ConfigError> =>
  Effect.suspend(() => {
    const place = `mcp.${name}`
    if (!Json.isFields(server))
      return Effect.fail(makeRefusal(place, "expected { command, args } of a program, or { url } of an address"))
    const fields: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(server)) {
      const fileKey = toFileKey(key)
      if (value === undefined) continue
      if (!known.includes(fileKey)) {
        const meant = findNearest(fileKey, known)
        return Effect.fail(
          makeRefusal(
            `${place}.${key}`,
            `no such setting of a server${meant === undefined ? "" : `; did you mean ${meant}?`}`
          )
        )
      }
      fields[fileKey] = key === "env" || key === "headers" ? readSecrets(value) : value
    }
    if (fields["command"] === undefined && fields["url"] === undefined)
      return Effect.fail(makeRefusal(place, "has neither a command nor a url: add one of them"))
    const decoded = decodeSection(fields)
    return decoded._tag === "Success"
      ? Effect.succeed(decoded.success)
      : Effect.fail(makeRefusal(place, decoded.failure.message.replace(/\s+/gu, " ")))
  })

/** Provides the servers, and adds their tools to the registry of the runtime. */
export const layer = (servers: Readonly<Record<string, Server>>): Layer.Layer<McpServers, ConfigError, ToolRegistry> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const sections = yield* Effect.forEach(Object.entries(servers), ([name, server]) =>
        Effect.map(readServer(name, server), (section) => [name, section] as const)
      )
      const [{ layer }, client, { fromSection }] = yield* Effect.promise(() =>
        Promise.all([import("./McpServers.ts"), import("./McpSdkClient.ts"), import("./ServerConfig.ts")])
      )
      for (const [name, section] of sections) {
        yield* Effect.mapError(fromSection(name, section), ({ message }) =>
          makeRefusal(`mcp.${name}`, message.slice(message.indexOf(": ") + 2))
        )
      }
      return layer(Object.fromEntries(sections)).pipe(
        Layer.provide(client.layer),
        Layer.provide(ChildProcesses.layerDefault())
      )
    })
  )
