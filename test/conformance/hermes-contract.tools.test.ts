// The cases of the hook contract about tool calls that a run may not make, and about calls that an interrupt cuts.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { ExecutionBlocked } from "../../src/base/domain/AgentError.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { HookEvents } from "../../src/hooks/Payloads.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../src/tools/approval/ApprovalOrder.ts"
import { makeCallbackApprover, makePendingQueue } from "../../src/tools/approval/Approver.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const Delete = Tool.make("delete", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Wait = Tool.make("wait", {
  parameters: Schema.Struct({ seconds: Schema.Finite }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo, Delete, Wait)

const setup = (fake: Fake.Fake, middleware: ReadonlyArray<Middleware.ToolRequest> = []) => {
  const ran: Array<string> = []
  const asked: Array<string> = []
  const ended: Array<HookEvents["post_tool_call"]> = []
  const sessions: Array<HookEvents["on_session_end"]> = []
  const waiting = Deferred.makeUnsafe<void>()
  const handler = ({ text }: { readonly text: string }) => Effect.sync(() => (ran.push(text), text))
  const handlers = toolkit.toLayer({
    echo: handler,
    delete: handler,
    wait: ({ seconds }) =>
      Effect.andThen(
        seconds > 10 ? Deferred.succeed(waiting, undefined) : Effect.void,
        Effect.as(Effect.sleep(Duration.seconds(seconds)), "slept")
      )
  })
  const layer = Agent.layer({ cwd: "/tmp", middleware }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)]),
        Hooks.layer([
          Hooks.on("pre_tool_call", ({ tool_name }) => Effect.sync(() => void asked.push(tool_name))),
          Hooks.on("post_tool_call", (event) => Effect.sync(() => void ended.push(event))),
          Hooks.on("on_session_end", (event) => Effect.sync(() => void sessions.push(event)))
        ])
      )
    )
  )
  return { ran, asked, ended, sessions, waiting, layer }
}

const results = Effect.fnUntraced(function* (sessionId: SessionId) {
  const messages = yield* (yield* SessionStore.SessionStore).messages(sessionId)
  return messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" ? [[part.id, String(part.result)] as const] : []
        )
      : []
  )
})

