import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { findLineNumber, type Matcher, toSource } from "../../src/tools/builtin/patch/Match.ts"
import * as Replace from "../../src/tools/builtin/patch/Replace.ts"
import {
  matchBlockAnchor,
  matchContextAware,
  matchEscapeNormalised,
  matchExact,
  matchIndentationFlexible,
  matchLineTrimmed,
  matchTrimmedBoundary,
  matchUnicodeNormalised,
  matchWhitespaceNormalised
} from "../../src/tools/builtin/patch/Replace.ts"
import { effectProp } from "../support/property.ts"

/** The texts that a matcher finds. */
const found = (matcher: Matcher, text: string, wanted: string): ReadonlyArray<string> =>
  matcher(toSource(text), wanted).map(({ start, end }) => text.slice(start, end))

const replaced = (text: string, wanted: string, replacement: string, replaceAll = false) =>
  Effect.runSync(Replace.replace(text, { wanted, replacement, replaceAll }))

const ok = (text: string, wanted: string, replacement: string, replaceAll = false): readonly [string, string] => {
  const result = replaced(text, wanted, replacement, replaceAll)
  assert.isTrue(Result.isSuccess(result), JSON.stringify(result))
  return Result.isSuccess(result) ? [result.success.step, result.success.text] : ["", ""]
}

const refused = (text: string, wanted: string, replacement: string, replaceAll = false): string => {
  const result = replaced(text, wanted, replacement, replaceAll)
  return Result.isFailure(result) ? result.failure._tag : `replaced by ${result.success.step}: ${result.success.text}`
}

describe("the nine matchers, each alone", () => {
  it("exact finds every place, overlapping ones too", () => {
    assert.deepStrictEqual(found(matchExact, "abcab", "ab"), ["ab", "ab"])
    assert.deepStrictEqual(found(matchExact, "aaa", "aa"), ["aa", "aa"])
    assert.deepStrictEqual(found(matchExact, "abc", "B"), [])
    assert.deepStrictEqual(found(matchExact, "abc", ""), [])
  })

  it("line_trimmed ignores blanks at both ends of lines", () => {
    assert.deepStrictEqual(found(matchLineTrimmed, "x\n  a  \n\tb\ny\n", "a\nb"), ["  a  \n\tb"])
    assert.deepStrictEqual(found(matchLineTrimmed, "x\n  a\n\tb\ny\n", "a\nb\n"), ["  a\n\tb\n"])
    assert.deepStrictEqual(found(matchLineTrimmed, "a  b", "a b"), [])
    assert.deepStrictEqual(found(matchLineTrimmed, "\n\n", "  "), [], "blank lines tell no place")
  })

  it("whitespace_normalized ignores how many blanks stand between words, also inside of a line", () => {
    assert.deepStrictEqual(found(matchWhitespaceNormalised, "return f(a,\tb);", "f(a,  b)"), ["f(a,\tb)"])
    assert.deepStrictEqual(found(matchWhitespaceNormalised, "if (a)  {\n    b\n}", "if (a) {\n  b"), [
      "if (a)  {\n    b"
    ])
    assert.deepStrictEqual(found(matchWhitespaceNormalised, "ab", "a b"), [])
    assert.deepStrictEqual(
      found(matchWhitespaceNormalised, " foo  barn", " foo bar"),
      [],
      "not in the middle of a word"
    )
  })

  it("indentation_flexible ignores indentation and blanks between words together", () => {
    assert.deepStrictEqual(found(matchIndentationFlexible, "    a  =  1\n  b\n", "a = 1\nb"), ["    a  =  1\n  b"])
    assert.deepStrictEqual(found(matchIndentationFlexible, "    a = 1\n  c\n", "a = 1\nb"), [])
  })

  it("escape_normalized finds what was escaped once too often", () => {
    assert.deepStrictEqual(found(matchEscapeNormalised, 'print("a")\nx', 'print(\\"a\\")\\nx'), ['print("a")\nx'])
    assert.deepStrictEqual(found(matchEscapeNormalised, "plain", "plain"), [])
  })

  it("trimmed_boundary ignores blanks around the whole text", () => {
    assert.deepStrictEqual(found(matchTrimmedBoundary, "a;b;c", "\n b; \n"), ["b;"])
    assert.deepStrictEqual(found(matchTrimmedBoundary, "subset", " set "), [], "not in the middle of a word")
    assert.deepStrictEqual(found(matchTrimmedBoundary, "a", "a"), [])
  })

  it("unicode_normalized takes typographic characters for plain ones, in both directions", () => {
    assert.deepStrictEqual(found(matchUnicodeNormalised, "say “hi” – now…", 'say "hi" - now...'), ["say “hi” – now…"])
    assert.deepStrictEqual(found(matchUnicodeNormalised, 'say "hi"', "say “hi”"), ['say "hi"'])
    assert.deepStrictEqual(found(matchUnicodeNormalised, "caf\u00E9", "cafe\u0301"), ["caf\u00E9"])
    assert.deepStrictEqual(found(matchUnicodeNormalised, "caf\u00E9s", "cafe"), [], "not half of a character")
    assert.deepStrictEqual(found(matchUnicodeNormalised, "a…b", "a."), [], "not a part of an ellipsis")
  })

  it("block_anchor needs the same first and last line and alike lines between", () => {
    const text = "function total(items) {\n  let sum = 0\n  return sum\n}\nfunction other(items) {\n  fly()\n}\n"
    assert.deepStrictEqual(found(matchBlockAnchor, text, "function total(items) {\n  let summ = 0\n  return sum\n}"), [
      "function total(items) {\n  let sum = 0\n  return sum\n}"
    ])
    assert.deepStrictEqual(found(matchBlockAnchor, text, "function other(items) {\n  swim.deep()\n}"), [], "not alike")
    assert.deepStrictEqual(found(matchBlockAnchor, "{\n a1()\n}\n", "{\n a2()\n}"), [], "brackets tell no place")
  })

  it("context_aware needs four telling lines, three quarters the same", () => {
    const text = "alpha()\nbeta()\ngamma(1)\ndelta()\nepsilon()\n"
    assert.deepStrictEqual(found(matchContextAware, text, "alpha()\nbeta()\ngamma(2)\ndelta()"), [
      "alpha()\nbeta()\ngamma(1)\ndelta()"
    ])
    assert.deepStrictEqual(found(matchContextAware, text, "alpha()\nbeta()\ngamma(2)"), [])
    assert.deepStrictEqual(found(matchContextAware, text, "alpha()\nbetamax()\ngamma(2)\ndelta()"), [])
  })

  it("a line number is that of the line a place begins in", () => {
    const source = toSource("a\n\nbc\n")
    assert.deepStrictEqual(
      [0, 1, 2, 3, 4].map((at) => findLineNumber(source, at)),
      [1, 1, 2, 3, 3]
    )
  })
})

