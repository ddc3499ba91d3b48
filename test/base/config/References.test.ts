// References to variables in the settings, with default values.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import { make } from "../../../src/base/config/Environment.ts"

const load = (file: unknown, variables: Readonly<Record<string, string>> = {}) =>
  Config.resolve({ file, environment: make(variables), flags: [] })

describe("references in the settings", () => {
  it.effect("have a default value after :-, for a variable that is not set or empty", () =>
    Effect.gen(function* () {
      const file = {
        mcp_servers: { a: { command: "serve", args: ["--port", "${PORT:-8080}", "${HOST:-}", "x-${A:-b}-${C:-d e}"] } },
        agent: { max_turns: "${TURNS:-7}" }
      }
      const { settings } = yield* load(file, { A: "", C: "c" })
      assert.deepStrictEqual(settings.mcpServers["a"]?.args, ["--port", "8080", "", "x-b-c"])
      assert.strictEqual(settings.agent.maxTurns, 7)
      const set = yield* load(file, { PORT: "1", TURNS: "9", HOST: "h" })
      assert.deepStrictEqual(set.settings.mcpServers["a"]?.args?.slice(0, 3), ["--port", "1", "h"])
      assert.strictEqual(set.settings.agent.maxTurns, 9)
    })
  )

  it.effect("without a default value need the variable, and a doubled sign is literal", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(load({ mcp_servers: { a: { command: "s", args: ["${PORT}"] } } }))
      assert.include(error.message, "${PORT} is not set")
      const { settings } = yield* load({ mcp_servers: { a: { command: "s", args: ["$${PORT:-8080}"] } } })
      assert.deepStrictEqual(settings.mcpServers["a"]?.args, ["${PORT:-8080}"])
    })
  )
})
