import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type { HookEvents } from "../../src/hooks/Payloads.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"

const script = () =>
  Scripted.layer([
    Scripted.complete({ toolCalls: [{ name: "terminal", params: { command: "printf secret; exit 3" } }] }),
    Scripted.complete("done")
  ])

describe("transform_terminal_output", () => {
  it.live("may replace what a foreground command wrote; the exit code stays", () => {
    const seen: Array<HookEvents["transform_terminal_output"]> = []
    const layer = Runtime.layer({
      provider: script(),
      tools: [TerminalTools.toolset],
      hooks: [
        Hooks.fromPlain("transform_terminal_output", (event) => {
          seen.push(event)
          return "[hidden]\u001b[31m!"
        })
      ]
    })
    return Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: "go" })
      const messages = yield* (yield* SessionStore).messages(sessionId)
      const results = messages.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [JSON.parse(String(part.result))] : []))
          : []
      )
      assert.deepStrictEqual(results, [{ output: "[hidden]!", exit_code: 3, error: null }])
      assert.strictEqual(seen.length, 1)
      assert.deepInclude(seen[0], {
        command: "printf secret; exit 3",
        output: "secret",
        returncode: 3,
        env_type: "local"
      })
    }).pipe(Effect.provide(layer))
  })
})
