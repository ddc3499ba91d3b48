import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import * as Edit from "../../../src/base/config/Edit.ts"
import * as SettingsShape from "../../../src/base/config/internal/SettingsShape.ts"
import * as Tree from "../../../src/base/config/internal/Tree.ts"
import { toVariableName } from "../../../src/base/config/SettingVariables.ts"

/** Expands `a.{b, c.{d}}` as the specifications write keys. */
const expand = (keys: string): ReadonlyArray<string> => {
  const open = keys.indexOf("{")
  if (open === -1) return [keys]
  const parts: Array<string> = []
  let depth = 0
  let part = ""
  for (const letter of keys.slice(open + 1, keys.lastIndexOf("}"))) {
    if (letter === "," && depth === 0) {
      parts.push(part)
      part = ""
      continue
    }
    depth += letter === "{" ? 1 : letter === "}" ? -1 : 0
    part += letter
  }
  return [...parts, part].flatMap((part) => expand(part.trim()).map((rest) => keys.slice(0, open) + rest))
}

const usageSpecification = [
  "model.{default, provider, base_url, api_key, api_mode, max_tokens, context_length, ollama_num_ctx}",
  "providers.<id>.{request_timeout_seconds, stale_timeout_seconds, models.<m>.{timeout_seconds, stale_timeout_seconds}}",
  "custom_providers.0.{name, base_url, api_key, key_env, api_mode, models.<m>.context_length}",
  "fallback_providers.0.{provider, model, base_url, api_key, key_env, api_key_env}",
  "fallback_model",
  "credential_pool_strategies.<provider>",
  "openrouter.api_keys",
  "provider_routing.{only, ignore, order, sort, require_parameters, data_collection}",
  "agent.{max_turns, api_max_retries, reasoning_effort, tool_use_enforcement, environment_hint}",
  "compression.{enabled, threshold, target_ratio, protect_first_n, protect_last_n}",
  "context.engine",
  "prompt_caching.cache_ttl",
  "auxiliary.<task>.{provider, model, base_url, api_key, api_mode, timeout, context_length}",
  "memory.{memory_enabled, user_profile_enabled, memory_char_limit, user_char_limit, nudge_interval, provider}",
  "skills.{creation_nudge_interval, external_dirs, disabled}",
  "delegation.{max_concurrent_children, max_iterations, max_spawn_depth, model, provider, base_url, api_key}",
  "tool_loop_guardrails.{warnings_enabled, hard_stop_enabled, warn_after.{exact_failure, same_tool_failure, idempotent_no_progress}, hard_stop_after.exact_failure}",
  "approvals.{mode, timeout, gateway_timeout, cron_mode}",
  "command_allowlist",
  "security.{allow_private_urls, redact_secrets, tirith_timeout, tirith_enabled, tirith_fail_open}",
  "bedrock.guardrail",
  "display.streaming"
]

const productSpecification = [
  "model.{default, provider, base_url, streaming}",
  "agent.{max_turns, api_max_retries, reasoning_effort, run_budget_seconds, gateway_timeout}",
  "toolsets",
  "platform_toolsets.<platform>",
  "disabled_toolsets",
  "terminal.{backend, timeout, lifetime_seconds, oneshot_completion_wait_seconds}",
  "tool_output.{max_bytes, max_lines, max_line_length}",
  "file_read_max_chars",
  "delegation.{reasoning_effort, inherit_mcp_toolsets, subagent_auto_approve, child_timeout_seconds}",
  "skills.{creation_nudge_interval, external_dirs, template_vars, inline_shell}",
  "approvals.{mode, timeout, cron_mode, single_query_mode, deny, destructive_slash_confirm}",
  "hooks.<event>",
  "hooks_auto_accept",
  "plugins.{enabled, disabled, hook_callback_timeout}",
  "code_execution.{mode, timeout, max_tool_calls}",
  "cron.{max_parallel_jobs, preflight, wrap_response}",
  "sessions.{auto_prune, retention_days, vacuum_after_prune, min_interval_hours, max_resume_messages, max_export_messages}",
  "logging.level",
  "display.{streaming, show_reasoning, show_cost, inline_diffs, tool_progress, final_response_markdown, resume_display, busy_input_mode, tool_preview_length}",
  "fallback_providers",
  "prefill_messages_file",
  "quick_commands.<name>",
  "mcp_servers.<name>.{command, args, env, url, headers, enabled, timeout, connect_timeout, tools.{include, exclude}, supports_parallel_tool_calls, trust}",
  "database.journal_mode",
  "_config_version"
]

