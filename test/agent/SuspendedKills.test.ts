// Runs that wait, killed at any moment, continued in fresh processes and answered in any order, late and twice: what has
// an effect outside happens once, and never without its answer. `HERMES_TEST_KILLS` says how many runs of each kind.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { existsSync, readFileSync } from "node:fs"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { Answer, Question } from "../../src/base/domain/Question.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { runScript } from "../support/runScript.ts"
import { checkCalls, isAbout, listSessionCalls } from "../support/suspendedChecks.ts"
import { type Action, perform, planCalls, random, sessionId, type Store } from "../support/suspendedWorld.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const trials = Number(process.env["HERMES_TEST_KILLS"] ?? 1)
const seed = Number(process.env["HERMES_TEST_SEED"] ?? 4711)

/** Performs an action, killed after some lines of its output if `kill` is given. Returns its end; "killed" without one. */
type Perform = (action: Action, kill: number | undefined) => Effect.Effect<string>

interface Place {
  readonly store: Store
  readonly perform: Perform
  readonly effects: () => ReadonlyArray<string>
}

/** The answers that were accepted, by question. */
type Decisions = Map<string, { readonly question: Question; readonly answer: unknown }>

const decide = (next: () => number, question: Question): unknown =>
  question.kind === "form" ? Math.floor(next() * 100) : { choice: next() < 0.6 ? "once" : "deny" }

const isYes = (answer: unknown): boolean => JSON.stringify(answer).includes("once")

const checkEffects = Effect.fnUntraced(function* ({ effects, store }: Place, own: number, decisions: Decisions) {
  const sessions = yield* Effect.provide(listSessionCalls, store, { local: true })
  const root = sessions.find(({ id }) => id === sessionId)
  assert.deepStrictEqual(root?.open, [])
  assert.strictEqual(root?.results.length, planCalls(own).flat().length)
  checkCalls(sessions, effects(), (key) =>
    Array.from(decisions.values()).some(
      ({ answer, question: { kind, prompt, title } }) =>
        kind === "approval" && isAbout(`${title} ${prompt}`, key) && isYes(answer)
    )
  )
})

/** Whether the last answer is stored: a process may have been killed before it stored the end of its run. */
const isAnswered = ({ store }: Place) =>
  Effect.provide(
    SessionStore.SessionStore.use((service) =>
      Effect.map(service.messages(SessionId.make(sessionId)), (messages) => {
        const last = messages.at(-1)
        return last?.role === "assistant" && Conversation.listToolCalls(last).length === 0
      })
    ),
    store,
    { local: true }
  )

/** One run from its prompt to its end, with kills, and with answers in any order, late and twice. */
const trial = Effect.fnUntraced(function* (place: Place, own: number) {
  const next = random(own * 7 + 1)
  const decisions: Decisions = new Map()
  let version = 1
  const act = (answers: ReadonlyArray<Answer> | undefined, mayKill: boolean) => {
    if (version === 1 && next() < 0.1) version = 2
    return place.perform(
      { seed: own, version, streamed: next() < 0.5, ...(answers === undefined ? {} : { answers }) },
      mayKill && next() < 0.5 ? 1 + Math.floor(next() * 8) : undefined
    )
  }
  const listOpen = Effect.provide(
    SessionStore.SessionStore.use((service) => service.listQuestions({ sessionId: SessionId.make(sessionId) })),
    place.store,
    { local: true }
  )
  let end = yield* act(undefined, true)
  for (let round = 0; end !== "text_response" && !(yield* isAnswered(place)); round++) {
    assert.isBelow(round, 80, `no end: ${end}`)
    const open = (yield* listOpen).map(({ question }) => question)
    const [decided] = Array.from(decisions.keys())
    if (decided !== undefined && next() < 0.2)
      // The call of an answered question may have been killed, which withdraws the question.
      assert.include(
        ["QuestionAnswered", "QuestionClosed"],
        yield* act([{ questionId: decided, answer: { choice: "once" } }], false)
      )
    const [invalid] = open
    // A process that was killed before it stored the session left nothing to answer.
    if (next() < 0.1 && invalid !== undefined)
      assert.strictEqual(yield* act([{ questionId: "q_none", answer: 1 }], false), "QuestionUnknown")
    if (invalid !== undefined && next() < 0.2)
      assert.strictEqual(yield* act([{ questionId: invalid.id, answer: "maybe" }], false), "AnswerInvalid")
    const chosen = open.filter(() => next() < 0.6).toSorted(() => next() - 0.5)
    const answers = chosen.map((question) => ({ questionId: question.id, answer: decide(next, question), by: "Ada" }))
    end = yield* act(answers, round < 30)
    const left = new Set((yield* listOpen).map(({ question }) => question.id))
    chosen.forEach((question, index) => {
      // A killed process may not have stored them.
      if (!left.has(question.id)) decisions.set(question.id, { question, answer: answers[index]?.answer })
    })
  }
  yield* checkEffects(place, own, decisions)
})

