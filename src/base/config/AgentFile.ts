/**
 * Agent files: an agent as a YAML file, with its model, tools, middleware, sub-agents and system prompt.
 *
 * **Details**
 *
 * | key | meaning |
 * | --- | --- |
 * | `type` | `agent` |
 * | `name`, `description` | its name (required), and a one-line description |
 * | `system_prompt`, `system_prompt_suffix` | the agent's identity in the system prompt (a string or a list of strings), and text that is added after it |
 * | `system_prompt_type` | `string` (default), or `file`, with which `system_prompt` is the path of a text file |
 * | `llm_config` | see {@link llmKeys}; missing keys come from the user's settings if the route remains consistent |
 * | `tools` | names of toolsets and tools; without this key the user's settings apply |
 * | `sub_agents` | `{ name, config_path }`: agent files that this agent may delegate to |
 * | `middlewares` | `{ import, params }`, or only the import; they run after the middleware of `config.yaml` |
 * | `mcp_servers` | `{ name, type, command, args, env, url, headers, timeout, sandbox }`: servers in addition to those in `config.yaml`, for all agents of the run; `sandbox` defaults to `workspace-write` |
 * | `variables` | values for `${variables.…}` |
 * | `max_iterations`, `max_context_tokens`, `max_running_subagents`, `retry_attempts` | limits |
 * | `tool_call_mode` | `structured` |
 *
 * A file is read only if its folder is trusted (`FolderTrust`). Paths are relative to the file. All mistakes in a file
 * are reported together, each with the file, the line and the key.
 *
 * **Example** (Loading an agent file with the trusted folders of the user's home directory)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { AgentFile } from "hermes-effect/config"
 *
 * export const agentOf = (path: string, home: string) =>
 *   AgentFile.load(path).pipe(Effect.provide(AgentFile.layerAt(home)), Effect.provide(NodeServices.layer))
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import { ConfigError } from "../domain/AgentError.ts"
import type { AnswerFormat } from "../domain/AnswerFormat.ts"
import { describeReason } from "../domain/PathProblem.ts"
import { findNearest } from "../domain/Similarity.ts"
import type { Flag } from "./Config.ts"
import { limitKeys } from "./AgentFileKeys.ts"
import { makeReader, type MiddlewareEntry } from "./AgentFileReader.ts"
import * as ConfigFile from "./ConfigFile.ts"
import { Environment, Home } from "./Environment.ts"
import { FolderTrust, layer as trustLayer, makeUntrustedError } from "./FolderTrust.ts"
import * as Tree from "./internal/Tree.ts"
import * as Yaml from "./Yaml.ts"

export { llmKeys } from "./AgentFileKeys.ts"
export type { MiddlewareEntry } from "./AgentFileReader.ts"

/** The checked content of an agent file. */
export interface AgentFile {
  readonly file: ConfigFile.ConfigFile
  readonly name: string
  readonly description: string | undefined
  readonly systemPrompt: string | undefined
  readonly systemPromptSuffix: string | undefined
  /**
   * Settings that the file defines, under the keys of `config.yaml`, each named by its file and key for error messages.
   */
  readonly settings: ReadonlyArray<Flag>
  readonly temperature: number | undefined
  readonly tools: ReadonlyArray<string> | undefined
  /** Names of the tools whose successful call ends the run. */
  readonly stopTools?: ReadonlyArray<string> | undefined
  /** JSON Schema of the value in which each run ends, and the form of answers made from it. */
  readonly output?: AgentOutput | undefined
  readonly middlewares: ReadonlyArray<MiddlewareEntry>
  readonly subAgents: ReadonlyArray<SubAgent>
}

/** The output schema of an agent file. */
export interface AgentOutput {
  readonly schema: Readonly<Record<string, unknown>>
  readonly format: AnswerFormat<unknown>
}

/** An agent to which another agent may delegate work. */
export interface SubAgent {
  readonly name: string
  readonly agent: AgentFile
}

