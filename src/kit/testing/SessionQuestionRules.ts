/** Rules for the questions of suspended runs and for the results of the steps of their calls. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import { SessionId, TurnId } from "../../base/domain/Ids.ts"
import * as Question from "../../base/domain/Question.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { buildToolResult, makeNewSession, makeToolCalls, makeUserMessage } from "./SessionSamples.ts"

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")

const makeQuestion = (
  id: string,
  sessionId: SessionId,
  callId: string,
  more: Partial<Question.Question> = {}
): Question.StoredQuestion => ({
  question: {
    id,
    sessionId,
    runId: TurnId.make("run"),
    callId,
    tool: "pay",
    kind: "form",
    title: `Pay ${id}?`,
    schema: Question.textSchema,
    details: { call: "pay", nothing: "\0 \ud800" },
    createdAt: 1,
    ...more
  },
  place: "1",
  state: "open"
})

const makeAnswer = (questionId: string, answer: unknown) => ({ questionId, answer, by: "Ada", answeredAt: 7 })

/** A session whose calls `c1` and `c2` wait, and `c2` had begun. */
const suspended = Effect.gen(function* () {
  const store = yield* SessionStore
  yield* TestClock.setTime(5)
  yield* store.create(makeNewSession(a))
  yield* store.append(a, [makeUserMessage("work"), makeToolCalls("c1", "c2")])
  yield* store.begin(a, ["c1", "c2"])
  yield* store.suspend(a, {
    questions: [
      makeQuestion("q1", a, "c1", { audience: "ops", kind: "approval" }),
      makeQuestion("q2", a, "c2", { createdAt: 2 })
    ],
    callIds: ["c2"],
    reason: "suspended"
  })
  return store
})

const listIds = (questions: ReadonlyArray<Question.StoredQuestion>): ReadonlyArray<string> =>
  questions.map(({ question }) => question.id)

/** Rules for the questions of suspended runs. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "questions",
    "are stored with the end of their run, as they were asked, and their calls no longer count as begun",
    Effect.gen(function* () {
      const store = yield* suspended
      Check.equals(yield* store.listQuestions({ sessionId: a }), [
        makeQuestion("q1", a, "c1", { audience: "ops", kind: "approval" }),
        makeQuestion("q2", a, "c2", { createdAt: 2 })
      ])
      Check.equals(yield* store.begun(a), new Set(["c1"]))
      Check.hasFields(Option.getOrThrow(yield* store.get(a)), { endedAt: 5, endReason: "suspended" })
      // Questions that are stored already stay as they are.
      yield* store.answerQuestions(a, [makeAnswer("q1", "yes")])
      yield* store.suspend(a, { questions: [makeQuestion("q1", a, "c1")], callIds: [], reason: "suspended" })
      Check.equals(listIds(yield* store.listQuestions()), ["q2"])
      yield* Effect.flip(store.suspend(b, { questions: [], callIds: [], reason: "suspended" }))
    })
  ),
  Conformance.makeTimedRule(
    "questions",
    "are listed by session, audience, kind and state, oldest first",
    Effect.gen(function* () {
      const store = yield* suspended
      yield* store.create(makeNewSession(b))
      yield* store.suspend(b, { questions: [makeQuestion("q0", b, "c1", { createdAt: 0 })], callIds: [], reason: "x" })
      Check.equals(listIds(yield* store.listQuestions()), ["q0", "q1", "q2"])
      Check.equals(listIds(yield* store.listQuestions({ limit: 1 })), ["q0"])
      Check.equals(listIds(yield* store.listQuestions({ audience: "ops" })), ["q1"])
      Check.equals(listIds(yield* store.listQuestions({ kind: "form", sessionId: a })), ["q2"])
      Check.equals(listIds(yield* store.listQuestions({ states: ["answered", "used"] })), [])
    })
  ),
  Conformance.makeTimedRule(
    "questions",
    "are answered once, all or none",
    Effect.gen(function* () {
      const store = yield* suspended
      Check.equals(yield* store.answerQuestions(a, [makeAnswer("q1", "yes"), makeAnswer("none", 1)]), false)
      Check.equals(yield* store.answerQuestions(b, [makeAnswer("q1", "yes")]), false)
      Check.equals(listIds(yield* store.listQuestions()), ["q1", "q2"])
      Check.equals(yield* store.answerQuestions(a, [makeAnswer("q1", { choice: "once\0" })]), true)
      Check.equals(yield* store.answerQuestions(a, [{ ...makeAnswer("q1", "no"), answeredAt: 8 }]), false)
      const [answered] = yield* store.listQuestions({ states: ["answered"] })
      Check.equals(answered?.answer, { answer: { choice: "once\0" }, by: "Ada", answeredAt: 7 })
      yield* store.answerQuestions(a, [makeAnswer("q2", null)])
      Check.equals((yield* store.listQuestions({ states: ["answered"] }))[1]?.answer?.answer, null)
    })
  ),
  Conformance.makeTimedRule(
    "questions",
    "are closed with their calls, and so are the results of steps",
    Effect.gen(function* () {
      const store = yield* suspended
      yield* store.storeStep(a, { callId: "c1", name: "paid", value: { id: 1 } })
      yield* store.storeStep(a, { callId: "c1", name: "paid", value: { id: 2 } })
      yield* store.storeStep(a, { callId: "c2", name: "paid", value: null })
      Check.equals(
        (yield* store.listSteps(a)).toSorted((one, other) => one.callId.localeCompare(other.callId)),
        [
          { callId: "c1", name: "paid", value: { id: 1 } },
          { callId: "c2", name: "paid", value: null }
        ]
      )
      yield* store.answerQuestions(a, [makeAnswer("q1", "yes")])
      yield* store.append(a, [buildToolResult("c1", "done")])
      yield* store.closeQuestions(a, ["c1"], "used")
      yield* store.closeQuestions(a, ["c1", "c2"], "withdrawn")
      Check.equals(listIds(yield* store.listQuestions({ states: ["used"] })), ["q1"])
      Check.equals(listIds(yield* store.listQuestions({ states: ["withdrawn"] })), ["q2"])
      Check.equals(yield* store.listSteps(a), [])
    })
  ),
  Conformance.makeTimedRule(
    "questions",
    "move with a compacted conversation, and are removed with their session",
    Effect.gen(function* () {
      const store = yield* suspended
      yield* store.storeStep(a, { callId: "c1", name: "paid", value: 1 })
      const made = yield* store.continueIn(a, {
        id: b,
        provider: "test",
        model: "m",
        systemPrompt: "",
        messages: [makeUserMessage("note"), makeToolCalls("c1", "c2")],
        endReason: "suspended"
      })
      Check.equals(made.id, b)
      Check.equals(yield* store.listQuestions({ sessionId: a }), [])
      const moved = yield* store.listQuestions({ sessionId: b })
      Check.equals(
        moved.map(({ question }) => question.sessionId),
        [b, b]
      )
      Check.equals(yield* store.listSteps(b), [{ callId: "c1", name: "paid", value: 1 }])
      yield* store.remove(b)
      Check.equals(yield* store.listQuestions(), [])
      Check.equals(yield* store.listSteps(b), [])
    })
  )
]
