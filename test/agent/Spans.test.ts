// The operations of the runtime in the tracer of an application: names, parents, attributes and outcomes of spans.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as H from "../../src/index.ts"

/** A tracer that keeps its spans. */
const makeTracer = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const parentOf = (span: Tracer.NativeSpan | undefined) => {
    const id = span === undefined ? undefined : Option.getOrUndefined(span.parent)?.spanId
    return spans.find(({ spanId }) => spanId === id)
  }
  /** Names from the outermost span to this one. */
  const path = (span: Tracer.NativeSpan): string => {
    const above = parentOf(span)
    return above === undefined ? span.name : `${path(above)} > ${span.name}`
  }
  return {
    spans,
    tracer,
    paths: () => spans.map(path),
    find: (name: string) => spans.filter((span) => span.name === name)
  }
}

const secret = "sk-ant-api03-secretsecretsecretsecret"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Echo)
const echo = H.Toolset.make(
  "echo",
  toolkit,
  toolkit.toLayer({ echo: ({ text }) => Effect.withSpan(Effect.succeed(`echoed ${text}`), "in the tool") })
)
const callEcho = H.Scripted.complete({
  toolCalls: [{ name: "echo", params: { text: secret }, id: "call-1" }],
  usage: { input: 10, output: 2 }
})

