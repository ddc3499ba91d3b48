import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as TestClock from "effect/testing/TestClock"
import { nodeLayer, workspace } from "../support/fileTools.ts"

/** A small project with everything that a search has to pass over. */
const project = Effect.gen(function* () {
  const w = yield* workspace()
  const fs = yield* FileSystem.FileSystem
  const put = (files: Readonly<Record<string, string | Uint8Array>>) =>
    Effect.forEach(Object.entries(files), ([name, content]) => w.put(name, content), { discard: true })
  yield* put({
    "src/a.ts": "export const needle = 1\n",
    "src/b.ts": "// nothing\n",
    "src/deep/c.ts": "needle()\nneedle()\n",
    "src/d.py": "needle\n",
    ".github/ci.yml": "needle\n",
    ".gitignore": "dist/\n*.log\n",
    "dist/out.js": "needle\n",
    "x.log": "needle\n",
    "node_modules/p/i.js": "needle\n",
    ".git/config": "needle\n",
    ".env": "needle\n",
    "bin.dat": Uint8Array.from([0, ...new TextEncoder().encode("needle\n")])
  })
  yield* fs.symlink(w.at("src"), w.at("loop"))
  yield* fs.symlink(w.at("src/a.ts"), w.at("alias.ts"))
  return w
})

