// The mode plan over a real delegation: what the parent may not do, its child may not do either.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { machine } from "../../support/hermes.ts"

const call = (name: string, args: unknown) => ({ tool_calls: [{ name, arguments: args }] })

describe("hermes --mode plan", () => {
  it.live("refuses a child what its parent may not do, and lets it read", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      put("seen.txt", "what the child read\n")
      put(
        "turns.yaml",
        JSON.stringify({
          turns: [
            call("delegate_task", { goal: "make made.txt" }),
            call("terminal", { command: "touch made.txt" }),
            call("write_file", { path: "made.txt", content: "x" }),
            call("terminal", { command: "cat seen.txt" }),
            { text: "the child is done" },
            { text: "the parent is done" }
          ]
        })
      )
      const outputs = Effect.fnUntraced(function* (mode: string) {
        const { stdout } = yield* hermes([
          "-q",
          "go",
          "--mode",
          mode,
          "--script",
          "turns.yaml",
          "--format",
          "stream-json"
        ])
        assert.include(stdout, "the parent is done")
        return stdout
          .split("\n")
          .filter((line) => line.includes('"tool_result"'))
          .map((line) => String(JSON.parse(line).output))
      })
      const planned = yield* outputs("plan")
      assert.isFalse(existsSync(at("made.txt")))
      const [{ tool_trace }] = JSON.parse(planned[0] ?? "").results
      assert.deepEqual(
        tool_trace.map(({ status, tool }: { readonly status: string; readonly tool: string }) => `${tool} ${status}`),
        ["terminal blocked", "write_file blocked", "terminal ok"]
      )
      yield* outputs("yolo")
      assert.isTrue(existsSync(at("made.txt")))
    }).pipe(Effect.scoped)
  )
})
