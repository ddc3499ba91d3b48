// A run that goes on where another one was killed: calls that did not begin are run, those that may have happened are
// told.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { makeNewSession, buildToolResult, makeUserMessage } from "../support/sessionStoreConformance.ts"

const make = (name: string) =>
  Tool.make(name, { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const Once = make("once")
const Repeatable = make("repeatable").annotate(Tool.Idempotent, true)
const toolkit = Toolkit.make(Once, Repeatable)

const id = SessionId.make("killed")
const calls = Prompt.assistantMessage({
  content: [
    ["a", "once"],
    ["b", "once"],
    ["c", "repeatable"],
    ["d", "once"],
    ["e", "once"]
  ].map(([id = "", name = ""]) => Prompt.toolCallPart({ id, name, params: { id }, providerExecuted: false }))
})

/** The session as a process left it that was killed: `a` has a result, `b` and `c` began. */
const left = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  yield* store.create(makeNewSession("killed"))
  yield* store.append(id, [makeUserMessage("work"), calls, buildToolResult("a", "did a")])
  yield* store.begin(id, ["b", "c"])
})

const told = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result]] : []))
      : []
  )

describe("a killed run that goes on", () => {
  for (const openCalls of ["run", "close"] as const) {
    it.effect(`with its open calls: ${openCalls}`, () => {
      const ran: Array<string> = []
      const handler = ({ id }: { readonly id: string }) =>
        Effect.sync(() => {
          ran.push(id)
          return `did ${id}`
        })
      const runtime = Runtime.layer({
        provider: Scripted.layer([Scripted.complete("done")]),
        store: SessionStore.layerMemory,
        tools: [Toolset.make("work", toolkit, toolkit.toLayer({ once: handler, repeatable: handler }))]
      })
      return Effect.gen(function* () {
        yield* left
        const finished = yield* Agent.run({ prompt: "work", sessionId: id, goesOn: true, openCalls })
        assert.strictEqual(finished.text, "done")
        const store = yield* SessionStore.SessionStore
        const messages = Conversation.closeOpenCalls(yield* store.messages(id))
        assert.deepStrictEqual(ran, openCalls === "run" ? ["c", "d", "e"] : [])
        assert.deepStrictEqual(
          Object.fromEntries(told(messages)),
          openCalls === "run"
            ? { a: "did a", b: Conversation.mayHaveHappenedResult, c: "did c", d: "did d", e: "did e" }
            : {
                a: "did a",
                b: Conversation.mayHaveHappenedResult,
                c: Conversation.mayHaveHappenedResult,
                d: Conversation.cancelledResult,
                e: Conversation.cancelledResult
              }
        )
        assert.deepStrictEqual(
          told(messages).map(([id]) => id),
          ["a", "b", "c", "d", "e"]
        )
        assert.deepStrictEqual(messages.filter(({ role }) => role === "user").length, 1)
      }).pipe(Effect.provide(runtime.pipe(Layer.provideMerge(SessionStore.layerMemory))))
    })
  }
})
