// Keys that are accepted and have no effect yet: what the program says of them, and where a run does not start.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync } from "node:fs"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import { Settings } from "../../../src/base/config/Settings.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { Home } from "../../../src/base/config/Environment.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const noEffect = (place: string) => `${place}: not supported yet, has no effect; remove it`
const elsewhere =
  "terminal.backend: modal is not supported yet: commands would run on this machine; set it to local to allow that, or to sandbox to confine them"

describe("an application's runtime", () => {
  it.effect("keeps every run from starting where safety depends on it, also one of an application", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const program = Layer.unwrap(
        Settings.use((settings) => Effect.succeed(Runtime.program(settings, { withoutModel: true })))
      ).pipe(
        Layer.provide(Config.layerFromFile({ terminal: { backend: "modal" } })),
        Layer.provide(Layer.mergeAll(Home.layerAt(home), Environment.Environment.layerIn({}))),
        Layer.provide(NodeServices.layer)
      )
      const error = yield* Effect.flip(Effect.provide(Agent.run({ prompt: "hi" }), program))
      assert.deepInclude(error, { _tag: "ConfigError", path: "terminal.backend", message: elsewhere })
    })
  )
})

describe("the program, with keys that have no effect yet", () => {
  it.live("says so once in a run, in config check, show and get, and in doctor", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "terminal:\n  timeout: 7\nagent:\n  gateway_timeout: 60\ndatabase:\n  journal_mode: delete\n")
      const warnings = `Warning: ${noEffect("config.yaml: agent.gateway_timeout")}\nWarning: ${noEffect("config.yaml: database.journal_mode")}\n`

      const run = yield* hermes(["-Q", "-q", "Reply with exactly: hi"])
      assert.deepInclude(run, { code: 0, stdout: "hi\n" })
      assert.strictEqual(run.stderr.split("not supported yet").length, 3)
      assert.include(run.stderr, warnings)

      const check = yield* hermes(["config", "check"])
      assert.deepInclude(check, { code: 0, stdout: "The settings can be used, with warnings\n", stderr: warnings })

      const show = yield* hermes(["config", "show"])
      assert.deepInclude(show, { code: 0, stderr: warnings })
      assert.match(
        show.stdout,
        /^terminal:\n {2}backend: local\n {2}timeout: 7\n {2}lifetime_seconds: 300\n {2}env_passthrough: \[\]\n {2}oneshot_completion_wait_seconds: 600\n/m
      )
      assert.notMatch(show.stdout, /gateway_timeout: 60\n|journal_mode|logging/)

      const get = yield* hermes(["config", "get", "agent.gateway_timeout"])
      assert.deepInclude(get, { code: 0, stdout: "60\n", stderr: `Warning: ${noEffect("agent.gateway_timeout")}\n` })

      const set = yield* hermes(["config", "set", "logging.level", "DEBUG"])
      assert.deepInclude(set, { code: 0, stderr: `Warning: ${noEffect("logging.level")}\n` })

      const doctor = yield* hermes(["doctor"])
      assert.include(doctor.stdout, `! settings  ${noEffect("config.yaml: agent.gateway_timeout")}\n`)
    })
  )

  it.live("does not start where commands would run elsewhere than asked for", () =>
    Effect.gen(function* () {
      const { at, hermes: start, keep, put } = yield* machine
      // The file decides, not the variable of the other tests.
      const hermes = (args: ReadonlyArray<string>) => start(args, { env: { HERMES_TERMINAL__BACKEND: "" } })
      keep("config.yaml", "terminal:\n  backend: modal\n")
      put(
        "touch.yaml",
        "turns:\n  - { text: a, tool_calls: [{ name: terminal, arguments: { command: echo > ran } }] }\n  - { text: done }\n"
      )
      const run = yield* hermes(["-Q", "-q", "go", "--script", "touch.yaml"])
      assert.deepInclude(run, { code: 2, stdout: "", stderr: `Error: ${elsewhere}\n` })
      assert.isFalse(existsSync(at("ran")))

      const check = yield* hermes(["config", "check"])
      assert.deepInclude(check, { code: 2, stdout: "", stderr: `Error: config.yaml: ${elsewhere}\n` })
      const doctor = yield* hermes(["doctor"])
      assert.strictEqual(doctor.code, 1)
      assert.include(doctor.stdout, `✗ settings  config.yaml: ${elsewhere}\n`)

      const set = yield* hermes(["config", "set", "terminal.backend", "local"])
      assert.deepInclude(set, { code: 0, stderr: "" })
      assert.strictEqual((yield* hermes(["-Q", "-q", "go", "--script", "touch.yaml"])).stdout, "done\n")
      assert.isTrue(existsSync(at("ran")))
    })
  )
})
