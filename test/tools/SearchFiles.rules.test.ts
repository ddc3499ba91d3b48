import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryFiles from "../../src/kit/testing/MemoryFiles.ts"
import * as ContentSearch from "../../src/tools/builtin/search/ContentSearch.ts"
import * as FileWalk from "../../src/places/FileWalk.ts"
import * as Render from "../../src/tools/builtin/SearchFiles.ts"
import { countTurns } from "../support/otherFiber.ts"
import { effectProp } from "../support/property.ts"

const compiled = (source: string): ContentSearch.Pattern => Result.getOrThrow(ContentSearch.compile(source))

const scan = (text: string, source: string, options: Partial<ContentSearch.Options> = {}, piece = text.length + 1) => {
  const scanner = ContentSearch.make({
    pattern: compiled(source),
    context: 0,
    maxMatches: Number.POSITIVE_INFINITY,
    keepLines: true,
    redact: true,
    ...options
  })
  const bytes = new TextEncoder().encode(text)
  for (let at = 0; at < bytes.length; at += piece) if (!scanner.push(bytes.slice(at, at + piece))) break
  return scanner.end()
}

describe("the pattern", () => {
  it("knows which expressions are bounded by the length of a line", () => {
    for (const source of [
      "foo",
      "foo.*",
      "class \\w+",
      "a|b|c",
      "[a-z]+",
      "x{2,3}",
      "(?:a|b)c*",
      "a\\+b\\*c+",
      "f\\(.*?\\)"
    ]) {
      assert.isTrue(ContentSearch.isBounded(source), source)
    }
    for (const source of [
      "(a+)+",
      "(a|a)*",
      "(a|a)+$",
      "a*a*b",
      "(a?){30}",
      "(\\w+)\\1",
      "(?<x>a)\\k<x>",
      "(?:a|b){2,}"
    ]) {
      assert.isFalse(ContentSearch.isBounded(source), source)
    }
  })

  it("understands inline flags, and says what is wrong with an expression that is none", () => {
    assert.deepStrictEqual(compiled("(?i)FOO").matching(["foo", "bar"]), [0])
    assert.deepStrictEqual(compiled("^\\p{Lu}").matching(["Äpfel", "birnen"]), [0])
    const wrong = ContentSearch.compile("f(")
    assert.include(Result.isFailure(wrong) ? wrong.failure : "", "Unterminated group")
  })

  it("gives up where matching would take for ever", () => {
    assert.isUndefined(compiled("(a+)+$").matching([`${"a".repeat(60)}b`]))
    assert.deepStrictEqual(compiled("(a+)+$").matching(["aaa", "b"]), [0])
  })
})

describe("the lines of a file", () => {
  it("are found with their numbers, CRLF and a missing last line end included", () => {
    const { count, hits } = scan("\uFEFFfoo\r\nbar\r\nfoo", "^foo$")
    assert.strictEqual(count, 2)
    assert.deepStrictEqual(
      hits.map(({ content, line }) => [line, content]),
      [
        [1, "foo"],
        [3, "foo"]
      ]
    )
  })

  it("come with the lines around them, which neighbours share", () => {
    const { hits } = scan("1\n2\nx\n4\nx\n6\n7\n", "x", { context: 2 })
    assert.deepStrictEqual(hits, [
      { line: 3, content: "x", before: ["1", "2"], after: ["4", "x"] },
      { line: 5, content: "x", before: ["x", "4"], after: ["6", "7"] }
    ])
  })

  it("are cut around the match when they are long", () => {
    const { hits } = scan(`${"a".repeat(1_000)}needle${"b".repeat(1_000)}\n`, "needle")
    assert.match(hits[0]?.content ?? "", /^…a+needleb+…$/)
  })

  it("are no more than asked for", () => {
    const { count, hits } = scan("x\n".repeat(10), "x", { maxMatches: 3 })
    assert.strictEqual(count, 3)
    assert.strictEqual(hits.length, 3)
    assert.strictEqual(scan("x\n".repeat(10), "x", { keepLines: false }).hits.length, 0)
  })

  effectProp(
    "do not depend on how the bytes are cut into pieces",
    [
      Schema.Array(Schema.Literals(["x", "yx", "é", "", "z x z", "\u{1F600}x"])),
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 7 })),
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 }))
    ],
    ([lines, piece, context]) =>
      Effect.sync(() => {
        const text = lines.join("\n")
        assert.deepStrictEqual(scan(text, "x", { context }, piece), scan(text, "x", { context }))
        assert.strictEqual(scan(text, "x").count, lines.filter((line) => line.includes("x")).length)
      })
  )
})

