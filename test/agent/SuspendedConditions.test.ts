// A run that continues in another process has no looser conditions than the suspended one; and answers that were stored
// before a crash are not lost.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { takeAnswers } from "../../src/agent/Resumption.ts"
import type { ResumeOptions, RunOptions } from "../../src/agent/RunInput.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { Agent, PermissionMode, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

type Store = Layer.Layer<SessionSearch | SessionStore.SessionStore>
type Turns = ReadonlyArray<Parameters<typeof Scripted.complete>[0]>

const sessionId = "waits"
const success = Schema.String
const toolkit = Toolkit.make(
  Tool.make("look", { success, dependencies: [ToolContext] }).annotate(Tool.Readonly, true),
  Tool.make("write", { success })
)

const makePlace = (store: Store) => {
  const effects: Array<string> = []
  const tools = Toolset.make(
    "world",
    toolkit,
    toolkit.toLayer({
      look: () =>
        Effect.gen(function* () {
          const { cwd } = yield* ToolContext
          return `${yield* Effect.orDie(Ask.text({ title: "Who?" }))} in ${cwd}`
        }),
      write: () => Effect.sync(() => `written ${effects.push("write")}`)
    })
  )
  const inProcess = <A, E>(
    turns: Turns,
    effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>,
    cwd = "/tmp"
  ) =>
    Effect.provide(
      effect,
      Layer.provideMerge(
        Runtime.layer({
          provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
          tools: [tools],
          store,
          cwd
        }),
        store
      ),
      { local: true }
    )
  return { effects, inProcess }
}

const memory: Effect.Effect<Store, never, Scope.Scope> = Effect.map(Layer.build(SessionStore.layerMemory), (context) =>
  Layer.succeedContext(context)
)
const look = { toolCalls: [{ name: "look", params: {}, id: "c" }] }
const write = { toolCalls: [{ name: "write", params: {}, id: "w" }] }
const start = (options: Partial<RunOptions> = {}) => Agent.run({ prompt: "go", sessionId, ...options })
const resume = (options: Partial<ResumeOptions> = {}) =>
  Effect.flatMap(Agent.questions(sessionId), ([question]) =>
    Agent.resume({ sessionId, answers: [{ questionId: question?.id ?? "none", answer: "Bob" }], ...options })
  )
const readResult = ({ calls }: Effect.Success<ReturnType<typeof start>>, name: string) =>
  String(calls.find((call) => call.name === name)?.result)

describe("a run that continues", () => {
  it.live("has the tools of the suspended one, and fewer if its caller says so", () =>
    Effect.gen(function* () {
      for (const tools of [undefined, { tool: () => true }]) {
        const { effects, inProcess } = makePlace(yield* memory)
        yield* inProcess([look], start({ tools: { tool: (name) => name !== "write" } }))
        const done = yield* inProcess([write, "Done."], resume({ tools }))
        assert.deepStrictEqual([done.text, readResult(done, "look"), effects], ["Done.", "Bob in /tmp", []])
      }
      const { effects, inProcess } = makePlace(yield* memory)
      yield* inProcess([look], start())
      yield* inProcess([write, "Done."], resume({ tools: { tool: (name) => name !== "write" } }))
      assert.deepStrictEqual(effects, [])
      const other = makePlace(yield* memory)
      yield* other.inProcess([look], start())
      yield* other.inProcess([write, "Done."], resume())
      assert.deepStrictEqual(other.effects, ["write"])
    })
  )

  it.live("has no looser permission mode", () =>
    Effect.gen(function* () {
      const { effects, inProcess } = makePlace(yield* memory)
      yield* inProcess([look], Effect.provideService(start(), PermissionMode.CurrentMode, "plan"))
      const resumed = Effect.provideService(resume(), PermissionMode.CurrentMode, "yolo")
      const done = yield* inProcess([write, "Done."], resumed)
      assert.deepStrictEqual([done.text, readResult(done, "look"), effects], ["Done.", "Bob in /tmp", []])
    })
  )

  it.live("works in the directory of the suspended one, unless its caller names another", () =>
    Effect.gen(function* () {
      const { inProcess } = makePlace(yield* memory)
      yield* inProcess([look], start({ cwd: "/usr" }))
      assert.strictEqual(readResult(yield* inProcess(["Done."], resume()), "look"), "Bob in /usr")
      const other = makePlace(yield* memory)
      yield* other.inProcess([look], start())
      assert.strictEqual(readResult(yield* other.inProcess(["Done."], resume({ cwd: "/usr" })), "look"), "Bob in /usr")
    })
  )

  it.live("has what is left of the budget, over several suspensions", () =>
    Effect.gen(function* () {
      const { effects, inProcess } = makePlace(yield* memory)
      yield* inProcess([look], start({ maxIterations: 3, budget: { toolCalls: 3 } }))
      yield* inProcess([look], resume({ maxIterations: 50 }))
      // Two of three model calls are used up, and one of three tool calls beside the one that waits.
      const done = yield* inProcess([write, "The summary.", "More."], resume())
      assert.deepStrictEqual(
        [done.exit, done.text, done.steps, effects],
        ["max_iterations_reached", "The summary.", 1, ["write"]]
      )
      const other = makePlace(yield* memory)
      yield* other.inProcess([look], start({ budget: { toolCalls: 1 } }))
      const last = yield* other.inProcess([write, "The summary."], resume({ budget: { toolCalls: 9 } }))
      assert.deepStrictEqual(
        [readResult(last, "look"), last.exit, other.effects],
        ["Bob in /tmp", "budget_exhausted", []]
      )
    })
  )

  it.live("finds answers that were stored before a crash, and is not asked again", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const { inProcess } = makePlace(SessionStore.layerSqlite({ path: `${directory}/state.db` }))
      const { questions: [question] = [] } = yield* inProcess([look], start())
      const questionId = question?.id ?? "none"
      const answers = [{ questionId, answer: "Bob" }]
      // A process that dies right after it stored the answers, before it continues the run.
      yield* inProcess(
        [],
        SessionStore.SessionStore.use((store) => takeAnswers(store, SessionId.make(sessionId), { answers }))
      )
      assert.deepStrictEqual(yield* inProcess([], Agent.questions(sessionId)), [])
      const late = yield* Effect.flip(
        inProcess([], Agent.resume({ sessionId, answers: [{ questionId, answer: "Eve" }] }))
      )
      assert.strictEqual(late._tag, "QuestionAnswered")
      const session = yield* inProcess(
        [],
        SessionStore.SessionStore.use((store) => store.get(SessionId.make(sessionId)))
      )
      assert.strictEqual(Option.getOrThrow(session).endReason, "suspended")
      const done = yield* inProcess(["Done."], Agent.resume({ sessionId }))
      assert.deepStrictEqual([done.text, readResult(done, "look")], ["Done.", "Bob in /tmp"])
    })
  )
})
