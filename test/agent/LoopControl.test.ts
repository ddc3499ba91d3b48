// Control of the loop by lifecycle methods, in whole runs, streamed and not.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings, RunOptions } from "../../src/agent/RunInput.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent, RunResult } from "../../src/base/domain/RunEvent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as PlainLifecycle from "../../src/middleware/PlainLifecycle.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)

interface World {
  readonly settings?: AgentSettings
  readonly inputs?: ReadonlyArray<Partial<RunOptions>>
  readonly hooks?: ReadonlyArray<Hook>
}

/** Runs a scripted model; gives the results with all that was shown, stored and told. */
const play = (
  turns: ReadonlyArray<Fake.Turn>,
  middleware: ReadonlyArray<Middleware.Contained>,
  streaming: boolean,
  { hooks = [], inputs = [{}], settings }: World = {}
) => {
  const fake = Fake.make(...turns)
  const ran: Array<string> = []
  const events: Array<RunEvent> = []
  const handlers = toolkit.toLayer({
    echo: ({ text }) =>
      Effect.sync(() => {
        ran.push(text)
        return `echo ${text}`
      })
  })
  const layer = Agent.layer({ cwd: "/tmp", middleware, ...settings }).pipe(
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
    const exits: Array<Exit.Exit<RunResult, unknown>> = []
    for (const input of inputs) {
      exits.push(
        yield* Effect.exit(
          Agent.run({
            prompt: "hello",
            sessionId,
            streaming,
            onEvent: (some) => Effect.sync(() => void events.push(...some)),
            ...input
          })
        )
      )
    }
    const store = yield* SessionStore.SessionStore
    const stored = yield* store.messages(SessionId.make(sessionId))
    const record = yield* RunRecord.RunRecord.use((record) => Stream.runCollect(record.read()))
    const results = exits.flatMap((exit) => (Exit.isSuccess(exit) ? [exit.value] : []))
    return { events, exits, fake, ran, record, result: results[0], results, stored }
  }).pipe(Effect.provide(layer))
}

const echo = (id: string, text: string) => Fake.call(id, "echo", { text })
const said =
  (text: string, ...calls: ReadonlyArray<ReturnType<typeof Fake.call>>): Fake.Turn =>
  () =>
    Effect.succeed(
      Fake.answer([Response.makePart("text", { text }), ...calls], calls.length > 0 ? "tool-calls" : "stop")
    )

/** Roles with their texts, results in short. */
const outline = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.map((message) =>
    message.role === "tool"
      ? `tool ${message.content.map((part) => (part.type === "tool-result" ? part.id : part.type)).join(",")}`
      : `${message.role} ${Conversation.readText(message)}`
  )

/** Each call has one result; no two answers and no two prompts follow each other. */
const checkStored = (messages: ReadonlyArray<Prompt.Message>): void => {
  const calls = messages.flatMap((message) => (message.role === "assistant" ? Conversation.listToolCalls(message) : []))
  const results = messages.flatMap(Conversation.listResultIds)
  assert.deepStrictEqual([...results].sort(), calls.map(({ id }) => id).sort())
  messages.forEach((message, index) => {
    const next = messages[index + 1]
    if (message.role !== "tool") assert.notStrictEqual(message.role, next?.role)
  })
}

/** Text that a reader of the stream has at the end. */
const readShown = (events: ReadonlyArray<RunEvent>): string => {
  let text = ""
  const starts = new Map<number, number>()
  for (const event of events) {
    if (event._tag === "StepStarted") starts.set(event.step, text.length)
    if (event._tag === "TextDelta") text += event.text
    if (event._tag === "TextReplaced") text = text.slice(0, starts.get(event.stepId)) + event.text
  }
  return text
}

const brief = (result: RunResult | undefined) => [result?.exit, result?.endedBy, result?.text]

