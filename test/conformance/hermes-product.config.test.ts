// The configuration that the documents print, and the cases of the program's specification about it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Config from "../../src/config/Config.ts"
import * as Environment from "../../src/config/Environment.ts"
import * as Yaml from "../../src/config/Yaml.ts"

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
  Effect.flatMap(
    Yaml.read(yaml, "config.yaml"),
    (file) => Config.resolve({ file, environment: Environment.make({}), flags: [] })
  )

describe("the documents' configuration", () => {
  it.effect("the Relay document's files load as printed, without a warning", () =>
    Effect.gen(function*() {
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
    }))

  it.effect("the usage document's files load as printed, without a warning", () =>
    Effect.gen(function*() {
      const [pool, threshold] = yield* Effect.forEach(usageDocument, load)
      assert.deepStrictEqual(pool?.warnings, [])
      assert.deepStrictEqual(
        pool?.settings.credentials["openrouter"]?.apiKeys.map(Redacted.value),
        ["sk-or-key1", "sk-or-key2", "sk-or-key3"]
      )
      assert.deepStrictEqual(threshold?.warnings, [])
      assert.strictEqual(threshold?.settings.compression.threshold, 0.5)
    }))
})
