/**
 * All settings as one typed value: `config.yaml`, environment and flags decoded by one Schema.
 *
 * **Details**
 *
 * Keys are snake_case in the file and camelCase here; `agent.max_turns` is `settings.agent.maxTurns`. Times are seconds
 * where the name says nothing else. A key without a default is absent unless it was set. Secrets are `Redacted`. The
 * sections are described where they are defined: in `ModelSettings`, `AgentSettings`, `ToolSettings`, `SafetySettings` and
 * `ProgramSettings`.
 *
 * Where the specifications give values of several periods, the defaults are those of the period that the documents
 * describe, unless `ARCHITECTURE.md` §7 decides.
 *
 * **Gotchas**
 *
 * Encoding masks every secret: the encoded form is for showing. `Edit` changes the file.
 *
 * Source: `hermes-llm.md` §21, `hermes-product.md` §6, `ARCHITECTURE.md` §8.
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import * as Agent from "./AgentSettings.ts"
import * as F from "./Fields.ts"
import * as Model from "./ModelSettings.ts"
import * as Program from "./ProgramSettings.ts"
import type { RouteSources } from "./RouteSources.ts"
import * as Tool from "./ToolSettings.ts"

const fields = {
  model: Model.model,
  providers: F.withDefault(F.mapOf(Model.provider), {}),
  customProviders: F.withDefault(Schema.Array(Model.customProvider), []),
  fallbackProviders: F.withDefault(Schema.Array(Model.fallback), []),
  /** The older form of a chain of one; counts when `fallbackProviders` is empty. */
  fallbackModel: F.optional(Model.fallback),
  credentialPoolStrategies: F.withDefault(F.mapOf(Model.poolStrategy), {}),
  providerRouting: Model.providerRouting,
  /** By task; these tasks are the contract's, and not done yet. */
  auxiliary: F.withDefault(
    F.mapWithout(Model.auxiliary, ["compression", "summary", "session_search", "skills_hub", "flush_memories"]),
    {}
  ),
  bedrock: Model.bedrock,
  network: Model.network,

  agent: Agent.agent,
  delegation: Agent.delegation,
  toolLoopGuardrails: Agent.toolLoopGuardrails,
  compression: Agent.compression,
  context: Agent.context,
  promptCaching: Agent.promptCaching,
  memory: Agent.memory,
  skills: Agent.skills,
  /** JSON file with messages that follow the system prompt of every call. */
  prefillMessagesFile: F.optional(F.text),

  toolsets: F.withDefault(F.texts, ["hermes-cli"]),
  platformToolsets: F.withDefault(F.mapOf(F.texts), {}),
  disabledToolsets: F.withDefault(F.texts, []),
  terminal: Tool.terminal,
  toolOutput: Tool.toolOutput,
  fileReadMaxChars: F.withDefault(F.positive, 100_000),
  codeExecution: Tool.codeExecution,
  mcpServers: F.withDefault(F.mapOf(Tool.mcpServer), {}),
  cron: Tool.cron,

  approvals: Tool.approvals,
  /** Commands that were approved for good. */
  commandAllowlist: F.withDefault(F.texts, []),
  security: Tool.security,

  plugins: Program.plugins,
  hooks: F.withDefault(F.mapOf(Schema.Array(Program.shellHook)), {}),
  hooksAutoAccept: F.withDefault(F.wordyFlag, false),
  quickCommands: F.withDefault(F.mapOf(Program.quickCommand), {}),
  display: Program.display,
  sessions: Program.sessions,
  logging: Program.logging,
  database: Program.database
}

/** Keys that are not the snake_case of their field's name. `<provider>` is where the loader puts the `<provider>.api_keys`. */
const renamed = { credentials: "<provider>", configVersion: "_config_version" } as const

/** The key in the file of a field of any section. */
export const fileKey = (name: string): string =>
  name === "credentials" || name === "configVersion" ? renamed[name] : F.snakeCase(name)

/** Key under which the loader gathers the `<provider>.api_keys`; see {@link fileKey}. */
export const providerKeysKey = renamed.credentials

/** The Schema of the whole; its encoded side is the file. */
export const SettingsSchema = Schema.Struct({
  ...fields,
  /** Keys of `<provider>.api_keys`, by provider. */
  credentials: F.withDefault(F.mapOf(Model.providerKeys), {}),
  /** Layout of the file; a mark for migrations. */
  configVersion: F.optional(F.unsupported(F.count, { holds: "any" }))
}).pipe(Schema.encodeKeys({ ...F.fileKeys(fields), ...renamed }))

/** The decoded settings, with the sources of their routes. */
export type Values = typeof SettingsSchema.Type & {
  /** Sources of the parts of routes; absent where an application gives the settings itself. */
  readonly sources?: RouteSources | undefined
}

/**
 * The settings of this process, fixed when it starts.
 *
 * @see {@link Values} for its members.
 */
export class Settings extends Context.Service<Settings, Values>()("hermes-effect/config/Settings") {}
