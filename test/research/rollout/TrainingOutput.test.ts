// Files of a run for training when the disk is full.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { systemError } from "effect/PlatformError"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as TrainingOutput from "../../../src/research/rollout/TrainingOutput.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

describe("TrainingOutput", () => {
  it.effect("a full disk leaves whole lines, and the next line follows them", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const fs = yield* FileSystem.FileSystem
      let isFull = false
      const disk: FileSystem.FileSystem = {
        ...fs,
        open: (path, options) =>
          Effect.map(fs.open(path, options), (file) => ({
            ...file,
            [FileSystem.FileTypeId]: FileSystem.FileTypeId,
            stat: file.stat,
            sync: file.sync,
            writeAll: (bytes: Uint8Array) =>
              !isFull
                ? file.writeAll(bytes)
                : Effect.andThen(
                    file.writeAll(bytes.slice(0, 7)),
                    Effect.fail(
                      systemError({
                        _tag: "Unknown",
                        module: "FileSystem",
                        method: "write",
                        pathOrDescriptor: path,
                        cause: Object.assign(new Error("write"), { code: "ENOSPC" })
                      })
                    )
                  )
          }))
      }
      yield* Effect.gen(function* () {
        const { log } = yield* TrainingOutput.ExperimentTracker
        yield* log(1, { "reward/mean": 0.5 })
        isFull = true
        const { message } = yield* Effect.flip(log(2, { "reward/mean": 0.25 }))
        assert.strictEqual(
          message,
          `${directory} cannot be written: no space left on the device. Make room, or name another directory.`
        )
        isFull = false
        yield* log(3, { "reward/mean": 0.75 })
      }).pipe(
        Effect.provide(TrainingOutput.layerMetrics(directory)),
        Effect.provideService(FileSystem.FileSystem, disk)
      )
      const lines = readFileSync(join(directory, "metrics.jsonl"), "utf8")
        .trim()
        .split("\n")
        .map((line): { readonly step: number } => JSON.parse(line))
      assert.deepStrictEqual(
        lines.map(({ step }) => step),
        [1, 3]
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
