// Each key that is accepted has code that reads it, or is marked as not supported yet.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import * as Tree from "../../src/config/internal/Tree.ts"

/**
 * The reader of each key: the key, a file below `src`, and the name there of what the key belongs to, where that is not
 * the section's own. `<>` is a name that the user chose, or a position in a list. A key that gets an effect gets a line
 * here and loses its mark.
 */
const table = `
model.default                                                routing/ConfiguredRoutes.ts
model.provider                                               routing/ConfiguredRoutes.ts
model.base_url                                               routing/ConfiguredRoutes.ts
model.api_key                                                routing/ConfiguredRoutes.ts
model.api_mode                                               routing/ConfiguredRoutes.ts
model.max_tokens                                             internal/SettingsMapping.ts
agent.max_turns                                              internal/SettingsMapping.ts
terminal.backend                                             tool/ConfiguredEnvironment.ts
terminal.lifetime_seconds                                    tool/ConfiguredEnvironment.ts
terminal.cwd                                                 tool/ConfiguredEnvironment.ts
terminal.docker_binary                                       tool/ConfiguredEnvironment.ts
terminal.docker_image                                        tool/ConfiguredEnvironment.ts
terminal.docker_mount_cwd_to_workspace                       tool/ConfiguredEnvironment.ts
terminal.docker_volumes                                      tool/ConfiguredEnvironment.ts
terminal.docker_forward_env                                  tool/ConfiguredEnvironment.ts
terminal.docker_env.<>                                       tool/ConfiguredEnvironment.ts
terminal.docker_extra_args                                   tool/ConfiguredEnvironment.ts
terminal.docker_run_as_host_user                             tool/ConfiguredEnvironment.ts
terminal.container_cpu                                       tool/ConfiguredEnvironment.ts
terminal.container_memory                                    tool/ConfiguredEnvironment.ts
terminal.container_disk                                      tool/ConfiguredEnvironment.ts
terminal.container_pids                                      tool/ConfiguredEnvironment.ts
terminal.container_persistent                                tool/ConfiguredEnvironment.ts
terminal.ssh_host                                            tool/ConfiguredEnvironment.ts
terminal.ssh_user                                            tool/ConfiguredEnvironment.ts
terminal.ssh_port                                            tool/ConfiguredEnvironment.ts
terminal.ssh_key                                             tool/ConfiguredEnvironment.ts
terminal.limits.cpu_seconds                                  tool/ConfiguredEnvironment.ts
terminal.limits.memory_mb                                    tool/ConfiguredEnvironment.ts
terminal.limits.processes                                    tool/ConfiguredEnvironment.ts
terminal.limits.output_mb                                    tool/ConfiguredEnvironment.ts
terminal.limits.temporary_mb                                 tool/ConfiguredEnvironment.ts
terminal.sandbox.required                                    tool/ConfiguredEnvironment.ts
terminal.sandbox.policy                                      tool/ConfiguredEnvironment.ts
terminal.sandbox.network                                     tool/ConfiguredEnvironment.ts
terminal.sandbox.hosts                                       tool/ConfiguredEnvironment.ts
terminal.sandbox.write                                       tool/ConfiguredEnvironment.ts
terminal.sandbox.hide                                        tool/ConfiguredEnvironment.ts
terminal.sandbox.hide_env_files                              tool/ConfiguredEnvironment.ts
agent.environment_hint                                       internal/SettingsMapping.ts
memory.memory_enabled                                        prompt/MemoryStore.ts
memory.user_profile_enabled                                  prompt/MemoryStore.ts
memory.memory_char_limit                                     prompt/MemoryStore.ts
memory.user_char_limit                                       prompt/MemoryStore.ts
memory.nudge_interval                                        internal/SettingsMapping.ts
memory.provider                                              internal/ProgramRuntime.ts
compression.enabled                                          internal/SettingsMapping.ts
compression.threshold                                        internal/SettingsMapping.ts
compression.target_ratio                                     internal/SettingsMapping.ts
compression.protect_first_n                                  internal/SettingsMapping.ts
compression.protect_last_n                                   internal/SettingsMapping.ts
context.engine                                               internal/SettingsMapping.ts
skills.creation_nudge_interval                               internal/SettingsMapping.ts
skills.external_dirs                                         tool/ConfiguredSkills.ts
skills.disabled                                              tool/ConfiguredSkills.ts
skills.inline_shell                                          internal/SettingsMapping.ts
skills.template_vars                                         tool/ConfiguredSkills.ts
prompt_caching.cache_ttl                                     internal/SettingsMapping.ts
agent.tool_use_enforcement                                   internal/SettingsMapping.ts
agent.reasoning_effort                                       internal/SettingsMapping.ts
plugins.payload_max_chars                                    internal/SettingsMapping.ts
plugins.hook_callback_timeout                                internal/SettingsMapping.ts
hooks_auto_accept                                            internal/ProgramRuntime.ts
security.write_safe_root                                     internal/SettingsMapping.ts
model.context_length                                         routing/ContextWindow.ts
custom_providers.<>.models.<>.context_length                 routing/ContextWindow.ts
model.ollama_num_ctx                                         routing/Catalogue.ts
model.streaming                                              cli/RunOptions.ts
display.streaming                                            cli/RunOptions.ts
providers.<>.request_timeout_seconds                         routing/ConfiguredRoutes.ts
providers.<>.stale_timeout_seconds                           routing/ConfiguredRoutes.ts
providers.<>.models.<>.timeout_seconds                       routing/ConfiguredRoutes.ts
providers.<>.models.<>.stale_timeout_seconds                 routing/ConfiguredRoutes.ts
providers.<>.login_base_url                                  routing/Logins.ts
custom_providers.<>.name                                     routing/Routes.ts
custom_providers.<>.base_url                                 routing/Routes.ts
custom_providers.<>.api_key                                  routing/Routes.ts
custom_providers.<>.key_env                                  routing/Routes.ts
custom_providers.<>.api_mode                                 routing/Routes.ts
fallback_providers.<>.provider                               routing/Routes.ts                 ModelSettings
fallback_providers.<>.model                                  routing/Routes.ts                 ModelSettings
fallback_providers.<>.base_url                               routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_key                                routing/Routes.ts                 ModelSettings
fallback_providers.<>.key_env                                routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_mode                               routing/Routes.ts                 ModelSettings
fallback_providers.<>.api_key_env                            config/DerivedSettings.ts
fallback_model.api_key_env                                   config/DerivedSettings.ts
fallback_model.provider                                      routing/Routes.ts                 ModelSettings
fallback_model.model                                         routing/Routes.ts                 ModelSettings
fallback_model.base_url                                      routing/Routes.ts                 ModelSettings
fallback_model.api_key                                       routing/Routes.ts                 ModelSettings
fallback_model.key_env                                       routing/Routes.ts                 ModelSettings
fallback_model.api_mode                                      routing/Routes.ts                 ModelSettings
credential_pool_strategies.<>                                routing/ConfiguredRoutes.ts
provider_routing.only                                        routing/OpenRoute.ts              ProviderRouting
provider_routing.ignore                                      routing/OpenRoute.ts              ProviderRouting
provider_routing.order                                       routing/OpenRoute.ts              ProviderRouting
provider_routing.sort                                        routing/OpenRoute.ts              ProviderRouting
provider_routing.require_parameters                          routing/OpenRoute.ts              ProviderRouting
provider_routing.data_collection                             routing/OpenRoute.ts              ProviderRouting
auxiliary.<>.provider                                        routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.model                                           routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.base_url                                        routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.api_key                                         routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.api_mode                                        routing/TaskRoutes.ts        readAuxiliaryTask
auxiliary.<>.timeout                                         routing/Auxiliary.ts              readAuxiliaryTask
bedrock.guardrail.guardrail_identifier                       config/DerivedSettings.ts
bedrock.guardrail.guardrail_version                          config/DerivedSettings.ts
bedrock.guardrail.stream_processing_mode                     config/DerivedSettings.ts
bedrock.guardrail.trace                                      config/DerivedSettings.ts
sessions.auto_prune                                          session/SessionRetention.ts       Settings
sessions.retention_days                                      session/SessionRetention.ts       Settings
sessions.vacuum_after_prune                                  session/SessionRetention.ts       Settings
sessions.min_interval_hours                                  session/SessionRetention.ts       Settings
network.request_timeout_seconds                              routing/ConfiguredRoutes.ts
network.stream_read_timeout_seconds                          routing/ConfiguredRoutes.ts
network.stream_stale_timeout_seconds                         routing/ConfiguredRoutes.ts
network.call_stale_timeout_seconds                           routing/ConfiguredRoutes.ts
network.stream_retries                                       internal/ProgramRuntime.ts
agent.api_max_retries                                        internal/ProgramRuntime.ts
agent.run_budget_seconds                                     internal/SettingsMapping.ts
agent.run_budget_tokens                                      internal/SettingsMapping.ts
agent.run_budget_dollars                                     internal/SettingsMapping.ts
agent.run_budget_tool_calls                                  internal/SettingsMapping.ts
delegation.max_spawn_depth                                   internal/SettingsMapping.ts
delegation.max_concurrent_children                           internal/SettingsMapping.ts
delegation.max_calls_per_step                                internal/SettingsMapping.ts
delegation.max_iterations                                    internal/SettingsMapping.ts
delegation.child_timeout_seconds                             internal/SettingsMapping.ts
delegation.reasoning_effort                                  internal/SettingsMapping.ts
delegation.inherit_mcp_toolsets                              internal/SettingsMapping.ts
delegation.subagent_auto_approve                             internal/SettingsMapping.ts
delegation.model                                             routing/ConfiguredRoutes.ts
delegation.provider                                          routing/ConfiguredRoutes.ts
delegation.base_url                                          routing/ConfiguredRoutes.ts
delegation.api_key                                           routing/ConfiguredRoutes.ts
delegation.api_mode                                          routing/ConfiguredRoutes.ts
tool_loop_guardrails.warnings_enabled                        internal/SettingsMapping.ts
tool_loop_guardrails.hard_stop_enabled                       internal/SettingsMapping.ts
tool_loop_guardrails.warn_after.exact_failure                internal/SettingsMapping.ts
tool_loop_guardrails.warn_after.same_tool_failure            internal/SettingsMapping.ts
tool_loop_guardrails.warn_after.idempotent_no_progress       internal/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.exact_failure           internal/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.same_tool_failure       internal/SettingsMapping.ts
tool_loop_guardrails.hard_stop_after.idempotent_no_progress  internal/SettingsMapping.ts
toolsets                                                     cli/RunOptions.ts
platform_toolsets.<>                                         cli/RunOptions.ts
disabled_toolsets                                            cli/RunOptions.ts
terminal.timeout                                             internal/SettingsMapping.ts
terminal.env_passthrough                                     internal/SettingsMapping.ts
tool_output.max_bytes                                        internal/SettingsMapping.ts
tool_output.max_lines                                        internal/SettingsMapping.ts
tool_output.max_line_length                                  internal/SettingsMapping.ts
file_read_max_chars                                          internal/SettingsMapping.ts
prefill_messages_file                                        internal/SettingsMapping.ts
security.redact_secrets                                      internal/SettingsMapping.ts
terminal.oneshot_completion_wait_seconds                     cli/SingleQuery.ts
approvals.single_query_mode                                  cli/SingleQuery.ts
code_execution.mode                                          internal/SettingsMapping.ts
code_execution.timeout                                       internal/SettingsMapping.ts
code_execution.max_tool_calls                                internal/SettingsMapping.ts
security.allow_private_urls                                  tool/fence/EgressGate.ts
security.unknown_hosts                                       tool/fence/EgressGate.ts
mcp_servers.<>.command                                       tool/mcp/ServerConfig.ts          section
mcp_servers.<>.args                                          tool/mcp/ServerConfig.ts          section
mcp_servers.<>.env.<>                                        tool/mcp/ServerConfig.ts          section
mcp_servers.<>.cwd                                           tool/mcp/ServerConfig.ts          section
mcp_servers.<>.url                                           tool/mcp/ServerConfig.ts          section
mcp_servers.<>.headers.<>                                    tool/mcp/ServerConfig.ts          section
mcp_servers.<>.timeout                                       tool/mcp/ServerConfig.ts          section
mcp_servers.<>.connect_timeout                               tool/mcp/ServerConfig.ts          section
mcp_servers.<>.keepalive                                     tool/mcp/ServerConfig.ts          section
mcp_servers.<>.supports_parallel_tool_calls                  tool/mcp/ServerConfig.ts          section
mcp_servers.<>.sandbox                                       tool/mcp/ServerConfig.ts          section
mcp_servers.<>.trust                                         tool/mcp/ServerConfig.ts          section
mcp_servers.<>.oauth                                         tool/mcp/ServerConfig.ts          section
mcp_servers.<>.tools.include                                 tool/mcp/ServerConfig.ts
mcp_servers.<>.tools.exclude                                 tool/mcp/ServerConfig.ts
mcp_servers.<>.sampling.enabled                              tool/mcp/ServerConfig.ts
mcp_servers.<>.elicitation.enabled                           tool/mcp/ServerConfig.ts
mcp_servers.<>.enabled                                       tool/mcp/McpServers.ts            section
cron.max_parallel_jobs                                       cli/CronRuns.ts
cron.preflight                                               cli/CronRuns.ts
cron.wrap_response                                           cli/CronRuns.ts
cron.jobs_may_schedule                                       cli/CronRuns.ts
cron.script_timeout_seconds                                  cli/CronRuns.ts
cron.run_timeout_seconds                                     cli/CronRuns.ts
approvals.cron_mode                                          cli/CronRuns.ts
cluster.database_url                                         cli/ClusterSettings.ts
cluster.concurrency                                          cli/ClusterRuns.ts
cluster.drain_timeout_seconds                                cli/ClusterRuns.ts
cluster.budget_tokens                                        cli/ClusterRuns.ts
cluster.budget_dollars                                       cli/ClusterRuns.ts
cluster.retention_days                                       cli/ClusterRuns.ts
cluster.runs_cron                                            cli/ClusterSettings.ts
server.keys.<>.key                                           cli/ServeCommand.ts
server.keys.<>.key_env                                       cli/ServeCommand.ts
server.keys.<>.key_file                                      cli/ServeCommand.ts
server.keys.<>.max_mode                                      server/agent/AgentServer.ts
server.keys.<>.max_sessions                                  server/agent/AgentServer.ts
server.keys.<>.max_requests                                  server/ServedRoutes.ts
server.keys.<>.max_connections                               server/ServedRoutes.ts
cron.timezone                                                internal/SettingsMapping.ts
approvals.mode                                               tool/approval/ApprovalOrder.ts
approvals.default_mode                                       tool/approval/ApprovalOrder.ts
approvals.timeout                                            tool/approval/ApprovalOrder.ts
approvals.gateway_timeout                                    tool/approval/ApprovalOrder.ts
approvals.deny                                               tool/approval/ApprovalOrder.ts
approvals.unknown_commands                                   tool/approval/ApprovalOrder.ts
command_allowlist                                            tool/approval/ApprovalOrder.ts
permissions.allow                                            tool/approval/Permissions.ts
permissions.ask                                              tool/approval/Permissions.ts
permissions.deny                                             tool/approval/Permissions.ts
approvals.unattended_mode                                    cli/McpServe.ts
security.tirith_enabled                                      tool/fence/Scanner.ts
security.tirith_path                                         tool/fence/Scanner.ts
security.tirith_timeout                                      tool/fence/Scanner.ts
security.tirith_fail_open                                    tool/fence/Scanner.ts
plugins.enabled                                              plugin/PluginManager.ts
plugins.disabled                                             plugin/PluginManager.ts
plugins.entries.<>.<>                                        plugin/PluginManager.ts
plugins.packages                                             internal/ProgramRuntime.ts
middlewares.<>.import                                        builtin/BuiltinMiddleware.ts      Entry
middlewares.<>.params.<>                                     builtin/BuiltinMiddleware.ts      Entry
hooks.<>.<>.command                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.matcher                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.sandbox                                          hooks/ShellHookConfig.ts          entry
hooks.<>.<>.timeout                                          hooks/ShellHookConfig.ts          entry
quick_commands.<>.type                                       cli/interactive/Interactive.ts
quick_commands.<>.command                                    cli/interactive/Interactive.ts
quick_commands.<>.target                                     cli/interactive/Interactive.ts
display.show_reasoning                                       cli/View.ts
display.show_cost                                            cli/View.ts
display.tool_progress                                        cli/View.ts
display.final_response_markdown                              cli/View.ts
display.tool_preview_length                                  cli/View.ts
display.resume_display                                       cli/interactive/SessionSwitch.ts
display.busy_input_mode                                      cli/interactive/BusyPrompt.ts
display.status_line                                          cli/InteractiveChat.ts
display.notify                                               cli/InteractiveChat.ts
display.notify_after_seconds                                 cli/InteractiveChat.ts
display.terminal_title                                       cli/InteractiveChat.ts
display.editing_mode                                         cli/interactive/Interactive.ts
display.theme                                                cli/render/Theme.ts
display.themes.<>.base                                       cli/render/Theme.ts
display.themes.<>.muted                                      cli/render/Theme.ts
display.themes.<>.accent                                     cli/render/Theme.ts
display.themes.<>.heading                                    cli/render/Theme.ts
display.themes.<>.link                                       cli/render/Theme.ts
display.themes.<>.success                                    cli/render/Theme.ts
display.themes.<>.warning                                    cli/render/Theme.ts
display.themes.<>.error                                      cli/render/Theme.ts
display.themes.<>.added                                      cli/render/Theme.ts
display.themes.<>.removed                                    cli/render/Theme.ts
display.themes.<>.keyword                                    cli/render/Theme.ts
display.themes.<>.string                                     cli/render/Theme.ts
display.themes.<>.comment                                    cli/render/Theme.ts
display.themes.<>.number                                     cli/render/Theme.ts
<provider>.<>.api_keys                                       routing/ConfiguredRoutes.ts
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
  readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8").replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "")

/** A field is read as a member, by its name in brackets, or by being taken out of its owner. */
const reads = (text: string, field: string): boolean =>
  new RegExp(String.raw`\.${field}\b|\["${field}"\]|[{,]\s*${field}\s*[,:}]|"${field}"(?=[^\n]*>)`).test(text)

const sources = readdirSync(new URL("../../src", import.meta.url), { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts")
)

const rows = table
  .trim()
  .split("\n")
  .map((line) => {
    const [key = "", file = "", owner] = line.split(/\s+/)
    return { key, file, owner }
  })

const keys = leaves(Tree.getRootShape())

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
    const auxiliary = Tree.findShapeOfPath(["auxiliary"])
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
