import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Edit from "../../../src/base/config/Edit.ts"
import { Environment, Home, ProcessVariables, type Variables } from "../../../src/base/config/Environment.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const inHome = (root: string, variables: Variables = {}) =>
  Effect.provide(
    Environment.layer.pipe(
      Layer.provideMerge(Home.layerAt(root)),
      Layer.provideMerge(NodeServices.layer),
      Layer.provideMerge(Layer.succeed(ProcessVariables, variables))
    )
  )

const home = Effect.map(temporaryDirectory, (root) => ({
  root,
  config: join(root, "config.yaml"),
  env: join(root, ".env"),
  run: <A, E>(
    effect: Effect.Effect<A, E, Home | Environment | NodeServices.NodeServices>,
    variables?: Variables
  ): Effect.Effect<A, unknown> => effect.pipe(inHome(root, variables)),
  text: () => readFileSync(join(root, "config.yaml"), "utf8")
}))

const messageOf = (effect: Effect.Effect<unknown, unknown>) =>
  Effect.map(Effect.flip(effect), (error) => (error instanceof Error ? error.message : String(error)))

describe("Edit.set", () => {
  it.effect("takes text as what the place expects", () =>
    Effect.gen(function* () {
      const { run, text } = yield* home
      for (const [key, value] of [
        ["agent.max_turns", "12"],
        ["display.streaming", "no"],
        ["model.default", "123"],
        ["plugins.enabled", "a,b"],
        ["toolsets", "[web, file]"],
        ["approvals.mode", "off"],
        ["quick_commands.hi", "{type: alias, target: /new}"],
        ["openrouter.api_keys", "k1,k2"]
      ] as const) {
        const change = yield* run(Edit.set(key, value))
        assert.deepStrictEqual(change, { file: "config.yaml", key, wasSet: false, warnings: [] })
      }
      assert.strictEqual(
        text(),
        `agent:
  max_turns: 12
display:
  streaming: false
model:
  default: "123"
plugins:
  enabled:
    - a
    - b
toolsets:
  - web
  - file
approvals:
  mode: "off"
quick_commands:
  hi:
    type: alias
    target: /new
openrouter:
  api_keys:
    - k1
    - k2
`
      )
    })
  )

  it.effect("a value that does not fit is refused before anything is written", () =>
    Effect.gen(function* () {
      const { config, run } = yield* home
      assert.strictEqual(
        yield* messageOf(run(Edit.set("agent.max_turns", "many"))),
        'agent.max_turns: expected a positive integer, got "many"'
      )
      assert.strictEqual(yield* messageOf(run(Edit.set("agent", "5"))), 'agent: expected a mapping, got "5"')
      assert.strictEqual(
        yield* messageOf(run(Edit.set("openrouter.api_keys", "{a: s3cret}"))),
        "openrouter.api_keys: expected a list, got a mapping"
      )
      assert.isFalse(existsSync(config))
      assert.deepInclude(yield* run(Edit.set("agent.max_turns", "${TURNS}")), { key: "agent.max_turns" })
    })
  )

  it.effect("another mistake in the file does not stand in the way", () =>
    Effect.gen(function* () {
      const { config, run, text } = yield* home
      writeFileSync(config, "agent:\n  max_turns: many\ncompression:\n  threshold: 7\n")
      yield* run(Edit.set("agent.max_turns", "5"))
      assert.strictEqual(text(), "agent:\n  max_turns: 5\ncompression:\n  threshold: 7\n")
    })
  )

  it.effect("an unknown key is written with a warning, a number out of bounds too", () =>
    Effect.gen(function* () {
      const { run, text } = yield* home
      assert.deepInclude(yield* run(Edit.set("agent.max_turn", "5")), {
        warnings: ['agent.max_turn: unknown key, ignored; did you mean "agent.max_turns"?']
      })
      assert.deepInclude(yield* run(Edit.set("delegation.max_spawn_depth", "0")), {
        warnings: ["delegation.max_spawn_depth: 0 is out of bounds, using 1"]
      })
      assert.strictEqual(text(), "agent:\n  max_turn: 5\ndelegation:\n  max_spawn_depth: 0\n")
    })
  )

  it.effect("a file that can not be read or changed in place is left alone", () =>
    Effect.gen(function* () {
      const { config, run, text } = yield* home
      writeFileSync(config, "agent: [\n")
      assert.strictEqual(
        yield* messageOf(run(Edit.set("agent.max_turns", "5"))),
        "config.yaml: line 1, column 8: the list that opens here has no end, or an entry without a comma: add ] or ,"
      )
      writeFileSync(config, "{agent: {max_turns: 3}}\n")
      assert.match(
        yield* messageOf(run(Edit.set("agent.max_turns", "5"))),
        /^agent\.max_turns: .*`hermes config edit`$/
      )
      assert.strictEqual(text(), "{agent: {max_turns: 3}}\n")
    })
  )

  it.effect("writes for the owner alone, follows a link, and leaves no drafts", () =>
    Effect.gen(function* () {
      const { config, root, run } = yield* home
      const elsewhere = join(yield* temporaryDirectory, "dotfiles.yaml")
      writeFileSync(elsewhere, "# mine\n", { mode: 0o644 })
      symlinkSync(elsewhere, config)
      yield* run(Edit.set("agent.max_turns", "5"))
      assert.isTrue(lstatSync(config).isSymbolicLink())
      assert.strictEqual(readFileSync(elsewhere, "utf8"), "# mine\nagent:\n  max_turns: 5\n")
      assert.strictEqual(statSync(elsewhere).mode & 0o777, 0o600)
      yield* run(Edit.set("X_TOKEN", "v"))
      assert.strictEqual(statSync(join(root, ".env")).mode & 0o777, 0o600)
      assert.deepStrictEqual(readdirSync(root).toSorted(), [".env", "config.yaml", "state.db"])
    })
  )

  it.live("writers at the same time lose nothing of each other", () =>
    Effect.gen(function* () {
      const { run, text } = yield* home
      const keys = Array.from({ length: 12 }, (_, index) => `providers.p${index}.request_timeout_seconds`)
      yield* run(Effect.forEach(keys, (key) => Edit.set(key, "5"), { concurrency: "unbounded" }))
      assert.strictEqual(text().match(/request_timeout_seconds: 5/g)?.length, keys.length)
    })
  )

  it.effect("a failed write leaves the old file", () =>
    Effect.gen(function* () {
      const { config, root, text } = yield* home
      writeFileSync(config, "agent:\n  max_turns: 3\n")
      const fs = yield* FileSystem.FileSystem
      const full = FileSystem.FileSystem.of({ ...fs, rename: () => fs.rename(join(root, "missing"), join(root, "x")) })
      const message = yield* messageOf(
        Edit.set("agent.max_turns", "5").pipe(Effect.provideService(FileSystem.FileSystem, full), inHome(root))
      )
      assert.match(message, /config\.yaml: cannot be written: no such file/)
      assert.strictEqual(text(), "agent:\n  max_turns: 3\n")
      assert.deepStrictEqual(readdirSync(root).toSorted(), ["config.yaml", "state.db"])
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("Edit: secrets", () => {
  it.effect("below another key, the file refers to .env", () =>
    Effect.gen(function* () {
      const { env, run, text } = yield* home
      yield* run(Edit.set("mcp_servers.github.env.GITHUB_TOKEN", "it's secret"))
      assert.strictEqual(
        text(),
        "mcp_servers:\n  github:\n    env:\n      GITHUB_TOKEN: ${MCP_SERVERS_GITHUB_ENV_GITHUB_TOKEN}\n"
      )
      assert.strictEqual(readFileSync(env, "utf8"), 'MCP_SERVERS_GITHUB_ENV_GITHUB_TOKEN="it\'s secret"\n')
      yield* run(Edit.unset("mcp_servers.github.env.GITHUB_TOKEN"))
      assert.strictEqual(text(), "")
      assert.strictEqual(readFileSync(env, "utf8"), "")
    })
  )

  it.effect("are masked when they are shown", () =>
    Effect.gen(function* () {
      const { run } = yield* home
      yield* run(Edit.set("OPENROUTER_API_KEY", "sk-or-v1-0123456789abcdef"))
      yield* run(Edit.set("model.api_key", "topsecret"))
      assert.deepStrictEqual(yield* run(Edit.get("openrouter_api_key")), Option.some("sk-o…ef"))
      assert.deepStrictEqual(yield* run(Edit.get("model.api_key")), Option.some("<redacted>"))
      assert.notInclude(JSON.stringify((yield* run(Edit.readAllSettings())).values), "topsecret")
    })
  )
})

describe("Edit.get", () => {
  it.effect("gives what holds now, from wherever it comes", () =>
    Effect.gen(function* () {
      const { config, run } = yield* home
      writeFileSync(
        config,
        'agent:\n  max_turns: 5\nproviders:\n  x:\n    models:\n      "a.b:1": { timeout_seconds: 9 }\nopenrouter:\n  api_keys: [k]\n'
      )
      const get = (key: string) => run(Edit.get(key), { HERMES_AGENT__API_MAX_RETRIES: "8" })
      assert.deepStrictEqual(yield* get("agent.max_turns"), Option.some(5))
      assert.deepStrictEqual(yield* get("agent.api_max_retries"), Option.some(8))
      assert.deepStrictEqual(yield* get("compression.threshold"), Option.some(0.5))
      assert.deepStrictEqual(yield* get("providers.x.models.a.b:1.timeout_seconds"), Option.some(9))
      assert.deepStrictEqual(yield* get("openrouter.api_keys.0"), Option.some("<redacted>"))
      assert.deepStrictEqual(
        yield* get("prompt_caching"),
        Option.some({ mode: "auto", cache_ttl: "5m", follow_pauses: true, keep_turn_context: false })
      )
      assert.deepStrictEqual(yield* get("nothing.here"), Option.none())
      assert.deepStrictEqual(yield* get("constructor"), Option.none())
    })
  )
})

describe("Edit.unset and Edit.modify", () => {
  it.effect("unset removes a key and is content when it is not there", () =>
    Effect.gen(function* () {
      const { config, env, run, text } = yield* home
      yield* run(Edit.unset("agent.max_turns"))
      yield* run(Edit.unset("X_TOKEN"))
      assert.isFalse(existsSync(config) || existsSync(env))
      writeFileSync(config, "# top\nagent:\n  max_turns: 5 # why\n  api_max_retries: 2\n")
      yield* run(Edit.unset("agent.max_turns"))
      yield* run(Edit.unset("memory.provider"))
      assert.strictEqual(text(), "# top\nagent:\n  api_max_retries: 2\n")
    })
  )

  it.effect("modify keeps a list in order", () =>
    Effect.gen(function* () {
      const { config, run, text } = yield* home
      writeFileSync(config, "command_allowlist:\n  # for the build\n  - make\n")
      const add = (command: string) =>
        Edit.modify(["command_allowlist"], (list) => [...(Array.isArray(list) ? list : []), command])
      yield* run(add("git push"))
      assert.strictEqual(text(), "command_allowlist:\n  # for the build\n  - make\n  - git push\n")
      assert.match(yield* messageOf(run(Edit.modify(["command_allowlist"], () => "x"))), /expected a list, got "x"/)
    })
  )
})
