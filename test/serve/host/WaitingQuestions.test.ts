// A live session over a store in which a run waits: its questions are asked as a turn, and the run continues.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { join } from "node:path"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../../src/index.ts"
import { Ask } from "../../../src/kit/entry/tools.ts"
import * as LiveSession from "../../../src/serve/host/LiveSession.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { lines, until, untilTag } from "./liveSession.ts"

const Delete = Tool.make("delete", {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const Pay = Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Delete, Pay)
const sessionId = SessionId.make("waits")

const calls = [
  { name: "delete", params: { path: "a.txt" } },
  { name: "pay", params: { to: "Bob" } }
]

const makeWorld = Effect.gen(function* () {
  const folder = yield* temporaryDirectory
  const effects: Array<string> = []
  const note = (effect: string) => Effect.sync(() => (effects.push(effect), effect))
  const tools = [
    Toolset.make(
      "world",
      toolkit,
      toolkit.toLayer({
        delete: ({ path }) => note(`deleted ${path}`),
        pay: ({ to }) =>
          Effect.orDie(
            Effect.flatMap(Ask.form(Schema.Int, { title: "How much?" }), (euros) => note(`${euros} to ${to}`))
          )
      })
    )
  ]
  const store = SessionStore.layerSqlite({ path: join(folder, "state.db") })
  /** Runs an effect in a runtime as another process has it. */
  const inProcess = <A, E, R>(
    turns: ReadonlyArray<Parameters<typeof Scripted.complete>[0]>,
    effect: Effect.Effect<A, E, R>
  ) =>
    Effect.provide(
      effect,
      Layer.fresh(
        Runtime.layer({ provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))), tools, store })
      )
    )
  return { effects, inProcess }
})

const suspend = Agent.run({ prompt: "tidy up", sessionId, questions: { unanswered: "suspend", wait: 0 } })

describe("a session that waits", () => {
  it.live("asks its questions in a conversation, checks the answers, and continues", () =>
    Effect.gen(function* () {
      const { effects, inProcess } = yield* makeWorld
      const { exit } = yield* inProcess([{ toolCalls: calls }], suspend)
      assert.strictEqual(exit, "suspended")
      yield* inProcess(
        [{ text: "all done" }],
        Effect.gen(function* () {
          const live = yield* LiveSession.make({ session: { id: sessionId }, forms: "client" })
          const reader = yield* live.subscribe()
          assert.isTrue(yield* live.askWaiting)
          const asked = (yield* untilTag(reader, "QuestionAsked")).at(-1)
          if (asked?._tag !== "QuestionAsked" || asked.question._tag !== "Approval") return assert.fail("no approval")
          assert.deepInclude(asked.question.question, {
            tool: "delete",
            choices: ["once", "session", "always", "deny"]
          })
          yield* live.answer(asked.question.id, { _tag: "Approval", reply: { choice: "once" } })
          for (const words of ["much", "20"]) {
            const form = (yield* untilTag(reader, "QuestionAsked")).at(-1)
            if (form?._tag !== "QuestionAsked" || form.question._tag !== "Clarification") return assert.fail("no form")
            assert.include(form.question.question.question, "How much?")
            if (words === "20") assert.include(form.question.question.question, "The answer does not fit")
            yield* live.answer(form.question.id, { _tag: "Clarification", answers: [words] })
          }
          const rest = yield* until(reader, ({ _tag }) => _tag === "TurnEnded")
          assert.include(lines(rest).join("\n"), "all done")
          assert.isFalse(yield* live.askWaiting)
        }).pipe(Effect.scoped)
      )
      assert.sameMembers(effects, ["deleted a.txt", "20 to Bob"])
    }).pipe(Effect.scoped)
  )

  it.live("keeps waiting if the user stops before an answer", () =>
    Effect.gen(function* () {
      const { effects, inProcess } = yield* makeWorld
      yield* inProcess([{ toolCalls: calls }], suspend)
      yield* inProcess(
        [],
        Effect.gen(function* () {
          const live = yield* LiveSession.make({ session: { id: sessionId } })
          const reader = yield* live.subscribe()
          yield* live.askWaiting
          yield* untilTag(reader, "QuestionAsked")
          yield* live.stop
          yield* untilTag(reader, "TurnEnded")
          assert.strictEqual((yield* Agent.questions(sessionId)).length, 1)
        }).pipe(Effect.scoped)
      )
      assert.deepStrictEqual(effects, [])
    }).pipe(Effect.scoped)
  )
})
