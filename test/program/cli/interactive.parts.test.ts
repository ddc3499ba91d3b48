// The smaller parts of the interactive session.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as SlashCommands from "../../../src/program/cli/interactive/SlashCommands.ts"
import * as InputHistory from "../../../src/program/cli/interactive/InputHistory.ts"
import * as Overview from "../../../src/program/cli/interactive/Overview.ts"
import * as Questions from "../../../src/program/cli/interactive/Questions.ts"
import * as Recap from "../../../src/program/cli/interactive/Recap.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as UsageText from "../../../src/program/cli/render/UsageText.ts"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

describe("UsageText", () => {
  it("names the models without a price when the cost is unknown", () => {
    const cost = Cost.toSpent(Cost.nothing)
    const model = { provider: "openai", model: "gpt-4o", usage: Usage.zero, cost }
    const costOf = (models: ReadonlyArray<UsageText.ModelUsage>) =>
      UsageText.renderUsage({ usage: Usage.zero, cost, models, duration: "1 s" }).find((line) =>
        line.startsWith("Cost")
      )
    assert.strictEqual(costOf([model]), "Cost         unknown (no price for gpt-4o)")
    assert.strictEqual(costOf([]), "Cost         unknown (no price)")
  })

  it("lists cache misses by reason, with the price of the tokens that were paid again", () => {
    const cost = Cost.toSpent(Cost.nothing)
    const misses = [
      { reason: "a pause of more than five minutes", calls: 3, tokens: 84_000, price: 0.2268, unpriced: 0 },
      { reason: "other tools", calls: 2, tokens: 9_000, price: 0.004, unpriced: 1 },
      { reason: "another model", calls: 1, tokens: 8_000, unpriced: 1 },
      { reason: "a compaction", calls: 1, tokens: 7_000, unpriced: 0 }
    ]
    const lines = UsageText.renderUsage({ usage: Usage.zero, cost, models: [], misses, duration: "1 s" })
    assert.deepStrictEqual(lines.slice(-5, -1), [
      "Cache misses  a pause of more than five minutes: 3 calls, 84.0k tokens again, $0.23 more",
      "              other tools: 2 calls, 9.0k tokens again, ≥ $0.0040 more",
      "              another model: 1 call, 8.0k tokens again, price unknown",
      "              a compaction: 1 call, 7.0k tokens again, included"
    ])
  })
})

describe("History", () => {
  const inFile = <A>(body: (path: string) => Effect.Effect<A>) =>
    Effect.scoped(Effect.flatMap(temporaryDirectory, (directory) => body(join(directory, "deep", "history"))))
  const open = (path: string) => Effect.provide(InputHistory.openHistory(path), NodeServices.layer)

  it.effect("is there in the next session, several lines and all, for the user alone", () =>
    inFile((path) =>
      Effect.gen(function* () {
        const first = yield* open(path)
        yield* first.add("one", { keep: true })
        yield* first.add("two\nlines", { keep: true })
        yield* first.add("two\nlines", { keep: true })
        yield* first.add("not kept", { keep: false })
        yield* first.add("  ", { keep: true })
        assert.deepStrictEqual(first.entries(), ["one", "two\nlines", "not kept"])
        assert.deepStrictEqual((yield* open(path)).entries(), ["one", "two\nlines"])
        assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      })
    )
  )

  it.effect("keeps no secrets", () =>
    inFile((path) =>
      Effect.gen(function* () {
        const secret = `sk-${"a1b2c3d4".repeat(4)}`
        const history = yield* open(path)
        yield* history.add(`use ${secret}`, { keep: true })
        assert.notInclude(readFileSync(path, "utf8"), secret)
      })
    )
  )

  it.effect("a file that others could read is closed to them, and what is damaged in it left out", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const path = join(yield* temporaryDirectory, "history")
        writeFileSync(path, '"a"\n{broken\n42\n"b"\n')
        chmodSync(path, 0o644)
        assert.deepStrictEqual((yield* open(path)).entries(), ["a", "b"])
        assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      })
    )
  )

  it.effect("is cut when it has become long", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const path = join(yield* temporaryDirectory, "history")
        writeFileSync(path, Array.from({ length: 2 * InputHistory.maxEntries }, (_, index) => `"${index}"\n`).join(""))
        const { entries } = yield* open(path)
        assert.strictEqual(entries().length, InputHistory.maxEntries)
        assert.strictEqual(entries().at(-1), String(2 * InputHistory.maxEntries - 1))
        assert.strictEqual(readFileSync(path, "utf8").split("\n").length, InputHistory.maxEntries + 1)
      })
    )
  )

  it.effect("a file that can not be used is a warning, and the session goes on", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const path = yield* temporaryDirectory
        const history = yield* open(path)
        yield* history.add("one", { keep: true })
        assert.deepStrictEqual(history.entries(), ["one"])
        assert.isTrue(existsSync(path))
      })
    )
  )
})