describe("hermes-contract.md, calls that do not run", () => {
  it.effect(
    "unknown tools, malformed arguments and vetoes of tool_request are told as every other call: one opening, one closing event",
    () => {
      // No valid call runs beside an unknown one.
      const unknown = Fake.calls(Fake.call("c1", "frobnicate", { text: "a" }))
      const calls = Fake.calls(
        Fake.call("c2", "echo", [1]),
        Fake.call("c3", "echo", { text: "veto" }),
        Fake.call("c4", "echo", { text: "break" })
      )
      const { asked, ended, layer, ran } = setup(Fake.make(unknown, calls, Fake.text("done")), [
        Middleware.toolRequest({
          name: "policy",
          onFailure: "closed",
          rewrite: ({ text }) =>
            text === "veto"
              ? Effect.fail(new ExecutionBlocked({ reason: "not today", metadata: {} }))
              : Effect.die(new Error("the policy broke"))
        })
      ])
      return Effect.gen(function* () {
        yield* Agent.run({ prompt: "go" })
        assert.deepStrictEqual([ran, asked], [[], ["frobnicate", "echo", "echo", "echo"]])
        assert.deepStrictEqual(
          ended.map(({ duration_ms, error_type, status, tool_call_id }) => [
            tool_call_id,
            status,
            error_type,
            duration_ms
          ]),
          [
            ["c1", "error", "tool_error", 0],
            ["c2", "error", "tool_error", 0],
            ["c3", "blocked", "plugin_block", 0],
            ["c4", "blocked", "plugin_block", 0]
          ]
        )
        assert.include(ended[0]?.error_message, "Tool 'frobnicate' does not exist")
        assert.deepStrictEqual([ended[0]?.args, ended[1]?.args, ended[2]?.args], [{ text: "a" }, {}, { text: "veto" }])
        assert.include(ended[1]?.error_message, "are not a JSON object")
        assert.strictEqual(ended[2]?.error_message, "blocked by middleware: not today")
        assert.strictEqual(
          ended[3]?.error_message,
          'tool_request middleware "policy" failed and is registered to fail closed: Error: the policy broke'
        )
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect(
    "70 a tool that the run may not use: blocked with the run's own text, listeners that could block are not asked",
    () => {
      const calls = Fake.calls(Fake.call("c1", "delete", { text: "a" }), Fake.call("c2", "echo", { text: "b" }))
      const fake = Fake.make(calls, Fake.text("done"), calls, Fake.text("done"))
      const { asked, ended, layer, ran } = setup(fake)
      return Effect.gen(function* () {
        const tools = {
          tool: (name: string) => name !== "delete",
          refusal: (name: string) => `no ${name} on this thread`
        }
        yield* Agent.run({ prompt: "go", tools })
        assert.deepStrictEqual([ran, asked], [["b"], ["echo"]])
        const [scope] = ended.filter(({ tool_name }) => tool_name === "delete")
        assert.deepInclude(scope, {
          status: "blocked",
          error_type: "tool_scope_block",
          error_message: "no delete on this thread",
          result: JSON.stringify({ error: "no delete on this thread" }),
          tool_name: "delete"
        })
        yield* Agent.run({ prompt: "go" })
        assert.sameMembers(ran, ["b", "a", "b"], "another run is not affected")
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("70 without a text of its own the model is told what there is, and a run that insists ends", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "delete", { text: "a" })))
    const { ended, layer } = setup(fake)
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", tools: { tool: (name) => name !== "delete" } })
      assert.strictEqual(
        ended[0]?.error_message,
        "'delete' is not available in this session. Available tools: echo, wait"
      )
      assert.deepInclude(result, { exit: "invalid_tool_calls", steps: 3 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("112 a question to a messenger that nobody answers, or answers with nothing, is a timeout", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      const choices: Array<string> = []
      yield* hooks.register(
        Hooks.on("post_approval_response", ({ choice }) => Effect.sync(() => void choices.push(choice)))
      )
      const check = (approvals: Approvals.Service) =>
        approvals.check({ tool: "terminal", args: { command: "rm -rf build" } })
      const desk = makePendingQueue({ surface: "gateway", timeout: Duration.seconds(300), notify: () => Effect.void })
      const fiber = yield* Effect.forkChild(check(ApprovalOrder.make({ hooks, approver: desk.approver })))
      yield* TestClock.adjust("300 seconds")
      const unanswered = yield* Fiber.join(fiber)
      const nothing = yield* check(
        ApprovalOrder.make({
          hooks,
          approver: makeCallbackApprover(() => Effect.succeed(null), { surface: "gateway" })
        })
      )
      assert.deepStrictEqual([unanswered._tag, nothing._tag], ["Refusal", "Refusal"])
      assert.deepStrictEqual(choices, ["timeout", "timeout"])
    })
  )

  for (const [how, second] of [
    ["sequential", 60],
    ["parallel", 60]
  ] as const) {
    it.effect(
      `109 and 116 an interrupt inside a ${how} batch: the call that ran is cancelled, the result of the other is kept, the run ends interrupted`,
      () => {
        const first = Fake.call("c1", "wait", { seconds: 1 })
        const cut = Fake.call("c2", "wait", { seconds: second })
        const alone = Fake.call("c3", "delete", { text: "never" })
        const fake = Fake.make(how === "parallel" ? Fake.calls(first, cut) : Fake.calls(first, cut, alone))
        const { ended, layer, ran, sessions, waiting } = setup(fake)
        return Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
          yield* TestClock.adjust("2 seconds")
          yield* Deferred.await(waiting)
          yield* Fiber.interrupt(fiber)
          assert.sameDeepMembers(
            ended.map(({ error_type, status, tool_call_id }) => [tool_call_id, status, error_type]),
            [
              ["c1", "ok", null],
              ["c2", "cancelled", "keyboard_interrupt"],
              ...(how === "parallel" ? [] : [["c3", "cancelled", "keyboard_interrupt"]])
            ]
          )
          const [session] = sessions
          assert.lengthOf(sessions, 1)
          assert.deepInclude(session, { completed: false, interrupted: true, reason: "keyboard_interrupt" })
          assert.strictEqual(session?.api_request_id, ended[0]?.api_request_id)
          assert.strictEqual(session?.turn_id, ended[0]?.turn_id)
          const kept = yield* results(SessionId.make("s1"))
          assert.deepStrictEqual(kept[0], ["c1", "slept"])
          assert.deepStrictEqual(
            kept.map(([id]) => id),
            how === "parallel" ? ["c1", "c2"] : ["c1", "c2", "c3"]
          )
          assert.deepStrictEqual(ran, [])
        }).pipe(Effect.provide(layer))
      }
    )
  }
})
