import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import type * as Middleware from "../../src/middleware/Middleware.ts"
import { ModelRouter } from "../../src/routing/ModelRouter.ts"
import { Provider, type Service } from "../../src/provider/Provider.ts"
import * as MemorySessionStore from "../../src/session/MemorySessionStore.ts"
import { SessionStore } from "../../src/session/SessionStore.ts"
import * as Delegate from "../../src/tool/builtin/Delegate.ts"
import type { ChildReport } from "../../src/tool/Delegator.ts"
import { ToolRegistry } from "../../src/tool/ToolRegistry.ts"
import * as Toolset from "../../src/tool/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)

/** A model that answers by what the last user message says. */
type Respond = (asked: { readonly prompt: string; readonly tools: ReadonlyArray<string>; readonly results: number }) => ReturnType<Fake.Turn>

const say = (text: string) => Effect.succeed(Fake.textAnswer(text))

const setup = (respond: Respond, options: {
    readonly settings?: AgentSettings
    readonly hooks?: ReadonlyArray<Hook>
    readonly middleware?: ReadonlyArray<Middleware.ToolExecution>
  } = {}) => {
  const ran: Array<string> = []
  const prompts: Array<string> = []
  const base = Fake.make(Fake.text("unused"))
  const provider = {
    ...base.provider,
    prepare: (call: Parameters<typeof base.provider.prepare>[0]) => {
      const user = call.messages.findLast((message) => message.role === "user") as Prompt.UserMessage
      const prompt = user.content.flatMap((part) => part.type === "text" ? [part.text] : []).join("")
      const results = call.messages.slice(call.messages.lastIndexOf(user)).filter(({ role }) => role === "tool").length
      return Effect.succeed({ prompt, results, tools: call.tools.map(({ name }) => name) })
    },
    execute: (request: Record<string, unknown>) => {
      prompts.push(String(request["prompt"]))
      return respond(request as never)
    }
  }
  const hooks: ReadonlyArray<Hook> = options.hooks ?? []
  const middleware: ReadonlyArray<Middleware.ToolExecution> = options.middleware ?? []
  const layer = Agent.layer({ cwd: "/tmp", ...options.settings, middleware }).pipe(
    Layer.provideMerge(Layer.mergeAll(
      ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, provider as unknown as Service))),
      Hooks.layer(hooks),
      MemorySessionStore.layer,
      ToolRegistry.layer([
        Toolset.make("test", toolkit, toolkit.toLayer({
          echo: ({ text }) =>
            Effect.sync(() => {
              ran.push(text)
              return text
            })
        })),
        Delegate.toolset
      ])
    ))
  )
  return { layer, ran, prompts }
}

const delegate = (params: unknown) => Effect.succeed(Fake.callsAnswer(Fake.call("d1", "delegate_task", params)))

const lastResult = Effect.fnUntraced(function*(sessionId: string) {
  const messages = yield* (yield* SessionStore).messages(sessionId as never)
  const results = messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => part.type === "tool-result" ? [String(part.result)] : [])
      : []
  )
  return JSON.parse(results.at(-1) ?? "null") as { results: ReadonlyArray<ChildReport>; error?: string }
})

const isChild = (prompt: string): boolean => prompt.includes("You work on your own")

