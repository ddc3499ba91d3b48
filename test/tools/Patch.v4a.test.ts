import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as TextDiff from "effect/TextDiff"
import * as V4A from "../../src/tools/builtin/patch/V4A.ts"
import { effectProp } from "../support/property.ts"

const framed = (...lines: ReadonlyArray<string>): string => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n")

const hunksOf = (...lines: ReadonlyArray<string>): ReadonlyArray<V4A.Hunk> => {
  const operations = Result.getOrThrow(V4A.parse(framed("*** Update File: f", ...lines)))
  const [operation] = operations
  return operation?._tag === "Update" ? operation.hunks : []
}

const apply = (text: string, ...lines: ReadonlyArray<string>): string => {
  const result = V4A.apply(text, hunksOf(...lines))
  return Result.isSuccess(result) ? result.success : `! ${result.failure._tag}`
}

const wrong = (...lines: ReadonlyArray<string>): string => {
  const result = V4A.parse(lines.join("\n"))
  return Result.isFailure(result) ? result.failure : "parsed"
}

describe("the patch text", () => {
  it("names additions, changes, removals and moves, in order", () => {
    const operations = Result.getOrThrow(
      V4A.parse(
        framed(
          "*** Add File: a.txt",
          "+one",
          "+",
          "+two",
          "*** Update File: b.txt",
          "*** Move to: c.txt",
          "@@ class A",
          "@@ def f",
          " x",
          "-y",
          "+z",
          "*** End of File",
          "",
          "*** Delete File: d.txt",
          "*** Move File: e f.txt -> g.txt"
        )
      )
    )
    assert.deepStrictEqual(operations, [
      { _tag: "Add", path: "a.txt", content: "one\n\ntwo\n" },
      {
        _tag: "Update",
        path: "b.txt",
        moveTo: "c.txt",
        hunks: [
          {
            at: 8,
            markers: ["class A", "def f"],
            lines: [
              { kind: "context", text: "x" },
              { kind: "delete", text: "y" },
              { kind: "add", text: "z" }
            ],
            endOfFile: true
          }
        ]
      },
      { _tag: "Delete", path: "d.txt" },
      { _tag: "Update", path: "e f.txt", moveTo: "g.txt", hunks: [] }
    ])
  })

  it("may stand in a code fence and have CRLF line ends", () => {
    const text = "```\r\n*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n```"
    assert.deepStrictEqual(Result.getOrThrow(V4A.parse(text)), [{ _tag: "Add", path: "a", content: "x\n" }])
  })

  it("is refused without its frame, without files, and with lines that say nothing", () => {
    assert.include(wrong("*** Update File: a", "-x", "+y"), "Begin Patch")
    assert.include(wrong("*** Begin Patch", "*** Update File: a", "-x"), "cut off")
    assert.include(wrong("*** Begin Patch", "*** End Patch"), "names no file")
    assert.include(wrong("*** Begin Patch", "*** Rename File: a", "*** End Patch"), "line 2")
    assert.include(wrong("*** Begin Patch", "*** Update File: a", "@@", "x", "*** End Patch"), "line 4")
    assert.include(wrong("*** Begin Patch", "*** Add File: a", "x", "*** End Patch"), "line 3")
    assert.include(wrong("*** Begin Patch", "*** Delete File: a", "-x", "*** End Patch"), "no lines")
  })

  it("is refused where it has context and changes nothing", () => {
    assert.include(wrong("*** Begin Patch", "*** Update File: a", "@@", " x", "*** End Patch"), "changes nothing in a")
    assert.include(wrong("*** Begin Patch", "*** Update File: a", "*** End Patch"), "changes nothing in a")
  })
})

