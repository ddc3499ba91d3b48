/**
 * All commands of the program. Without one it is `chat`.
 */
import * as Command from "effect/cli/Command"
import { chatCommand, run } from "./ChatCommand.ts"
import { configCommand } from "./ConfigCommand.ts"
import { cronCommand } from "./CronCommand.ts"
import { doctorCommand } from "./DoctorCommand.ts"
import { hermes } from "./Hermes.ts"
import { hooksCommand } from "./HooksCommand.ts"
import { mcpCommand } from "./McpCommand.ts"
import { modelCommand } from "./ModelCommand.ts"
import { pluginsCommand } from "./PluginsCommand.ts"
import { sessionsCommand } from "./SessionsCommand.ts"
import { toolsCommand } from "./ToolsCommand.ts"
import { traceCommand } from "./TraceCommand.ts"

const commands = [
  chatCommand, modelCommand, sessionsCommand, toolsCommand, pluginsCommand, hooksCommand, mcpCommand, cronCommand, traceCommand, configCommand, doctorCommand
] as const

/** The words that are commands. */
export const commandNames: ReadonlyArray<string> = commands.map(({ name }) => name)

export const root = hermes.pipe(
  Command.withHandler(run),
  Command.withSubcommands(commands)
)
