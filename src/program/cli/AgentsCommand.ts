/**
 * `hermes agents`: lists the named agent files, and checks an agent file.
 *
 * Source: `nexau.md` §6.
 */
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as AgentFile from "../../base/config/AgentFile.ts"
import * as Config from "../../base/config/Config.ts"
import { FolderTrust } from "../../base/config/FolderTrust.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as AgentChoice from "./AgentChoice.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Program } from "./Program.ts"
import { printLine, renderTable } from "./ProgramOutput.ts"
import * as RunOptions from "./RunOptions.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")

/** Describes a named agent file. Its content is read only if its folder is trusted. */
const describeAgentFile = Effect.fnUntraced(function* ({ name, path, source }: AgentChoice.AgentFilePlace) {
  const paths = yield* Path.Path
  const trust = yield* FolderTrust
  if (!(yield* trust.isTrusted(paths.dirname(path))))
    return { name, source, status: "not trusted", description: "", path }
  const read = yield* Effect.result(AgentFile.load(path))
  return Result.isSuccess(read)
    ? { name, source, status: "available", description: read.success.description ?? "", path }
    : { name, source, status: "wrong", description: read.failure.message.split("\n")[0] ?? "", path }
})

const listAgents = Effect.fn("hermes agents list")(function* ({ json }: { readonly json: boolean }) {
  const rows = yield* Effect.forEach(yield* AgentChoice.namedAgentFiles, describeAgentFile)
  if (json) return yield* printLine(SafeText.toJson(rows, 2))
  yield* printLine(
    rows.length === 0
      ? "No agents. Put agent files into agents/ of the home directory, or pass a path to --agent."
      : renderTable(
          rows.map(({ description, name, path, source, status }) =>
            [status, name, source, description === "" ? path : description].map(SafeText.toLine)
          )
        )
  )
}, Effect.provide(AgentChoice.layer))

const list = Command.make("list", { json }, listAgents).pipe(Command.withDescription("List named agent files"))

/**
 * Checks the agent file with its middleware, tools and route as a run does. Prints one line for each agent in the file.
 */
const checkAgentFile = Effect.fnUntraced(function* (reference: string) {
  const program = yield* Program
  const flags = yield* hermes
  const agentFile = yield* AgentFile.load(yield* AgentChoice.resolveReference(reference))
  const { settings } = yield* Config.load(Flags.toConfigOptions({ ...flags, agentFile }))
  const tools = Effect.flatMap(
    ToolRegistry.use(({ list }) => list),
    (sets) =>
      Effect.forEach(
        [agentFile, ...agentFile.subAgents.map(({ agent }) => agent)],
        (agent) => RunOptions.selectAgentTools(agent, sets, settings),
        { discard: true }
      )
  )
  // The runtime creates the middleware of all agents in the file.
  yield* Effect.provide(tools, program.layer(settings, { withoutModel: true, agentFile }))
  return [{ name: agentFile.name, agent: agentFile }, ...agentFile.subAgents].map(
    ({ agent, name }) =>
      `${name}: ${agent.file.name}: ok, ${agent.middlewares.length} middleware, ` +
      `${agent.tools === undefined ? "tools of the settings" : `tools ${agent.tools.join(", ")}`}`
  )
})

const check = Command.make(
  "check",
  {
    agent: Argument.String("agent").pipe(
      Argument.withDescription("Agent file, or its name; default: all named ones"),
      Argument.atLeast(0)
    )
  },
  Effect.fn("hermes agents check")(function* ({ agent }) {
    const references = agent.length > 0 ? agent : (yield* AgentChoice.namedAgentFiles).map(({ name }) => name)
    if (references.length === 0) return yield* makeUsageFailure("no agents: pass an agent file")
    for (const reference of references)
      yield* printLine((yield* checkAgentFile(reference)).map(SafeText.toLine).join("\n"))
  }, Effect.provide(AgentChoice.layer))
).pipe(Command.withDescription("Check an agent file: keys, middleware, tools, sub-agents"))

/** Without a subcommand, lists the agent files. */
export const command = Command.make("agents", { json }, listAgents).pipe(Command.withSubcommands([list, check]))
