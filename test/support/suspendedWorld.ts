// The world of generated runs that wait: tools with effects outside, children down to two levels, a model that goes on
// where the session is, and one run of a fresh runtime over a store.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { Answer } from "../../src/base/domain/Question.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Ask from "../../src/tools/Ask.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "./fakeModel.ts"
import * as PlannedModel from "./plannedModel.ts"

export const sessionId = "waits"

/** Numbers from 0 to 1, the same for the same seed. */
export const random = (start: number) => {
  let state = start >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 0x1_0000_0000
  }
}

const kinds = ["pay", "delete", "look", "note", "delegate_task"] as const

/** Deepest level of children. */
const depth = 2

/** One call of the script, whose effects have its key in their names. A delegation has children, by its key. */
export interface PlannedCall {
  readonly id: string
  readonly name: (typeof kinds)[number]
  readonly key: string
  readonly children: ReadonlyArray<string>
}

/** Calls of the answers to a task. The ids of calls repeat from answer to answer, as those of some models do. */
export const planCalls = (seed: number, task = ""): ReadonlyArray<ReadonlyArray<PlannedCall>> => {
  const next = random(seed + Array.from(task).reduce((sum, char) => sum * 31 + char.charCodeAt(0), 7))
  const level = task === "" ? 0 : task.split(".").length
  const most = level < depth ? kinds.length : kinds.length - 1
  return Array.from({ length: (level === 0 ? 2 : 1) + Math.floor(next() * 2) }, (_, turn) =>
    Array.from({ length: 1 + Math.floor(next() * 3) }, (_, index) => {
      const key = `${task === "" ? "" : `${task}.`}${turn}-${index}`
      const name = kinds[Math.floor(next() * most)] ?? "note"
      const count = name === "delegate_task" ? 1 + Math.floor(next() * 2) : 0
      return { id: `c${index}`, name, key, children: Array.from({ length: count }, (_, child) => `${key}.${child}`) }
    })
  )
}

const toParams = ({ children, key, name }: PlannedCall) =>
  name === "delegate_task"
    ? { tasks: children.map((child) => ({ goal: `task ${child}`, role: "orchestrator" })) }
    : { key }

/** The model: the answers to the task of a run, by the number of answers that it has. */
const makeModel = (seed: number, trace: Trace) =>
  PlannedModel.make((prompt, step) => {
    const [, task = ""] = /^task (\S+)/u.exec(prompt) ?? []
    const calls = planCalls(seed, task)[step]
    return calls === undefined
      ? Fake.textAnswer("done")
      : Fake.callsAnswer(...calls.map((call) => Fake.call(call.id, call.name, toParams(call))))
  }, trace("model"))

const parameters = Schema.Struct({ key: Schema.String })
const success = Schema.String
const toolkit = Toolkit.make(
  Tool.make("pay", { parameters, success }),
  Tool.make("delete", { parameters, success, needsApproval: true }),
  Tool.make("look", { parameters, success }).annotate(Tool.Readonly, true),
  Tool.make("note", { parameters, success })
)

type Trace = (line: string) => Effect.Effect<void>

const makeTools = (trace: Trace, version: number) =>
  Toolset.make(
    "world",
    toolkit,
    toolkit.toLayer({
      delete: ({ key }) => Effect.as(trace(`delete ${key}`), `deleted ${key}`),
      look: ({ key }) => Effect.succeed(`saw ${key}`),
      note: ({ key }) => Effect.as(trace(`note ${key}`), `noted ${key}`),
      pay: ({ key }) =>
        Effect.orDie(
          Effect.gen(function* () {
            yield* Ask.once("invoice", trace(`invoice ${key}`))
            const [euros, { isApproved }] = yield* Effect.all(
              [
                Ask.form(Schema.Int, { title: `How much for ${key}?` }),
                Ask.approval({ title: `May ${key} be paid? (${version})` })
              ],
              { concurrency: "unbounded" }
            )
            if (!isApproved) return `not paid ${key}`
            yield* trace(`pay ${key}`)
            return `paid ${key} ${euros}`
          })
        )
    })
  )

/** An action of a process: the first run, or a resumption. */
export interface Action {
  readonly seed: number
  readonly streamed: boolean
  /** Version of the program. Another version asks for approvals in other words. */
  readonly version: number
  /** Answers of a resumption; absent for the first run. */
  readonly answers?: ReadonlyArray<Answer>
}

export type Store = Layer.Layer<SessionStore.SessionStore | SessionSearch>

/** Model, tools and limits of the agent of a world. */
export const makeAgentParts = (seed: number, trace: Trace, version: number) => ({
  provider: makeModel(seed, trace),
  tools: [makeTools(trace, version), Delegate.toolset],
  delegation: { maxSpawnDepth: depth + 1, maxCallsPerStep: 3 },
  questions: { unanswered: "suspend" } as const
})

/** Performs an action in a fresh runtime over a store. Returns the exit of the run, or the tag of its error. */
export const perform = (
  store: Store,
  trace: Trace,
  { answers, seed, streamed, version }: Action
): Effect.Effect<string> =>
  Effect.gen(function* () {
    const options = { sessionId, onInterrupt: "leave", questions: { unanswered: "suspend" } } as const
    const isBegun = Option.isSome(
      yield* SessionStore.SessionStore.use((service) => service.get(SessionId.make(sessionId)))
    )
    const input = { ...options, prompt: "work" }
    const isFirst = answers === undefined || !isBegun
    const run = isFirst
      ? streamed
        ? Stream.runDrain(Agent.stream(input))
        : Agent.run(input)
      : streamed
        ? Stream.runDrain(Agent.resumeStream({ ...options, answers }))
        : Agent.resume({ ...options, answers })
    return yield* run.pipe(
      Effect.andThen(SessionStore.SessionStore.use((service) => service.get(SessionId.make(sessionId)))),
      Effect.map((session) => Option.getOrThrow(session).endReason ?? "open"),
      Effect.catch((error) => Effect.succeed(error._tag)),
      Effect.provide(Runtime.layer({ ...makeAgentParts(seed, trace, version), store }), { local: true })
    )
  }).pipe(
    Effect.catch((error) => Effect.succeed(error._tag)),
    Effect.provide(store, { local: true })
  )
