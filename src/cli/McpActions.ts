/**
 * Actions of `hermes mcp list | add | remove | test`.
 *
 * Source: `hermes-product.md` §1.6 and §2.4.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Home } from "../config/Home.ts"
import { Settings } from "../config/Settings.ts"
import { McpConnector } from "../tool/mcp/Connection.ts"
import * as McpNames from "../tool/mcp/McpNames.ts"
import * as SdkClient from "../tool/mcp/SdkClient.ts"
import * as ServerConfig from "../tool/mcp/ServerConfig.ts"
import * as McpLogins from "../tool/mcp/McpLogins.ts"
import * as SdkLogin from "../tool/mcp/SdkLogin.ts"
import { type Failure, notDone, unknownName, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as Network from "../platform/Network.ts"
import { line, note, Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

interface AsJson {
  readonly json: boolean
}

const returnPage = "<!doctype html><title>hermes</title><p>You can close this page and go back to the terminal.</p>"

interface Named {
  readonly name: string
}

const unknownServer = (name: string, servers: Readonly<Record<string, unknown>> = {}): Failure =>
  unknownName("MCP server", name, { known: Object.keys(servers), list: "hermes mcp list" })

const whereOf = ({ args, command, url }: ServerConfig.Section): string => url ?? [command ?? "?", ...args].join(" ")

/** Prints the servers of the settings. Values of variables and headers are not shown. */
export const list = Effect.fn("hermes mcp list")(function*(_flags: Flags.Globals, { json }: AsJson) {
  const { mcpServers } = yield* Settings
  const servers = Object.entries(mcpServers).map(([name, section]) => ({
    name,
    enabled: section.enabled,
    server: whereOf(section),
    toolset: McpNames.toolset(name)
  }))
  if (json) return yield* line(SafeText.json(servers, 2))
  if (servers.length === 0) return yield* line("No MCP servers. Add one with `hermes mcp add NAME --command PROGRAM` or `--url URL`.")
  const width = Math.max(...servers.map(({ name }) => name.length))
  yield* line(servers.map(({ enabled, name, server }) => `${enabled ? "+" : "-"} ${name.padEnd(width)}  ${server}`).join("\n"))
}, (effect, flags) => Effect.provide(effect, Config.layerAll(Flags.configOptions(flags))))

/** `NAME=VALUE` texts as a record. */
const pairs = Effect.fnUntraced(function*(flag: string, texts: ReadonlyArray<string>) {
  const out: Record<string, string> = {}
  for (const text of texts) {
    const at = text.indexOf("=")
    if (at < 1) return yield* usage(`--${flag} takes NAME=VALUE, not ${JSON.stringify(text.slice(0, 40))}`)
    out[text.slice(0, at)] = text.slice(at + 1)
  }
  return out
})

/** Flags of `add`. */
export interface Added extends Named {
  readonly command: string | undefined
  readonly arg: ReadonlyArray<string>
  readonly env: ReadonlyArray<string>
  readonly url: string | undefined
  readonly header: ReadonlyArray<string>
}

const sectionOf = Effect.fnUntraced(function*({ arg, command, env, header, url }: Added) {
  if ((command === undefined) === (url === undefined)) return yield* usage("pass --command or --url")
  if (url === undefined) {
    if (header.length > 0) return yield* usage("--header requires --url")
    const variables = yield* pairs("env", env)
    return {
      command,
      ...(arg.length === 0 ? {} : { args: arg }),
      ...(env.length === 0 ? {} : { env: variables })
    }
  }
  if (arg.length > 0 || env.length > 0) return yield* usage("--arg and --env require --command")
  if (!URL.canParse(url)) return yield* usage(`invalid --url ${url}: use an address such as https://host/mcp`)
  const headers = yield* pairs("header", header)
  return { url, ...(header.length === 0 ? {} : { headers }) }
})

const path = (name: string): ReadonlyArray<string> => ["mcp_servers", name]

/** Adds a server to `config.yaml`. */
export const add = Effect.fn("hermes mcp add")(function*(added: Added) {
  const { name } = added
  if (!/^[A-Za-z0-9][\w.-]*$/.test(name)) return yield* usage(`invalid server name "${name}": use letters, digits, - and _`)
  const section = yield* sectionOf(added)
  let known = false
  const { file, warnings } = yield* Edit.modify(path(name), (before) => {
    known = before !== undefined
    return before ?? section
  })
  if (known) return yield* usage(`there is a server "${name}" already: \`hermes mcp remove ${name}\` first`)
  for (const warning of warnings) yield* note(`Warning: ${warning}`)
  yield* line(`added ${name} to ${file}; \`hermes mcp test ${name}\` tries it`)
  yield* line(`Tools that may change things need approval. To skip it for some, list them in mcp_servers.${name}.trust.tools.`)
}, Effect.provide(Home.layer))