/** Maximum size of the text of a system prompt, in bytes. */
const maxPromptBytes = 1_048_576

/** Maximum nesting depth of sub-agents. A sub-agent's file is rejected if it declares sub-agents. */
const maxDepth = 1

type LoadServices = Environment | FileSystem.FileSystem | FolderTrust | Path.Path

/** Returns the real path of a file. Fails if its folder is not trusted. */
const resolveTrustedPath = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<string, ConfigError, LoadServices> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const trust = yield* FolderTrust
  const real = yield* Effect.catch(fs.realPath(path), (error) =>
    Effect.gen(function* () {
      const beside = yield* Effect.orElseSucceed(fs.readDirectory(paths.dirname(path)), () => [])
      const meant = findNearest(paths.basename(path), beside)
      return yield* new ConfigError({
        path,
        message: `${path}: ${describeReason(error)}${meant === undefined ? "" : `; did you mean ${meant}?`}`
      })
    })
  )
  const folder = paths.dirname(real)
  if (!(yield* trust.isTrusted(folder))) return yield* makeUntrustedError(real, yield* trust.findOwnProject(folder))
  return real
})

const readText = Effect.fnUntraced(function* (path: string): Effect.fn.Return<string, ConfigError, LoadServices> {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.gen(function* () {
    const { size } = yield* fs.stat(path)
    if (size > maxPromptBytes) return yield* new ConfigError({ path, message: `${path}: larger than 1 MiB` })
    return yield* fs.readFileString(path)
  }).pipe(
    Effect.mapError((error) =>
      error._tag === "ConfigError" ? error : new ConfigError({ path, message: `${path}: ${describeReason(error)}` })
    )
  )
})

/** Makes the form of answers of a JSON Schema, or returns the reason for which it cannot be used. */
export const readOutput = (schema: AgentOutput["schema"]): Effect.Effect<AgentOutput | string> =>
  Effect.map(
    Effect.promise(() => import("../domain/JsonSchemaFormat.ts")),
    ({ readJsonSchema }) => {
      const read = readJsonSchema(schema)
      return Result.isSuccess(read) ? { schema, format: read.success } : read.failure
    }
  )

type FileReader = ReturnType<typeof makeReader>

/** Reads the values of an agent file that need no other file, and collects their mistakes in the reader. */
const readOwnValues = Effect.fnUntraced(function* (from: FileReader, raw: Tree.Mapping) {
  const { refuse, scalar } = from
  from.topKeys()
  if (scalar("type") === undefined && raw["type"] === undefined) refuse([], "type is missing: write type: agent")
  const name = scalar("name")
  if (name === undefined && (raw["name"] === undefined || raw["name"] === null))
    refuse([], "name is missing: give the agent one")
  for (const key of limitKeys) scalar(key)
  const description = scalar("description")
  const systemPromptSuffix = scalar("system_prompt_suffix")
  const values = {
    name: typeof name === "string" ? name : "",
    description: typeof description === "string" ? description : undefined,
    systemPromptSuffix: typeof systemPromptSuffix === "string" ? systemPromptSuffix : undefined,
    temperature: from.llm(),
    tools: from.tools(),
    middlewares: from.middlewares() ?? []
  }
  const stopTools = from.stopTools()
  const schema = from.outputSchema()
  const output = schema === undefined ? undefined : yield* readOutput(schema)
  if (typeof output === "string") refuse(["output_schema"], output)
  from.mcpServers()
  return {
    ...values,
    ...(stopTools === undefined ? {} : { stopTools }),
    ...(output === undefined || typeof output === "string" ? {} : { output })
  }
})

