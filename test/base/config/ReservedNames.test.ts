// Names that mean parts of every object are names of no setting, wherever they come from.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { existsSync } from "node:fs"
import { join } from "node:path"
import * as Edit from "../../../src/base/config/Edit.ts"
import { Environment, Home, ProcessVariables } from "../../../src/base/config/Environment.ts"
import * as SettingVariables from "../../../src/base/config/SettingVariables.ts"
import * as Yaml from "../../../src/base/config/Yaml.ts"
import { machine } from "../../support/hermes.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const inHome = (root: string) =>
  Effect.provide(
    Environment.layer.pipe(
      Layer.provideMerge(Home.layerAt(root)),
      Layer.provideMerge(NodeServices.layer),
      Layer.provideMerge(Layer.succeed(ProcessVariables, {}))
    )
  )

const isClean = (): boolean => !("polluted" in {}) && !("default" in {})

describe("reserved names", () => {
  it.effect("are refused in keys that are set or removed, and in values", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      const changes = [
        [
          Edit.set("model.__proto__.default", "x"),
          "model.__proto__.default: __proto__ cannot be the name of a setting: use another name"
        ],
        [
          Edit.set("constructor.prototype.polluted", "1"),
          "constructor.prototype.polluted: constructor cannot be the name of a setting: use another name"
        ],
        [Edit.set("prototype", "1"), "prototype: prototype cannot be the name of a setting: use another name"],
        [
          Edit.set("__proto__.x_api_key", "1"),
          "__proto__.x_api_key: __proto__ cannot be the name of a setting: use another name"
        ],
        [
          Edit.unset("providers.__proto__.timeout"),
          "providers.__proto__.timeout: __proto__ cannot be the name of a setting: use another name"
        ],
        [
          Edit.modify(["a", "__proto__"], () => 1),
          "a.__proto__: __proto__ cannot be the name of a setting: use another name"
        ],
        [
          Edit.set("providers", '{"__proto__": {"polluted": 1}}'),
          'providers: expected a mapping, got "{\\"__proto__\\": {\\"polluted\\": 1}}"'
        ],
        [
          Edit.modify(["providers"], () => JSON.parse('{"__proto__": {"polluted": 1}}')),
          "providers: __proto__ cannot be the name of a setting: use another name"
        ]
      ] as const
      for (const [change, message] of changes) {
        const error = yield* Effect.flip(inHome(root)(change))
        assert.strictEqual(error.message, message)
      }
      assert.isFalse(existsSync(join(root, ".env")))
      assert.isTrue(isClean())
    })
  )

  it.effect("are refused as keys of YAML, with their place", () =>
    Effect.gen(function* () {
      const yaml = yield* Yaml.load
      const texts = [
        "a: 1\n__proto__: { polluted: 1 }\n",
        'a: { x: 1 }\n"__proto__": 1\n',
        'a: 1\n"__pr\\x6fto__": 1\n'
      ]
      for (const text of texts) {
        assert.deepStrictEqual(
          yaml.parse(text),
          Result.fail("line 2, column 1: __proto__ cannot be a key: use another name")
        )
      }
      assert.deepStrictEqual(yaml.parse("a: __proto__\n"), Result.succeed({ a: "__proto__" }))
      assert.isTrue(isClean())
    })
  )

  it("name no setting in the environment", () => {
    const { assignments, remarks } = SettingVariables.readVariables(
      { HERMES_PROVIDERS__CONSTRUCTOR__REQUEST_TIMEOUT_SECONDS: "5" },
      "environment"
    )
    assert.deepStrictEqual(assignments, [])
    const json = SettingVariables.readVariables({ HERMES_PROVIDERS: '{"__proto__": {"polluted": 1}}' }, "environment")
    // A text that is no mapping is refused when the settings are checked.
    assert.deepStrictEqual(
      json.assignments.map(({ value }) => value),
      ['{"__proto__": {"polluted": 1}}']
    )
    assert.match(remarks[0] ?? "", /^HERMES_PROVIDERS__CONSTRUCTOR__REQUEST_TIMEOUT_SECONDS: unknown setting, ignored/)
  })

  it.live("are one line and exit code 2 of the program", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { hermes } = yield* machine
        const { code, stderr } = yield* hermes(["config", "set", "model.__proto__.default", "x"])
        assert.strictEqual(
          stderr,
          "Error: model.__proto__.default: __proto__ cannot be the name of a setting: use another name\n"
        )
        assert.strictEqual(code, 2)
      })
    )
  )
})
