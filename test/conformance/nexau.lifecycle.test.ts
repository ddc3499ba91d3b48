import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import { ExecutionBlocked, MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { makeTextDelta } from "../../src/base/domain/ModelCall.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Fake from "../support/fakeModel.ts"
import * as Plugin from "../../src/agent/plugin/Plugin.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { play, results, textOf, texts, user } from "../support/lifecycle.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

const { deny, noChanges, skip, withModifications } = Middleware

const callEcho = Fake.calls(Fake.call("c1", "echo", { i: 1 }))

describe("nexau lifecycle", () => {
  it.effect("T1, T8 before_model runs first to last, each over the changes of the ones before", () =>
    Effect.gen(function* () {
      const adds = (name: string) =>
        Middleware.lifecycle({
          name,
          beforeModel: ({ messages }) => withModifications({ messages: [...messages, user(name)] })
        })
      const { fake, program } = play(
        [Fake.text("x")],
        [adds("A"), Middleware.lifecycle({ name: "none", beforeModel: () => noChanges }), adds("B")]
      )
      const { stored } = yield* program
      // Messages of the user that follow each other go out as one.
      assert.deepStrictEqual(texts(fake.asked[0]?.messages), ["helloAB"])
      assert.deepStrictEqual(stored.map(Conversation.readText), ["hello", "A", "B", "x"])
    })
  )

  it.effect("T2 after_agent runs last to first", () =>
    Effect.gen(function* () {
      const adds = (name: string) =>
        Middleware.lifecycle({
          name,
          after_agent: ({ agentResponse }) => withModifications({ agentResponse: agentResponse + name })
        })
      const { exit } = yield* play([Fake.text("x")], [adds("A"), adds("B")]).program
      assert.strictEqual(textOf(exit), "xBA")
    })
  )

  it.effect("T4 the first wrapper is outermost, classes too", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const wraps = (name: string) =>
        Middleware.lifecycle({
          name,
          wrap_tool_call: (next) => (args) =>
            Effect.suspend(() => {
              order.push(`${name}>`)
              return Effect.tap(next(args), () => Effect.sync(() => void order.push(`<${name}`)))
            }),
          wrapModelCall: (next) => (params) =>
            Effect.suspend(() => {
              order.push(`m${name}`)
              return next(params)
            })
        })
      yield* play([callEcho, Fake.text("x")], [wraps("A"), wraps("B")]).program
      assert.deepStrictEqual(order, ["mA", "mB", "A>", "B>", "<B", "<A", "mA", "mB"])
    })
  )

  it.effect("T5, T16 before_tool replaces the arguments, each over those before", () =>
    Effect.gen(function* () {
      const flags = (name: string) =>
        Middleware.lifecycle({
          name,
          beforeTool: ({ toolInput }) => withModifications({ toolInput: { ...toolInput, [name]: true } })
        })
      const both = play([callEcho, Fake.text("x")], [flags("A"), flags("B")])
      yield* both.program
      assert.deepStrictEqual(both.reached, [{ i: 1, A: true, B: true }])
      const whole = play(
        [callEcho, Fake.text("x")],
        [Middleware.lifecycle({ name: "w", before_tool: () => withModifications({ toolInput: { timeout: 30 } }) })]
      )
      yield* whole.program
      assert.deepStrictEqual(whole.reached, [{ timeout: 30 }])
    })
  )

  it.effect("T7, T10, T13 other phases pass through; nothing returned is no change", () =>
    Effect.gen(function* () {
      const { exit } = yield* play(
        [callEcho, Fake.text("x")],
        [
          Middleware.lifecycle({ name: "A", afterTool: () => {} }),
          Middleware.lifecycle({ name: "B", beforeModel: () => withModifications({ messages: undefined }) })
        ]
      ).program
      assert.strictEqual(textOf(exit), "x")
    })
  )

  it.effect("T14 a field of another phase is ignored in plain code", () =>
    Effect.gen(function* () {
      const wrong: object = { name: "w", before_model: () => withModifications({ toolInput: { a: 1 } }) }
      const { fake, program } = play([Fake.text("x")], [Middleware.lifecycle(wrong)])
      const {
        value: { exit },
        warnings
      } = yield* withWarnings(program)
      assert.strictEqual(textOf(exit), "x")
      assert.deepStrictEqual(texts(fake.asked[0]?.messages), ["hello"])
      assert.deepStrictEqual(warnings, [])
    })
  )

  it.effect("T17 two objects of one class have their own state and run in order", () =>
    Effect.gen(function* () {
      class Marks {
        readonly seen: Array<string> = []
        readonly mark: string
        constructor(mark: string) {
          this.mark = mark
        }
        before_tool(input: Middleware.BeforeToolInput) {
          this.seen.push(`${this.mark} ${JSON.stringify(input.toolInput)}`)
          return withModifications({ toolInput: { ...input.toolInput, [this.mark]: 1 } })
        }
      }
      const a = new Marks("a")
      const b = new Marks("b")
      yield* play([callEcho, Fake.text("x")], [Middleware.lifecycle(a), Middleware.lifecycle(b)]).program
      assert.deepStrictEqual([a.seen, b.seen], [['a {"i":1}'], ['b {"i":1,"a":1}']])
    })
  )

  it.effect("T19, T20 current_iteration counts from 0 with the model's calls; one iteration is one call", () =>
    Effect.gen(function* () {
      const seen: Array<number> = []
      const counts = Middleware.lifecycle({
        name: "n",
        before_model: ({ currentIteration }) => void seen.push(currentIteration)
      })
      const three = play([callEcho, Fake.calls(Fake.call("c2", "echo", { i: 2 })), Fake.text("x")], [counts])
      yield* three.program
      assert.deepStrictEqual(seen, [0, 1, 2])
      assert.strictEqual(three.fake.asked.length, 3)
      const one = play([Fake.text("x")], [], { maxIterations: 1 })
      assert.strictEqual(textOf((yield* one.program).exit), "x")
      assert.strictEqual(one.fake.asked.length, 1)
    })
  )

  it.effect("T22, T23 transient messages are in one request each and never stored", () =>
    Effect.gen(function* () {
      const hint = Middleware.lifecycle({
        name: "h",
        beforeModel: ({ promptMessages }) => withModifications({ promptMessages: [...promptMessages, user("hint")] })
      })
      const { fake, program } = play([callEcho, Fake.text("x")], [hint])
      const { stored } = yield* program
      assert.deepStrictEqual(
        fake.asked.map(({ messages }) => texts(messages).join("|").split("hint").length - 1),
        [1, 1]
      )
      assert.notInclude(stored.map(Conversation.readText), "hint")
    })
  )

  const forbids = (forceContinue: boolean) =>
    Middleware.lifecycle({
      name: "filter",
      after_model: ({ currentIteration, messages, parsedResponse }) =>
        currentIteration > 0
          ? noChanges
          : withModifications({
              parsedResponse: { ...parsedResponse, toolCalls: [] },
              ...(forceContinue ? { forceContinue, messages: [...messages, user("do it otherwise")] } : {})
            })
    })

  it.effect("T25 a call that after_model removes does not run, and the run stops when none is left", () =>
    Effect.gen(function* () {
      const { fake, program, reached } = play([callEcho, Fake.text("x")], [forbids(false)])
      const { exit, stored } = yield* program
      assert.isTrue(Exit.isSuccess(exit))
      assert.deepStrictEqual([reached.length, fake.asked.length], [0, 1])
      assert.include(String(results(stored)[0]), 'the middleware "filter" removed this call')
    })
  )

  it.effect("T26 with force_continue the next request has the error result, then the feedback", () =>
    Effect.gen(function* () {
      const { fake, program } = play([callEcho, Fake.text("x")], [forbids(true)])
      const { exit, stored } = yield* program
      assert.strictEqual(textOf(exit), "x")
      assert.deepStrictEqual(
        stored.map(({ role }) => role),
        ["user", "assistant", "tool", "user", "assistant"]
      )
      const next = fake.asked[1]?.messages ?? []
      assert.include(String(results(next)[0]), "removed this call")
      assert.strictEqual(texts(next).at(-1), "do it otherwise")
      assert.isBelow(
        next.findIndex(({ role }) => role === "tool"),
        next.length - 1
      )
    })
  )

  it.effect("force_continue is bounded: eight times in a row", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [Fake.text("x")],
        [Middleware.lifecycle({ name: "f", afterModel: () => withModifications({ forceContinue: true }) })]
      )
      const { exit } = yield* program
      assert.strictEqual(textOf(exit), "x")
      assert.strictEqual(fake.asked.length, 9)
    })
  )

  it.effect("T28, T29 tool_output is rendered for the model; llm_tool_output wins", () =>
    Effect.gen(function* () {
      const raw = Middleware.lifecycle({
        name: "r",
        afterTool: ({ toolOutput }) => withModifications({ toolOutput: { text: toolOutput } })
      })
      const llm = Middleware.lifecycle({
        name: "l",
        afterTool: () => withModifications({ llmToolOutput: "for the model" })
      })
      const one = play([callEcho, Fake.text("x")], [raw])
      yield* one.program
      assert.deepStrictEqual(results(one.fake.asked[1]?.messages), ['{"text":{"i":1}}'])
      const both = play([callEcho, Fake.text("x")], [raw, llm])
      yield* both.program
      assert.deepStrictEqual(results(both.fake.asked[1]?.messages), ["for the model"])
    })
  )

  it.effect("T31 what a factory makes belongs to one run, also of runs at the same time", () =>
    Effect.gen(function* () {
      const made: Array<ReadonlyArray<string>> = []
      const counter = Middleware.lifecyclePerRun({
        name: "c",
        make: ({ sessionId }) => {
          const seen: Array<string> = []
          made.push(seen)
          return {
            beforeModel: () =>
              Effect.as(
                Effect.andThen(
                  Effect.yieldNow,
                  Effect.sync(() => void seen.push(sessionId))
                ),
                noChanges
              ),
            afterAgent: ({ agentResponse }) => withModifications({ agentResponse: `${agentResponse} ${seen.length}` })
          }
        }
      })
      const { layer } = play([Fake.text("x")], [counter])
      const ids = Array.from({ length: 20 }, (_, n) => `s-${n}`)
      const ended = yield* Effect.forEach(ids, (sessionId) => Agent.run({ prompt: "hello", sessionId }), {
        concurrency: "unbounded"
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        ended.map(({ text }) => text),
        ids.map(() => "x 1")
      )
      assert.deepStrictEqual(made.map((seen) => seen.join()).toSorted(), ids.toSorted())
    })
  )

  it.effect("T35 a method that throws is skipped with one warning that names it", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "A",
            beforeModel: () => {
              throw new Error("oops")
            }
          }),
          Middleware.lifecycle({
            name: "B",
            beforeModel: ({ messages }) => withModifications({ messages: [...messages, user("B")] })
          })
        ]
      )
      const { warnings } = yield* withWarnings(program)
      assert.deepStrictEqual(texts(fake.asked[0]?.messages), ["helloB"])
      assert.deepStrictEqual(warnings, ['before_model middleware "A" failed (oops); it is skipped'])
    })
  )

  it.effect("T37 a run that fails is told to after_agent, whose change is dropped", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const { exit } = yield* play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "last",
            afterAgent: ({ agentResponse, stopReason }) => {
              seen.push(stopReason, agentResponse)
              return withModifications({ agentResponse: "all is well" })
            }
          }),
          Middleware.lifecycle({
            name: "p",
            onFailure: "closed",
            wrapModelCall: () => () => Effect.die(new Error("no"))
          })
        ]
      ).program
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(seen[0], "ERROR_OCCURRED")
      assert.match(String(seen[1]), /^Error: .*no/)
    })
  )

  it.effect("T38 a wrapper that answers itself asks no provider", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "mock",
            wrapModelCall: () => () =>
              Effect.succeed({
                response: Fake.textAnswer("mocked"),
                route: { provider: "fake", model: "fake-1", apiMode: "chat_completions" as const, baseUrl: undefined },
                attempt: 0
              })
          })
        ]
      )
      assert.strictEqual(textOf((yield* program).exit), "mocked")
      assert.strictEqual(fake.asked.length, 0)
    })
  )

  it.effect("T41 a tool that throws: after_tool runs, and its change is what the model reads", () =>
    Effect.gen(function* () {
      const errors: Array<boolean> = []
      const { fake, program } = play(
        [Fake.calls(Fake.call("c1", "boom", {})), Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "a",
            afterTool: ({ isError }) => {
              errors.push(isError)
              return withModifications({ toolOutput: "it broke" })
            }
          })
        ]
      )
      yield* program
      assert.deepStrictEqual([errors, results(fake.asked[1]?.messages)], [[true], ["it broke"]])
    })
  )

  it.effect("T42 a call of an unknown tool or with malformed arguments: after_tool runs, before_tool does not", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [string, string, boolean, unknown]> = []
      const { fake, program, reached } = play(
        [
          // No valid call runs beside an unknown one.
          Fake.calls(Fake.call("c1", "nope", { mail: "a@b.example" })),
          Fake.calls(Fake.call("c2", "echo", "{mail: a@b.example}"), Fake.call("c3", "echo", { i: 1 })),
          Fake.text("x")
        ],
        [
          Middleware.lifecycle({
            name: "masking",
            onFailure: "closed",
            beforeTool: ({ toolName }) => void seen.push(["before", toolName, false, undefined]),
            afterTool: ({ isError, llmToolOutput, toolName, toolOutput }) => {
              seen.push(["after", toolName, isError, toolOutput])
              return typeof llmToolOutput === "string"
                ? withModifications({ llmToolOutput: llmToolOutput.replaceAll("a@b.example", "[mail]") })
                : noChanges
            }
          })
        ]
      )
      yield* program
      assert.deepStrictEqual(
        seen.map(([when, name, isError]) => [when, name, isError]),
        [
          ["after", "nope", true],
          ["after", "echo", true],
          ["before", "echo", false],
          ["after", "echo", false]
        ]
      )
      assert.match(JSON.stringify(seen[0]?.[3]), /^\{"error":"Tool 'nope' does not exist/)
      assert.deepStrictEqual(reached, [{ i: 1 }])
      const told = results(fake.asked[2]?.messages).map(String)
      assert.include(told[0], "Tool 'nope' does not exist")
      assert.include(told[1], "{mail: [mail]}")
    })
  )

  it.effect("T43 a closed before_tool that throws: the tool does not run, the model gets a denial", () =>
    Effect.gen(function* () {
      const { fake, program, reached } = play(
        [callEcho, Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "guard",
            onFailure: "closed",
            beforeTool: () => {
              throw new Error("oops")
            }
          })
        ]
      )
      yield* program
      assert.strictEqual(reached.length, 0)
      assert.include(String(results(fake.asked[1]?.messages)[0]), "fail closed: Error: oops")
    })
  )

  it.effect("T44 before_tool denies or skips: the tool does not run", () =>
    Effect.gen(function* () {
      const denied = play(
        [callEcho, Fake.text("x")],
        [Middleware.lifecycle({ name: "d", beforeTool: () => deny("why") })]
      )
      yield* denied.program
      assert.deepStrictEqual([denied.reached, results(denied.fake.asked[1]?.messages)], [[], ['{"error":"why"}']])
      const skipped = play(
        [callEcho, Fake.text("x")],
        [Middleware.lifecycle({ name: "s", beforeTool: () => skip({ cached: 1 }) })]
      )
      yield* skipped.program
      assert.deepStrictEqual([skipped.reached, results(skipped.fake.asked[1]?.messages)], [[], ['{"cached":1}']])
    })
  )

  it.effect("T47 promises and Effects are waited for, in order", () =>
    Effect.gen(function* () {
      const { reached, program } = play(
        [callEcho, Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "p",
            beforeTool: async ({ toolInput }) =>
              withModifications({ toolInput: { ...toolInput, p: Object.keys(toolInput).length } })
          }),
          Middleware.lifecycle({
            name: "e",
            beforeTool: ({ toolInput }) =>
              Effect.succeed(withModifications({ toolInput: { ...toolInput, e: Object.keys(toolInput).length } }))
          })
        ]
      )
      yield* program
      assert.deepStrictEqual(reached, [{ i: 1, p: 1, e: 2 }])
    })
  )

  it.effect("T52 wrap_tool_call changes the arguments", () =>
    Effect.gen(function* () {
      const { reached, program } = play(
        [callEcho, Fake.text("x")],
        [Middleware.lifecycle({ name: "w", wrap_tool_call: (next) => () => next({ i: 2 }) })]
      )
      yield* program
      assert.deepStrictEqual(reached, [{ i: 2 }])
    })
  )

  it.effect("before_agent changes what is stored of the user's message", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "b",
            beforeAgent: ({ messages }) => withModifications({ messages: [...messages.slice(0, -1), user("masked")] })
          })
        ]
      )
      const { stored } = yield* program
      assert.deepStrictEqual(texts(fake.asked[0]?.messages), ["masked"])
      assert.deepStrictEqual(stored.map(Conversation.readText), ["masked", "x"])
    })
  )

  it.effect("after_agent runs once on an interrupted run", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const { layer } = play(
        [() => Effect.never],
        [Middleware.lifecycle({ name: "a", afterAgent: ({ stopReason }) => void seen.push(stopReason) })]
      )
      const fiber = yield* Effect.forkChild(Effect.provide(Agent.run({ prompt: "hello" }), layer), {
        startImmediately: true
      })
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(seen, ["USER_INTERRUPTED"])
    })
  )

  it.effect("a closed phase fails the run and names itself", () =>
    Effect.gen(function* () {
      const { exit } = yield* play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "c",
            onFailure: "closed",
            beforeModel: () => {
              throw new Error("oops")
            }
          })
        ]
      ).program
      const error = Exit.isFailure(exit)
        ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error] : []))[0]
        : undefined
      assert.isTrue(
        error instanceof MiddlewareFailure && error.kind === "before_model" && error.middleware === "c",
        String(exit)
      )
    })
  )

  it.effect("a run that before_agent refuses has an end: after_agent and one on_session_end; nothing is stored", () =>
    Effect.gen(function* () {
      const ended: Array<unknown> = []
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.on("on_session_end", ({ reason }) => Effect.sync(() => void ended.push(reason))))
      const { program } = play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({ name: "end", afterAgent: ({ stopReason }) => void ended.push(stopReason) }),
          Middleware.lifecycle({
            name: "c",
            onFailure: "closed",
            beforeAgent: () => {
              throw new Error("oops")
            }
          })
        ]
      )
      const { exit, stored } = yield* Effect.provideService(program, Hooks.Hooks, hooks)
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual([ended, stored], [["ERROR_OCCURRED", "failed"], []])
    })
  )

  it.effect("a pass-through of all eight methods changes nothing that is sent or stored", () =>
    Effect.gen(function* () {
      const nothing = Middleware.lifecycle({
        name: "pass",
        beforeAgent: () => noChanges,
        afterAgent: () => {},
        beforeModel: async () => noChanges,
        afterModel: () => Effect.succeed(noChanges),
        beforeTool: () => withModifications({}),
        afterTool: () => noChanges,
        wrapModelCall: (next) => next,
        wrapToolCall: (next) => (args) => next(args)
      })
      const turns = [callEcho, Fake.calls(Fake.call("c2", "boom", {})), Fake.text("x")]
      const bare = play(turns, [])
      const wrapped = play(turns, [nothing, nothing])
      const plain = yield* bare.program
      const passed = yield* wrapped.program
      const usable = ({ exit, stored }: typeof plain) =>
        JSON.stringify([Exit.isSuccess(exit) ? { ...exit.value, turnId: "" } : exit, stored])
      assert.strictEqual(usable(passed), usable(plain))
      const asked = ({ fake }: typeof bare) =>
        JSON.stringify(fake.asked.map(({ messages, tools }) => [messages, tools]))
      assert.strictEqual(asked(wrapped), asked(bare))
    })
  )

  it.effect("a method that hangs is skipped after 30 s; one that interrupts itself is skipped at once", () =>
    Effect.gen(function* () {
      const { program } = play(
        [Fake.text("x")],
        [
          Middleware.lifecycle({ name: "hangs", beforeModel: () => Effect.never }),
          Middleware.lifecycle({ name: "stops", beforeModel: () => Effect.interrupt })
        ]
      )
      const fiber = yield* Effect.forkChild(withWarnings(program))
      for (let i = 0; i < 20 && fiber.pollUnsafe() === undefined; i++) {
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
        yield* TestClock.adjust("10 seconds")
      }
      const {
        value: { exit },
        warnings
      } = yield* Fiber.join(fiber)
      assert.strictEqual(textOf(exit), "x")
      assert.deepStrictEqual(warnings, [
        'before_model middleware "hangs" failed (no answer within 30 s); it is skipped',
        'before_model middleware "stops" failed (it interrupted itself, or waited for a fiber that was interrupted); it is skipped'
      ])
    })
  )

  it.effect("a method cannot change what it is shown", () =>
    Effect.gen(function* () {
      const mutates = (key: string) => (input: object) => {
        const value: unknown = Reflect.get(input, key)
        if (Array.isArray(value)) value.push("more")
        else Object.assign(value as object, { i: 666 })
      }
      const { fake, program, reached } = play(
        [callEcho, Fake.text("x")],
        [
          Middleware.lifecycle({
            name: "m",
            beforeAgent: mutates("messages"),
            beforeModel: mutates("messages"),
            beforeTool: mutates("toolInput"),
            afterTool: mutates("toolOutput")
          })
        ]
      )
      const {
        value: { stored },
        warnings
      } = yield* withWarnings(program)
      assert.deepStrictEqual(
        warnings.map((warning) => warning.split(" ")[0]),
        ["before_agent", "before_model", "before_tool", "after_tool", "before_model"]
      )
      assert.deepStrictEqual(reached, [{ i: 1 }])
      assert.deepStrictEqual(results(fake.asked[1]?.messages), ['{"i":1}'])
      assert.deepStrictEqual(
        stored.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant"]
      )
    })
  )

  it.live("a plugin brings lifecycle middleware, outermost, with methods shared or made for each run", () =>
    Effect.gen(function* () {
      const adds =
        (mark: string) =>
        ({ agentResponse }: Middleware.AfterAgentInput) =>
          withModifications({ agentResponse: `${agentResponse}${mark}` })
      const plugin = Plugin.fromValue({
        name: "marks",
        middleware: [
          Middleware.lifecycle({
            name: "shared",
            after_agent: adds("1"),
            wrapModelCall: (next) => (params) => next(params)
          }),
          Middleware.lifecyclePerRun({ name: "made", make: () => ({ afterAgent: adds("2") }) })
        ]
      })
      const runtime = Runtime.layer({
        plugins: [plugin],
        middleware: [Middleware.lifecycle({ name: "own", afterAgent: adds("3") })]
      })
      const { text } = yield* Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), runtime)
      assert.strictEqual(text, "hello321")
    })
  )

  it("a method in both spellings is refused where the middleware is made", () => {
    assert.throws(
      () => Middleware.lifecycle({ name: "two", beforeModel: () => noChanges, before_model: () => noChanges }),
      /has both beforeModel and before_model/
    )
  })

  describe("stream_part", () => {
    const answer = Fake.pieces("my ", "secret", " is here")
    /** Runs a streamed answer; gives what was shown, the result and what is stored. */
    const streamed = Effect.fnUntraced(function* (middleware: ReadonlyArray<Middleware.Contained>) {
      const { layer, sessionId } = play([answer], middleware)
      const events: Array<RunEvent> = []
      const running = yield* Effect.forkChild(
        withWarnings(
          Effect.exit(
            Agent.run({
              prompt: "hi",
              sessionId,
              streaming: true,
              onEvent: (more) => Effect.sync(() => void events.push(...more))
            }).pipe(
              Effect.flatMap((result) =>
                Effect.map(
                  SessionStore.use((store) => store.messages(result.sessionId)),
                  (stored) => ({ text: result.text, stored: texts([user(""), ...stored]).at(-1) })
                )
              ),
              Effect.provide(layer)
            )
          )
        )
      )
      while (running.pollUnsafe() === undefined) {
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
        yield* TestClock.adjust("30 seconds")
      }
      const { value: exit, warnings } = yield* Fiber.join(running)
      const shown = events.reduce(
        (text, event) =>
          event._tag === "TextDelta" ? text + event.text : event._tag === "TextReplaced" ? event.text : text,
        ""
      )
      return { exit, shown, warnings, ...(Exit.isSuccess(exit) ? exit.value : { text: undefined, stored: undefined }) }
    })
    const mapText =
      (change: (text: string) => string) =>
      ({ parts }: Middleware.StreamPartInput) =>
        withModifications({
          parts: parts.map((part) => (part.type === "text-delta" ? makeTextDelta(part.id, change(part.delta)) : part))
        })
    const same = (text: string) => ({ shown: text, text, stored: text })

    it.effect(
      "first to last, before the wrappers of the call, in both spellings and by a factory: shown, returned and stored",
      () =>
        Effect.gen(function* () {
          const seen: Array<string> = []
          const wrapper = Middleware.wrapModelCall({
            name: "w",
            wrap: (next) => (params) =>
              next(params, {
                onPart: (parts) =>
                  Effect.sync(() => {
                    for (const part of parts) if (part.type === "text-delta") seen.push(part.delta)
                    return parts
                  })
              })
          })
          const found = yield* streamed([
            Middleware.lifecycle({ name: "A", streamPart: mapText((text) => text.replace("secret", "[a]")) }),
            wrapper,
            Middleware.lifecyclePerRun({
              name: "B",
              make: () => ({ stream_part: async (input) => mapText((text) => text.replace("[a]", "[b]"))(input) })
            }),
            Middleware.lifecycle({ name: "C", streamPart: () => Effect.succeed(noChanges) })
          ])
          assert.deepInclude(found, same("my [b] is here"))
          assert.deepStrictEqual(seen, ["my ", "[b]", " is here"])
        })
    )

    it.effect("cuts by an empty list", () =>
      Effect.gen(function* () {
        const found = yield* streamed([
          Middleware.lifecycle({
            name: "cut",
            streamPart: ({ parts }) =>
              withModifications({
                parts: parts.filter((part) => part.type !== "text-delta" || part.delta !== "secret")
              })
          })
        ])
        assert.deepInclude(found, same("my  is here"))
      })
    )

    it.effect(
      "T46 one that fails, hangs or gives something else: its parts pass unchanged to the next one, with one warning",
      () =>
        Effect.gen(function* () {
          const faults = [
            () => {
              throw new Error("broken")
            },
            () => Effect.never,
            () => Effect.interrupt,
            (() => "text") as unknown as () => void,
            () => withModifications({ parts: ["text"] as never })
          ]
          for (const streamPart of faults) {
            const found = yield* streamed([
              Middleware.lifecycle({ name: "broken", streamPart }),
              Middleware.lifecycle({ name: "shout", streamPart: mapText((text) => text.toUpperCase()) })
            ])
            assert.deepInclude(found, same("MY SECRET IS HERE"))
            assert.lengthOf(
              found.warnings.filter((warning) => warning.includes('stream_part middleware "broken" failed')),
              1,
              found.warnings.join("\n")
            )
          }
        })
    )

    it.effect("half-way: what it took out stays out, nothing more is shown, and all have the same text", () =>
      Effect.gen(function* () {
        const redact = mapText((text) => {
          if (text === " is here") throw new Error("broken")
          return text.replace("secret", "[removed]")
        })
        assert.deepInclude(
          yield* streamed([Middleware.lifecycle({ name: "redact", streamPart: redact })]),
          same("my [removed]")
        )
      })
    )

    it.effect("closed, or a veto: the run fails by its name, what was shown is taken back and nothing is stored", () =>
      Effect.gen(function* () {
        const fails =
          (error: () => never) =>
          ({ parts }: Middleware.StreamPartInput) =>
            parts.some((part) => part.type === "text-delta" && part.delta === "secret") ? error() : noChanges
        const closed = yield* streamed([
          Middleware.lifecycle({
            name: "policy",
            onFailure: "closed",
            streamPart: fails(() => {
              throw new Error("broken")
            })
          })
        ])
        const failure = Exit.isFailure(closed.exit) ? Cause.squash(closed.exit.cause) : undefined
        assert.isTrue(
          failure instanceof MiddlewareFailure && failure.kind === "stream_part" && failure.middleware === "policy",
          String(failure)
        )
        assert.strictEqual(closed.shown, "")
        const veto = yield* streamed([
          Middleware.lifecycle({
            name: "veto",
            streamPart: fails(() => {
              throw new ExecutionBlocked({ reason: "no", metadata: {} })
            })
          })
        ])
        assert.isTrue(Exit.isFailure(veto.exit) && Cause.squash(veto.exit.cause) instanceof ExecutionBlocked)
        assert.strictEqual(veto.shown, "")
      })
    )
  })
})
