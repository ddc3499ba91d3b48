import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import * as Agent from "../../src/agent/Agent.ts"
import { Children } from "../../src/agent/Children.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { delegate, isChild, lastResult, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"

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
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", onEvent: (seen) => Effect.sync(() => void events.push(...seen)) })
      assert.strictEqual(result.text, "parent done")
      assert.deepStrictEqual(ran, ["child"])
      const {
        results: [report]
      } = yield* lastResult(result.sessionId)
      assert.deepInclude(report, { status: "completed", exit_reason: "completed", summary: "I echoed.", api_calls: 2 })
      assert.deepStrictEqual(report?.tool_trace, [{ tool: "echo", args_bytes: 16, result_bytes: 5, status: "ok" }])
      assert.strictEqual(result.usage.requestCount, 4, "the child's cost is the parent's")
      const store = yield* SessionStore
      const [child] = yield* store.list({ source: "subagent" })
      assert.strictEqual(child?.parentId, result.sessionId)
      assert.strictEqual(child?.endReason, "text_response")
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag.startsWith("Subagent") ? [event._tag] : [])),
        ["SubagentStarted", "SubagentProgress", "SubagentFinished"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "the surface of a run stands before that of the agent, for hooks and its prompt; a child answers no user",
    () => {
      const platforms = new Set<string>()
      const { layer } = setup(
        ({ prompt, results }) => (isChild(prompt) || results > 0 ? say("done") : delegate({ goal: "look" })),
        {
          settings: { platform: "cli" },
          hooks: [Hooks.on("pre_llm_call", ({ platform }) => Effect.sync(() => void platforms.add(platform)))]
        }
      )
      return Effect.gen(function* () {
        const store = yield* SessionStore
        const terminal = yield* Agent.run({ prompt: "go" })
        const isForTerminal = (session: { readonly systemPrompt: string }) =>
          session.systemPrompt.includes("You answer in a terminal.")
        assert.deepStrictEqual(
          (yield* store.list())
            .map((session) => [session.id === terminal.sessionId, isForTerminal(session)])
            .toSorted(),
          [
            [false, false],
            [true, true]
          ]
        )
        assert.deepStrictEqual([...platforms], ["cli"])
        platforms.clear()
        yield* Agent.run({ prompt: "go", platform: "batch" })
        assert.strictEqual((yield* store.list()).filter(isForTerminal).length, 1)
        assert.deepStrictEqual([...platforms], ["batch"])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect(
    "53, 56 and 115 children run side by side; one that fails leaves the others alone; each has its own start and stop",
    () => {
      const seen: Array<readonly [string, string]> = []
      const both = Deferred.makeUnsafe<void>()
      const ended = Deferred.makeUnsafe<void>()
      const note = (name: "subagent_start" | "subagent_stop") =>
        Hooks.fromPlain(name, (event) => {
          seen.push([name, event.child_subagent_id])
        })
      let running = 0
      const { layer } = setup(
        ({ prompt, results }) => {
          if (!isChild(prompt)) {
            return results === 0 ? delegate({ tasks: [{ goal: "first" }, { goal: "second" }] }) : say("done")
          }
          const wait = ++running === 2 ? Deferred.succeed(both, undefined) : Deferred.await(both)
          const first = prompt.startsWith("first")
          const answer = first
            ? Effect.fail(Fake.failure(new AiError.AuthenticationError({ kind: "InvalidKey" })))
            : Effect.andThen(Deferred.await(ended), say("second is done"))
          return Effect.andThen(wait, answer).pipe(
            Effect.ensuring(
              Effect.andThen(
                Effect.sync(() => seen.push([first ? "first ended" : "second ended", ""])),
                Deferred.succeed(ended, undefined)
              )
            )
          )
        },
        { hooks: [note("subagent_start"), note("subagent_stop")] }
      )
      return Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "go" })
        const { results } = yield* lastResult(result.sessionId)
        assert.deepStrictEqual(
          results.map(({ status, task_index }) => [task_index, status]),
          [
            [0, "failed"],
            [1, "completed"]
          ]
        )
        assert.match(results[0]?.error ?? "", /InvalidKey/)
        const starts = seen.filter(([name]) => name === "subagent_start").map(([, id]) => id)
        const stops = seen.filter(([name]) => name === "subagent_stop").map(([, id]) => id)
        assert.strictEqual(new Set(starts).size, 2)
        assert.deepStrictEqual(stops, starts, "in the order of the tasks")
        assert.deepStrictEqual(
          seen.map(([name]) => name),
          ["subagent_start", "subagent_start", "first ended", "second ended", "subagent_stop", "subagent_stop"]
        )
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect(
    "52 (the issue decides: partial work is never called complete) a child that runs out of budget is partial",
    () => {
      const { layer } = setup(
        ({ prompt, results }) => {
          if (!isChild(prompt)) {
            // The summary request of the child names no task: it has no tools either.
            return prompt.startsWith("The number of model calls")
              ? say("half of it")
              : results === 0
                ? delegate({ goal: "x" })
                : say("done")
          }
          return Effect.succeed(Fake.callsAnswer(Fake.call(`c${results}`, "echo", { text: String(results) })))
        },
        { settings: { delegation: { maxIterations: 2 } } }
      )
      return Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "go" })
        const {
          results: [report]
        } = yield* lastResult(result.sessionId)
        assert.deepInclude(report, { status: "partial", exit_reason: "max_iterations", summary: "half of it" })
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("a child that hangs is given up at its time limit", () => {
    const asked = Deferred.makeUnsafe<void>()
    const { layer } = setup(
      ({ prompt, results }) => {
        if (isChild(prompt)) return Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
        return results === 0 ? delegate({ goal: "x" }) : say("done")
      },
      { settings: { delegation: { childTimeoutMillis: 60_000 } } }
    )
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("60 seconds")
      const result = yield* Fiber.join(fiber)
      const {
        results: [report]
      } = yield* lastResult(result.sessionId)
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
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(interrupted, 2)
      const store = yield* SessionStore
      assert.deepStrictEqual(
        (yield* store.list()).map(({ endReason }) => endReason),
        ["interrupted", "interrupted", "interrupted"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("49 and 98 depth ends delegation: an orchestrator may delegate once more, its child may not", () => {
    const offered: Array<readonly [string, boolean]> = []
    const { layer } = setup(({ prompt, results, tools }) => {
      const depth = isChild(prompt) ? (prompt.split("\n")[0] ?? "") : "top"
      if (results === 0) offered.push([depth, tools.includes("delegate_task")])
      if (results > 0) return say(`${depth} done`)
      if (depth === "top") return delegate({ goal: "middle", role: "orchestrator" })
      if (depth === "middle") return delegate({ goal: "bottom", role: "orchestrator" })
      return say("bottom done")
    })
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(offered, [
        ["top", true],
        ["middle", true],
        ["bottom", false]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("50 a child gets the part of the parent's tools that it asks for, and no more", () => {
    let offered: ReadonlyArray<string> = []
    const { layer } = setup(({ prompt, results, tools }) => {
      if (!isChild(prompt))
        return results === 0 ? delegate({ goal: "x", toolsets: ["terminal", "delegation"] }) : say("done")
      offered = tools
      return say("ok")
    })
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(offered, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("children inherit middleware", () => {
    const wrapped: Array<string> = []
    const { layer } = setup(
      ({ prompt, results }) => {
        if (!isChild(prompt)) return results === 0 ? delegate({ goal: "x" }) : say("done")
        return results === 0 ? Effect.succeed(Fake.callsAnswer(Fake.call("c1", "echo", { text: "x" }))) : say("ok")
      },
      {
        middleware: [
          Plain.toolExecution({ name: "watch" }, (call) => {
            wrapped.push(String(call["tool_name"]))
            return (call["next_call"] as () => unknown)()
          })
        ]
      }
    )
    return Effect.gen(function* () {
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
      [{ goal: "x", toolsets: ["termnal"] }, /no toolset "termnal": did you mean "terminal"/],
      [{ tasks: [{ goal: "x" }, { goal: "y" }], background: true }, /single task/],
      [{ tasks: Array.from({ length: 4 }, (_, index) => ({ goal: `g${index}` })) }, /at most 3 tasks/]
    ]
    return Effect.gen(function* () {
      for (const [params, message] of bad) {
        const { layer, prompts } = setup(({ results }) => (results === 0 ? delegate(params) : say("done")))
        yield* Effect.provide(
          Effect.gen(function* () {
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
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.strictEqual((yield* lastResult(result.sessionId)).results.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("what was finished before an interrupt is kept as the result of the call", () => {
    const asked = Deferred.makeUnsafe<void>()
    const { layer } = setup(({ prompt }) => {
      if (!isChild(prompt)) return delegate({ tasks: [{ goal: "quick" }, { goal: "slow" }] })
      return prompt.startsWith("quick")
        ? say("quick is done, the key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789")
        : Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
    })
    return Effect.gen(function* () {
      const agent = yield* Agent.Agent
      const children = yield* Children
      const fiber = yield* Effect.forkChild(agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(asked)
      while ((yield* children.list).length > 1) yield* Effect.yieldNow
      assert.isTrue(yield* agent.stop("s1"))
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(result.exit, "interrupted_by_user")
      const { results } = yield* lastResult("s1")
      assert.deepStrictEqual(
        results.map(({ status }) => status),
        ["completed", "interrupted"]
      )
      assert.match(results[0]?.summary ?? "", /^quick is done, the key is /)
      assert.notInclude(results[0]?.summary, "abcdefghijklmnop", "what is kept is redacted like any result")
      assert.strictEqual(results[1]?.summary, "")
      assert.isEmpty(yield* children.list)
    }).pipe(Effect.provide(layer))
  })

  it.effect("one child can be stopped alone: its parent gets what it has, and goes on", () => {
    const asked = Deferred.makeUnsafe<void>()
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt))
        return results === 0 ? delegate({ tasks: [{ goal: "quick" }, { goal: "slow" }] }) : say("parent done")
      return prompt.startsWith("quick") ? say("ok") : Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
    })
    return Effect.gen(function* () {
      const children = yield* Children
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(asked)
      const slow = (yield* children.list).find(({ goal }) => goal === "slow")
      assert.deepInclude(slow, {
        depth: 1,
        parentSessionId: SessionId.make("s1"),
        parentSubagentId: "",
        model: "fake-1"
      })
      assert.isUndefined(yield* children.stop("nobody"))
      assert.strictEqual((yield* children.stop(slow?.subagentId.slice(0, 9) ?? ""))?.goal, "slow")
      assert.strictEqual((yield* Fiber.join(fiber)).text, "parent done")
      const { results } = yield* lastResult("s1")
      assert.deepStrictEqual(
        results.map(({ status }) => status),
        ["completed", "interrupted"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("the cost of a child and of its own children is the parent's", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (results > 0) return say("done")
      if (!isChild(prompt)) return delegate({ goal: "middle", role: "orchestrator" })
      return prompt.startsWith("middle") ? delegate({ goal: "bottom" }) : say("bottom done")
    })
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      // Two calls of the parent, two of the child, one of the grandchild.
      assert.strictEqual(result.usage.requestCount, 5)
      const {
        results: [report]
      } = yield* lastResult(result.sessionId)
      assert.deepStrictEqual(report?.tokens, { input: 30, output: 15 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("58 a file that the parent read and a child changed is listed as stale", () => {
    const touch = (path: string, write: boolean) =>
      Effect.succeed(Fake.callsAnswer(Fake.call(`t-${path}-${write}`, "touch", { path, write })))
    const { layer } = setup(({ prompt, results }) => {
      if (isChild(prompt)) return results === 0 ? touch("/a", true) : results === 1 ? touch("/b", true) : say("changed")
      if (results === 0) return touch("/a", false)
      return results === 1 ? delegate({ goal: "change /a and /b" }) : say("done")
    })
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      const {
        note,
        results: [report]
      } = yield* lastResult(result.sessionId)
      assert.deepStrictEqual(report?.stale_paths, ["/a"])
      assert.include(note, "/a")
    }).pipe(Effect.provide(layer))
  })

  it.effect("a child that dies is an error, and its siblings are left alone", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (!isChild(prompt))
        return results === 0 ? delegate({ tasks: [{ goal: "dies" }, { goal: "lives" }] }) : say("done")
      return prompt.startsWith("dies") ? Effect.die(new Error("it broke")) : say("alive")
    })
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      const { results } = yield* lastResult(result.sessionId)
      assert.deepStrictEqual(
        results.map(({ status }) => status),
        ["error", "completed"]
      )
      assert.include(results[0]?.error, "it broke")
    }).pipe(Effect.provide(layer))
  })

  it.effect("while delegation is paused nobody is spawned", () => {
    const { layer, prompts } = setup(({ results }) => (results === 0 ? delegate({ goal: "x" }) : say("done")))
    return Effect.gen(function* () {
      yield* (yield* Children).pause(true)
      const result = yield* Agent.run({ prompt: "go" })
      assert.include((yield* lastResult(result.sessionId)).error, "paused")
      assert.isFalse(prompts.some(isChild))
    }).pipe(Effect.provide(layer))
  })

  it.effect("a child thinks as hard as delegation.reasoning_effort says, and its parent as it did", () => {
    const { efforts, layer } = setup(
      ({ prompt, results }) => (isChild(prompt) ? say("ok") : results === 0 ? delegate({ goal: "x" }) : say("done")),
      { settings: { reasoningEffort: "high", delegation: { reasoningEffort: "low" } } }
    )
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(efforts, ["high", "low", "high"])
    }).pipe(Effect.provide(layer))
  })
})