/** Removes a server from `config.yaml`. */
export const remove = Effect.fn("hermes mcp remove")(function*({ name }: Named) {
  let known = false
  const { file } = yield* Edit.modify(path(name), (before) => {
    known = before !== undefined
    return undefined
  })
  if (!known) return yield* unknownServer(name)
  yield* line(`removed ${name} from ${file}`)
}, Effect.provide(Home.layer))

/** The server of a name that wants a login, and its address. */
const wantingLogin = Effect.fnUntraced(function*(name: string) {
  const { mcpServers } = yield* Settings
  const section = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined
  if (section === undefined) return yield* unknownServer(name, mcpServers)
  const config = yield* Effect.mapError(ServerConfig.of(name, section), ({ message }) => usage(message))
  const { transport } = config
  if (transport._tag !== "Http") return yield* usage(`server "${name}" is started by a command: login requires a server with a url`)
  return { config, http: { ...transport, oauth: transport.oauth ?? {} } }
})

/** Logs in at a server by a browser. */
export const login = Effect.fn("hermes mcp login")(function*(_flags: Flags.Globals, { name }: Named) {
  const { config, http } = yield* wantingLogin(name)
  const logins = yield* McpLogins.Logins
  const output = yield* Output
  const port = http.oauth.redirectPort ?? 0
  const loopback = yield* Effect.mapError(
    Network.callbackPage(port, returnPage),
    (reason) => usage(`cannot use port ${port} (${reason}): set another oauth.redirect_port`)
  )
  const services = yield* Effect.context<never>()
  const open = (url: URL): void => {
    const told = output.err(`Open this page to log in to ${http.url.host}:\n\n  ${url.href}\n\nWaiting for the login …\n`)
    void Effect.runForkWith(services)(told)
  }
  yield* Effect.catchTag(
    SdkLogin.login(config, http, logins, { redirectUrl: loopback.url, state: loopback.state, returned: loopback.returned, open }),
    "McpError",
    ({ message }) => Effect.fail(notDone(message))
  )
  yield* line(`Logged in to ${name}`)
  const { mcpServers } = yield* Settings
  if (mcpServers[name]?.oauth === undefined) yield* note(`Note: set mcp_servers.${name}.oauth to true to use the login`)
}, Effect.scoped, Effect.provide(McpLogins.layer), Effect.provide(Home.layer), (effect, flags) =>
  Effect.provide(effect, Config.layerAll(Flags.configOptions(flags))))

/** Forgets the login at a server. */
export const logout = Effect.fn("hermes mcp logout")(function*({ name }: Named) {
  const logins = yield* McpLogins.Logins
  const forget = Effect.gen(function*() {
    const known = (yield* logins.get(name)) !== undefined
    if (known) yield* logins.set(name, undefined)
    return known
  })
  const known = yield* Effect.catchTag(forget, "McpError", ({ message }) => Effect.fail(notDone(message)))
  if (known) return yield* line(`Logged out of ${name}`)
  const { mcpServers } = yield* Effect.provide(Settings, Config.layerAll())
  if (!Object.hasOwn(mcpServers, name)) return yield* unknownServer(name, mcpServers)
  yield* line(`Not logged in to ${name}`)
}, Effect.provide(McpLogins.layer), Effect.provide(Home.layer))

/** Connects a server and prints what it has. */
export const test = Effect.fn("hermes mcp test")(function*(_flags: Flags.Globals, { json, name }: AsJson & Named) {
  const { mcpServers } = yield* Settings
  const section = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined
  if (section === undefined) return yield* unknownServer(name, mcpServers)
  const { connection, offered } = yield* Effect.gen(function*() {
    const config = yield* ServerConfig.of(name, section)
    const connection = yield* McpConnector.use(({ connect }) => connect(config))
    const chosen = McpNames.filter(config.include, config.exclude)
    const tools = connection.offers.tools ? yield* connection.listTools : []
    return { connection, offered: tools.filter((tool) => chosen(tool.name)) }
  }).pipe(
    Effect.provide(SdkClient.layer.pipe(Layer.provide(McpLogins.layer))),
    Effect.provide(Home.layer),
    Effect.catchTag("McpError", ({ message }) => Effect.fail(notDone(message)))
  )
  const tools = offered.map((tool) => ({ name: McpNames.tool(name, tool.name), description: tool.description ?? "" }))
  const { offers, protocol, server } = connection
  if (json) return yield* line(SafeText.json({ server, protocol, offers, tools }, 2))
  const rows = tools.map(({ description, name }) => `  ${name}  ${description.split("\n")[0] ?? ""}`.trimEnd())
  yield* line([`${server}, protocol ${protocol}: ${tools.length} tools`, ...rows].join("\n"))
}, Effect.scoped, (effect, flags) => Effect.provide(effect, Config.layerAll(Flags.configOptions(flags))))