/** Counts the calls of the after methods of one more middleware. */
const countAfter = () => {
  const counts = { afterModel: 0, afterTool: 0, afterAgent: 0 }
  const entry = Middleware.lifecycle({
    name: "counts",
    afterModel: () => void counts.afterModel++,
    afterTool: () => void counts.afterTool++,
    afterAgent: () => void counts.afterAgent++
  })
  return { counts, entry }
}

describe.each([false, true])("control of the loop, streaming %s", (streaming) => {
  it.effect("before_agent ends the run with an answer; the model is not called", () =>
    Effect.gen(function* () {
      const { counts, entry } = countAfter()
      const cache = Middleware.lifecycle({ name: "cache", beforeAgent: () => Middleware.endWith("from the cache") })
      const { events, fake, record, result, stored } = yield* play([Fake.text("never")], [entry, cache], streaming)
      assert.deepStrictEqual(brief(result), ["ended_by_middleware", "cache", "from the cache"])
      assert.strictEqual(fake.executed.length, 0)
      assert.deepStrictEqual(outline(stored), ["user hello", "assistant from the cache"])
      assert.strictEqual(readShown(events), "from the cache")
      assert.deepStrictEqual(counts, { afterModel: 0, afterTool: 0, afterAgent: 1 })
      const ended = record.flatMap(({ event }) => (event._tag === "RunEnded" ? [event] : []))
      assert.deepInclude(ended[0], { exit: "ended_by_middleware", endedBy: "cache", text: "from the cache" })
    })
  )

  it.effect("before_model ends the run with an answer, also between tools", () =>
    Effect.gen(function* () {
      const { counts, entry } = countAfter()
      const limit = Middleware.lifecycle({
        name: "limit",
        beforeModel: ({ currentIteration }) =>
          currentIteration === 1 ? Middleware.endWith("that is enough") : Middleware.noChanges
      })
      const { events, fake, result, stored } = yield* play(
        [Fake.calls(echo("c1", "a")), Fake.text("never")],
        [entry, limit],
        streaming
      )
      assert.deepStrictEqual(brief(result), ["ended_by_middleware", "limit", "that is enough"])
      assert.strictEqual(fake.executed.length, 1)
      assert.deepStrictEqual(outline(stored), ["user hello", "assistant ", "tool c1", "assistant that is enough"])
      checkStored(stored)
      assert.strictEqual(readShown(events), "that is enough")
      assert.deepStrictEqual(counts, { afterModel: 1, afterTool: 1, afterAgent: 1 })
    })
  )

  it.effect("before_model runs tools instead of the model", () =>
    Effect.gen(function* () {
      const plan = Middleware.lifecycle({
        name: "plan",
        beforeModel: ({ currentIteration }) =>
          currentIteration === 0
            ? Middleware.goToTools([{ name: "echo", params: { text: "first" } }])
            : Middleware.noChanges
      })
      const { fake, ran, record, result, stored } = yield* play([Fake.text("done")], [plan], streaming)
      assert.deepStrictEqual(brief(result), ["text_response", undefined, "done"])
      assert.deepStrictEqual(ran, ["first"])
      assert.strictEqual(fake.executed.length, 1)
      assert.strictEqual(result?.steps, 2)
      checkStored(stored)
      assert.deepStrictEqual(
        stored.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant"]
      )
      const writers = record.flatMap(({ event }) =>
        event._tag === "MessageAppended" && event.message?.role === "assistant" ? [event.origin] : []
      )
      assert.deepStrictEqual(writers, ["runtime", "model"])
    })
  )

  it.effect("after_model ends the run with this answer; its calls do not run and are closed", () =>
    Effect.gen(function* () {
      const { counts, entry } = countAfter()
      const first = Middleware.lifecycle({ name: "first", afterModel: () => Middleware.end })
      const { events, ran, result, stored } = yield* play(
        [said("here you are", echo("c1", "a"))],
        [entry, first],
        streaming
      )
      assert.deepStrictEqual(brief(result), ["ended_by_middleware", "first", "here you are"])
      assert.deepStrictEqual(ran, [])
      checkStored(stored)
      assert.deepStrictEqual(outline(stored), ["user hello", "assistant here you are", "tool c1"])
      assert.strictEqual(readShown(events), "here you are")
      assert.deepStrictEqual(counts, { afterModel: 1, afterTool: 0, afterAgent: 1 })
    })
  )

  it.effect("after_model ends the run with another answer, which replaces what was shown and stored", () =>
    Effect.gen(function* () {
      const guard = Middleware.lifecycle({ name: "guard", after_model: () => Middleware.endWith("I may not say") })
      const { events, result, stored } = yield* play([Fake.pieces("the ", "secret")], [guard], streaming)
      assert.deepStrictEqual(brief(result), ["ended_by_middleware", "guard", "I may not say"])
      assert.deepStrictEqual(outline(stored), ["user hello", "assistant I may not say"])
      assert.strictEqual(readShown(events), "I may not say")
    })
  )

  it.effect("after_model goes back to the model, with and without feedback, and not to its calls", () =>
    Effect.gen(function* () {
      const critic = Middleware.lifecycle({
        name: "critic",
        afterModel: ({ currentIteration }) =>
          currentIteration === 0
            ? Middleware.goToModelWith("Shorter.")
            : currentIteration === 1
              ? Middleware.goToModel
              : Middleware.noChanges
      })
      const { fake, ran, result, stored } = yield* play(
        [Fake.text("a long answer"), Fake.calls(echo("c1", "a")), Fake.text("short")],
        [critic],
        streaming
      )
      assert.deepStrictEqual(brief(result), ["text_response", undefined, "short"])
      assert.deepStrictEqual(ran, [])
      assert.strictEqual(fake.executed.length, 3)
      checkStored(stored)
      assert.deepStrictEqual(outline(stored), [
        "user hello",
        "assistant a long answer",
        "user Shorter.",
        "assistant ",
        "tool c1",
        "assistant short"
      ])
    })
  )

  it.effect("after_model that always goes back to the model ends at max_iterations", () =>
    Effect.gen(function* () {
      const again = Middleware.lifecycle({ name: "again", afterModel: () => Middleware.goToModel })
      const { fake, result, stored } = yield* play([Fake.text("x")], [again], streaming, {
        settings: { maxIterations: 12 }
      })
      assert.strictEqual(result?.exit, "max_iterations_reached")
      // The last call asks for the summary.
      assert.strictEqual(fake.executed.length, 13)
      checkStored(stored.slice(0, -1))
    })
  )

  it.effect("before_model that always runs tools ends at max_iterations", () =>
    Effect.gen(function* () {
      const plan = Middleware.lifecycle({
        name: "plan",
        beforeModel: ({ currentIteration }) =>
          Middleware.goToTools([{ name: "echo", params: { text: `n${currentIteration}` } }])
      })
      const { fake, ran, result, stored } = yield* play([Fake.text("summary")], [plan], streaming, {
        settings: { maxIterations: 3 }
      })
      assert.strictEqual(result?.exit, "max_iterations_reached")
      assert.deepStrictEqual(ran, ["n0", "n1", "n2"])
      assert.strictEqual(fake.executed.length, 1)
      checkStored(stored)
    })
  )

  it.effect("after_model goes to tools after an answer without calls", () =>
    Effect.gen(function* () {
      const check = Middleware.lifecycle({
        name: "check",
        afterModel: ({ currentIteration }) =>
          currentIteration === 0
            ? Middleware.goToTools([{ name: "echo", params: { text: "verified" } }])
            : Middleware.noChanges
      })
      const { ran, result, stored } = yield* play([Fake.text("let me see"), Fake.text("done")], [check], streaming)
      assert.deepStrictEqual(brief(result), ["text_response", undefined, "done"])
      assert.deepStrictEqual(ran, ["verified"])
      checkStored(stored)
    })
  )

  it.effect("after_tool ends the run after the other calls, with a text or with the result", () =>
    Effect.gen(function* () {
      const { counts, entry } = countAfter()
      const ends = (result: Middleware.EndWith | Middleware.EndNow) =>
        Middleware.lifecycle({
          name: "ends",
          afterTool: ({ toolCallId }) => (toolCallId === "c1" ? result : Middleware.noChanges)
        })
      const turns = [Fake.calls(echo("c1", "a"), echo("c2", "b")), Fake.text("never")]
      const text = yield* play(turns, [entry, ends(Middleware.endWith("found it"))], streaming)
      assert.deepStrictEqual(brief(text.result), ["ended_by_middleware", "ends", "found it"])
      assert.deepStrictEqual(text.ran, ["a", "b"])
      assert.deepStrictEqual(outline(text.stored).at(-1), "assistant found it")
      checkStored(text.stored)
      assert.strictEqual(readShown(text.events), "found it")
      assert.deepStrictEqual(counts, { afterModel: 1, afterTool: 2, afterAgent: 1 })
      const result = yield* play(turns, [ends(Middleware.end)], streaming)
      assert.deepStrictEqual(brief(result.result), ["ended_by_middleware", "ends", "echo a"])
      assert.strictEqual(result.fake.executed.length, 1)
      checkStored(result.stored)
    })
  )

  it.effect("the outermost after_model has the last word, and sees the changes of the others", () =>
    Effect.gen(function* () {
      const inner = Middleware.lifecycle({ name: "inner", afterModel: () => Middleware.end })
      const outer = Middleware.lifecycle({
        name: "outer",
        afterModel: ({ currentIteration }) =>
          currentIteration === 0 ? Middleware.goToModelWith("Once more.") : Middleware.noChanges
      })
      const { result } = yield* play([Fake.text("one"), Fake.text("two")], [outer, inner], streaming)
      assert.deepStrictEqual(brief(result), ["ended_by_middleware", "inner", "two"])
    })
  )

  it.effect("the session continues after each ending, with a valid history", () =>
    Effect.gen(function* () {
      let turn = 0
      const endings = [Middleware.endWith("one"), Middleware.noChanges]
      const once = Middleware.lifecycle({ name: "once", beforeModel: () => endings[turn++] ?? Middleware.noChanges })
      const { fake, results, stored } = yield* play([Fake.text("two")], [once], streaming, {
        inputs: [{}, { prompt: "and?" }]
      })
      assert.deepStrictEqual(results.map(brief), [
        ["ended_by_middleware", "once", "one"],
        ["text_response", undefined, "two"]
      ])
      checkStored(stored)
      assert.deepStrictEqual(
        fake.asked[0]?.messages.slice(1).map(({ role }) => role),
        ["user", "assistant", "user"]
      )
    })
  )

  it.effect("hooks may still change the text, and are told the name of the exit", () =>
    Effect.gen(function* () {
      const told: Array<unknown> = []
      const cache = Middleware.lifecycle({
        name: "cache",
        beforeAgent: () => Middleware.endWith("from the cache"),
        afterAgent: ({ agentResponse, stopReason }) => void told.push([stopReason, agentResponse])
      })
      const { events, result } = yield* play([Fake.text("never")], [cache], streaming, {
        hooks: [
          Hooks.on("transform_llm_output", ({ response_text }) => Effect.succeed(response_text.toUpperCase())),
          Hooks.on("post_llm_call", ({ response_transformed }) =>
            Effect.sync(() => void told.push(response_transformed))
          ),
          Hooks.on("on_session_end", ({ completed, reason }) => Effect.sync(() => void told.push([completed, reason])))
        ]
      })
      assert.deepInclude(result, { text: "FROM THE CACHE", responseTransformed: true })
      assert.strictEqual(readShown(events), "FROM THE CACHE")
      assert.deepStrictEqual(told, [true, ["SUCCESS", "FROM THE CACHE"], [true, "ended_by_middleware"]])
    })
  )

  it.effect("plain functions use actions", () =>
    Effect.gen(function* () {
      const plain = (methods: object) => PlainLifecycle.make({ name: "plain" }, methods) as Middleware.Contained
      const ended = yield* play(
        [Fake.text("never")],
        [plain({ before_model: () => ({ action: "end", answer: "plain answer" }) })],
        streaming
      )
      assert.deepStrictEqual(brief(ended.result), ["ended_by_middleware", "plain", "plain answer"])
      const tools = yield* play(
        [Fake.text("done")],
        [
          plain({
            before_model: ({ current_iteration }: { readonly current_iteration: number }) =>
              current_iteration === 0
                ? { action: "go_to_tools", calls: [{ name: "echo", params: { text: "p" } }] }
                : undefined
          })
        ],
        streaming
      )
      assert.deepStrictEqual(tools.ran, ["p"])
      const again = yield* play(
        [Fake.text("a"), Fake.text("b")],
        [
          plain({
            after_model: ({ current_iteration }: { readonly current_iteration: number }) =>
              current_iteration === 0 ? { action: "goToModel", feedback: "More." } : { action: "end" }
          })
        ],
        streaming
      )
      assert.deepStrictEqual(brief(again.result), ["ended_by_middleware", "plain", "b"])
      const tool = yield* play(
        [Fake.calls(echo("c1", "a")), Fake.text("never")],
        [plain({ after_tool: () => ({ action: "end" }) })],
        streaming
      )
      assert.deepStrictEqual(brief(tool.result), ["ended_by_middleware", "plain", "echo a"])
    })
  )
})