describe("the chain", () => {
  it("the strictest rule that finds something decides", () => {
    assert.deepStrictEqual(ok("a\n  a\n", "  a", "b"), ["exact", "a\nb\n"])
    assert.deepStrictEqual(ok("    a\n    b\n", "  a\n  b", "  c\n    d\n  b"), [
      "line_trimmed",
      "    c\n      d\n    b\n"
    ])
    assert.deepStrictEqual(ok("x(a,  b)\n", "a, b", "c, d"), ["whitespace_normalized", "x(c, d)\n"])
    assert.deepStrictEqual(ok("\tif  (a)\n\t\tb\n", "if (a)\n  b", "if (c)\n  d"), [
      "whitespace_normalized",
      "\tif (c)\n\t\td\n"
    ])
    assert.deepStrictEqual(ok('p("a")\n', 'p(\\"a\\")', 'p(\\"b\\")'), ["escape_normalized", 'p("b")\n'])
    assert.deepStrictEqual(ok("f(x);g(y)", " g(y)\n", " h(z)\n"), ["trimmed_boundary", "f(x);h(z)"])
    assert.deepStrictEqual(ok("it’s", "it's", "it is"), ["unicode_normalized", "it is"])
  })

  it("a replacement written with wrong indentation takes that of the file, tabs for blanks too", () => {
    assert.strictEqual(
      ok(
        "class A:\n\tdef f(self):\n\t\treturn 1\n",
        "def f(self):\n    return 1\n",
        "def f(self):\n    x = 1\n    return x\n"
      )[1],
      "class A:\n\tdef f(self):\n\t\tx = 1\n\t\treturn x\n"
    )
    assert.strictEqual(ok("a\nb\n", "  a\n  b", "  a\nc\n  b")[1], "a\nc\nb\n")
  })

  it("several places are an error, at any rule, unless all were asked for", () => {
    assert.strictEqual(refused("a\na\n", "a", "b"), "Ambiguous")
    assert.strictEqual(refused("aXaXa", "aXa", "b"), "Ambiguous", "overlapping places count")
    assert.strictEqual(refused("  x  \n\tx\t\n", " x \n", "y\n"), "Ambiguous")
    assert.strictEqual(ok("aXaXa", "aXa", "b", true)[1], "bXa")
    assert.strictEqual(ok("a\na\n", "a", "b", true)[1], "b\nb\n")
    assert.strictEqual(
      refused("x;x", "\nx\n", "y", true),
      "Ambiguous",
      "a rule that leaves something out wants one place"
    )
  })

  it("a looser rule never breaks the tie of a stricter one", () => {
    assert.strictEqual(refused('say "x"\nsay "x"\nsay “x”\n', 'say "x"', "y"), "Ambiguous")
  })

  it("similar is not the same: a short text is never replaced by likeness", () => {
    assert.strictEqual(refused("const foo2 = 1\n", "const foo1 = 1", "const foo3 = 1"), "NotFound")
    assert.strictEqual(refused("a(1)\nb(1)\nc(1)\n", "a(2)\nb(2)\nc(2)", "x"), "NotFound")
  })

  it("says what is wrong: nothing wanted, nothing changed, where to look, changed before", () => {
    assert.strictEqual(refused("a", "", "b"), "Empty")
    assert.strictEqual(refused("a", "a", "a"), "Unchanged")
    assert.strictEqual(refused("  a\n", "a \n", "a\n"), "Unchanged")
    assert.deepStrictEqual(
      replaced("one\nconst total = 1\n", "const totals = 2", "new"),
      Result.fail({ _tag: "NotFound", closest: 2, applied: false })
    )
    assert.deepStrictEqual(
      replaced("finished()\n", "todo()", "finished()"),
      Result.fail({ _tag: "NotFound", closest: undefined, applied: true })
    )
  })
})

