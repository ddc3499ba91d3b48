import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { bench, nodeLayer } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

layer(nodeLayer)("hermes-product §2.3 terminal and process", (it) => {
  it.effect("28 a command longer than its timeout has exit code 124, and its output so far is kept", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { fiber } = yield* b.untilTimeout("echo partial; exec sleep 1000", "partial", 600)
      yield* TestClock.adjust("600 seconds")
      const { body, isFailure } = yield* Fiber.join(fiber)
      assert.isFalse(isFailure)
      assert.strictEqual(body["exit_code"], 124)
      assert.strictEqual(body["error"], null)
      assert.strictEqual(body["output"], "partial\n[Command timed out after 600 s and was stopped]")
    })
  )

  it.effect("29 a foreground timeout of 601 is an error result, and nothing is run", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body, isFailure } = yield* b.terminal("touch ran", { timeout: 601 })
      assert.isTrue(isFailure)
      assert.strictEqual(body["exit_code"], -1)
      assert.include(String(body["error"]), "600")
      assert.include(String(body["error"]), "background=true")
      assert.isFalse(yield* b.exists("ran"))
    })
  )

  it.effect("31 a background command returns an id at once, and poll later shows its exit code", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const started = yield* b.terminal("while [ ! -e go ]; do sleep 0.01; done; exit 3", { background: true })
      assert.match(
        started.text,
        /^\{"output":"Background process started","session_id":"proc_[0-9a-f]{12}","pid":\d+,"exit_code":0,"error":null,/
      )
      const session_id = started.body["session_id"]
      const running = yield* b.process("poll", { session_id })
      assert.strictEqual(running.body["status"], "running")
      assert.notProperty(running.body, "exit_code")
      yield* b.put("go", "")
      yield* eventually(
        "poll says exited",
        Effect.map(b.process("poll", { session_id }), ({ body }) => body["status"] === "exited")
      )
      const ended = yield* b.process("poll", { session_id })
      assert.strictEqual(ended.body["exit_code"], 3)
    })
  )

  it.effect("32 grep with exit 1 is a success of the tool, and the result says that nothing matched", () =>
    Effect.gen(function* () {
      const b = yield* bench
      yield* b.put("a.txt", "some text\n")
      const { isFailure, text } = yield* b.terminal("grep nothing a.txt")
      assert.isFalse(isFailure)
      assert.strictEqual(
        text,
        '{"output":"","exit_code":1,"error":null,"exit_code_meaning":"No line matched; this is not an error."}'
      )
    })
  )

  it.effect("the result of the nested delegation example of the NeMo Relay document, byte for byte", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { text } = yield* b.terminal("printf docs_nested_leaf_function")
      assert.strictEqual(text, '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}')
    })
  )
})
