import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "../../../src/base/config/Config.ts"
import { Environment, Home, ProcessVariables, type Variables } from "../../../src/base/config/Environment.ts"
import { Settings } from "../../../src/base/config/Settings.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const given = (variables: Variables) => Layer.succeed(ProcessVariables, variables)

const rootWith = (variables: Variables) =>
  Effect.map(Home, ({ root }) => root).pipe(
    Effect.provide(Home.layer.pipe(Layer.provide([NodeServices.layer, given(variables)])))
  )

const modeOf = (path: string): number => statSync(path).mode & 0o777

describe("Home", () => {
  it.effect("is HERMES_HOME, else .hermes in the user's directory", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* rootWith({ HOME: "/home/ada" }), "/home/ada/.hermes")
      assert.strictEqual(yield* rootWith({ USERPROFILE: "/users/ada" }), "/users/ada/.hermes")
      assert.strictEqual(yield* rootWith({ HOME: "/home/ada", HERMES_HOME: "/srv/h" }), "/srv/h")
      assert.strictEqual(yield* rootWith({ HOME: "/home/ada", HERMES_HOME: "~/h" }), "/home/ada/h")
      assert.strictEqual(yield* rootWith({ HOME: "/home/ada", HERMES_HOME: " " }), "/home/ada/.hermes")
      assert.strictEqual(yield* rootWith({ HERMES_HOME: "relative" }), join(process.cwd(), "relative"))
      const error = yield* Effect.flip(rootWith({}))
      assert.strictEqual(error.message, "neither HERMES_HOME nor HOME is set: set HERMES_HOME to a directory")
    })
  )

  it.effect("is created only when something is written, and for its owner alone", () =>
    Effect.gen(function* () {
      const root = join(yield* temporaryDirectory, "deep", "home")
      const program = Effect.gen(function* () {
        const home = yield* Home
        yield* Settings
        assert.isFalse(existsSync(root))
        yield* home.ensure
        assert.strictEqual(modeOf(root), 0o700)
        yield* home.ensure
        return home
      })
      const home = yield* program.pipe(
        Effect.provide(Config.layerAll().pipe(Layer.provide([NodeServices.layer, given({ HERMES_HOME: root })])))
      )
      assert.strictEqual(home.database, join(root, "state.db"))
    })
  )
})

describe("Config.layerAll", () => {
  const settingsIn = (root: string, variables: Variables = {}, options: Config.Options = {}) =>
    Effect.all([Settings, Environment]).pipe(
      Effect.provide(
        Config.layerAll(options).pipe(Layer.provide([NodeServices.layer, given({ ...variables, HERMES_HOME: root })]))
      )
    )

  it.effect("reads config.yaml and .env of the home directory", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      writeFileSync(join(root, "config.yaml"), "agent:\n  max_turns: 7\nmodel:\n  default: ${MODEL}\n")
      writeFileSync(join(root, ".env"), "MODEL=from-env-file\nKEY=file\nEMPTY=\n")
      const [settings, environment] = yield* settingsIn(root, { KEY: "process" })
      assert.strictEqual(settings.agent.maxTurns, 7)
      assert.strictEqual(settings.model.default, "from-env-file")
      assert.strictEqual(environment.get("KEY"), "process")
      assert.isUndefined(environment.get("EMPTY"))
      const [ignored] = yield* settingsIn(root, { HERMES_AGENT__API_MAX_RETRIES: "9" }, { ignoreUserConfig: true })
      assert.strictEqual(ignored.agent.maxTurns, 90)
      assert.strictEqual(ignored.agent.apiMaxRetries, 9)
    })
  )

  it.effect("says in one line what is wrong with the file", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      writeFileSync(join(root, "config.yaml"), "agent:\n  max_turns: 7\n  max_turns: 8\n")
      const malformed = yield* Effect.flip(settingsIn(root))
      assert.strictEqual(malformed._tag, "ConfigError")
      assert.strictEqual(
        malformed.message,
        'config.yaml: line 3, column 3: duplicate key "max_turns": keep one of them'
      )
      const other = yield* temporaryDirectory
      mkdirSync(join(other, "config.yaml"))
      const unreadable = yield* Effect.flip(settingsIn(other))
      assert.match(unreadable.message, /config\.yaml: cannot be read: /)
    })
  )
})
