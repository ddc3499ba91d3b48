// The JSON Schemas of the package, read by a validator that others wrote, say what the loader and the runtime say.
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createConfigFile } from "../src/program/cli/ConfigCommand.ts"
import * as Config from "../src/base/config/Config.ts"
import * as Environment from "../src/base/config/Environment.ts"
import * as Yaml from "../src/base/config/Yaml.ts"
import { Agent, FileTools, Hooks, Payloads, RunRecord, Runtime } from "../src/index.ts"
import { jsonSchemas } from "./support/jsonSchemas.ts"
import { root } from "./support/sources.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const schemas = jsonSchemas()
const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { uuid: true, byte: true } })

/** Everything that a published schema finds wrong. */
const errors = (name: string, value: unknown): ReadonlyArray<string> => {
  const schema = schemas[name]
  assert(schema !== undefined, name)
  const validate = ajv.getSchema(name) ?? ajv.addSchema({ ...schema, $id: name }, name).getSchema(name)
  assert(validate !== undefined)
  return validate(JSON.parse(JSON.stringify(value)) as unknown) === true
    ? []
    : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

/** Everything that the loader finds wrong: refusals, and warnings of unknown keys. */
const loaded = (file: unknown) =>
  Config.resolve({ file, environment: Environment.make({ NUMBER: "5" }), flags: [] }).pipe(
    Effect.match({
      onFailure: ({ message }) => message.split("\n"),
      onSuccess: ({ warnings }) => warnings.filter((line) => line.includes("unknown key"))
    })
  )

const samples = ["README", "scratchpad/guides/configuration", "scratchpad/guides/permissions"].flatMap((page) =>
  Array.from(
    readFileSync(join(root, `${page}.md`), "utf8").matchAll(/```yaml\n([\s\S]*?)```/g),
    ([, yaml = ""]) => yaml
  )
)

const taken = [
  ...samples,
  "",
  "model:\n  default: m\n  base_url:\n",
  'agent: { max_turns: "${NUMBER}" }',
  "agent: { tool_use_enforcement: [gpt] }",
  "openrouter: { api_keys: [one, two] }",
  "middlewares: [logging, { import: logging, params: { a: 1 } }]",
  "mcp_servers: { a: { command: npx, args: [-y, 3000], env: { PORT: 3000 }, sandbox: { policy: read-only } } }",
  "plugins: { entries: { mine: { anything: [1, { b: 2 }] } } }",
  "hooks: { post_tool_call: [{ command: ./audit.sh, timeout: 5 }] }",
  "quick_commands: { up: { type: exec, command: uptime, note: mine } }"
]

const refused: ReadonlyArray<readonly [yaml: string, place: string]> = [
  ["agent: { max_turn: 5 }", "/agent "],
  ["agents: { max_turns: 5 }", "/agents "],
  ["agent: { max_turns: many }", "/agent/max_turns "],
  ["agent: { max_turns: 0 }", "/agent/max_turns "],
  ["agent: { reasoning_effort: hihg }", "/agent/reasoning_effort "],
  ["display: { tool_progress: some }", "/display/tool_progress "],
  ["model: { streaming: 1 }", "/model/streaming "],
  ["fallback_providers: [{ provider: openrouter }]", "/fallback_providers/0 "],
  ['custom_providers: [{ name: a, base_url: "http://127.0.0.1", api_kye: b }]', "/custom_providers/0 "],
  ["mcp_servers: { a: { command: npx, sandbox: { policy: read } } }", "/mcp_servers/a/sandbox"],
  ["toolsets: 5", "/toolsets "]
]

describe("the schema of config.yaml", () => {
  it.effect("takes what the loader takes", () =>
    Effect.gen(function* () {
      for (const yaml of taken) {
        const file = yield* Yaml.read(yaml, "config.yaml")
        assert.deepStrictEqual(yield* loaded(file), [], yaml)
        assert.deepStrictEqual(errors("config.json", file ?? null), [], yaml)
      }
    })
  )

  it.effect("refuses an unknown key and a misspelt value where the loader does", () =>
    Effect.gen(function* () {
      for (const [yaml, place] of refused) {
        const file = yield* Yaml.read(yaml, "config.yaml")
        assert.isNotEmpty(yield* loaded(file), yaml)
        assert.isTrue(
          errors("config.json", file).some((line) => line.startsWith(place)),
          `${yaml}: ${errors("config.json", file).join(", ")}`
        )
      }
    })
  )

  it("describes keys by the comments of their fields, with their defaults", () => {
    const text = JSON.stringify(schemas["config.json"])
    assert.include(text, `"description":"\`model\`: the main model."`)
    assert.include(text, `"editing_mode":{"description":"Keys of the prompt of a conversation.","default":"emacs"`)
    assert.notInclude(text, "{@link")
    assert.notInclude(text, "[redacted]")
  })

  it.effect("is named at the top of a new file, and of no other", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      const named = Effect.gen(function* () {
        const { config } = yield* Environment.Home
        yield* createConfigFile(undefined)
        yield* createConfigFile("file:///pack/config.json")
        yield* createConfigFile("file:///other.json")
        return readFileSync(config, "utf8")
      })
      const text = yield* named.pipe(Effect.provide(Environment.Home.layerAt(folder)))
      assert.strictEqual(text, "# yaml-language-server: $schema=file:///pack/config.json\n")
      assert.deepStrictEqual(yield* loaded(yield* Yaml.read(text, "config.yaml")), [])
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("the schemas of events", () => {
  it("describe every hook and every field of its payload", () => {
    const missing = Payloads.names.flatMap((name) => {
      const schema = schemas[`hooks/${name}.json`]
      const properties = Object.entries(Object.assign({}, schema?.["properties"])).filter(
        ([, value]) => !Object.hasOwn(Object.assign({}, value), "description")
      )
      return [...(schema?.["description"] === undefined ? [name] : []), ...properties.map(([key]) => `${name}.${key}`)]
    })
    assert.deepStrictEqual(missing, [])
  })

  it.effect("take every event, entry and payload of a run with a tool, and nothing that is none", () =>
    Effect.gen(function* () {
      const payloads: Array<readonly [string, unknown]> = []
      const hooks = Payloads.names.map((name) =>
        Hooks.on(name, (payload: unknown) => Effect.sync(() => void payloads.push([name, payload])))
      )
      const [events, entries] = yield* Effect.gen(function* () {
        const events = yield* Stream.runCollect(Agent.stream({ prompt: "Read the file package.json" }))
        const started = events.find((event) => event._tag === "RunStarted")
        assert(started !== undefined)
        const record = yield* RunRecord.RunRecord
        return [events, yield* Stream.runCollect(record.read({ sessionId: started.sessionId }))] as const
      }).pipe(Effect.provide(Runtime.layer({ tools: [FileTools.toolset], hooks })))
      for (const event of events) assert.deepStrictEqual(errors("run-event.json", event), [], event._tag)
      for (const entry of entries) assert.deepStrictEqual(errors("record-event.json", entry), [], entry.event._tag)
      for (const [name, payload] of payloads) assert.deepStrictEqual(errors(`hooks/${name}.json`, payload), [], name)
      assert.includeMembers(
        events.map(({ _tag }) => _tag),
        ["RunStarted", "ToolFinished", "RunFinished"]
      )
      assert.includeMembers(
        entries.map(({ event }) => event._tag),
        ["AttemptEnded", "CallEnded", "RunEnded"]
      )
      assert.includeMembers(
        payloads.map(([name]) => name),
        ["pre_api_request", "post_tool_call", "on_session_end"]
      )
      assert.isNotEmpty(errors("run-event.json", { _tag: "StepStarted", step: "one" }))
      assert.isNotEmpty(errors("run-event.json", { _tag: "StepStart", step: 1 }))
      assert.isNotEmpty(errors("hooks/post_tool_call.json", { telemetry_schema_version: "hermes.observer.v1" }))
    })
  )
})