describe("delegate_task", () => {
  it.effect("a child works in a session of its own with tools, and its report says what it did", () => {
    const events: Array<RunEvent> = []
    const { layer, ran } = setup(({ prompt, results, tools }) => {
      if (!isChild(prompt)) return results === 0 ? delegate({ goal: "echo child" }) : say("parent done")
      assert.notInclude(tools, "delegate_task")
      return results === 0
        ? Effect.succeed(Fake.callsAnswer(Fake.call("c1", "echo", { text: "child" })))
        : say("I echoed.")
    })
    return Effect.gen(function*() {
      const result = yield* Agent.run({ prompt: "go", onEvent: (seen) => Effect.sync(() => void events.push(...seen)) })
      assert.strictEqual(result.text, "parent done")
      assert.deepStrictEqual(ran, ["child"])
      const { results: [report] } = yield* lastResult(result.sessionId)
      assert.deepInclude(report, { status: "completed", exit_reason: "completed", summary: "I echoed.", api_calls: 2 })
      assert.deepStrictEqual(report?.tool_trace, [{ tool: "echo", args_bytes: 16, result_bytes: 5, status: "ok" }])
      assert.strictEqual(result.usage.requestCount, 4, "the child's cost is the parent's")
      const store = yield* SessionStore
      const [child] = (yield* store.list({ source: "subagent" }))
      assert.strictEqual(child?.parentId, result.sessionId)
      assert.strictEqual(child?.endReason, "text_response")
      assert.deepStrictEqual(
        events.flatMap((event) => event._tag.startsWith("Subagent") ? [event._tag] : []),
        ["SubagentStarted", "SubagentProgress", "SubagentFinished"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("53, 56 and 115 children run side by side; one that fails leaves the others alone; each has its own start and stop", () => {
    const seen: Array<readonly [string, string]> = []
    const note = (name: "subagent_start" | "subagent_stop") =>
      Hooks.fromPlain(name, (event) => {
        seen.push([name, event.child_subagent_id])
      })
    const both = Deferred.makeUnsafe<void>()
    let running = 0
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt)) {
        return results === 0 ? delegate({ tasks: [{ goal: "first" }, { goal: "second" }] }) : say("done")
      }
      const wait = ++running === 2 ? Deferred.succeed(both, undefined) : Deferred.await(both)
      return Effect.andThen(
        wait,
        prompt.startsWith("first") ? Effect.fail(Fake.failure(new AiError.RateLimitError({}))) : say("second is done")
      )
    }, { hooks: [note("subagent_start"), note("subagent_stop")] })
    return Effect.gen(function*() {
      const result = yield* Agent.run({ prompt: "go" })
      const { results } = yield* lastResult(result.sessionId)
      assert.deepStrictEqual(results.map(({ status, task_index }) => [task_index, status]), [[0, "failed"], [1, "completed"]])
      assert.match(results[0]?.error ?? "", /[Rr]ate limit/)
      const starts = seen.filter(([name]) => name === "subagent_start").map(([, id]) => id)
      const stops = seen.filter(([name]) => name === "subagent_stop").map(([, id]) => id)
      assert.strictEqual(new Set(starts).size, 2)
      assert.sameMembers(stops, starts)
    }).pipe(Effect.provide(layer))
  })

  it.effect("52 (the issue decides: partial work is never called complete) a child that runs out of budget is partial", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt)) {
        // The summary request of the child names no task: it has no tools either.
        return prompt.startsWith("The number of model calls") ? say("half of it") : results === 0 ? delegate({ goal: "x" }) : say("done")
      }
      return Effect.succeed(Fake.callsAnswer(Fake.call(`c${results}`, "echo", { text: String(results) })))
    }, { settings: { delegation: { maxIterations: 2 } } })
    return Effect.gen(function*() {
      const result = yield* Agent.run({ prompt: "go" })
      const { results: [report] } = yield* lastResult(result.sessionId)
      assert.deepInclude(report, { status: "partial", exit_reason: "max_iterations", summary: "half of it" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("a child that hangs is given up at its time limit", () => {
    const asked = Deferred.makeUnsafe<void>()
    const { layer } = setup(({ prompt, results }) => {
      if (isChild(prompt)) return Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
      return results === 0 ? delegate({ goal: "x" }) : say("done")
    }, { settings: { delegation: { childTimeoutMillis: 60_000 } } })
    return Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("60 seconds")
      const result = yield* Fiber.join(fiber)
      const { results: [report] } = yield* lastResult(result.sessionId)
      assert.deepInclude(report, { status: "timeout", exit_reason: "timeout" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("interrupting the parent interrupts every descendant, and every session is left whole", () => {
    const asked = Deferred.makeUnsafe<void>()
    let interrupted = 0
    let children = 0
    const { layer } = setup(({ prompt }) => {
      if (!isChild(prompt)) return delegate({ tasks: [{ goal: "a" }, { goal: "b" }] })
      return (++children === 2 ? Effect.andThen(Deferred.succeed(asked, undefined), Effect.never) : Effect.never).pipe(
        Effect.onInterrupt(() => Effect.sync(() => interrupted++))
      )
    })
    return Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(interrupted, 2)
      const store = yield* SessionStore
      assert.deepStrictEqual((yield* store.list()).map(({ endReason }) => endReason), [
        "interrupted",
        "interrupted",
        "interrupted"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("49 and 98 depth ends delegation: an orchestrator may delegate once more, its child may not", () => {
    const offered: Array<readonly [string, boolean]> = []
    const { layer } = setup(({ prompt, results, tools }) => {
      const depth = isChild(prompt) ? prompt.split("\n")[0] ?? "" : "top"
      if (results === 0) offered.push([depth, tools.includes("delegate_task")])
      if (results > 0) return say(`${depth} done`)
      if (depth === "top") return delegate({ goal: "middle", role: "orchestrator" })
      if (depth === "middle") return delegate({ goal: "bottom", role: "orchestrator" })
      return say("bottom done")
    })
    return Effect.gen(function*() {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(offered, [["top", true], ["middle", true], ["bottom", false]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("50 a child gets the part of the parent's tools that it asks for, and no more", () => {
    let offered: ReadonlyArray<string> = []
    const { layer } = setup(({ prompt, results, tools }) => {
      if (!isChild(prompt)) return results === 0 ? delegate({ goal: "x", toolsets: ["terminal", "delegation"] }) : say("done")
      offered = tools
      return say("ok")
    })
    return Effect.gen(function*() {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(offered, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("children inherit middleware", () => {
    const wrapped: Array<string> = []
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt)) return results === 0 ? delegate({ goal: "x" }) : say("done")
      return results === 0 ? Effect.succeed(Fake.callsAnswer(Fake.call("c1", "echo", { text: "x" }))) : say("ok")
    }, {
      middleware: [
        Plain.toolExecution({ name: "watch" }, (call) => {
          wrapped.push(String(call["tool_name"]))
          return (call["next_call"] as () => unknown)()
        })
      ]
    })
    return Effect.gen(function*() {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(wrapped, ["delegate_task", "echo"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("bad input is an error result that says how to do better, and nobody is spawned", () => {
    const bad: ReadonlyArray<readonly [unknown, RegExp]> = [
      [{}, /needs a goal/],
      [{ goal: "  " }, /needs a goal/],
      [{ goal: "x", tasks: [{ goal: "y" }] }, /either goal or tasks/],
      [{ tasks: [] }, /needs a goal/],
      [{ tasks: [{ goal: "x" }, { goal: "" }] }, /needs a goal/],
      [{ tasks: "nonsense" }, /not a list/],
      [{ tasks: Array.from({ length: 4 }, (_, index) => ({ goal: `g${index}` })) }, /at most 3 tasks/]
    ]
    return Effect.gen(function*() {
      for (const [params, message] of bad) {
        const { layer, prompts } = setup(({ results }) => results === 0 ? delegate(params) : say("done"))
        yield* Effect.provide(
          Effect.gen(function*() {
            const result = yield* Agent.run({ prompt: "go" })
            assert.match((yield* lastResult(result.sessionId)).error ?? "", message)
            assert.isFalse(prompts.some(isChild))
          }),
          layer
        )
      }
    })
  })

  it.effect("tasks may come as the JSON text of a list", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (isChild(prompt)) return say("ok")
      return results === 0 ? delegate({ tasks: JSON.stringify([{ goal: "a" }, { goal: "b" }]) }) : say("done")
    })
    return Effect.gen(function*() {
      const result = yield* Agent.run({ prompt: "go" })
      assert.strictEqual((yield* lastResult(result.sessionId)).results.length, 2)
    }).pipe(Effect.provide(layer))
  })
})
