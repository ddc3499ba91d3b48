// Blocks of a run: a pure reducer, lines at a width, and a screen that keeps them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Block from "../../../src/program/cli/render/Block.ts"
import * as BlockLines from "../../../src/program/cli/render/BlockLines.ts"
import * as BlockReducer from "../../../src/program/cli/render/BlockReducer.ts"
import * as Markdown from "../../../src/program/cli/render/Markdown.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as SafeText from "../../../src/program/cli/render/SafeText.ts"
import * as Screen from "../../../src/program/cli/render/Screen.ts"
import * as Theme from "../../../src/program/cli/render/Theme.ts"
import * as Transcript from "../../../src/program/cli/render/Transcript.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import type { FileChanged } from "../../../src/base/domain/FileChange.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { RunEvent, ToolStatus } from "../../../src/base/domain/RunEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as Virtual from "../../support/virtualTerminal.ts"

const step = (step: number): RunEvent => ({ _tag: "StepStarted", step })
const text = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const started = (callId: string, params: unknown, name = "terminal"): RunEvent => ({
  _tag: "ToolStarted",
  callId,
  name,
  params
})
const finished = (callId: string, output: string, status: ToolStatus = "ok", name = "terminal"): RunEvent => ({
  _tag: "ToolFinished",
  callId,
  name,
  status,
  output,
  durationMillis: 1200
})
const replaced = (stepId: number, text: string): RunEvent => ({ _tag: "TextReplaced", stepId, text })
const ended = (text: string): RunEvent => ({
  _tag: "RunFinished",
  sessionId: SessionId.make("s"),
  turnId: TurnId.make("t"),
  exit: "text_response",
  text,
  steps: 1,
  provider: "p",
  model: "m",
  usage: Usage.zero,
  cost: { usd: 0, status: "estimated", source: "official_docs_snapshot" }
})
const change = (callId: string, path: string): FileChanged => ({
  _tag: "FileChanged",
  callId,
  path,
  diff: "@@ -1 +1 @@\n-one\n+two\n",
  added: 1,
  removed: 1,
  by: "tool"
})

const options: BlockReducer.Options = { isLive: true, showCost: false }

const reduced = (events: ReadonlyArray<RunEvent>, given = options): ReadonlyArray<BlockReducer.Change> => {
  const changes: Array<BlockReducer.Change> = []
  let state = BlockReducer.initial
  for (const event of events) {
    const next = BlockReducer.reduce(state, event, 0, given)
    changes.push(...next.changes)
    state = next.state
  }
  return [...changes, ...BlockReducer.close(state).changes]
}

/** Each change in a word or two. */
const brief = (changes: ReadonlyArray<BlockReducer.Change>): ReadonlyArray<string> =>
  changes.map((change) => {
    if (change._tag === "TakenBack") return `taken back ${change.step}`
    const { block } = change
    return "text" in block
      ? `${block._tag}: ${block.text}`
      : block._tag === "Tool"
        ? `Tool: ${block.name} ${block.status}`
        : block._tag
  })

