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
import { apiTypes } from "../domain/ApiMode.ts"
import { describeReason } from "../domain/PathProblem.ts"
import { findNearest } from "../domain/Similarity.ts"
import type { Flag } from "./Config.ts"
import * as ConfigFile from "./ConfigFile.ts"
import { toFullEntry } from "./Fields.ts"
import { Environment, Home } from "./Environment.ts"
import { FolderTrust, layer as trustLayer, makeUntrustedError } from "./FolderTrust.ts"
import * as Tree from "./internal/Tree.ts"
import * as Yaml from "./Yaml.ts"

/** An entry of `middlewares`. */
export interface MiddlewareEntry {
  readonly import: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

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

interface Kind {
  readonly expected: string
  /** Converts a value to the form of the settings. Returns `undefined` if the value does not fit. */
  readonly read: (value: unknown) => unknown
}

const text: Kind = {
  expected: "a text",
  read: (value) => (typeof value === "string" && value.trim() !== "" ? value : undefined)
}

const makeNumberKind = (expected: string, fits: (value: number) => boolean): Kind => ({
  expected,
  read: (value) => {
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value
    return typeof number === "number" && Number.isFinite(number) && fits(number) ? number : undefined
  }
})

const positive = makeNumberKind("a positive integer", (value) => Number.isInteger(value) && value > 0)
const seconds = makeNumberKind("a positive number of seconds", (value) => value > 0)
const temperature = makeNumberKind("a number from 0 to 2", (value) => value >= 0 && value <= 2)

const flag: Kind = {
  expected: "true or false",
  read: (value) =>
    typeof value === "string" ? Tree.parseBoolean(value) : typeof value === "boolean" ? value : undefined
}

const makeChoiceKind = (words: Readonly<Record<string, unknown>>): Kind => ({
  expected: `one of ${Object.keys(words).join(", ")}`,
  read: (value) => (typeof value === "string" && Object.hasOwn(words, value) ? words[value] : undefined)
})

const makeWordKind = (...words: ReadonlyArray<string>): Kind =>
  makeChoiceKind(Object.fromEntries(words.map((word) => [word, word])))

interface Key {
  readonly kind: Kind
  /** Setting that the key sets, under its name in `config.yaml`. */
  readonly setting?: string
}

/**
 * Keys of `llm_config`, and the settings that they set. `temperature` has no corresponding setting and applies only to
 * the agent.
 */
export const llmKeys: Readonly<Record<string, Key>> = {
  model: { kind: text, setting: "model.default" },
  provider: { kind: text, setting: "model.provider" },
  base_url: { kind: text, setting: "model.base_url" },
  api_key: { kind: text, setting: "model.api_key" },
  api_type: { kind: makeChoiceKind(apiTypes), setting: "model.api_mode" },
  max_tokens: { kind: positive, setting: "model.max_tokens" },
  temperature: { kind: temperature },
  stream: { kind: flag, setting: "model.streaming" },
  timeout: { kind: seconds, setting: "network.request_timeout_seconds" },
  max_retries: { kind: positive, setting: "agent.api_max_retries" },
  reasoning_effort: {
    kind: makeWordKind("none", "minimal", "low", "medium", "high", "xhigh"),
    setting: "agent.reasoning_effort"
  }
}

const keys: Readonly<Record<string, Key>> = {
  max_iterations: { kind: positive, setting: "agent.max_turns" },
  max_context_tokens: { kind: positive, setting: "model.context_length" },
  max_running_subagents: { kind: positive, setting: "delegation.max_concurrent_children" },
  retry_attempts: { kind: positive, setting: "agent.api_max_retries" },
  tool_call_mode: { kind: makeWordKind("structured") },
  type: { kind: makeWordKind("agent") },
  name: { kind: text },
  description: { kind: text },
  system_prompt_type: { kind: makeWordKind("string", "file") },
  system_prompt_suffix: { kind: text }
}

/** Keys of an agent file that hold nested values. Separate code reads each of them. */
const structured = [
  "system_prompt",
  "llm_config",
  "tools",
  "stop_tools",
  "output_schema",
  "sub_agents",
  "middlewares",
  "mcp_servers",
  "variables"
]

/** Transports of an MCP server, each with the key that contains its command or address. */
const transports: Readonly<Record<string, string>> = { stdio: "command", http: "url", sse: "url" }

/** Keys of an MCP server that have the same names in `config.yaml`. */
const ofServer = ["command", "args", "env", "url", "headers", "timeout", "sandbox"]

/** Keys described in the lifecycle document that are not supported, each with a remedy for the user. */
const unsupported: Readonly<Record<string, string>> = {
  plugins: "enable them with `hermes plugins enable`",
  skills: "install them with `hermes skills install`, or list their folders in skills.external_dirs in config.yaml",
  sandbox_config: "set terminal.backend in config.yaml, which is the user's decision",
  tracers: "enable an exporter in config.yaml or as a plugin",
  token_counter: "tokens are those that the provider counts; remove it",
  timeout: "set llm_config.timeout",
  ...Object.fromEntries(
    ["after_model_hooks", "after_tool_hooks", "before_model_hooks", "before_tool_hooks"].map((key) => [
      key,
      "write it as one of middlewares"
    ])
  ),
  ...Object.fromEntries(
    ["context", "initial_context"].map((key) => [key, "write it into system_prompt, by ${variables.…}"])
  ),
  ...Object.fromEntries(
    ["global_storage", "initial_config", "initial_state"].map((key) => [key, "keep state in a middleware (stateKey)"])
  ),
  retry_backoff_max_seconds: "remove it",
  source_id: "remove it",
  ...Object.fromEntries(
    [
      "additional_drop_params",
      "allow_unsigned_thinking",
      "cache_control_ttl",
      "connect_timeout_ms",
      "debug",
      "stream_idle_timeout_ms",
      "tokenizer_path",
      "tool_streaming"
    ].map((key) => [`llm_config.${key}`, "the provider's protocol decides it; remove it"])
  ),
  ...Object.fromEntries(
    ["frequency_penalty", "presence_penalty", "top_p"].map((key) => [
      `llm_config.${key}`,
      "requests carry temperature alone; rewrite them in a middleware, or remove it"
    ])
  )
}

/** Maximum size of the text of a system prompt, in bytes. */
const maxPromptBytes = 1_048_576

/** Settings that apply to a whole run. A sub-agent shares them with its parent, and its file must not set them. */
const ofRun: ReadonlySet<string> = new Set([
  "agent.api_max_retries",
  "delegation.max_concurrent_children",
  "model.context_length",
  "model.streaming",
  "network.request_timeout_seconds"
])

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

interface FileMistake {
  readonly path: ConfigFile.Path
  readonly message: string
}

const describeValue = (value: unknown): string =>
  value === undefined || value === null || value === ""
    ? "nothing"
    : Array.isArray(value)
      ? "a list"
      : Tree.isMapping(value)
        ? "a mapping"
        : typeof value === "string"
          ? "another text"
          : String(value)

/** Creates a reader for the parsed values of one file. The reader collects mistakes instead of failing at the first. */
const makeReader = (tree: Tree.Mapping, fileName: string, depth: number) => {
  const wrong: Array<FileMistake> = []
  const settings: Array<Flag> = []
  const recordWrong = (path: ConfigFile.Path, message: string): undefined => {
    wrong.push({ path, message })
    return undefined
  }

  const readScalar = (value: unknown, { kind, setting }: Key, path: ConfigFile.Path): unknown => {
    if (value === undefined || value === null) return undefined
    const read = kind.read(value)
    // The error does not contain the value, because it may be a secret.
    if (read === undefined) return recordWrong(path, `expected ${kind.expected}, got ${describeValue(value)}`)
    if (depth > 0 && setting !== undefined && ofRun.has(setting))
      return recordWrong(path, "not supported for a sub-agent: set it in the file of the main agent, or remove it")
    if (setting !== undefined)
      settings.push({ name: `${fileName}: ${Tree.formatPath(path)}`, key: setting, value: read })
    return read
  }

  const refuseUnknownKeys = (value: Tree.Mapping, known: ReadonlyArray<string>, at: ConfigFile.Path): void => {
    for (const key of Object.keys(value)) {
      if (known.includes(key)) continue
      const remedy = unsupported[Tree.formatPath([...at, key])]
      const meant = findNearest(key, known)
      recordWrong(
        [...at, key],
        remedy !== undefined
          ? `not supported in agent files: ${remedy}`
          : `unknown key${meant === undefined ? `; the keys are ${known.join(", ")}` : `; did you mean "${meant}"?`}`
      )
    }
  }

  const readMapping = (value: unknown, path: ConfigFile.Path): Tree.Mapping | undefined =>
    Tree.isMapping(value) ? value : recordWrong(path, `expected a mapping, got ${describeValue(value)}`)

  const readList = <A>(
    key: string,
    item: (value: unknown, path: ConfigFile.Path) => A | undefined
  ): ReadonlyArray<A> | undefined => {
    const value = tree[key]
    if (value === undefined || value === null) return undefined
    if (!Array.isArray(value)) return recordWrong([key], `expected a list, got ${describeValue(value)}`)
    return value.flatMap((one: unknown, index) => item(one, [key, index]) ?? [])
  }

  const readTextAt = (value: unknown, path: ConfigFile.Path): string | undefined => {
    const read = readScalar(value ?? "", { kind: text }, path)
    return typeof read === "string" ? read : undefined
  }

  const readKnownMapping = (value: unknown, path: ConfigFile.Path, known: ReadonlyArray<string>) => {
    const entry = readMapping(value, path)
    if (entry !== undefined) refuseUnknownKeys(entry, known, path)
    return entry
  }

  return {
    wrong,
    refuse: recordWrong,
    settings,
    scalar: (key: string): unknown => {
      const declared = keys[key]
      return declared === undefined ? undefined : readScalar(tree[key], declared, [key])
    },
    topKeys: () => refuseUnknownKeys(tree, [...Object.keys(keys), ...structured], []),
    llm: (): number | undefined => {
      const value = tree["llm_config"]
      if (value === undefined || value === null) return undefined
      const config = readMapping(value, ["llm_config"])
      if (config === undefined) return undefined
      refuseUnknownKeys(config, Object.keys(llmKeys), ["llm_config"])
      const read = Object.fromEntries(
        Object.entries(llmKeys).map(([key, declared]) => [key, readScalar(config[key], declared, ["llm_config", key])])
      )
      return typeof read["temperature"] === "number" ? read["temperature"] : undefined
    },
    systemPrompt: (): string | undefined => {
      const value = tree["system_prompt"]
      if (value === undefined || value === null) return undefined
      if (!Array.isArray(value)) return readTextAt(value, ["system_prompt"])
      return value.flatMap((one: unknown, index) => readTextAt(one, ["system_prompt", index]) ?? []).join("\n\n")
    },
    tools: () =>
      readList("tools", (value, path) => {
        if (typeof value === "string") return readTextAt(value, path)
        const entry = readKnownMapping(value, path, ["name"])
        return entry === undefined ? undefined : readTextAt(entry["name"], [...path, "name"])
      }),
    stopTools: () => readList("stop_tools", readTextAt),
    outputSchema: () =>
      tree["output_schema"] === undefined || tree["output_schema"] === null
        ? undefined
        : readMapping(tree["output_schema"], ["output_schema"]),
    middlewares: () =>
      readList("middlewares", (value, path): MiddlewareEntry | undefined => {
        const entry = readKnownMapping(toFullEntry(value, "import"), path, ["import", "params"])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["import"], [...path, "import"])
        const params =
          entry["params"] === undefined || entry["params"] === null
            ? undefined
            : readMapping(entry["params"], [...path, "params"])
        return name === undefined ? undefined : { import: name, ...(params === undefined ? {} : { params }) }
      }),
    mcpServers: () =>
      readList("mcp_servers", (value, path) => {
        if (depth > 0)
          return recordWrong(path, "not supported for a sub-agent: name the server in the file of the main agent")
        const entry = readKnownMapping(value, path, ["name", "type", ...ofServer])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["name"], [...path, "name"])
        const type = readScalar(entry["type"], { kind: makeWordKind(...Object.keys(transports)) }, [...path, "type"])
        if (name !== undefined && !/^[A-Za-z0-9][\w-]{0,63}$/.test(name))
          return recordWrong([...path, "name"], "expected letters, digits, - and _")
        const needed = typeof type === "string" ? transports[type] : undefined
        if (needed !== undefined) readTextAt(entry[needed], [...path, needed])
        else if (entry["command"] === undefined && entry["url"] === undefined)
          return recordWrong(path, "expected a command to start, or the url of a server that runs")
        const server = Object.fromEntries(
          Object.entries(entry).filter(([key, value]) => ofServer.includes(key) && value !== null)
        )
        // The file may come with a project, so its servers are sandboxed by default.
        settings.push({
          name: `${fileName}: ${Tree.formatPath(path)}`,
          key: `mcp_servers.${name}`,
          value: { sandbox: "workspace-write", ...server }
        })
        return name
      }),
    subAgents: () =>
      readList("sub_agents", (value, path) => {
        const entry = readKnownMapping(value, path, ["name", "config_path"])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["name"], [...path, "name"])
        const configPath = readTextAt(entry["config_path"], [...path, "config_path"])
        if (name !== undefined && !/^[\w-]{1,64}$/.test(name))
          return recordWrong([...path, "name"], "expected letters, digits, - and _")
        return name === undefined || configPath === undefined ? undefined : { name, configPath, path }
      })
  }
}

