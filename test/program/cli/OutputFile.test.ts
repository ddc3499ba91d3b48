// Files of --output: what is there stays until the new one is whole.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { systemError } from "effect/PlatformError"
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as OutputFile from "../../../src/program/cli/OutputFile.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

/** A disk that is full after three bytes. */
const full = Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => ({
  ...fs,
  writeFile: (path, bytes, options) =>
    Effect.andThen(
      fs.writeFile(path, bytes.slice(0, 3), options),
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

describe("OutputFile", () => {
  it.live("an existing file is replaced as a whole, keeps its mode, and its link", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [path, link] = [join(directory, "a.json"), join(directory, "link.json")]
      writeFileSync(path, "before")
      chmodSync(path, 0o640)
      symlinkSync(path, link)
      yield* OutputFile.write(link, "after")
      assert.strictEqual(readFileSync(path, "utf8"), "after")
      assert.strictEqual(statSync(path).mode & 0o777, 0o640)
      yield* OutputFile.write(join(directory, "new.json"), "new")
      assert.strictEqual(statSync(join(directory, "new.json")).mode & 0o777, 0o600)
      yield* OutputFile.write("/dev/null", "nothing")
      assert.deepStrictEqual(readdirSync(directory).toSorted(), ["a.json", "link.json", "new.json"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("a full disk leaves what was there, and nothing else", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(join(directory, "a.json"), "before")
      const disk = yield* full
      const failure = yield* Effect.flip(
        Effect.provideService(OutputFile.write(join(directory, "a.json"), "after all"), FileSystem.FileSystem, disk)
      )
      assert.include(JSON.stringify(failure), "a.json")
      assert.strictEqual(readFileSync(join(directory, "a.json"), "utf8"), "before")
      yield* Effect.flip(
        Effect.provideService(OutputFile.write(join(directory, "b.json"), "after all"), FileSystem.FileSystem, disk)
      )
      assert.isFalse(existsSync(join(directory, "b.json")))
      assert.deepStrictEqual(readdirSync(directory), ["a.json"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
