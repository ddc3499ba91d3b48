// The work of a turn, a run each, does not grow with its session: how often the earlier messages are looked into.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as H from "../../src/index.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const Look = Tool.make("look", {
  description: "Looks at a thing.",
  parameters: Schema.Struct({ thing: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look)
const look = H.Toolset.make(
  "look",
  toolkit,
  toolkit.toLayer({ look: ({ thing }) => Effect.succeed(`There is nothing about ${thing}.`) })
)

/** A turn: a question, a call, its result, an answer. */
const turn = (at: number): ReadonlyArray<Prompt.Message> => [
  Prompt.userMessage({ content: [Prompt.textPart({ text: `question ${at}` })] }),
  Prompt.assistantMessage({
    content: [
      Prompt.reasoningPart({ text: `Thing ${at} may help.` }),
      Prompt.textPart({ text: `I look at thing ${at}.` }),
      Prompt.toolCallPart({ id: `call-${at}`, name: "look", params: { thing: `thing ${at}` }, providerExecuted: false })
    ]
  }),
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id: `call-${at}`,
        name: "look",
        isFailure: false,
        providerExecuted: false,
        result: `There is nothing about thing ${at}.`
      })
    ]
  }),
  Prompt.assistantMessage({ content: [Prompt.textPart({ text: `answer ${at}` })] })
]

/** Counts how often somebody looks into these messages. */
const watched = (messages: ReadonlyArray<Prompt.Message>): { count: number } => {
  const reads = { count: 0 }
  for (const message of messages) {
    for (const name of ["content", "options"] as const) {
      const value = message[name]
      Object.defineProperty(message, name, {
        enumerable: true,
        configurable: true,
        get: () => {
          reads.count++
          return value
        }
      })
    }
  }
  return reads
}

/** Looks into the earlier messages in one turn of a session of so many turns. */
const readsAfter = (turns: number) =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const some = (at: number) => [
      H.Scripted.complete({
        text: `I look ${at}.`,
        reasoning: "It may help.",
        toolCalls: [{ name: "look", params: { thing: `thing ${at}` } }]
      }),
      H.Scripted.complete(`answer ${at}`)
    ]
    return yield* Effect.gen(function* () {
      const agent = yield* H.Agent.Agent
      const store = yield* H.SessionStore.SessionStore
      const { sessionId } = yield* agent.run({ prompt: "begin" })
      yield* store.append(sessionId, Array.from({ length: turns }, (_, at) => turn(at)).flat())
      yield* agent.run({ prompt: "go on", sessionId })
      yield* agent.run({ prompt: "go on", sessionId })
      const reads = watched(yield* store.messages(sessionId))
      yield* agent.run({ prompt: "go on", sessionId })
      return reads.count
    }).pipe(
      Effect.provide(
        H.Runtime.layer({
          provider: H.Scripted.layer([0, 1, 2, 3].flatMap(some)),
          tools: [look],
          store: H.SessionStore.layerSqlite({ path })
        })
      )
    )
  }).pipe(Effect.scoped)

describe("a turn of a long session", () => {
  it.live("looks into as many earlier messages after 2,000 turns as after 20", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* readsAfter(2_000), yield* readsAfter(20))
    })
  )
})
