// The order of phases around model and tool calls, and what listeners are told, in a whole run.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { ExecutionBlocked } from "../../src/base/domain/AgentError.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { names, schemas } from "../../src/hooks/Payloads.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { running } from "../support/movingClock.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Hang = Tool.make("hang", { description: "Never ends", success: Schema.String })
const toolkit = Toolkit.make(Echo, Hang)

interface Event {
  readonly name: string
  readonly payload: Record<string, unknown>
}

const recorder = () => {
  const events: Array<Event> = []
  const hooks = names.map((name): Hook =>
    Hooks.fromPlain(
      name,
      (payload) => {
        events.push({ name, payload: payload as unknown as Record<string, unknown> })
      },
      { label: "recorder" }
    )
  )
  const of = (name: string) => events.filter((event) => event.name === name).map(({ payload }) => payload)
  return { events, hooks, of, names: () => events.map(({ name }) => name) }
}

const setup = (
  fake: Fake.Fake,
  hooks: ReadonlyArray<Hook>,
  middleware: ReadonlyArray<
    Middleware.LlmRequest | Middleware.ToolRequest | Middleware.LlmExecution | Middleware.ToolExecution
  > = []
) => {
  const ran: Array<string> = []
  const hanging = Deferred.makeUnsafe<void>()
  const handlers = toolkit.toLayer({
    echo: ({ text }) =>
      Effect.sync(() => {
        ran.push(text)
        return text
      }),
    hang: () => Effect.andThen(Deferred.succeed(hanging, undefined), Effect.never)
  })
  const layer = Agent.layer({ cwd: "/tmp", platform: "cli", middleware }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        Hooks.layer(hooks),
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers), Todo.toolset]).pipe(Layer.provide(Todo.layer))
      )
    )
  )
  return { layer, ran, hanging }
}

const oneTool = () => Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.text("done"))

