// The file system of a sandbox against somebody who swaps directories for links while it works, and against second
// names of files. It needs no wall: the rules alone are tried. A host whose every operation is preceded by a swap
// stands for the worst moment.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import * as SandboxFiles from "../../src/places/SandboxFiles.ts"
import { sortRules, type Rule } from "../../src/places/SandboxRules.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const live = (name: string, test: Effect.Effect<void, unknown, NodeServices.NodeServices | Scope.Scope>) =>
  it.live.skipIf(process.platform !== "linux")(name, () => Effect.scoped(test).pipe(Effect.provide(NodeServices.layer)))

/**
 * A tree that may be written, with the directory `sub`; `secret` is hidden, `outside` can only be read. `swap` puts a
 * link in the place of `sub`.
 */
const place = Effect.gen(function* () {
  const root = realpathSync(yield* temporaryDirectory)
  const at = (name: string) => join(root, name)
  for (const name of ["tree/sub", "tree/real", "secret", "outside/deep", "tmp"])
    mkdirSync(at(name), { recursive: true })
  writeFileSync(at("secret/key"), "SECRET")
  writeFileSync(at("outside/key"), "theirs")
  writeFileSync(at("outside/deep/key"), "theirs")
  writeFileSync(at("tree/sub/key"), "ours")
  const rules: ReadonlyArray<Rule> = sortRules([
    { path: at("tree"), allows: "write" },
    { path: at("secret"), allows: "nothing" },
    { path: "/var/tmp", allows: "write", source: at("tmp") }
  ])
  const host = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const filesOf = (host: FileSystem.FileSystem) =>
    SandboxFiles.make({
      host,
      path,
      rules: Effect.succeed(rules),
      temporary: Effect.succeed("/var/tmp"),
      admitWrite: () => {}
    })
  const swap = (target: string) => {
    if (lstatSync(at("tree/sub")).isSymbolicLink()) return
    renameSync(at("tree/sub"), at("tree/moved"))
    symlinkSync(at(target), at("tree/sub"))
  }
  const restore = () => {
    rmSync(at("tree/sub"), { recursive: true, force: true })
    rmSync(at("tree/moved"), { recursive: true, force: true })
    mkdirSync(at("tree/sub"))
    writeFileSync(at("tree/sub/key"), "ours")
  }
  /** A host before whose operation of this name the directory is swapped. */
  const swapping = (method: keyof FileSystem.FileSystem, target: string) =>
    filesOf(
      new Proxy(host, {
        get: (target_, name) => {
          const value: unknown = Reflect.get(target_, name)
          return typeof value === "function" && name === method
            ? (...args: ReadonlyArray<unknown>) =>
                Effect.suspend(() => {
                  swap(target)
                  return Reflect.apply(value, target_, args) as Effect.Effect<unknown>
                })
            : value
        }
      })
    )
  const tagOf = (effect: Effect.Effect<unknown, PlatformError>) =>
    Effect.match(effect, { onSuccess: () => "done", onFailure: ({ reason }) => reason._tag as string })
  const outside = () => [
    readFileSync(at("outside/key"), "utf8"),
    readFileSync(at("outside/deep/key"), "utf8"),
    ...readdirSync(at("outside")).toSorted()
  ]
  return { at, files: filesOf(host), host, outside, restore, swap, swapping, tagOf }
})

const untouched = ["theirs", "theirs", "deep", "key"]