describe("BlockReducer", () => {
  it("makes a block of each thing, in the order in which they end", () => {
    assert.deepStrictEqual(
      brief(
        reduced([
          step(1),
          { _tag: "ReasoningDelta", text: "hm" },
          { _tag: "ReasoningDelta", text: "m" },
          text("Let me "),
          text("look."),
          started("1", { command: "ls" }),
          started("2", { path: "a" }, "write_file"),
          change("2", "/a"),
          finished("2", "{}", "ok", "write_file"),
          finished("1", "bad", "error"),
          started("3", {}, "todo"),
          finished("3", JSON.stringify({ todos: [{ id: "1", content: "look", status: "completed" }] }), "ok", "todo"),
          step(2),
          text("Done."),
          ended("Done.")
        ])
      ),
      [
        "Reasoning: hmm",
        "Text: Let me look.",
        "Tool: write_file ok",
        "Diff",
        "Tool: terminal error",
        "Tool: todo ok",
        "Todo",
        "Text: Done."
      ]
    )
  })

  it("a notice in the middle of a text waits for its end; text that is no more is taken back", () => {
    const notice: RunEvent = { _tag: "Notice", level: "info", message: "odd" }
    assert.deepStrictEqual(brief(reduced([step(1), text("a"), notice, text("b"), step(2), text("c")])), [
      "Text: ab",
      "Notice: odd",
      "Text: c"
    ])
    assert.deepStrictEqual(
      brief(
        reduced([
          step(1),
          text("a"),
          started("1", {}),
          finished("1", ""),
          step(2),
          text("b"),
          replaced(1, "z"),
          ended("z")
        ])
      ),
      ["Text: a", "Tool: terminal ok", "taken back 1", "Text: z"]
    )
    assert.deepStrictEqual(brief(reduced([step(1), replaced(1, "z"), ended("z")])), ["Text: z"])
    assert.deepStrictEqual(brief(reduced([step(1), text("draft"), ended("final")])), [
      "Text: draft",
      "Notice: The answer was changed:",
      "Text: final"
    ])
    assert.deepStrictEqual(
      brief(reduced([step(1), text("secret"), ended("[removed]")], { ...options, isLive: false })),
      ["Text: [removed]"]
    )
  })

  it("changes nothing of what it is given", () => {
    const frozen = (value: unknown): void => {
      if (typeof value !== "object" || value === null || Object.isFrozen(value)) return
      Object.freeze(value)
      for (const part of Object.values(value)) frozen(part)
    }
    let state = BlockReducer.initial
    for (const event of [
      step(1),
      text("a"),
      started("1", {}),
      change("1", "/a"),
      finished("1", ""),
      text("b"),
      replaced(1, "c"),
      ended("c")
    ]) {
      frozen(state)
      frozen(event)
      state = BlockReducer.reduce(state, event, 0, options).state
    }
    assert.strictEqual(state.said?.text, "c")
  })
})

const longWord = `/tmp/${"a-long-name/".repeat(20)}`
const words = "The quick brown fox jumps over the lazy dog; 素早い茶色の狐 jumps again. "
const blocks: ReadonlyArray<Block.Block> = [
  { _tag: "User", text: words.repeat(3) },
  {
    _tag: "Text",
    step: 1,
    text: `# ${words}\n\n- ${words}\n- b\n\n> ${words}\n\n| a | b |\n|--|--|\n| ${words} | 2 |\n`
  },
  { _tag: "Reasoning", text: words.repeat(2) },
  {
    _tag: "Tool",
    name: "a_tool_of_a_server_with_a_long_name",
    params: { command: words },
    status: "error",
    output: words.repeat(4),
    durationMillis: 64_000,
    isFirst: true
  },
  { _tag: "Diff", changes: [change("1", `/tmp/${"long/".repeat(20)}name.ts`), change("1", "/b")] },
  {
    _tag: "Todo",
    items: [
      { content: words, status: "in_progress" },
      { content: words, status: "cancelled" }
    ]
  },
  { _tag: "Notice", level: "warning", text: `! ${words}` },
  {
    _tag: "Tool",
    name: "read_file",
    params: { path: "a" },
    status: "error",
    output: `no such file: ${longWord}`,
    durationMillis: 1,
    isFirst: true
  },
  { _tag: "Lines", text: `see ${longWord} there\n`, place: "turn" },
  { _tag: "Question", text: `Run this command? ${words}`, diff: "@@ -1 +1 @@\n-one\n+two\n" },
  { _tag: "Lines", text: `${words}\n\n  ${words}\n`, place: "own" }
]

const look = Effect.map(
  Markdown.load("render"),
  (make) =>
    (columns: number, more: Partial<BlockLines.Look> = {}): BlockLines.Look => ({
      columns,
      paint: Paint.plain,
      markdown: "render",
      make,
      verbosity: "all",
      showReasoning: true,
      previewLength: 0,
      ...more
    })
)

