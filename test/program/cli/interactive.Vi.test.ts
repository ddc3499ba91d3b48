// Keys of vi: what each does to a line, and a line that is written with them in a conversation.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Editor from "../../../src/program/cli/interactive/Editor.ts"
import * as ViKeys from "../../../src/program/cli/interactive/ViKeys.ts"
import { session } from "../../support/interactiveSession.ts"

/** The text with the cursor as `|`, the mode, and what would be put, after keys; `<` is Esc. */
const after = (text: string, keys: string): string => {
  const cursor = text.indexOf("|")
  let state: Editor.State = { ...Editor.withText(Editor.empty, text.replace("|", "")), cursor }
  let vi: ViKeys.ViState = { ...ViKeys.begin, mode: "normal" }
  for (const char of keys) {
    const key = char === "<" ? ({ _tag: "Key", name: "escape" } as const) : ({ _tag: "Text", text: char } as const)
    const given = ViKeys.apply(vi, state, key, ["old"])
    vi = given.vi
    state = (given.applied ?? Editor.apply(state, key, [])).state
  }
  return `${state.text.slice(0, state.cursor)}|${state.text.slice(state.cursor)} ${vi.mode === "insert" ? "i" : "n"}`
}

describe("keys of vi", () => {
  it.each([
    ["one| two", "0", "|one two n"],
    ["one| two", "$", "one two| n"],
    ["  on|e", "^", "  |one n"],
    ["o|ne two.x", "w", "one |two.x n"],
    ["one |two.x", "w", "one two|.x n"],
    ["one tw|o", "b", "one |two n"],
    ["|one two", "e", "on|e two n"],
    ["on|e two", "e", "one tw|o n"],
    ["a\n|b", "h", "a\n|b n"],
    ["a|\nb", "l", "a|\nb n"],
    ["a\nb|", "k", "a|\nb n"],
    ["|", "k", "old| n"],
    ["a|b", "iX<", "a|Xb n"],
    ["a|b", "aX", "abX| i"],
    [" a|b", "IX", " X|ab i"],
    ["a|b", "AX", "abX| i"],
    ["a|\nb", "oX", "a\nX|\nb i"],
    ["a|b", "OX", "X|\nab i"],
    ["a|bc", "x", "a|c n"],
    ["ab|c", "X", "a|c n"],
    ["a|bc", "sX", "aX|c i"],
    ["a|bc", "D", "a| n"],
    ["a|bc", "CX", "aX| i"],
    ["a\nb|c\nd", "SX", "a\nX|\nd i"],
    ["a\nb|c\nd", "dd", "a\n|d n"],
    ["one |two x", "dw", "one |x n"],
    ["one |two x", "cwX", "one X| x i"],
    ["one two|", "db", "one | n"],
    ["|one two", "de", "| two n"],
    ["one |two", "d0", "|two n"],
    ["one |two", "d$", "one | n"],
    ["|one two", "ywP", "one |one two n"],
    ["|abc", "xp", "ba|c n"],
    ["|abc", "xxu", "|bc n"],
    ["|abc", "xxuuu", "|abc n"],
    ["|abc", "dq", "|abc n"],
    ["|abc", "d<x", "|bc n"],
    ["|one two three four", "2w", "one two |three four n"],
    ["one two three fou|r", "3b", "one |two three four n"],
    ["|one two three", "2e", "one tw|o three n"],
    ["ab|cdef", "3l", "abcde|f n"],
    ["abc|", "10h", "|abc n"],
    ["|one two three four", "d2w", "|three four n"],
    ["|one two three four", "2dw", "|three four n"],
    ["|a b c d e f g h", "2d3wx", "| h n"],
    ["|abcdef", "3xp", "dabc|ef n"],
    ["a\n|b\nc\nd", "2dd", "a\n|d n"],
    ["a\n|b\nc", "9dd", "a\n| n"],
    ["a\n|b\nc\nd", "2ccX", "a\nX|\nd i"],
    ["|ab\nc", "yyP", "ab\n|ab\nc n"],
    ["|ab", "x3P", "aaa|b n"],
    ["|abcdef", "xxx2u", "|bcdef n"],
    ["|abc", "xx9u", "|abc n"],
    ["a\nb\nc|", "2k", "a|\nb\nc n"],
    ["|one\ntwo", "dw", "|\ntwo n"],
    ["|one two", "cw<", "| two n"],
    ["one| two", "cwX", "oneX|two i"],
    ["|one, two", "c2wX", "X| two i"],
    ["|a(b)c(d)", "f(", "a|(b)c(d) n"],
    ["|a(b)c(d)", "2f(", "a(b)c|(d) n"],
    ["|a(b)c(d)", "3f(", "|a(b)c(d) n"],
    ["|a(b)", "dt(", "|(b) n"],
    ["|a(b)", "df(", "|b) n"],
    ["a(b|)", "F(", "a|(b) n"],
    ["a(b|)", "dT(", "a(|) n"],
    ["|a\n(", "f(", "|a\n( n"],
    ["|one two", "tt", "one| two n"],
    ["|abc", "rX", "|Xbc n"],
    ["|abc", "2rX", "X|Xc n"],
    ["|abc", "r<x", "|bc n"],
    ["|aBc", "3~", "AbC| n"],
    ["|👍🏽x", "rX", "|Xx n"],
    ["one tw|o three", "diw", "one | three n"],
    ["one tw|o three", "daw", "one |three n"],
    ["one tw|o", "daw", "one| n"],
    ["one tw|o x", "ciwX", "one X| x i"],
    ['say "on|e" x', 'ci"X', 'say "X|" x i'],
    ["|say 'one' x", "da'", "say | x n"],
    ['|say "one', 'ci"<', '|say "one n'],
    ["|abc", "2dfq", "|abc n"],
    ["|abc", "12345x", "| n"],
    ["|abc", "2<x", "|bc n"],
    ["|", "xXpudwcc", "| i"],
    ["|é👍🏽x", "x", "|👍🏽x n"],
    ["é|👍🏽x", "x", "é|x n"]
  ])("%j and %s make %j", (text, keys, expected) => assert.strictEqual(after(text, keys), expected))

  it.effect("write a line of a conversation; the insert mode is that of the next one", () =>
    session({ display: { editingMode: "vi" } }, ({ later, type, until }) =>
      Effect.gen(function* () {
        yield* type("hallo there\u001b")
        yield* later("  normal")
        yield* type("0lreX")
        yield* type("0cwhello")
        yield* until("› hello there")
        yield* type("\r")
        yield* until("You said: hello there")
        yield* type("insert\r")
        yield* until("You said: insert")
      })
    )
  )
})
