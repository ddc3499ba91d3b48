// Live lines below text that stays, on a terminal that does what terminals do.
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Screen from "../../../src/program/cli/render/Screen.ts"
import * as Virtual from "../../support/virtualTerminal.ts"
import { prop } from "../../support/property.ts"

const onTerminal = (columns: number, rows = 24) => {
  const terminal = Virtual.make(columns, rows)
  const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: Paint.plain }
  const screen = Screen.make({
    answer: sink,
    aside: sink,
    size: () => ({ columns: terminal.columns, rows: terminal.rows })
  })
  return { terminal, screen }
}

const lines =
  (...lines: ReadonlyArray<string>): Screen.View =>
  () => ({ lines })

describe("Screen", () => {
  it("draws live lines below the text, and the text goes on where it was", () => {
    const { screen, terminal } = onTerminal(20)
    screen.print("one\ntwo")
    screen.live(lines("a", "b"))
    assert.deepStrictEqual(terminal.lines(), ["one", "two", "a", "b"])
    screen.print(" more")
    assert.deepStrictEqual(terminal.lines(), ["one", "two more", "a", "b"])
    screen.print("\nthree\n")
    assert.deepStrictEqual(terminal.lines(), ["one", "two more", "three", "a", "b"])
    screen.live(Screen.renderNothing)
    assert.deepStrictEqual(terminal.lines(), ["one", "two more", "three"])
    assert.deepInclude(terminal.cursor(), { row: 3, column: 0 })
  })

  it("puts the cursor where the view wants it, and hides it where it wants none", () => {
    const { screen, terminal } = onTerminal(20)
    screen.live(() => ({ lines: ["> abc", "hint"], cursor: { row: 0, column: 3 } }))
    assert.deepStrictEqual(terminal.cursor(), { row: 0, column: 3, visible: true })
    screen.live(lines("busy"))
    assert.isFalse(terminal.cursor().visible)
    screen.live(Screen.renderNothing)
    assert.isTrue(terminal.cursor().visible)
  })

  it("changes drawn lines into any others, whatever their styles and widths", () => {
    const paint = Paint.make({ color: true, hyperlinks: false })
    const words = ["one", "two", "漢字", "👩‍👩‍👧", "e\u0301", paint.text("red word", "red"), paint.text("⠙", "cyan"), "x"]
    let seed = 7
    const take = (most: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor((seed / 2_147_483_648) * most)
    }
    const makeLines = () =>
      Array.from({ length: 1 + take(5) }, () =>
        [
          // The first column changes between a mark and a space.
          ["", "  ", `${paint.text("❯", "cyan")} `, "❯ "][take(4)] ?? "",
          Array.from({ length: take(4) }, () => words[take(words.length)] ?? "").join(take(3) === 0 ? "" : " ")
        ].join("")
      )
    const { screen, terminal } = onTerminal(60)
    screen.print("text\n")
    for (let round = 0; round < 400; round++) {
      const next = makeLines()
      const cursor = take(2) === 0 ? undefined : { row: take(next.length), column: take(5) }
      screen.live(() => ({ lines: next, cursor }))
      const fresh = onTerminal(60)
      fresh.screen.print("text\n")
      fresh.screen.live(() => ({ lines: next, cursor }))
      assert.deepStrictEqual(terminal.lines(), fresh.terminal.lines(), `round ${round}`)
      // A hidden cursor may be anywhere.
      if (cursor === undefined) assert.isFalse(terminal.cursor().visible)
      else assert.deepStrictEqual(terminal.cursor(), fresh.terminal.cursor(), `round ${round}`)
      if (take(4) === 0) {
        screen.print("more\n")
        fresh.screen.print("more\n")
        assert.deepStrictEqual(terminal.lines(), fresh.terminal.lines(), `round ${round}`)
        screen.live(Screen.renderNothing)
        screen.clear()
        screen.print("text\n")
      }
    }
  })

  it("writes of a growing line and a turning spinner what changed", () => {
    const { screen, terminal } = onTerminal(80)
    const paint = Paint.make({ color: true, hyperlinks: false })
    const status = "a status line that stays as it is"
    const draw = (text: string, frame: string): number => {
      const before = terminal.written().length
      screen.live(lines(text, `${paint.text(frame, "cyan")} ${paint.text("waiting for the model", "dim")}`, status))
      return terminal.written().length - before
    }
    draw("lorem ipsum dolor sit amet", "⠋")
    assert.isAtMost(draw("lorem ipsum dolor sit amet consectetur", "⠋"), 40)
    assert.isAtMost(draw("lorem ipsum dolor sit amet consectetur", "⠙"), 40)
    // The cursor remains behind the spinner.
    assert.isAtMost(draw("lorem ipsum dolor sit amet consectetur", "⠹"), 12)
  })

  it("writes nothing when nothing changed", () => {
    const { screen, terminal } = onTerminal(20)
    screen.live(lines("a"))
    const { length } = terminal.written()
    screen.refresh()
    screen.live(lines("a"))
    assert.strictEqual(terminal.written().length, length)
  })

  it("goes on after a line that is exactly full", () => {
    const { screen, terminal } = onTerminal(5)
    screen.print("abcde")
    screen.live(lines("x"))
    screen.print("fg")
    assert.deepStrictEqual(terminal.lines(), ["abcde", "fg", "x"])
  })

  it("counts the columns of wide characters, tabs and colours", () => {
    const { screen, terminal } = onTerminal(10)
    screen.print("漢字\t\u001b[1mx\u001b[0m")
    screen.live(lines("y"))
    screen.print("z")
    assert.deepStrictEqual(terminal.lines(), ["漢字    xz", "y"])
  })

  it("finds the live lines again when the terminal broke them", () => {
    const { screen, terminal } = onTerminal(30)
    screen.print("text\n")
    screen.live(({ columns }) => ({ lines: ["x".repeat(Math.min(25, columns - 1)), "y"] }))
    // What a terminal of ten columns makes of these lines.
    const narrow = onTerminal(30)
    narrow.screen.print("text\n")
    narrow.screen.live(({ columns }) => ({ lines: ["x".repeat(Math.min(25, columns - 1)), "y"] }))
    narrow.terminal.columns = 10
    const before = narrow.terminal.written()
    narrow.screen.redraw()
    assert.include(narrow.terminal.written().slice(before.length), "\u001b[3A")
    assert.strictEqual(terminal.lines().length, 3)
  })

  it("without a terminal there are no live lines, and nothing but the text is written", () => {
    const out: Array<string> = []
    const err: Array<string> = []
    const sink = (into: Array<string>): Screen.Sink => ({
      write: (text) => into.push(text),
      terminal: false,
      paint: Paint.plain
    })
    const screen = Screen.make({ answer: sink(out), aside: sink(err), size: () => ({ columns: 80, rows: 24 }) })
    screen.live(lines("live"))
    screen.print("a")
    screen.say("b\n")
    screen.refresh()
    screen.endLine()
    assert.deepStrictEqual([out, err], [["a"], ["b\n"]])
    assert.strictEqual(screen.answerColumns(), undefined)
  })

  it("an answer that goes to a file leaves the live lines on the terminal alone", () => {
    const out: Array<string> = []
    const terminal = Virtual.make(20)
    const screen = Screen.make({
      answer: { write: (text) => out.push(text), terminal: false, paint: Paint.plain },
      aside: { write: terminal.write, terminal: true, paint: Paint.plain },
      size: () => ({ columns: 20, rows: 24 })
    })
    screen.live(lines("busy"))
    screen.print("answer")
    screen.say("note\n")
    assert.deepStrictEqual(out, ["answer"])
    assert.deepStrictEqual(terminal.lines(), ["note", "busy"])
  })

  const texts = Arbitrary.schema(Schema.Literals(["a", "bc ", "漢字", "\n", "word\n", "0123456789", "é", "👨‍👩‍👧", "\n\n"]))
  const views = Arbitrary.schema(Schema.Literals(["", "a", "a\nb", "0123456", "漢字\n\nz"]))
  const steps = Arbitrary.array(Arbitrary.all([texts, views]), { maxLength: 20 })

  prop("the text is on the terminal as if there had never been live lines", [steps], ([steps]) => {
    const { screen, terminal } = onTerminal(10, 100)
    const plain = Virtual.make(10, 100)
    for (const [text, view] of steps) {
      screen.print(text)
      plain.write(text)
      screen.live(view === "" ? Screen.renderNothing : lines(...view.split("\n")))
    }
    screen.live(Screen.renderNothing)
    assert.deepStrictEqual(terminal.lines(), plain.lines())
  })
})
