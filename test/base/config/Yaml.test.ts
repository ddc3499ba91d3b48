import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Yaml from "../../../src/base/config/Yaml.ts"
import { effectProp } from "../../support/property.ts"

const read = (text: string) => Yaml.read(text, "config.yaml")
const errorOf = (text: string) => Effect.map(Effect.flip(read(text)), ({ message }) => message)

describe("Yaml.read", () => {
  it.effect("takes what configuration files are made of", () =>
    Effect.gen(function* () {
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
    })
  )

  const forms: ReadonlyArray<readonly [string, unknown]> = [
    ["a:\n- - x\n  - y\n- - z\n", { a: [["x", "y"], ["z"]] }],
    ["a: [\"two\n  lines\", 'and\n  more']\n", { a: ["two lines", "and more"] }],
    ["? a\n: b\n? c\n", { a: "b", c: null }],
    ['a: !!str 5\nb: !!int "7"\nc: !mine x\n', { a: "5", b: 7, c: "x" }],
    ["a: 1_000\nb: 12:30\nc: 2026-01-01\n", { a: "1_000", b: "12:30", c: "2026-01-01" }],
    ["a: |2\n    x\n   y\n", { a: "  x\n y\n" }],
    ["a: {x, y: [p: q]}\n", { a: { x: null, y: [{ p: "q" }] } }]
  ]
  for (const [text, value] of forms) {
    it.effect(`reads ${JSON.stringify(text)}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* read(text), value)
      })
    )
  }

  it.effect("does not write out aliases of aliases without end", () =>
    Effect.gen(function* () {
      const levels = Array.from(
        { length: 12 },
        (_, index) => `a${index + 1}: &a${index + 1} [${Array.from({ length: 9 }, () => `*a${index}`).join(", ")}]\n`
      )
      assert.include(yield* errorOf(`a0: &a0 [x]\n${levels.join("")}`), "too many aliases (*): write the values out")
    })
  )

  const faults: ReadonlyArray<readonly [string, string]> = [
    ["a: 1\n\tb: 2\n", "line 2, column 1: a tab in the indentation: use spaces"],
    ["a: b: c\n", "line 1, column 5: a colon in the value: put the value into quotes"],
    ["x:\n  a: 1\n  a: 2\nz: 3\n", 'line 3, column 3: duplicate key "a": keep one of them'],
    [
      'a: 1\nb: "open\nc: 2\nd: 3\n',
      "line 2, column 4: the quote that opens here has no end: close it at the end of the value"
    ],
    [
      "a: 1\nb: [1, 2\nc: 3\n",
      "line 2, column 4: the list that opens here has no end, or an entry without a comma: add ] or ,"
    ],
    [
      "a: 1\nb: {x: 1, y 2\nc: 3\n",
      'line 2, column 4: the mapping that opens here has no end, or an entry that is no "key: value": add } or ,'
    ],
    [
      "a: 1\r\nb: *nope\r\n",
      "line 2, column 4: nothing is named nope by an &: put the value into quotes if the * belongs to it"
    ],
    ["a: |\n  x\n y\n", "line 3, column 2: the indentation fits no line above: align the line with its neighbours"],
    ["a: 1\nfoo\n", 'line 2, column 1: no "key: value": add the colon and a space, or remove the line'],
    ["a:\n  - 1\n - 2\n", "line 3, column 2: the indentation fits no line above: align the line with its neighbours"],
    [
      "a: 1\nb: 'x' y\n",
      "line 2, column 8: text that belongs to nothing before it: put the whole value into quotes, or align the line with its neighbours"
    ],
    ['a: "\\q"\n', "line 1, column 5: an unknown escape: write a backslash as \\\\, or use single quotes"],
    ["a: @x\n", "line 1, column 4: a value cannot begin with this character: put the value into quotes"],
    ["a: - x\n", "line 1, column 4: a list entry where none can stand: begin the list on the line below its key"],
    ["a:\n  <<: 5\n", "line 2, column 3: << takes a mapping, or a list of mappings: write *NAME behind it"],
    ["a: 1\n---\nb: 2\n", "line 2, column 1: a second document: keep one, without the --- before the other"]
  ]
  for (const [text, message] of faults) {
    it.effect(`names the place: ${message}`, () =>
      Effect.gen(function* () {
        assert.strictEqual(yield* errorOf(text), `config.yaml: ${message}`)
        // Whatever stands around it, the place moves along and the rest stays.
        const before = 'top:\n  - &x {a: [1, 2]}\n  - "two\n    lines"\n'
        const moved = message.replace(/line (\d+)/, (_, line: string) => `line ${Number(line) + 4}`)
        assert.strictEqual(yield* errorOf(`${before}${text}after: 1\n`), `config.yaml: ${moved}`)
      })
    )
  }

  it.effect("finds the place in a large file", () =>
    Effect.gen(function* () {
      const entries = (name: string) =>
        Array.from({ length: 3000 }, (_, index) => `${name}${index}:\n  a: [1, 2]\n`).join("")
      assert.include(yield* errorOf(`${entries("k")}bad: 'open\n${entries("l")}`), "line 6001, column 6: ")
    })
  )
})

describe("Yaml.render", () => {
  it.effect("writes what people would write", () =>
    Effect.gen(function* () {
      const value = {
        model: { default: "qwen3.6:35b", base_url: "http://127.0.0.1:1/v1", temperature: 0.5 },
        plugins: { enabled: ["observability/nemo_relay"], disabled: [] },
        list: [{ name: "a", args: ["-y", "x"] }, [1, 2], {}],
        tricky: ["yes", "null", "1", "a: b", "#x", " x ", "x #y", "", "two\nlines", "~", "- x"],
        flag: true,
        nothing: null
      }
      const text = yield* Yaml.render(value)
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
      - -y
      - x
  - - 1
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
    })
  )

  effectProp(
    "reads back as the same value, whatever it is",
    [Schema.Json],
    ([value]) =>
      Effect.gen(function* () {
        // The reader refuses this key.
        if (JSON.stringify(value).includes('"__proto__":')) return
        assert.deepStrictEqual(yield* read(yield* Yaml.render({ value })), { value: JSON.parse(JSON.stringify(value)) })
      }),
    { arbitrary: { runs: 500 } }
  )

  effectProp(
    "reads back as the same texts",
    [Schema.Array(Schema.String)],
    ([texts]) =>
      Effect.gen(function* () {
        const value = Object.fromEntries(texts.map((text, index) => [`k${index}${text}`, [text, `a${text}`]]))
        assert.deepStrictEqual(yield* read(yield* Yaml.render({ value })), { value })
      }),
    { arbitrary: { runs: 500 } }
  )
})
