// A run that is asked to stop while a command runs: the command ends with what it wrote, and nothing else begins.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = SessionId.make("stopped")

describe("a run that is asked to stop", () => {
  it.live("keeps what its command wrote, with exit code 130 and a marker; calls that wait do not begin", () =>
    Effect.gen(function* () {
      const cwd = yield* temporaryDirectory
      const fake = Fake.make(
        Fake.calls(
          Fake.call("c1", "terminal", { command: "echo partial; exec sleep 1000" }),
          Fake.call("c2", "terminal", { command: "echo second" })
        ),
        Fake.text("never asked")
      )
      const allowed = (call: Approvals.Call) =>
        Effect.succeed<Approvals.Permit>({ _tag: "Permit", call, by: "user", choice: "once" })
      const runtime = Runtime.layer({
        provider: Layer.succeed(Provider, fake.provider),
        cwd,
        tools: [TerminalTools.toolset],
        hooks: [
          Hooks.on("post_tool_call", ({ error_type, status, tool_call_id }) =>
            Effect.sync(() => void heard.push([tool_call_id, status, error_type]))
          )
        ],
        approvals: Layer.mock(Approvals.Approvals, { check: allowed })
      })
      const heard: Array<ReadonlyArray<unknown>> = []
      const wrote = yield* Deferred.make<void>()
      const ended: Array<readonly [string, string]> = []
      const { messages, result } = yield* Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const store = yield* SessionStore.SessionStore
        const fiber = yield* Effect.forkChild(
          agent.run({
            prompt: "go",
            sessionId: id,
            streaming: true,
            onEvent: (events) =>
              Effect.gen(function* () {
                for (const event of events) {
                  if (event._tag === "ToolFinished") ended.push([event.callId, event.status])
                  if (event._tag === "ToolProgress" && event.text.includes("partial"))
                    yield* Deferred.succeed(wrote, undefined)
                }
              })
          })
        )
        yield* Deferred.await(wrote)
        assert.isTrue(yield* agent.stop(id))
        return { result: yield* Fiber.join(fiber), messages: yield* store.messages(id) }
      }).pipe(Effect.provide(runtime))
      assert.strictEqual(result.exit, "interrupted_by_user")
      const results = messages.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, String(part.result)]] : []))
          : []
      )
      assert.deepStrictEqual(results[0], [
        "c1",
        JSON.stringify({ output: "partial\n[Command interrupted]", exit_code: 130, error: null })
      ])
      assert.strictEqual(results[1]?.[0], "c2")
      assert.notInclude(results[1]?.[1], "second")
      assert.deepStrictEqual(ended, [
        ["c1", "cancelled"],
        ["c2", "cancelled"]
      ])
      assert.deepStrictEqual(heard[0], ["c1", "cancelled", "keyboard_interrupt"])
      assert.strictEqual(fake.executed.length, 1)
    })
  )
})
