import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as PlatformError from "effect/PlatformError"
import { nodeLayer, session, workspace } from "../support/fileTools.ts"

layer(nodeLayer)("write_file", (it) => {
  it.effect("writes exactly what it was given and makes missing directories", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const first = yield* w.call("write_file", { path: "a/b/c.txt", content: "é\r\n" })
      assert.deepStrictEqual(first.body, { bytes_written: 4, dirs_created: true, verified: true })
      assert.strictEqual(yield* w.get("a/b/c.txt"), "é\r\n")
      const second = yield* w.call("write_file", { path: "a/b/c.txt", content: "" })
      assert.deepStrictEqual(second.body, { bytes_written: 0, dirs_created: false, verified: true })
    })
  )

  it.effect("keeps the mode of the file and the symbolic link that leads to it", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* w.put("bin/run.sh", "old")
      yield* fs.chmod(w.at("bin/run.sh"), 0o755)
      yield* fs.symlink("bin/run.sh", w.at("run"))
      yield* fs.symlink(w.at("later.txt"), w.at("dangling"))
      yield* w.call("write_file", { path: "run", content: "new" })
      yield* w.call("write_file", { path: "dangling", content: "x" })
      assert.strictEqual(yield* w.get("bin/run.sh"), "new")
      assert.strictEqual((yield* fs.stat(w.at("bin/run.sh"))).mode & 0o777, 0o755)
      assert.strictEqual(yield* fs.readLink(w.at("run")), "bin/run.sh")
      assert.strictEqual(yield* w.get("later.txt"), "x")
    })
  )

  it.effect("warns when somebody else changed the file since this session read it", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "one")
      yield* w.call("read_file", { path: "a.txt" })
      yield* w.put("a.txt", "changed by hand")
      const warned = yield* w.call("write_file", { path: "a.txt", content: "two" })
      assert.include(String(warned.body["warning"]), "changed externally")
      const silent = yield* w.call("write_file", { path: "a.txt", content: "three" })
      assert.notProperty(silent.body, "warning")
      const stranger = yield* w.call("write_file", { path: "a.txt", content: "four" }, { session: "s2" })
      assert.notProperty(stranger.body, "warning")
      assert.deepStrictEqual(yield* w.state.stale(session("s1")), [w.at("a.txt")])
      assert.deepStrictEqual(yield* w.state.stale(session("s2")), [])
    })
  )

  it.effect("checks the syntax of what it wrote where it knows how", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const lint = (path: string, content: string) =>
        Effect.map(w.call("write_file", { path, content }), ({ body }) => body["lint"])
      assert.deepStrictEqual(yield* lint("a.json", "{}"), { status: "ok" })
      assert.deepInclude(yield* lint("a.json", "{,}"), { status: "error" })
      assert.deepInclude(yield* lint("a.yaml", "a:\n\tb: 1\n"), { status: "error" })
      assert.deepStrictEqual(yield* lint("a.yml", "a: [1, 2]\n"), { status: "ok" })
      assert.deepStrictEqual(yield* lint("a.yml", "a: !Ref x\n---\n? b\n: - - 2\n"), { status: "ok" })
      assert.deepInclude(yield* lint("a.yml", "a: 1\n---\nb: [2\n"), { status: "error" })
      assert.deepInclude(yield* lint("a.toml", "a = \n"), { status: "error" })
      assert.isUndefined(yield* lint("tsconfig.json", "{ // comment\n}"))
      assert.isUndefined(yield* lint("a.ts", "let"))
    })
  )

  it.effect("refuses system paths, start-up files, credentials and the agent's own state, also through links", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* fs.symlink("/etc", w.at("conf"))
      yield* fs.symlink("/etc/hermes-new-file", w.at("dangling"))
      const before = yield* w.tree
      for (const path of [
        "/etc/hosts",
        "/usr/bin/hermes-x",
        "/tmp/../etc/hermes-x",
        "conf/hermes-x",
        "dangling",
        "~/.bashrc",
        "~/.ssh/authorized_keys",
        "~/.hermes/.env",
        "~/.hermes/state.db",
        "~/.hermes/config.yaml",
        "/proc/self/comm",
        "/dev/sda",
        "home",
        "  "
      ]) {
        const { isFailure, body } = yield* w.call("write_file", { path, content: "x" })
        assert.isTrue(isFailure, path)
        assert.strictEqual(body["success"], false)
      }
      assert.deepStrictEqual(yield* w.tree, before)
    })
  )

  it.effect("a write that fails leaves the old content and nothing else behind", () =>
    Effect.gen(function* () {
      const w = yield* workspace((fs) => ({
        ...fs,
        rename: (from, to) =>
          Effect.fail(
            PlatformError.systemError({
              _tag: "Unknown",
              module: "FileSystem",
              method: "rename",
              pathOrDescriptor: from,
              cause: new Error(`ENOSPC: no space left on device, rename '${to}'`)
            })
          )
      }))
      yield* w.put("a.txt", "old")
      const before = yield* w.tree
      const { isFailure, body } = yield* w.call("write_file", { path: "a.txt", content: "new" })
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "no space left")
      yield* w.call("write_file", { path: "x/y/z.txt", content: "new" })
      assert.deepStrictEqual(yield* w.tree, before)
    })
  )

  it.effect("errors are bounded", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const { body } = yield* w.call("read_file", { path: `${"x".repeat(200)}/`.repeat(18) })
      assert.isAtMost(String(body["error"]).length + String(body["hint"] ?? "").length, 2_048)
    })
  )
})
