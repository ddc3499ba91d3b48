/**
 * Checked configuration of one MCP server: either a program to start, or an address.
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import type * as Redacted from "effect/Redacted"
import type { Values } from "../../base/config/Settings.ts"
import { type Hints, McpError } from "./McpConnection.ts"

// Names of MCP servers and tools as shown to the model, and the selection of a server's offered tools. Pure. Pure.
//
// **Details**
//
// A tool is called `mcp__<server>__<tool>`. Every character other than a letter, digit, `_` or `-` becomes `_`. Names
// of more than 64 characters, which no provider accepts, are cut and end in a hash of the full name. The same applies
// to a name that another tool of the server already has.
//
// Source: `hermes-product.md` §2.4.

const maxNameLength = 64

const replaceUnsafe = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, "_")

const shortenName = (name: string, whole: string): string => {
  const hash = (Hash.string(whole) >>> 0).toString(36)
  return `${name.slice(0, maxNameLength - hash.length - 1)}_${hash}`
}

/** Returns the name of a server's toolset. */
export const formatToolsetName = (server: string): string => `mcp-${server}`

/** Returns the name of one tool for the model. */
export const formatToolName = (server: string, name: string): string => {
  const full = `mcp__${replaceUnsafe(server)}__${replaceUnsafe(name)}`
  return full.length <= maxNameLength ? full : shortenName(full, `${server}\n${name}`)
}

/** Returns unique names of tools for the model, in order. */
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

/** Creates a test for whether a tool with a given name is offered. `include` takes precedence. */
export const makeNameFilter = (
  include: ReadonlyArray<string> | undefined,
  exclude: ReadonlyArray<string>
): ((name: string) => boolean) => {
  const wanted = include?.map(toPattern)
  const unwanted = exclude.map(toPattern)
  return (name) =>
    wanted === undefined ? !unwanted.some((glob) => glob.test(name)) : wanted.some((glob) => glob.test(name))
}

/** `mcp_servers.<name>` as read from the settings. */
export type Section = Values["mcpServers"][string]

type Secrets = Readonly<Record<string, Redacted.Redacted>>

/** A program that communicates over its standard input and output. */
export interface Stdio {
  readonly _tag: "Stdio"
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** Environment variables for the program, in addition to the few variables that every program receives. */
  readonly env: Secrets
  readonly cwd: string | undefined
  readonly sandbox: Section["sandbox"]
}

/** A server that is already running at an address. */
export interface Http {
  readonly _tag: "Http"
  readonly url: URL
  readonly headers: Secrets
  /** Settings of its login; `undefined` if it needs no login. */
  readonly oauth: OAuth | undefined
}

/** Settings of a login. */
type OAuth = Partial<Exclude<Section["oauth"], boolean | undefined>>

/** The user's trust in a tool of a server. */
export interface ToolTrust {
  /** True if the tool runs without an approval. */
  readonly isTrusted: boolean
  /** The server's claims about the tool that count; empty if the user trusts neither the server nor the tool. */
  readonly hints: Hints
}

/** Checked settings of one MCP server. Times are in milliseconds. */
export interface ServerConfig {
  readonly name: string
  readonly transport: Stdio | Http
  readonly timeoutMillis: number
  readonly connectTimeoutMillis: number
  /** Time without messages after which a server is pinged; 0 for never. */
  readonly keepaliveMillis: number
  /** Names or globs that match the server's own tool names. */
  readonly include: ReadonlyArray<string> | undefined
  readonly exclude: ReadonlyArray<string>
  /** True if calls may overlap. */
  readonly parallel: boolean
  /** True if the server may ask the user during a call. */
  readonly elicitation: boolean
  /** True if the server may ask a model during a call. */
  readonly sampling: boolean
  /** Returns the user's trust in a tool, by the server's own name for it and its hints. */
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
 * Creates the trust test. Annotations are claims of the server; they count only if the user trusts the server, or the
 * tool by its name. A tool without valid claims counts as destructive.
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
