// Results of calls of one answer share commits with the starts of the calls after them. What a call, an observer of
// events and another process find in the session is as if each was stored alone.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as H from "../../src/index.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = H.Ids.SessionId.make("s")
const Step = Tool.make("step", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Look = Step.annotate(Tool.Readonly, true)

const names = ["a", "b", "c"]
const answers = [
  H.Scripted.complete({ toolCalls: names.map((name) => ({ id: name, name: "step", params: { text: name } })) }),
  H.Scripted.complete("done")
]

/** Stored results of calls, and the calls without a result that have begun, as another process finds them. */
const readState = (path: string) =>
  H.SessionStore.SessionStore.use((store) =>
    Effect.map(Effect.all([store.messages(id), store.begun(id)]), ([messages, begun]) => ({
      results: messages.flatMap((message) =>
        message.role === "tool" ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.id] : [])) : []
      ),
      begun: Array.from(begun)
    }))
  ).pipe(Effect.provide(H.SessionStore.layerSqlite({ path }), { local: true }), Effect.orDie)

const makeRuntime = (path: string, tool: typeof Step, handle: (name: string) => Effect.Effect<string>) => {
  const toolkit = Toolkit.make(tool)
  return H.Runtime.layer({
    provider: H.Scripted.layer(answers),
    tools: [H.Toolset.make("steps", toolkit, toolkit.toLayer({ step: ({ text }) => handle(text) }))],
    store: H.SessionStore.layerSqlite({ path })
  })
}

describe("calls that follow one another", () => {
  it.live("find the results of the calls before them, and that they have begun", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const seen: Array<unknown> = []
      const handle = (name: string) =>
        Effect.map(readState(path), (state) => {
          seen.push(state)
          return name
        })
      yield* Effect.provide(H.Agent.run({ prompt: "Go.", sessionId: id }), makeRuntime(path, Step, handle))
      assert.deepStrictEqual(seen, [
        { results: [], begun: ["a"] },
        { results: ["a"], begun: ["b"] },
        { results: ["a", "b"], begun: ["c"] }
      ])
      assert.deepStrictEqual(yield* readState(path), { results: names, begun: [] })
    }).pipe(Effect.scoped)
  )

  it.live("leave their results when a later one is interrupted", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const handle = (name: string) => (name === "b" ? Effect.interrupt : Effect.succeed(name))
      yield* Effect.exit(Effect.provide(H.Agent.run({ prompt: "Go.", sessionId: id }), makeRuntime(path, Step, handle)))
      const { begun, results } = yield* readState(path)
      assert.deepStrictEqual(results.toSorted(), names)
      assert.deepStrictEqual(begun, [])
    }).pipe(Effect.scoped)
  )
})

describe("the end of a call", () => {
  for (const [kind, tool] of [
    ["one after another", Step],
    ["side by side", Look]
  ] as const) {
    it.live(`is reported when its result is stored, in order, of calls ${kind}`, () =>
      Effect.gen(function* () {
        const path = `${yield* temporaryDirectory}/state.db`
        const runtime = makeRuntime(path, tool, Effect.succeed)
        const ends: Array<string> = []
        yield* Stream.runForEach(H.Agent.stream({ prompt: "Go.", sessionId: id }), (event) =>
          Effect.gen(function* () {
            if (event._tag !== "ToolFinished") return
            ends.push(event.callId)
            assert.includeMembers((yield* readState(path)).results, ends)
          })
        ).pipe(Effect.provide(runtime))
        assert.deepStrictEqual(ends, names)
      }).pipe(Effect.scoped)
    )
  }
})
