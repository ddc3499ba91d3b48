/**
 * `hermes mcp`: the MCP servers whose tools are available to runs, and this agent as an MCP server for other programs.
 *
 * Source: `hermes-product.md` §1.6 and §2.4.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import { describeProgramSandbox, UserPrograms } from "../../base/config/UserPrograms.ts"
import { makeUserPrograms } from "../../tools/environment/ConfiguredPrograms.ts"
import { McpConnector } from "../../tools/mcp/McpConnection.ts"
import * as McpLogins from "../../tools/mcp/McpLogins.ts"
import * as ServerConfig from "../../tools/mcp/ServerConfig.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { type Failure, makeWorkFailure, makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, printNote, Output, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")
const name = Argument.String("name").pipe(Argument.withDescription("Server name in the settings"))

const makeUnknownServerFailure = (name: string, servers: Readonly<Record<string, unknown>> = {}): Failure =>
  makeUnknownNameFailure("MCP server", name, { known: Object.keys(servers), list: "hermes mcp list" })

const describeLocation = ({ args, command, url }: ServerConfig.Section): string =>
  url ?? [command ?? "?", ...args].join(" ")

/**
 * Prints the configured servers, with the sandbox of servers that run on this machine. Values of variables and headers
 * are not shown.
 */
const listServers = Effect.fn("hermes mcp list")(function* ({ json }: { readonly json: boolean }) {
  const { mcpServers } = yield* Settings
  const servers = Object.entries(mcpServers).map(([name, section]) => ({
    name,
    enabled: section.enabled,
    server: describeLocation(section),
    sandbox: section.command === undefined ? null : section.sandbox,
    toolset: ServerConfig.formatToolsetName(name)
  }))
  if (json) return yield* printLine(SafeText.toJson(servers, 2))
  if (servers.length === 0)
    return yield* printLine("No MCP servers. Add one with `hermes mcp add NAME --command PROGRAM` or `--url URL`.")
  const width = Math.max(...servers.map(({ name }) => name.length))
  yield* printLine(
    servers
      .map(
        ({ enabled, name, sandbox, server }) =>
          `${enabled ? "+" : "-"} ${name.padEnd(width)}  ` +
          `${server}${sandbox === null ? "" : `  (sandbox: ${describeProgramSandbox(sandbox)})`}`
      )
      .join("\n")
  )
}, CommandSettings.provide)

const list = Command.make("list", { json }, listServers).pipe(Command.withDescription("List configured servers"))

/** Parses `NAME=VALUE` strings into a record. */
const parsePairs = Effect.fnUntraced(function* (flag: string, texts: ReadonlyArray<string>) {
  const out: Record<string, string> = {}
  for (const text of texts) {
    const at = text.indexOf("=")
    if (at < 1) return yield* makeUsageFailure(`--${flag} takes NAME=VALUE, not ${JSON.stringify(text.slice(0, 40))}`)
    out[text.slice(0, at)] = text.slice(at + 1)
  }
  return out
})

const serverFlags = {
  command: Flags.makeText("command", "PROGRAM", "Command that starts the server"),
  arg: Flags.makeTexts("arg", "TEXT", "Argument of the command; repeatable"),
  env: Flags.makeTexts("env", "NAME=VALUE", "Environment variable of the command; repeatable; ${NAME} is expanded"),
  url: Flags.makeText("url", "URL", "Address of a running server"),
  header: Flags.makeTexts("header", "NAME=VALUE", "Header of every request; repeatable")
}

const readSection = Effect.fnUntraced(function* ({ arg, command, env, header, url }: Flags.Parsed<typeof serverFlags>) {
  if ((command === undefined) === (url === undefined)) return yield* makeUsageFailure("pass --command or --url")
  if (url === undefined) {
    if (header.length > 0) return yield* makeUsageFailure("--header requires --url")
    const variables = yield* parsePairs("env", env)
    return { command, ...(arg.length === 0 ? {} : { args: arg }), ...(env.length === 0 ? {} : { env: variables }) }
  }
  if (arg.length > 0 || env.length > 0) return yield* makeUsageFailure("--arg and --env require --command")
  if (!URL.canParse(url))
    return yield* makeUsageFailure(`invalid --url ${url}: use an address such as https://host/mcp`)
  const headers = yield* parsePairs("header", header)
  return { url, ...(header.length === 0 ? {} : { headers }) }
})

