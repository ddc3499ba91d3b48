// A run on the screen: the answer, the tools, what is waited for, and what is said about it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as EventPrinter from "../../../src/program/cli/render/EventPrinter.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Screen from "../../../src/program/cli/render/Screen.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { RunEvent, ToolStatus } from "../../../src/base/domain/RunEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as Virtual from "../../support/virtualTerminal.ts"

const step: RunEvent = { _tag: "StepStarted", step: 1 }
const text = (text: string): RunEvent => ({ _tag: "TextDelta", text })
const reasoning = (text: string): RunEvent => ({ _tag: "ReasoningDelta", text })
const started = (callId: string, params: unknown, name = "terminal"): RunEvent => ({
  _tag: "ToolStarted",
  callId,
  name,
  params
})
const finished = (
  callId: string,
  output: string,
  status: ToolStatus = "ok",
  name = "terminal",
  durationMillis = 1234
): RunEvent => ({ _tag: "ToolFinished", callId, name, status, output, durationMillis })
const ended = (text: string, usage: Partial<Usage.Usage> = {}): RunEvent => ({
  _tag: "RunFinished",
  sessionId: SessionId.make("s"),
  turnId: TurnId.make("t"),
  exit: "text_response",
  text,
  steps: 1,
  provider: "p",
  model: "m",
  usage: { ...Usage.zero, ...usage },
  cost: { usd: 0.0046, status: "estimated", source: "official_docs_snapshot" }
})

const defaults: EventPrinter.Options = {
  markdown: "strip",
  showReasoning: false,
  showCost: false,
  live: true,
  hint: "",
  verbosity: () => "all",
  previewLength: 0
}

const setup = (options: Partial<EventPrinter.Options> = {}, columns = 60) => {
  const terminal = Virtual.make(columns, 50)
  const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: Paint.plain }
  const screen = Screen.make({ answer: sink, aside: sink, size: () => ({ columns, rows: 50 }) })
  return { terminal, screen, printer: EventPrinter.make(screen, { ...defaults, ...options }) }
}

const shown = Effect.fnUntraced(function* (
  events: ReadonlyArray<RunEvent>,
  options: Partial<EventPrinter.Options> = {},
  columns?: number
) {
  const { printer, terminal } = setup(options, columns)
  for (const event of events) yield* printer.events([event])
  yield* printer.close
  return terminal.lines()
})

const child = { subagentId: "sa-0-1", sessionId: SessionId.make("c"), goal: "Count the sheep\nin the field" }
const childEnded = (status: string): RunEvent => ({
  _tag: "SubagentFinished",
  ...child,
  status,
  toolCount: 2,
  durationMillis: 3210,
  usage: { ...Usage.zero, inputTokens: 30, outputTokens: 5 }
})

