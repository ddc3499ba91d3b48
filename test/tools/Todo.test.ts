import { assert, describe, it } from "@effect/vitest"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Json from "../../src/base/domain/Json.ts"
import { Agent, Runtime, Scripted, SessionStore } from "../../src/index.ts"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import { effectProp } from "../support/property.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const bound = Effect.map(
  Todo.toolset.bind,
  ([tool]) =>
    (params: unknown, session = "s1") =>
      tool === undefined
        ? Effect.die("no tool")
        : tool
            .run(params, "call_1")
            .pipe(
              Effect.provideService(ToolContext, {
                sessionId: SessionId.make(session),
                turnId: TurnId.make("t1"),
                taskId: TaskId.make(session),
                cwd: "/"
              })
            )
)

const item = (id: string, content: string, status: Todo.Status = "pending"): Todo.Item => ({ id, content, status })

describe("todo", () => {
  it.effect("without arguments it is read; items replace it; merge changes and extends it", () =>
    Effect.gen(function* () {
      const call = yield* bound
      assert.deepStrictEqual((yield* call({})).output, {
        todos: [],
        summary: { total: 0, pending: 0, in_progress: 0, completed: 0, cancelled: 0 }
      })
      yield* call({ todos: [item("1", "read"), item("2", "write")] })
      const merged = yield* call({
        merge: true,
        todos: [
          { id: "1", status: "completed" },
          { id: "3", content: "test" }
        ]
      })
      assert.deepStrictEqual(merged.output, {
        todos: [item("1", "read", "completed"), item("2", "write"), item("3", "test")],
        summary: { total: 3, pending: 2, in_progress: 0, completed: 1, cancelled: 0 }
      })
      const replaced = yield* call({ todos: [{ id: "2", status: "in_progress" }] })
      assert.deepInclude(replaced.output, { todos: [item("2", "write", "in_progress")] })
      assert.deepStrictEqual((yield* call({})).output, replaced.output)
      assert.deepInclude((yield* call({}, "s2")).output, { todos: [] }, "each session has its own")
    }).pipe(Effect.scoped, Effect.provide(Todo.layer))
  )

  it.effect("what does not fit is an error and changes nothing", () =>
    Effect.gen(function* () {
      const call = yield* bound
      yield* call({ todos: [item("1", "read")] })
      for (const [todos, reason] of [
        [[{ id: "2" }], "no content"],
        [[item(" ", "x")], "no id"],
        [[item("2", "x".repeat(4_001))], "4001 characters"],
        [Array.from({ length: 257 }, (_, n) => item(`n${n}`, "x")), "257 items"]
      ] as const) {
        const { isFailure, output } = yield* call({ todos, merge: false })
        assert.isTrue(isFailure)
        assert.include(JSON.stringify(output), reason)
      }
      assert.deepInclude((yield* call({})).output, { todos: [item("1", "read")] })
      assert.isFalse(
        (yield* call({ todos: Array.from({ length: 256 }, (_, n) => item(`n${n}`, "x".repeat(4_000))) })).isFailure
      )
    }).pipe(Effect.scoped, Effect.provide(Todo.layer))
  )

  it.effect("a list comes back from the history of its session in another runtime", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "state.db")
      /** Runs a model that makes these calls, and returns the lists that it is answered. */
      const run = (params: ReadonlyArray<object>, session: string) =>
        Effect.gen(function* () {
          yield* Agent.run({ prompt: "go", sessionId: session })
          const { messages } = yield* SessionStore.SessionStore
          const results = (yield* messages(SessionId.make(session)))
            .flatMap((message) => (message.role === "tool" ? message.content : []))
            .filter((part) => part.type === "tool-result")
          return results
            .slice(-params.length)
            .map(({ isFailure, result }) => (isFailure ? "failed" : Object(Json.parseOrKeep(String(result))).todos))
        }).pipe(
          Effect.provide(
            Runtime.layer({
              provider: Scripted.layer([
                Scripted.complete({ toolCalls: params.map((one) => ({ name: "todo", params: one })) }),
                Scripted.complete("done")
              ]),
              store: Layer.fresh(SessionStore.layerSqlite({ path })),
              tools: [Todo.toolset]
            }),
            { local: true }
          )
        )
      const list = [item("1", "read", "completed"), item("2", "write")]
      yield* run([{ todos: list }, { todos: [{ id: " " }] }], "s")
      assert.deepStrictEqual(yield* run([{}], "s"), [list])
      assert.deepStrictEqual(yield* run([{ merge: true, todos: [{ id: "2", status: "in_progress" }] }], "s"), [
        [list[0], item("2", "write", "in_progress")]
      ])
      assert.deepStrictEqual(yield* run([{}], "s2"), [[]])
    })
  )

  effectProp(
    "merging items and then nothing changes nothing, and every id stands once",
    [
      Schema.Array(
        Schema.Struct({
          id: Schema.Literals(["a", "b", "c"]),
          content: Schema.Literals(["x", "y"]),
          status: Todo.Status
        })
      ),
      Schema.Boolean
    ],
    ([items, merge]) =>
      Effect.sync(() => {
        const list = Result.getOrThrow(Todo.update([], items, merge))
        assert.strictEqual(new Set(list.map(({ id }) => id)).size, list.length)
        assert.deepStrictEqual(Result.getOrThrow(Todo.update(list, [], true)), list)
        assert.deepStrictEqual(Result.getOrThrow(Todo.update(list, list, false)), list)
      })
  )
})