// A small alphabet, so that texts repeat themselves and several places are common.
const Text = Schema.String.check(Schema.isPattern(/^[ab{} "\n]{0,24}$/))
const Wanted = Schema.String.check(Schema.isPattern(/^[ab{} "\n]{1,6}$/))

/** What all rules before the ones of likeness compare: everything but blanks. */
const visible = (text: string): string => text.replace(/\s+/g, "")

describe("properties", () => {
  effectProp(
    "an exact replacement changes the one place and nothing else, and can be reversed",
    [
      Text,
      Text,
      Schema.String.check(Schema.isPattern(/^<[xyz\n ]{1,6}>$/)),
      Schema.String.check(Schema.isPattern(/^\([xyz\n ]{1,6}\)$/))
    ],
    ([before, after, wanted, replacement]) =>
      Effect.sync(() => {
        const text = before + wanted + after
        const [step, next] = ok(text, wanted, replacement)
        assert.strictEqual(step, "exact")
        assert.strictEqual(next, before + replacement + after)
        assert.strictEqual(ok(next, replacement, wanted)[1], text)
      })
  )

  effectProp(
    "whatever is replaced shows what was wanted, and what surrounds it stays byte for byte",
    [Text, Wanted],
    ([text, wanted]) =>
      Effect.sync(() => {
        const result = replaced(text, wanted, "@")
        if (Result.isFailure(result)) return
        const at = result.success.text.indexOf("@")
        const [head, tail] = [result.success.text.slice(0, at), result.success.text.slice(at + 1)]
        // A replaced line keeps the indentation that it had; that alone may stand before the replacement.
        const kept = head.slice(0, head.length - (/[^\S\n]*$/.exec(head)?.[0].length ?? 0))
        assert.isTrue(text.startsWith(kept))
        assert.isTrue(text.endsWith(tail))
        assert.strictEqual(visible(text.slice(kept.length, text.length - tail.length)), visible(wanted))
      })
  )

  it.effect("lets another fiber run between its steps if the text is long", () =>
    Effect.gen(function* () {
      const text = "  a = 1\n".repeat(10_000)
      let turns = 0
      const other = yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.sync(() => void turns++),
            Effect.yieldNow
          )
        )
      )
      const result = yield* Replace.replace(text, { wanted: "b = 2\nc = 3", replacement: "x", replaceAll: false })
      yield* Fiber.interrupt(other)
      assert.isTrue(Result.isFailure(result))
      // Each of the nine steps is tried.
      assert.isAtLeast(turns, 4)
    })
  )

  effectProp(
    "one place or an error: what the exact rule finds several times is never replaced",
    [Text, Wanted],
    ([text, wanted]) =>
      Effect.sync(() => {
        const times = matchExact(toSource(text), wanted).length
        if (times > 1) assert.strictEqual(refused(text, wanted, "@"), "Ambiguous")
        if (times === 1) assert.strictEqual(ok(text, wanted, "@")[0], "exact")
      })
  )
})