describe("the keys of the settings", () => {
  it("are those of the specifications", () => {
    const keys = [...usageSpecification, ...productSpecification].flatMap(expand)
    assert.isAbove(keys.length, 120)
    assert.deepStrictEqual(
      keys.filter((key) => SettingsShape.findShapeOfPath(key.split(".")) === undefined),
      []
    )
  })

  /** Every key that can be set on its own. */
  const leaves = (
    shape: Tree.Shape,
    path: ReadonlyArray<string>
  ): ReadonlyArray<readonly [ReadonlyArray<string>, Tree.Shape]> =>
    shape._tag === "Section"
      ? Array.from(shape.fields).flatMap(([key, inside]) => (key.startsWith("<") ? [] : leaves(inside, [...path, key])))
      : [[path, shape]]

  const takesText = (shape: Tree.Shape): boolean =>
    shape._tag === "ListOf" ? takesText(shape.item) : shape._tag === "Value" && shape.expected === "a string"

  // A wrong value in each source: the one error there is names the source that counts.
  it.effect("each obey flag over environment over .env over file", () =>
    Effect.gen(function* () {
      const all = leaves(SettingsShape.getRootShape(), [])
      assert.isAbove(all.length, 100)
      for (const [path, shape] of all) {
        const wrong = shape._tag === "MapOf" ? 5 : { wrong: 1 }
        const name = toVariableName(path)
        const flag = { name: "--flag", key: path.join("."), value: wrong }
        const sources = {
          file: Tree.set({ fallback_model: { provider: "p", model: "m" } }, path, wrong),
          environment: Environment.make({}),
          flags: []
        }
        const blamed = (more: Partial<Config.SettingsInput>) =>
          Effect.match(Config.resolve({ ...sources, ...more }), {
            onSuccess: () => "",
            onFailure: ({ message }) => message.split(": expected")[0] ?? ""
          })
        const said = (where: string) => (takesText(shape) ? "" : where)
        const key = path.join(".")
        assert.strictEqual(yield* blamed({}), `config.yaml: ${key}`)
        assert.strictEqual(
          yield* blamed({ environment: Environment.make({}, { [name]: "?" }) }),
          said(`.env: ${name}`),
          key
        )
        const both = Environment.make({ [name]: "?" }, { [name]: "!" })
        assert.strictEqual(yield* blamed({ environment: both }), said(name), key)
        assert.strictEqual(yield* blamed({ environment: both, flags: [flag] }), "--flag", key)
      }
    })
  )

  it.effect("T158 a variable that says false overrides a file that says true", () =>
    Effect.gen(function* () {
      const environment = Environment.make({ HERMES_ALLOW_PRIVATE_URLS: "false" })
      const { settings } = yield* Config.resolve({
        file: { security: { allow_private_urls: true } },
        environment,
        flags: []
      })
      assert.isFalse(settings.security.allowPrivateUrls)
    })
  )
})

describe("Keys", () => {
  const refused = (effect: Effect.Effect<unknown, Error>) => Effect.map(Effect.flip(effect), ({ message }) => message)

  it.effect("names are separated by dots, and a backslash makes a dot part of one", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Edit.splitKey("a"), ["a"])
      assert.deepStrictEqual(yield* Edit.splitKey("a.b\\.c.d"), ["a", "b.c", "d"])
      assert.deepStrictEqual(yield* Edit.splitKey("a\\\\.b\\c"), ["a\\", "b\\c"])
      for (const key of ["", ".", "a.", ".a", "a..b"]) {
        assert.strictEqual(
          yield* refused(Edit.splitKey(key)),
          `${key}: a key is names with dots between them, such as agent.max_turns`
        )
      }
    })
  )

  const tree = { a: { "b.c": { d: 1 }, "b.c.d": 2, "x.y": 3, list: [1] }, empty: null }

  it.effect("the longest key that is there is meant", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Edit.locate(tree, "a.b.c.d"), ["a", "b.c.d"])
      assert.deepStrictEqual(yield* Edit.locate(tree, "a.b.c.e"), ["a", "b.c", "e"])
      assert.deepStrictEqual(yield* Edit.locate(tree, "a.new.key"), ["a", "new", "key"])
      assert.deepStrictEqual(yield* Edit.locate(tree, "empty.key"), ["empty", "key"])
      assert.deepStrictEqual(yield* Edit.locate(undefined, "a.b"), ["a", "b"])
      assert.deepStrictEqual(yield* Edit.locate(tree, "a.x"), ["a", "x"])
    })
  )

  it.effect("what could be confused is refused", () =>
    Effect.gen(function* () {
      assert.include(yield* refused(Edit.locate(tree, "a.x.z")), '"x" beside "x.y" would be ambiguous')
      assert.include(
        yield* refused(Edit.locate(tree, "a.x.y.z")),
        'a."x.y" holds a value: it cannot have keys below it'
      )
      assert.include(yield* refused(Edit.locate(tree, "a.list.0")), "a.list holds a list")
    })
  )

  it("secrets have a variable", () => {
    assert.strictEqual(Edit.findSecretVariable(["openai_api_key"]), "OPENAI_API_KEY")
    assert.strictEqual(Edit.findSecretVariable(["a-b", "X_TOKEN"]), "A_B_X_TOKEN")
    assert.strictEqual(Edit.findSecretVariable(["1", "x_secret"]), "_1_X_SECRET")
    for (const names of [["model", "api_key"], ["token"], ["model", "max_tokens"], ["api_key_env"]]) {
      assert.isUndefined(Edit.findSecretVariable(names))
    }
  })
})
