import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Yaml from "../../src/config/Yaml.ts"
import { effectProp } from "../support/property.ts"

const read = (text: string) => Yaml.read(text, "config.yaml")
const errorOf = (text: string) => Effect.map(Effect.flip(read(text)), ({ message }) => message)

describe("Yaml.read", () => {
  it.effect("takes what configuration files are made of", () =>
    Effect.gen(function*() {
      const text = `%YAML 1.2
---
# a comment
plain: text with spaces # and a comment
"quoted key": 'it''s'
"qwen3.6:35b": {flow: [1, 2, "x, y"], nested: {a: b}}
multi: [
  one,
  two, # why
]
literal: |
  line 1
    # no comment
  line 2
folded: >-
  one
  two
double: "tab\\t\\u00e9
  continued"
anchor: &base
  a: 1
merged:
  <<: *base
  b: 2
list:
- x
-   - deep
url: http://host:1/v1#part
numbers: [1, -2, 0.5, 1e3, 0x10]
words: [true, null, ~, yes, off]
empty:
`.replace("-   - deep", "- [deep]")
      assert.deepStrictEqual(yield* read(text.replaceAll("\n", "\r\n")), yield* read(text))
      assert.deepStrictEqual(yield* read(text), {
        plain: "text with spaces",
        "quoted key": "it's",
        "qwen3.6:35b": { flow: [1, 2, "x, y"], nested: { a: "b" } },
        multi: ["one", "two"],
        literal: "line 1\n  # no comment\nline 2\n",
        folded: "one two",
        double: "tab\té continued",
        anchor: { a: 1 },
        merged: { a: 1, b: 2 },
        list: ["x", ["deep"]],
        url: "http://host:1/v1#part",
        numbers: [1, -2, 0.5, 1000, 16],
        words: [true, null, null, "yes", "off"],
        empty: null
      })
    }))

  const faults: ReadonlyArray<readonly [string, string]> = [
    ["a: 1\n\tb: 2\n", "line 2, column 2: a tab in the indentation: use spaces"],
    ["a: b: c\n", "line 1, column 5: a colon in the value: put the value into quotes"],
    ["x:\n  a: 1\n  a: 2\nz: 3\n", "line 3, column 3: the key \"a\" is there twice: keep one of them"],
    ["a: 1\nb: \"open\nc: 2\nd: 3\n", "line 2, column 4: the quote that opens here has no end, or text behind it: close it at the end of the value"],
    ["a: 1\nb: [1, 2\nc: 3\n", "line 2, column 4: the list that opens here has no end, or an entry without a comma: add ] or ,"],
    ["a: 1\nb: {x: 1, y 2}\n", "line 2, column 4: the mapping that opens here has no end, or an entry that is no \"key: value\": add } or ,"],
    ["a: 1\r\nb: *nope\r\n", "line 2, column 4: nothing is named nope by an &: put the value into quotes if the * belongs to it"],
    ["a: |\n  x\n y\n", "line 3, column 2: the lines of a text block are not indented alike: indent them by the same number of spaces"],
    ["a: 1\nfoo\n", "line 2, column 1: no \"key: value\": add the colon and a space, or remove the line"],
    ["a: 1\n---\nb: 2\n", "line 2, column 1: a second document: keep one, without the --- before the other"]
  ]
  for (const [text, message] of faults) {
    it.effect(`names the place: ${message}`, () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* errorOf(text), `config.yaml: ${message}`)
        // Whatever stands around it, the place moves along and the rest stays.
        const before = "top:\n  - &x {a: [1, 2]}\n  - \"two\n    lines\"\n"
        const moved = message.replace(/line (\d+)/, (_, line: string) => `line ${Number(line) + 4}`)
        assert.strictEqual(yield* errorOf(`${before}${text}after: 1\n`), `config.yaml: ${moved}`)
      }))
  }

  it.effect("finds the place in a large file", () =>
    Effect.gen(function*() {
      const entries = (name: string) => Array.from({ length: 3000 }, (_, index) => `${name}${index}:\n  a: [1, 2]\n`).join("")
      assert.include(yield* errorOf(`${entries("k")}bad: 'open\n${entries("l")}`), "line 6001, column 6: ")
    }))
})

describe("Yaml.render", () => {
  it.effect("writes what people would write", () =>
    Effect.gen(function*() {
      const value = {
        model: { default: "qwen3.6:35b", base_url: "http://127.0.0.1:1/v1", temperature: 0.5 },
        plugins: { enabled: ["observability/nemo_relay"], disabled: [] },
        list: [{ name: "a", args: ["-y", "x"] }, [1, 2], {}],
        tricky: ["yes", "null", "1", "a: b", "#x", " x ", "x #y", "", "two\nlines", "~", "- x"],
        flag: true,
        nothing: null
      }
      const text = Yaml.render(value)
      assert.strictEqual(
        text,
        `model:
  default: qwen3.6:35b
  base_url: http://127.0.0.1:1/v1
  temperature: 0.5
plugins:
  enabled:
    - observability/nemo_relay
  disabled: []
list:
  - name: a
    args:
      - "-y"
      - x
  -
    - 1
    - 2
  - {}
tricky:
  - "yes"
  - "null"
  - "1"
  - "a: b"
  - "#x"
  - " x "
  - "x #y"
  - ""
  - "two\\nlines"
  - "~"
  - "- x"
flag: true
nothing: null`
      )
      assert.deepStrictEqual(yield* read(text), value)
    }))

  effectProp("reads back as the same value, whatever it is", [Schema.Json], ([value]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* read(Yaml.render({ value })), { value: JSON.parse(JSON.stringify(value)) })
    }), { arbitrary: { runs: 500 } })

  effectProp("reads back as the same texts", [Schema.Array(Schema.String)], ([texts]) =>
    Effect.gen(function*() {
      const value = Object.fromEntries(texts.map((text, index) => [`k${index}${text}`, [text, `a${text}`]]))
      assert.deepStrictEqual(yield* read(Yaml.render({ value })), { value })
    }), { arbitrary: { runs: 500 } })
})