describe("hunks", () => {
  const file = "def a():\n    return 1\n\ndef b():\n    return 1\n"

  it("change the one place that fits, keeping the file's own context lines", () => {
    assert.strictEqual(apply("a \nb\nc\n", "@@", " a", "-b", "+B", " c"), "a \nB\nc\n")
    assert.strictEqual(apply("a\nb", "-b", "+B"), "a\nB", "a missing final newline stays missing")
    assert.strictEqual(apply("", "+new"), "new\n")
    assert.strictEqual(apply("a\n", "-a"), "")
  })

  it("that fit several places are refused, unless a marker says which", () => {
    assert.strictEqual(apply(file, "-    return 1", "+    return 2"), "! Ambiguous")
    assert.strictEqual(
      apply(file, "@@ def b():", "-    return 1", "+    return 2"),
      "def a():\n    return 1\n\ndef b():\n    return 2\n"
    )
    assert.strictEqual(
      apply(file, "@@ def a", "-    return 1", "+    return 2"),
      "def a():\n    return 2\n\ndef b():\n    return 1\n"
    )
    assert.strictEqual(
      apply(file, "@@ def", "-    return 1", "+    return 2"),
      "! Ambiguous",
      "nor does a vague marker"
    )
  })

  it("nested markers narrow the place", () => {
    const text = "class A\n  def f\n    1\nclass B\n  def f\n    1\n"
    assert.strictEqual(
      apply(text, "@@ class B", "@@ def f", "-    1", "+    2"),
      "class A\n  def f\n    1\nclass B\n  def f\n    2\n"
    )
  })

  it("a numbered range of a unified diff does not count as a marker", () => {
    assert.strictEqual(apply("a\nb\n", "@@ -7,2 +7,2 @@ nowhere", " a", "-b", "+c"), "a\nc\n")
  })

  it("come in the order of the file", () => {
    assert.strictEqual(apply("a\nb\n", "-a", "+A", "@@", "-b", "+B"), "A\nB\n")
    const result = V4A.apply("a\nb\n", hunksOf("-b", "+B", "@@", "-a", "+A"))
    assert.deepInclude(Result.isFailure(result) ? result.failure : {}, { _tag: "NotFound", above: true })
  })

  it("that only add need a place: a marker, a context line, or the end of the file", () => {
    assert.strictEqual(apply("a\nb\n", "+x"), "! NoPlace")
    assert.strictEqual(apply("a\nb\n", "@@ a", "+x"), "a\nx\nb\n")
    assert.strictEqual(apply("a\na\n", "@@ a", "+x"), "! Ambiguous")
    assert.strictEqual(apply("a\nb\n", " a", "+x"), "a\nx\nb\n")
    assert.strictEqual(apply("a\nb\n", "+x", "*** End of File"), "a\nb\nx\n")
    assert.strictEqual(apply("a\nx\na\n", " a", "+y", "*** End of File"), "a\nx\na\ny\n")
    assert.strictEqual(apply("a\n", "@@ nowhere", "+x"), "! NoMarker")
  })

  it("found by their words take the indentation of the file", () => {
    assert.strictEqual(
      apply("\tif (a) {\n\t\tb()\n\t}\n", " if (a) {", "-  b()", "+  c()", " }"),
      "\tif (a) {\n\t\tc()\n\t}\n"
    )
    assert.strictEqual(apply("say “hi”\n", '-say "hi"', "+bye"), "bye\n")
  })
})

const Lines = Schema.Array(Schema.Literals(["a", "b", "  c", "d e", ""])).check(Schema.isMaxLength(12))
const textOf = (lines: ReadonlyArray<string>): string => lines.map((line) => `${line}\n`).join("")

/** The V4A patch from one text to another, with all lines that stay as context. */
const patchOf = (before: string, after: string): string => {
  const body = TextDiff.lines(before, after).flatMap((edit) =>
    edit.items.map((line) => (edit._tag === "Equal" ? " " : edit._tag === "Insert" ? "+" : "-") + line.slice(0, -1))
  )
  return framed("*** Update File: f", "@@", ...body, "*** End of File")
}

describe("properties", () => {
  effectProp(
    "a patch made of two texts leads from the first to the second, and its reverse back",
    [Lines, Lines],
    ([first, second]) =>
      Effect.sync(() => {
        const [before, after] = [textOf(first), textOf(second)]
        if (before === after) return
        for (const [from, to] of [
          [before, after],
          [after, before]
        ] as const) {
          const [operation] = Result.getOrThrow(V4A.parse(patchOf(from, to)))
          const result = V4A.apply(from, operation?._tag === "Update" ? operation.hunks : [])
          assert.deepStrictEqual(result, Result.succeed(to))
        }
      })
  )

  effectProp(
    "a patch with little context leads to the right text or is refused as ambiguous, never to a wrong one",
    [Lines, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 11 })), Schema.Literals(["X", "Y"])],
    ([lines, index, replacement]) =>
      Effect.sync(() => {
        const line = lines[index]
        if (line === undefined) return
        const context = lines[index - 1]
        const hunk = [...(context === undefined ? [] : [` ${context}`]), `-${line}`, `+${replacement}`]
        const result = V4A.apply(textOf(lines), hunksOf(...hunk))
        if (Result.isFailure(result)) assert.strictEqual(result.failure._tag, "Ambiguous")
        else assert.strictEqual(result.success, textOf(lines.map((old, at) => (at === index ? replacement : old))))
      })
  )
})
