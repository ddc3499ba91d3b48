// Durable runs that wait for answers: their place is free meanwhile, and any process answers, once.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Runtime, Scripted, SessionStore, Toolset } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { Ask } from "../../../src/kit/entry/tools.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { readUntil } from "../../support/waiting.ts"

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("rest", { parameters: Schema.Struct({}), success: Schema.String })
)

const makeAgent = (
  store: ReturnType<typeof SessionStore.layerSqlite>,
  effects: Array<string>,
  turns: ReadonlyArray<Parameters<typeof Scripted.complete>[0]>
) =>
  Runtime.layer({
    provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
    store,
    tools: [
      Toolset.make(
        "office",
        toolkit,
        toolkit.toLayer({
          pay: () =>
            Effect.orDie(
              Effect.gen(function* () {
                yield* Ask.once(
                  "invoice",
                  Effect.sync(() => void effects.push("invoice"))
                )
                const euros = yield* Ask.form(Schema.Int, { title: "How much?" })
                effects.push(`pay ${euros}`)
                return `paid ${euros}`
              })
            ),
          rest: () => {
            const wakeAt = Date.now() + 1_000
            return Effect.orDie(
              Effect.flatMap(Ask.once("time", Effect.succeed(wakeAt)), (time) => Effect.as(Ask.until(time), "rested"))
            )
          }
        })
      )
    ]
  }).pipe(Layer.provideMerge(store))

const callOf = (name: string) => ({ toolCalls: [{ name, params: {}, id: "c" }] })
const turnOf = (id: string, sessionId = id) => Cluster.makeTurnRequest({ id, sessionId, prompt: "go" })

/** Waits until a run asks. */
const waitForQuestions = (id: string) => readUntil(`${id} asks`, Cluster.questions(id), (open) => open.length > 0)

const readText = (outcome: Cluster.Outcome | undefined) => `${outcome?.status} ${outcome?.output ?? outcome?.message}`

describe("a durable run that asks", () => {
  it.live("leaves its place, takes each answer once, and continues", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
      const effects: Array<string> = []
      const agent = makeAgent(store, effects, [callOf("pay"), "Between.", "Paid.", "After."])
      yield* Effect.gen(function* () {
        yield* Cluster.submit(turnOf("asks"))
        const [question] = yield* waitForQuestions("asks")
        if (question === undefined) return assert.fail("a question")
        // The place is free, and the turns of the session wait.
        yield* Cluster.submit(turnOf("behind", "asks"))
        yield* Cluster.submit(turnOf("other"))
        assert.include(readText((yield* Cluster.waitForOutcomes(["other"])).get("other")), "Between.")
        const answer = (euros: unknown) =>
          Cluster.answer({ run: "asks", answers: [{ questionId: question.id, answer: euros, by: "Ada" }] })
        assert.strictEqual((yield* Effect.flip(answer("many")))._tag, "AnswerInvalid")
        const both = yield* Effect.all([Effect.result(answer(5)), Effect.result(answer(6))], { concurrency: 2 })
        assert.deepStrictEqual(both.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
        const outcomes = yield* Cluster.waitForOutcomes(["asks", "behind"])
        assert.include(readText(outcomes.get("asks")), "Paid.")
        assert.include(readText(outcomes.get("behind")), "After.")
        assert.deepStrictEqual(effects, ["invoice", both[0]._tag === "Success" ? "pay 5" : "pay 6"])
        assert.strictEqual((yield* Effect.flip(answer(7))).message, "run asks is over: it takes no answers")
        assert.deepStrictEqual(yield* Cluster.questions("asks"), [])
      }).pipe(
        Effect.provide(
          Layer.merge(
            Cluster.layerSqlite({ path: `${directory}/cluster.db`, concurrency: 1 }).pipe(Layer.provide(agent)),
            store
          ),
          { local: true }
        )
      )
    })
  )

  it.live("is cancelled while it waits, and continues at a time without an answer", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
      const effects: Array<string> = []
      const agent = makeAgent(store, effects, [callOf("pay"), callOf("rest"), "Rested."])
      yield* Effect.gen(function* () {
        yield* Cluster.submit(turnOf("asks", "s"))
        yield* waitForQuestions("asks")
        yield* Cluster.submit(turnOf("rests", "s"))
        assert.isTrue(yield* Cluster.cancel("asks"))
        const outcomes = yield* Cluster.waitForOutcomes(["asks", "rests"])
        assert.include(readText(outcomes.get("asks")), "the run was cancelled")
        assert.include(readText(outcomes.get("rests")), "Rested.")
        assert.deepStrictEqual(effects, ["invoice"])
      }).pipe(
        Effect.provide(
          Layer.merge(
            Cluster.layerSqlite({ path: `${directory}/cluster.db`, concurrency: 1 }).pipe(Layer.provide(agent)),
            store
          ),
          { local: true }
        )
      )
    })
  )
})

describe.skipIf(missing !== undefined)("a run of a cluster that asks", () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("is answered from another process and watched from a third; another runner continues it", () =>
    Effect.gen(function* () {
      const url = server.url("asks")
      const effects: Array<string> = []
      const storeAt = SessionStore.layerPostgres({ url: Redacted.make(url), connections: 3 })
      const runner = (turns: Parameters<typeof makeAgent>[2]) =>
        Cluster.layerRunner({ url: Redacted.make(url), concurrency: 1 }).pipe(
          Layer.provide(makeAgent(storeAt, effects, turns))
        )
      const client = Layer.merge(Cluster.layerClient({ url: Redacted.make(url) }), storeAt)
      const watched = yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Layer.build(runner([callOf("pay")]))
          return yield* Effect.gen(function* () {
            yield* Cluster.submit(turnOf("one"))
            yield* waitForQuestions("one")
            return true
          }).pipe(Effect.provide(client, { local: true }))
        })
      )
      assert.isTrue(watched)
      // The runner that asked is gone.
      yield* Layer.build(runner(["Paid."]))
      const watch = yield* Effect.forkChild(
        Effect.provide(Stream.runCollect(Cluster.watch("one")), client, { local: true })
      )
      yield* Effect.gen(function* () {
        const [question] = yield* Cluster.questions("one")
        yield* Cluster.answer({ run: "one", answers: [{ questionId: question?.id ?? "none", answer: 9 }] })
        assert.include(readText((yield* Cluster.waitForOutcomes(["one"])).get("one")), "Paid.")
      }).pipe(Effect.provide(client, { local: true }))
      const kinds = (yield* Fiber.join(watch)).map(({ entry }) => entry.event._tag)
      // If the first runner leaves before it has noted the suspension, the second one suspends the run once more.
      assert.isAtLeast(kinds.filter((kind) => kind === "RunEnded").length, 2)
      assert.deepStrictEqual(effects, ["invoice", "pay 9"])
    })
  )
})
