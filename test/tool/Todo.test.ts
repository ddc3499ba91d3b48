import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Conversation from "../../src/domain/Conversation.ts"
import { SessionId, TaskId, TurnId } from "../../src/domain/Ids.ts"
import * as Todo from "../../src/tool/builtin/Todo.ts"
import { ToolContext } from "../../src/tool/ToolContext.ts"
import { effectProp } from "../support/property.ts"

const bound = Effect.map(Todo.toolset.bind, ([tool]) => (params: unknown, session = "s1") =>
  tool === undefined
    ? Effect.die("no tool")
    : tool.run(params, "call_1").pipe(Effect.provideService(ToolContext, {
      sessionId: SessionId.make(session),
      turnId: TurnId.make("t1"),
      taskId: TaskId.make(session),
      cwd: "/"
    })))

const item = (id: string, content: string, status: Todo.Status = "pending"): Todo.Item => ({ id, content, status })

describe("todo", () => {
  it.effect("without arguments it is read; items replace it; merge changes and extends it", () =>
    Effect.gen(function*() {
      const call = yield* bound
      assert.deepStrictEqual((yield* call({})).output, {
        todos: [],
        summary: { total: 0, pending: 0, in_progress: 0, completed: 0, cancelled: 0 }
      })
      yield* call({ todos: [item("1", "read"), item("2", "write")] })
      const merged = yield* call({ merge: true, todos: [{ id: "1", status: "completed" }, { id: "3", content: "test" }] })
      assert.deepStrictEqual(merged.output, {
        todos: [item("1", "read", "completed"), item("2", "write"), item("3", "test")],
        summary: { total: 3, pending: 2, in_progress: 0, completed: 1, cancelled: 0 }
      })
      const replaced = yield* call({ todos: [{ id: "2", status: "in_progress" }] })
      assert.deepInclude(replaced.output, { todos: [item("2", "write", "in_progress")] })
      assert.deepStrictEqual((yield* call({})).output, replaced.output)
      assert.deepInclude((yield* call({}, "s2")).output, { todos: [] }, "each session has its own")
    }).pipe(Effect.scoped, Effect.provide(Todo.layer)))

  it.effect("what does not fit is an error and changes nothing", () =>
    Effect.gen(function*() {
      const call = yield* bound
      yield* call({ todos: [item("1", "read")] })
      for (
        const [todos, reason] of [
          [[{ id: "2" }], "no content"],
          [[item(" ", "x")], "no id"],
          [[item("2", "x".repeat(4_001))], "4001 characters"],
          [Array.from({ length: 257 }, (_, n) => item(`n${n}`, "x")), "257 items"]
        ] as const
      ) {
        const { isFailure, output } = yield* call({ todos, merge: false })
        assert.isTrue(isFailure)
        assert.include(JSON.stringify(output), reason)
      }
      assert.deepInclude((yield* call({})).output, { todos: [item("1", "read")] })
      assert.isFalse((yield* call({ todos: Array.from({ length: 256 }, (_, n) => item(`n${n}`, "x".repeat(4_000))) })).isFailure)
    }).pipe(Effect.scoped, Effect.provide(Todo.layer)))

  it("a list comes back from the history of its session, whatever came after it", () => {
    const call = { id: "c", name: "todo" }
    const answer = (todos: ReadonlyArray<Todo.Item>) => ({
      todos,
      summary: { total: todos.length, pending: todos.length, in_progress: 0, completed: 0, cancelled: 0 }
    })
    const messages = [
      Conversation.toolResult(call, { output: JSON.stringify(answer([item("1", "old")])), isFailure: false }),
      Conversation.toolResult(call, { output: JSON.stringify(answer([item("2", "new")])), isFailure: false }),
      Conversation.toolResult(call, { output: JSON.stringify({ success: false, error: "no" }), isFailure: true }),
      Conversation.toolResult({ id: "d", name: "read_file" }, { output: "{}", isFailure: false })
    ]
    assert.deepStrictEqual(Todo.fromHistory(messages), [item("2", "new")])
    assert.deepStrictEqual(Todo.fromHistory([]), [])
  })

  it("only what is not done is carried through a compaction", () => {
    const list = [item("1", "read", "completed"), item("2", "write", "in_progress"), item("3", "test"), item("4", "x", "cancelled")]
    assert.strictEqual(
      Option.getOrThrow(Todo.carryOver(list)).split("\n").slice(1).join("\n"),
      "- [in_progress] 2: write\n- [pending] 3: test"
    )
    assert.isTrue(Option.isNone(Todo.carryOver([item("1", "read", "completed")])))
  })

  effectProp("merging items and then nothing changes nothing, and every id stands once", [
    Schema.Array(Schema.Struct({ id: Schema.Literals(["a", "b", "c"]), content: Schema.Literals(["x", "y"]), status: Todo.Status })),
    Schema.Boolean
  ], ([items, merge]) =>
    Effect.sync(() => {
      const list = Result.getOrThrow(Todo.update([], items, merge))
      assert.strictEqual(new Set(list.map(({ id }) => id)).size, list.length)
      assert.deepStrictEqual(Result.getOrThrow(Todo.update(list, [], true)), list)
      assert.deepStrictEqual(Result.getOrThrow(Todo.update(list, list, false)), list)
    }))
})