describe("a directory that is swapped for a link to another one", () => {
  live(
    "between the judgement and the reading is not read",
    Effect.gen(function* () {
      const { at, restore, swapping, tagOf } = yield* place
      const key = at("tree/sub/key")
      assert.strictEqual(yield* swapping("readFile", "secret").readFileString(key), "ours")
      restore()
      const opened = Effect.scoped(Effect.flatMap(swapping("open", "secret").open(key), (file) => file.readAlloc(100)))
      assert.strictEqual(
        new TextDecoder().decode(
          (yield* opened).pipe((bytes) => (bytes._tag === "Some" ? bytes.value : new Uint8Array()))
        ),
        "ours"
      )
      restore()
      assert.strictEqual(Number((yield* swapping("stat", "secret").stat(key)).size), 4)
      restore()
      writeFileSync(at("tree/sub/more"), "")
      assert.sameMembers(yield* swapping("readDirectory", "secret").readDirectory(at("tree/sub")), ["key", "more"])
      restore()
      yield* swapping("copyFile", "secret").copyFile(key, at("tree/real/copy"))
      assert.strictEqual(readFileSync(at("tree/real/copy"), "utf8"), "ours")
      restore()
      assert.strictEqual(
        yield* tagOf(swapping("readDirectory", "secret").copy(at("tree/sub"), at("tree/real/all"))),
        "PermissionDenied",
        "the name was judged again"
      )
      assert.deepStrictEqual(readdirSync(at("tree/real/all")), [])
    })
  )

  live(
    "between the judgement and the change leaves the other one as it was",
    Effect.gen(function* () {
      const { at, outside, restore, swapping } = yield* place
      const key = at("tree/sub/key")
      const on = (
        method: keyof FileSystem.FileSystem,
        change: (files: FileSystem.FileSystem) => Effect.Effect<unknown, unknown>
      ) =>
        Effect.gen(function* () {
          yield* Effect.exit(change(swapping(method, "outside")))
          assert.deepStrictEqual(outside(), untouched, method)
          restore()
        })
      yield* on("writeFile", (files) => files.writeFileString(key, "changed"))
      yield* on("writeFile", (files) => files.writeFileString(at("tree/sub/new"), "made"))
      yield* on("open", (files) =>
        Effect.scoped(
          Effect.flatMap(files.open(key, { flag: "w" }), (file) => file.writeAll(new TextEncoder().encode("x")))
        )
      )
      yield* on("open", (files) =>
        Effect.scoped(
          Effect.flatMap(files.open(at("tree/sub/new"), { flag: "wx" }), (file) =>
            file.writeAll(new TextEncoder().encode("x"))
          )
        )
      )
      yield* on("truncate", (files) => files.truncate(key, 0))
      yield* on("chmod", (files) => files.chmod(key, 0o600))
      yield* on("makeDirectory", (files) => files.makeDirectory(at("tree/sub/a/b"), { recursive: true }))
      yield* on("makeTempDirectory", (files) => files.makeTempDirectory({ directory: at("tree/sub") }))
      yield* on("rename", (files) => files.rename(key, at("tree/sub/renamed")))
      yield* on("remove", (files) => files.remove(key))
      yield* on("readDirectory", (files) => files.remove(at("tree/sub"), { recursive: true }))
      yield* on("lstat", (files) => files.remove(at("tree/sub"), { recursive: true }))
      yield* on("symlink", (files) => files.symlink("/etc/passwd", at("tree/sub/link")))
      yield* on("link", (files) => files.link(at("tree/sub/key"), at("tree/sub/second")))
      yield* on("copyFile", (files) => files.copyFile(at("tree/sub/key"), at("tree/sub/second")))
    })
  )

  live(
    "all the time, by another process, is never read and never changed",
    Effect.gen(function* () {
      const { at, files, outside } = yield* place
      writeFileSync(at("outside/key"), "theirs")
      const swapper = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(
            process.execPath,
            [
              "-e",
              `
          const { renameSync, symlinkSync, unlinkSync } = require("node:fs"), [, tree, outside, secret] = process.argv
          for (let turn = 0, end = Date.now() + 20000; Date.now() < end; turn++) {
            renameSync(tree + "/sub", tree + "/moved"); symlinkSync(turn % 2 ? outside : secret, tree + "/sub")
            unlinkSync(tree + "/sub"); renameSync(tree + "/moved", tree + "/sub")
            if (turn === 0) process.stdout.write("ready")
          }`,
              at("tree"),
              at("outside"),
              at("secret")
            ],
            { stdio: ["ignore", "pipe", "ignore"] }
          )
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      yield* Effect.promise(() => new Promise((resolve) => swapper.stdout?.once("data", resolve)))
      const seen = new Set<string>()
      // At least once the file was in its place.
      for (let turn = 0; turn < 30 || (!seen.has("ours") && turn < 3_000); turn++) {
        seen.add(yield* Effect.orElseSucceed(files.readFileString(at("tree/sub/key")), () => "refused"))
        yield* Effect.ignore(files.writeFileString(at("tree/sub/key"), "ours"))
        yield* Effect.ignore(files.writeFileString(at(`tree/sub/new${turn}`), "x"))
        yield* Effect.ignore(files.makeDirectory(at(`tree/sub/d${turn}/e`), { recursive: true }))
        yield* Effect.ignore(files.remove(at(`tree/sub/d${turn}`), { recursive: true }))
      }
      assert.isTrue(seen.has("ours"))
      assert.deepStrictEqual(
        [...seen].filter((text) => !["ours", "refused", "", "theirs"].includes(text)),
        []
      )
      assert.deepStrictEqual([outside(), readdirSync(at("secret"))], [untouched, ["key"]])
    })
  )
})

