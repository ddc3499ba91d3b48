import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tree from "../../../src/base/config/internal/Tree.ts"
import * as Yaml from "../../../src/base/config/Yaml.ts"
import * as YamlEdit from "../../../src/base/config/internal/YamlEdit.ts"
import { prop } from "../../support/property.ts"

const yaml = await Effect.runPromise(Yaml.load)
const parse = (text: string) => Result.getOrThrow(yaml.parse(text))

const file = `# My settings.

model:
  # the big one
  default: "qwen3.6:35b"   # pulled in May
  provider: custom
  base_url: http://127.0.0.1:11434/v1#x
agent: # how it runs
  # max_turns: 90
  environment_hint: |
    first
    # not a comment

  reasoning_effort: high

plugins:
  enabled:
  # keep this one
  - observability/nemo_relay # traces
  - mine
delegation: {max_spawn_depth: 2} # flow
memory:
  # nudge_interval: 10
"providers":
    openrouter:
        models:
            'qwen3.6:35b': {timeout_seconds: 5}
# the end
`

const set = (text: string, path: string, value: unknown) => YamlEdit.set(yaml, text, path.split("."), value)
const unset = (text: string, path: string) => YamlEdit.unset(yaml, text, path.split("."))

/** The lines that differ, the old ones and the new ones. */
const difference = (before: string, after: string | undefined) => {
  const left = before.split("\n")
  const right = (after ?? "").split("\n")
  let start = 0
  while (start < left.length && left[start] === right[start]) start++
  let end = 0
  while (end < Math.min(left.length, right.length) - start && left.at(-1 - end) === right.at(-1 - end)) end++
  return { out: left.slice(start, left.length - end), into: right.slice(start, right.length - end) }
}

describe("YamlEdit.set", () => {
  const cases: ReadonlyArray<readonly [string, unknown, ReadonlyArray<string>, ReadonlyArray<string>]> = [
    ["model.default", "gpt-5", ['  default: "qwen3.6:35b"   # pulled in May'], ["  default: gpt-5 # pulled in May"]],
    ["model.base_url", "http://x/", ["  base_url: http://127.0.0.1:11434/v1#x"], ["  base_url: http://x/"]],
    ["model.api_mode", "chat_completions", [], ["  api_mode: chat_completions"]],
    ["agent.reasoning_effort", "low", ["  reasoning_effort: high"], ["  reasoning_effort: low"]],
    ["agent.max_turns", 5, [], ["  max_turns: 5"]],
    [
      "agent.environment_hint",
      "x",
      ["  environment_hint: |", "    first", "    # not a comment"],
      ["  environment_hint: x"]
    ],
    ["plugins.enabled", ["a", "mine", "observability/nemo_relay"], [], []],
    [
      "delegation.max_iterations",
      3,
      ["delegation: {max_spawn_depth: 2} # flow"],
      ["delegation: # flow", "  max_spawn_depth: 2", "  max_iterations: 3"]
    ],
    ["memory.nudge_interval", 3, [], ["  nudge_interval: 3"]],
    ["display.streaming", false, [], ["display:", "  streaming: false"]],
    ["providers.openrouter.request_timeout_seconds", 3, [], ["        request_timeout_seconds: 3"]],
    ["toolsets", ["web"], [], ["toolsets:", "  - web"]],
    [
      "model",
      { default: "x" },
      [
        "  # the big one",
        '  default: "qwen3.6:35b"   # pulled in May',
        "  provider: custom",
        "  base_url: http://127.0.0.1:11434/v1#x"
      ],
      ["  default: x"]
    ]
  ]
  for (const [path, value, out, into] of cases) {
    it(`${path}: only its own lines change`, () => {
      const after = set(file, path, value)
      assert.deepStrictEqual(Tree.get(parse(after ?? ""), path.split(".")), value)
      if (out.length + into.length > 0) assert.deepStrictEqual(difference(file, after), { out, into })
    })
  }

  it("a list keeps the lines and comments of the items that stay", () => {
    assert.deepStrictEqual(difference(file, set(file, "plugins.enabled", ["a", "observability/nemo_relay"])), {
      out: ["  # keep this one", "  - observability/nemo_relay # traces", "  - mine"],
      into: ["  - a", "  # keep this one", "  - observability/nemo_relay # traces"]
    })
  })

  it("makes a file out of nothing, of comments, of a mark", () => {
    assert.strictEqual(set("", "a.b", 1), "a:\n  b: 1\n")
    assert.strictEqual(set("# only this\n", "a.b", 1), "# only this\na:\n  b: 1\n")
    assert.strictEqual(set("---\na: 1", "b", 2), "---\na: 1\nb: 2\n")
    assert.strictEqual(set("\uFEFFa: 1\r\nb: 2\r\n", "a", "x y"), "\uFEFFa: x y\r\nb: 2\r\n")
    assert.strictEqual(set("a: 1\r\nb: 2\nc: 3\r\n", "b", [1]), "a: 1\r\nb:\r\n  - 1\r\nc: 3\r\n")
    assert.strictEqual(set("a: 1\nb: 2\r\nc: 3", "d", 4), "a: 1\nb: 2\r\nc: 3\nd: 4\n")
  })

  it("keys with dots and quotes are keys", () => {
    const path = ["providers", "openrouter", "models", "qwen3.6:35b", "timeout_seconds"]
    const after = YamlEdit.set(yaml, file, path, 7)
    assert.deepStrictEqual(difference(file, after), {
      out: ["            'qwen3.6:35b': {timeout_seconds: 5}"],
      into: ["            'qwen3.6:35b':", "              timeout_seconds: 7"]
    })
    assert.deepStrictEqual(parse(YamlEdit.set(yaml, "", ["a.b", "c: d"], 1) ?? ""), { "a.b": { "c: d": 1 } })
  })

  it("refuses what it can not prove, and changes nothing", () => {
    assert.isUndefined(set("{a: 1, b: 2}\n", "a", 3))
    assert.isUndefined(set("base: &b {x: 1}\na: *b\nbase2:\n  <<: *b\n", "base.x", 2))
  })

  it("aliases elsewhere stay", () => {
    assert.strictEqual(set("base: &b\n  x: 1\na: *b\nc: 1\n", "c", 2), "base: &b\n  x: 1\na: *b\nc: 2\n")
  })
})