describe(".gitignore", () => {
  const ignores = (rules: string, path: string, directory = false): boolean =>
    FileWalk.isIgnored([FileWalk.parse("", rules)], path, path.slice(path.lastIndexOf("/") + 1), directory)

  it("names, directories, anchors, wildcards", () => {
    assert.isTrue(ignores("*.log", "a/b/x.log"))
    assert.isTrue(ignores("build/", "a/build", true))
    assert.isFalse(ignores("build/", "a/build"))
    assert.isTrue(ignores("/dist", "dist", true))
    assert.isFalse(ignores("/dist", "a/dist", true))
    assert.isTrue(ignores("a/b", "a/b"))
    assert.isFalse(ignores("a/b", "x/a/b"))
    assert.isTrue(ignores("**/tmp", "x/y/tmp"))
    assert.isTrue(ignores("docs/**/*.md", "docs/a/b/c.md"))
    assert.isTrue(ignores("{a}", "{a}"))
    assert.isFalse(ignores("# comment\n\n  \n", "comment"))
    assert.isTrue(ignores("\\#x", "#x"))
    assert.isTrue(ignores(".cache", "a/.cache", true))
  })

  it("the last rule that fits decides, and the innermost file", () => {
    assert.isFalse(ignores("*.log\n!keep.log", "keep.log"))
    assert.isTrue(ignores("!keep.log\n*.log", "keep.log"))
    const levels = [FileWalk.parse("", "*.log"), FileWalk.parse("a/", "!x.log\n/y")]
    assert.isFalse(FileWalk.isIgnored(levels, "a/x.log", "x.log", false))
    assert.isTrue(FileWalk.isIgnored(levels.slice(0, 1), "b/x.log", "x.log", false))
    assert.isTrue(FileWalk.isIgnored(levels, "a/y", "y", false))
    assert.isFalse(FileWalk.isIgnored(levels, "a/b/y", "y", false))
  })

  it("a file above the top of the walk counts from its own directory", () => {
    const levels = [FileWalk.parse("../src/", "/src/gen\n/other")]
    assert.isTrue(FileWalk.isIgnored(levels, "gen", "gen", true))
    assert.isFalse(FileWalk.isIgnored(levels, "other", "other", true))
  })
})

describe("a directory of many files", () => {
  it.effect("is walked in the order of the names, and other fibers run meanwhile", () =>
    Effect.gen(function* () {
      const names = Array.from({ length: 5_000 }, (_, index) => `${(index * 7) % 5_000}.txt`)
      const files = MemoryFiles.layer({
        "/work/.gitignore": "9*",
        "/work/5/inner.txt": "",
        ...Object.fromEntries(names.map((name) => [`/work/${name}`, ""]))
      })
      const walk = Stream.runCollect(FileWalk.walkFiles("/work", { unreadable: 0, exhausted: false }))
      const [found, turns] = yield* countTurns(Effect.provide(walk, Layer.merge(files, Path.layer)))
      const expected = [...names, ".gitignore", "5"].filter((name) => !name.startsWith("9")).toSorted()
      assert.deepStrictEqual(
        found.map(({ relative }) => relative),
        expected.map((name) => (name === "5" ? "5/inner.txt" : name))
      )
      // It is sorted, compared with the rules and listed in pieces.
      assert.isAtLeast(turns, (2.5 * names.length) / FileWalk.examinedAtOnce)
    })
  )
})

describe("matches as text", () => {
  it("are grouped by file, with each line once", () => {
    assert.strictEqual(
      Render.groupByFile([
        { path: "a", line: 2, content: "x", before: ["1"], after: ["3"] },
        { path: "a", line: 3, content: "3", before: ["x"], after: ["4"] },
        { path: "a", line: 9, content: "x", before: [], after: [] },
        { path: "b", line: 1, content: "x", before: [], after: [] }
      ]),
      "a\n  1- 1\n  2: x\n  3: 3\n  4- 4\n  --\n  9: x\nb\n  1: x"
    )
  })
})
