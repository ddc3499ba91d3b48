// Each key that is accepted has code that reads it, or is marked as not supported yet.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import * as SettingsShape from "../../../src/base/config/internal/SettingsShape.ts"
import * as Tree from "../../../src/base/config/internal/Tree.ts"

/**
 * The reader of each key: the key, a file below `src`, and the name there of what the key belongs to, where that is not
 * the section's own. `<>` is a name that the user chose, or a position in a list. A key that gets an effect gets a line
 * here and loses its mark.
 */
const table = `
model.default                                                models/routing/ConfiguredRoutes.ts
model.provider                                               models/routing/ConfiguredRoutes.ts
model.base_url                                               models/routing/ConfiguredRoutes.ts
model.api_key                                                models/routing/ConfiguredRoutes.ts
model.api_mode                                               models/routing/ConfiguredRoutes.ts
model.max_tokens                                             program/runtime/SettingsMapping.ts
agent.max_turns                                              program/runtime/SettingsMapping.ts
terminal.backend                                             tools/ConfiguredEnvironment.ts
terminal.lifetime_seconds                                    tools/environment/RemoteSettings.ts
terminal.cwd                                                 tools/environment/RemoteSettings.ts
terminal.docker_binary                                       tools/environment/RemoteSettings.ts
terminal.docker_image                                        tools/environment/RemoteSettings.ts
terminal.docker_mount_cwd_to_workspace                       tools/environment/RemoteSettings.ts
terminal.docker_volumes                                      tools/environment/RemoteSettings.ts
terminal.docker_forward_env                                  tools/environment/RemoteSettings.ts
terminal.docker_env.<>                                       tools/environment/RemoteSettings.ts
terminal.docker_extra_args                                   tools/environment/RemoteSettings.ts
terminal.docker_run_as_host_user                             tools/environment/RemoteSettings.ts
terminal.container_cpu                                       tools/environment/RemoteSettings.ts
terminal.container_memory                                    tools/environment/RemoteSettings.ts
terminal.container_disk                                      tools/environment/RemoteSettings.ts
terminal.container_pids                                      tools/environment/RemoteSettings.ts
terminal.container_persistent                                tools/environment/RemoteSettings.ts
terminal.ssh_host                                            tools/environment/RemoteSettings.ts
terminal.ssh_user                                            tools/environment/RemoteSettings.ts
terminal.ssh_port                                            tools/environment/RemoteSettings.ts
terminal.ssh_key                                             tools/environment/RemoteSettings.ts
terminal.limits.cpu_seconds                                  tools/ConfiguredEnvironment.ts
terminal.limits.memory_mb                                    tools/ConfiguredEnvironment.ts
terminal.limits.processes                                    tools/ConfiguredEnvironment.ts
terminal.limits.output_mb                                    tools/ConfiguredEnvironment.ts
terminal.limits.temporary_mb                                 tools/ConfiguredEnvironment.ts
terminal.sandbox.required                                    tools/ConfiguredEnvironment.ts
terminal.sandbox.policy                                      tools/ConfiguredEnvironment.ts
terminal.sandbox.network                                     tools/environment/SandboxSettings.ts
terminal.sandbox.hosts                                       tools/environment/SandboxSettings.ts
terminal.sandbox.write                                       tools/environment/SandboxSettings.ts
terminal.sandbox.hide                                        tools/environment/SandboxSettings.ts
terminal.sandbox.hide_env_files                              tools/environment/SandboxSettings.ts
agent.environment_hint                                       program/runtime/SettingsMapping.ts
memory.memory_enabled                                        tools/prompt/MemoryStore.ts
memory.user_profile_enabled                                  tools/prompt/MemoryStore.ts
memory.memory_char_limit                                     tools/prompt/MemoryStore.ts
memory.user_char_limit                                       tools/prompt/MemoryStore.ts
memory.nudge_interval                                        program/runtime/SettingsMapping.ts
memory.provider                                              program/runtime/ProgramRuntime.ts
compression.enabled                                          program/runtime/SettingsMapping.ts
compression.threshold                                        program/runtime/SettingsMapping.ts
compression.target_ratio                                     program/runtime/SettingsMapping.ts
compression.protect_first_n                                  program/runtime/SettingsMapping.ts
compression.protect_last_n                                   program/runtime/SettingsMapping.ts
context.engine                                               program/runtime/SettingsMapping.ts
skills.creation_nudge_interval                               program/runtime/SettingsMapping.ts
skills.external_dirs                                         tools/ConfiguredSkills.ts
skills.disabled                                              tools/ConfiguredSkills.ts
skills.inline_shell                                          program/runtime/SettingsMapping.ts
skills.template_vars                                         tools/ConfiguredSkills.ts
prompt_caching.mode                                          program/runtime/SettingsMapping.ts
prompt_caching.cache_ttl                                     program/runtime/SettingsMapping.ts
prompt_caching.follow_pauses                                 program/runtime/SettingsMapping.ts
prompt_caching.keep_turn_context                             program/runtime/SettingsMapping.ts
agent.tool_use_enforcement                                   program/runtime/SettingsMapping.ts
agent.stop_tools                                             program/runtime/SettingsMapping.ts
agent.reasoning_effort                                       program/runtime/SettingsMapping.ts
plugins.payload_max_chars                                    program/runtime/SettingsMapping.ts
plugins.hook_callback_timeout                                program/runtime/SettingsMapping.ts
hooks_auto_accept                                            program/runtime/ProgramParts.ts
security.write_safe_root                                     program/runtime/SettingsMapping.ts
model.context_length                                         models/routing/ContextWindow.ts
custom_providers.<>.models.<>.context_length                 models/routing/ContextWindow.ts
model.ollama_num_ctx                                         models/routing/Catalogue.ts
model.price.input                                            models/routing/Pricing.ts                toConfiguredPrice
model.price.output                                           models/routing/Pricing.ts                toConfiguredPrice
model.price.cache_read                                       models/routing/Pricing.ts                toConfiguredPrice
model.price.cache_write                                      models/routing/Pricing.ts                toConfiguredPrice
model.price.request                                          models/routing/Pricing.ts                toConfiguredPrice
model.streaming                                              program/cli/RunOptions.ts
display.streaming                                            program/cli/RunOptions.ts
providers.<>.request_timeout_seconds                         models/routing/ConfiguredRoutes.ts
providers.<>.stale_timeout_seconds                           models/routing/ConfiguredRoutes.ts
providers.<>.models.<>.timeout_seconds                       models/routing/ConfiguredRoutes.ts
providers.<>.models.<>.stale_timeout_seconds                 models/routing/ConfiguredRoutes.ts
providers.<>.login_base_url                                  models/routing/Logins.ts
custom_providers.<>.name                                     models/routing/Routes.ts
custom_providers.<>.base_url                                 models/routing/Routes.ts
custom_providers.<>.api_key                                  models/routing/Routes.ts
custom_providers.<>.key_env                                  models/routing/Routes.ts
custom_providers.<>.api_mode                                 models/routing/Routes.ts
fallback_providers.<>.provider                               models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.model                                  models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.base_url                               models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_key                                models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.key_env                                models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_mode                               models/routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_key_env                            base/config/DerivedSettings.ts
fallback_model.api_key_env                                   base/config/DerivedSettings.ts
fallback_model.provider                                      models/routing/Routes.ts                 ModelSettings
fallback_model.model                                         models/routing/Routes.ts                 ModelSettings
fallback_model.base_url                                      models/routing/Routes.ts                 ModelSettings
fallback_model.api_key                                       models/routing/Routes.ts                 ModelSettings
fallback_model.key_env                                       models/routing/Routes.ts                 ModelSettings
fallback_model.api_mode                                      models/routing/Routes.ts                 ModelSettings
credential_pool_strategies.<>                                models/routing/ConfiguredRoutes.ts
provider_routing.only                                        models/routing/OpenRoute.ts              ProviderRouting
provider_routing.ignore                                      models/routing/OpenRoute.ts              ProviderRouting
provider_routing.order                                       models/routing/OpenRoute.ts              ProviderRouting
provider_routing.sort                                        models/routing/OpenRoute.ts              ProviderRouting
provider_routing.require_parameters                          models/routing/OpenRoute.ts              ProviderRouting
provider_routing.data_collection                             models/routing/OpenRoute.ts              ProviderRouting
auxiliary.<>.provider                                        models/routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.model                                           models/routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.base_url                                        models/routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.api_key                                         models/routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.api_mode                                        models/routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.timeout                                         models/routing/Auxiliary.ts              readAuxiliaryTask
bedrock.guardrail.guardrail_identifier                       base/config/DerivedSettings.ts
bedrock.guardrail.guardrail_version                          base/config/DerivedSettings.ts
bedrock.guardrail.stream_processing_mode                     base/config/DerivedSettings.ts
bedrock.guardrail.trace                                      base/config/DerivedSettings.ts
sessions.auto_prune                                          store/SessionRetention.ts       Settings
sessions.retention_days                                      store/SessionRetention.ts       Settings
sessions.vacuum_after_prune                                  store/SessionRetention.ts       Settings
sessions.min_interval_hours                                  store/SessionRetention.ts       Settings
network.request_timeout_seconds                              models/routing/ConfiguredRoutes.ts
network.stream_read_timeout_seconds                          models/routing/ConfiguredRoutes.ts
network.stream_stale_timeout_seconds                         models/routing/ConfiguredRoutes.ts
network.call_stale_timeout_seconds                           models/routing/ConfiguredRoutes.ts
network.stream_retries                                       program/runtime/ProgramRouter.ts
agent.api_max_retries                                        program/runtime/ProgramRouter.ts
agent.run_budget_seconds                                     program/runtime/SettingsMapping.ts
agent.run_budget_tokens                                      program/runtime/SettingsMapping.ts
agent.run_budget_dollars                                     program/runtime/SettingsMapping.ts
agent.run_budget_tool_calls                                  program/runtime/SettingsMapping.ts
delegation.max_spawn_depth                                   program/runtime/SettingsMapping.ts
delegation.max_concurrent_children                           program/runtime/SettingsMapping.ts
delegation.max_calls_per_step                                program/runtime/SettingsMapping.ts
delegation.max_iterations                                    program/runtime/SettingsMapping.ts
delegation.child_timeout_seconds                             program/runtime/SettingsMapping.ts
delegation.reasoning_effort                                  program/runtime/SettingsMapping.ts
delegation.inherit_mcp_toolsets                              program/runtime/SettingsMapping.ts
delegation.subagent_auto_approve                             program/runtime/SettingsMapping.ts
delegation.model                                             models/routing/ConfiguredRoutes.ts
delegation.provider                                          models/routing/ConfiguredRoutes.ts
delegation.base_url                                          models/routing/ConfiguredRoutes.ts
delegation.api_key                                           models/routing/ConfiguredRoutes.ts
delegation.api_mode                                          models/routing/ConfiguredRoutes.ts
tool_loop_guardrails.warnings_enabled                        program/runtime/SettingsMapping.ts
tool_loop_guardrails.hard_stop_enabled                       program/runtime/SettingsMapping.ts
tool_loop_guardrails.warn_after.exact_failure                program/runtime/SettingsMapping.ts
tool_loop_guardrails.warn_after.same_tool_failure            program/runtime/SettingsMapping.ts
tool_loop_guardrails.warn_after.idempotent_no_progress       program/runtime/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.exact_failure           program/runtime/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.same_tool_failure       program/runtime/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.idempotent_no_progress  program/runtime/SettingsMapping.ts
toolsets                                                     program/cli/RunOptions.ts
platform_toolsets.<>                                         program/cli/RunOptions.ts
disabled_toolsets                                            program/cli/RunOptions.ts
terminal.timeout                                             program/runtime/SettingsMapping.ts
terminal.env_passthrough                                     program/runtime/SettingsMapping.ts
questions.unanswered                                         program/runtime/SettingsMapping.ts
questions.wait                                               program/runtime/SettingsMapping.ts
questions.expires_after                                      program/runtime/SettingsMapping.ts
tool_output.max_bytes                                        program/runtime/SettingsMapping.ts
tool_output.max_lines                                        program/runtime/SettingsMapping.ts
tool_output.max_line_length                                  program/runtime/SettingsMapping.ts
file_read_max_chars                                          program/runtime/SettingsMapping.ts
prefill_messages_file                                        program/runtime/SettingsMapping.ts
security.redact_secrets                                      program/runtime/SettingsMapping.ts
terminal.oneshot_completion_wait_seconds                     program/cli/SingleQuery.ts
approvals.single_query_mode                                  program/cli/SingleQuery.ts
code_execution.mode                                          program/runtime/SettingsMapping.ts
code_execution.timeout                                       program/runtime/SettingsMapping.ts
code_execution.max_tool_calls                                program/runtime/SettingsMapping.ts
security.allow_private_urls                                  tools/fence/EgressGate.ts
security.unknown_hosts                                       tools/fence/EgressGate.ts
mcp_servers.<>.command                                       tools/mcp/ServerConfig.ts          section
mcp_servers.<>.args                                          tools/mcp/ServerConfig.ts          section
mcp_servers.<>.env.<>                                        tools/mcp/ServerConfig.ts          section
mcp_servers.<>.cwd                                           tools/mcp/ServerConfig.ts          section
mcp_servers.<>.url                                           tools/mcp/ServerConfig.ts          section
mcp_servers.<>.headers.<>                                    tools/mcp/ServerConfig.ts          section
mcp_servers.<>.timeout                                       tools/mcp/ServerConfig.ts          section
mcp_servers.<>.connect_timeout                               tools/mcp/ServerConfig.ts          section
mcp_servers.<>.keepalive                                     tools/mcp/ServerConfig.ts          section
mcp_servers.<>.supports_parallel_tool_calls                  tools/mcp/ServerConfig.ts          section
mcp_servers.<>.sandbox                                       tools/mcp/ServerConfig.ts          section
mcp_servers.<>.trust                                         tools/mcp/ServerConfig.ts          section
mcp_servers.<>.oauth                                         tools/mcp/ServerConfig.ts          section
mcp_servers.<>.tools.include                                 tools/mcp/ServerConfig.ts
mcp_servers.<>.tools.exclude                                 tools/mcp/ServerConfig.ts
mcp_servers.<>.sampling.enabled                              tools/mcp/ServerConfig.ts
mcp_servers.<>.elicitation.enabled                           tools/mcp/ServerConfig.ts
mcp_servers.<>.enabled                                       tools/mcp/McpServers.ts            section
cron.max_parallel_jobs                                       program/cli/CronRuns.ts
cron.preflight                                               program/cli/CronRuns.ts
cron.wrap_response                                           program/cli/CronRuns.ts
cron.jobs_may_schedule                                       program/cli/CronRuns.ts
cron.script_timeout_seconds                                  program/cli/CronRuns.ts
cron.run_timeout_seconds                                     program/cli/CronRuns.ts
approvals.cron_mode                                          program/cli/CronRuns.ts
store.url                                                    program/runtime/StoredSessions.ts
cluster.database_url                                         program/cli/ClusterSettings.ts
cluster.concurrency                                          program/cli/ClusterRuns.ts
cluster.drain_timeout_seconds                                program/cli/ClusterRuns.ts
cluster.budget_tokens                                        program/cli/ClusterRuns.ts
cluster.budget_dollars                                       program/cli/ClusterRuns.ts
cluster.retention_days                                       program/cli/ClusterRuns.ts
cluster.runs_cron                                            program/cli/ClusterSettings.ts
server.keys.<>.key                                           program/cli/ServeCommand.ts
server.keys.<>.key_env                                       program/cli/ServeCommand.ts
server.keys.<>.key_file                                      program/cli/ServeCommand.ts
server.keys.<>.tenant                                        program/cli/ServeCommand.ts
tenants.<>.per_run.tokens                                    agent/TenantSpending.ts
tenants.<>.per_run.dollars                                   agent/TenantSpending.ts
tenants.<>.per_day.tokens                                    agent/TenantLimits.ts
tenants.<>.per_day.dollars                                   agent/TenantLimits.ts
tenants.<>.per_month.tokens                                  agent/TenantLimits.ts
tenants.<>.per_month.dollars                                 agent/TenantLimits.ts
tenants.<>.calls_per_minute                                  agent/TenantLimits.ts
tenants.<>.concurrent_runs                                   agent/Tenants.ts
tenants.<>.unknown_prices.input                              agent/TenantSpending.ts
tenants.<>.unknown_prices.output                             agent/TenantSpending.ts
tenants.<>.tools                                             agent/Tenants.ts
tenants.<>.models                                            agent/TenantSpending.ts
tenants.<>.max_mode                                          agent/Tenants.ts
tenants.<>.workspace                                         agent/TenantWorkspaces.ts
tenants.<>.shares_workspace                                  agent/TenantWorkspaces.ts
tenants.<>.retention_days                                    agent/TenantData.ts
tenants.<>.reserve                                           agent/TenantSpending.ts
tenants.<>.routes.<>.provider                                program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.model                                   program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.base_url                                program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.api_key                                 program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.api_keys                                program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.key_env                                 program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.routes.<>.api_mode                                program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.provider                             program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.model                                program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.base_url                             program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.api_key                              program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.api_keys                             program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.key_env                              program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.auxiliary.<>.api_mode                             program/runtime/TenantRouteSettings.ts   TenantRoute
tenants.<>.shared_keys                                       program/runtime/TenantRouteSettings.ts   tenants
server.keys.<>.max_mode                                      serve/server/agent/AgentServer.ts
server.keys.<>.max_sessions                                  serve/server/agent/AgentServer.ts
server.keys.<>.max_requests                                  serve/server/ServedRoutes.ts
server.keys.<>.max_connections                               serve/server/ServedRoutes.ts
cron.timezone                                                program/runtime/SettingsMapping.ts
approvals.mode                                               tools/approval/ApprovalOrder.ts
approvals.default_mode                                       tools/approval/ApprovalOrder.ts
approvals.timeout                                            tools/approval/ApprovalOrder.ts
approvals.gateway_timeout                                    tools/approval/ApprovalOrder.ts
approvals.deny                                               tools/approval/ApprovalOrder.ts
approvals.unknown_commands                                   tools/approval/ApprovalOrder.ts
command_allowlist                                            tools/approval/ApprovalOrder.ts
permissions.allow                                            tools/approval/Permissions.ts
permissions.ask                                              tools/approval/Permissions.ts
permissions.deny                                             tools/approval/Permissions.ts
approvals.unattended_mode                                    program/cli/McpServe.ts
security.tirith_enabled                                      tools/fence/Scanner.ts
security.tirith_path                                         tools/fence/Scanner.ts
security.tirith_timeout                                      tools/fence/Scanner.ts
security.tirith_fail_open                                    tools/fence/Scanner.ts
plugins.enabled                                              agent/plugin/PluginManager.ts
plugins.disabled                                             agent/plugin/PluginManager.ts
plugins.entries.<>.<>                                        agent/plugin/PluginManager.ts
plugins.packages                                             program/runtime/ProgramParts.ts
middlewares.<>.import                                        agent/builtin/BuiltinMiddleware.ts      Entry
middlewares.<>.params.<>                                     agent/builtin/BuiltinMiddleware.ts      Entry
hooks.<>.<>.command                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.matcher                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.sandbox                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.timeout                                          hooks/ShellHookConfig.ts          entry
quick_commands.<>.type                                       program/cli/interactive/Interactive.ts
quick_commands.<>.command                                    program/cli/interactive/Interactive.ts
quick_commands.<>.target                                     program/cli/interactive/Interactive.ts
display.show_reasoning                                       program/cli/View.ts
display.show_cost                                            program/cli/View.ts
display.tool_progress                                        program/cli/View.ts
display.final_response_markdown                              program/cli/View.ts
display.tool_preview_length                                  program/cli/View.ts
display.resume_display                                       program/cli/interactive/SessionSwitch.ts
display.busy_input_mode                                      program/cli/interactive/BusyPrompt.ts
display.status_line                                          program/cli/InteractiveChat.ts
display.notify                                               program/cli/InteractiveChat.ts
display.notify_after_seconds                                 program/cli/InteractiveChat.ts
display.terminal_title                                       program/cli/InteractiveChat.ts
display.editing_mode                                         program/cli/interactive/Interactive.ts
display.theme                                                program/cli/render/Theme.ts
display.themes.<>.base                                       program/cli/render/Theme.ts
display.themes.<>.muted                                      program/cli/render/Theme.ts
display.themes.<>.accent                                     program/cli/render/Theme.ts
display.themes.<>.heading                                    program/cli/render/Theme.ts
display.themes.<>.link                                       program/cli/render/Theme.ts
display.themes.<>.success                                    program/cli/render/Theme.ts
display.themes.<>.warning                                    program/cli/render/Theme.ts
display.themes.<>.error                                      program/cli/render/Theme.ts
display.themes.<>.added                                      program/cli/render/Theme.ts
display.themes.<>.removed                                    program/cli/render/Theme.ts
display.themes.<>.keyword                                    program/cli/render/Theme.ts
display.themes.<>.string                                     program/cli/render/Theme.ts
display.themes.<>.comment                                    program/cli/render/Theme.ts
display.themes.<>.number                                     program/cli/render/Theme.ts
<provider>.<>.api_keys                                       models/routing/ConfiguredRoutes.ts
`

