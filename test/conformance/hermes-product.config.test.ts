// The configuration that the documents print, and the cases of the program's specification about it.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "../../src/base/config/Config.ts"
import * as Edit from "../../src/base/config/Edit.ts"
import { Home } from "../../src/base/config/Environment.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import * as Yaml from "../../src/base/config/Yaml.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** The shell commands of the Relay document that write a `config.yaml`. */
const relayDocument = [
  `export HERMES_HOME=/tmp/hermes-nemo-relay-docs/hermes-home
mkdir -p "$HERMES_HOME"

cat > "$HERMES_HOME/config.yaml" <<'YAML'
model:
  provider: custom
  default: qwen3.6:35b
  base_url: http://127.0.0.1:11434/v1
  api_key: ollama
plugins:
  enabled:
    - observability/nemo_relay
delegation:
  max_spawn_depth: 2
  max_concurrent_children: 2
  child_timeout_seconds: 180
  model: qwen3.6:35b
  provider: custom
  base_url: http://127.0.0.1:11434/v1
  api_key: ollama
YAML
`,
  `export HERMES_HOME=/tmp/hermes-middleware-test/hermes-home
mkdir -p "$HERMES_HOME" /tmp/hermes-middleware-test/nemo-relay

cat > "$HERMES_HOME/config.yaml" <<'YAML'
model:
  provider: custom
  default: qwen3.6:35b
  base_url: http://127.0.0.1:11434/v1
  api_key: ollama
plugins:
  enabled:
    - observability/nemo_relay
YAML

cat > /tmp/hermes-middleware-test/nemo-relay/plugins.toml <<'TOML'
version = 1
TOML
`
]

/** What the document on LLM usage prints, and the setting that it names in its text. */
const usageDocument = [
  `# config.yaml
openrouter:
  api_keys:
    - "sk-or-key1"
    - "sk-or-key2"
    - "sk-or-key3"
`,
  "compression:\n  threshold: 0.50\n"
]

const yamlOf = (command: string): string => /<<'YAML'\n([^]*?)^YAML$/m.exec(command)?.[1] ?? ""

const load = (yaml: string) =>
  Effect.flatMap(Yaml.read(yaml, "config.yaml"), (file) =>
    Config.resolve({ file, environment: Environment.make({}), flags: [] })
  )

describe("the documents' configuration", () => {
  it.effect("the Relay document's files load as printed, without a warning", () =>
    Effect.gen(function* () {
      const [full, short] = yield* Effect.forEach(relayDocument, (command) => load(yamlOf(command)))
      assert.deepStrictEqual(full?.warnings, [])
      assert.deepStrictEqual(short?.warnings, [])
      const model = full?.settings.model
      assert.deepInclude(model, { provider: "custom", default: "qwen3.6:35b", baseUrl: "http://127.0.0.1:11434/v1" })
      assert.strictEqual(model?.apiKey && Redacted.value(model.apiKey), "ollama")
      assert.deepStrictEqual(full?.settings.plugins.enabled, ["observability/nemo_relay"])
      assert.deepInclude(full?.settings.delegation, {
        maxSpawnDepth: 2,
        maxConcurrentChildren: 2,
        childTimeoutSeconds: 180,
        model: "qwen3.6:35b",
        provider: "custom",
        baseUrl: "http://127.0.0.1:11434/v1"
      })
      assert.deepStrictEqual(short?.settings.model, model)
    })
  )

  it.effect("the usage document's files load as printed; what has no effect yet is said", () =>
    Effect.gen(function* () {
      const [pool, threshold] = yield* Effect.forEach(usageDocument, load)
      assert.deepStrictEqual(pool?.warnings, [])
      assert.deepStrictEqual(pool?.settings.credentials["openrouter"]?.apiKeys.map(Redacted.value), [
        "sk-or-key1",
        "sk-or-key2",
        "sk-or-key3"
      ])
      assert.deepStrictEqual(threshold?.warnings, [])
      assert.strictEqual(threshold?.settings.compression.threshold, 0.5)
    })
  )
})

describe("config set", () => {
  const inHome = Effect.map(temporaryDirectory, (root) => ({
    file: (name: string) => join(root, name),
    run: <A, E>(effect: Effect.Effect<A, E, Home | NodeServices.NodeServices>) =>
      Effect.provide(effect, Home.layerAt(root).pipe(Layer.provideMerge(NodeServices.layer)))
  }))

  it.effect("T22 a key that ends in _API_KEY is in the environment file and not in the YAML", () =>
    Effect.gen(function* () {
      const { file, run } = yield* inHome
      for (const key of ["OPENROUTER_API_KEY", "telegram_bot_token", "SOME_SECRET"]) yield* run(Edit.set(key, "v4lue"))
      assert.strictEqual(
        readFileSync(file(".env"), "utf8"),
        "OPENROUTER_API_KEY=v4lue\nTELEGRAM_BOT_TOKEN=v4lue\nSOME_SECRET=v4lue\n"
      )
      assert.isFalse(existsSync(file("config.yaml")))
    })
  )

  it.effect("T23 an existing literal key with a dot is meant, and no nested mapping appears", () =>
    Effect.gen(function* () {
      const { file, run } = yield* inHome
      const before = "providers:\n  ollama:\n    models:\n      qwen3.6:35b:\n        timeout_seconds: 5\n"
      writeFileSync(file("config.yaml"), before)
      yield* run(Edit.set("providers.ollama.models.qwen3.6:35b.timeout_seconds", "9"))
      assert.strictEqual(readFileSync(file("config.yaml"), "utf8"), before.replace("5\n", "9\n"))
      yield* run(Edit.set("providers.ollama.models.qwen3\\.5.timeout_seconds", "1"))
      assert.strictEqual(
        readFileSync(file("config.yaml"), "utf8"),
        `${before.replace("5\n", "9\n")}      qwen3.5:\n        timeout_seconds: 1\n`
      )
      const refused = yield* Effect.flip(run(Edit.set("providers.ollama.models.qwen3.7.timeout_seconds", "1")))
      assert.strictEqual(
        refused.message,
        'providers.ollama.models.qwen3.7.timeout_seconds: "qwen3" beside "qwen3.6:35b" would be ambiguous: write a dot in a name as \\.'
      )
    })
  )
})