/** A place whose actions run in processes. */
const inProcesses = (kind: "sqlite" | "postgres", where: string, traces: string, store: Store): Place => ({
  store,
  effects: () => (existsSync(traces) ? readFileSync(traces, "utf8").split("\n") : []),
  perform: (action, kill) => {
    let seen = 0
    return Effect.map(
      runScript("suspendedRun.ts", [kind, where, traces, JSON.stringify(action)], (_, child) => {
        if (++seen === kill) child.kill("SIGKILL")
      }),
      ({ code, errors, lines, signal }) => {
        if (signal !== null) return "killed"
        assert.strictEqual(code, 0, errors)
        return lines.at(-1)?.replace("end ", "") ?? ""
      }
    )
  }
})

/** A place whose actions run here, and are interrupted as if they were killed. */
const inMemory = Effect.gen(function* () {
  const store = Layer.succeedContext(yield* Layer.build(SessionStore.layerMemory))
  const effects: Array<string> = []
  const place: Place = {
    store,
    effects: () => effects,
    perform: (action, kill) =>
      Effect.gen(function* () {
        let seen = 0
        const trace = (line: string) =>
          Effect.suspend(() => {
            effects.push(line)
            if (++seen === kill) fiber.interruptUnsafe()
            return Effect.sleep(1)
          })
        const fiber = yield* Effect.forkDetach(perform(store, trace, action))
        const exit = yield* Fiber.await(fiber)
        return Exit.isSuccess(exit) ? exit.value : "killed"
      })
  }
  return place
})

describe(`runs that wait and are killed (seed ${seed})`, () => {
  it.live("a new call does not find the steps of a killed call that had its id", () =>
    Effect.flatMap(inMemory, (place) => trial(place, 3721))
  )
  for (let index = 0; index < Math.max(trials * 4, 12); index++) {
    it.live(`in memory ${index}`, () => Effect.flatMap(inMemory, (place) => trial(place, seed + index)))
  }
  for (let index = 0; index < trials; index++) {
    it.live(`in SQLite ${index}`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const path = `${directory}/state.db`
        const store = SessionStore.layerSqlite({ path })
        yield* trial(inProcesses("sqlite", path, `${directory}/traces`, store), seed + 100 + index)
      })
    )
  }
  describe.skipIf(missing !== undefined)("over a server", () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())
    for (let index = 0; index < trials; index++) {
      it.live(`in Postgres ${index}`, () =>
        Effect.gen(function* () {
          const directory = yield* temporaryDirectory
          const url = server.url(`k${index}`)
          const store = SessionStore.layerPostgres({ url: Redacted.make(url), connections: 3 })
          yield* trial(inProcesses("postgres", url, `${directory}/traces`, store), seed + 200 + index)
        })
      )
    }
  })
})
