/**
 * Checked configuration of one MCP server: either a program that is started, or an address.
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import type * as Redacted from "effect/Redacted"
import type { Values } from "../../base/config/Settings.ts"
import { type Hints, McpError } from "./McpConnection.ts"

// Names of MCP servers and tools as the model may see them, and which of a server's tools are offered. Pure.
//
// **Details**
//
// A tool is called `mcp__<server>__<tool>`. Whatever is not a letter, digit, `_` or `-` becomes `_`. Names of more than
// 64 characters, which no provider takes, are cut and end in a hash of the whole; the same is done to a name that
// another tool of the server has already.
//
// Source: `hermes-product.md` §2.4.

const maxNameLength = 64

const replaceUnsafe = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, "_")

const shortenName = (name: string, whole: string): string => {
  const hash = (Hash.string(whole) >>> 0).toString(36)
  return `${name.slice(0, maxNameLength - hash.length - 1)}_${hash}`
}

/** The toolset of a server. */
export const formatToolsetName = (server: string): string => `mcp-${server}`

/** The name of one tool. */
export const formatToolName = (server: string, name: string): string => {
  const full = `mcp__${replaceUnsafe(server)}__${replaceUnsafe(name)}`
  return full.length <= maxNameLength ? full : shortenName(full, `${server}\n${name}`)
}

/** The names of tools, in their order, each its own. */
export const formatToolNames = (server: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const taken = new Set<string>()
  return names.map((name) => {
    let given = formatToolName(server, name)
    for (let again = 1; taken.has(given); again++)
      given = shortenName(formatToolName(server, name), `${name}\n${again}`)
    taken.add(given)
    return given
  })
}

const toPattern = (pattern: string): RegExp => {
  const source = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", "[^]*")
    .replaceAll("?", "[^]")
  return new RegExp(`^${source}$`)
}

/** True when a tool of this name is offered; `include` wins. */
export const makeNameFilter = (
  include: ReadonlyArray<string> | undefined,
  exclude: ReadonlyArray<string>
): ((name: string) => boolean) => {
  const wanted = include?.map(toPattern)
  const unwanted = exclude.map(toPattern)
  return (name) =>
    wanted === undefined ? !unwanted.some((glob) => glob.test(name)) : wanted.some((glob) => glob.test(name))
}

/** `mcp_servers.<name>` as it was read. */
export type Section = Values["mcpServers"][string]

type Secrets = Readonly<Record<string, Redacted.Redacted>>

/** A program that talks over its standard input and output. */
export interface Stdio {
  readonly _tag: "Stdio"
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** Given to the program besides the few variables that every program gets. */
  readonly env: Secrets
  readonly cwd: string | undefined
  readonly sandbox: Section["sandbox"]
}

/** A server that runs already. */
export interface Http {
  readonly _tag: "Http"
  readonly url: URL
  readonly headers: Secrets
  /** Settings of its login; `undefined` if it needs no login. */
  readonly oauth: OAuth | undefined
}

/** Settings of a login. */
type OAuth = Partial<Exclude<Section["oauth"], boolean | undefined>>

/** Trust of the user in a tool of a server. */
export interface ToolTrust {
  /** True when it runs without an approval. */
  readonly isTrusted: boolean
  /** The claims of the server about it that count; none where the user trusts neither the server nor the tool. */
  readonly hints: Hints
}

/** Settings of one MCP server, checked. Times are milliseconds. */
export interface ServerConfig {
  readonly name: string
  readonly transport: Stdio | Http
  readonly timeoutMillis: number
  readonly connectTimeoutMillis: number
  /** Silence after which a server is asked whether it is there; 0 is never. */
  readonly keepaliveMillis: number
  /** Names or globs on the server's own names. */
  readonly include: ReadonlyArray<string> | undefined
  readonly exclude: ReadonlyArray<string>
  /** Calls may overlap. */
  readonly parallel: boolean
  /** The server may ask the user something in the middle of a call. */
  readonly elicitation: boolean
  /** The server may ask a model something in the middle of a call. */
  readonly sampling: boolean
  /** Decides what the user trusts of a tool, by the server's own name and its hints. */
  readonly trustIn: (name: string, hints: Hints) => ToolTrust
}

const failConfig = (server: string, what: string): Effect.Effect<never, McpError> =>
  Effect.fail(new McpError({ server, reason: "config", message: `mcp_servers.${server}: ${what}` }))

const parseTransport = (name: string, section: Section): Effect.Effect<Stdio | Http, McpError> => {
  const { args, command, cwd, env, headers, oauth, sandbox, url } = section
  if (command !== undefined && url !== undefined) {
    return failConfig(name, "has a command and a url: keep the one that reaches the server")
  }
  if (command !== undefined) {
    return command.trim() === ""
      ? failConfig(name, "the command is empty: name the program that starts the server")
      : Effect.succeed({ _tag: "Stdio", command, args, env, cwd, sandbox })
  }
  if (url === undefined) return failConfig(name, "has neither a command nor a url: add one of them")
  if (!URL.canParse(url)) return failConfig(name, "invalid url: expected one like https://host/mcp")
  const parsed = new URL(url)
  return parsed.protocol === "http:" || parsed.protocol === "https:"
    ? Effect.succeed({
        _tag: "Http",
        url: parsed,
        headers,
        oauth: oauth === true ? {} : oauth === false ? undefined : oauth
      })
    : failConfig(name, `the url begins with ${parsed.protocol}//: only http:// and https:// reach a server`)
}

const untrusted: ToolTrust = { isTrusted: false, hints: {} }

const trustAnnotations: ServerConfig["trustIn"] = (_, hints) => ({
  isTrusted: hints.readOnlyHint === true || hints.destructiveHint === false,
  hints
})

/**
 * Annotations are what a server claims of itself: they count once the user trusts the server, or the tool by its name.
 * A tool about which nothing counts is destructive.
 */
const parseTrust = (trust: Section["trust"]): ServerConfig["trustIn"] => {
  if (trust === "full") return (_, hints) => ({ isTrusted: true, hints })
  if (trust === "annotations") return trustAnnotations
  if (trust === undefined || trust === "untrusted") return () => untrusted
  const isNamed = makeNameFilter(trust.tools, [])
  return (name, hints) =>
    isNamed(name) ? { isTrusted: true, hints } : trust.annotations ? trustAnnotations(name, hints) : untrusted
}

/** Checks the settings of one MCP server. */
export const fromSection = (name: string, section: Section): Effect.Effect<ServerConfig, McpError> =>
  Effect.map(parseTransport(name, section), (transport) => ({
    name,
    transport,
    timeoutMillis: section.timeout * 1000,
    connectTimeoutMillis: section.connectTimeout * 1000,
    keepaliveMillis: section.keepalive * 1000,
    include: section.tools.include,
    exclude: section.tools.exclude ?? [],
    parallel: section.supportsParallelToolCalls,
    elicitation: section.elicitation.enabled,
    sampling: section.sampling.enabled,
    trustIn: parseTrust(section.trust)
  }))