describe("EventPrinter", () => {
  it.effect("children have a line when they begin and when they end, and a live one while they work", () =>
    Effect.gen(function* () {
      const { printer, terminal } = setup()
      yield* printer.events([started("1", { goal: "sheep" }, "delegate_task"), { _tag: "SubagentStarted", ...child }])
      yield* printer.events([{ _tag: "SubagentProgress", subagentId: "sa-0-1", text: "terminal" }])
      yield* TestClock.adjust("2 seconds")
      const live = printer.view({ columns: 60, rows: 50 }, 2000)
      assert.lengthOf(live, 2)
      assert.include(live[1], "Count the sheep in the field · terminal · 2 s")
      yield* printer.events([childEnded("partial"), finished("1", '{"results":[]}', "ok", "delegate_task")])
      assert.lengthOf(printer.view({ columns: 60, rows: 50 }, 2000), 0)
      yield* printer.close
      assert.deepStrictEqual(terminal.lines(), [
        "┊   ▸ Count the sheep in the field",
        "┊   ◐ Count t… · partial · 2 tool calls · 35 tokens · 3.2 s",
        "┊ ✓ delegate_task sheep · 1.2 s"
      ])
      assert.deepStrictEqual(
        yield* shown([{ _tag: "SubagentStarted", ...child }, childEnded("completed")], { verbosity: () => "new" }),
        []
      )
    })
  )

  it.effect("a plan has its items, a search its matches, and a list its rows", () =>
    Effect.gen(function* () {
      const todos = [
        { id: "1", content: "Read", status: "completed" },
        { id: "2", content: "Write", status: "pending" }
      ]
      const matches = [{ path: "a.ts", line: 7, content: "  total" }]
      const rows = [
        { name: "漢字", size: 1 },
        { name: "x", size: 12 }
      ]
      const lines = yield* shown([
        started("1", { todos }, "todo"),
        finished("1", JSON.stringify({ todos }), "ok", "todo"),
        started("2", { pattern: "total" }, "search_files"),
        finished("2", JSON.stringify({ total_count: 1, matches }), "ok", "search_files"),
        started("3", {}, "list"),
        finished("3", JSON.stringify(rows), "ok", "list")
      ])
      assert.deepStrictEqual(lines, [
        "┊ ✓ todo · 1.2 s",
        "┊   ☑ Read",
        "┊   ☐ Write",
        "┊ ✓ search_files total · 1.2 s · 1 match in 1 file",
        "┊   a.ts:7: total",
        "┊ ✓ list · 1.2 s · 2 rows",
        "┊   name  size",
        "┊   漢字  1",
        "┊   x     12"
      ])
    })
  )

  it.effect("sets the answer and the tools apart by one blank line", () =>
    Effect.gen(function* () {
      const lines = yield* shown([
        step,
        text("\n\nLet me "),
        text("look.\n\n"),
        started("1", { command: "ls -la" }),
        finished("1", '{"output":"a","exit_code":0,"error":null}'),
        started("2", { command: "false" }),
        finished("2", '{"output":"","exit_code":1,"error":null}'),
        step,
        text("**Done**."),
        ended("**Done**.")
      ])
      assert.deepStrictEqual(lines, [
        "Let me look.",
        "",
        "┊ ✓ terminal ls -la · 1.2 s",
        "┊   a",
        "┊ ✗ terminal false · 1.2 s · exit 1",
        "",
        "Done."
      ])
    })
  )

  it.effect("says how a call failed, was blocked or cut, in one line", () =>
    Effect.gen(function* () {
      const lines = yield* shown([
        started("1", { path: "a.txt" }, "read_file"),
        finished("1", '{"error":"no such file:\\na.txt"}', "error", "read_file", 2),
        finished("2", '{"error":"Blocked: not here"}', "blocked", "write_file", 0),
        started("3", { command: "sleep 9" }),
        finished("3", "Cancelled: …", "cancelled", "terminal", 0)
      ])
      assert.deepStrictEqual(lines, [
        "┊ ✗ read_file a.txt · 2 ms · no such file: … (+1 line)",
        "┊ ⊘ write_file · Blocked: not here",
        "┊ ○ terminal sleep 9 · stopped"
      ])
    })
  )

  it.effect("cuts arguments to the line, shows several lines as one, and no secrets", () =>
    Effect.gen(function* () {
      const secret = `ghp_${"a1B2".repeat(9)}`
      const lines = yield* shown([
        started("1", { command: `cat <<EOF\nb\nc\nEOF` }),
        finished("1", ""),
        started("2", { command: `echo ${"long ".repeat(30)}` }),
        finished("2", ""),
        started("3", { command: `export T=${secret}` }),
        finished("3", ""),
        started("4", { command: "\u001b[2Jecho" }),
        finished("4", "")
      ])
      assert.strictEqual(lines[0], "┊ ✓ terminal cat <<EOF … (+3 lines) · 1.2 s")
      assert.strictEqual(lines[1]?.length, 59)
      assert.include(lines[1], "… · 1.2 s")
      assert.notInclude(lines[2], secret)
      assert.include(lines[3], "␛[2Jecho")
      const short = yield* shown([started("1", { command: "0123456789" }), finished("1", "")], { previewLength: 5 })
      assert.deepStrictEqual(short, ["┊ ✓ terminal 0123… · 1.2 s"])
    })
  )

  it.effect("shows as much of the tools as is wanted", () =>
    Effect.gen(function* () {
      const events = [
        started("1", { command: "a", timeout: 3 }),
        finished("1", '{"output":"x\\ny","exit_code":0}'),
        started("2", { command: "b" }),
        finished("2", Array.from({ length: 20 }, (_, index) => `line ${index}`).join("\n")),
        started("3", { command: "c" }),
        finished("3", "bad", "error")
      ]
      assert.deepStrictEqual(yield* shown(events, { verbosity: () => "off" }), [])
      assert.deepStrictEqual(yield* shown(events, { verbosity: () => "new" }), [
        "┊ ✓ terminal a · 1.2 s",
        "┊   x",
        "┊   y",
        "┊ ✗ terminal c · 1.2 s · bad"
      ])
      const verbose = yield* shown(events, { verbosity: () => "verbose" })
      assert.deepStrictEqual(verbose.slice(0, 6), [
        "┊ ✓ terminal a · 1.2 s",
        '┊   {"command":"a","timeout":3}',
        "┊   x",
        "┊   y",
        "┊ ✓ terminal b · 1.2 s",
        '┊   {"command":"b"}'
      ])
      assert.include(verbose, "┊   … 8 more lines")
    })
  )

  it.effect("shows the reasoning only when it is wanted, behind a bar", () =>
    Effect.gen(function* () {
      const events = [step, reasoning("I must\n\nthink "), reasoning("hard \u001b[1m"), text("Yes."), ended("Yes.")]
      assert.deepStrictEqual(yield* shown(events), ["Yes."])
      assert.deepStrictEqual(yield* shown(events, { showReasoning: true }), [
        "┊ I must",
        "┊",
        "┊ think hard ␛[1m",
        "",
        "Yes."
      ])
    })
  )

  it.effect("tells of retries and notices, and what it took", () =>
    Effect.gen(function* () {
      const lines = yield* shown(
        [
          step,
          { _tag: "Waiting", reason: "rate limited", millis: 2500, attempt: 2, maxAttempts: 3 },
          { _tag: "Notice", level: "warning", message: "context is\nshort" },
          { _tag: "Notice", level: "info", message: "hello" },
          text("Yes."),
          ended("Yes.", { inputTokens: 1000, cacheReadTokens: 3000, outputTokens: 42, requestCount: 1 })
        ],
        { showCost: true }
      )
      assert.deepStrictEqual(lines, [
        "┊ rate limited: retrying in 3 s, attempt 2 of 3",
        "! context is short",
        "hello",
        "",
        "Yes.",
        "",
        "4.0k in (75% cached) · 42 out · 1 model call · ~$0.0046"
      ])
    })
  )

  it.effect("shows a final text that is not what streamed by", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* shown([step, text("draft"), ended("final")]), [
        "draft",
        "",
        "The answer was changed:",
        "",
        "final"
      ])
      assert.deepStrictEqual(yield* shown([step, text("secret"), ended("[removed]")], { live: false }), ["[removed]"])
      assert.deepStrictEqual(yield* shown([step, text("one "), step, text("two"), ended("one two")]), [
        "one",
        "",
        "two"
      ])
    })
  )

  it.effect("text that is taken back is erased, and the text in its place is shown once", () =>
    Effect.gen(function* () {
      const replaced = (text: string, stepId = 1): RunEvent => ({ _tag: "TextReplaced", stepId, text })
      for (const markdown of ["strip", "raw"] as const) {
        const draft = [step, text("My key\n\nis abc"), text("def, it is.")]
        assert.deepStrictEqual(yield* shown([...draft, replaced("My key is [removed].")], { markdown }), [
          "My key is [removed]."
        ])
        assert.deepStrictEqual(
          yield* shown(
            [...draft, replaced("My key is [removed]."), text(" Bye."), ended("My key is [removed]. Bye.")],
            { markdown }
          ),
          ["My key is [removed]. Bye."]
        )
        assert.deepStrictEqual(yield* shown([...draft, replaced("")], { markdown }), [])
        // Of an earlier step nothing is lost, and what was said meanwhile is said after it.
        const notice: RunEvent = { _tag: "Notice", level: "info", message: "hello" }
        assert.deepStrictEqual(
          yield* shown(
            [
              step,
              text("Let me look."),
              started("1", { command: "ls" }),
              finished("1", "{}"),
              { _tag: "StepStarted", step: 2 },
              text("secret\n\nsecret"),
              notice,
              replaced("[removed]", 2),
              ended("[removed]")
            ],
            { markdown }
          ),
          ["Let me look.", "", "┊ ✓ terminal ls · 1.2 s", "", "[removed]", "", "hello"]
        )
        // An answer of two steps is replaced as one.
        assert.deepStrictEqual(
          yield* shown(
            [step, text("one"), { _tag: "StepStarted", step: 2 }, text("two"), replaced("three"), ended("three")],
            { markdown }
          ),
          ["three"]
        )
      }
      assert.deepStrictEqual(
        yield* shown([step, text("secret"), replaced("[removed]"), ended("[removed]")], { live: false }),
        ["[removed]"]
      )
    })
  )

  it.effect("text that cannot be erased any more stays, with a mark behind it and the new text", () =>
    Effect.gen(function* () {
      const replaced = (text: string, stepId = 1): RunEvent => ({ _tag: "TextReplaced", stepId, text })
      // A tool's line stands below it.
      assert.deepStrictEqual(
        yield* shown([
          step,
          text("one"),
          started("1", { command: "ls" }),
          finished("1", "{}"),
          { _tag: "StepStarted", step: 2 },
          text("two"),
          replaced("three"),
          ended("three")
        ]),
        ["one", "", "┊ ✓ terminal ls · 1.2 s", "The answer was changed:", "", "three"]
      )
      assert.deepStrictEqual(
        yield* shown([step, text("one"), started("1", { command: "ls" }), finished("1", "{}"), replaced("")]),
        ["one", "", "┊ ✓ terminal ls · 1.2 s", "The answer above was retracted."]
      )
    })
  )

  it.effect(
    "of a long answer in a small terminal the part that scrolled away stays, marked, and the final text is there once",
    () =>
      Effect.gen(function* () {
        for (const [columns, rows, words] of [
          [12, 5, 40],
          [12, 40, 40],
          [7, 3, 3],
          [7, 3, 60]
        ] as const) {
          const terminal = Virtual.make(columns, rows)
          const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: Paint.plain }
          const screen = Screen.make({ answer: sink, aside: sink, size: () => ({ columns, rows }) })
          const printer = EventPrinter.make(screen, { ...defaults, markdown: "raw" })
          screen.live(() => ({ lines: ["> "] }))
          const draft = Array.from({ length: words }, (_, index) => `w${index}`)
          yield* printer.events([step])
          for (const word of draft) yield* printer.events([text(`${word} `)])
          yield* printer.events([{ _tag: "TextReplaced", stepId: 1, text: "final" }, ended("final")])
          yield* printer.close
          screen.live(Screen.renderNothing)
          const all = terminal.lines().join("\n")
          assert.strictEqual(all.split("final").length, 2, all)
          // All of it fits above the live line, or a part is out of reach.
          const fits = Math.ceil(`${draft.join(" ")} `.length / columns) <= rows - 1
          assert.strictEqual(all.includes("w0"), !fits, all)
          if (!fits) assert.include(all, columns === 12 ? "The answer" : "The a", all)
        }
      })
  )

  it.effect("after the terminal got another size nothing is erased", () =>
    Effect.gen(function* () {
      const terminal = Virtual.make(40, 20)
      const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: Paint.plain }
      const screen = Screen.make({
        answer: sink,
        aside: sink,
        size: () => ({ columns: terminal.columns, rows: terminal.rows })
      })
      const printer = EventPrinter.make(screen, { ...defaults, markdown: "raw" })
      yield* printer.events([step, text("draft")])
      terminal.columns = 30
      screen.redraw()
      yield* printer.events([{ _tag: "TextReplaced", stepId: 1, text: "final" }])
      yield* printer.close
      assert.deepStrictEqual(terminal.lines(), ["draft", "", "The answer was changed:", "", "final"])
    })
  )

  it.effect("into a pipe the text of a step goes once, when it is final", () =>
    Effect.gen(function* () {
      let piped = ""
      let asides = ""
      const screen = Screen.make({
        answer: { write: (more) => void (piped += more), terminal: false, paint: Paint.plain },
        aside: { write: (more) => void (asides += more), terminal: false, paint: Paint.plain },
        size: () => ({ columns: 80, rows: 24 })
      })
      const printer = EventPrinter.make(screen, { ...defaults, markdown: "raw" })
      yield* printer.events([step, text("my "), text("secret")])
      assert.strictEqual(piped, "")
      yield* printer.events([
        { _tag: "TextReplaced", stepId: 1, text: "[removed]" },
        { _tag: "StepFinished", step: 1, finishReason: "stop" },
        ended("[removed]")
      ])
      yield* printer.close
      assert.deepStrictEqual([piped, asides], ["[removed]\n", ""])
    })
  )

  it.effect("the open block is drawn again as it grows, and is written once when it is final", () =>
    Effect.gen(function* () {
      const { printer, screen, terminal } = setup()
      screen.live(() => ({ lines: ["busy"] }))
      yield* printer.events([step, text("one *two")])
      assert.deepStrictEqual(terminal.lines(), ["one *two", "busy"])
      yield* printer.events([text("*\n\n- a\n")])
      assert.deepStrictEqual(terminal.lines(), ["one two", "", "- a", "busy"])
      yield* TestClock.adjust("1 second")
      yield* printer.events([text("- b")])
      assert.deepStrictEqual(terminal.lines(), ["one two", "", "- a", "- b", "busy"])
      yield* printer.close
      screen.live(Screen.renderNothing)
      assert.deepStrictEqual(terminal.lines(), ["one two", "", "- a", "- b"])
      assert.strictEqual(terminal.written().split("one two").length, 2)
    })
  )

  it.effect("of an open block that is higher than the terminal its end is drawn, and all of it when it is final", () =>
    Effect.gen(function* () {
      const { printer, screen, terminal } = setup()
      const code = Array.from({ length: 80 }, (_, index) => `line ${index}`)
      yield* printer.events([step, text(`\`\`\`\n${code.join("\n")}\n`)])
      assert.deepStrictEqual(terminal.lines(), code.slice(-49))
      yield* printer.events([text("```\n")])
      yield* printer.close
      screen.live(Screen.renderNothing)
      assert.deepStrictEqual(terminal.lines(), code)
    })
  )

  it.effect("a note waits for the end of the text that is being written", () =>
    Effect.gen(function* () {
      const { printer, terminal } = setup()
      yield* printer.events([step, text("```\ncode\n")])
      printer.note("Warning: odd")
      yield* printer.events([text("more\n```\n"), ended("x")])
      yield* printer.close
      assert.deepStrictEqual(terminal.lines().slice(0, 4), ["code", "more", "", "Warning: odd"])
    })
  )

  it.effect(
    "live lines tell what it is at: waiting, thinking, arguments that are written, calls that run together",
    () =>
      Effect.gen(function* () {
        const { printer } = setup({ hint: "Ctrl+C stops" })
        const view = (now: number) => printer.view({ columns: 60, rows: 24 }, now)
        yield* TestClock.setTime(10_000)
        yield* printer.events([step])
        assert.deepStrictEqual(view(12_300), ["┊ ⠸ waiting for the model · 2 s · Ctrl+C stops"])
        yield* printer.events([reasoning("hm")])
        assert.include(view(13_000)[0], "thinking · 3 s")
        yield* printer.events([text("text ")])
        assert.deepStrictEqual(view(10_100), [])
        assert.include(view(12_000)[0], "writing · 2 s")
        yield* printer.events([
          { _tag: "ToolInputStarted", callId: "1", name: "write_file" },
          { _tag: "ToolInputDelta", callId: "1", text: "x".repeat(2100) }
        ])
        assert.deepStrictEqual(view(10_000), ["", "┊ ⠋ write_file … 2.1 kB"])
        yield* printer.events([
          started("1", { path: "a" }, "write_file"),
          ...Array.from({ length: 8 }, (_, index) => started(`c${index}`, { command: `cmd ${index}` })),
          { _tag: "ToolProgress", callId: "c0", name: "terminal", text: "first\nlast line\n" }
        ])
        assert.deepStrictEqual(view(73_500), [
          "",
          "┊ ⠴ write_file a · 1 min 4 s",
          "┊ ⠴ terminal cmd 0 · 1 min 4 s · last line",
          "┊ ⠴ terminal cmd 1 · 1 min 4 s",
          "┊ ⠴ terminal cmd 2 · 1 min 4 s",
          "┊ ⠴ terminal cmd 3 · 1 min 4 s",
          "┊ ⠴ terminal cmd 4 · 1 min 4 s",
          "┊ … and 3 more"
        ])
        yield* printer.events([ended("text")])
        assert.deepStrictEqual(view(99_000), [])
      })
  )

  it.effect("a file gets the answer alone, as the model wrote it", () =>
    Effect.gen(function* () {
      const out: Array<string> = []
      const err: Array<string> = []
      const sink = (into: Array<string>): Screen.Sink => ({
        write: (text) => into.push(text),
        terminal: false,
        paint: Paint.plain
      })
      const screen = Screen.make({ answer: sink(out), aside: sink(err), size: () => ({ columns: 80, rows: 24 }) })
      const printer = EventPrinter.make(screen, { ...defaults, markdown: "raw" })
      const long = "word ".repeat(40).trim()
      yield* printer.events([
        step,
        text(`# ${long}`),
        started("1", { command: "ls" }),
        finished("1", ""),
        step,
        text("b\n"),
        ended("b\n")
      ])
      yield* printer.close
      assert.strictEqual(out.join(""), `# ${long}\n\nb\n`)
      assert.include(err.join(""), "✓ terminal ls")
    })
  )

  it.effect("why calls run side by side or not is said where the tool lines are verbose", () =>
    Effect.gen(function* () {
      const events: ReadonlyArray<RunEvent> = [
        { _tag: "ToolsScheduled", calls: 2, mode: "sequential", reason: "terminal was not stated to be read-only" }
      ]
      assert.deepStrictEqual(yield* shown(events, { verbosity: () => "verbose" }, 100), [
        "┊ 2 calls one after another: terminal was not stated to be read-only"
      ])
      assert.deepStrictEqual(yield* shown(events, {}, 100), [])
    })
  )
})