describe("BlockLines", () => {
  it.effect("no line of any block is wider than the room, and words are whole where they fit", () =>
    Effect.gen(function* () {
      const at = yield* look
      for (const columns of [19, 39, 59, 79, 139]) {
        for (const block of blocks) {
          for (const detail of ["folded", "part", "open"] as const) {
            for (const line of BlockLines.renderLines(block, detail, at(columns))) {
              assert.isAtMost(Width.measure(line), columns, `${block._tag} ${detail} at ${columns}: ${line}`)
              if (
                block._tag === "Notice" ||
                block._tag === "User" ||
                (block._tag === "Lines" && block.place === "own")
              ) {
                for (const word of line.match(/[a-zA-Z]+/g) ?? []) assert.include(words, word)
              }
            }
          }
        }
      }
    })
  )

  it("a line is divided at any column, and loses nothing", () => {
    const paint = Paint.make({ color: true, hyperlinks: false })
    const line = `${paint.text("const", "keyword")} 漢字 = ${paint.text('"a longer text"', "string")}`
    for (const columns of [2, 3, 7, 20]) {
      const rows = BlockLines.divideLine(line, columns, paint)
      for (const row of rows) assert.isAtMost(Width.measure(Paint.strip(row)), columns)
      assert.strictEqual(rows.map(Paint.strip).join(""), Paint.strip(line))
    }
    assert.deepStrictEqual(BlockLines.divideLine(line, 40, paint), [line])
  })

  it.effect("a continued line of a list begins below its text", () =>
    Effect.gen(function* () {
      const at = yield* look
      const paint = Paint.make({ color: true, hyperlinks: false })
      const show = (text: string, columns: number): ReadonlyArray<string> =>
        BlockLines.renderLines({ _tag: "Lines", text: `${text}\n`, place: "own" }, "part", at(columns, { paint })).map(
          Paint.strip
        )
      assert.deepStrictEqual(show(`${paint.text("/new [TITLE]", "bold")}  Start a new session of the agent`, 36), [
        "/new [TITLE]  Start a new session of",
        "              the agent"
      ])
      assert.deepStrictEqual(show("/permissions [test CALL]  List the rules or explain one call", 40), [
        "/permissions [test CALL]  List the",
        "    rules or explain one call"
      ])
      assert.deepStrictEqual(show("  two words and some more of them", 20), ["  two words and some", "  more of them"])
    })
  )

  it.effect("a long changed line shows its end, and a thought has one ellipsis", () =>
    Effect.gen(function* () {
      const at = yield* look
      const diff = `@@ -1 +1 @@\n-${"a".repeat(30)} old\n+${"a".repeat(30)} new\n ${"b".repeat(60)}\n+${"c".repeat(99)}\n`
      const block: Block.DiffBlock = { _tag: "Diff", changes: [{ ...change("1", "a.ts"), diff }] }
      assert.deepStrictEqual(BlockLines.renderLines(block, "part", at(30)).slice(2), [
        `  -${"a".repeat(26)}`,
        "    aaaa old",
        `  +${"a".repeat(26)}`,
        "    aaaa new",
        `   ${"b".repeat(25)}…`,
        `  +${"c".repeat(26)}`,
        `    ${"c".repeat(25)}`,
        `    ${"c".repeat(24)}…`
      ])
      const thought: Block.Block = { _tag: "Reasoning", text: `${"word ".repeat(30)}\nsecond` }
      const [line = ""] = BlockLines.renderLines(thought, "folded", at(40))
      assert.match(line, /^┊ thought: word.*… \(\+1 line\)$/u)
      assert.strictEqual(line.split("…").length, 2)
    })
  )

  it.effect("a folded call is one line, an open one has all of its output", () =>
    Effect.gen(function* () {
      const at = yield* look
      const block: Block.ToolBlock = {
        _tag: "Tool",
        name: "terminal",
        params: { command: "ls" },
        status: "ok",
        durationMillis: 3,
        isFirst: true,
        output: Array.from({ length: 30 }, (_, index) => `line ${index}`).join("\n")
      }
      assert.deepStrictEqual(BlockLines.renderLines(block, "folded", at(60)), ["┊ ✓ terminal ls · 3 ms"])
      assert.lengthOf(BlockLines.renderLines(block, "part", at(60)), 1)
      assert.lengthOf(BlockLines.renderLines(block, "part", at(60, { verbosity: "verbose" })), 15)
      assert.lengthOf(BlockLines.renderLines(block, "part", at(60, { verbosity: "off" })), 0)
      const open = BlockLines.renderLines(block, "open", at(60))
      assert.deepStrictEqual([open.length, open[1], open.at(-1)], [32, '┊   {"command":"ls"}', "┊   line 29"])
    })
  )

  it.effect("nothing drives the terminal, and no secret is shown", () =>
    Effect.gen(function* () {
      const at = yield* look
      const secret = `ghp_${"a1B2".repeat(9)}`
      const hostile = `\u001b[2J\u009b31m\u202eevil ${secret}`
      const made: ReadonlyArray<Block.Block> = [
        {
          _tag: "Tool",
          name: hostile,
          params: { command: hostile },
          status: "error",
          output: hostile,
          durationMillis: 1,
          isFirst: true
        },
        { _tag: "Diff", changes: [{ ...change("1", `/tmp/${hostile}`), diff: `+${hostile}\n` }] },
        { _tag: "Todo", items: [{ content: hostile, status: "pending" }] },
        { _tag: "Notice", level: "info", text: hostile },
        { _tag: "Reasoning", text: hostile }
      ]
      for (const block of made) {
        for (const detail of ["folded", "part", "open"] as const) {
          const all = BlockLines.renderLines(block, detail, at(200)).join("\n")
          assert.strictEqual(all, SafeText.sanitise(all).replaceAll("\t", ""), block._tag)
          assert.notInclude(all, secret, block._tag)
        }
      }
    })
  )

  it.effect("a block is laid out once, until its look, its detail or itself is another one", () =>
    Effect.gen(function* () {
      const at = yield* look
      const made = BlockLines.makeLayouts()
      const [block = { _tag: "User", text: "" } as const] = blocks
      made.lines(block, "part", at(40))
      made.lines(block, "part", at(40))
      assert.strictEqual(made.count(), 1)
      made.lines(block, "part", at(41))
      made.lines(block, "open", at(41))
      made.lines({ ...block }, "open", at(41))
      assert.strictEqual(made.count(), 4)
    })
  )
})

