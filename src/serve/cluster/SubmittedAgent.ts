/**
 * The agent that a client submits to the runners together with a run: its model, its limits and its agent file.
 *
 * **Details**
 *
 * The settings listed in {@link keys} are included if they differ from their defaults. For all other settings, the
 * runner's own values apply. The provider `auto` is replaced with the provider that the keys on this machine select. An
 * agent file is included as it was read, with its sub-agents. The content is stored once, under its digest, and runs
 * refer to the digest. A runner checks the format version and rejects unknown content.
 *
 * No secrets are sent: runners use their own API keys for models. Content that contains a known secret of this process
 * is rejected. Agent files are also rejected if they name files or programs on this machine, such as middleware modules
 * and MCP servers.
 *
 * Source: `hermes-llm.md` §20.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as BuiltinMiddleware from "../../agent/builtin/BuiltinMiddleware.ts"
import { type AgentFile, readOutput } from "../../base/config/AgentFile.ts"
import type { Flag } from "../../base/config/Config.ts"
import { Environment } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { SettingsSchema } from "../../base/config/SettingsSchema.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import { ClusterDatabase } from "./ClusterDatabase.ts"

/** Version of the content format. Other versions are refused. */
const formVersion = 1

/** Keys of the settings that a submission may include. */
const keys: ReadonlyArray<string> = [
  ...["default", "provider", "base_url", "api_mode", "max_tokens", "context_length", "ollama_num_ctx", "streaming"].map(
    (key) => `model.${key}`
  ),
  ...["input", "output", "cache_read", "cache_write", "request"].map((key) => `model.price.${key}`),
  ...[
    "api_max_retries",
    "reasoning_effort",
    "run_budget_seconds",
    "run_budget_tokens",
    "run_budget_dollars",
    "run_budget_tool_calls",
    "max_turns",
    "stop_tools",
    "tool_use_enforcement"
  ].map((key) => `agent.${key}`),
  ...["only", "ignore", "order", "sort", "require_parameters", "data_collection"].map(
    (key) => `provider_routing.${key}`
  ),
  ...["max_concurrent_children", "max_spawn_depth", "max_iterations"].map((key) => `delegation.${key}`),
  "network.request_timeout_seconds",
  "terminal.timeout",
  "fallback_providers",
  "toolsets",
  "disabled_toolsets"
]

const Setting = Schema.Struct({ key: Schema.Literals(keys), value: Schema.Json })

const part = {
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  systemPrompt: Schema.optionalKey(Schema.String),
  systemPromptSuffix: Schema.optionalKey(Schema.String),
  temperature: Schema.optionalKey(Schema.Finite),
  tools: Schema.optionalKey(Schema.Array(Schema.String)),
  stopTools: Schema.optionalKey(Schema.Array(Schema.String)),
  outputSchema: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  middlewares: Schema.Array(
    Schema.Struct({ import: Schema.String, params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)) })
  ),
  settings: Schema.Array(Setting)
}
const Part = Schema.Struct(part)

const Form = Schema.Struct({
  version: Schema.Literal(formVersion),
  settings: Schema.Array(Setting),
  /** Text of the prefill file, which contains example messages. */
  prefill: Schema.optionalKey(Schema.String),
  agent: Schema.optionalKey(
    Schema.Struct({ ...part, subAgents: Schema.Array(Schema.Struct({ name: Schema.String, agent: Part })) })
  )
})
type Form = typeof Form.Type

const decode = Schema.decodeUnknownEffect(Form)
const encodeSettings = Schema.encodeEffect(SettingsSchema)
const defaults = Effect.orDie(Effect.flatMap(Schema.decodeUnknownEffect(SettingsSchema)({}), encodeSettings))

const readSetting = (tree: unknown, key: string): unknown =>
  key.split(".").reduce((value, name) => Json.readFields(value)[name], tree)

/** Removes API keys from a setting. Fallback models may contain them. */
const removeKeys = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map((entry: unknown) => {
        if (typeof entry !== "object" || entry === null) return entry
        const { api_key: _, ...others } = Json.readFields(entry)
        return others
      })
    : value

/** Converts a value to JSON. */
const toJson = (value: unknown): Schema.Json => {
  // Settings are read from YAML or JSON, so this copy loses no values.
  const copied: Schema.Json = JSON.parse(JSON.stringify(value)) as Schema.Json
  return copied
}

