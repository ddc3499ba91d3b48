// Settings of plugins: decoded by a Schema or by the declarations of the manifest, with errors that name the line.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import { Home } from "../../../src/base/config/Environment.ts"
import * as Redaction from "../../../src/base/domain/Redaction.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import * as PluginConfig from "../../../src/agent/plugin/PluginConfig.ts"
import * as Plugin from "../../../src/agent/plugin/Plugin.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { loaded, place } from "./support/plugins.ts"

const show = "export const register = (ctx) => ctx.registerCommand('show', () => JSON.stringify(ctx.config))"

const declared = `name: p
config:
  limit: { type: number, default: 1, minimum: 0, description: Dollars }
  mode: { type: string, enum: [ask, stop], default: stop }
  api_key: { type: string, secret: true }
  names: list
`

const typed = `
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Plugin } from "hermes-effect"
export default Plugin.make({
  name: "p",
  config: Schema.Struct({
    limit: Schema.Finite.annotate({ description: "Dollars" }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(1))),
    apiKey: Schema.RedactedFromValue(Schema.String),
    mode: Schema.optionalKey(Schema.Literals(["ask", "stop"]))
  }),
  build: ({ config, key }) =>
    Effect.succeed({ commands: [{ name: "show", run: () => Effect.succeed(key + JSON.stringify(config)) }] })
})
`

const schemaOfPlain = `
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
export const config = Schema.Struct({ maxCalls: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(3))) })
${show}
`

const load = Effect.fnUntraced(function* (
  module: string,
  manifest: string,
  entry: Readonly<Record<string, unknown>>,
  text: string
) {
  const { directory, places, plugin, write } = yield* place
  plugin("p", module, manifest)
  write({ "home/config.yaml": text })
  const home = Home.layerAt(join(directory, "home")).pipe(Layer.provide(NodeServices.layer))
  const registry = Secrets.make()
  const { value, warnings } = yield* withWarnings(
    loaded({ places: places(), enabled: ["p"], entries: { p: entry } }).pipe(
      Effect.provide(home),
      Effect.provideService(Secrets.Secrets, registry)
    )
  )
  const [command] = value.commands
  return {
    shown: command === undefined ? undefined : yield* command.run(""),
    error: value.plugins[0]?.error,
    masks: (text: string) => Redaction.redactText(text, registry),
    warnings
  }
})

describe("settings of a plugin", () => {
  const places = `# a comment
plugins:
  enabled: [p]
  entries:
    p:
      limit: 5
      api_key: kestrel-plain-words-1
`
  const values = { limit: 5, api_key: "kestrel-plain-words-1" }

  it.live("declared in the manifest: checked, with defaults, and secrets masked", () =>
    Effect.gen(function* () {
      const { error, masks, shown } = yield* load(show, declared, { ...values, allow_tool_override: true }, places)
      assert.strictEqual(error, undefined)
      assert.deepStrictEqual(JSON.parse(String(shown)), { ...values, mode: "stop" })
      assert.notInclude(masks("the key is kestrel-plain-words-1"), "kestrel-plain-words-1")
    })
  )

  it.live("with a Schema: typed, with defaults, in the spelling of files, and secrets masked", () =>
    Effect.gen(function* () {
      const { error, masks, shown } = yield* load(typed, "name: p\n", { api_key: "kestrel-plain-words-2" }, places)
      assert.strictEqual(error, undefined)
      assert.strictEqual(shown, 'p{"limit":1,"apiKey":"<redacted>"}')
      assert.notInclude(masks("the key is kestrel-plain-words-2"), "kestrel-plain-words-2")
      const plain = yield* load(schemaOfPlain, "name: p\n", {}, "")
      assert.strictEqual(plain.shown, '{"maxCalls":3}')
    })
  )

  for (const [name, module, manifest] of [
    ["a manifest", show, declared],
    ["a Schema", typed, "name: p\n"]
  ] as const) {
    it.live(`errors of ${name} name key, file and line`, () =>
      Effect.gen(function* () {
        const wrong = (entry: Readonly<Record<string, unknown>>) =>
          Effect.map(load(module, manifest, entry, places), ({ error }) => error ?? "")
        const line = (number: number, key: string) => `config.yaml: line ${number}: plugins.entries.p.${key}: `
        const number = yield* wrong({ ...values, limit: "much" })
        assert.match(number, new RegExp(`^${line(6, "limit")}[Ee]xpected (?:a )?number`))
        assert.match(
          yield* wrong({ ...values, limti: 5 }),
          new RegExp(`^${line(5, "limti")}unknown, did you mean limit\\? Known: limit, `)
        )
        assert.match(
          yield* wrong({ ...values, mode: "never" }),
          /plugins\.entries\.p\.mode: [Ee]xpected .*"ask".*"stop"/
        )
        const secret = yield* wrong({ ...values, api_key: 77_345 })
        assert.match(secret, new RegExp(`^${line(7, "api_key")}`))
        assert.notInclude(secret, "77345")
      })
    )
  }

  it.live("a required setting that is missing, and a declaration that is none", () =>
    Effect.gen(function* () {
      const required = yield* load(show, "name: p\nconfig: { token: { type: string, required: true } }\n", {}, "")
      assert.strictEqual(required.error, "config.yaml: plugins.entries.p.token: missing, expected a string")
      const { warnings } = yield* load(show, "name: p\nconfig: { limit: { type: nubmer } }\n", {}, "")
      assert.match(warnings.join("\n"), /config\.limit\.type: expected a type, one of string, number, /)
    })
  )

  it.effect("a Schema is described with types, defaults and secrets", () =>
    Effect.sync(() => {
      const schema = Schema.Struct({
        maxCost: Schema.Finite.annotate({ description: "Dollars" }).pipe(
          Schema.withDecodingDefaultKey(Effect.succeed(1))
        ),
        apiKey: Schema.RedactedFromValue(Schema.String),
        mode: Schema.optionalKey(Schema.Literals(["ask", "stop"]))
      })
      const common = { description: "", fallback: undefined, isRequired: false, isSecret: false }
      assert.deepStrictEqual(PluginConfig.describeSchema(schema), [
        { ...common, name: "max_cost", type: "number", description: "Dollars", fallback: 1 },
        { ...common, name: "api_key", type: "string", isRequired: true, isSecret: true },
        { ...common, name: "mode", type: '"ask" | "stop"' }
      ])
    })
  )

  it.live("an application passes them in code", () =>
    Effect.gen(function* () {
      const plugin = Plugin.make({
        name: "p",
        config: Schema.Struct({ limit: Schema.Finite }),
        build: ({ config }) =>
          Effect.succeed({ commands: [{ name: "show", run: () => Effect.succeed(String(config.limit)) }] })
      })
      const { commands } = yield* loaded({ plugins: [plugin.withConfig({ limit: 7 })] })
      assert.strictEqual(yield* commands[0]?.run("") ?? Effect.void, "7")
      const { plugins } = yield* loaded({ plugins: [plugin] })
      assert.match(plugins[0]?.error ?? "", /plugins\.entries\.p\.limit: Missing key$/)
    })
  )
})
