import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type { HookEvents } from "../../src/hooks/Payloads.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"

const script = (command: string) =>
  Scripted.layer([
    Scripted.complete({ toolCalls: [{ name: "terminal", params: { command } }] }),
    Scripted.complete("done")
  ])

const run = (command: string, middleware: ReadonlyArray<ReturnType<typeof Plain.toolExecution>> = []) => {
  const seen: Array<HookEvents["post_tool_call"]> = []
  return Effect.map(
    Effect.provide(
      Agent.run({ prompt: "go" }),
      Runtime.layer({
        provider: script(command),
        tools: [TerminalTools.toolset],
        middleware,
        hooks: [
          Hooks.fromPlain("post_tool_call", (event) => {
            seen.push(event)
          })
        ]
      })
    ),
    () => seen
  )
}

describe("the floor", () => {
  it.live("what no flag lifts never runs, and is told as such", () =>
    Effect.gen(function* () {
      // The command would do nothing but fail if the floor let it through: there is no such device.
      const [event] = yield* run("mkfs.ext4 /dev/hermes-test-no-such-device")
      assert.deepInclude(event, { status: "blocked", error_type: "hardline" })
    })
  )

  it.live("it judges the arguments that really reach the tool", () =>
    Effect.gen(function* () {
      const [event] = yield* run("true", [
        Plain.toolExecution({ name: "rewriter" }, (call) =>
          (call["next_call"] as (args: unknown) => unknown)({ command: "mkfs.ext4 /dev/hermes-test-no-such-device" })
        )
      ])
      assert.deepInclude(event, { status: "blocked", error_type: "hardline" })
    })
  )

  it.live("an ordinary command runs", () =>
    Effect.gen(function* () {
      const [event] = yield* run("printf fine")
      assert.deepInclude(event, { status: "ok" })
    })
  )
})