const setup = Effect.fnUntraced(function* (columns: number, rows: number, paint = Paint.plain) {
  const terminal = Virtual.make(columns, rows)
  const sink: Screen.Sink = { write: terminal.write, terminal: true, paint }
  const transcript = Transcript.make(
    Screen.make({ answer: sink, aside: sink, size: () => ({ columns: terminal.columns, rows: terminal.rows }) }),
    { markdown: "render", showReasoning: false, previewLength: 0, verbosity: () => "all" }
  )
  transcript.setMarkdown(yield* Markdown.load("render"))
  let state = BlockReducer.initial
  const take = (...events: ReadonlyArray<RunEvent>): void => {
    for (const event of events) {
      const next = BlockReducer.reduce(state, event, 0, options)
      for (const one of next.changes) {
        if (one._tag === "Put") transcript.put(one.block)
        else transcript.takeBack(one.step, one.isChanged)
      }
      state = next.state
      if (state.open !== undefined) transcript.write(state.open)
    }
  }
  return { terminal, transcript, take }
})

const exchange = (index: number): ReadonlyArray<RunEvent> => [
  step(1),
  text(`Answer ${index}, `),
  text("of a few words.\n\n"),
  started(`c${index}`, { command: `ls ${index}` }),
  finished(`c${index}`, "a\nb"),
  step(2),
  text(`Done ${index}.`),
  ended(`Done ${index}.`)
]

