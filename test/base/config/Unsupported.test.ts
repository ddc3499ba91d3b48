// Keys that are accepted and have no effect yet: what is said of them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"

const resolve = (file: unknown, variables: Readonly<Record<string, string>> = {}) =>
  Config.resolve({ file, environment: Environment.make(variables), flags: [] })

const noEffect = (place: string) => `${place}: not supported yet, has no effect; remove it`

describe("a key that has no effect yet", () => {
  it.effect("is one warning with its place, whichever source it comes from", () =>
    Effect.gen(function* () {
      const { refusals, warnings } = yield* resolve(
        {
          agent: { gateway_timeout: 60 },
          auxiliary: { vision: { context_length: 5 }, compression: { model: "m" } },
          database: { journal_mode: "delete" }
        },
        { HERMES_LOGGING__LEVEL: "DEBUG" }
      )
      assert.deepStrictEqual(warnings, [
        noEffect("config.yaml: agent.gateway_timeout"),
        noEffect("config.yaml: auxiliary.vision.context_length"),
        noEffect("config.yaml: database.journal_mode"),
        noEffect("HERMES_LOGGING__LEVEL")
      ])
      assert.deepStrictEqual(refusals, [])
    })
  )

  it.effect("draws no warning with a value that describes what happens anyway", () =>
    Effect.gen(function* () {
      const { refusals, warnings } = yield* resolve({
        _config_version: 12,
        terminal: { backend: "local" },
        memory: { memory_enabled: false, nudge_interval: 0 },
        skills: { disabled: [], inline_shell: false },
        compression: { enabled: false },
        sessions: { auto_prune: false }
      })
      assert.deepStrictEqual([warnings, refusals], [[], []])
    })
  )

  it.effect("keeps no run from starting by its default", () =>
    Effect.gen(function* () {
      const { settings } = yield* resolve({})
      assert.isUndefined(Config.findRefusal(settings))
    })
  )
})
