// A conversation without drawing, for screen readers and terminals that only write.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { printNote, Output, printWarnings } from "../../../src/program/cli/ProgramOutput.ts"
import * as LinearScreen from "../../../src/program/cli/render/LinearScreen.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { machine, program } from "../../support/hermes.ts"
import { session } from "../../support/interactiveSession.ts"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { capture } from "./capture.ts"

const screen = () => {
  let written = ""
  const own = LinearScreen.make((text) => {
    written += text
  })
  const prompt = (text: string) =>
    own.live(() => ({ lines: ["above", text, "below"], cursor: { row: 1, column: text.length } }))
  return { own, prompt, written: () => written }
}

describe("LinearScreen", () => {
  it("writes what is typed as it is typed, and a line that was sent once", () => {
    const { own, prompt, written } = screen()
    own.say("hello\n")
    prompt("› ")
    prompt("› a")
    prompt("› a")
    prompt("› ab漢")
    prompt("› ab")
    own.live(() => ({ lines: ["busy"] }))
    own.say("› ab\n\nanswer\n")
    assert.strictEqual(written(), "hello\n› ab漢\b \b\b \b\n\nanswer\n")
    prompt("› x")
    own.say("meanwhile\n")
    own.refresh()
    prompt("› other")
    own.endLine()
    assert.strictEqual(written().slice(written().indexOf("answer")), "answer\n› x\nmeanwhile\n› x\n› other\n")
  })
})

describe("a note of the program", () => {
  it.effect("is broken between words on a terminal, and stays one line elsewhere", () =>
    Effect.gen(function* () {
      const { output, stderr } = capture()
      const onTerminal = {
        ...output,
        streams: {
          ...output.streams,
          aside: { ...output.streams.aside, terminal: true },
          size: () => ({ columns: 20, rows: 24 })
        }
      }
      yield* Effect.provideService(printNote("Note: no model is configured here"), Output, onTerminal)
      yield* Effect.provideService(printWarnings(["one two three four five"]), Output, onTerminal)
      yield* Effect.provideService(printNote("Note: no model is configured here"), Output, output)
      assert.strictEqual(
        stderr(),
        "Note: no model is\nconfigured here\nWarning: one two\nthree four five\nNote: no model is configured here\n"
      )
    })
  )
})

describe("a conversation in plain lines", () => {
  it.effect("is text that follows text, with questions and their choices", () =>
    session(
      { isLinear: true, display: { finalResponseMarkdown: "strip" } },
      ({ left, screen, terminal, type, until }) =>
        Effect.gen(function* () {
          yield* type("use tools\r")
          yield* until("Both slept well.\n")
          yield* type("ask me\r")
          yield* until("1–2, or type your own answer")
          yield* type("2\r")
          yield* until("Both slept well.", 2)
          yield* type("\u000f")
          yield* until("Type /history to show it.")
          yield* type("/quit\r")
          assert.strictEqual(yield* left, 0)
          assert.notInclude(terminal.written(), "\u001b")
          assert.include(screen(), "› use tools\n\n┊ ✓ nap anna · 0 ms\n┊ ✓ nap bert · 0 ms\n┊ ✗ nap broken")
          assert.include(screen(), "? Which colour?\n  1 red\n  2 blue\n")
          assert.strictEqual(screen().split("› ask me").length, 2)
        })
    )
  )

  // Where no terminal can be made, the tests through the ports are all there is.
  if (launcher === undefined) return
  const launch = launcher

  it.live("the real program with --plain, and with TERM=dumb, writes no escape sequence", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { cwd, home, put } = yield* machine
        put(
          "turns.json",
          JSON.stringify({ turns: [{ text: "It is **red**." }, { text: "It is *blue*." }, { text: "Bye." }] })
        )
        const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
        const hermes = `${quoted(process.execPath)} ${quoted(program)} chat --script turns.json`
        const line = `cd ${quoted(cwd)}; ${hermes} --plain -q colour; TERM=dumb exec ${hermes}`
        const { exited, type, until, written } = yield* open(launch, line, { HERMES_HOME: home, HOME: cwd })
        yield* until("It is red.")
        yield* until("\n›")
        yield* type("and now\r")
        yield* until("and now\n\nIt is red.\n\n›")
        yield* type("/quit\r")
        assert.strictEqual(yield* exited, 0)
        assert.notInclude(written(), "\u001b")
        assert.strictEqual(written().split("› and now").length, 2)
      })
    ).pipe(Effect.provide(NodeServices.layer))
  )
})