const wildcard = "<>"

/** Keys that can be set on their own. */
const leaves = (
  shape: Tree.Shape,
  path: ReadonlyArray<string> = []
): ReadonlyArray<{ readonly key: string; readonly shape: Tree.Shape }> => {
  switch (shape._tag) {
    case "Section":
      return Array.from(shape.fields).flatMap(([key, inside]) => leaves(inside, [...path, key]))
    case "MapOf":
      return leaves(shape.item, [...path, wildcard])
    case "ListOf":
      return shape.item._tag === "Section" ? leaves(shape.item, [...path, wildcard]) : [{ key: path.join("."), shape }]
    case "Value":
      return [{ key: path.join("."), shape }]
  }
}

const camelCase = (key: string): string => key.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())

/** The names of a key as the code has them: its own, and that of what it belongs to. */
const namesOf = (key: string): { readonly field: string; readonly owner: string } => {
  const names = key
    .split(".")
    .filter((name) => name !== wildcard)
    .map(camelCase)
  const [field = "", owner = field] = names.toReversed()
  return { field, owner: owner === "<provider>" ? "credentials" : owner }
}

const code = (file: string): string =>
  readFileSync(new URL(`../../../src/${file}`, import.meta.url), "utf8").replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "")

/** A field is read as a member, by its name in brackets, or by being taken out of its owner. */
const reads = (text: string, field: string): boolean =>
  new RegExp(String.raw`\.${field}\b|\["${field}"\]|[{,]\s*${field}\s*[,:}]|"${field}"(?=[^\n]*>)`).test(text)

