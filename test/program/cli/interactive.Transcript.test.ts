// The conversation as a picture of its own: going through its blocks, folding, and what happens meanwhile.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TranscriptView from "../../../src/program/cli/interactive/TranscriptView.ts"
import { session } from "../../support/interactiveSession.ts"

/** Blocks of one to four lines; every third can be opened to ten more. Each look at a block is counted. */
const blocksOf = (count: number) => {
  const open = new Set<number>()
  const looks = new Set<number>()
  const source: TranscriptView.Source = {
    count,
    lines: (index) => {
      looks.add(index)
      const length = index % 7 === 6 ? 0 : 1 + (index % 4) + (open.has(index) ? 10 : 0)
      return Array.from({ length }, (_, line) => `${index}.${line}`)
    },
    isFoldable: (index) => index % 3 === 0,
    toggle: (index, isOpen) => void ((isOpen ?? !open.has(index)) ? open.add(index) : open.delete(index))
  }
  return { source, looks }
}

const shown = (source: TranscriptView.Source, state: TranscriptView.State, rows: number) =>
  TranscriptView.renderWindow(source, state, rows, "> ")

describe("TranscriptView", () => {
  it("goes through 2,000 blocks and looks only at those near the window", () => {
    const { looks, source } = blocksOf(2000)
    const rows = 20
    let state = TranscriptView.moveToEnd(source, 1998, rows)
    const keys = [
      "up",
      "up",
      "enter",
      "pageup",
      "pageup",
      "down",
      "home",
      "down",
      "down",
      "pagedown",
      "enter",
      "right",
      "left",
      "end",
      "up",
      "G",
      "g"
    ]
    for (const key of keys) {
      looks.clear()
      const next = TranscriptView.pressKey(source, state, key, rows)
      assert.isDefined(next, key)
      state = next ?? state
      const lines = shown(source, state, rows)
      assert.lengthOf(lines, rows, key)
      assert.isTrue(
        lines.some((line) => line.startsWith("> ")),
        `${key}: the marked block is in the window\n${lines.join("\n")}`
      )
      assert.isAtMost(looks.size, 40, key)
    }
    for (const key of ["escape", "q", "ctrl-o", "ctrl-c"])
      assert.isUndefined(TranscriptView.pressKey(source, state, key, rows))
  })

  it("steps from the end to the beginning and back over every block that is seen, at any height", () => {
    for (const rows of [1, 2, 5, 30]) {
      const { source } = blocksOf(40)
      let state = TranscriptView.moveToEnd(source, 39, rows)
      const passed: Array<number> = []
      for (let index = 0; index < 60; index++) {
        state = TranscriptView.pressKey(source, state, "up", rows) ?? state
        if (passed.at(-1) !== state.selected) passed.push(state.selected)
      }
      assert.deepStrictEqual(
        passed,
        Array.from({ length: 39 }, (_, index) => 38 - index).filter((index) => index % 7 !== 6)
      )
      assert.deepStrictEqual(state, { selected: 0, top: 0, line: 0 })
      for (let index = 0; index < 60; index++) state = TranscriptView.pressKey(source, state, "down", rows) ?? state
      assert.strictEqual(state.selected, 39)
      assert.strictEqual(shown(source, state, rows).at(-1), "> 39.3")
    }
  })

  it("with nothing to show it shows nothing", () => {
    const { source } = blocksOf(0)
    let state = TranscriptView.moveToEnd(source, 0, 5)
    for (const key of ["up", "down", "pageup", "pagedown", "home", "end", "enter"])
      state = TranscriptView.pressKey(source, state, key, 5) ?? state
    assert.deepStrictEqual(shown(source, state, 5), [])
  })

  it.effect(
    "Ctrl+O shows the conversation, Enter opens a call, q goes back to what stood there; a turn goes on and ends meanwhile",
    () =>
      session({}, ({ later, left, screen, send, terminal, type, until }) =>
        Effect.gen(function* () {
          yield* type("use tools\r")
          yield* until("Both slept well.")
          yield* until("›", 2)
          const before = screen()
          yield* type("\u000f")
          yield* until("q goes back")
          assert.include(screen(), "▌ ┊ ✗ nap broken · 0 ms · Error executing tool 'nap': no bed")
          yield* type("\r")
          yield* until('{"name":"broken","millis":0}')
          terminal.columns = 40
          yield* send({ _tag: "Resized" })
          yield* until('{"name":"broken","millis":0}')
          terminal.columns = 80
          yield* send({ _tag: "Resized" })
          yield* type("\r")
          yield* later("✗ nap broken · 0 ms · Error executing tool 'nap': no bed\n\n")
          yield* type("q")
          yield* until("›", 2)
          assert.strictEqual(screen().split("\n").slice(0, 8).join("\n"), before.split("\n").slice(0, 8).join("\n"))
          // A turn that is under way.
          yield* type("ask later\r")
          yield* until("nap anna")
          yield* type("\u000f")
          yield* until("q goes back")
          yield* later("? Ready?")
          yield* type("\u001b")
          yield* later("or type your own answer")
          yield* type("1\r")
          yield* until("Both slept well.", 2)
          yield* type("hang\r")
          yield* until("Let me think about")
          yield* type("\u000f")
          yield* until("q goes back")
          yield* type("\u0003")
          yield* later("Ctrl+C stops")
          yield* type("\u0003")
          yield* until("Stopped.")
          yield* type("/quit\r")
          assert.strictEqual(yield* left, 0)
        })
      )
  )

  it.effect("Shift+Tab changes the mode while the agent works", () =>
    session({ status: { compactAt: undefined, home: undefined } }, ({ later, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("\u001b[Z")
        yield* type("\u001b")
        yield* later("Stopped.")
        yield* type("/approve auto\r")
        yield* until("Not in plan mode")
        // From ask to edits, auto and plan.
        yield* type("hang\r")
        yield* until("Let me think about", 2)
        yield* type("\u001b[Z\u001b[Z\u001b")
        yield* later("fake-1 · plan")
      })
    )
  )
})