/** Makes the form of answers of a JSON Schema, or returns the reason for which it cannot be used. */
export const readOutput = (schema: AgentOutput["schema"]): Effect.Effect<AgentOutput | string> =>
  Effect.map(
    Effect.promise(() => import("../domain/JsonSchemaFormat.ts")),
    ({ readJsonSchema }) => {
      const read = readJsonSchema(schema)
      return Result.isSuccess(read) ? { schema, format: read.success } : read.failure
    }
  )

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
    const { refuse, scalar, wrong } = from
    wrong.push(...missing)
    from.topKeys()
    if (scalar("type") === undefined && raw["type"] === undefined) refuse([], "type is missing: write type: agent")
    const name = scalar("name")
    if (name === undefined && (raw["name"] === undefined || raw["name"] === null))
      refuse([], "name is missing: give the agent one")
    for (const key of [
      "max_iterations",
      "max_context_tokens",
      "max_running_subagents",
      "retry_attempts",
      "tool_call_mode"
    ])
      scalar(key)
    const isFile = scalar("system_prompt_type") === "file"
    const said = from.systemPrompt()
    const agent = {
      file,
      name: typeof name === "string" ? name : "",
      description: scalar("description"),
      systemPromptSuffix: scalar("system_prompt_suffix"),
      temperature: from.llm(),
      tools: from.tools(),
      middlewares: from.middlewares() ?? [],
      settings: from.settings
    }
    const stopTools = from.stopTools()
    const schema = from.outputSchema()
    const output = schema === undefined ? undefined : yield* readOutput(schema)
    if (typeof output === "string") refuse(["output_schema"], output)
    from.mcpServers()
    const entries = from.subAgents() ?? []
    if (depth >= maxDepth && entries.length > 0)
      refuse(["sub_agents"], "a sub-agent cannot have sub-agents of its own: list them in the file of the main agent")
    const twice = entries.find((one, index) => entries.findIndex((other) => other.name === one.name) < index)
    if (twice !== undefined)
      refuse([...twice.path, "name"], `two sub-agents are named "${twice.name}": rename one of them`)
    const failures: Array<ConfigError> = []
    const systemPrompt =
      said === undefined || !isFile
        ? said
        : yield* Effect.flatMap(resolveTrustedPath(paths.resolve(folder, said)), readText).pipe(
            Effect.catch(({ message }) => Effect.sync(() => refuse(["system_prompt"], message)))
          )
    const subAgents: Array<SubAgent> = []
    if (depth < maxDepth) {
      for (const { configPath, name, path: at } of entries) {
        const below = yield* Effect.result(readAgentFile(paths.resolve(folder, configPath), depth + 1))
        if (below._tag === "Success") subAgents.push({ name, agent: below.success })
        else if (below.failure.message.startsWith(`${real}:`)) refuse([...at, "config_path"], "this is the file itself")
        else failures.push(below.failure)
      }
    }
    const lines = yield* Effect.forEach(wrong, (one) => ConfigFile.makeError(file, one.path, one.message))
    const [first, ...more] = [...lines, ...failures]
    if (first !== undefined)
      return yield* new ConfigError({
        path: first.path,
        message: [first, ...more].map(({ message }) => message).join("\n")
      })
    return {
      ...agent,
      ...(stopTools === undefined ? {} : { stopTools }),
      ...(output === undefined || typeof output === "string" ? {} : { output }),
      description: typeof agent.description === "string" ? agent.description : undefined,
      systemPromptSuffix: typeof agent.systemPromptSuffix === "string" ? agent.systemPromptSuffix : undefined,
      systemPrompt,
      subAgents
    }
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
