import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Config from "../../../src/base/config/Config.ts"
import * as DerivedSettings from "../../../src/base/config/DerivedSettings.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import { SettingsSchema } from "../../../src/base/config/SettingsSchema.ts"
import * as Yaml from "../../../src/base/config/Yaml.ts"

interface Given {
  readonly yaml?: string
  readonly process?: Record<string, string>
  readonly dotEnv?: Record<string, string>
  readonly flags?: ReadonlyArray<Config.Flag>
}

const resolve = (given: Given) =>
  Effect.flatMap(given.yaml === undefined ? Effect.undefined : Yaml.read(given.yaml, "config.yaml"), (file) =>
    Config.resolve({ file, environment: Environment.make(given.process ?? {}, given.dotEnv), flags: given.flags ?? [] })
  )

const linesOf = (given: Given) => Effect.map(Effect.flip(resolve(given)), (error) => error.message.split("\n"))
const warningsOf = (given: Given) => Effect.map(resolve(given), ({ warnings }) => warnings)

describe("Config: defaults", () => {
  it.effect("has the defaults of the period that the documents describe", () =>
    Effect.gen(function* () {
      const { settings, warnings } = yield* resolve({})
      assert.deepStrictEqual(warnings, [])
      assert.strictEqual(settings.agent.maxTurns, 90)
      assert.strictEqual(settings.agent.apiMaxRetries, 3)
      assert.strictEqual(settings.agent.reasoningEffort, "medium")
      assert.strictEqual(settings.model.provider, "auto")
      assert.deepInclude(settings.approvals, {
        mode: "manual",
        timeout: 60,
        gatewayTimeout: 300,
        cronMode: "deny",
        deny: []
      })
      assert.deepInclude(settings.compression, {
        enabled: true,
        threshold: 0.5,
        targetRatio: 0.2,
        protectFirstN: 3,
        protectLastN: 20
      })
      assert.deepInclude(settings.delegation, {
        maxSpawnDepth: 2,
        maxConcurrentChildren: 3,
        maxCallsPerStep: 1,
        maxIterations: 50
      })
      assert.isUndefined(settings.delegation.childTimeoutSeconds)
      assert.deepStrictEqual(settings.toolLoopGuardrails, {
        warningsEnabled: true,
        hardStopEnabled: false,
        warnAfter: { exactFailure: 2, sameToolFailure: 3, idempotentNoProgress: 2 },
        hardStopAfter: { exactFailure: 5, sameToolFailure: 8, idempotentNoProgress: 5 }
      })
      assert.deepStrictEqual(settings.toolOutput, { maxBytes: 50_000, maxLines: 2000, maxLineLength: 2000 })
      assert.deepInclude(settings.memory, { memoryCharLimit: 2200, userCharLimit: 1375, nudgeInterval: 10 })
      assert.deepStrictEqual(settings.toolsets, ["hermes-cli"])
      assert.strictEqual(settings.security.redactSecrets, true)
      assert.strictEqual(settings.promptCaching.cacheTtl, "5m")
      assert.deepStrictEqual(settings.mcpServers, {})
      assert.deepStrictEqual(settings.credentials, {})
    })
  )

  it.effect("a key or a section without a value counts as absent", () =>
    Effect.gen(function* () {
      const { settings, warnings } = yield* resolve({
        yaml: 'model:\n  base_url:\n  api_key: ""\nagent:\nproviders:\n  x:\ncron:\n  max_parallel_jobs: null\n'
      })
      assert.deepStrictEqual(warnings, [])
      assert.isFalse(Object.hasOwn(settings.model, "baseUrl"))
      assert.isFalse(Object.hasOwn(settings.model, "apiKey"))
      assert.strictEqual(settings.agent.maxTurns, 90)
      assert.deepStrictEqual(settings.providers, {})
    })
  )

  it.effect("scheduled jobs: what nobody says is safe, and what somebody says holds", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({})
      assert.deepStrictEqual(settings.cron, {
        preflight: true,
        wrapResponse: true,
        jobsMaySchedule: false,
        scriptTimeoutSeconds: 120,
        runTimeoutSeconds: 3600
      })
      const said = yield* resolve({
        yaml: "cron: { max_parallel_jobs: 2, timezone: Europe/Berlin, jobs_may_schedule: true, script_timeout_seconds: 5, run_timeout_seconds: 60 }\n"
      })
      assert.deepInclude(said.settings.cron, {
        maxParallelJobs: 2,
        timezone: "Europe/Berlin",
        jobsMaySchedule: true,
        scriptTimeoutSeconds: 5,
        runTimeoutSeconds: 60
      })
    })
  )

  it.effect("an empty file and a file of comments are no settings", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* resolve({ yaml: "" }), yield* resolve({}))
      assert.deepStrictEqual(yield* resolve({ yaml: "# nothing\n" }), yield* resolve({}))
    })
  )
})

