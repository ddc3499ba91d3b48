// The tool `memory`: its answers, its failures in a turn, and that a session's prompt stays as it was.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as MemoryStore from "../../src/tools/prompt/MemoryStore.ts"
import * as SystemPrompt from "../../src/tools/prompt/SystemPrompt.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as MemoryTool from "../../src/tools/builtin/MemoryTool.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const memory = (limit = 100) =>
  Layer.unwrap(
    Effect.map(temporaryDirectory, (home) =>
      MemoryStore.layer({
        directory: join(home, "memories"),
        database: join(home, "state.db"),
        limits: { memory: limit, user: 50 }
      })
    )
  ).pipe(Layer.provide(NodeServices.layer))

const bound = Effect.map(
  MemoryTool.toolset.bind,
  ([tool]) =>
    (params: unknown, turn = "t1") =>
      tool === undefined
        ? Effect.die("no tool")
        : Effect.map(
            tool
              .run(params, "c")
              .pipe(
                Effect.provideService(ToolContext, {
                  sessionId: SessionId.make("s"),
                  turnId: TurnId.make(turn),
                  taskId: TaskId.make("s"),
                  cwd: "/"
                })
              ),
            ({ output }) => output
          )
)

describe("the tool memory", () => {
  it.effect("says what it saved and how full it is; several changes are one", () =>
    Effect.gen(function* () {
      const call = yield* bound
      assert.deepStrictEqual(yield* call({ action: "add", target: "user", content: "likes tabs" }), {
        success: true,
        done: true,
        target: "user",
        usage: "20% — 10/50 chars",
        entry_count: 1,
        message: "Saved. It shows in the prompts of later sessions."
      })
      const changes = [
        { action: "add", content: "a" },
        { action: "add", content: "b" },
        { action: "remove", old_text: "a" }
      ]
      assert.deepInclude(yield* call({ operations: changes }), { target: "memory", entry_count: 1 })
      const half = [
        { action: "add", content: "kept?" },
        { action: "remove", old_text: "nothing like it" }
      ]
      assert.deepInclude(yield* call({ operations: half }), { success: false, current_entries: ["b", "kept?"] })
      assert.deepInclude(
        yield* call({ action: "add", content: "c" }),
        { entry_count: 2 },
        "nothing of the change was made"
      )
    }).pipe(Effect.scoped, Effect.provide(memory()))
  )

  it.effect("after three failures in a turn the model is told to stop; the next turn begins anew", () =>
    Effect.gen(function* () {
      const call = yield* bound
      const errors = [yield* call({}), yield* call({}), yield* call({}), yield* call({}, "t2")]
      const plain = "nothing to do: give action, or operations"
      assert.deepStrictEqual(
        errors.map((answer) => (answer as { readonly error: string }).error),
        [
          plain,
          plain,
          `${plain}. This was failure 3 of this turn: do not call memory again, go on with the task.`,
          plain
        ]
      )
    }).pipe(Effect.scoped, Effect.provide(memory()))
  )

  it.effect(
    "five turns of a session have one prompt, also after a write in the second; the next session shows it (case 25)",
    () =>
      Effect.gen(function* () {
        const store = yield* MemoryStore.MemoryStore
        yield* store.change("memory", [{ action: "add", content: "before" }])
        const save = Scripted.complete({
          toolCalls: [{ name: "memory", params: { action: "add", content: "the build wants Node 24" } }]
        })
        const done = Scripted.complete("ok")
        const script = yield* Scripted.make([done, save, done, done, done, done, done])
        yield* Effect.provide(
          Effect.gen(function* () {
            for (let turn = 0; turn < 5; turn++) yield* Agent.run({ prompt: `turn ${turn}`, sessionId: "s1" })
            yield* Agent.run({ prompt: "another", sessionId: "s2" })
          }),
          Runtime.layer({
            provider: Layer.succeed(Provider, script.provider),
            tools: [MemoryTool.toolset],
            store: SessionStore.layerMemory
          }).pipe(Layer.provide(SystemPrompt.layerSources({ memory: store.blocks })), Layer.provide(NodeServices.layer))
        )
        const prompts = (yield* script.inspection.calls).map(({ messages }) => JSON.stringify(messages[0]))
        assert.strictEqual(prompts.length, 7)
        assert.deepStrictEqual(new Set(prompts.slice(0, 6)).size, 1)
        assert.include(prompts[0], "before")
        assert.notInclude(prompts[0], "Node 24")
        assert.include(prompts[6], "before\\n§\\nthe build wants Node 24")
      }).pipe(Effect.provide(memory()))
  )
})
