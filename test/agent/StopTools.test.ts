// A stop tool ends the run with its result, in whole runs, streamed and not.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings, RunOptions } from "../../src/agent/RunInput.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent, RunResult } from "../../src/base/domain/RunEvent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

const Submit = Tool.make("submit", {
  description: "Hands the work in",
  parameters: Schema.Struct({ score: Schema.Finite, broken: Schema.optionalKey(Schema.Boolean) }),
  success: Schema.Struct({ score: Schema.Finite, notes: Schema.Array(Schema.String) }),
  failure: Schema.String,
  failureMode: "return"
}).annotate(Tool.Readonly, true)
const CompleteTask = Tool.make("complete_task", {
  description: "Ends the task",
  parameters: Schema.Struct({ result: Schema.Unknown }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Slow = Tool.make("slow", { description: "Takes a while", success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Submit, CompleteTask, Slow)

interface World {
  readonly settings?: AgentSettings & { readonly middleware?: ReadonlyArray<Middleware.Contained> }
  readonly input?: Partial<RunOptions>
  readonly hooks?: ReadonlyArray<Hook>
}

/** Runs a scripted model once; gives the result with all that was shown, stored and told. */
const play = (turns: ReadonlyArray<Fake.Turn>, streaming: boolean, { hooks = [], input, settings }: World = {}) => {
  const fake = Fake.make(...turns)
  const ran: Array<string> = []
  const events: Array<RunEvent> = []
  const handlers = toolkit.toLayer({
    submit: ({ broken, score }) => (broken === true ? Effect.fail("no") : Effect.succeed({ score, notes: ["a"] })),
    complete_task: () => Effect.succeed("noted"),
    slow: () =>
      Effect.map(Effect.yieldNow, () => {
        ran.push("slow")
        return "slow result"
      })
  })
  const layer = Agent.layer({ cwd: "/tmp", stopTools: ["submit", "complete_task"], ...settings }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        Hooks.layer(hooks),
        RunRecord.layerMemory(),
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
      )
    )
  )
  const sessionId = "s-1"
  return Effect.gen(function* () {
    const result = yield* Agent.run({
      prompt: "do it",
      sessionId,
      streaming,
      onEvent: (some) => Effect.sync(() => void events.push(...some)),
      ...input
    })
    const store = yield* SessionStore.SessionStore
    const stored = yield* store.messages(SessionId.make(sessionId))
    const record = yield* RunRecord.RunRecord.use((record) => Stream.runCollect(record.read()))
    return { events, fake, ran, record, result, stored }
  }).pipe(Effect.provide(layer))
}

const submit = (id: string, score: number) => Fake.call(id, "submit", { score })
const roles = (messages: ReadonlyArray<Prompt.Message>) => messages.map(({ role }) => role)
const shown = (events: ReadonlyArray<RunEvent>) =>
  events.flatMap((event) => (event._tag === "TextDelta" ? [event.text] : [])).join("")
const ending = ({ endedBy, exit, text }: RunResult) => ({ endedBy, exit, text })
const wanted: Pick<RunResult, "endedBy" | "exit" | "text"> = {
  endedBy: "submit",
  exit: "stop_tool_triggered",
  text: '{\n  "score": 3,\n  "notes": [\n    "a"\n  ]\n}'
}

describe.each([false, true])("a stop tool, streaming %s", (streaming) => {
  it.effect("ends the run with its result as indented JSON; the model is not called again", () =>
    Effect.gen(function* () {
      const { events, fake, record, result, stored } = yield* play(
        [Fake.calls(submit("c1", 3)), Fake.text("never")],
        streaming
      )
      const ended = record.flatMap(({ event }) => (event._tag === "RunEnded" ? [event] : []))
      assert.deepInclude(ended[0], wanted)
      assert.deepInclude(ending(result), wanted)
      assert.strictEqual(fake.executed.length, 1)
      assert.deepStrictEqual(roles(stored), ["user", "assistant", "tool"])
      assert.strictEqual(shown(events), wanted.text)
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag).filter((tag) => tag.startsWith("Step") || tag === "RunFinished"),
        ["StepStarted", "StepFinished", "RunFinished"]
      )
    })
  )

  it.effect("named complete_task gives its argument `result`", () =>
    Effect.gen(function* () {
      const text = yield* play([Fake.calls(Fake.call("c1", "complete_task", { result: "all done" }))], streaming)
      assert.deepInclude(text.result, { exit: "stop_tool_triggered", text: "all done", endedBy: "complete_task" })
      const value = yield* play([Fake.calls(Fake.call("c1", "complete_task", { result: { a: [1] } }))], streaming)
      assert.strictEqual(value.result.text, '{\n  "a": [\n    1\n  ]\n}')
    })
  )

  it.effect("lets the other calls of the answer end first, and the first stop tool counts", () =>
    Effect.gen(function* () {
      const { ran, result, stored } = yield* play(
        [Fake.calls(submit("c1", 3), Fake.call("c2", "slow", {}), submit("c3", 9)), Fake.text("never")],
        streaming
      )
      assert.deepInclude(ending(result), wanted)
      assert.deepStrictEqual(ran, ["slow"])
      const results = stored.flatMap((message) => (message.role === "tool" ? message.content : []))
      assert.deepStrictEqual(
        results.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.isFailure]] : [])).sort(),
        [
          ["c1", false],
          ["c2", false],
          ["c3", false]
        ]
      )
    })
  )

  it.effect("that fails or is blocked does not end the run", () =>
    Effect.gen(function* () {
      const failed = yield* play(
        [Fake.calls(Fake.call("c1", "submit", { score: 1, broken: true })), Fake.text("again")],
        streaming
      )
      assert.deepInclude(ending(failed.result), { exit: "text_response", text: "again" })
      const malformed = yield* play(
        [Fake.calls(Fake.call("c1", "submit", { score: "high" })), Fake.text("again")],
        streaming
      )
      assert.deepInclude(ending(malformed.result), { exit: "text_response", text: "again" })
      const blocked = yield* play([Fake.calls(submit("c1", 3)), Fake.text("again")], streaming, {
        hooks: [Hooks.on("pre_tool_call", () => Effect.succeed({ action: "block", message: "not yet" }))]
      })
      assert.deepInclude(ending(blocked.result), { exit: "text_response", text: "again" })
      const removed = yield* play([Fake.calls(submit("c1", 3)), Fake.text("again")], streaming, {
        settings: { middleware: [Middleware.lifecycle({ name: "gate", beforeTool: () => Middleware.deny("closed") })] }
      })
      assert.deepInclude(ending(removed.result), { exit: "text_response", text: "again" })
    })
  )

  it.effect("does not end a run whose user has said something that the model has not read", () =>
    Effect.gen(function* () {
      const { fake, result } = yield* play([Fake.calls(submit("c1", 3)), Fake.text("as you say")], streaming, {
        input: { hasUnreadMessage: () => true }
      })
      assert.deepInclude(ending(result), { exit: "text_response", text: "as you say" })
      assert.strictEqual(fake.executed.length, 2)
    })
  )

  it.effect("is told to after_agent, hooks and the record by its name", () =>
    Effect.gen(function* () {
      const told: Array<unknown> = []
      const { result } = yield* play([Fake.calls(submit("c1", 3))], streaming, {
        hooks: [
          Hooks.on("on_session_end", ({ completed, reason }) => Effect.sync(() => void told.push([completed, reason]))),
          Hooks.on("post_llm_call", ({ assistant_response, response_transformed }) =>
            Effect.sync(() => void told.push([assistant_response, response_transformed]))
          )
        ],
        settings: {
          middleware: [
            Middleware.lifecycle({
              name: "ends",
              afterAgent: ({ agentResponse, stopReason }) => void told.push([stopReason, agentResponse])
            })
          ]
        }
      })
      assert.deepInclude(ending(result), wanted)
      assert.notProperty(result, "responseTransformed")
      assert.deepStrictEqual(told, [
        [wanted.text, undefined],
        ["STOP_TOOL_TRIGGERED", wanted.text],
        [true, "stop_tool_triggered"]
      ])
    })
  )
})

