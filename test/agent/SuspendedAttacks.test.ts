// Suspended runs against a hostile world: changed code, secrets in questions, clocks, messages between question and
// answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { make as makeRegistry, Secrets } from "../../src/base/domain/Secrets.ts"
import type { QuestionPolicy } from "../../src/tools/CallQuestions.ts"
import { Agent, Middleware, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import type { SessionSearch } from "../../src/store/SessionSearch.ts"

const sessionId = "waits"
const parameters = Schema.Struct({ text: Schema.optionalKey(Schema.String) })
const toolkit = Toolkit.make(
  Tool.make("work", { parameters, success: Schema.String }),
  Tool.make("guarded", { parameters, success: Schema.String, needsApproval: true })
)
const readonlyToolkit = Toolkit.make(
  Tool.make("work", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
)
const call = { toolCalls: [{ name: "work", params: {}, id: "c" }] }

type Turns = ReadonlyArray<Parameters<typeof Scripted.complete>[0]>
type Store = Layer.Layer<SessionSearch | SessionStore.SessionStore>

interface Place {
  readonly store: Store
  readonly work: Effect.Effect<string, unknown>
  readonly questions?: QuestionPolicy
  readonly middleware?: ReadonlyArray<Middleware.Contained>
  readonly isReadonly?: boolean
}

const withRuntime = <A, E>(
  { isReadonly = false, middleware = [], questions, store, work }: Place,
  turns: Turns,
  effect: Effect.Effect<A, E, Agent.Agent | SessionStore.SessionStore>
) =>
  Effect.provide(
    effect,
    Layer.provideMerge(
      Runtime.layer({
        provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
        tools: [
          isReadonly
            ? Toolset.make("work", readonlyToolkit, readonlyToolkit.toLayer({ work: () => Effect.orDie(work) }))
            : Toolset.make(
                "work",
                toolkit,
                toolkit.toLayer({ work: () => Effect.orDie(work), guarded: () => Effect.orDie(work) })
              )
        ],
        questions: { unanswered: "suspend", ...questions },
        middleware,
        store
      }),
      store
    ),
    { local: true }
  )

const memory = Effect.map(Layer.build(SessionStore.layerMemory), (context) => Layer.succeedContext(context))
const start = Agent.run({ prompt: "go", sessionId })

/** Answers the open question of the session. */
const answerWith = (answer: unknown) =>
  Effect.flatMap(Agent.questions(sessionId), ([question]) =>
    Agent.resume({ sessionId, answers: [{ questionId: question?.id ?? "none", answer }] })
  )

const readOutput = ({ calls }: Effect.Success<typeof start>) => calls.at(-1)?.result

describe("attacks", () => {
  it.effect("a time is due although an answer would be late", () =>
    Effect.gen(function* () {
      const place: Place = {
        store: yield* memory,
        work: Effect.as(Ask.until(3_600_000), "later"),
        questions: { expiresAfter: "30 minutes" }
      }
      assert.strictEqual((yield* withRuntime(place, [call], start)).exit, "suspended")
      yield* TestClock.adjust("40 minutes")
      assert.strictEqual((yield* withRuntime(place, [], Agent.resume({ sessionId }))).exit, "suspended")
      yield* TestClock.adjust("2 hours")
      const done = yield* withRuntime(place, ["Done."], Agent.resume({ sessionId }))
      assert.deepStrictEqual([done.text, readOutput(done)], ["Done.", "later"])
    })
  )

  it.effect("an approval of a tool does not hold for another question", () =>
    Effect.gen(function* () {
      let euros = 7
      const place: Place = {
        store: yield* memory,
        work: Effect.suspend(() =>
          Effect.map(Ask.approval({ title: `Pay ${euros}?` }), ({ isApproved }) => `${isApproved} ${euros}`)
        )
      }
      assert.strictEqual((yield* withRuntime(place, [call], start)).exit, "suspended")
      euros = 7000
      const again = yield* withRuntime(place, ["Done."], answerWith({ choice: "once" }))
      assert.deepStrictEqual([again.exit, again.questions?.map(({ title }) => title)], ["suspended", ["Pay 7000?"]])
      const done = yield* withRuntime(place, ["Done."], answerWith({ choice: "deny" }))
      assert.strictEqual(readOutput(done), "false 7000")
    })
  )

  it.effect("secrets in questions reach no client", () =>
    Effect.gen(function* () {
      const secret = "zq9-hidden-value-4711"
      const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
      const store = yield* memory
      const work = Ask.text({ title: `Is ${secret} ok?`, prompt: `and ${key}`, details: { secret, key } })
      const place: Place = { store, work }
      const registry = makeRegistry()
      registry.add(secret)
      const events = yield* withRuntime(
        place,
        [
          {
            toolCalls: [
              { name: "work", params: {}, id: "c" },
              { name: "guarded", params: { text: `${secret} ${key}` }, id: "d" }
            ]
          }
        ],
        Stream.runCollect(Agent.stream({ prompt: "go", sessionId }))
      ).pipe(Effect.provideService(Secrets, registry))
      const asked = events.filter(({ _tag }) => _tag === "QuestionAsked" || _tag === "RunFinished")
      assert.strictEqual(asked.length, 3)
      const stored = yield* withRuntime(place, [], Agent.questions(sessionId))
      for (const part of [
        JSON.stringify(asked.map((event) => ("questions" in event ? event.questions : event))),
        JSON.stringify(stored)
      ]) {
        assert.notInclude(part, secret)
        assert.notInclude(part, key)
      }
    })
  )

  it.effect("a message that a middleware adds between question and answer does not break the calls", () =>
    Effect.gen(function* () {
      const store = yield* memory
      const place: Place = {
        store,
        work: Ask.text({ title: "Who?" }),
        middleware: [
          Middleware.lifecycle({
            name: "adds",
            beforeAgent: ({ messages }) =>
              Middleware.withModifications({
                messages: [...messages, Prompt.userMessage({ content: [Prompt.textPart({ text: "by the way" })] })]
              })
          })
        ]
      }
      yield* withRuntime(place, [call], start)
      const done = yield* withRuntime(place, ["Done."], answerWith("Bob"))
      assert.deepStrictEqual([done.exit, readOutput(done)], ["text_response", "Bob"])
      const messages = yield* withRuntime(
        place,
        [],
        SessionStore.SessionStore.use((one) => one.messages(SessionId.make(sessionId)))
      )
      assert.deepStrictEqual(Conversation.listOpenCalls(messages), [])
    })
  )

  it.effect("a question that another process answered meanwhile is not reported as open", () =>
    Effect.gen(function* () {
      const store = yield* memory
      const place: Place = { store, work: Ask.text({ title: "Who?" }) }
      const calls = [
        { name: "work", params: { text: "a" }, id: "a" },
        { name: "work", params: { text: "b" }, id: "b" },
        { name: "work", params: { text: "c" }, id: "c" }
      ]
      const { questions: [first, second, third] = [] } = yield* withRuntime(
        { ...place, isReadonly: true },
        [{ toolCalls: calls }],
        start
      )
      if (first === undefined || second === undefined || third === undefined) return assert.fail("three questions")
      const meanwhile = SessionStore.SessionStore.use((one) =>
        one.answerQuestions(SessionId.make(sessionId), [
          { questionId: second.id, answer: "Eve", by: undefined, answeredAt: 1 }
        ])
      )
      const work = Effect.andThen(Effect.provide(meanwhile, store), Ask.text({ title: "Who?" }))
      const resume = Agent.resume({ sessionId, answers: [{ questionId: first.id, answer: "Ada" }] })
      const still = yield* withRuntime({ store, work }, [], resume)
      assert.deepStrictEqual([still.exit, still.questions?.map(({ id }) => id)], ["suspended", [third.id]])
    })
  )

  for (const [name, schema, value] of [
    ["recursive", Schema.Struct({ a: Schema.Array(Schema.Union([Schema.String, Schema.Null])) }), { a: ["x", null] }],
    ["record", Schema.Record(Schema.String, Schema.Finite), { a: 1 }],
    ["tuple", Schema.Tuple([Schema.String, Schema.Int]), ["a", 1]],
    ["date", Schema.Struct({ at: Schema.DateTimeUtcFromString }), { at: "2026-01-01T00:00:00.000Z" }],
    ["literals", Schema.Literals(["a", "b"]), "a"],
    ["pattern", Schema.String.check(Schema.isPattern(/^a+$/u)), "aaa"],
    ["uuid", Schema.String.check(Schema.isUUID()), "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"],
    ["optional", Schema.Struct({ a: Schema.optional(Schema.String) }), {}],
    ["option", Schema.Struct({ a: Schema.Option(Schema.String) }), { a: { _tag: "None" } }],
    ["boolean", Schema.Boolean, true],
    ["class", Schema.Struct({ n: Schema.NumberFromString }), { n: "12" }],
    ["unknown", Schema.Unknown, { any: 1 }],
    ["null", Schema.NullOr(Schema.String), null]
  ] as const)
    it.effect(`a form of ${name} can be answered`, () =>
      Effect.gen(function* () {
        const place: Place = {
          store: yield* memory,
          // Each schema is its own type.
          work: Effect.as(Ask.form(schema as Schema.Codec<unknown>, { title: "Value?" }), "got it")
        }
        yield* withRuntime(place, [call], start)
        const done = yield* withRuntime(place, ["Done."], answerWith(value))
        assert.strictEqual(readOutput(done), "got it")
      })
    )
})