/** Finds the route that `auto` selects on this machine. Returns `undefined` if no route has a key. */
const findAutoRoute = Effect.fnUntraced(function* (settings: Values) {
  if (settings.model.provider !== "auto") return undefined
  const chain = ConfiguredRoutes.resolveChain({ settings, environment: yield* Environment })
  if (chain._tag === "Failure") return undefined
  const [{ route }] = chain.success.entries
  return route.provider === "offline" ? undefined : route
})

const makeRefusal = (message: string): ConfigError => new ConfigError({ path: "cluster", message })

/** Fails if an agent file contains parts that depend on this machine. */
const refuseLocal = Effect.fnUntraced(function* ({ file, middlewares, settings }: AgentFile) {
  const local = middlewares.find((entry) => BuiltinMiddleware.find(entry.import) === undefined)
  if (local !== undefined) {
    return yield* makeRefusal(
      `${file.name}: middleware ${local.import} is code of this machine: ` +
        "name it in config.yaml of the runners, or use a bundled one"
    )
  }
  const server = settings.find(({ key }) => key.startsWith("mcp_servers."))
  if (server !== undefined)
    return yield* makeRefusal(
      `${server.name} is a program or address of this machine: name the server in config.yaml of the runners`
    )
})

const toAgentPart = ({
  description,
  middlewares,
  name,
  output,
  settings,
  stopTools,
  systemPrompt,
  systemPromptSuffix,
  temperature,
  tools
}: AgentFile): typeof Part.Type => ({
  name,
  ...(description === undefined ? {} : { description }),
  ...(systemPrompt === undefined ? {} : { systemPrompt }),
  ...(systemPromptSuffix === undefined ? {} : { systemPromptSuffix }),
  ...(temperature === undefined ? {} : { temperature }),
  ...(tools === undefined ? {} : { tools }),
  ...(stopTools === undefined ? {} : { stopTools }),
  ...(output === undefined
    ? {}
    : { outputSchema: Json.readFields(toJson(output.schema)) as Record<string, Schema.Json> }),
  middlewares: middlewares.map((entry) => ({
    import: entry.import,
    ...(entry.params === undefined
      ? {}
      : { params: Json.readFields(toJson(entry.params)) as Record<string, Schema.Json> })
  })),
  settings: settings.flatMap(({ key, value }) =>
    keys.includes(key) && value !== undefined ? [{ key, value: toJson(value) }] : []
  )
})

/** Makes the content of a submission from the settings on this machine. Fails with the parts that cannot be sent. */
export const buildContent = Effect.fnUntraced(function* (
  settings: Values,
  agentFile: AgentFile | undefined,
  prefill: string | undefined
) {
  const mine = yield* Effect.orDie(encodeSettings(settings))
  const usual = yield* defaults
  const route = yield* findAutoRoute(settings)
  const stated = new Map<string, unknown>(
    keys.flatMap((key) => {
      const value = readSetting(mine, key)
      return value === undefined || JSON.stringify(value) === JSON.stringify(readSetting(usual, key))
        ? []
        : [[key, removeKeys(value)]]
    })
  )
  if (route !== undefined) {
    stated.set("model.provider", route.provider)
    stated.set("model.default", route.model)
    // The base URL may come from an environment variable on this machine.
    if (route.provider === "custom") stated.set("model.base_url", route.baseUrl)
  }
  if (agentFile !== undefined) {
    yield* refuseLocal(agentFile)
    for (const { agent } of agentFile.subAgents) yield* refuseLocal(agent)
  }
  const form: Form = {
    version: formVersion,
    settings: Array.from(stated, ([key, value]) => ({ key, value: toJson(value) })),
    ...(prefill === undefined ? {} : { prefill }),
    // The collected settings already include the settings of the agent file.
    ...(agentFile === undefined
      ? {}
      : {
          agent: {
            ...toAgentPart(agentFile),
            settings: [],
            subAgents: agentFile.subAgents.map(({ agent, name }) => ({ name, agent: toAgentPart(agent) }))
          }
        })
  }
  const text = JSON.stringify(form)
  const address = readSetting(mine, "model.base_url")
  const { mask } = yield* Secrets
  if (
    mask(text) !== text ||
    (typeof address === "string" && URL.canParse(address) && new URL(address).password !== "")
  ) {
    return yield* makeRefusal(
      "the submission would carry a secret: keys stay on their machine; take it out of the agent file, " +
        "the prefill messages or model.base_url"
    )
  }
  return text
})

