/**
 * The command `hermes`: the flags shared by every command, and all subcommands. Each subcommand is in a separate file
 * with its flags and its action. The file is loaded only if the command line names the subcommand; help needs only the
 * name and the description. The default command is `chat`.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Flags from "./Flags.ts"

/**
 * The command `hermes`. As an Effect, it returns the {@link Flags.Globals} of the command line to the handlers of its
 * subcommands.
 */
export const hermes = Command.make("hermes", Flags.chat).pipe(
  Command.withSharedFlags(Flags.globals),
  Command.withDescription(
    "An agent for your terminal: it calls a model, runs tools, and repeats until the task is done."
  ),
  Command.withExamples([
    { command: "hermes", description: "Start a conversation" },
    { command: "hermes -q 'What is in README.md?' -t file", description: "Send one prompt, with file tools" },
    { command: "hermes -c", description: "Resume the latest session of this folder" }
  ])
)

const loadChat = () => import("./ChatCommand.ts")

/** Creates a command of the program that is loaded only if the command line names it. */
const makeEntry = <const Name extends string, Input, ContextInput, E, R>(
  name: Name,
  description: string,
  load: () => Promise<{ readonly command: Command.Command<Name, Input, ContextInput, E, R> }>
) => ({
  name,
  make: (isNamed: boolean) =>
    isNamed
      ? Effect.map(Effect.promise(load), ({ command }) => Command.withDescription(command, description))
      : Effect.succeed(Command.withDescription(Command.make(name), description))
})

const entries = [
  makeEntry("chat", "Start a conversation, or send one prompt with --query", loadChat),
  makeEntry(
    "model",
    "Show the configured model; on a terminal, choose, test and save another one",
    () => import("./ModelCommand.ts")
  ),
  makeEntry(
    "sessions",
    "List, show, search, copy, export, import and remove sessions",
    () => import("./SessionsCommand.ts")
  ),
  makeEntry(
    "insights",
    "Show the usage of recent sessions: models, tools, cost, errors",
    () => import("./InsightsCommand.ts")
  ),
  makeEntry("prompt", "Show the system prompt and the size of its layers", () => import("./PromptCommand.ts")),
  makeEntry("tools", "List toolsets and tools, and show which are selected", () => import("./ToolsCommand.ts")),
  makeEntry("memory", "Show and edit the agent's memory across sessions", () => import("./MemoryCommand.ts")),
  makeEntry(
    "skills",
    "List, show, install, check and remove skills; accept proposed ones",
    () => import("./SkillsCommand.ts")
  ),
  makeEntry(
    "plugins",
    "List, enable, disable, install, update and remove plugins",
    () => import("./PluginsCommand.ts")
  ),
  makeEntry(
    "middleware",
    "Show the order, sources and failure policy of the middleware",
    () => import("./MiddlewareCommand.ts")
  ),
  makeEntry("agents", "List and check agent files", () => import("./AgentsCommand.ts")),
  makeEntry("trust", "List, add and remove trusted folders", () => import("./TrustCommand.ts")),
  makeEntry(
    "permissions",
    "List the rules for tool calls, and explain which rule decides",
    () => import("./PermissionsCommand.ts")
  ),
  makeEntry("hooks", "List, test and revoke shell hooks, and print event schemas", () => import("./HooksCommand.ts")),
  makeEntry("mcp", "Manage MCP servers, or serve this agent as one", () => import("./McpCommand.ts")),
  makeEntry("acp", "Serve editors over the Agent Client Protocol on stdin and stdout", () => import("./AcpCommand.ts")),
  makeEntry(
    "serve",
    "Serve the agent over HTTP: OpenAI's APIs, sessions with events, MCP; or rollouts",
    () => import("./ServeCommand.ts")
  ),
  makeEntry(
    "rl",
    "Roll out environments for training, export episodes, train with an agent",
    () => import("./RlCommand.ts")
  ),
  makeEntry("cron", "Create, list and run scheduled jobs", () => import("./CronCommand.ts")),
  makeEntry("batch", "Run the agent on a dataset, and process the trajectories", () => import("./BatchCommand.ts")),
  makeEntry("eval", "Score a configuration on a dataset, and compare two results", () => import("./EvalCommand.ts")),
  makeEntry("swe", "Solve software engineering tasks, and score patches", () => import("./SweCommand.ts")),
  makeEntry(
    "cluster",
    "Run on several machines over one Postgres database: runner, status, drain, submit",
    () => import("./ClusterCommand.ts")
  ),
  makeEntry("trace", "Convert, validate, summarise and view run traces", () => import("./TraceCommand.ts")),
  makeEntry("config", "Show and change the settings", () => import("./ConfigCommand.ts")),
  makeEntry("doctor", "Check the installation and explain how to fix problems", () => import("./DoctorCommand.ts"))
] as const

/** Names of the commands. */
export const commandNames: ReadonlyArray<string> = entries.map(({ name }) => name)

/**
 * Creates the command `hermes` for a command line, and loads the commands that it names. Shell completions are
 * generated from all commands.
 */
export const makeRootCommand = (argv: ReadonlyArray<string>) => {
  const all = argv.some((token) => token.startsWith("--completions"))
  return Effect.map(Effect.all(entries.map(({ make, name }) => make(all || argv.includes(name)))), (commands) =>
    hermes.pipe(
      Command.withHandler((flags) => Effect.flatMap(Effect.promise(loadChat), ({ runChat }) => runChat(flags))),
      Command.withSubcommands(commands),
      Command.provideSync(References.MinimumLogLevel, ({ verbose }) => (verbose ? "Debug" : "Warn"))
    )
  )
}