describe("Commands", () => {
  const commands = [
    { name: "new", aliases: ["reset"] },
    { name: "resume", aliases: [] },
    { name: "retry", aliases: [] },
    { name: "new", aliases: ["other"] }
  ]
  const found = (typed: string) => {
    const result = SlashCommands.find(commands, typed)
    return result._tag === "Command" ? result.command.name : result
  }

  it("are found by name, by other names, by the beginning of one, in any case", () => {
    assert.deepStrictEqual(["NEW", "reset", "resu", "ret", "O"].map(found), ["new", "new", "resume", "retry", "new"])
  })

  it("a beginning of several is none of them, and an unknown name has suggestions", () => {
    assert.deepStrictEqual(found("re"), { _tag: "Several", names: ["new", "resume", "retry"] })
    assert.deepStrictEqual(found("resmue"), { _tag: "Unknown", meant: ["resume", "reset"] })
    assert.deepStrictEqual(found("x"), { _tag: "Unknown", meant: [] })
  })

  it("are lines that begin with a slash and a word", () => {
    assert.deepStrictEqual(SlashCommands.parse("/title  My talk \n"), { name: "title", argument: "My talk" })
    assert.deepStrictEqual(SlashCommands.parse("/?"), { name: "?", argument: "" })
    assert.deepStrictEqual([" /new", "/tmp/x", "a /new", "//"].map(SlashCommands.parse), [
      undefined,
      undefined,
      undefined,
      undefined
    ])
  })

  it("are completed as far as it is certain", () => {
    assert.deepStrictEqual(SlashCommands.complete(commands, "/ret"), { line: "/retry ", names: [] })
    assert.deepStrictEqual(SlashCommands.complete(commands, "/r"), { line: "/re", names: ["reset", "resume", "retry"] })
    assert.deepStrictEqual(SlashCommands.complete(commands, "r"), { line: "r", names: [] })
  })
})

describe("Questions", () => {
  const question = { question: "Which?", choices: ["a", "b", "c"], multiple: false }
  it("are answered by a number or by words", () => {
    assert.deepStrictEqual(
      ["2", " b ", "4", "1,2", ""].map((line) => Questions.readAnswer(question, line)),
      [["b"], ["b"], ["4"], ["1,2"], undefined]
    )
    const several = { ...question, multiple: true }
    assert.deepStrictEqual(
      ["1, 3", "2 2", "1,9"].map((line) => Questions.readAnswer(several, line)),
      [["a", "c"], ["b"], ["1,9"]]
    )
  })
})

describe("Recap", () => {
  const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  const assistant = (text: string, ...tools: ReadonlyArray<string>) =>
    Prompt.assistantMessage({
      content: [
        Prompt.textPart({ text }),
        ...tools.map((name, index) =>
          Prompt.toolCallPart({ id: String(index), name, params: {}, providerExecuted: false })
        )
      ]
    })
  const bounds = { exchanges: 2, userChars: 20, answerChars: 30, answerLines: 2 }

  it("shows the last exchanges, cut, with their tool calls counted", () => {
    const messages = [
      user("first"),
      assistant("one"),
      user("second question that is long"),
      assistant("on the way", "read_file", "terminal", "read_file"),
      Conversation.makeCancelledResult({ id: "0", name: "read_file" }),
      assistant("two\n\nlines\nand more"),
      user("third")
    ]
    assert.deepStrictEqual(Recap.render(messages, bounds, 80, Paint.plain), [
      "… 1 earlier exchange not shown",
      "",
      "› second question that…",
      "  ┊ 3 tool calls: read_file ×2, terminal",
      "  two",
      "  lines …",
      "",
      "› third"
    ])
  })
})

describe("Overview", () => {
  it("speaks of times as people do", () => {
    const minute = 60_000
    assert.deepStrictEqual([0, 5 * minute, 90 * minute, 50 * 60 * minute].map(Overview.formatAgo), [
      "just now",
      "5 min ago",
      "1 h ago",
      "2 days ago"
    ])
  })
})