/** Stores content for the runners, and returns its digest. */
export const storeContent = Effect.fnUntraced(function* (text: string) {
  const { run, sql } = yield* ClusterDatabase
  const digest = Digest.toHex(text, 32)
  yield* run(sql`
    INSERT INTO agents (digest, content) VALUES (${digest}, ${text}) ON CONFLICT (digest) DO UPDATE SET used_at = clock_timestamp()`)
  return digest
})

/** Submitted content in the form that a runner uses. */
export interface RestoredAgent {
  /** Settings that override the settings of the runner. */
  readonly flags: ReadonlyArray<Flag>
  readonly agentFile: AgentFile | undefined
  readonly prefill: string | undefined
}

const toFlags = (settings: Form["settings"], name: string): ReadonlyArray<Flag> =>
  settings.map(({ key, value }) => ({ name, key, value }))

const toAgentFile = Effect.fnUntraced(function* (
  {
    description,
    middlewares,
    name,
    outputSchema,
    settings,
    stopTools,
    systemPrompt,
    systemPromptSuffix,
    temperature,
    tools
  }: typeof Part.Type,
  folder: string
): Effect.fn.Return<Omit<AgentFile, "subAgents">, ConfigError> {
  const output = outputSchema === undefined ? undefined : yield* readOutput(outputSchema)
  if (typeof output === "string") return yield* makeRefusal(`the output_schema of agent ${name} ${output}`)
  return {
    file: { name: `agent ${name} of the submission`, folder, text: Effect.succeed("") },
    name,
    description,
    systemPrompt,
    systemPromptSuffix,
    temperature,
    tools,
    ...(stopTools === undefined ? {} : { stopTools }),
    ...(output === undefined ? {} : { output }),
    middlewares,
    settings: toFlags(settings, `agent ${name} of the submission`)
  }
})

/** Decodes submitted content. `folder` replaces the folder of its agent file. */
export const readContent = Effect.fnUntraced(function* (
  text: string,
  folder: string
): Effect.fn.Return<RestoredAgent, ConfigError> {
  const value = Option.getOrUndefined(Json.parse(text))
  const { version } = Json.readFields(value)
  if (version !== formVersion) {
    return yield* makeRefusal(
      `the submission has form ${String(version)}, this runner reads ${formVersion}: ` +
        "submit with the version of the runners"
    )
  }
  const { agent, prefill, settings } = yield* Effect.mapError(decode(value), ({ message }) =>
    makeRefusal(`the submission cannot be read: ${message.replace(/\s+/gu, " ")}`)
  )
  const unbundled = [agent, ...(agent?.subAgents.map((sub) => sub.agent) ?? [])]
    .flatMap((one) => one?.middlewares ?? [])
    .find((entry) => BuiltinMiddleware.find(entry.import) === undefined)
  if (unbundled !== undefined)
    return yield* makeRefusal(
      `this version has no middleware ${JSON.stringify(unbundled.import)}, which the submission names`
    )
  const subAgents = yield* Effect.forEach(agent?.subAgents ?? [], (sub) =>
    Effect.map(toAgentFile(sub.agent, folder), (read) => ({ name: sub.name, agent: { ...read, subAgents: [] } }))
  )
  return {
    flags: toFlags(settings, "submission"),
    agentFile: agent === undefined ? undefined : { ...(yield* toAgentFile(agent, folder)), subAgents },
    prefill
  }
})

/** Reads the content with the given digest. */
export const load = Effect.fnUntraced(function* (digest: string, folder: string) {
  const { run, sql } = yield* ClusterDatabase
  const [row] = yield* run(
    sql<{
      readonly content: string
    }>`UPDATE agents SET used_at = clock_timestamp() WHERE digest = ${digest} RETURNING content`
  )
  if (row === undefined || Digest.toHex(row.content, 32) !== digest)
    return yield* makeRefusal(`the agent ${digest} of the submission is not in the database any more: submit it again`)
  return yield* readContent(row.content, folder)
})