const sources = readdirSync(new URL("../../../src", import.meta.url), { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts")
)

const rows = table
  .trim()
  .split("\n")
  .map((line) => {
    const [key = "", file = "", owner] = line.split(/\s+/)
    return { key, file, owner }
  })

const keys = leaves(SettingsShape.getRootShape())

/** Nothing reads the key; one that has an effect for some of its values is read. */
const isMarked = (shape: Tree.Shape): boolean => {
  const mark = Tree.readUnsupported(shape)
  return mark !== undefined && !(Array.isArray(mark.holds) && mark.holds.length > 1)
}

describe("the keys of the settings", () => {
  it("are read, or marked as not supported yet; none is both", () => {
    const read = new Set(rows.map(({ key }) => key))
    assert.strictEqual(read.size, rows.length)
    assert.deepStrictEqual(
      keys.filter(({ key, shape }) => !read.has(key) && !isMarked(shape)).map(({ key }) => key),
      []
    )
    assert.deepStrictEqual(
      keys.filter(({ key, shape }) => read.has(key) && isMarked(shape)).map(({ key }) => key),
      []
    )
    const known = new Set(keys.map(({ key }) => key))
    assert.deepStrictEqual(
      [...read].filter((key) => !known.has(key)),
      []
    )
  })

  it("are read where the table says", () => {
    const missing = rows.filter(({ file, key, owner }) => {
      const names = namesOf(key)
      const text = code(file)
      return !reads(text, names.field) || !new RegExp(String.raw`\b${owner ?? names.owner}\b`).test(text)
    })
    assert.deepStrictEqual(missing, [])
  })

  it("that are marked are read nowhere: what gets an effect loses its mark", () => {
    const marked = keys.filter(({ shape }) => isMarked(shape)).map(({ key }) => ({ key, ...namesOf(key) }))
    const all = sources
      .filter((file) => !file.startsWith("config/"))
      .map((file) => code(file).replaceAll(/`[^`]*`|"[^"\n]*"/g, ""))
    const read = marked.filter(({ field, owner }) => {
      const access = new RegExp(String.raw`\b${owner}\??\.${field}\b`)
      return field !== owner && all.some((text) => access.test(text))
    })
    assert.deepStrictEqual(read, [])
  })

  it("of side tasks name those that nothing does", () => {
    const auxiliary = SettingsShape.findShapeOfPath(["auxiliary"])
    const marked = auxiliary?._tag === "MapOf" ? (auxiliary.facts.unsupportedNames ?? []) : []
    assert.isNotEmpty(marked)
    const all = sources.map(code)
    const done = (task: string) => all.some((text) => new RegExp(String.raw`\b(?:ask|call)\("${task}"`).test(text))
    assert.deepStrictEqual(marked.filter(done), [])
    assert.deepStrictEqual(
      ["vision", "web_extract", "mcp", "title", "approval", "plugin"].filter((task) => !done(task)),
      []
    )
  })
})
