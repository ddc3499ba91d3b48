// The record of a run says for each middleware how often it was called, how often it failed, and its own time.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../../src/index.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import { withWarnings } from "../support/middlewareContexts.ts"
import { running } from "../support/movingClock.ts"

const Note = Tool.make("note", { success: Schema.String })
const kit = Toolkit.make(Note)

const play = (middleware: ReadonlyArray<Middleware.Any>, streaming: boolean) => {
  const provider = Scripted.layer([
    Scripted.complete({ toolCalls: [{ name: "note" }], delay: "20 seconds" }),
    Scripted.complete("done")
  ])
  const layer = Runtime.layer({
    provider,
    tools: [Toolset.make("notes", kit, kit.toLayer({ note: () => Effect.as(Effect.sleep("7 seconds"), "noted") }))],
    middleware
    // The list differs from case to case.
  } as never) as Layer.Layer<Agent.Agent | RunRecord>
  return withWarnings(
    running(
      Effect.gen(function* () {
        const exit = yield* Effect.exit(Agent.run({ prompt: "go", streaming }))
        const entries = yield* Stream.runCollect((yield* RunRecord).read({ kinds: ["RunEnded"] }))
        const health = entries.map(({ event }) => (event._tag === "RunEnded" ? event.middleware : undefined))
        return { exit, health }
      }).pipe(Effect.provide(layer))
    )
  )
}

describe("health of middleware in the record", () => {
  for (const streaming of [true, false]) {
    it.effect(`has calls, faults and own time without the calls below (streaming ${streaming})`, () =>
      Effect.gen(function* () {
        const { value } = yield* play(
          [
            Middleware.llmExecution({
              name: "slow",
              wrap: (next) => (request) =>
                Effect.gen(function* () {
                  yield* Effect.sleep("1 second")
                  const answer = yield* next(request)
                  yield* Effect.sleep("2 seconds")
                  return answer
                })
            }),
            Middleware.llmExecution({ name: "passing", wrap: (next) => (request) => next(request) }),
            Middleware.llmRequest({
              name: "rewriting",
              rewrite: () => Effect.as(Effect.sleep("500 millis"), Middleware.unchanged)
            }),
            Middleware.toolExecution({
              name: "broken",
              wrap: (next) => (args) => Effect.andThen(next(args), Effect.die(new Error("no")))
            }),
            Middleware.lifecycle({ name: "phases", beforeTool: () => Effect.sleep("300 millis") })
          ],
          streaming
        )
        assert.isTrue(Exit.isSuccess(value.exit), String(value.exit))
        assert.sameDeepMembers(Array.from(value.health[0] ?? []), [
          { kind: "llm_execution", name: "slow", calls: 2, faults: 0, ownMillis: 6_000 },
          { kind: "llm_execution", name: "passing", calls: 2, faults: 0, ownMillis: 0 },
          { kind: "llm_request", name: "rewriting", calls: 2, faults: 0, ownMillis: 1_000 },
          { kind: "tool_execution", name: "broken", calls: 1, faults: 1, ownMillis: 0 },
          { kind: "before_tool", name: "phases", calls: 1, faults: 0, ownMillis: 300 }
        ])
      })
    )
  }

  it.effect("is there for a run that closed middleware ended, and absent without middleware", () =>
    Effect.gen(function* () {
      const closed = Middleware.llmExecution({
        name: "policy",
        onFailure: "closed",
        wrap: () => () => Effect.die(new Error("no"))
      })
      const { value } = yield* play([closed], false)
      assert.isTrue(Exit.isFailure(value.exit))
      assert.deepStrictEqual(value.health, [
        [{ kind: "llm_execution", name: "policy", calls: 1, faults: 1, ownMillis: 0 }]
      ])
      assert.deepStrictEqual((yield* play([], false)).value.health, [undefined])
    })
  )
})