describe("Config: precedence", () => {
  const layers: ReadonlyArray<readonly [string, Given]> = [
    ["config file", { yaml: "agent: { max_turns: 10 }" }],
    [".env", { dotEnv: { HERMES_AGENT__MAX_TURNS: "11" } }],
    ["environment", { process: { HERMES_AGENT__MAX_TURNS: "12" } }],
    ["flag", { flags: [{ name: "--max-turns", key: "agent.max_turns", value: 13 }] }]
  ]
  for (let above = 0; above < layers.length; above++) {
    it.effect(`${layers[above]?.[0]} wins over everything below it`, () =>
      Effect.gen(function* () {
        const given = Object.assign({}, ...layers.slice(0, above + 1).map(([, given]) => given))
        const { settings } = yield* resolve(given)
        assert.strictEqual(settings.agent.maxTurns, 10 + above)
      })
    )
  }

  it.effect("every key has a variable, of the type that its place expects", () =>
    Effect.gen(function* () {
      const { settings, warnings } = yield* resolve({
        yaml: "providers:\n  openrouter:\n    stale_timeout_seconds: 5\ntoolsets: [web]\n",
        process: {
          HERMES_MODEL__DEFAULT: "m",
          HERMES_MODEL__API_KEY: "k",
          HERMES_MODEL__STREAMING: "no",
          HERMES_COMPRESSION__THRESHOLD: "0.25",
          HERMES_PLUGINS__ENABLED: "a, b/c",
          HERMES_TOOLSETS: "file,terminal",
          HERMES_FILE_READ_MAX_CHARS: "5",
          HERMES_PROVIDERS__OPENROUTER__REQUEST_TIMEOUT_SECONDS: "7.5",
          HERMES_AUXILIARY__VISION__MODEL: "v",
          HERMES_OPENROUTER__API_KEYS: "k1,k2",
          HERMES_SKILLS__EXTERNAL_DIRS: "/a:/b",
          HERMES_SKILLS__CREATION_NUDGE_INTERVAL: "3",
          HERMES_AGENT__TOOL_USE_ENFORCEMENT: "gpt,qwen",
          HERMES_FALLBACK_PROVIDERS: '[{"provider":"p","model":"m"}]',
          HERMES_MEMORY__PROVIDER: ""
        }
      })
      assert.deepStrictEqual(warnings, [])
      assert.strictEqual(settings.model.default, "m")
      assert.strictEqual(settings.model.apiKey && Redacted.value(settings.model.apiKey), "k")
      assert.strictEqual(settings.model.streaming, false)
      assert.strictEqual(settings.compression.threshold, 0.25)
      assert.deepStrictEqual(settings.plugins.enabled, ["a", "b/c"])
      assert.deepStrictEqual(settings.toolsets, ["file", "terminal"])
      assert.strictEqual(settings.fileReadMaxChars, 5)
      assert.deepInclude(settings.providers["openrouter"], { requestTimeoutSeconds: 7.5, staleTimeoutSeconds: 5 })
      assert.deepInclude(settings.auxiliary["vision"], { provider: "auto", model: "v" })
      assert.deepStrictEqual(settings.credentials["openrouter"]?.apiKeys.map(Redacted.value), ["k1", "k2"])
      assert.deepStrictEqual(settings.skills.externalDirs, ["/a", "/b"])
      assert.deepStrictEqual(settings.agent.toolUseEnforcement, ["gpt", "qwen"])
      assert.deepStrictEqual(settings.fallbackProviders, [{ provider: "p", model: "m" }])
      assert.isFalse(Object.hasOwn(settings.memory, "provider"))
    })
  )

  it.effect("the documented variables count, and the general name wins over them", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({
        process: {
          HERMES_API_TIMEOUT: "60",
          HERMES_STREAM_READ_TIMEOUT: "61",
          HERMES_STREAM_STALE_TIMEOUT: "62",
          HERMES_API_CALL_STALE_TIMEOUT: "63",
          HERMES_STREAM_RETRIES: "4",
          HERMES_ACCEPT_HOOKS: "1",
          HERMES_REDACT_SECRETS: "false",
          HERMES_WRITE_SAFE_ROOT: "/a:/b",
          HERMES_PLUGIN_PAYLOAD_MAX_CHARS: "2000",
          HERMES_MODEL: "second",
          HERMES_MODEL__DEFAULT: "general"
        }
      })
      assert.deepStrictEqual(settings.network, {
        requestTimeoutSeconds: 60,
        streamReadTimeoutSeconds: 61,
        streamStaleTimeoutSeconds: 62,
        callStaleTimeoutSeconds: 63,
        streamRetries: 4
      })
      assert.strictEqual(settings.hooksAutoAccept, true)
      assert.strictEqual(settings.security.redactSecrets, false)
      assert.deepStrictEqual(settings.security.writeSafeRoot, ["/a", "/b"])
      assert.strictEqual(settings.plugins.payloadMaxChars, 2000)
      assert.strictEqual(settings.model.default, "general")
    })
  )

  it.effect("OPENAI_BASE_URL sends nobody else's key there", () =>
    Effect.gen(function* () {
      const process = { OPENAI_BASE_URL: "http://elsewhere/v1" }
      const at = (provider: string) =>
        Effect.map(
          resolve({ yaml: `model: { provider: ${provider} }`, process }),
          ({ settings }) => settings.model.baseUrl
        )
      assert.strictEqual(yield* at("custom"), "http://elsewhere/v1")
      assert.strictEqual(yield* at("auto"), "http://elsewhere/v1")
      assert.isUndefined(yield* at("anthropic"))
    })
  )

  it.effect("variables of other parts are no settings, misspelled settings are told", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* warningsOf({
          process: {
            HERMES_HOME: "/x",
            HERMES_PLUGINS_DEBUG: "1",
            HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
            HERMES_AGENT: "x"
          }
        }),
        []
      )
      assert.deepStrictEqual(
        yield* warningsOf({
          dotEnv: { HERMES_AGENT__MAX_TURN: "3" },
          process: { HERMES_AGNET__MAX_TURNS: "3", HERMES_X__Y: "z" }
        }),
        [
          ".env: HERMES_AGENT__MAX_TURN: unknown setting, ignored; did you mean HERMES_AGENT__MAX_TURNS?",
          "HERMES_AGNET__MAX_TURNS: unknown setting, ignored; did you mean HERMES_AGENT__MAX_TURNS?",
          "HERMES_X__Y: unknown setting, ignored"
        ]
      )
    })
  )
})