describe("a run that is listened to", () => {
  it.effect("2.4 the events of a turn come in the order of the contract, and every payload fits its Schema", () => {
    const seen = recorder()
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(seen.names(), [
        "on_session_start",
        "pre_llm_call",
        "pre_api_request",
        "post_api_request",
        "pre_tool_call",
        "post_tool_call",
        "transform_tool_result",
        "pre_api_request",
        "post_api_request",
        "transform_llm_output",
        "post_llm_call",
        "on_session_end"
      ])
      for (const { name, payload } of seen.events) {
        const schema = schemas[name as keyof typeof schemas] as Schema.Codec<unknown, unknown>
        yield* Schema.decodeUnknownEffect(schema)(JSON.parse(JSON.stringify(payload))).pipe(
          Effect.mapError((error) => new Error(`${name}: ${error.message}`))
        )
      }
      assert.strictEqual(result.text, "done")
    }).pipe(Effect.provide(setup(oneTool(), seen.hooks).layer))
  })

  it.effect("89 ids join the events of a turn", () => {
    const seen = recorder()
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      const pre = seen.of("pre_api_request")
      const post = seen.of("post_api_request")
      assert.deepStrictEqual(
        pre.map((event) => event["api_call_count"]),
        [1, 2]
      )
      assert.deepStrictEqual(
        post.map((event) => event["api_request_id"]),
        pre.map((event) => event["api_request_id"])
      )
      const [tool] = seen.of("post_tool_call")
      assert.strictEqual(tool?.["api_request_id"], pre[0]?.["api_request_id"])
      for (const { payload } of seen.events) {
        assert.strictEqual(payload["session_id"], result.sessionId)
        if (payload["turn_id"] !== undefined) assert.strictEqual(payload["turn_id"], result.turnId)
      }
    }).pipe(Effect.provide(setup(oneTool(), seen.hooks).layer))
  })

  it.effect(
    "49 and 58 rewritten requests and arguments are what listeners, policy and tools see, with their trace",
    () => {
      const seen = recorder()
      const fake = oneTool()
      const middleware = [
        Plain.llmRequest({ name: "tagger" }, (call) => ({
          request: { ...(call["request"] as object), extra_body: { metadata: { hermes_middleware_demo: true } } },
          source: "middleware-demo",
          reason: "tagged provider request"
        })) as Middleware.LlmRequest,
        Plain.toolRequest({ name: "rewriter" }, (call) => ({
          args: { ...(call["args"] as object), text: "rewritten" },
          source: "mw"
        })) as Middleware.ToolRequest,
        Plain.toolExecution({ name: "wrapper" }, (call) =>
          (call["next_call"] as (args: unknown) => unknown)({ text: "wrapped" })
        )
      ]
      const { layer, ran } = setup(fake, seen.hooks, middleware)
      return Effect.gen(function* () {
        yield* Agent.run({ prompt: "go" })
        assert.deepStrictEqual(ran, ["wrapped"])
        assert.deepStrictEqual(seen.of("pre_tool_call")[0]?.["args"], { text: "rewritten" })
        assert.deepStrictEqual(seen.of("pre_tool_call")[0]?.["middleware_trace"], [{ source: "mw" }])
        assert.deepStrictEqual(seen.of("post_tool_call")[0]?.["args"], { text: "wrapped" }, "what reached the tool")
        const request = seen.of("pre_api_request")[0]?.["request"] as { body: Record<string, unknown> }
        assert.deepStrictEqual(request.body["extra_body"], { metadata: { hermes_middleware_demo: true } })
        assert.deepStrictEqual(fake.executed[0]?.["extra_body"], { metadata: { hermes_middleware_demo: true } })
        for (const name of ["pre_api_request", "post_api_request"]) {
          assert.deepStrictEqual(seen.of(name)[0]?.["middleware_trace"], [
            { source: "middleware-demo", reason: "tagged provider request" }
          ])
        }
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect(
    "50 and 80 (every tool is one of the registry here) the tool gets what next_call was given, and post_tool_call tells it",
    () => {
      const seen = recorder()
      const todos = (content: string) => [{ id: "1", content, status: "pending" }]
      const fake = Fake.make(Fake.calls(Fake.call("c1", "todo", { todos: todos("asked") })), Fake.text("done"))
      const { layer } = setup(fake, seen.hooks, [
        Plain.toolRequest({ name: "rewriter" }, () => ({
          args: { todos: todos("rewritten") },
          source: "mw"
        })) as Middleware.ToolRequest,
        Plain.toolExecution({ name: "wrapper" }, (call) =>
          (call["next_call"] as (args: unknown) => unknown)({ todos: todos("wrapped") })
        )
      ])
      return Effect.gen(function* () {
        yield* Agent.run({ prompt: "go" })
        const [post] = seen.of("post_tool_call")
        assert.deepStrictEqual(post?.["args"], { todos: todos("wrapped") })
        assert.deepStrictEqual(post?.["middleware_trace"], [{ source: "mw" }])
        assert.include(JSON.stringify(post?.["result"]), "wrapped")
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("52, 68 and 79 a blocked call never runs, is closed once, and the model gets the message", () => {
    const seen = recorder()
    let wrapped = 0
    const { layer, ran } = setup(
      oneTool(),
      [
        Hooks.fromPlain("pre_tool_call", () => ({ action: "block", message: "not here" }), { label: "guard" }),
        ...seen.hooks
      ],
      [
        Plain.toolExecution({ name: "wrapper" }, (call) => {
          wrapped++
          return (call["next_call"] as () => unknown)()
        })
      ]
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual([ran, wrapped], [[], 0])
      const [post, ...more] = seen.of("post_tool_call")
      assert.deepStrictEqual(more, [])
      assert.deepInclude(post, {
        status: "blocked",
        error_type: "plugin_block",
        error_message: "not here",
        result: JSON.stringify({ error: "not here" }),
        duration_ms: 0
      })
      assert.deepStrictEqual(seen.of("transform_tool_result"), [], "79 not asked for a blocked call")
      const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
      const answer = stored[2] as Prompt.ToolMessage
      assert.deepInclude(answer.content[0], { result: JSON.stringify({ error: "not here" }), isFailure: true })
    }).pipe(Effect.provide(layer))
  })

  it.effect("a guard that fails closed blocks; one that fails open does not", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.text("done"))
    const broken = () => {
      throw new Error("guard broke")
    }
    const open = setup(fake, [Hooks.fromPlain("pre_tool_call", broken)])
    const closed = setup(Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.text("done")), [
      Hooks.fromPlain("pre_tool_call", broken, { onFailure: "closed" })
    ])
    return Effect.gen(function* () {
      yield* Effect.provide(Agent.run({ prompt: "go" }), open.layer)
      assert.deepStrictEqual(open.ran, ["x"])
      yield* Effect.provide(Agent.run({ prompt: "go" }), closed.layer)
      assert.deepStrictEqual(closed.ran, [])
    })
  })

  it.effect("76 and 77 the first replacement of a result goes to the model, the tool's own to the listeners", () => {
    const seen = recorder()
    const fake = oneTool()
    const { layer } = setup(fake, [
      Hooks.fromPlain("transform_tool_result", () => null),
      Hooks.fromPlain("transform_tool_result", () => "first"),
      Hooks.fromPlain("transform_tool_result", () => "second"),
      ...seen.hooks
    ])
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.strictEqual(seen.of("post_tool_call")[0]?.["result"], "x")
      const answer = fake.asked[1]?.messages.at(-1) as Prompt.ToolMessage
      assert.deepInclude(answer.content[0], { result: "first" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("71 and 65 added context goes before the user's text in the request, and is never stored", () => {
    const fake = Fake.make(Fake.text("a"))
    const { layer } = setup(fake, [
      Hooks.fromPlain("pre_llm_call", () => ({ context: "A" })),
      Hooks.fromPlain("pre_llm_call", () => "B"),
      Hooks.fromPlain("pre_llm_call", () => "  ")
    ])
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "question" })
      const sent = fake.asked[0]?.messages[1] as Prompt.UserMessage
      assert.deepInclude(sent.content[0], { text: "<plugin-context>A\n\nB</plugin-context>\nquestion" })
      const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
      assert.deepInclude((stored[0] as Prompt.UserMessage).content[0], { text: "question" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("74 nothing is added to a message that is more than text", () => {
    const fake = Fake.make(Fake.text("a"))
    const { layer } = setup(fake, [Hooks.fromPlain("pre_llm_call", () => "B")])
    const image: Prompt.FilePart = {
      type: "file",
      mediaType: "image/png",
      data: "AAAA",
      fileName: undefined,
      options: {}
    } as never
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: [image] })
      assert.deepStrictEqual(fake.asked[0]?.messages[1]?.content, [image])
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "82 and 83 the final text can be replaced; an interrupted turn is neither transformed nor reported as answered",
    () => {
      const seen = recorder()
      const fake = Fake.make(Fake.text("secret"), Fake.calls(Fake.call("c1", "hang", {})))
      const { hanging, layer } = setup(fake, [
        Hooks.fromPlain("transform_llm_output", () => "[redacted]"),
        ...seen.hooks
      ])
      return Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "go" })
        assert.strictEqual(result.text, "[redacted]")
        assert.strictEqual(seen.of("post_llm_call")[0]?.["assistant_response"], "[redacted]")
        seen.events.length = 0
        const fiber = yield* Effect.forkChild(Agent.run({ prompt: "hang", sessionId: "s1" }))
        yield* Deferred.await(hanging)
        yield* Fiber.interrupt(fiber)
        assert.notInclude(seen.names(), "post_llm_call")
        assert.notInclude(seen.names(), "transform_llm_output")
        const [end] = seen.of("on_session_end")
        assert.deepInclude(end, { completed: false, interrupted: true })
        const [post, ...more] = seen.of("post_tool_call")
        assert.deepInclude(post, { status: "cancelled", error_type: "keyboard_interrupt" })
        assert.deepStrictEqual(more, [])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("92 a failed attempt is closed by api_request_error, and the run by on_session_end", () => {
    const seen = recorder()
    const fake = Fake.make(() => Effect.fail(Fake.failure(new AiError.RateLimitError({}))))
    return Effect.gen(function* () {
      yield* running(Effect.flip(Agent.run({ prompt: "go" })))
      const [error] = seen.of("api_request_error")
      assert.strictEqual(seen.of("api_request_error").length, seen.of("pre_api_request").length)
      assert.deepInclude(error, { reason: "rate_limit", retryable: true, retry_count: 0 })
      assert.strictEqual(error?.["api_request_id"], seen.of("pre_api_request")[0]?.["api_request_id"])
      assert.deepInclude(seen.of("on_session_end")[0], { completed: false, interrupted: false, reason: "failed" })
    }).pipe(Effect.provide(setup(fake, seen.hooks).layer))
  })

  it.effect("an interrupted attempt is closed, too", () => {
    const seen = recorder()
    const asked = Deferred.makeUnsafe<void>()
    const fake = Fake.make(() => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never))
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(seen.names().slice(2), ["pre_api_request", "api_request_error", "on_session_end"])
      assert.deepInclude(seen.of("api_request_error")[0], { reason: "interrupted" })
    }).pipe(Effect.provide(setup(fake, seen.hooks).layer))
  })

  it.effect("59 and 91 an observer that raises changes nothing", () => {
    const fake = oneTool()
    const hooks = names.map((name) =>
      Hooks.fromPlain(name, () => {
        throw new Error("observer broke")
      })
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.strictEqual(result.text, "done")
    }).pipe(Effect.provide(setup(fake, hooks).layer))
  })

  it.effect("a veto of a model call fails the run with it; a veto of a tool call is a blocked result", () => {
    const seen = recorder()
    const veto = new ExecutionBlocked({ reason: "over budget", metadata: {} })
    const model = setup(oneTool(), seen.hooks, [
      Plain.llmExecution({ name: "budget" }, () => {
        throw veto
      })
    ])
    const tool = setup(oneTool(), seen.hooks, [
      Plain.toolExecution({ name: "budget" }, () => {
        throw veto
      })
    ])
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.provide(Agent.run({ prompt: "go" }), model.layer))
      assert.isTrue(error instanceof ExecutionBlocked)
      seen.events.length = 0
      const result = yield* Effect.provide(Agent.run({ prompt: "go" }), tool.layer)
      assert.strictEqual(result.text, "done")
      assert.deepInclude(seen.of("post_tool_call")[0], { status: "blocked" })
    })
  })

  it.effect("56 calls of a batch are all announced before any of them runs", () => {
    const order: Array<string> = []
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "echo", { text: "1" }), Fake.call("c2", "echo", { text: "2" })),
      Fake.text("done")
    )
    const { layer } = setup(
      fake,
      [
        Hooks.fromPlain("pre_tool_call", (event) => {
          order.push(`pre ${event.tool_call_id}`)
        }),
        Hooks.fromPlain("post_tool_call", (event) => {
          order.push(`post ${event.tool_call_id}`)
        })
      ],
      [
        Plain.toolExecution({ name: "mark" }, (call) => {
          order.push(`run ${String(call["tool_call_id"])}`)
          return (call["next_call"] as () => unknown)()
        })
      ]
    )
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(order.slice(0, 2), ["pre c1", "pre c2"])
      assert.sameMembers(order.slice(2), ["run c1", "run c2", "post c1", "post c2"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an unknown session id in the store starts that session, a known one is not started again", () => {
    const seen = recorder()
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go", sessionId: "s1" })
      yield* Agent.run({ prompt: "go", sessionId: "s1" })
      assert.strictEqual(seen.of("on_session_start").length, 1)
      assert.deepStrictEqual(
        seen.of("pre_llm_call").map((event) => event["is_first_turn"]),
        [true, false]
      )
      const store = yield* SessionStore.SessionStore
      assert.strictEqual((yield* store.messages(SessionId.make("s1"))).length, 4)
    }).pipe(Effect.provide(setup(Fake.make(Fake.text("a")), seen.hooks).layer))
  })
})
