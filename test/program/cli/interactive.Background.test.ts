// What works beside an interactive session, and messages to an agent that is busy.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Item, Service } from "../../../src/agent/BackgroundWork.ts"
import * as Children from "../../../src/agent/Children.ts"
import { session } from "../../support/interactiveSession.ts"

const child: Item = { kind: "child", id: "dlg_aaaa", what: "count the sheep", since: 0, at: "terminal, 2 tool calls" }
const review: Item = {
  kind: "review",
  id: "rv-cccc",
  what: "review of the conversation for memory",
  since: 0,
  at: "thinking"
}
const sleep: Item = { kind: "process", id: "proc_bbbb", what: "sleep 600", since: 0, at: "process 7" }

/** Work that a test says there is. */
const fake = (items: ReadonlyArray<Item>) => {
  let working = items
  let messages: ReadonlyArray<string> = []
  let notices: ReadonlyArray<string> = []
  let arrived = Deferred.makeUnsafe<void>()
  const end = (ended: ReadonlyArray<Item>) =>
    Effect.sync(() => {
      working = working.filter((item) => !ended.includes(item))
      return ended
    })
  const background: Service = {
    list: () => Effect.sync(() => working),
    stop: (_, id) => {
      const found = working.filter((item) => item.id.startsWith(id))
      return Effect.map(end(found), ([item]) => item)
    },
    stopAll: () => Effect.suspend(() => end(working)),
    arrived: () => Effect.suspend(() => (messages.length + notices.length > 0 ? Effect.void : Deferred.await(arrived))),
    take: () =>
      Effect.sync(() => {
        const taken = messages
        messages = []
        arrived = Deferred.makeUnsafe()
        return taken
      }),
    takeNotices: () =>
      Effect.sync(() => {
        const taken = notices
        if (taken.length > 0) arrived = Deferred.makeUnsafe()
        notices = []
        return taken
      }),
    reviewed: () => Effect.never,
    settled: () => Effect.void
  }
  const tell = (notice: string) =>
    Effect.suspend(() => {
      notices = [...notices, notice]
      return Deferred.succeed(arrived, undefined)
    })
  const deliver = (message: string) =>
    Effect.suspend(() => {
      messages = [...messages, message]
      return Deferred.succeed(arrived, undefined)
    })
  return { background, deliver, tell, working: () => working }
}

