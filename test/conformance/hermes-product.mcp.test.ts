// Cases of the product document about MCP servers and about the tools that belong to nobody else.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { NestedCalls } from "../../src/tools/ToolContext.ts"
import * as Clarify from "../../src/tools/builtin/Clarify.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import { callTool } from "../support/callTool.ts"
import { connected, fixtureOf, section } from "../tools/mcp/support/servers.ts"

describe("hermes-product: MCP and tools", () => {
  it.effect("43 clarify in a run without a user is an error result, and does not wait", () =>
    Effect.gen(function* () {
      const { isFailure, text } = yield* callTool(Clarify.toolset, "clarify", {
        question: "Which one?",
        choices: ["a", "b"]
      })
      assert.isTrue(isFailure)
      assert.include(text, "no user can be asked")
    })
  )

  it.live("44 of a script's tool calls the 51st is refused", () =>
    Effect.gen(function* () {
      let made = 0
      const { body } = yield* callTool(
        ExecuteCode.toolset,
        "execute_code",
        {
          language: "javascript",
          code: `for (let i = 1; i <= 51; i++) { try { read_file({ path: "a" }) } catch (error) { console.log(i, error.message) } }`
        },
        { cwd: "/tmp" }
      ).pipe(
        Effect.provideService(NestedCalls, () =>
          Effect.sync(() => {
            made++
            return { output: "text", isFailure: false }
          })
        ),
        Effect.provide(CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer)))
      )
      assert.deepStrictEqual([made, body["tool_calls_made"]], [50, 50])
      assert.match(String(body["output"]), /^51 the limit of 50 tool calls is reached/)
    })
  )

  it.live("46 of MCP servers one that can not start leaves the others' tools present", () =>
    Effect.gen(function* () {
      const { snapshot } = yield* connected({
        broken: section({ command: "no-such-program-anywhere" }),
        fine: fixtureOf("good")
      })
      const { names } = yield* snapshot
      assert.include(names, "mcp__fine__plain")
      assert.isEmpty(names.filter((name) => name.includes("broken")))
    })
  )
})