describe("Transcript", () => {
  it.effect("each event lays out what it brings, after 2,000 blocks as after none", () =>
    Effect.gen(function* () {
      const { take, terminal, transcript } = yield* setup(80, 24)
      const counts = (index: number): ReadonlyArray<readonly [number, number]> =>
        exchange(index).map((event) => {
          const before = [transcript.layouts.count(), terminal.written().length] as const
          take(event)
          return [transcript.layouts.count() - before[0], terminal.written().length - before[1]] as const
        })
      take(...exchange(1000))
      const first = counts(1001)
      for (let index = 1002; transcript.blocks().length < 2000; index++) take(...exchange(index))
      const late = counts(2000)
      assert.deepStrictEqual(
        late.map(([count]) => count),
        [0, 0, 0, 0, 1, 0, 0, 0]
      )
      assert.deepStrictEqual(late, first)
      assert.isAtLeast(transcript.blocks().length, 2000)
    })
  )

  it.effect(
    "of another width only what is on the screen is laid out again, and in the middle of a text it goes on",
    () =>
      Effect.gen(function* () {
        const { take, terminal, transcript } = yield* setup(60, 12)
        for (let index = 0; index < 200; index++) take(...exchange(index))
        transcript.live(() => ({ lines: ["› "], cursor: { row: 0, column: 2 } }))
        take(step(1), text(`${"The last answer has quite a few words. ".repeat(3)}\n\nand more `))
        const before = transcript.layouts.count()
        terminal.columns = 30
        transcript.redraw()
        assert.isAtMost(transcript.layouts.count() - before, 24)
        take(text("to come.\n"), ended("x"))
        const shown = terminal.lines().slice(-11)
        assert.deepStrictEqual(
          shown,
          [
            "few words. The last answer",
            "has quite a few words. The",
            "last answer has quite a few",
            "words.",
            "",
            "and more to come.",
            "",
            "The answer was changed:",
            "",
            "x",
            "› "
          ].map((line) => line.trimEnd())
        )
        for (const line of shown) assert.isAtMost(Width.measure(line), 30)
      })
  )

  it.effect(
    "in another theme what is on the screen is painted again, also once another picture gives the terminal back",
    () =>
      Effect.gen(function* () {
        const theme = Theme.makeCurrentTheme()
        const { take, terminal, transcript } = yield* setup(
          60,
          12,
          Paint.make({ color: true, hyperlinks: false, theme })
        )
        for (let index = 0; index < 200; index++) take(...exchange(index))
        take(step(1), text("## A heading\n\nand more "))
        const shown = terminal.lines()
        const painted = (next: Theme.Theme, change: () => void): string => {
          const [{ length }, count] = [terminal.written(), transcript.layouts.count()]
          theme.value = next
          change()
          assert.isAtMost(transcript.layouts.count() - count, 24)
          return terminal.written().slice(length)
        }
        const light = painted(Theme.light, transcript.repaint)
        assert.include(light, `\u001b[${Theme.light.codes.success}m✓`)
        assert.include(light, `${Theme.light.codes.heading}mheading`)
        assert.notInclude(light, `\u001b[${Theme.dark.codes.success}m`)
        assert.deepStrictEqual(terminal.lines(), shown)
        transcript.lend(true)
        assert.strictEqual(painted(Theme.dark, transcript.repaint), "")
        assert.include(
          painted(Theme.dark, () => transcript.lend(false)),
          `\u001b[${Theme.dark.codes.success}m✓`
        )
        assert.deepStrictEqual(terminal.lines(), shown)
      })
  )

  it.effect("text that is taken back is erased where it is on the screen, and marked where it is not", () =>
    Effect.gen(function* () {
      const { take, terminal, transcript } = yield* setup(40, 12)
      take(step(1), text("secret\n\nmore"), replaced(1, "[removed]"), ended("[removed]"))
      assert.deepStrictEqual(terminal.lines(), ["[removed]"])
      transcript.beginTurn()
      take(step(1), text("one"), started("1", { command: "ls" }), finished("1", ""), replaced(1, ""))
      assert.deepStrictEqual(terminal.lines().slice(2), [
        "one",
        "",
        "┊ ✓ terminal ls · 1.2 s",
        "The answer above was retracted."
      ])
      assert.notInclude(JSON.stringify(transcript.blocks()), "one")
    })
  )

  it.effect("while another picture has the terminal nothing is written, and afterwards all of it", () =>
    Effect.gen(function* () {
      const { take, terminal, transcript } = yield* setup(40, 12)
      transcript.lend(true)
      const { length } = terminal.written()
      take(step(1), text("hello\n\nwor"), text("ld"))
      transcript.say("own\n")
      transcript.redraw()
      transcript.refresh()
      assert.strictEqual(terminal.written().length, length)
      transcript.lend(false)
      take(text("!"), ended("hello\n\nworld!"))
      assert.deepStrictEqual(terminal.lines(), ["own", "", "hello", "", "world!"])
    })
  )

  it.effect("keeps so many blocks and no more", () =>
    Effect.gen(function* () {
      const { transcript } = yield* setup(40, 12)
      const mostBlocks = 5000
      for (let index = 0; index < mostBlocks + 10; index++)
        transcript.put({ _tag: "Notice", level: "info", text: `n${index}` })
      assert.isAtMost(transcript.blocks().length, mostBlocks)
      assert.deepInclude(transcript.blocks().at(-1), { text: `n${mostBlocks + 9}` })
    })
  )
})