describe("Config: wrong values", () => {
  it.effect("each is one line: where, what was expected, what was found", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf({
        yaml: `
agent:
  max_turns: "many"
  reasoning_effort: extreme
model:
  api_key: [sk-ant-REDACTED]
  streaming: "yes"
compression:
  threshold: 50
approvals: ask
plugins:
  enabled: relay
fallback_providers:
  - provider: openrouter
providers:
  openrouter:
    models:
      "qwen3.6:35b":
        timeout_seconds: -1
openrouter:
  api_keys: [1]
`
      })
      assert.deepStrictEqual(lines.toSorted(), [
        'config.yaml: agent.max_turns: expected a positive integer, got "many"',
        'config.yaml: agent.reasoning_effort: expected one of none, minimal, low, medium, high, xhigh, got "extreme"',
        'config.yaml: approvals: expected a mapping, got "ask"',
        "config.yaml: compression.threshold: expected a number above 0 and up to 1, got 50",
        "config.yaml: fallback_providers[0].model: expected a string, got nothing",
        "config.yaml: model.api_key: expected a string, got a list",
        'config.yaml: model.streaming: expected true or false, got "yes"',
        "config.yaml: openrouter.api_keys[0]: expected a string, got a number",
        'config.yaml: plugins.enabled: expected a list, got "relay"',
        'config.yaml: providers.openrouter.models."qwen3.6:35b".timeout_seconds: expected a positive number of seconds, got -1'
      ])
    })
  )

  it.effect("names the variable or the flag that says it", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf({
        process: { HERMES_AGENT__MAX_TURNS: "many", HERMES_FALLBACK_PROVIDERS: '[{"provider":1,"model":"m"}]' },
        dotEnv: { HERMES_STREAM_RETRIES: "-1" },
        flags: [{ name: "--toolsets", key: "toolsets", value: 3 }]
      })
      assert.deepStrictEqual(lines.toSorted(), [
        "--toolsets: expected a list, got 3",
        ".env: HERMES_STREAM_RETRIES: expected a whole number, 0 or more, got -1",
        'HERMES_AGENT__MAX_TURNS: expected a positive integer, got "many"',
        "HERMES_FALLBACK_PROVIDERS: [0].provider: expected a string, got 1"
      ])
    })
  )

  it.effect("shows no secret and no endless text", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf({
        yaml: `agent: { max_turns: "sk-${"a".repeat(40)}" }\ncompression: { threshold: ${"x".repeat(500)} }`
      })
      assert.notInclude(lines.join(), "aaaaaaaa")
      assert.isBelow(lines.join("\n").length, 300)
    })
  )

  it.effect("a number in quotes is no number in the file", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* linesOf({ yaml: 'agent: { max_turns: "5" }' }), [
        'config.yaml: agent.max_turns: expected a positive integer, got "5"'
      ])
    })
  )

  it.effect("words count as booleans where the contract says so", () =>
    Effect.gen(function* () {
      for (const [word, value] of [
        ["true", true],
        ["1", true],
        ["Yes", true],
        ["no", false]
      ] as const) {
        const { settings } = yield* resolve({
          yaml: `compression: { enabled: "${word}" }\nhooks_auto_accept: "${word}"`
        })
        assert.strictEqual(settings.compression.enabled, value)
        assert.strictEqual(settings.hooksAutoAccept, value)
      }
      for (const [word, value] of [
        ["1", true],
        ["true", true],
        [" on ", true],
        ["0", false],
        ["no", false],
        ["", false]
      ] as const) {
        const { settings } = yield* resolve({ process: { HERMES_ACCEPT_HOOKS: word } })
        assert.strictEqual(settings.hooksAutoAccept, value, word)
      }
      for (const number of ["1", "0"]) {
        assert.deepStrictEqual(yield* linesOf({ yaml: `hooks_auto_accept: ${number}` }), [
          `config.yaml: hooks_auto_accept: expected true or false, got ${number}`
        ])
      }
      assert.deepStrictEqual(yield* linesOf({ yaml: "compression: { enabled: maybe }" }), [
        'config.yaml: compression.enabled: expected true or false, got "maybe"'
      ])
    })
  )

  it.effect("a file that is no mapping is one line", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* linesOf({ yaml: "- a\n" }), ["config.yaml: expected a mapping of keys"])
    })
  )
})

