// The live session below all clients: what goes in, and the events that every client gets.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { Agent } from "../../../src/agent/Agent.ts"
import type { RunInput } from "../../../src/agent/RunInput.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { TurnId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as LiveSession from "../../../src/serve/host/LiveSession.ts"
import { planApproved } from "../../../src/serve/host/LiveTurns.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import { makeUnattended } from "../../../src/tools/approval/InteractiveMode.ts"
import { drain, first, lines, live, until, untilTag } from "./liveSession.ts"

describe("LiveSession", () => {
  it.effect("two clients get the same events, in the same order, and a turn goes to its end", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const one = yield* live.subscribe()
        const two = yield* live.subscribe()
        const { _tag } = yield* live.send({ prompt: "hello" })
        assert.strictEqual(_tag, "Started")
        const seen = yield* untilTag(one, "TurnEnded")
        assert.deepStrictEqual(seen, yield* untilTag(two, "TurnEnded"))
        assert.deepStrictEqual(lines(seen), [
          "started 1 client: hello",
          "text You said: hello",
          "ended 1 text_response"
        ])
        assert.strictEqual((yield* live.state).turn, undefined)
        assert.strictEqual((yield* live.messages).length, 2)
      })
    )
  )

  it.effect("a question that one client answers is closed for the other, and a second answer is refused", () =>
    live({}, ({ live, model }) =>
      Effect.gen(function* () {
        const one = yield* live.subscribe()
        const two = yield* live.subscribe()
        yield* live.send({ prompt: "ask me" })
        yield* untilTag(one, "QuestionAsked")
        const [question] = (yield* live.state).questions
        assert.deepInclude(question, {
          _tag: "Clarification",
          id: "q1",
          turn: 1,
          question: { question: "Which colour?", choices: ["red", "blue"], multiple: false }
        })
        const wrong = yield* Effect.flip(live.answer("q1", { _tag: "Approval", reply: { choice: "once" } }))
        assert.include(wrong.message, "another kind")
        yield* live.answer("q1", { _tag: "Clarification", answers: ["blue"] })
        const rejected = yield* Effect.flip(live.answer("q1", { _tag: "Clarification", answers: ["red"] }))
        assert.include(rejected.message, "Question q1 is not open")
        assert.deepStrictEqual(lines(yield* untilTag(two, "TurnEnded")), [
          "started 1 client: ask me",
          "asked q1 Clarification",
          'closed q1 {"_tag":"Clarification","answers":["blue"]}',
          "text Both slept well.",
          "ended 1 text_response"
        ])
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "blue")
      })
    )
  )

  /** What happened besides the texts, which repeat what the model was asked. */
  const facts = (events: Parameters<typeof lines>[0]) => lines(events).filter((line) => !line.startsWith("text "))

  it.effect("a plan is asked about behind its turn, and carried out in the mode of the answer", () =>
    live({ mode: "plan" }, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "hello" })
        assert.deepStrictEqual(facts(yield* untilTag(reader, "QuestionAsked")), [
          "started 1 client: hello",
          "ended 1 text_response",
          "asked q1 Plan"
        ])
        const [question] = (yield* live.state).questions
        assert.deepInclude(question, { _tag: "Plan", turn: 1 })
        assert.isTrue(
          question?._tag === "Plan" &&
            question.question.modes.join() === "ask,edits,auto" &&
            /^You said: [^]*hello$/.test(question.question.plan)
        )
        assert.include(
          (yield* Effect.flip(live.answer("q1", { _tag: "Clarification", answers: [] }))).message,
          "another kind"
        )
        // Words keep planning, and so does a message of its own.
        yield* live.answer("q1", { _tag: "Plan", mode: "plan", words: " smaller " })
        assert.deepStrictEqual(facts(yield* untilTag(reader, "QuestionAsked")), [
          'closed q1 {"_tag":"Plan","mode":"plan","words":" smaller "}',
          "started 2 client: smaller",
          "ended 2 text_response",
          "asked q2 Plan"
        ])
        yield* live.send({ prompt: "and tests" })
        assert.deepStrictEqual(facts(yield* untilTag(reader, "QuestionAsked")).slice(0, 2), [
          "closed q2 without an answer",
          "started 3 client: and tests"
        ])
        yield* live.answer("q3", { _tag: "Plan", mode: "edits" })
        assert.deepStrictEqual(facts(yield* untilTag(reader, "TurnEnded")), [
          'closed q3 {"_tag":"Plan","mode":"edits"}',
          "SettingsChanged",
          `started 4 client: ${planApproved}`,
          "ended 4 text_response"
        ])
        assert.notInclude(JSON.stringify(model.asked.at(-1)?.messages), "Plan mode: read only")
        // What else takes it back: another mode, another session, a stop.
        for (const away of [live.setMode("ask"), live.begin(), live.stop]) {
          yield* live.setMode("plan")
          yield* live.send({ prompt: "hello" })
          yield* untilTag(reader, "QuestionAsked")
          yield* Effect.orDie<unknown, unknown, never>(away)
          assert.deepStrictEqual((yield* live.state).questions, [])
          yield* untilTag(reader, "QuestionClosed")
        }
        // A turn that was stopped, and one with another message behind it, present nothing.
        yield* live.send({ prompt: "one" })
        yield* live.send({ prompt: "two" })
        const both = facts(yield* untilTag(reader, "QuestionAsked"))
        assert.lengthOf(
          both.filter((line) => line.startsWith("asked")),
          1
        )
        assert.include(both, "started 9 client: two")
      })
    )
  )

  it.effect("an approval for what was not offered is a denial", () =>
    live({}, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "wipe" })
        const asked = (yield* untilTag(reader, "QuestionAsked")).at(-1)
        assert.isTrue(
          asked?._tag === "QuestionAsked" &&
            asked.question._tag === "Approval" &&
            asked.question.question.tool === "wipe"
        )
        yield* live.answer("q1", { _tag: "Approval", reply: { choice: "once" } })
        yield* untilTag(reader, "TurnEnded")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "it shines")
      })
    )
  )

  it.effect("what waits when a turn is stopped is closed, and the queue goes on", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "ask me" })
        yield* untilTag(reader, "QuestionAsked")
        assert.strictEqual((yield* live.send({ prompt: "next" }))._tag, "Queued")
        assert.isTrue(yield* live.stop)
        assert.deepStrictEqual((yield* live.state).questions, [])
        assert.deepStrictEqual(
          lines(yield* until(reader, (event) => event._tag === "TurnEnded" && event.turn.id === 2)),
          [
            "queue [next] steering []",
            "closed q1 without an answer",
            "ended 1 interrupted_by_user stopped",
            "queue [] steering []",
            "started 2 client: next",
            "text You said: next",
            "ended 2 text_response"
          ]
        )
        assert.isFalse(yield* live.stop)
      })
    )
  )

  it.effect(
    "messages that are taken back before a stop are returned, and nothing begins until a client sends again",
    () =>
      live({}, ({ live }) =>
        Effect.gen(function* () {
          const reader = yield* live.subscribe()
          yield* live.send({ prompt: "hang" })
          yield* live.send({ prompt: "second" })
          yield* live.send({ prompt: "third" })
          yield* live.send({ prompt: "on its way", busy: "steer" })
          live.conversation.queue("[system] of a plugin")
          assert.deepStrictEqual(
            (yield* live.takeBack).map(({ shown }) => shown),
            ["on its way", "second", "third"]
          )
          assert.isTrue(yield* live.stop)
          const seen = lines(yield* untilTag(reader, "TurnEnded"))
          assert.include(seen, "returned on its way, second, third")
          assert.include(seen, "ended 1 interrupted_by_user stopped")
          // What a plugin said waits for the user.
          assert.deepStrictEqual(
            (yield* live.state).queue.map(({ shown }) => shown),
            ["[system] of a plugin"]
          )
          assert.isUndefined((yield* live.state).turn)
          yield* live.send({ prompt: "hello" })
          const after = lines(yield* until(reader, (event) => event._tag === "TurnEnded" && event.turn.id === 3))
          assert.deepStrictEqual(
            after.filter((line) => line.startsWith("started")),
            ["started 2 plugin: [system] of a plugin", "started 3 client: hello"]
          )
          assert.deepStrictEqual(yield* live.takeBack, [])
        })
      )
  )

  it.effect("a message of a plugin that comes behind stopped work begins a turn", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "hang" })
        yield* live.takeBack
        yield* live.stop
        yield* untilTag(reader, "TurnEnded")
        live.conversation.queue("news")
        assert.include(lines(yield* untilTag(reader, "TurnEnded")), "started 2 plugin: news")
      })
    )
  )

  it.effect("a message of the queue can be taken back", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        yield* live.send({ prompt: "hang" })
        const { message } = yield* live.send({ prompt: "later" })
        assert.strictEqual((yield* live.unqueue(message.id))?.shown, "later")
        assert.strictEqual(yield* live.unqueue(message.id), undefined)
        assert.deepStrictEqual((yield* live.state).queue, [])
      })
    )
  )

  it.effect("a client that stops reading stops nothing", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        yield* live.subscribe()
        const reader = yield* live.subscribe()
        for (let turn = 1; turn <= 20; turn++) {
          yield* live.send({ prompt: `hello ${turn}` })
          yield* untilTag(reader, "TurnEnded")
        }
        assert.strictEqual((yield* live.state).session.prompts, 20)
      })
    )
  )

  it.effect("a client that wants to be waited for is waited for", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const slow = yield* live.subscribe({ whenBehind: "wait" })
        yield* live.send({ prompt: Array.from({ length: 2000 }, (_, index) => `word${index}`).join(" ") })
        const ended = yield* Effect.forkChild(untilTag(slow, "TurnEnded"))
        assert.include(lines(yield* Fiber.join(ended)).join("\n"), "word1999")
      })
    )
  )

  it.effect("131 messages of plugins come before those of clients, and can stop the turn", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "hang" })
        yield* live.send({ prompt: "mine" })
        assert.isTrue(live.conversation.isRunning())
        live.conversation.interrupt("[system] look here")
        const seen = lines(yield* until(reader, (event) => event._tag === "TurnEnded" && event.turn.id === 3))
        assert.deepStrictEqual(
          seen.filter((line) => line.startsWith("started")),
          ["started 1 client: hang", "started 2 plugin: [system] look here", "started 3 client: mine"]
        )
      })
    )
  )

  it.effect("a message steers the turn with the next tool result, and else is first in the queue", () =>
    live({}, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "ask me" })
        yield* untilTag(reader, "QuestionAsked")
        assert.strictEqual((yield* live.send({ prompt: "and be quick", busy: "steer" }))._tag, "Steering")
        yield* live.answer("q1", { _tag: "Clarification", answers: ["red"] })
        assert.include(lines(yield* untilTag(reader, "TurnEnded")), "steered and be quick")
        assert.include(
          JSON.stringify(model.asked.at(-1)?.messages.at(-1)),
          "[The user says, while you work:]\\nand be quick"
        )

        yield* live.send({ prompt: "hang" })
        yield* live.send({ prompt: "behind" })
        yield* live.send({ prompt: "too late", busy: "steer" })
        yield* live.stop
        const seen = lines(yield* until(reader, (event) => event._tag === "TurnEnded" && event.turn.id === 4))
        assert.deepStrictEqual(
          seen.filter((line) => line.startsWith("started")),
          ["started 2 client: hang", "started 3 client: too late", "started 4 client: behind"]
        )
      })
    )
  )

  it.effect("two live sessions of one runtime can both be steered", () =>
    live({}, ({ live: one }) =>
      Effect.gen(function* () {
        const two = yield* LiveSession.make()
        yield* one.send({ prompt: "hang" })
        yield* two.send({ prompt: "hang" })
        assert.strictEqual((yield* one.send({ prompt: "x", busy: "steer" }))._tag, "Steering")
        assert.strictEqual((yield* two.send({ prompt: "y", busy: "steer" }))._tag, "Steering")
        assert.deepStrictEqual([(yield* one.state).steering, (yield* two.state).steering], [["x"], ["y"]])
      })
    )
  )

  it.effect("while a client holds the session no turn begins", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* live.hold
            assert.strictEqual((yield* live.send({ prompt: "hello" }))._tag, "Queued")
            live.conversation.queue("from a plugin")
            yield* Effect.yieldNow
            assert.strictEqual((yield* live.state).turn, undefined)
          })
        )
        const seen = lines(yield* until(reader, (event) => event._tag === "TurnEnded" && event.turn.id === 2))
        assert.deepStrictEqual(
          seen.filter((line) => line.startsWith("started")),
          ["started 1 plugin: from a plugin", "started 2 client: hello"]
        )
      })
    )
  )

  it.effect("new and resumed sessions are told to hooks, and refused while a turn is under way", () => {
    const told: Array<string> = []
    const listeners = [
      Hooks.on("on_session_finalize", ({ reason, session_id }) =>
        Effect.sync(() => void told.push(`finalize ${session_id} ${reason}`))
      ),
      Hooks.on("on_session_reset", ({ new_session_id, old_session_id, platform, reason }) =>
        Effect.sync(
          () => void told.push(`reset ${platform} ${String(old_session_id)} ${String(new_session_id)} ${reason}`)
        )
      )
    ]
    return live({ listeners, input: { platform: "test" } }, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "hello" })
        yield* untilTag(reader, "TurnEnded")
        const begun = yield* live.begin("A title")
        assert.deepStrictEqual(begun, { id: (yield* live.state).session.id, from: first, isResumable: true })
        assert.include(lines(drain(reader)), `session new ${begun.id}`)
        const { messages, session } = yield* live.resume(first)
        assert.strictEqual(session.id, first)
        assert.strictEqual(messages.length, 2)
        assert.deepInclude((yield* live.state).session, { id: first, prompts: 1, lastPrompt: "hello" })
        yield* live.send({ prompt: "hang" })
        assert.include((yield* Effect.flip(live.begin())).message, "is busy")
        assert.include((yield* Effect.flip(live.resume(begun.id))).message, "is busy")
        assert.include((yield* Effect.flip(live.compact())).message, "is busy")
        yield* live.close
        assert.deepStrictEqual(told, [
          `finalize ${first} new_session`,
          `reset test ${first} ${begun.id} new_session`,
          `finalize ${begun.id} session_boundary`,
          `reset test ${begun.id} ${first} session_boundary`,
          `finalize ${first} shutdown`
        ])
      })
    )
  })

  it.effect("a title given first is set with the first answer", () =>
    live({}, ({ live, store }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        assert.strictEqual(yield* live.rename("  My   talk "), "My talk")
        yield* live.send({ prompt: "hello" })
        yield* untilTag(reader, "TurnEnded")
        yield* until(reader, (event) => event._tag === "SessionChanged" && event.session.title === undefined)
        yield* live.rename("Other")
        const found = yield* store.get(first)
        assert.strictEqual(found._tag === "Some" ? found.value.title : undefined, "Other")
      })
    )
  )

  it.effect("a turn that fails ends with its typed error, and the session goes on", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "fail" })
        const ended = (yield* untilTag(reader, "TurnEnded")).at(-1)
        assert.isTrue(
          ended?._tag === "TurnEnded" &&
            ended.exit._tag === "Failure" &&
            JSON.stringify(ended.exit.cause).includes("this cannot be answered")
        )
        yield* live.send({ prompt: "again" })
        assert.include(lines(yield* untilTag(reader, "TurnEnded")), "text You said: again")
      })
    )
  )

  it.effect("nobody is asked where nobody is there", () =>
    live({ presence: makeUnattended("test") }, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "wipe" })
        assert.notInclude(lines(yield* untilTag(reader, "TurnEnded")).join("\n"), "asked")
        assert.notInclude(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "it shines")
      })
    )
  )

  it.effect("a turn runs in the mode that was set before it", () =>
    live({}, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.setMode("plan")
        yield* live.send({ prompt: "wipe" })
        assert.notInclude(lines(yield* untilTag(reader, "TurnEnded")).join("\n"), "asked")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "BLOCKED (plan mode)")
      })
    )
  )

  it.effect("settings are told", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.setMode("ask")
        yield* live.setEffort("high")
        assert.deepInclude(yield* live.state, { mode: "ask", effort: "high" })
        assert.deepStrictEqual(lines(drain(reader)), ["SettingsChanged", "SettingsChanged"])
      })
    )
  )

  it.effect("closing interrupts the turn, tells its end, and ends the streams; later commands are interrupted", () =>
    live({}, ({ live }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* live.send({ prompt: "hang" })
        yield* live.send({ prompt: "never" })
        yield* live.close
        const rest = lines(drain(reader))
        assert.deepStrictEqual([rest[0], rest.at(-1)], ["started 1 client: hang", "ended 1 failed"])
        assert.notInclude(rest.join("\n"), "started 2")
        assert.strictEqual((yield* Effect.exit(reader.take))._tag, "Failure")
        assert.strictEqual((yield* Effect.exit(live.stop))._tag, "Failure")
      })
    )
  )

  it.effect("a report from the background begins a turn as soon as nothing is under way", () => {
    const arrived = Deferred.makeUnsafe<void>()
    let reports: ReadonlyArray<string> = ["[Report]\nseven sheep"]
    const background = {
      list: () => Effect.succeed([]),
      stop: () => Effect.succeed(undefined),
      stopAll: () => Effect.succeed([]),
      arrived: () => Deferred.await(arrived),
      take: () =>
        Effect.sync(() => {
          const taken = Deferred.isDoneUnsafe(arrived) ? reports : []
          if (taken.length > 0) reports = []
          return taken
        }),
      takeNotices: () => Effect.succeed([]),
      reviewed: () => Effect.void,
      settled: () => Effect.void
    }
    return live({ background }, ({ live, model }) =>
      Effect.gen(function* () {
        const reader = yield* live.subscribe()
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* live.state).turn, undefined)
        yield* Deferred.succeed(arrived, undefined)
        assert.include(lines(yield* untilTag(reader, "TurnEnded")), "started 1 background: [Report]")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "seven sheep")
        yield* live.close
      })
    )
  })
})

