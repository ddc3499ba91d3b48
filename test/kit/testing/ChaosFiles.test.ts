// Files that fail now and then: each operation of the port and of an open file.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Chaos from "../../../src/kit/testing/Chaos.ts"
import * as MemoryFiles from "../../../src/kit/testing/MemoryFiles.ts"

const bytes = new TextEncoder().encode("text")

type Operation = (files: FileSystem.FileSystem) => Effect.Effect<unknown, PlatformError, Scope.Scope>

/** Each operation once, on the files of `world`. */
const operations: Readonly<Record<Chaos.FileOperation, Operation>> = {
  access: (files) => files.access("/a/one"),
  chmod: (files) => files.chmod("/a/one", 0o600),
  chown: (files) => files.chown("/a/one", 1, 1),
  copy: (files) => files.copy("/a", "/copied"),
  copyFile: (files) => files.copyFile("/a/one", "/a/copied"),
  exists: (files) => files.exists("/a/one"),
  glob: (files) => files.glob("**/one", { root: "/a" }),
  link: (files) => files.link("/a/one", "/a/same"),
  lstat: (files) => files.lstat("/a/link"),
  makeDirectory: (files) => files.makeDirectory("/made"),
  makeTempDirectory: (files) => files.makeTempDirectory(),
  makeTempDirectoryScoped: (files) => files.makeTempDirectoryScoped(),
  makeTempFile: (files) => files.makeTempFile(),
  makeTempFileScoped: (files) => files.makeTempFileScoped(),
  open: (files) => files.open("/a/new", { flag: "w" }),
  readDirectory: (files) => files.readDirectory("/a"),
  readDirectoryEntries: (files) => files.readDirectoryEntries("/a"),
  readFile: (files) => files.readFile("/a/one"),
  readFileString: (files) => files.readFileString("/a/one"),
  readLink: (files) => files.readLink("/a/link"),
  realPath: (files) => files.realPath("/a/link"),
  remove: (files) => files.remove("/a/two"),
  rename: (files) => files.rename("/a/one", "/a/renamed"),
  sink: (files) => Stream.run(Stream.make(bytes), files.sink("/a/sunk")),
  stat: (files) => files.stat("/a/one"),
  stream: (files) => Stream.runCollect(files.stream("/a/one")),
  symlink: (files) => files.symlink("one", "/a/linked"),
  truncate: (files) => files.truncate("/a/one", 1),
  utimes: (files) => files.utimes("/a/one", 5, 5),
  watch: (files) => Stream.runHead(files.watch("/a")),
  writeFile: (files) => files.writeFile("/a/written", bytes),
  writeFileString: (files) => files.writeFileString("/a/written", "text")
}
const names = Object.keys(operations) as ReadonlyArray<Chaos.FileOperation> // keys of the record above

const world = Effect.tap(MemoryFiles.make({ "/a/one": "1", "/a/two": "2" }), (files) => files.symlink("one", "/a/link"))

/** All that there is, with what is in it. */
const stateOf = (files: FileSystem.FileSystem) =>
  Effect.gen(function* () {
    const paths = yield* files.readDirectory("/", { recursive: true })
    return yield* Effect.forEach(paths, (path) =>
      Effect.gen(function* () {
        const { mode, mtime, type } = yield* files.lstat(`/${path}`)
        return [path, mode, mtime, type, type === "File" ? yield* files.readFileString(`/${path}`) : ""]
      })
    )
  })

describe("files that fail now and then", () => {
  for (const name of names) {
    it.effect(`${name} fails with its name, and has done nothing; the others do not fail`, () =>
      Effect.gen(function* () {
        const inner = yield* world
        const files = Chaos.wrapFiles(inner, Chaos.make({ seed: 1, rates: { failed: 1 } }), [name])
        const before = yield* stateOf(inner)
        const { reason } = yield* Effect.flip(operations[name](files))
        assert.deepInclude(reason, { _tag: "Busy", method: name, description: "busy, as this test wants it" })
        assert.deepStrictEqual(yield* stateOf(inner), before)
        for (const other of names) {
          if (other === name) continue
          const fresh = yield* world
          const expected = yield* Effect.exit(operations[other](fresh))
          const exit = yield* Effect.exit(
            operations[other](Chaos.wrapFiles(yield* world, Chaos.make({ seed: 1, rates: { failed: 1 } }), [name]))
          )
          assert.strictEqual(exit._tag, expected._tag, other)
        }
      }).pipe(Effect.scoped)
    )
  }

  it.effect("all operations fail where none is named", () =>
    Effect.gen(function* () {
      for (const name of names) {
        const { reason } = yield* Effect.flip(
          operations[name](Chaos.wrapFiles(yield* world, Chaos.make({ seed: 1, rates: { failed: 1 } })))
        )
        assert.deepInclude(reason, { _tag: "Busy", method: name })
      }
    }).pipe(Effect.scoped)
  )

  it.effect("so do those of a file that is open, each with nothing done", () =>
    Effect.gen(function* () {
      const rates: { failed: number } = { failed: 0 }
      const inner = yield* world
      const files = Chaos.wrapFiles(inner, Chaos.make({ seed: 1, rates }))
      const file = yield* files.open("/a/one", { flag: "r+" })
      const each: Readonly<
        Record<Exclude<keyof FileSystem.File, typeof FileSystem.FileTypeId>, Effect.Effect<unknown, PlatformError>>
      > = {
        read: file.read(new Uint8Array(1)),
        readAlloc: file.readAlloc(1),
        seek: file.seek(0n, "start"),
        stat: file.stat,
        sync: file.sync,
        truncate: file.truncate(0),
        write: file.write(bytes),
        writeAll: file.writeAll(bytes)
      }
      for (const [name, operation] of Object.entries(each)) {
        rates.failed = 1
        const { reason } = yield* Effect.flip(operation)
        assert.deepInclude(reason, { _tag: "Busy", module: "File", method: name, pathOrDescriptor: "/a/one" })
        assert.strictEqual(yield* inner.readFileString("/a/one"), "1")
      }
      rates.failed = 0
      yield* file.writeAll(bytes)
      assert.strictEqual(yield* inner.readFileString("/a/one"), "text")
    }).pipe(Effect.scoped)
  )
})
