// What is typed in every state of a conversation: Esc and Ctrl+C, long pastes, the user's editor, lines ahead of an
// approval, resizing.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as Keys from "../../../src/program/cli/interactive/Keys.ts"
import * as Pastes from "../../../src/program/cli/interactive/Pastes.ts"
import { makeUsageFailure } from "../../../src/program/cli/Failure.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { session } from "../../support/interactiveSession.ts"

const esc = "\u001b"
const ctrlC = "\u0003"
const ctrlG = "\u0007"
const lines = (count: number): string => Array.from({ length: count }, (_, index) => `line ${index + 1}`).join("\n")
const pasted = (text: string): string => `\u001b[200~${text}\u001b[201~`

/** Long enough for a lone escape to be a key. */
const pause = TestClock.adjust("60 millis")

describe("Esc", () => {
  it("is told from the beginning of a sequence by what follows", () => {
    const keys = Keys.make()
    assert.deepStrictEqual(keys.push(esc), [])
    assert.isTrue(keys.isEscape())
    assert.deepStrictEqual(keys.push("[A"), [{ _tag: "Key", name: "up" }])
    assert.deepStrictEqual(keys.flush(), [])
    keys.push(esc)
    assert.deepStrictEqual(keys.flush(), [{ _tag: "Key", name: "escape" }])
    assert.deepStrictEqual(keys.push("\u001b[27u"), [{ _tag: "Key", name: "escape" }])
  })

  it.effect("stops a turn, and leaves what is typed at the prompt as it is", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("half a li")
        yield* until("› half a li")
        yield* type(esc)
        yield* pause
        yield* until("Stopped.")
        yield* until("› half a li")
        yield* type(esc)
        yield* pause
        yield* type("ne\r")
        yield* until("You said: half a line")
        assert.strictEqual(screen().split("Stopped.").length, 2)
      })
    )
  )

  it.effect("takes a question back with its turn, and twice does not leave", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("wipe\r")
        yield* until("1 Allow once")
        yield* type(esc)
        yield* pause
        yield* until("Stopped.")
        yield* type(esc)
        yield* pause
        yield* type("hello\r")
        yield* until("You said: hello")
        assert.notInclude(screen(), "1 Allow once")
        assert.notInclude(JSON.stringify(model.asked), "it shines")
      })
    )
  )

  it.effect("ends a command of the shell", () =>
    session({}, ({ later, type, until }) =>
      Effect.gen(function* () {
        yield* type("!echo begun; sleep 100\r")
        yield* later("begun", 2)
        yield* type(esc)
        yield* pause
        yield* until("stopped")
      })
    )
  )
})

describe("Ctrl+C", () => {
  it.effect("at a question stops the turn, and twice leaves with 130", () =>
    session({}, ({ left, type, until }) =>
      Effect.gen(function* () {
        yield* type("ask me\r")
        yield* until("1 red")
        yield* type(ctrlC + ctrlC)
        assert.strictEqual(yield* left, 130)
      })
    )
  )

  it.effect("twice leaves, whatever waits in the queue", () =>
    session({}, ({ left, model, screen, store, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("one\rtwo\r/status\r")
        yield* until("next: /status")
        yield* type(ctrlC + ctrlC)
        assert.strictEqual(yield* left, 130)
        assert.isAtMost(model.asked.length, 2)
        assert.notInclude(screen(), "You said: one")
        assert.notInclude(screen(), "Tool lines")
        assert.isAtLeast((yield* store.messages(SessionId.make("20260101_000000_aaaaaa"))).length, 1)
      })
    )
  )
})

describe("what waits when the work is stopped", () => {
  for (const [name, key] of [
    ["Esc", esc],
    ["Ctrl+C", ctrlC]
  ] as const) {
    it.effect(`goes back into the prompt by ${name}, and none of it runs`, () =>
      session({}, ({ model, screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("hang\r")
          yield* until("Let me think about")
          yield* type("one\rtwo\r/status\rhalf")
          yield* until("next: /status")
          yield* type(key)
          yield* pause
          yield* until("Stopped.")
          yield* until("The 3 lines that waited are back in the prompt.")
          yield* until("› one\n  two\n  /status\n  half")
          assert.lengthOf(model.asked, 1)
          assert.notInclude(screen(), "Tool lines")
          yield* type(" a line\r")
          yield* until("You said: one\ntwo\n/status\nhalf a line")
          assert.lengthOf(model.asked, 2)
        })
      )
    )
  }

  it.effect("by /stop, too; a long paste is folded again", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type(`see ${pasted(lines(12))}\r`)
        yield* until("next: see [paste #1, 12 lines]")
        yield* type("/stop\r")
        yield* until("What waited is back in the prompt.")
        yield* until("lines]")
        assert.lengthOf(model.asked, 1)
        yield* type("\r")
        yield* until("You said: see line 1")
      })
    )
  )

  it.effect("and was sent into the turn", () =>
    session({ display: { busyInputMode: "steer" } }, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("be quick\r")
        yield* until("sending: be quick")
        yield* type(esc)
        yield* pause
        yield* until("Stopped.")
        yield* until("› be quick")
        assert.lengthOf(model.asked, 1)
      })
    )
  )

  it.effect("behind a command of the shell", () =>
    session({}, ({ later, model, type, until }) =>
      Effect.gen(function* () {
        yield* type("!echo begun; sleep 100\r")
        yield* later("begun", 2)
        yield* type("hello\r")
        yield* until("next: hello")
        yield* type(esc)
        yield* pause
        yield* until("stopped")
        yield* until("› hello")
        assert.lengthOf(model.asked, 0)
      })
    )
  )

  it.effect("runs where a message is to take the place of the turn", () =>
    session({ display: { busyInputMode: "interrupt" } }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("instead\r")
        yield* until("You said: instead")
      })
    )
  )
})

