// What is typed: keys out of bytes, text out of keys, lines of a terminal out of text.
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Editor from "../../../src/program/cli/interactive/Editor.ts"
import * as Keys from "../../../src/program/cli/interactive/Keys.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import { prop } from "../../support/property.ts"

const names = (input: string): ReadonlyArray<string> =>
  Keys.make()
    .push(input)
    .map((key) => (key._tag === "Key" ? key.name : `${key._tag}:${key.text}`))

describe("Keys", () => {
  it("knows characters, control keys and keys with Alt", () => {
    assert.deepStrictEqual(names("aé漢\r\n\t\u007f\b\u0003\u001bf\u001b\r\u001b\u007f"), [
      "Text:aé漢",
      "enter",
      "ctrl-j",
      "tab",
      "backspace",
      "ctrl-h",
      "ctrl-c",
      "alt-f",
      "alt-enter",
      "alt-backspace"
    ])
  })

  it("knows the sequences of different terminals by one name", () => {
    assert.deepStrictEqual(names("\u001b[A\u001bOA\u001b[H\u001b[1~\u001b[7~\u001bOH"), [
      "up",
      "up",
      "home",
      "home",
      "home",
      "home"
    ])
    assert.deepStrictEqual(names("\u001b[3~\u001b[3;5~\u001b[3^\u001b[1;5D\u001b[1;3C"), [
      "delete",
      "ctrl-delete",
      "ctrl-delete",
      "ctrl-left",
      "alt-right"
    ])
    assert.deepStrictEqual(names("\u001b[13;2u\u001b[27;2;13~\u001b[13;5u\u001b[99;5u"), [
      "shift-enter",
      "shift-enter",
      "ctrl-enter",
      "ctrl-c"
    ])
  })

  it("leaves out what it does not know", () => {
    assert.deepStrictEqual(names("a\u001b[?62;c\u001b[200b\u001b[Ib\u009bc"), ["Text:a", "Text:b", "Text:c"])
  })

  it("what is pasted is one key, whatever it holds", () => {
    assert.deepStrictEqual(names("\u001b[200~a\r\u0003\u001b[A\u001b[201~b"), ["Paste:a\r\u0003\u001b[A", "Text:b"])
  })

  const inputs = Arbitrary.map(
    Arbitrary.array(
      Arbitrary.schema(
        Schema.Literals([
          "a",
          "漢",
          "\r",
          "\u001b",
          "\u001b[A",
          "\u001b[1;5D",
          "\u001b[200~",
          "\u001b[201~",
          "x\ry",
          "\u001bf",
          "\u0003",
          "\u001b[13;2u",
          "[",
          "O"
        ])
      ),
      { maxLength: 12 }
    ),
    (parts) => parts.join("")
  )

  prop("are the same in whatever pieces they come", [inputs], ([input]) => {
    const joined = (keys: ReadonlyArray<Keys.Key>): string =>
      keys
        .map((key) => (key._tag === "Key" ? `<${key.name}>` : key._tag === "Paste" ? `[${key.text}]` : key.text))
        .join("")
    const decoder = Keys.make()
    const pieces = Array.from(input, (char) => decoder.push(char)).flat()
    assert.strictEqual(joined(pieces), joined(Keys.make().push(input)))
  })
})

const typed = (
  input: string,
  from: Editor.State = Editor.empty,
  history: ReadonlyArray<string> = []
): Editor.KeyResult => {
  let state = from
  let action: Editor.Action = { _tag: "None" }
  for (const key of Keys.make().push(input)) {
    const applied = Editor.apply(state, key, history)
    state = applied.state
    if (applied.action._tag !== "None") action = applied.action
  }
  return { state, action }
}

/** The text with the cursor in it. */
const shown = ({ state: { cursor, text } }: Editor.KeyResult): string =>
  `${text.slice(0, cursor)}|${text.slice(cursor)}`

const left = "\u001b[D"
const up = "\u001b[A"
const down = "\u001b[B"

