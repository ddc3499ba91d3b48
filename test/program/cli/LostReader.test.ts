// Runs that have no reader any more, and answers without text.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { machine, program, run } from "../../support/hermes.ts"

const call = (command: string) => ({ tool_calls: [{ name: "terminal", arguments: { command } }] })

describe("a run without a reader", () => {
  it.live("of stream-json stops instead of calling tools for nobody", () =>
    Effect.gen(function* () {
      const { at, cwd, home, put } = yield* machine
      // The reader leaves while the first call runs, so its result is the first line that cannot be written.
      const waits = "for i in $(seq 100); do [ -e left ] && break; sleep 0.05; done; echo one >> marks"
      put(
        "turns.json",
        JSON.stringify({ turns: [call(waits), call("echo two >> marks"), call("echo three >> marks")] })
      )
      const command = ["-q", "go", "--yolo", "--script", "turns.json", "--format", "stream-json"]
      const quoted = [process.execPath, program, ...command].map((word) => `'${word}'`).join(" ")
      yield* run("/bin/sh", ["-c", `${quoted} 2>errors | { read line; touch left; }`], { cwd, home })
      assert.isTrue(existsSync(at("errors")))
      const done = existsSync(at("marks")) ? readFileSync(at("marks"), "utf8") : ""
      assert.notInclude(done, "three")
    })
  )

  it.live("an empty answer of -z is code 1, and prints no placeholder", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("empty.json", JSON.stringify({ loop: true, turns: [{ text: "" }] }))
      const { code, stdout } = yield* hermes(["-z", "go", "--script", "empty.json"])
      assert.deepStrictEqual([code, stdout.trim()], [1, ""])
    })
  )
})