describe("stop tools", () => {
  it.effect("of a run replace the agent's; a text and a preamble are shown apart", () =>
    Effect.gen(function* () {
      const preamble: Fake.Turn = () =>
        Effect.succeed(
          Fake.answer([Response.makePart("text", { text: "Let me finish." }), submit("c1", 3)], "tool-calls")
        )
      const kept = yield* play([preamble, Fake.text("done")], true, { input: { stopTools: [] } })
      assert.deepInclude(ending(kept.result), { exit: "text_response", text: "done" })
      const ended = yield* play([preamble], true, { settings: { stopTools: [] }, input: { stopTools: ["submit"] } })
      assert.strictEqual(shown(ended.events), `Let me finish.\n\n${wanted.text}`)
    })
  )

  it.effect("end a run that was killed after the call, when it continues, without the model", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.calls(submit("c1", 3)), Fake.text("never"))
      const handlers = toolkit.toLayer({
        submit: ({ score }) => Effect.succeed({ score, notes: ["a"] }),
        complete_task: () => Effect.succeed("noted"),
        slow: () => Effect.succeed("slow result")
      })
      const layer = Agent.layer({ cwd: "/tmp", stopTools: ["submit"] }).pipe(
        Layer.provideMerge(
          Layer.mergeAll(
            fake.router,
            SessionStore.layerMemory,
            ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
          )
        )
      )
      const { again, next } = yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "do it", sessionId: "s-1" })
        const again = yield* Agent.run({ prompt: "do it", sessionId: "s-1", goesOn: true, openCalls: "run" })
        const next = yield* Agent.run({ prompt: "and now?", sessionId: "s-1" })
        return { again, next }
      }).pipe(Effect.provide(layer))
      assert.deepInclude(ending(again), wanted)
      assert.deepInclude(ending(next), { exit: "text_response", text: "never" })
      assert.strictEqual(fake.executed.length, 2)
    })
  )

  it.effect("that do not exist are one warning when the agent is made", () =>
    Effect.gen(function* () {
      const { warnings } = yield* withWarnings(
        play([Fake.text("x")], false, { settings: { stopTools: ["sumbit", "nothing_like_it", "slow"] } })
      )
      assert.strictEqual(warnings.length, 1)
      assert.match(
        String(warnings[0]),
        /stop_tools: there is no tool "sumbit" \(did you mean submit\?\), "nothing_like_it"/
      )
    })
  )
})