describe("lines ahead of an answer", () => {
  it.effect(
    "that were typed before an approval came wait, and the approval is answered by what is typed after it",
    () =>
      session({}, ({ model, type, until }) =>
        Effect.gen(function* () {
          yield* type("wipe\rnext thing\r/status\rlast")
          yield* until("next: /status")
          yield* until("1 Allow once")
          yield* TestClock.adjust("1 second")
          yield* type("y\r")
          yield* until("Both slept well.")
          yield* until("You said: next thing")
          yield* until("Tool lines")
          yield* until("› last")
          assert.include(JSON.stringify(model.asked.at(1)?.messages.at(-1)), "it shines")
        })
      )
  )
})

describe("long pastes", () => {
  it("are folded from eleven lines on, each with its number, and are whole again when they are sent", () => {
    assert.deepStrictEqual(Pastes.fold([], lines(10)), { text: lines(10), pastes: [] })
    const one = Pastes.fold([], lines(200))
    const two = Pastes.fold(one.pastes, lines(11))
    assert.deepStrictEqual([one.text, two.text], ["[paste #1, 200 lines]", "[paste #2, 11 lines]"])
    assert.strictEqual(
      Pastes.expand(`a ${one.text} b ${two.text} [paste #3, 4 lines]`, two.pastes),
      `a ${lines(200)} b ${lines(11)} [paste #3, 4 lines]`
    )
  })

  it.effect("stand in the line as a mark, which is one character to delete, and reach the model whole", () =>
    session({}, ({ history, model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type(`look: ${pasted(lines(200))}${pasted(lines(11))}`)
        yield* until("› look: [paste #1, 200 lines][paste #2, 11 lines]")
        yield* type("\u007f and more\r")
        yield* until("You said: look: line 1")
        assert.include(screen(), "› look: [paste #1, 200 lines] and more")
        const asked = JSON.stringify(model.asked[0]?.messages.at(-1))
        assert.include(asked, "line 200 and more")
        assert.strictEqual(asked.split("line 11\\n").length, 2)
        assert.include(history.entries().join(), "line 200 and more")
      })
    )
  )

  it.effect("of more than one MiB are refused in a line", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("before ")
        for (const piece of [
          `\u001b[200~${"x".repeat(1_000_000)}`,
          ..."123456789".split("").map((digit) => digit.repeat(1_000_000)),
          "\u001b[201~"
        ])
          yield* type(piece)
        yield* until("The paste is too large (10 MiB, at most 1 MiB). Save it in a file")
        yield* type("after\r")
        yield* until("You said: before after")
        assert.strictEqual(model.asked.length, 1)
        assert.notInclude(screen(), "xxx")
      })
    )
  )
})

describe("Ctrl+G", () => {
  it.effect("changes the line in the user's editor, and says why where it cannot", () => {
    const given: Array<string> = []
    const editText = (text: string) =>
      Effect.suspend(() => {
        given.push(text)
        return given.length === 1
          ? Effect.succeed("from the editor\nin two lines\n")
          : Effect.fail(makeUsageFailure('the editor "x" exited with code 1: set EDITOR'))
      })
    return session({ editText }, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type(`draft ${pasted(lines(11))}${ctrlG}`)
        yield* until("› from the editor\n  in two lines")
        assert.deepStrictEqual(given, [`draft ${lines(11)}`])
        yield* type(ctrlG)
        yield* until('the editor "x" exited with code 1: set EDITOR')
        yield* type("\r")
        yield* until("You said: from the editor")
        assert.strictEqual(model.asked.length, 1)
      })
    )
  })
})

describe("resizing", () => {
  it.effect("in the middle of an answer keeps every word of it, at any width", () =>
    session({ display: { finalResponseMarkdown: "render" } }, ({ screen, send, terminal, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        for (const columns of [40, 140, 20, 80, 60]) {
          terminal.columns = columns
          yield* send({ _tag: "Resized" })
          yield* type("x")
          yield* until("x".repeat(1))
        }
        yield* type(ctrlC)
        yield* until("Stopped.")
        assert.include(screen().replaceAll(/\s+/g, " "), "Let me think about **that")
      })
    )
  )
})
