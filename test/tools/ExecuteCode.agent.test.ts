import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

describe("execute_code in a run", () => {
  it.live("a script's calls pass the hooks like every other call, and are no results of the model's", () =>
    Effect.gen(function* () {
      const cwd = yield* temporaryDirectory
      writeFileSync(join(cwd, "a.txt"), "first\n")
      const seen: Array<string> = []
      const questions: Array<unknown> = []
      const blocking = Hooks.on("pre_tool_call", (event) =>
        Effect.sync(() => {
          seen.push(event.tool_name)
          return event.tool_name === "write_file" ? ({ action: "block", message: "not today" } as const) : undefined
        })
      )
      const code = `
        console.log(read_file({ path: "a.txt" }).content)
        try { write_file({ path: "b.txt", content: "x" }) } catch (error) { console.log("refused:", error.message) }
        try { read_file({ path: 5 }) } catch (error) { console.log("wrong") }`
      const layer = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({ toolCalls: [{ name: "execute_code", params: { code, language: "javascript" } }] }),
          Scripted.complete("done")
        ]),
        tools: [FileTools.toolset, ExecuteCode.toolset],
        hooks: [blocking],
        approvals: Approvals.layerCallback((question) => Effect.sync(() => (questions.push(question.command), "once")))
      })
      yield* Effect.gen(function* () {
        const { sessionId, text } = yield* Agent.run({ prompt: "go", cwd })
        assert.strictEqual(text, "done")
        assert.lengthOf(questions, 1, "the script itself is approved")
        assert.deepStrictEqual(seen, ["execute_code", "read_file", "write_file", "read_file"])
        const messages = yield* SessionStore.use((store) => store.messages(sessionId))
        assert.deepStrictEqual(
          messages.map(({ role }) => role),
          ["user", "assistant", "tool", "assistant"]
        )
        const result = JSON.stringify(messages[2])
        assert.include(result, "first")
        assert.include(result, "refused: not today")
        assert.include(result, "tool_calls_made")
      }).pipe(Effect.provide(layer))
    })
  )
})
