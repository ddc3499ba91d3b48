// A run of tasks that is interrupted says what it could not leave behind.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import * as SwePool from "../../../src/research/swe/SwePool.ts"
import * as SweRun from "../../../src/research/swe/SweRun.ts"
import type { SweTask } from "../../../src/research/swe/SweTask.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { isClockWarning } from "../../support/clockWarnings.ts"

const task: SweTask = {
  id: "slugs",
  digest: "",
  instruction: "Mend it.",
  source: { _tag: "Empty" },
  prefix: "",
  image: undefined,
  setup: undefined,
  agentSeconds: undefined,
  check: undefined
}

describe("an interrupted run of tasks", () => {
  it.live("warns that the predictions are not those of its rows, when they cannot be written", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const files = SwePool.nameFiles(join(directory, "results.jsonl"))
      mkdirSync(join(files.predictions, "taken"), { recursive: true })
      const journal = yield* SwePool.openJournal(files)
      const begun = yield* Deferred.make<void>()
      const said: Array<unknown> = []
      const run = yield* Effect.forkChild(
        SwePool.run({
          files,
          journal,
          tasks: [task],
          concurrency: 1,
          settings: { maxIterations: 1, approvals: "deny", setupSeconds: 1 }
        }).pipe(
          Effect.provideService(SweRun.SweRuntime, {
            open: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
          }),
          Effect.provide(
            Logger.layer([
              Logger.make(({ logLevel, message }) => {
                if (!isClockWarning(message)) said.push(logLevel, message)
              })
            ])
          )
        )
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(run)
      assert.lengthOf(said, 2)
      assert.strictEqual(said[0], "Warn")
      assert.include(String(said[1]), `${files.predictions} cannot be written: `)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("rows of tasks", () => {
  it.live("leave out the result of a task that has changed since", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const journal = yield* SwePool.openJournal(SwePool.nameFiles(join(directory, "results.jsonl")))
      yield* journal.finish({ id: "one", digest: "1" }, { model_patch: "+1" })
      yield* journal.finish({ id: "two", digest: "2" }, { model_patch: "+2" })
      const rows = yield* SwePool.readRows(journal, [
        { id: "two", digest: "2" },
        { id: "one", digest: "changed" }
      ])
      assert.deepStrictEqual(
        rows.map(({ id, patch }) => [id, patch]),
        [["two", "+2"]]
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