describe("Editor", () => {
  it("goes and deletes by characters as a user sees them", () => {
    assert.strictEqual(shown(typed(`a👨‍👩‍👧e\u0301${left}${left}x`)), "ax|👨‍👩‍👧e\u0301")
    assert.strictEqual(shown(typed("a👨‍👩‍👧e\u0301\u007f\u007f")), "a|")
    assert.strictEqual(shown(typed(`ab${left}\u001b[3~`)), "a|")
    assert.strictEqual(shown(typed("\u007f\u001b[3~")), "|")
  })

  it("goes and kills by words and lines, and brings back what it killed", () => {
    assert.strictEqual(shown(typed("one two-three\u001bb")), "one two-|three")
    assert.strictEqual(shown(typed("one two\u0001\u001bf")), "one| two")
    assert.strictEqual(shown(typed("one two-three\u0017")), "one |")
    assert.strictEqual(shown(typed("one two-three\u001b\u007f")), "one two-|")
    assert.strictEqual(shown(typed("one two\u0015x\u0019")), "xone two|")
    assert.strictEqual(shown(typed("one two\u0001\u000b")), "|")
    assert.strictEqual(shown(typed("ba\u0014")), "ab|")
  })

  it("begins new lines by Alt+Enter, Ctrl+J and a backslash, and goes through them", () => {
    assert.strictEqual(shown(typed("a\u001b\rb\nc\\\rd")), "a\nb\nc\nd|")
    assert.strictEqual(shown(typed(`abc\ndef${up}X`)), "abcX|\ndef")
    assert.strictEqual(shown(typed(`a\nlonger${up}${down}`)), "a\nl|onger")
    assert.strictEqual(shown(typed("a\nbc\u0001")), "a\n|bc")
  })

  it("Enter sends, but not behind one backslash", () => {
    assert.deepStrictEqual(typed("hello\r").action, { _tag: "Submit", text: "hello" })
    assert.deepStrictEqual(typed("a\\\\\r").action, { _tag: "Submit", text: "a\\\\" })
    assert.deepStrictEqual(typed("hello\r").state, Editor.empty)
  })

  it("goes by words of letters with marks, and never into one", () => {
    assert.strictEqual(shown(typed("se\u0301n e\u0301t\u001bb")), "se\u0301n |e\u0301t")
    assert.strictEqual(shown(typed("e\u0301\u001bb\u001bf")), "e\u0301|")
    assert.strictEqual(shown(typed("a \u0301\u0017")), "a|")
  })

  it("what is pasted sends nothing, and drives nothing", () => {
    const { action, state } = typed("\u001b[200~a\r\nb\rc\u001b[31m\u0003\u001b[201~")
    assert.deepStrictEqual([state.text, action._tag], ["a\nb\nc␛[31m␃", "None"])
  })

  it("asks for what is not about text", () => {
    assert.deepStrictEqual(
      ["\u0003", "\u0004", "\u001a", "\u000c", "\t"].map((input) => typed(input).action._tag),
      ["Interrupt", "Leave", "Suspend", "ClearScreen", "Complete"]
    )
    assert.strictEqual(typed(`ab${left}\u0004`).state.text, "a")
  })

  it("goes through the history and back to what was being typed", () => {
    const history = ["first", "second\nline"]
    assert.strictEqual(shown(typed(`dra${up}`, Editor.empty, history)), "second\nline|")
    assert.strictEqual(shown(typed(`dra${up}${up}`, Editor.empty, history)), "seco|nd\nline")
    assert.strictEqual(shown(typed(`dra\u0010\u0010`, Editor.empty, history)), "first|")
    assert.strictEqual(shown(typed(`dra\u0010\u0010\u0010`, Editor.empty, history)), "first|")
    assert.strictEqual(shown(typed(`dra\u0010\u000e`, Editor.empty, history)), "dra|")
    assert.strictEqual(shown(typed(down, Editor.empty, history)), "|")
  })

  const keys = Arbitrary.array(
    Arbitrary.schema(
      Schema.Literals([
        "a",
        "漢 ",
        "👨‍👩‍👧",
        "e\u0301",
        "\n",
        "\u0001",
        "\u0005",
        left,
        "\u001b[C",
        up,
        down,
        "\u007f",
        "\u001b[3~",
        "\u0017",
        "\u0015",
        "\u000b",
        "\u0019",
        "\u001bb",
        "\u001bf",
        "\u0014",
        "\u0010",
        "\u000e",
        "\u001b[200~x\ry\u001b[201~"
      ])
    ),
    { maxLength: 30 }
  )

  prop("the cursor never stands inside of a character", [keys], ([keys]) => {
    const { state } = typed(keys.join(""), Editor.empty, ["old", "é\nb"])
    const places = new Set([0])
    let at = 0
    for (const grapheme of Width.splitGraphemes(state.text)) {
      at += grapheme.text.length
      places.add(at)
    }
    assert.isTrue(places.has(state.cursor), JSON.stringify([state.text, state.cursor]))
  })

  prop("fits the terminal, and shows the cursor where the next character goes", [keys], ([keys]) => {
    const { state } = typed(keys.join(""))
    const size = { columns: 12, rows: 6 }
    const { cursor, lines } = Editor.render(state, { prompt: "> ", indent: 2, below: ["hint"] }, size)
    assert.isAtMost(lines.length, size.rows)
    for (const line of lines) assert.isBelow(Width.measure(line), size.columns)
    const line = lines[cursor?.row ?? -1] ?? ""
    const before = Width.split(line, cursor?.column ?? 0)[0].slice(2)
    assert.isTrue(
      state.text.slice(0, state.cursor).endsWith(before),
      JSON.stringify([state.text, state.cursor, before])
    )
  })
})
