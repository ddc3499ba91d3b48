import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { McpConnector, McpError } from "../../../src/tools/mcp/McpConnection.ts"
import * as McpServers from "../../../src/tools/mcp/McpServers.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import { section } from "./support/servers.ts"

describe("a server that cannot be connected", () => {
  it.effect("is tried again after 1 second, then after twice as long each time, and is given up", () =>
    Effect.gen(function* () {
      const times: Array<number> = []
      const connect = () =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          times.push(now / 1000)
          return Effect.fail(new McpError({ server: "x", reason: "closed", message: "away" }))
        })
      const layer = McpServers.layer({ x: section({ command: "never started" }) }).pipe(
        Layer.provide(Layer.succeed(McpConnector, { connect })),
        Layer.provide(ToolRegistry.layer([]))
      )
      yield* Layer.build(layer)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(times, [0, 1, 2, 4, 8, 16])
    })
  )
})
