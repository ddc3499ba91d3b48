/**
 * All commands of the program; those with the most parts have a file of their own. Without a command it is `chat`.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { configCommand } from "./ConfigCommand.ts"
import { cronCommand } from "./CronCommand.ts"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"
import { hooksCommand } from "./HooksCommand.ts"
import { mcpCommand } from "./McpCommand.ts"
import { modelCommand } from "./ModelCommand.ts"
import { pluginsCommand } from "./PluginsCommand.ts"
import { sessionsCommand } from "./SessionsCommand.ts"
import { toolsCommand } from "./ToolsCommand.ts"
import { traceCommand } from "./TraceCommand.ts"

const doctorCommand = Command.make(
  "doctor",
  {},
  () => Effect.flatMap(hermes, (shared) => perform(shared, () => import("./DoctorActions.ts"), ({ doctor }) => doctor(shared)))
).pipe(Command.withDescription("Check the installation and say how to fix problems"))

/** Runs `hermes chat`, and `hermes` without a command. */
const runChat = (flags: Flags.Globals & Flags.Chat) =>
  perform(flags, () => import("./ChatActions.ts"), ({ chat }) => chat(flags))

const chatCommand = Command.make(
  "chat",
  Flags.chat,
  (flags) => Effect.flatMap(hermes, (shared) => runChat({ ...shared, ...flags }))
).pipe(
  Command.withDescription("Start a conversation, or send one prompt with --query"),
  Command.withExamples([
    { command: "hermes chat", description: "Start a conversation" },
    { command: "git diff | hermes chat --query-file - --quiet", description: "Read a prompt from a pipe and print only the answer" }
  ])
)

const commands = [
  chatCommand, modelCommand, sessionsCommand, toolsCommand, pluginsCommand, hooksCommand, mcpCommand, cronCommand, traceCommand, configCommand, doctorCommand
] as const

/** The words that are commands. */
export const commandNames: ReadonlyArray<string> = commands.map(({ name }) => name)

export const root = hermes.pipe(
  Command.withHandler(runChat),
  Command.withSubcommands(commands)
)
