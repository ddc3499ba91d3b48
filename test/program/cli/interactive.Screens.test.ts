// The screen at several widths, compared with recorded ones (HERMES_TEST_RECORD=1 records them anew), and Ctrl+C and
// Esc at every state.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as TestClock from "effect/testing/TestClock"
import * as Width from "../../../src/program/cli/render/Width.ts"
import { session } from "../../support/interactiveSession.ts"

const esc = "\u001b"
const ctrlC = "\u0003"
const ctrlO = "\u000f"
const ctrlR = "\u0012"

const folder = fileURLToPath(new URL("screens/", import.meta.url))

/** Code is not broken by the program, so that it can be copied. */
const isCode = (line: string): boolean => line.includes('{ "name"')

describe("the screen", () => {
  it.effect.each([20, 40, 60, 80, 140])("with %i columns is the recorded one", (columns) =>
    session(
      { columns, display: { finalResponseMarkdown: "render" }, status: { compactAt: undefined, home: undefined } },
      ({ later, screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("show markdown with a message of several words that has to be wrapped\r")
          yield* until("That is all.")
          yield* type("use tools\r")
          yield* until("Both slept well.")
          yield* type("!printf 'one line\\nand another line of output that is rather long'\r")
          yield* until("exit 0")
          yield* type("/mode edits\r")
          yield* until("Mode: edits")
          yield* type("wipe the table\r")
          yield* later("4 Deny")
          yield* type("not to")
          yield* later("› not to")
          // The status is read once in a while.
          yield* later("1 waiting")
          const asked = screen()
          yield* type("\r")
          yield* until("Both slept well.", 2)
          yield* type("fail\r")
          yield* until("Error:")
          yield* type("/unknwon\r")
          yield* until("Unknown command")
          yield* type("/st")
          yield* until("❯ /status")
          const listed = screen()
          yield* type(esc)
          yield* type(`\u0015${ctrlO}`)
          yield* until("↑↓")
          const shown = [asked, "═".repeat(20), listed.slice(listed.indexOf("fail")), "═".repeat(20), screen()].join(
            "\n"
          )
          for (const line of shown.split("\n")) if (!isCode(line)) assert.isAtMost(Width.measure(line), columns, line)
          const file = `${folder}${columns}.txt`
          if (process.env["HERMES_TEST_RECORD"] === "1") {
            mkdirSync(folder, { recursive: true })
            writeFileSync(file, `${shown}\n`)
          }
          assert.strictEqual(`${shown}\n`, readFileSync(file, "utf8"))
        })
    )
  )
})

describe("Ctrl+C and Esc", () => {
  const states: ReadonlyArray<
    readonly [name: string, begin: string, there: string, afterEsc: string, afterCtrlC: string]
  > = [
    ["an answer that streams", "hang\r", "Let me think about", "Stopped.", "Stopped."],
    ["a tool that runs", "slow\r", "nap anna", "Stopped.", "Stopped."],
    ["an approval, with text before it", "wipe\r", "4 Deny", "Stopped.", "Stopped."],
    ["a question", "ask me\r", "1 red", "Stopped.", "Stopped."],
    ["a list below the line", "/stat", "❯ /status", "› /stat", "›"],
    ["the search of the history", ctrlR, "type to search", "›", "›"],
    ["the view of the conversation", ctrlO, "q goes back", "›", "›"],
    ["a message that waits for the turn", "hang\rlater\r", "next: later", "› later", "› later"]
  ]

  it.effect("go back from every state to the prompt, and the next message is answered", () =>
    session({}, ({ later, left, screen, type, until }) =>
      Effect.gen(function* () {
        let answered = 0
        for (const [name, begin, there, afterEsc, afterCtrlC] of states) {
          for (const [key, after] of [
            [esc, afterEsc],
            [ctrlC, afterCtrlC]
          ] as const) {
            const times = (text: string): number => screen().split(text).length - 1
            const shown = times(there)
            // Two Ctrl+C within two seconds leave.
            yield* TestClock.adjust("3 seconds")
            yield* type(begin)
            yield* later(there, shown + 1)
            const before = after === "›" || after.startsWith("› ") ? 0 : times(after)
            yield* type(key)
            // A lone Esc is told by what does not follow it.
            yield* Effect.forEach([1, 2, 3], () => Effect.andThen(Effect.yieldNow, TestClock.adjust("100 millis")))
            yield* later(after, before + 1)
            // Nothing of it is left in the line; the first key after Esc is none of a sequence.
            yield* later("›")
            yield* type("\u0015")
            yield* type(`hello ${++answered}\r`)
            yield* later(`You said: hello ${answered}`)
            assert.notInclude(screen().split("\n").slice(-3).join("\n"), there, name)
          }
        }
        yield* type("/quit\r")
        yield* until("Resume this session with:")
        assert.strictEqual(yield* left, 0)
      })
    )
  )
})
