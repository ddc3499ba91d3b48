// Notifications of long turns and of questions that wait, and the title of the window.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as TestClock from "effect/testing/TestClock"
import * as Notifications from "../../../src/program/cli/interactive/Notifications.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import type { HostEvent, Turn } from "../../../src/serve/host/HostEvent.ts"

const sessionId = SessionId.make("s")
const turn: Turn = {
  id: 1,
  message: { id: "m1", origin: "client", prompt: "x", shown: "x" },
  sessionId,
  startedAt: 0,
  isStopping: false,
  isRewritten: false
}
const ended = (text: string, changes: Partial<Turn> = {}): HostEvent => ({
  _tag: "TurnEnded",
  turn: { ...turn, ...changes },
  exit: Exit.succeed({
    _tag: "RunFinished",
    sessionId,
    turnId: TurnId.make("t"),
    exit: "text_response",
    text,
    steps: 1,
    provider: "p",
    model: "m",
    usage: Usage.zero,
    cost: Cost.toSpent(Cost.nothing)
  })
})
const asked: HostEvent = {
  _tag: "QuestionAsked",
  question: {
    _tag: "Clarification",
    id: "q1",
    turn: 1,
    askedAt: 0,
    question: { question: "Which colour?", choices: [], multiple: false }
  }
}

const world = (
  options: Partial<Notifications.NotifyOptions>,
  body: (notifications: Notifications.Notifications, written: () => string) => Effect.Effect<void>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      let written = ""
      const notifications = yield* Notifications.make(
        { method: "osc9", after: Duration.seconds(10), title: undefined, ...options },
        (text) => {
          written += text
        }
      )
      yield* body(notifications, () => {
        const text = written
        written = ""
        return text
      })
    })
  )

describe("Notifications", () => {
  it.effect("tell of a turn that took long, and of none that was short or stopped", () =>
    world({}, ({ follow }, written) =>
      Effect.sync(() => {
        follow({ _tag: "TurnStarted", turn }, 0)
        follow(ended("Done.\nMore."), 9_999)
        assert.strictEqual(written(), "")
        follow(ended("Done.\nMore."), 10_000)
        assert.strictEqual(written(), "\u001b]9;hermes: Done.\u0007")
        follow(ended("x", { isStopping: true }), 60_000)
        assert.strictEqual(written(), "")
      })
    )
  )

  it.effect("tell of a question that waits, once, and of none that was answered in time", () =>
    world({ method: "osc777" }, ({ follow }, written) =>
      Effect.gen(function* () {
        follow(asked, 0)
        yield* TestClock.adjust("9 seconds")
        assert.strictEqual(written(), "")
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(written(), "\u001b]777;notify;hermes;Which colour?\u0007")
        yield* TestClock.adjust("60 seconds")
        assert.strictEqual(written(), "")
        follow(asked, 71_000)
        follow({ _tag: "QuestionClosed", id: "q1", answer: undefined }, 72_000)
        yield* TestClock.adjust("60 seconds")
        assert.strictEqual(written(), "")
      })
    )
  )

  it.effect("name what the session is at in the title, and give the title back", () =>
    Effect.gen(function* () {
      let all = ""
      yield* world({ method: "bell", title: "project · hermes" }, ({ follow }, written) =>
        Effect.sync(() => {
          assert.strictEqual(written(), "\u001b[22;0t\u001b]2;project · hermes\u0007")
          follow({ _tag: "TurnStarted", turn }, 0)
          follow(asked, 0)
          follow({ _tag: "QuestionClosed", id: "q1", answer: undefined }, 0)
          follow(ended("x"), 20_000)
          all = written()
        })
      )
      assert.strictEqual(
        all,
        [
          "\u001b]2;working: project · hermes\u0007",
          "\u001b]2;waiting for you: project · hermes\u0007",
          "\u001b]2;working: project · hermes\u0007",
          "\u001b]2;project · hermes\u0007",
          "\u0007"
        ].join("")
      )
    })
  )

  it("hostile text ends no sequence", () => {
    const said = Notifications.makeSequence("osc777", "a\u0007\u001b]2;x\u001b\\;b\n".concat("z".repeat(500)))
    const [begin = "", text = "", ...rest] = said.split("hermes;")
    assert.deepStrictEqual([begin, rest], ["\u001b]777;notify;", []])
    assert.strictEqual(text.indexOf("\u0007"), text.length - 1)
    assert.notInclude(text, "\u001b")
    assert.notInclude(text, ";")
    assert.isBelow(said.length, 200)
    assert.strictEqual(Notifications.makeSequence("off", "x"), "")
  })
})