describe("background of an interactive session", () => {
  it.effect("/agents lists what works, while the agent does too, and /stop ends one of it, or all", () => {
    const { background, working } = fake([child, sleep])
    return session({ background, children: Children.make() }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("be slow\r")
        yield* until("› be slow")
        yield* type("/tasks\r")
        yield* until("dlg_aaaa  count the sheep · terminal, 2 tool calls")
        yield* until("proc_bbbb  sleep 600")
        yield* type("/stop dlg\r")
        yield* until("Stopped dlg_aaaa.")
        assert.deepStrictEqual(working(), [sleep])
        yield* type("/stop nobody\r")
        yield* until("No background work with id nobody")
        yield* type("/stop\r")
        yield* until("The work so far is kept")
        assert.deepStrictEqual(working(), [sleep], "the turn is what a plain /stop ends")
        yield* type("/stop\r")
        yield* until("Stopped proc_bbbb.")
        yield* type("/agents\r")
        yield* until("No background work.")
      })
    )
  })

  it.effect("a review is told in a line beside what is typed, and leaving waits for one until Ctrl+C", () => {
    const { background, tell } = fake([review])
    return session({ background }, ({ left, type, until }) =>
      Effect.gen(function* () {
        yield* type("half a li")
        yield* tell("Background review: memory updated (1 change).")
        yield* until("Background review: memory updated (1 change).")
        yield* type("ne\r")
        yield* until("› half a line\n")
        yield* type("/quit\r")
        yield* until("Reviewing the conversation for memory and skills, up to 20 s. Ctrl+C ends it.")
        yield* type("\u0003")
        assert.strictEqual(yield* left, 0)
      })
    )
  })

  it.effect("/agents pause and resume say whether the agent may delegate", () => {
    const children = Children.make()
    return session({ children }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("/agents pause\r")
        yield* until("Delegation paused.")
        assert.isTrue(yield* children.isPaused)
        yield* type("/agents resume\r")
        yield* until("Delegation allowed.")
        assert.isFalse(yield* children.isPaused)
        yield* type("/agents dance\r")
        yield* until("/agents lists background work")
      })
    )
  })

  it.effect("a report arrives at the prompt as a message of its own, and what is being typed stays", () => {
    const { background, deliver } = fake([])
    return session({ background }, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("half a li")
        yield* until("› half a li")
        yield* deliver("[Report of the background delegation dlg_aaaa: completed]\nseven sheep")
        yield* until("› [Report of the background delegation dlg_aaaa: completed]")
        yield* until("You said: [Report of the background")
        yield* until("› half a li")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "seven sheep")
      })
    )
  })

  it.effect("what arrives while the agent works waits until it is done", () => {
    const { background, deliver } = fake([])
    return session({ background }, ({ later, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("be slow\r")
        yield* until("› be slow")
        yield* deliver("[The background process proc_bbbb (make) exited with code 0]\nIt printed nothing.")
        assert.notInclude(screen(), "proc_bbbb")
        yield* later("Both slept well.")
        yield* until("› [The background process proc_bbbb (make) exited with code 0]")
      })
    )
  })

  it.effect(
    "what arrived before the user stopped the work is told in a line, and to the agent behind the next message",
    () => {
      const { background, deliver } = fake([])
      return session({ background }, ({ model, type, until }) =>
        Effect.gen(function* () {
          yield* type("hang\r")
          yield* until("Let me think about")
          yield* deliver("[The background process proc_bbbb (make) exited with code 0]\nIt printed nothing.")
          yield* type("\u0003")
          yield* until("The agent is informed along with your next message.")
          assert.lengthOf(model.asked, 1)
          yield* type("hello\r")
          yield* until("You said: hello")
          yield* until("› [The background process proc_bbbb (make) exited with code 0]")
          // What arrives from now on begins a turn again.
          yield* deliver("[Report of the background delegation dlg_aaaa: completed]")
          yield* until("› [Report of the background delegation dlg_aaaa: completed]")
        })
      )
    }
  )

  it.effect(
    "/queue keeps a message for afterwards, also one that looks like a command, and at the prompt sends it",
    () =>
      session({ display: { busyInputMode: "interrupt" } }, ({ later, type, until }) =>
        Effect.gen(function* () {
          yield* type("/queue first\r")
          yield* until("You said: first")
          yield* type("/queue\r")
          yield* until("/queue needs a message")
          yield* type("be slow\r")
          yield* until("› be slow")
          yield* type("/queue /help me\r")
          yield* until("next: /help me")
          yield* later("You said: /help me")
        })
      )
  )

  it.effect("/steer reaches the model with the next tool result, in every mode", () =>
    session({ display: { busyInputMode: "queue" } }, ({ later, model, type, until }) =>
      Effect.gen(function* () {
        yield* type("be slow\r")
        yield* until("› be slow")
        yield* type("/steer be quick\r")
        yield* until("sending: be quick")
        yield* later("Both slept well.")
        assert.include(
          JSON.stringify(model.asked.at(-1)?.messages.at(-1)),
          "[The user says, while you work:]\\nbe quick"
        )
      })
    )
  )

  it.effect("/steer of a command for the shell is kept, and goes back to the prompt when that is stopped", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("!sleep 5\r")
        yield* until("sleep 5")
        yield* type("/steer go on\r")
        yield* until("next: go on")
        yield* type("\u0003")
        yield* until("What waited is back in the prompt.")
        yield* type("\r")
        yield* until("You said: go on")
      })
    )
  )
})