/** Reads the system prompt: the text in the file, or the file that it names. */
const readSystemPrompt = Effect.fnUntraced(function* (from: FileReader, folder: string) {
  const paths = yield* Path.Path
  const isFile = from.scalar("system_prompt_type") === "file"
  const written = from.systemPrompt()
  if (written === undefined || !isFile) return written
  return yield* Effect.flatMap(resolveTrustedPath(paths.resolve(folder, written)), readText).pipe(
    Effect.catch(({ message }) => Effect.sync(() => from.refuse(["system_prompt"], message)))
  )
})

/** Reads the files of the sub-agents. Returns the mistakes in these files beside the agents that could be read. */
const readSubAgents = Effect.fnUntraced(function* (
  from: FileReader,
  place: { readonly path: string; readonly folder: string; readonly depth: number }
) {
  const paths = yield* Path.Path
  const entries = from.subAgents() ?? []
  const agents: Array<SubAgent> = []
  const failures: Array<ConfigError> = []
  const twice = entries.find((one, index) => entries.findIndex((other) => other.name === one.name) < index)
  if (twice !== undefined)
    from.refuse([...twice.path, "name"], `two sub-agents are named "${twice.name}": rename one of them`)
  if (place.depth >= maxDepth) {
    if (entries.length > 0)
      from.refuse(
        ["sub_agents"],
        "a sub-agent cannot have sub-agents of its own: list them in the file of the main agent"
      )
    return { agents, failures }
  }
  for (const { configPath, name, path: at } of entries) {
    const below = yield* Effect.result(readAgentFile(paths.resolve(place.folder, configPath), place.depth + 1))
    if (below._tag === "Success") agents.push({ name, agent: below.success })
    else if (below.failure.message.startsWith(`${place.path}:`))
      from.refuse([...at, "config_path"], "this is the file itself")
    else failures.push(below.failure)
  }
  return { agents, failures }
})

const readAgentFile: (path: string, depth: number) => Effect.Effect<AgentFile, ConfigError, LoadServices> =
  Effect.fnUntraced(function* (path, depth) {
    const paths = yield* Path.Path
    const environment = yield* Environment
    const real = yield* resolveTrustedPath(path)
    const source = yield* readText(real)
    const folder = paths.dirname(real)
    const file: ConfigFile.ConfigFile = { name: real, folder, text: Effect.succeed(source) }
    const raw = yield* Yaml.read(source, real)
    if (!Tree.isMapping(raw))
      return yield* new ConfigError({
        path: real,
        message: `${real}: expected a mapping of keys such as type, name and system_prompt`
      })
    const { variables = undefined } = raw
    const { missing, tree } = ConfigFile.expand(raw, {
      folder,
      variable: environment.get,
      variables: variables ?? undefined
    })
    const from = makeReader(Tree.isMapping(tree) ? tree : {}, real, depth)
    from.wrong.push(...missing)
    const values = yield* readOwnValues(from, raw)
    const systemPrompt = yield* readSystemPrompt(from, folder)
    const { agents, failures } = yield* readSubAgents(from, { path: real, folder, depth })
    const mistakes = yield* Effect.forEach(from.wrong, (one) => ConfigFile.makeError(file, one.path, one.message))
    const [first, ...more] = [...mistakes, ...failures]
    if (first !== undefined)
      return yield* new ConfigError({
        path: first.path,
        message: [first, ...more].map(({ message }) => message).join("\n")
      })
    return { ...values, file, settings: from.settings, systemPrompt, subAgents: agents }
  })

/** Reads the agent file at an absolute path and the files of its sub-agents. */
export const load = (path: string): Effect.Effect<AgentFile, ConfigError, LoadServices> => readAgentFile(path, 0)

/**
 * Provides the services for {@link load} with a given home directory, which contains the list of trusted folders and
 * the `.env` file.
 */
export const layerAt = (
  home: string
): Layer.Layer<Environment | FolderTrust, ConfigError, FileSystem.FileSystem | Path.Path> =>
  Layer.merge(Environment.layer, trustLayer).pipe(Layer.provide(Home.layerAt(home)))
