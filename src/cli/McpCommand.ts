/**
 * `hermes mcp`: the MCP servers whose tools runs get, and this agent as one for other programs.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./McpActions.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./McpActions.ts"), (actions) => work(actions, shared)))

const json = Flags.yes("json", "Print JSON")
const name = Argument.String("name").pipe(Argument.withDescription("Server name in the settings"))

const many = (flag: string, metavar: string, description: string) =>
  Flag.String(flag).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.atLeast(0))

const list = Command.make("list", { json }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("List configured servers")
)
const add = Command.make(
  "add",
  {
    name,
    command: Flags.text("command", "PROGRAM", "Command that starts the server"),
    arg: many("arg", "TEXT", "Argument of the command; repeatable"),
    env: many("env", "NAME=VALUE", "Environment variable of the command; repeatable; ${NAME} is expanded"),
    url: Flags.text("url", "URL", "Address of a running server"),
    header: many("header", "NAME=VALUE", "Header of every request; repeatable")
  },
  (flags) => act((actions) => actions.add(flags))
).pipe(Command.withDescription("Add a server with --command or --url"))
const remove = Command.make("remove", { name }, (flags) => act((actions) => actions.remove(flags))).pipe(
  Command.withDescription("Remove a server")
)
const test = Command.make("test", { name, json }, (flags) => act((actions, shared) => actions.test(shared, flags))).pipe(
  Command.withDescription("Connect to a server and list its tools")
)
const login = Command.make("login", { name }, (flags) => act((actions, shared) => actions.login(shared, flags))).pipe(
  Command.withDescription("Log in to a server in the browser")
)
const logout = Command.make("logout", { name }, (flags) => act((actions) => actions.logout(flags))).pipe(
  Command.withDescription("Log out of a server")
)
const serve = Command.make(
  "serve",
  { tools: Flags.text("tools", "A,B", "Read-only tools to offer besides the agent") },
  (flags) => Effect.flatMap(hermes, (shared) => perform(shared, () => import("./McpServe.ts"), ({ serve }) => serve(shared, flags)))
).pipe(Command.withDescription("Serve this agent to other programs over stdin and stdout"))

export const mcpCommand = Command.make("mcp", { json }, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("Manage MCP servers, or serve this agent as one"),
  Command.withSubcommands([list, add, remove, test, login, logout, serve])
)
