import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as FileContent from "../../src/tools/builtin/file/FileContent.ts"
import { nodeLayer, session, workspace } from "../support/fileTools.ts"

const bytes = (...values: ReadonlyArray<number>): Uint8Array => Uint8Array.from(values)

layer(nodeLayer)("read_file", (it) => {
  it.effect("answers with JSON whose first key is content, numbered lines with their own line ends", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("alpha.txt", "docs_parallel_alpha_function\n")
      const { text } = yield* w.call("read_file", { path: "alpha.txt" })
      assert.strictEqual(
        text,
        '{"content":"     1|docs_parallel_alpha_function\\n","total_lines":1,"file_size":29,"truncated":false}'
      )
    })
  )

  it.effect("shows a missing final newline, an empty file, CRLF and a byte order mark as what they are", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "one\ntwo")
      yield* w.put("b.txt", "")
      yield* w.put("c.txt", "\uFEFFone\r\ntwo\r\n")
      const a = yield* w.call("read_file", { path: "a.txt" })
      assert.strictEqual(a.body["content"], "     1|one\n     2|two")
      const b = yield* w.call("read_file", { path: "b.txt" })
      assert.deepStrictEqual(b.body, {
        content: "",
        total_lines: 0,
        file_size: 0,
        truncated: false,
        hint: "The file is empty."
      })
      const c = yield* w.call("read_file", { path: "c.txt" })
      assert.strictEqual(c.body["content"], "     1|one\n     2|two\n")
    })
  )

  it.effect("pages with offset and limit and says how to go on", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("n.txt", Array.from({ length: 1_200 }, (_, n) => `line ${n + 1}\n`).join(""))
      const first = yield* w.call("read_file", { path: "n.txt" })
      assert.strictEqual(first.body["truncated"], true)
      assert.strictEqual(first.body["total_lines"], 1_200)
      assert.include(String(first.body["hint"]), "offset 501")
      const middle = yield* w.call("read_file", { path: "n.txt", offset: 700, limit: 2 })
      assert.strictEqual(middle.body["content"], "   700|line 700\n   701|line 701\n")
      const beyond = yield* w.call("read_file", { path: "n.txt", offset: 1_201 })
      assert.isTrue(beyond.isFailure)
      assert.strictEqual(beyond.body["total_lines"], 1_200)
      const capped = yield* w.call("read_file", { path: "n.txt", limit: 5_000 })
      assert.strictEqual(capped.body["truncated"], false)
    })
  )

  it.effect("cuts a line at 2 000 characters and asks for a smaller window beyond 100 000", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("long.txt", `${"é".repeat(500_000)}\nshort\n`)
      const long = yield* w.call("read_file", { path: "long.txt" })
      const [line, short] = String(long.body["content"]).split("\n")
      assert.strictEqual(line?.indexOf("… [line cut: 1000000 bytes]"), 7 + 2_000)
      assert.strictEqual(short, "     2|short")
      assert.isTrue(long.body["truncated"])
      yield* w.put("wide.txt", `${"x".repeat(1_500)}\n`.repeat(100))
      const wide = yield* w.call("read_file", { path: "wide.txt" })
      assert.isTrue(wide.isFailure)
      assert.strictEqual(wide.body["success"], false)
      assert.strictEqual(wide.body["total_lines"], 100)
      assert.include(String(wide.body["hint"]), "limit")
    })
  )

  it.effect("shows bytes that are not UTF-8 as replacement characters and says so", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("latin.txt", bytes(0x63, 0x61, 0x66, 0xe9, 0x0a))
      const { body } = yield* w.call("read_file", { path: "latin.txt" })
      assert.strictEqual(body["content"], "     1|caf\uFFFD\n")
      assert.include(String(body["hint"]), "not UTF-8")
    })
  )

  it.effect("refuses binaries, UTF-16, private keys, directories and devices, each with its reason", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("x.dat", bytes(1, 0, 2))
      yield* w.put("y.png", "not really")
      yield* w.put("z.txt", bytes(0xff, 0xfe, 0x61, 0x00))
      yield* w.put("server.pem", "-----BEGIN RSA PRIVATE KEY-----\nabc\n")
      yield* w.put("cert.pem", "-----BEGIN CERTIFICATE-----\nabc\n")
      const cases: ReadonlyArray<readonly [string, string]> = [
        ["x.dat", "binary"],
        ["y.png", "image"],
        ["z.txt", "UTF-16"],
        ["server.pem", "private key"],
        ["home", "directory"],
        ["/dev/zero", "device"],
        ["/dev/null", "not a regular file"]
      ]
      for (const [path, reason] of cases) {
        const { isFailure, body } = yield* w.call("read_file", { path })
        assert.isTrue(isFailure, path)
        assert.include(String(body["error"]), reason)
      }
      const cert = yield* w.call("read_file", { path: "cert.pem" })
      assert.isFalse(cert.isFailure)
    })
  )

  it.effect("refuses credentials however the path is written", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* w.put("home/.ssh/id_ed25519", "secret")
      yield* w.put("home/.ssh/id_ed25519.pub", "public")
      yield* w.put("home/.hermes/.env", "KEY=1")
      yield* w.put("project/.env", "KEY=1")
      yield* w.put("project/.env.example", "KEY=")
      yield* fs.symlink(w.at("home/.hermes/.env"), w.at("innocent.txt"))
      yield* fs.symlink(w.at("home"), w.at("link"))
      for (const path of [
        "~/.ssh/id_ed25519",
        "project/../home/.ssh/id_ed25519",
        "link/.ssh/id_ed25519",
        "innocent.txt",
        "project/.env",
        "project/.ENV"
      ]) {
        const { isFailure, body } = yield* w.call("read_file", { path })
        assert.isTrue(isFailure, path)
        assert.include(String(body["error"]), "credentials", path)
        assert.notInclude(JSON.stringify(body), "secret", path)
      }
      for (const path of ["~/.ssh/id_ed25519.pub", "project/.env.example"]) {
        assert.isFalse((yield* w.call("read_file", { path })).isFailure, path)
      }
    })
  )

  it.effect("a miss names the files that it may have meant", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("src/config.ts", "")
      yield* w.put("src/configs.json", "")
      yield* w.put("src/main.ts", "")
      const { isFailure, body } = yield* w.call("read_file", { path: "src/Config.js" })
      assert.isTrue(isFailure)
      assert.deepStrictEqual(body["similar_files"], ["src/config.ts", "src/configs.json"])
      const nowhere = yield* w.call("read_file", { path: "nope/x.ts" })
      assert.include(String(nowhere.body["error"]), "directory does not exist")
      const below = yield* w.call("read_file", { path: "src/main.ts/x" })
      assert.isTrue(below.isFailure)
    })
  )

  it.effect("an unchanged re-read is a stub, two stubs later an error, a change gives the text again", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "one\n")
      yield* w.put("b.txt", "two\n")
      const read = (path: string) => w.call("read_file", { path })
      yield* read("a.txt")
      yield* read("b.txt")
      const stub = yield* read("a.txt")
      assert.isFalse(stub.isFailure)
      assert.deepInclude(stub.body, { status: "unchanged", dedup: true, content_returned: false })
      assert.notProperty(stub.body, "content")
      yield* read("b.txt")
      yield* read("a.txt")
      yield* read("b.txt")
      const refused = yield* read("a.txt")
      assert.isTrue(refused.isFailure)
      yield* w.put("a.txt", "changed\n")
      assert.strictEqual((yield* read("a.txt")).body["content"], "     1|changed\n")
      assert.property((yield* w.call("read_file", { path: "a.txt" }, { session: "other" })).body, "content")
    })
  )

  it.effect("the same read warns the third time in a row and is refused the fourth; another tool starts anew", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const read = (n: number) =>
        Effect.andThen(w.put("log.txt", `${n}\n`), w.call("read_file", { path: "log.txt", limit: 5 }))
      assert.notProperty((yield* read(1)).body, "warning")
      assert.notProperty((yield* read(2)).body, "warning")
      assert.property((yield* read(3)).body, "warning")
      assert.isTrue((yield* read(4)).isFailure)
      yield* w.state.otherToolRan(session("s1"))
      const again = yield* read(5)
      assert.isFalse(again.isFailure)
      assert.notProperty(again.body, "warning")
    })
  )

  it.effect("after a compaction the text is given again", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.txt", "one\n")
      yield* w.call("read_file", { path: "a.txt" })
      yield* w.state.forgetContents(session("s1"))
      assert.property((yield* w.call("read_file", { path: "a.txt" })).body, "content")
    })
  )

  it.effect("a notebook is shown as its cells", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put(
        "n.ipynb",
        JSON.stringify({
          cells: [
            { cell_type: "markdown", source: ["# Title\n", "text"] },
            {
              cell_type: "code",
              source: "1 + 1",
              outputs: [
                { output_type: "execute_result", data: { "text/plain": ["2"] } },
                { output_type: "display_data", data: { "image/png": "…" } }
              ]
            }
          ]
        })
      )
      const { body } = yield* w.call("read_file", { path: "n.ipynb" })
      assert.strictEqual(
        String(body["content"]).replaceAll(/^ *\d+\|/gm, ""),
        "# [cell 1: markdown]\n# Title\ntext\n\n# [cell 2: code]\n1 + 1\n# [output of cell 2]\n2\n[image/png]\n"
      )
      yield* w.put("broken.ipynb", "{")
      assert.strictEqual((yield* w.call("read_file", { path: "broken.ipynb" })).body["content"], "     1|{")
    })
  )

  it.effect("arguments that do not fit are a failed call in the parameters phase, not a result of the tool", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const failed = yield* Effect.flip(w.call("read_file", { offset: 3 }))
      assert.strictEqual(failed._tag, "ToolFailed")
      assert.deepInclude(failed, { tool: "read_file", phase: "parameters" })
      assert.include(failed.message, "path")
    })
  )

  it.effect("a window does not depend on how the bytes are cut into pieces", () =>
    Effect.sync(() => {
      const text = "\uFEFFäöü\r\n\nzwei€\n\u{1F600} drei\nvier"
      const all = new TextEncoder().encode(text)
      const read = (size: number) => {
        const reader = FileContent.makeLineReader({
          offset: 1,
          limit: 4,
          maxChars: 1_000,
          maxLineChars: 5,
          redact: true
        })
        for (let at = 0; at < all.length; at += size) reader.push(all.slice(at, at + size))
        return reader.end()
      }
      const whole = read(all.length)
      assert.strictEqual(whole.totalLines, 5)
      assert.isFalse(whole.invalid)
      for (let size = 1; size < all.length; size++) assert.deepStrictEqual(read(size), whole)
    })
  )
})