describe("Config: warnings", () => {
  it.effect("an unknown key is one warning with the nearest name", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* warningsOf({
          yaml: "agnet:\n  max_turns: 3\nagent:\n  max_turn: 3\n  colour: red\nmcp_servers:\n  a:\n    comand: x\n    transport: y\n"
        }),
        [
          'config.yaml: agnet: unknown key, ignored; did you mean "agent"?',
          'config.yaml: agent.max_turn: unknown key, ignored; did you mean "agent.max_turns"?',
          "config.yaml: agent.colour: unknown key, ignored",
          'config.yaml: mcp_servers.a.comand: unknown key, ignored; did you mean "mcp_servers.a.command"?'
        ]
      )
    })
  )

  it.effect("so is one below a key that may be a word or a mapping: the sandbox of a server or a hook", () =>
    Effect.gen(function* () {
      const yaml =
        "mcp_servers:\n  a: { command: x, sandbox: { policy: read-only, netwrk: none } }\nhooks:\n  pre_tool_call:\n    - { command: x, sandbox: { policy: read-only, hots: [a.example] } }\n"
      assert.deepStrictEqual(yield* warningsOf({ yaml }), [
        'config.yaml: mcp_servers.a.sandbox.netwrk: unknown key, ignored; did you mean "mcp_servers.a.sandbox.network"?',
        'config.yaml: hooks.pre_tool_call[0].sandbox.hots: unknown key, ignored; did you mean "hooks.pre_tool_call[0].sandbox.hosts"?'
      ])
      assert.deepStrictEqual(
        yield* linesOf({ yaml: "mcp_servers: { a: { command: x, sandbox: { polcy: read-only } } }\n" }),
        [
          'config.yaml: mcp_servers.a.sandbox: expected full, workspace-write, read-only, or policy, network and hosts, got a mapping; mcp_servers.a.sandbox.polcy: unknown key, ignored; did you mean "mcp_servers.a.sandbox.policy"?'
        ]
      )
    })
  )

  it.effect("names that users choose are never unknown", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* warningsOf({
          yaml: `
providers: { my-gateway: { request_timeout_seconds: 3 } }
auxiliary: { my_task: { model: x } }
mcp_servers: { github: { command: npx, args: [-y, 3000], env: { TOKEN: x, PORT: 3000 }, oauth: { any: thing } } }
hooks: { some_event: [{ command: x }] }
quick_commands: { hi: { type: exec, command: "for f in *; do echo \${f}; done" } }
credential_pool_strategies: { whoever: random }
platform_toolsets: { telegram: [web] }
plugins: { entries: { mine: { anything: [1] } } }
whoever: { api_keys: [a] }
`
        }),
        []
      )
    })
  )

  it.effect("floors and ceilings clamp, whatever the source", () =>
    Effect.gen(function* () {
      const { settings, warnings } = yield* resolve({
        yaml: "delegation:\n  max_concurrent_children: 0\n  child_timeout_seconds: 5\ncompression:\n  target_ratio: 0.9\n",
        process: { HERMES_DELEGATION__MAX_SPAWN_DEPTH: "-2" }
      })
      assert.deepInclude(settings.delegation, { maxConcurrentChildren: 1, childTimeoutSeconds: 30, maxSpawnDepth: 1 })
      assert.strictEqual(settings.compression.targetRatio, 0.8)
      assert.deepStrictEqual(warnings.toSorted(), [
        "HERMES_DELEGATION__MAX_SPAWN_DEPTH: -2 is out of bounds, using 1",
        "config.yaml: compression.target_ratio: 0.9 is out of bounds, using 0.8",
        "config.yaml: delegation.child_timeout_seconds: 5 is out of bounds, using 30",
        "config.yaml: delegation.max_concurrent_children: 0 is out of bounds, using 1"
      ])
    })
  )
})

