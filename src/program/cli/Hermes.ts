/**
 * The command `hermes`: the flags shared by every command, and all subcommands. Each subcommand is in a separate file
 * with its flags and its action. The file is loaded only if the command line names the subcommand; help needs only the
 * name and the description. The default command is `chat`.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import { researchNames } from "./ArgumentOrder.ts"
import * as Flags from "./Flags.ts"

/**
 * The command `hermes`. As an Effect, it returns the {@link Flags.Globals} of the command line to the handlers of its
 * subcommands.
 */
export const hermes = Command.make("hermes", Flags.chat).pipe(
  Command.withSharedFlags(Flags.globals),
  Command.withDescription("An agent for your terminal: calls a model and runs tools until a task is done."),
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

/** `hermes lab`: the commands for research. Each is also a command without `lab`, as in earlier versions. */
const loadLab = async () => {
  const [batch, evaluation, swe, rl] = await Promise.all([
    import("./BatchCommand.ts"),
    import("./EvalCommand.ts"),
    import("./SweCommand.ts"),
    import("./RlCommand.ts")
  ])
  return {
    command: Command.make("lab").pipe(
      Command.withSubcommands([
        Command.withDescription(batch.command, "Run the agent on a dataset, and process the trajectories"),
        Command.withDescription(evaluation.command, "Score a configuration on a dataset, and compare two results"),
        Command.withDescription(swe.command, "Solve software engineering tasks, and score patches"),
        Command.withDescription(rl.command, "Roll out environments for training, export episodes, train with an agent")
      ])
    )
  }
}

const everyday = [
  makeEntry("chat", "Start a conversation, or send one prompt (-q)", loadChat),
  makeEntry("sessions", "List, show, search, export and remove sessions", () => import("./SessionsCommand.ts")),
  makeEntry("backup", "Write all sessions and your files to one file", () => import("./BackupCommand.ts")),
  makeEntry("restore", "Restore sessions and files from a backup", () => import("./RestoreCommand.ts")),
  makeEntry("model", "Show, choose, test and save the model", () => import("./ModelCommand.ts")),
  makeEntry("config", "Show and change the settings", () => import("./ConfigCommand.ts")),
  makeEntry("doctor", "Check the installation, and explain problems", () => import("./DoctorCommand.ts")),
  makeEntry("memory", "Show and edit the memory across sessions", () => import("./MemoryCommand.ts")),
  makeEntry("skills", "List, show, install, check and remove skills", () => import("./SkillsCommand.ts")),
  makeEntry(
    "permissions",
    "List the rules for tool calls; which rule decides",
    () => import("./PermissionsCommand.ts")
  ),
  makeEntry("trust", "List, add and remove trusted folders", () => import("./TrustCommand.ts")),
  makeEntry("insights", "Show recent usage: models, tools, cost, errors", () => import("./InsightsCommand.ts")),
  makeEntry("cron", "Create, list and run scheduled jobs", () => import("./CronCommand.ts"))
] as const

const programming = [
  makeEntry("plugins", "List, enable, install, write and remove plugins", () => import("./PluginsCommand.ts")),
  makeEntry("mcp", "Manage MCP servers, or serve this agent as one", () => import("./McpCommand.ts")),
  makeEntry("agents", "List and check agent files", () => import("./AgentsCommand.ts")),
  makeEntry("tools", "List toolsets and tools; enable and disable them", () => import("./ToolsCommand.ts")),
  makeEntry("hooks", "List, test and revoke shell hooks; event schemas", () => import("./HooksCommand.ts")),
  makeEntry("middleware", "Show middleware, its order and failure policy", () => import("./MiddlewareCommand.ts")),
  makeEntry("prompt", "Show the system prompt and the size of its layers", () => import("./PromptCommand.ts")),
  makeEntry("trace", "Convert, validate, summarise and view run traces", () => import("./TraceCommand.ts")),
  makeEntry("serve", "Serve over HTTP: OpenAI's APIs, sessions, MCP", () => import("./ServeCommand.ts")),
  makeEntry("tenants", "Limits, usage and data of a server's tenants", () => import("./TenantsCommand.ts")),
  makeEntry("acp", "Serve editors over the Agent Client Protocol", () => import("./AcpCommand.ts")),
  makeEntry("cluster", "Run on several machines over one Postgres", () => import("./ClusterCommand.ts"))
] as const

const research = [makeEntry("lab", "batch, eval, swe, rl: datasets, scores, training", loadLab)] as const

const entries = [...everyday, ...programming, ...research] as const

/** Names of the commands. */
export const commandNames: ReadonlyArray<string> = [...entries.map(({ name }) => name), ...researchNames]

/**
 * Creates the command `hermes` for a command line, and loads the commands that it names. Shell completions are
 * generated from all commands.
 */
export const makeRootCommand = (argv: ReadonlyArray<string>) => {
  const all = argv.some((token) => token.startsWith("--completions"))
  const isNamed = (name: string): boolean => all || argv.includes(name)
  return Effect.map(
    Effect.all([
      Effect.all(everyday.map(({ make, name }) => make(isNamed(name)))),
      Effect.all(programming.map(({ make, name }) => make(isNamed(name)))),
      Effect.all(research.map(({ make, name }) => make(isNamed(name))))
    ]),
    ([everyday, programming, research]) =>
      hermes.pipe(
        Command.withHandler((flags) => Effect.flatMap(Effect.promise(loadChat), ({ runChat }) => runChat(flags))),
        Command.withSubcommands([
          { group: "EVERYDAY", commands: everyday },
          { group: "FOR PROGRAMMERS", commands: programming },
          { group: "FOR RESEARCH", commands: research }
        ]),
        Command.provideSync(References.MinimumLogLevel, ({ verbose }) => (verbose ? "Debug" : "Warn"))
      )
  )
}
