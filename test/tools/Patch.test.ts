import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as PlatformError from "effect/PlatformError"
import { nodeLayer, workspace } from "../support/fileTools.ts"

const framed = (...lines: ReadonlyArray<string>): string => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n")

/** A file system on which replacing or removing a file of this name fails. */
const failingOn =
  (name: string) =>
  (fs: FileSystem.FileSystem): FileSystem.FileSystem => {
    const failure = (method: string, path: string) =>
      PlatformError.systemError({ _tag: "PermissionDenied", module: "FileSystem", method, pathOrDescriptor: path })
    return {
      ...fs,
      rename: (from, to) => (to.endsWith(name) ? failure("rename", to) : fs.rename(from, to)),
      remove: (path, options) => (path.endsWith(name) ? failure("remove", path) : fs.remove(path, options))
    }
  }

layer(nodeLayer)("patch", (it) => {
  it.effect("mode replace changes one place and answers with a unified diff", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.json", '{\n  "a": 1\n}\n')
      const { body } = yield* w.call("patch", { path: "a.json", old_string: '"a": 1', new_string: '"a": 2' })
      assert.deepStrictEqual(body, {
        success: true,
        diff: '--- a/a.json\n+++ b/a.json\n@@ -1,3 +1,3 @@\n {\n-  "a": 1\n+  "a": 2\n }\n',
        files_modified: ["a.json"],
        replacements: 1,
        lint: { "a.json": { status: "ok" } }
      })
      assert.strictEqual(yield* w.get("a.json"), '{\n  "a": 2\n}\n')
    })
  )

  it.effect("replace_all changes every place; a fuzzy match says by which rule it was found", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "x\nx\n")
      const all = yield* w.call("patch", { path: "a.txt", old_string: "x", new_string: "y", replace_all: true })
      assert.strictEqual(all.body["replacements"], 2)
      yield* w.put("b.txt", "say “hi”\n")
      const fuzzy = yield* w.call("patch", { path: "b.txt", old_string: 'say "hi"', new_string: "bye" })
      assert.strictEqual(fuzzy.body["matched_by"], "unicode_normalized")
    })
  )

  it.effect("line ends, byte order mark, mode and links of a file are kept", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* w.put("crlf.txt", "\uFEFFone\r\ntwo\r\nthree\r\n")
      yield* fs.chmod(w.at("crlf.txt"), 0o700)
      yield* fs.symlink("crlf.txt", w.at("link.txt"))
      yield* w.call("patch", { path: "link.txt", old_string: "one\ntwo", new_string: "1\n2" })
      assert.strictEqual(yield* w.get("crlf.txt"), "\uFEFF1\r\n2\r\nthree\r\n".slice(1), "TextDecoder drops the mark")
      assert.deepStrictEqual(Array.from((yield* fs.readFile(w.at("crlf.txt"))).slice(0, 3)), [0xef, 0xbb, 0xbf])
      assert.strictEqual((yield* fs.stat(w.at("crlf.txt"))).mode & 0o777, 0o700)
      assert.strictEqual(yield* fs.readLink(w.at("link.txt")), "crlf.txt")
      yield* w.put("mixed.txt", "a\r\nb\nc\r\n")
      yield* w.call("patch", { path: "mixed.txt", old_string: "b", new_string: "B" })
      assert.strictEqual(yield* w.get("mixed.txt"), "a\r\nB\nc\r\n")
      yield* w.put("open.txt", "a\nb")
      yield* w.call("patch", { mode: "patch", patch: framed("*** Update File: open.txt", "-b", "+B") })
      assert.strictEqual(yield* w.get("open.txt"), "a\nB")
    })
  )

  it.effect("a V4A patch adds, changes, deletes and moves files in one go", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* w.put("a.txt", "one\ntwo\n")
      yield* w.put("b.txt", "bye\n")
      yield* w.put("c.sh", "run\n")
      yield* fs.chmod(w.at("c.sh"), 0o755)
      yield* w.put("d.txt", "old\n")
      const { body } = yield* w.call("patch", {
        mode: "patch",
        patch: framed(
          "*** Update File: a.txt",
          "@@",
          " one",
          "-two",
          "+2",
          "*** Add File: new/e.txt",
          "+hello",
          "*** Delete File: b.txt",
          "*** Move File: c.sh -> bin/c.sh",
          "*** Update File: d.txt",
          "*** Move to: dd.txt",
          "-old",
          "+new"
        )
      })
      assert.strictEqual(body["success"], true)
      assert.deepStrictEqual(body["files_modified"], ["a.txt"])
      assert.deepStrictEqual(body["files_created"], ["new/e.txt", "bin/c.sh", "dd.txt"])
      assert.deepStrictEqual(body["files_deleted"], ["b.txt", "c.sh", "d.txt"])
      assert.strictEqual(yield* w.get("a.txt"), "one\n2\n")
      assert.strictEqual(yield* w.get("new/e.txt"), "hello\n")
      assert.strictEqual(yield* w.get("bin/c.sh"), "run\n")
      assert.strictEqual(yield* w.get("dd.txt"), "new\n")
      assert.isFalse(yield* w.exists("b.txt"))
      assert.isFalse(yield* w.exists("c.sh"))
      assert.strictEqual((yield* fs.stat(w.at("bin/c.sh"))).mode & 0o777, 0o755)
    })
  )

  it.effect("later operations of a patch see what earlier ones do", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "1\n")
      yield* w.call("patch", {
        patch: framed(
          "*** Update File: a.txt",
          "-1",
          "+2",
          "*** Update File: ./a.txt",
          "-2",
          "+3",
          "*** Add File: b.txt",
          "+x",
          "*** Update File: b.txt",
          "-x",
          "+y"
        )
      })
      assert.strictEqual(yield* w.get("a.txt"), "3\n")
      assert.strictEqual(yield* w.get("b.txt"), "y\n")
    })
  )

  it.effect("refuses to add what exists, to move onto what exists, to change what is not there or not text", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* w.put("a.txt", "a\n")
      yield* w.put("b.txt", "b\n")
      yield* w.put("latin.txt", Uint8Array.from([0x63, 0xe9, 0x0a]))
      yield* w.put("x.bin", Uint8Array.from([1, 0, 2]))
      yield* w.put("project/.env", "KEY=1\n")
      yield* fs.symlink("a.txt", w.at("link"))
      const before = yield* w.tree
      for (const [reason, ...lines] of [
        ["exists already", "*** Add File: a.txt", "+x"],
        ["exists already", "*** Move File: a.txt -> b.txt"],
        ["exists already", "*** Add File: n.txt", "+x", "*** Add File: n.txt", "+y"],
        ["no such file", "*** Update File: none.txt", "-x", "+y"],
        ["no such file", "*** Delete File: none.txt"],
        ["no such file", "*** Delete File: a.txt", "*** Update File: a.txt", "-a", "+b"],
        ["not UTF-8", "*** Update File: latin.txt", "-c", "+d"],
        ["binary", "*** Update File: x.bin", "-c", "+d"],
        ["symbolic link", "*** Delete File: link"],
        ["credentials", "*** Move File: project/.env -> shown.txt"],
        ["belongs to the system", "*** Add File: /etc/x", "+x"],
        ["directory", "*** Delete File: project"],
        ["changes nothing", "*** Update File: a.txt", "@@", " a"],
        ["changes nothing", "*** Update File: a.txt", "-a", "+a"]
      ] as const) {
        const { isFailure, body } = yield* w.call("patch", { mode: "patch", patch: framed(...lines) })
        assert.isTrue(isFailure, reason)
        assert.include(String(body["error"]), reason)
      }
      assert.deepStrictEqual(yield* w.tree, before)
    })
  )

  it.effect("a failure while the files are put in place takes back those that were", () =>
    Effect.gen(function* () {
      const w = yield* workspace(failingOn("stubborn.txt"))
      yield* w.put("a.txt", "a\n")
      yield* w.put("b.txt", "b\n")
      yield* w.put("c.txt", "c\n")
      yield* w.put("stubborn.txt", "s\n")
      const before = yield* w.tree
      for (const last of [["*** Update File: stubborn.txt", "-s", "+t"], ["*** Delete File: stubborn.txt"]]) {
        const { isFailure, body } = yield* w.call("patch", {
          mode: "patch",
          patch: framed(
            "*** Update File: a.txt",
            "-a",
            "+A",
            "*** Delete File: b.txt",
            "*** Move File: c.txt -> deep/er/c.txt",
            "*** Add File: new/n.txt",
            "+n",
            ...last
          )
        })
        assert.isTrue(isFailure)
        assert.include(String(body["error"]), "Nothing was changed")
        assert.deepStrictEqual(yield* w.tree, before)
      }
    })
  )

  it.effect("what would change nothing is a failure with no_change", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "a\n")
      const { isFailure, body } = yield* w.call("patch", { path: "a.txt", old_string: "a", new_string: "a" })
      assert.isTrue(isFailure)
      assert.deepInclude(body, { success: false, no_change: true })
    })
  )

  it.effect("the third failure in a row says to stop guessing; a success starts anew", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "alpha beta\n")
      const miss = Effect.map(
        w.call("patch", { path: "a.txt", old_string: "alpha gamma", new_string: "x" }),
        ({ body }) => String(body["hint"])
      )
      assert.include(yield* miss, "Line 1 is the most similar")
      assert.notInclude(yield* miss, "Do not guess")
      assert.include(yield* miss, "failure 3 in a row")
      yield* w.call("patch", { path: "a.txt", old_string: "beta", new_string: "delta" })
      assert.notInclude(yield* miss, "Do not guess")
    })
  )

  it.effect("says which arguments are missing", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      assert.include(String((yield* w.call("patch", { path: "a" })).body["error"]), "needs path, old_string")
      assert.include(String((yield* w.call("patch", { mode: "patch" })).body["error"]), "needs patch")
    })
  )

  it.effect("two edits at the same time both arrive", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", Array.from({ length: 8 }, (_, n) => `<${n}>\n`).join(""))
      yield* Effect.forEach(
        [0, 1, 2, 3, 4, 5, 6, 7],
        (n) => w.call("patch", { path: "a.txt", old_string: `<${n}>`, new_string: `[${n}]` }, { session: `s${n}` }),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(yield* w.get("a.txt"), Array.from({ length: 8 }, (_, n) => `[${n}]\n`).join(""))
    })
  )
})