describe("the route of the next turns", () => {
  it.effect("is what a client chose, until it is taken back", () =>
    live({}, () =>
      Effect.gen(function* () {
        const inputs: Array<RunInput> = []
        const agent = Agent.of({
          ...(yield* Agent),
          run: (input: RunInput) =>
            Effect.suspend(() => {
              inputs.push(input)
              return Effect.succeed({
                _tag: "RunFinished" as const,
                sessionId: first,
                turnId: TurnId.make("t"),
                exit: "text_response" as const,
                text: "",
                steps: 1,
                provider: "p",
                model: "m",
                usage: Usage.zero,
                cost: Cost.toSpent(Cost.nothing)
                // A run without a schema has no value.
              } as never)
            })
        })
        const route = { provider: "fake", model: "fake-2", apiMode: "chat_completions" as const }
        const one = yield* LiveSession.make().pipe(Effect.provideService(Agent, agent))
        const reader = yield* one.subscribe()
        yield* one.setRoute(route)
        yield* one.setEffort("low")
        yield* one.send({ prompt: "a" })
        yield* untilTag(reader, "TurnEnded")
        yield* one.setRoute(undefined)
        yield* one.send({ prompt: "b" })
        yield* untilTag(reader, "TurnEnded")
        assert.deepStrictEqual(
          inputs.map((input) => [input.route, input.reasoningEffort]),
          [
            [route, "low"],
            [undefined, "low"]
          ]
        )
      })
    )
  )
})
