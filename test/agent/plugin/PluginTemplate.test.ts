// A plugin that `hermes plugins new` writes: it loads, its tool is called in a run, and an editor finds its types.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Agent from "../../../src/agent/Agent.ts"
import * as PluginTemplate from "../../../src/agent/plugin/PluginTemplate.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import * as Fake from "../../support/fakeModel.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { root } from "../../support/sources.ts"
import { loaded, place } from "./support/plugins.ts"

const create = (name: string, plugins: string) =>
  Effect.scoped(PluginTemplate.createPlugin(name, plugins)).pipe(Effect.provide(NodeServices.layer))

describe("a new plugin", () => {
  it.live("loads, and its tool is called in a run", () =>
    Effect.gen(function* () {
      const { places, user } = yield* place
      const directory = yield* create("my-plugin", user)
      // The same file stands in the repository, where its types are checked.
      const checked = join(root, "scratchpad/plugins/my-plugin")
      for (const file of ["index.ts", "plugin.yaml"]) {
        assert.strictEqual(readFileSync(join(directory, file), "utf8"), readFileSync(join(checked, file), "utf8"))
      }
      const { value, warnings } = yield* withWarnings(loaded({ places: places(), enabled: ["my-plugin"] }))
      assert.deepStrictEqual(warnings, [])
      const { middleware, plugins, registry } = value
      assert.deepInclude(plugins[0], {
        enabled: true,
        tools: 1,
        hooks: 1,
        middleware: 1,
        version: "0.1.0",
        error: undefined
      })
      const fake = Fake.make(Fake.calls(Fake.call("c1", "my_plugin_greet", { name: "Ada" })), Fake.text("done"))
      const layer = Agent.layer({ cwd: directory, middleware }).pipe(
        Layer.provideMerge(
          Layer.mergeAll(fake.router, SessionStore.layerMemory, Layer.succeed(ToolRegistry.ToolRegistry, registry))
        )
      )
      const { text } = yield* Effect.provide(Agent.run({ prompt: "Greet Ada." }), layer)
      assert.strictEqual(text, "done")
      assert.include(JSON.stringify(fake.asked[1]?.messages), "Hello, Ada!")
    })
  )

  it.live("has the types of this program in an editor", () =>
    Effect.gen(function* () {
      const { user } = yield* place
      const directory = yield* create("my-plugin", user)
      const tsc = join(root, "node_modules/typescript/bin/tsc")
      const listed = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, [tsc, "-p", directory, "--listFilesOnly"], { maxBuffer: 1e8 })
      )
      const files = listed.stdout.split("\n")
      for (const file of [
        "src/index.ts",
        "node_modules/effect/dist/Effect.d.ts",
        "node_modules/effect/dist/ai/Tool.d.ts"
      ]) {
        assert.isTrue(files.includes(join(root, file)), file)
      }
    })
  )

  it.live("is refused under a name that is none or that is taken, and nothing is changed", () =>
    Effect.gen(function* () {
      const { plugin, user } = yield* place
      plugin("taken", "export const register = () => {}")
      for (const name of [
        "",
        "My-Plugin",
        "a/b",
        "..",
        "a--b",
        "-a",
        "a b",
        "node-modules",
        "ä",
        "a".repeat(51),
        "a\nb"
      ]) {
        const error = yield* Effect.flip(create(name, user))
        assert.match(
          error.message,
          /^".*" is not a valid plugin name: use lower-case letters, digits and single hyphens, such as my-plugin$/
        )
        assert.isTrue(error.input)
      }
      const error = yield* Effect.flip(create("taken", user))
      assert.strictEqual(error.message, `${join(user, "taken")} exists already: choose another name`)
      assert.isTrue(error.input)
      assert.isFalse(existsSync(join(user, "taken/index.ts")))
      assert.deepStrictEqual(readdirSync(user), ["taken"])
    })
  )
})

describe("the version of the plugin contract", () => {
  const newer =
    /it is written for version 2 of the plugin contract, and this program has version 1: update hermes, or install an older version of the plugin/
  const older =
    /it is written for version 0 of the plugin contract, and this program has version 1: install a newer version of the plugin/
  const register = "export const register = (ctx) => ctx.registerCommand('x', () => 'x')"

  for (const [name, module, manifest, expected] of [
    [
      "a manifest of another version, whose module is not run",
      "globalThis.contractRan = true",
      "api_version: 2\n",
      newer
    ],
    ["a manifest of another named version", register, "api_version: hermes.middleware.v2\n", newer],
    [
      "a manifest of a version that is none",
      register,
      "api_version: latest\n",
      /written for version latest of the plugin contract/
    ],
    ["a module of another version", `export const apiVersion = 2; ${register}`, "", newer],
    ["a CommonJS-like default of an older version", "export default { api_version: 0, register: () => {} }", "", older],
    [
      "a typed plugin of another version",
      "export default { '~hermes-effect/plugin/Plugin': 2, name: 'p', build: (await import('effect/Effect')).succeed({}) }",
      "",
      newer
    ]
  ] as const) {
    it.live(`refuses ${name}, in one line`, () =>
      Effect.gen(function* () {
        const { places, plugin } = yield* place
        plugin("p", module, `name: p\n${manifest}`)
        const { value, warnings } = yield* withWarnings(loaded({ places: places(), enabled: ["p"] }))
        assert.match(value.plugins[0]?.error ?? "", expected)
        assert.deepStrictEqual(warnings.length, 1)
        assert.isUndefined(Reflect.get(globalThis, "contractRan"))
      })
    )
  }

  for (const stated of ["api_version: 1\n", 'api_version: "1.4"\n', "api_version: hermes.observer.v1\n", ""]) {
    it.live(`takes ${stated.trim() || "a manifest that does not say"}`, () =>
      Effect.gen(function* () {
        const { places, plugin } = yield* place
        plugin("p", `export const apiVersion = 1; ${register}`, `name: p\n${stated}`)
        const { plugins } = yield* loaded({ places: places(), enabled: ["p"] })
        assert.deepInclude(plugins[0], { enabled: true, error: undefined, commands: 1 })
      })
    )
  }
})