describe("Config: references", () => {
  it.effect("${VAR} and ${env:VAR} stand for variables, in texts only", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({
        yaml: `
# \${NOT_THIS}
model:
  api_key: \${KEY}
  base_url: http://\${env:HOST}:8080/\${PATH_}
agent:
  max_turns: \${TURNS}
  environment_hint: costs $\${HOST} or $5
quick_commands: { hi: { command: "echo \${f}" } }
`,
        process: { KEY: "k", HOST: "h: [", TURNS: "7" },
        dotEnv: { PATH_: "v1", KEY: "other" }
      })
      assert.strictEqual(settings.model.apiKey && Redacted.value(settings.model.apiKey), "k")
      assert.strictEqual(settings.model.baseUrl, "http://h: [:8080/v1")
      assert.strictEqual(settings.agent.maxTurns, 7)
      assert.strictEqual(settings.agent.environmentHint, "costs ${HOST} or $5")
      assert.strictEqual(settings.quickCommands["hi"]?.command, "echo ${f}")
    })
  )

  it.effect("a missing variable is one clear line", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* linesOf({ yaml: 'model: { api_key: "${NOPE}" }' }), [
        "config.yaml: model.api_key: ${NOPE} is not set: set NOPE in the environment or in .env"
      ])
    })
  )
})

describe("Config: secrets", () => {
  it.effect("never show, not even when settings are encoded", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({
        yaml: "model: { api_key: topsecret }\nmcp_servers: { a: { env: { X: topsecret } } }\nopenrouter: { api_keys: [topsecret] }\ndelegation: { api_key: topsecret }\nfallback_model: { provider: p, model: m, api_key: topsecret }"
      })
      const encoded = yield* Schema.encodeEffect(SettingsSchema)(settings)
      assert.notInclude(JSON.stringify(settings), "topsecret")
      assert.notInclude(JSON.stringify(encoded), "topsecret")
      assert.deepInclude(encoded, { "<provider>": { openrouter: { api_keys: ["<redacted>"] } } })
    })
  )
})

describe("Config: derived answers", () => {
  it.effect("a side task has its own deadline and is done by auto unless configured", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({
        yaml: "auxiliary:\n  vision: { model: v }\n  compression: { timeout: 5 }\n"
      })
      assert.deepStrictEqual(DerivedSettings.readAuxiliaryTask(settings, "vision"), {
        provider: "auto",
        model: "v",
        timeout: 120
      })
      assert.strictEqual(DerivedSettings.readAuxiliaryTask(settings, "compression").timeout, 5)
      assert.deepStrictEqual(DerivedSettings.readAuxiliaryTask(settings, "title"), { provider: "auto", timeout: 30 })
      assert.deepStrictEqual(DerivedSettings.readAuxiliaryTask(settings, "constructor"), {
        provider: "auto",
        timeout: 30
      })
    })
  )

  it.effect("the chain of fallbacks is the list, or the older single one", () =>
    Effect.gen(function* () {
      const one = yield* resolve({ yaml: "fallback_model: { provider: p, model: m, api_key_env: K }" })
      assert.deepStrictEqual(DerivedSettings.listFallbacks(one.settings), [{ provider: "p", model: "m", keyEnv: "K" }])
      const both = yield* resolve({
        yaml: "fallback_model: { provider: p, model: m }\nfallback_providers: [{ provider: q, model: n }]"
      })
      assert.deepStrictEqual(
        DerivedSettings.listFallbacks(both.settings).map(({ provider }) => provider),
        ["q"]
      )
    })
  )
})