layer(nodeLayer)("search_files", (it) => {
  it.effect("finds lines in the order of the paths and passes over what is no part of the project", () =>
    Effect.gen(function* () {
      const w = yield* project
      const { body } = yield* w.call("search_files", { pattern: "needle" })
      assert.strictEqual(body["total_count"], 5)
      assert.strictEqual(body["truncated"], false)
      assert.strictEqual(
        body["matches_text"],
        ".github/ci.yml\n  1: needle\nsrc/a.ts\n  1: export const needle = 1\nsrc/d.py\n  1: needle\n" +
          "src/deep/c.ts\n  1: needle()\n  2: needle()"
      )
    })
  )

  it.effect("fewer than five matches are a list", () =>
    Effect.gen(function* () {
      const w = yield* project
      const { body } = yield* w.call("search_files", { pattern: "needle", file_glob: "*.ts", path: "src", context: 1 })
      assert.deepStrictEqual(body["matches"], [
        { path: "src/a.ts", line: 1, content: "export const needle = 1", before: [], after: [] },
        { path: "src/deep/c.ts", line: 1, content: "needle()", before: [], after: ["needle()"] },
        { path: "src/deep/c.ts", line: 2, content: "needle()", before: ["needle()"], after: [] }
      ])
    })
  )

  it.effect("pages with limit and offset, and says whether there is more", () =>
    Effect.gen(function* () {
      const w = yield* project
      const page = (offset: number, limit: number) => w.call("search_files", { pattern: "needle", limit, offset })
      const first = yield* page(0, 2)
      assert.strictEqual(first.body["truncated"], true)
      assert.include(String(first.body["hint"]), "offset 2")
      const middle = yield* page(2, 2)
      assert.deepStrictEqual(middle.body["matches"], [
        { path: "src/d.py", line: 1, content: "needle" },
        { path: "src/deep/c.ts", line: 1, content: "needle()" }
      ])
      const last = yield* page(4, 2)
      assert.strictEqual(last.body["truncated"], false)
      assert.deepStrictEqual(last.body["matches"], [{ path: "src/deep/c.ts", line: 2, content: "needle()" }])
    })
  )

  it.effect("output_mode files_only and count", () =>
    Effect.gen(function* () {
      const w = yield* project
      const files = yield* w.call("search_files", { pattern: "needle", path: "src", output_mode: "files_only" })
      assert.deepStrictEqual(files.body, {
        total_count: 3,
        files: ["src/a.ts", "src/d.py", "src/deep/c.ts"],
        truncated: false
      })
      const count = yield* w.call("search_files", { pattern: "needle", path: "src", output_mode: "count" })
      assert.deepStrictEqual(count.body, {
        total_count: 4,
        counts: { "src/a.ts": 1, "src/d.py": 1, "src/deep/c.ts": 2 },
        truncated: false
      })
    })
  )

  it.effect("target files finds by glob, by path glob and by a part of the name", () =>
    Effect.gen(function* () {
      const w = yield* project
      const names = (pattern: string, more: Record<string, unknown> = {}) =>
        Effect.map(w.call("search_files", { pattern, target: "files", ...more }), ({ body }) => body["files"])
      assert.deepStrictEqual(yield* names("*.ts"), ["alias.ts", "src/a.ts", "src/b.ts", "src/deep/c.ts"])
      assert.deepStrictEqual(yield* names("src/*.{ts,py}"), ["src/a.ts", "src/b.ts", "src/d.py"])
      assert.deepStrictEqual(yield* names("CI"), [".github/ci.yml"])
      assert.deepStrictEqual(yield* names("*", { path: "src/deep" }), ["src/deep/c.ts"])
      const paged = yield* w.call("search_files", { pattern: "*.ts", target: "files", limit: 1, offset: 1 })
      assert.deepStrictEqual(paged.body["files"], ["src/a.ts"])
      assert.strictEqual(paged.body["truncated"], true)
    })
  )

  it.effect("an ignored directory is searched when it is what was asked for", () =>
    Effect.gen(function* () {
      const w = yield* project
      for (const path of ["dist", "node_modules/p", "x.log", w.at("dist")]) {
        const { body } = yield* w.call("search_files", { pattern: "needle", path })
        assert.strictEqual(body["total_count"], 1, path)
      }
      const outside = yield* w.call("search_files", { pattern: "needle", path: w.at("src") }, { cwd: w.home })
      assert.include(String(JSON.stringify(outside.body)), w.at("src/a.ts"))
    })
  )

  it.effect("what read_file refuses is not found by content either", () =>
    Effect.gen(function* () {
      const w = yield* project
      assert.isTrue((yield* w.call("search_files", { pattern: "needle", path: ".env" })).isFailure)
      yield* w.put("home/.ssh/id_rsa", "needle\n")
      const { body } = yield* w.call("search_files", { pattern: "needle", path: "~", output_mode: "count" })
      assert.strictEqual(body["total_count"], 0)
    })
  )

  it.effect("says what is wrong with a pattern or a path", () =>
    Effect.gen(function* () {
      const w = yield* project
      const bad = yield* w.call("search_files", { pattern: "foo(" })
      assert.isTrue(bad.isFailure)
      assert.include(String(bad.body["error"]), "Unterminated group")
      assert.isTrue((yield* w.call("search_files", { pattern: "x", path: "nowhere" })).isFailure)
      assert.isTrue((yield* w.call("search_files", { pattern: "" })).isFailure)
      const lines = yield* w.call("search_files", { pattern: "a\\nb" })
      assert.include(String(lines.body["hint"]), "single lines")
    })
  )

  it.effect("a pattern that backtracks without end is an error, and the program goes on", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", `${"a".repeat(60)}b\n`)
      const { isFailure, body } = yield* w.call("search_files", { pattern: "(a+)+$" })
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "too long to match a.txt")
    })
  )

  it.effect("gives what it has when time is up", () =>
    Effect.gen(function* () {
      const w = yield* workspace((fs) => ({
        ...fs,
        open: (path, options) => (path.endsWith("slow.txt") ? Effect.never : fs.open(path, options))
      }))
      yield* w.put("a.txt", "needle\n")
      yield* w.put("slow.txt", "needle\n")
      const fiber = yield* Effect.forkChild(w.call("search_files", { pattern: "needle" }))
      // The search is real input and output: time passes for it until it waits for nothing but the slow file.
      while (fiber.pollUnsafe() === undefined) {
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        yield* TestClock.adjust("1 second")
      }
      const { body } = yield* Fiber.join(fiber)
      assert.strictEqual(body["truncated"], true)
      assert.include(String(body["hint"]), "30 seconds")
    })
  )

  it.effect(
    "the same search warns the third time in a row and is refused the fourth; a read in between starts anew",
    () =>
      Effect.gen(function* () {
        const w = yield* project
        const search = w.call("search_files", { pattern: "needle", path: "src" })
        yield* search
        yield* search
        assert.property((yield* search).body, "warning")
        assert.isTrue((yield* search).isFailure)
        yield* w.call("read_file", { path: "src/a.ts" })
        assert.notProperty((yield* search).body, "warning")
      })
  )

  it.effect("an answer is bounded, and says where to go on", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("wide.txt", `${"x".repeat(1_000)}\n`.repeat(1_000))
      const { body, text } = yield* w.call("search_files", { pattern: "x", limit: 1_000 })
      assert.isBelow(text.length, 80_000)
      assert.strictEqual(body["truncated"], true)
      const [, next] = /offset (\d+)/.exec(String(body["hint"])) ?? []
      const rest = yield* w.call("search_files", { pattern: "x", limit: 1_000, offset: Number(next) })
      assert.include(String(rest.body["matches_text"]), `  ${Number(next) + 1}: `)
    })
  )
})