describe("spans of an agent", () => {
  it.effect("show a run with its model calls, its tool calls and a child, each in its place", () =>
    Effect.gen(function* () {
      const { find, paths, spans, tracer } = makeTracer()
      const provider = H.Scripted.layer([
        callEcho,
        H.Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: `Look at ${secret}` } }] }),
        H.Scripted.complete({ text: "the child is done", usage: { input: 5, output: 1 } }),
        H.Scripted.complete({ text: "done", usage: { input: 20, output: 3 } })
      ])
      const result = yield* H.Agent.run({ prompt: `Use ${secret}` }).pipe(
        Effect.withSpan("request"),
        Effect.provide(H.Runtime.layer({ provider, tools: [echo, H.Delegate.toolset] })),
        Effect.withTracer(tracer)
      )
      assert.strictEqual(result.text, "done")
      assert.deepStrictEqual(
        paths().filter((path) => !path.includes("SessionStore.")),
        [
          "request",
          "request > Agent.run",
          "request > Agent.run > chat scripted",
          "request > Agent.run > execute_tool echo",
          "request > Agent.run > execute_tool echo > in the tool",
          "request > Agent.run > chat scripted",
          "request > Agent.run > execute_tool delegate_task",
          "request > Agent.run > execute_tool delegate_task > Agent.run",
          "request > Agent.run > execute_tool delegate_task > Agent.run > chat scripted",
          "request > Agent.run > chat scripted"
        ]
      )
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended" && Exit.isSuccess(status.exit)))
      const [run, child] = find("Agent.run").map(({ attributes }) => Object.fromEntries(attributes))
      assert.deepInclude(run, {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": result.sessionId,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "hermes.exit": "text_response",
        "hermes.steps": 3
      })
      assert.deepInclude(child, { "hermes.parent.conversation.id": result.sessionId, "hermes.exit": "text_response" })
      assert.match(String(child?.["gen_ai.agent.id"]), /^sa-0-/)
      const [first] = find("chat scripted")
      assert.strictEqual(first?.kind, "client")
      assert.deepInclude(Object.fromEntries(first?.attributes ?? []), {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": result.sessionId,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "hermes.step": 1,
        "hermes.retry_count": 0
      })
      const [call] = find("execute_tool echo")
      assert.deepStrictEqual(Object.fromEntries(call?.attributes ?? []), {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": result.sessionId,
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.name": "echo",
        "gen_ai.tool.type": "function",
        "hermes.tool.status": "ok"
      })
      const own = spans.filter(({ name }) => name !== "in the tool" && name !== "request")
      const texts = own.flatMap(({ attributes, events, status }) => [
        JSON.stringify([...attributes]),
        JSON.stringify(events, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
        String(status._tag === "Ended" ? JSON.stringify(status.exit) : "")
      ])
      assert.notInclude(texts.join("\n"), "secretsecret")
    })
  )

  it.effect("show other operations, side tasks and those of a session store", () =>
    Effect.gen(function* () {
      const { paths, tracer } = makeTracer()
      const provider = H.Scripted.layer([callEcho, H.Scripted.complete("done"), H.Scripted.complete("from the model")])
      yield* Effect.gen(function* () {
        const agent = yield* H.Agent.Agent
        const events = yield* Stream.runCollect(agent.stream({ prompt: "Go." }))
        const end = events.at(-1)
        assert.strictEqual(end?._tag, "RunFinished")
        const sessionId = end?._tag === "RunFinished" ? end.sessionId : ""
        yield* agent.callTool({ name: "echo", args: { text: "x" } })
        yield* agent.promptLayers()
        yield* agent.compact({ sessionId: sessionId })
        yield* LanguageModel.generateText({ prompt: "x" })
        const store = yield* H.SessionStore.SessionStore
        yield* store.list()
        yield* store.rename(H.Ids.SessionId.make(sessionId), "a title")
      }).pipe(Effect.provide(H.Runtime.layer({ provider, tools: [echo] })), Effect.withTracer(tracer))
      const seen = new Set(paths())
      for (const path of [
        "Agent.stream",
        "Agent.stream > chat scripted",
        "Agent.stream > execute_tool echo > in the tool",
        "Agent.callTool > execute_tool echo",
        "Agent.promptLayers",
        "Agent.compact",
        "LanguageModel.generateText > chat scripted",
        "SessionStore.list",
        "SessionStore.rename"
      ]) {
        assert.isTrue(seen.has(path), `${path} is not among ${[...seen].join(", ")}`)
      }
    })
  )

  it.effect("have one for each attempt, and name failures by their type alone", () =>
    Effect.gen(function* () {
      const { find, tracer } = makeTracer()
      const refused = new AiError.AuthenticationError({
        kind: "InvalidKey",
        description: `the key ${secret} is refused`
      })
      const provider = H.Scripted.layer([H.Scripted.fail(refused)])
      yield* H.Agent.run({ prompt: "Go." }).pipe(
        Effect.flip,
        Effect.provide(H.Runtime.layer({ provider })),
        Effect.withTracer(tracer)
      )
      const [run] = find("Agent.run")
      const [chat] = find("chat scripted")
      for (const span of [run, chat]) {
        assert.strictEqual(span?.attributes.get("error.type"), "AuthenticationError")
        assert.isTrue(span?.status._tag === "Ended" && Exit.isFailure(span.status.exit))
        assert.notInclude(
          span?.status._tag === "Ended" ? String(Exit.isFailure(span.status.exit) && span.status.exit.cause) : "",
          "secretsecret"
        )
      }
    })
  )

  it.effect("end with an interrupted run", () =>
    Effect.gen(function* () {
      const { spans, tracer } = makeTracer()
      const run = H.Agent.run({ prompt: "Go." }).pipe(
        Effect.timeoutOption("1 second"),
        Effect.provide(H.Runtime.layer({ provider: H.Scripted.layer([H.Scripted.hang()]) })),
        Effect.withTracer(tracer)
      )
      const fiber = yield* Effect.forkChild(run)
      while (!spans.some(({ name }) => name === "chat scripted")) yield* Effect.promise(() => new Promise(setImmediate))
      yield* TestClock.adjust("1 second")
      assert.isTrue(Option.isNone(yield* Fiber.join(fiber)))
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended"))
      assert.isTrue(spans.some(({ status }) => status._tag === "Ended" && Exit.hasInterrupts(status.exit)))
    })
  )

  it.effect("are left to RunTelemetry where a runtime has it, and are none without a tracer", () =>
    Effect.gen(function* () {
      const { spans, tracer } = makeTracer()
      const provider = () => H.Scripted.layer([callEcho, H.Scripted.complete("done")])
      const run = H.Agent.run({ prompt: "Go." })
      yield* Effect.withTracer(
        Effect.provide(run, H.Runtime.layer({ provider: provider(), tools: [echo], ...H.RunTelemetry.make() })),
        tracer
      )
      const names = spans.map(({ name }) => name)
      assert.include(names, "invoke_agent hermes")
      assert.notInclude(names, "Agent.run")
      assert.deepStrictEqual(
        names.filter((name) => /^(?:chat|execute_tool)/u.test(name)),
        ["chat scripted", "execute_tool echo", "chat scripted"]
      )
      const inside: Array<unknown> = []
      const middleware = [
        H.Middleware.wrapModelCall({
          name: "look",
          wrap: (next) => (params) =>
            Effect.andThen(
              Effect.map(Effect.serviceOption(Tracer.ParentSpan), (span) => void inside.push(span)),
              next(params)
            )
        })
      ]
      yield* Effect.provide(run, H.Runtime.layer({ provider: provider(), tools: [echo], middleware }))
      assert.deepStrictEqual(inside, [Option.none(), Option.none()])
    })
  )
})