describe("a file with a second name", () => {
  live(
    "is replaced and not changed in place, so that the other name keeps what it has",
    Effect.gen(function* () {
      const { at, files, tagOf } = yield* place
      linkSync(at("outside/key"), at("tree/hard"))
      const refused = yield* Effect.all([
        tagOf(files.writeFileString(at("tree/hard"), "x")),
        tagOf(files.truncate(at("tree/hard"), 0)),
        tagOf(files.chmod(at("tree/hard"), 0o777)),
        tagOf(Effect.scoped(files.open(at("tree/hard"), { flag: "r+" }))),
        tagOf(files.link(at("outside/deep/key"), at("tree/second"))),
        tagOf(files.link(at("secret/key"), at("tree/second")))
      ])
      assert.deepStrictEqual([...new Set(refused)], ["PermissionDenied"])
      yield* files.writeFileString(at("tree/fresh"), "new")
      yield* files.rename(at("tree/fresh"), at("tree/hard"))
      assert.deepStrictEqual(
        [readFileSync(at("tree/hard"), "utf8"), readFileSync(at("outside/key"), "utf8"), existsSync(at("tree/second"))],
        ["new", "theirs", false]
      )
    })
  )
})

describe("files", () => {
  live(
    "of other processes are not there, whichever way leads to them",
    Effect.gen(function* () {
      const { at, files, tagOf } = yield* place
      symlinkSync("/proc/self/environ", at("tree/link"))
      symlinkSync("/proc/self/root", at("tree/root"))
      assert.deepStrictEqual(
        yield* Effect.all([
          tagOf(files.readFile("/proc/self/environ")),
          tagOf(files.readFile(`/proc/${process.ppid}/cmdline`)),
          tagOf(files.readFile(at("tree/link"))),
          tagOf(files.readFile(join("/proc/self/root", at("secret/key")))),
          tagOf(files.readFile(join(at("tree/root"), at("secret/key")))),
          tagOf(files.writeFileString(join(at("tree/root"), at("outside/key")), "x"))
        ]),
        Array.from({ length: 6 }, () => "PermissionDenied")
      )
      assert.strictEqual(yield* tagOf(files.readFile("/proc/version")), "done")
    })
  )

  live(
    "are copied and removed with all below them, links as links, and errors name the path that was given",
    Effect.gen(function* () {
      const { at, files, tagOf } = yield* place
      mkdirSync(at("tree/sub/in"))
      writeFileSync(at("tree/sub/in/deep"), "deep")
      symlinkSync(at("outside"), at("tree/sub/in/away"))
      yield* files.copy(at("tree/sub"), at("tree/copied"))
      assert.deepStrictEqual(
        [readFileSync(at("tree/copied/in/deep"), "utf8"), lstatSync(at("tree/copied/in/away")).isSymbolicLink()],
        ["deep", true]
      )
      yield* files.remove(at("tree/copied"), { recursive: true })
      assert.deepStrictEqual(
        [existsSync(at("tree/copied")), readFileSync(at("outside/key"), "utf8")],
        [false, "theirs"]
      )
      yield* files.remove(at("tree/copied"), { recursive: true, force: true })
      assert.include((yield* Effect.flip(files.readFile(at("tree/absent")))).message, at("tree/absent"))
      assert.deepStrictEqual(
        yield* Effect.all([
          tagOf(files.readFile(at("tree/absent"))),
          tagOf(files.readFile(at("secret/absent"))),
          tagOf(files.writeFileString(at("tree/a/b"), "")),
          tagOf(files.remove(at("tree/sub")))
        ]),
        ["NotFound", "PermissionDenied", "NotFound", "Unknown"]
      )
    })
  )
})