describe("a result that a phase may not return", () => {
  const faults: ReadonlyArray<readonly [string, string, unknown, RegExp]> = [
    ["after_agent", "end", Middleware.end, /returned end, which only afterModel, afterTool may return/],
    ["after_agent", "endWith", Middleware.endWith("x"), /returned endWith, which only beforeAgent/],
    ["before_agent", "goToModel", Middleware.goToModel, /returned goToModel, which only afterModel may return/],
    ["before_tool", "end", Middleware.end, /returned end, which only/],
    ["after_tool", "goToTools", Middleware.goToTools([{ name: "echo", params: {} }]), /returned goToTools, which only/],
    ["before_model", "deny", Middleware.deny("no"), /returned deny, which only beforeTool may return/],
    ["before_model", "a blank answer", Middleware.endWith(" "), /endWith without a text/],
    ["after_model", "no calls", Middleware.goToTools([]), /goToTools without a list of calls/],
    ["after_model", "a wrong call", { action: "go_to_tools", calls: ["echo"] }, /a value that is not a call/],
    ["after_model", "an unknown action", { action: "ende" }, /unknown action "ende", did you mean end\?/],
    ["after_model", "an unknown field", { action: "end", text: "x" }, /unknown field "text": use answer/]
  ]
  it.effect.each(faults)(
    "%s: %s is the wrapper's named fault, and the run goes on without it",
    ([phase, , value, reason]) =>
      Effect.gen(function* () {
        const wrong = PlainLifecycle.make({ name: "wrong" }, { [phase]: () => value }) as Middleware.Contained
        const { value: ran, warnings } = yield* withWarnings(
          play([Fake.calls(echo("c1", "a")), Fake.text("done")], [wrong], false)
        )
        assert.deepStrictEqual(brief(ran.result), ["text_response", undefined, "done"])
        const named = warnings.filter((line) => line.includes("wrong") && line.includes(phase))
        assert.match(String(named[0]), reason)
      })
  )

  it.effect("fails the run if the wrapper is closed", () =>
    Effect.gen(function* () {
      const wrong = PlainLifecycle.make(
        { name: "wrong", onFailure: "closed" },
        { before_model: () => ({ action: "stop" }) }
      )
      const { exits, fake } = yield* play([Fake.text("done")], [wrong as Middleware.Contained], false)
      assert.include(String(exits[0]), "wrong")
      assert.strictEqual(fake.executed.length, 0)
    })
  )
})
