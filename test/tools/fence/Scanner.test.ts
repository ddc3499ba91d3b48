// The external scanner: its exit code decides, and its failures count as the operator says.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { ProcessEnvironment } from "../../../src/base/platform/ProcessVariables.ts"
import * as Scanner from "../../../src/tools/fence/Scanner.ts"

/** A scanner whose program is a shell script. */
const scanner = Effect.fnUntraced(function* (script: string, failOpen = true) {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  const path = `${directory}/tirith`
  yield* fs.writeFileString(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  const made = yield* Scanner.make({ path, timeout: Duration.seconds(5), failOpen })
  return { ...made, directory }
})

const keys = (concerns: ReadonlyArray<{ readonly key: string }>) => concerns.map(({ key }) => key)

describe("Scanner", () => {
  it.effect("reads the exit code, and names from what is printed", () =>
    Effect.gen(function* () {
      const clean = yield* scanner("exit 0")
      assert.deepStrictEqual(yield* clean.scan("ls"), [])
      const blocks = yield* scanner(
        `echo '{"findings":[{"rule_id":"homograph"},{"rule_id":"homograph"},{"title":"pipe"}]}'; exit 1`
      )
      assert.deepStrictEqual(keys(yield* blocks.scan("x")), ["content scanner: homograph", "content scanner: pipe"])
      const warns = yield* scanner("echo no json; exit 2")
      const found = yield* warns.scan("x")
      assert.deepStrictEqual(found, [{ key: "content scanner: warning", permanent: false }])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("hands the command over as one argument, and not to a shell", () =>
    Effect.gen(function* () {
      const echo = yield* scanner(`for last; do :; done; printf '%s' "$last" > "$(dirname "$0")/seen"; exit 0`)
      yield* echo.scan("echo 'a b' $(id); --help")
      const fs = yield* FileSystem.FileSystem
      assert.strictEqual(yield* fs.readFileString(`${echo.directory}/seen`), "echo 'a b' $(id); --help")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("gets no key of the environment", () =>
    Effect.gen(function* () {
      const thief = yield* scanner(`env > "$(dirname "$0")/seen"; exit 0`)
      yield* thief.scan("ls")
      const fs = yield* FileSystem.FileSystem
      const seen = yield* fs.readFileString(`${thief.directory}/seen`)
      assert.include(seen, "PLAIN=1")
      assert.notInclude(seen, "planted")
    }).pipe(
      Effect.scoped,
      Effect.provideService(ProcessEnvironment, () => ({
        PATH: "/usr/bin:/bin",
        PLAIN: "1",
        OPENAI_API_KEY: "planted"
      })),
      Effect.provide(NodeServices.layer)
    )
  )

  it.effect("allows or asks when it fails, as the operator says", () =>
    Effect.gen(function* () {
      const open = yield* scanner("exit 3")
      assert.deepStrictEqual(yield* open.scan("x"), [])
      const closed = yield* scanner("exit 3", false)
      assert.deepStrictEqual(keys(yield* closed.scan("x")), ["content scanner: the scanner failed"])
      const absent = yield* Scanner.make({ path: "/nowhere/tirith", timeout: Duration.seconds(5), failOpen: true })
      assert.deepStrictEqual(yield* absent.scan("x"), [])
      const needed = yield* Scanner.make({ path: "/nowhere/tirith", timeout: Duration.seconds(5), failOpen: false })
      assert.lengthOf(yield* needed.scan("x"), 1)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("is given up at its deadline, and no longer asked after three failures", () =>
    Effect.gen(function* () {
      const slow = yield* scanner('echo x >> "$(dirname "$0")/runs"; exec sleep 600', false)
      const fs = yield* FileSystem.FileSystem
      for (let run = 1; run <= 3; run++) {
        const fiber = yield* Effect.forkChild(slow.scan("x"), { startImmediately: true })
        const waitForStart: Effect.Effect<void> = Effect.flatMap(
          Effect.orElseSucceed(fs.readFileString(`${slow.directory}/runs`), () => ""),
          (runs) =>
            runs.length >= 2 * run
              ? Effect.void
              : Effect.andThen(
                  Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
                  waitForStart
                )
        )
        yield* waitForStart
        yield* TestClock.adjust("6 seconds")
        assert.lengthOf(yield* Fiber.join(fiber), 1)
      }
      assert.lengthOf(yield* slow.scan("x"), 1)
      assert.strictEqual(yield* fs.readFileString(`${slow.directory}/runs`), "x\nx\nx\n")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