describe("YamlEdit.unset", () => {
  it("removes the lines of a key, and of sections that are left empty", () => {
    assert.deepStrictEqual(difference(file, unset(file, "model.provider")), { out: ["  provider: custom"], into: [] })
    assert.deepStrictEqual(difference(file, unset(file, "delegation.max_spawn_depth")), {
      out: ["delegation: {max_spawn_depth: 2} # flow"],
      into: []
    })
    assert.deepStrictEqual(difference(file, unset(file, "agent.environment_hint")), {
      out: ["  environment_hint: |", "    first", "    # not a comment"],
      into: []
    })
    assert.strictEqual(unset("a:\n  b:\n    c: 1\nd: 2\n", "a.b.c"), "d: 2\n")
    assert.strictEqual(unset("a: 1\n", "b.c"), "a: 1\n")
    assert.strictEqual(unset("a: {b: 1, c: 2}\n", "a.b"), "a:\n  c: 2\n")
    assert.strictEqual(unset("a: 1\n", "a"), "")
  })
})

describe("YamlEdit: generated files", () => {
  const words = Schema.Literals(["a", "b", "c.d", "e: f", "yes", "with space", "x#y"])
  const scalar = Schema.Union([words, Schema.Int, Schema.Boolean, Schema.Null])
  const leaf = Schema.Union([scalar, Schema.Array(words).check(Schema.isMaxLength(3))])
  const mappingOf = (value: Arbitrary.Arbitrary<unknown>): Arbitrary.Arbitrary<Tree.Mapping> =>
    Arbitrary.map(Arbitrary.array(Arbitrary.all([Arbitrary.schema(words), value]), { maxLength: 4 }), (entries) =>
      Object.fromEntries(entries)
    )
  const either = (...options: ReadonlyArray<Arbitrary.Arbitrary<unknown>>): Arbitrary.Arbitrary<unknown> =>
    Arbitrary.flatMap(
      Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: options.length - 1 }))),
      (index) => options[index] ?? Arbitrary.Constant(null)
    )
  const inner = either(Arbitrary.schema(leaf), mappingOf(Arbitrary.schema(leaf)))
  const tree = mappingOf(either(Arbitrary.schema(leaf), mappingOf(inner)))
  const style = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))).check(
    Schema.isMinLength(1)
  )

  /** Writes a tree in a style that changes from line to line. */
  const write = (value: unknown, style: ReadonlyArray<number>): string => {
    let at = 0
    const pick = (): number => style[at++ % style.length] ?? 0
    const key = (name: string): string => (/^[a-z]$/.test(name) && pick() > 1 ? name : JSON.stringify(name))
    const mapping = (value: object, indent: number): ReadonlyArray<string> =>
      Object.entries(value).flatMap(([name, item]) => {
        const head = `${" ".repeat(indent)}${key(name)}:`
        const before = pick() === 0 ? ["", `${" ".repeat(indent)}# about ${at}`] : []
        const comment = pick() === 1 ? `  # note ${at}` : ""
        if (typeof item !== "object" || item === null || pick() === 2 || Object.keys(item).length === 0) {
          return [...before, `${head} ${JSON.stringify(item)}${comment}`]
        }
        const step = pick() > 3 ? 4 : 2
        if (!Array.isArray(item)) return [...before, head + comment, ...mapping(item, indent + step)]
        const pad = " ".repeat(pick() > 2 ? indent : indent + step)
        return [...before, head + comment, ...item.map((text) => `${pad}- ${JSON.stringify(text)}`)]
      })
    return mapping(Object(value), 0).concat("").join("\n")
  }

  const comments = (text: string): ReadonlyArray<string> => text.match(/# (?:about|note) \d+/g) ?? []

  prop(
    "a value is set, everything else is as it was, and no comment of another key is lost",
    [tree, style, Arbitrary.schema(Schema.Array(words).check(Schema.isMinLength(1), Schema.isMaxLength(3))), leaf],
    (generated) => {
      // JSON knows no -0.
      const [tree, style, path, value]: typeof generated = JSON.parse(JSON.stringify(generated))
      const text = write(tree, style)
      assert.deepStrictEqual(parse(text) ?? {}, tree)
      const parents = path.slice(0, -1).map((_, index) => Tree.get(tree, path.slice(0, index + 1)))
      // A scalar above is replaced as a whole: not what an editor is asked for.
      if (parents.some((parent) => parent !== undefined && parent !== null && !Tree.isMapping(parent))) return
      const before = Tree.get(tree, path)
      const after = YamlEdit.set(yaml, text, path, value)
      assert.isDefined(after, text)
      assert.deepStrictEqual(parse(after ?? ""), Tree.set(tree, path, value))
      if (typeof before !== "object" || before === null) {
        assert.deepStrictEqual(comments(after ?? ""), comments(text))
        const { out } = difference(text, after)
        assert.isAtMost(out.length, 1)
      }
      const removed = YamlEdit.unset(yaml, text, path)
      assert.isDefined(removed, text)
      assert.isUndefined(Tree.get(parse(removed ?? ""), path))
    },
    { arbitrary: { runs: 1000 } }
  )
})