const toSettingsPath = (name: string): ReadonlyArray<string> => ["mcp_servers", name]

/** Adds a server to `config.yaml`. */
const add = Command.make(
  "add",
  { name, ...serverFlags },
  Effect.fn("hermes mcp add")(function* ({ name, ...added }) {
    if (!/^[A-Za-z0-9][\w.-]*$/.test(name))
      return yield* makeUsageFailure(`invalid server name "${name}": use letters, digits, - and _`)
    const section = yield* readSection(added)
    let known = false
    const { file, warnings } = yield* Edit.modify(toSettingsPath(name), (before) => {
      known = before !== undefined
      return before ?? section
    })
    if (known)
      return yield* makeUsageFailure(`server "${name}" already exists: run \`hermes mcp remove ${name}\` first`)
    yield* printWarnings(warnings)
    yield* printLine(`added ${name} to ${file}; \`hermes mcp test ${name}\` tries it`)
    yield* printLine(
      `Its tools need approval. To skip it for some, list them in mcp_servers.${name}.trust.tools; to ` +
        "believe what the server says of " +
        `them, set mcp_servers.${name}.trust to annotations.`
    )
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Add a server with --command or --url"))

/** Removes a server from `config.yaml`. */
const remove = Command.make(
  "remove",
  { name },
  Effect.fn("hermes mcp remove")(function* ({ name }) {
    let known = false
    const { file } = yield* Edit.modify(toSettingsPath(name), (before) => {
      known = before !== undefined
      return undefined
    })
    if (!known) return yield* makeUnknownServerFailure(name)
    yield* printLine(`removed ${name} from ${file}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Remove a server"))

const findSection = Effect.fnUntraced(function* (name: string) {
  const { mcpServers } = yield* Settings
  const section = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined
  return section ?? (yield* makeUnknownServerFailure(name, mcpServers))
})

const programs = Effect.gen(function* () {
  return yield* makeUserPrograms(yield* Settings, { environment: yield* Environment, home: yield* Home })
})

const returnPage = "<!doctype html><title>hermes</title><p>You can close this page and go back to the terminal.</p>"

/** Finds the server with the given name, and its address. Fails if the server does not use a login. */
const findLoginServer = Effect.fnUntraced(function* (name: string) {
  const section = yield* findSection(name)
  const config = yield* Effect.mapError(ServerConfig.fromSection(name, section), ({ message }) =>
    makeUsageFailure(message)
  )
  const { transport } = config
  if (transport._tag !== "Http")
    return yield* makeUsageFailure(`server "${name}" is started by a command: login requires a server with a url`)
  return { config, http: { ...transport, oauth: transport.oauth ?? {} } }
})

/** Logs in to a server in a browser. */
const login = Command.make(
  "login",
  { name },
  Effect.fn("hermes mcp login")(
    function* ({ name }) {
      const { config, http } = yield* findLoginServer(name)
      const output = yield* Output
      const Network = yield* Effect.promise(() => import("../../base/platform/Network.ts"))
      const port = http.oauth.redirectPort ?? 0
      const loopback = yield* Effect.mapError(Network.openCallbackPage(port, returnPage), (reason) =>
        makeUsageFailure(`cannot use port ${port} (${reason}): set another oauth.redirect_port`)
      )
      const services = yield* Effect.context<never>()
      const showLoginPage = (url: URL): void => {
        const told = output.err(
          `Open this page to log in to ${http.url.host}:\n\n  ${url.href}\n\nWaiting for the login …\n`
        )
        void Effect.runForkWith(services)(told)
      }
      yield* Effect.catchTag(
        McpLogins.logIn(config, http, {
          redirectUrl: loopback.url,
          state: loopback.state,
          returned: loopback.returned,
          open: showLoginPage
        }),
        "McpError",
        ({ message }) => Effect.fail(makeWorkFailure(message))
      )
      yield* printLine(`Logged in to ${name}`)
      const { mcpServers } = yield* Settings
      if (mcpServers[name]?.oauth === undefined)
        yield* printNote(`Note: set mcp_servers.${name}.oauth to true to use the login`)
    },
    Effect.scoped,
    Effect.provide(McpLogins.layer),
    CommandSettings.provide
  )
).pipe(Command.withDescription("Log in to a server in the browser"))

/** Deletes the login of a server. */
const logout = Command.make(
  "logout",
  { name },
  Effect.fn("hermes mcp logout")(
    function* ({ name }) {
      const logins = yield* McpLogins.Logins
      const forget = Effect.gen(function* () {
        const known = (yield* logins.get(name)) !== undefined
        if (known) yield* logins.set(name, undefined)
        return known
      })
      const known = yield* Effect.catchTag(forget, "McpError", ({ message }) => Effect.fail(makeWorkFailure(message)))
      if (known) return yield* printLine(`Logged out of ${name}`)
      const { mcpServers } = yield* Effect.provide(Settings, Config.layerAll())
      if (!Object.hasOwn(mcpServers, name)) return yield* makeUnknownServerFailure(name, mcpServers)
      yield* printLine(`Not logged in to ${name}`)
    },
    Effect.provide(McpLogins.layer),
    Effect.provide(Home.layer)
  )
).pipe(Command.withDescription("Log out of a server"))

/** Connects to a server and prints its tools and other contents. */
const test = Command.make(
  "test",
  { name, json },
  Effect.fn("hermes mcp test")(
    function* ({ json, name }) {
      const section = yield* findSection(name)
      const [SdkClient, EgressGate, Urls] = yield* Effect.promise(() =>
        Promise.all([
          import("../../tools/mcp/McpSdkClient.ts"),
          import("../../tools/fence/EgressGate.ts"),
          import("../../tools/fence/Urls.ts")
        ])
      )
      const { connection, offered } = yield* Effect.gen(function* () {
        const config = yield* ServerConfig.fromSection(name, section)
        const connection = yield* McpConnector.use(({ connect }) => connect(config))
        const chosen = ServerConfig.makeNameFilter(config.include, config.exclude)
        const tools = connection.offers.tools ? yield* connection.listTools : []
        return { connection, offered: tools.filter((tool) => chosen(tool.name)) }
      }).pipe(
        Effect.provide(
          SdkClient.layer.pipe(
            Layer.provide([
              McpLogins.layer,
              Layer.effect(UserPrograms, programs),
              Layer.effect(Urls.UrlPolicy, Effect.map(Settings, EgressGate.policyFromSettings))
            ])
          )
        ),
        Effect.catchTag("McpError", ({ message }) => Effect.fail(makeWorkFailure(message)))
      )
      const tools = offered.map((tool) => ({
        name: ServerConfig.formatToolName(name, tool.name),
        description: tool.description ?? ""
      }))
      const { offers, protocol, server } = connection
      if (json) return yield* printLine(SafeText.toJson({ server, protocol, offers, tools }, 2))
      const rows = tools.map(({ description, name }) => `  ${name}  ${description.split("\n")[0] ?? ""}`.trimEnd())
      yield* printLine([`${server}, protocol ${protocol}: ${tools.length} tools`, ...rows].join("\n"))
    },
    Effect.scoped,
    CommandSettings.provide
  )
).pipe(Command.withDescription("Connect to a server and list its tools"))

const serve = Command.make(
  "serve",
  { tools: Flags.makeText("tools", "A,B", "Read-only tools to offer in addition to the agent") },
  (flags) =>
    Effect.flatMap(
      Effect.promise(() => import("./McpServe.ts")),
      ({ serve }) => serve(flags)
    )
).pipe(Command.withDescription("Serve this agent to other programs over stdin and stdout"))

/** The command `hermes mcp`. */
export const command = Command.make("mcp", { json }, listServers).pipe(
  Command.withSubcommands([list, add, remove, test, login, logout, serve])
)
