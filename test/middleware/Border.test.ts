// The border around middleware: a fiber and a deadline of its own, copies in both directions, calls in flight.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { ExecutionBlocked, MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import type { ToolOutput } from "../../src/base/domain/ToolOutput.ts"
import type { ToolArguments } from "../../src/middleware/Kind.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { output, rewriteArgs, rewriteRequest, runModel, runTools, withWarnings } from "../support/middlewareContexts.ts"

type NextCall = (payload?: unknown) => Promise<unknown>
const nextOf = (call: Plain.Envelope): NextCall => call["next_call"] as NextCall

const slow = (result: Effect.Effect<unknown, unknown> = Effect.succeed("base"), seconds = 1) => {
  const state = { runs: 0, ended: 0 }
  const base = (): Effect.Effect<ToolOutput, unknown> =>
    Effect.suspend(() => {
      state.runs++
      return Effect.ensuring(
        Effect.andThen(Effect.sleep(`${seconds} seconds`), Effect.map(result, output)),
        Effect.sync(() => void state.ended++)
      )
    })
  return { state, base }
}

/** Runs to the end while the clock moves. */
const moved = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    for (let i = 0; i < 100 && fiber.pollUnsafe() === undefined; i++) {
      yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      yield* TestClock.adjust("30 seconds")
    }
    return yield* Effect.exit(Fiber.join(fiber))
  })

const valueOf = (exit: Exit.Exit<ToolOutput, unknown>): unknown => (Exit.isSuccess(exit) ? exit.value.output : exit)

const openOf = (name: string, callback: Plain.Callback) => Plain.toolExecution({ name }, callback)
const closedOf = (name: string, callback: Plain.Callback) =>
  Plain.toolExecution({ name, onFailure: "closed" }, callback)

const inFlight: ReadonlyArray<readonly [name: string, callback: Plain.Callback, fault: string]> = [
  [
    "throws",
    (call) => {
      void nextOf(call)()
      throw new Error("oops")
    },
    "it failed (oops) while its next_call() was still running"
  ],
  [
    "rejects",
    async (call) => {
      void nextOf(call)()
      throw new Error("oops")
    },
    "it failed (oops) while its next_call() was still running"
  ],
  [
    "forgets await",
    async (call) => {
      void nextOf(call)()
    },
    "it returned nothing while its next_call() was still running"
  ],
  [
    "forgets return",
    (call) => {
      void nextOf(call)()
    },
    "it returned nothing while its next_call() was still running"
  ],
  [
    "answers early",
    async (call) => {
      void nextOf(call)()
      return "early"
    },
    "it answered while its next_call() was still running"
  ],
  [
    "calls twice at once",
    (call) => Promise.all([nextOf(call)(), nextOf(call)()]),
    "more than once: downstream execution is single-use. To repeat a call, use wrapToolCall"
  ]
]

describe("a plain wrapper that ends while its next_call runs", () => {
  for (const [name, callback, fault] of inFlight) {
    it.effect(`${name}: the call below is waited for, and its value stands`, () =>
      Effect.gen(function* () {
        const { base, state } = slow()
        const { value, warnings } = yield* withWarnings(moved(runTools([openOf(name, callback)], {}, base)))
        assert.strictEqual(valueOf(value), "base")
        assert.deepStrictEqual(state, { runs: 1, ended: 1 })
        assert.strictEqual(warnings.length, 1)
        assert.include(warnings[0], `tool_execution middleware "${name}" failed (`)
        assert.include(warnings[0], fault)
      })
    )

    it.effect(`${name}: its failure stands`, () =>
      Effect.gen(function* () {
        const failure = new Error("from below")
        const { base, state } = slow(Effect.fail(failure))
        const { value, warnings } = yield* withWarnings(moved(runTools([openOf(name, callback)], {}, base)))
        assert.isTrue(
          Exit.isFailure(value) &&
            value.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error === failure)
        )
        assert.deepStrictEqual(state, { runs: 1, ended: 1 })
        assert.strictEqual(warnings.length, 1)
      })
    )

    it.effect(`${name}: a closed one fails the call, when what it began is over`, () =>
      Effect.gen(function* () {
        const { base, state } = slow()
        const exit = yield* moved(runTools([closedOf(name, callback)], {}, base))
        const error = Exit.isFailure(exit)
          ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error] : []))[0]
          : undefined
        assert.instanceOf(error, MiddlewareFailure)
        assert.include(error?.message, name)
        assert.include(error?.message, fault)
        assert.deepStrictEqual(state, { runs: 1, ended: 1 })
      })
    )
  }

  it.effect("a veto stays a veto, and the call below is not cut", () =>
    Effect.gen(function* () {
      const { base, state } = slow()
      const exit = yield* moved(
        runTools(
          [
            openOf("veto", (call) => {
              void nextOf(call)()
              throw new ExecutionBlocked({ reason: "no", metadata: {} })
            })
          ],
          {},
          base
        )
      )
      assert.isTrue(
        Exit.isFailure(exit) &&
          exit.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error instanceof ExecutionBlocked)
      )
      assert.deepStrictEqual(state, { runs: 1, ended: 1 })
    })
  )

  it.effect("an interrupted run cuts the call below, and waits for it", () =>
    Effect.gen(function* () {
      const { base, state } = slow(Effect.never)
      const fiber = yield* Effect.forkChild(runTools([openOf("pass", (call) => nextOf(call)())], {}, base))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(state, { runs: 1, ended: 1 })
    })
  )
})

const never = () => new Promise<never>(() => {})

const hanging: ReadonlyArray<
  readonly [name: string, entries: (onFailure: "open" | "closed") => Middleware.Any, before: boolean]
> = [
  [
    "typed, before next",
    (onFailure) => Middleware.toolExecution({ name: "hangs", onFailure, wrap: () => () => Effect.never }),
    true
  ],
  [
    "typed and uninterruptible, before next",
    (onFailure) =>
      Middleware.toolExecution({ name: "hangs", onFailure, wrap: () => () => Effect.uninterruptible(Effect.never) }),
    true
  ],
  [
    "typed, after next",
    (onFailure) =>
      Middleware.toolExecution({
        name: "hangs",
        onFailure,
        wrap: (next) => (args) => Effect.andThen(next(args), Effect.never)
      }),
    false
  ],
  ["plain, before next", (onFailure) => Plain.toolExecution({ name: "hangs", onFailure }, never), true],
  [
    "plain, after next",
    (onFailure) =>
      Plain.toolExecution({ name: "hangs", onFailure }, async (call) => {
        await nextOf(call)()
        return await never()
      }),
    false
  ],
  [
    "wrap_tool_call",
    (onFailure) => Middleware.wrapToolCall({ name: "hangs", onFailure, wrap: () => () => Effect.never }),
    true
  ]
]

describe("a wrapper that hangs", () => {
  for (const [name, entry] of hanging.slice(0, 5)) {
    it.effect(`${name}: its deadline ends it, and what is below stands`, () =>
      Effect.gen(function* () {
        const { base, state } = slow()
        const { value, warnings } = yield* withWarnings(moved(runTools([entry("open")], {}, base)))
        assert.strictEqual(valueOf(value), "base")
        assert.deepStrictEqual(state, { runs: 1, ended: 1 })
        assert.strictEqual(warnings.length, 1)
        assert.include(warnings[0], '"hangs" failed (no answer within 300 s)')
      })
    )

    it.effect(`${name}: a closed one fails the call and says why`, () =>
      Effect.gen(function* () {
        const { base } = slow()
        const exit = yield* moved(runTools([entry("closed")], {}, base))
        assert.include(
          String(Exit.isFailure(exit) ? exit.cause : ""),
          'tool_execution middleware "hangs" failed and is registered to fail closed: DeadlineExceeded: no answer within 300 s'
        )
      })
    )
  }

  it.effect("time below does not count: a call of an hour goes through wrappers with five minutes", () =>
    Effect.gen(function* () {
      const { base, state } = slow(Effect.succeed("base"), 3_600)
      const entries = [
        Middleware.toolExecution({ name: "typed", wrap: (next) => (args) => next(args) }),
        openOf("plain", (call) => nextOf(call)(call["args"]))
      ]
      const { value, warnings } = yield* withWarnings(
        Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(runTools(entries, {}, base))
          yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
          yield* TestClock.adjust("2 hours")
          return yield* Effect.exit(Fiber.join(fiber))
        })
      )
      assert.strictEqual(valueOf(value), "base")
      assert.deepStrictEqual([state.runs, warnings], [1, []])
    })
  )

  it.effect("an onPart that hangs is left out, and the stream goes on", () =>
    Effect.gen(function* () {
      const shown: Array<string> = []
      const { value, warnings } = yield* withWarnings(
        moved(
          runModel(
            [
              Middleware.llmExecution({
                name: "holds",
                wrap: (next) => (request) => next(request, { onPart: () => Effect.never })
              })
            ],
            {},
            (_, options) =>
              Effect.as(
                options?.onPart?.([{ type: "text-delta", id: "1", delta: "hello" } as never]) ?? Effect.void,
                textAnswer("hello")
              ),
            { onPart: (parts) => Effect.sync(() => (shown.push(...parts.map((part) => part.type)), parts)) }
          )
        )
      )
      assert.isTrue(Exit.isSuccess(value))
      assert.deepStrictEqual(shown, ["text-delta"])
      assert.include(warnings[0], "holds")
    })
  )

  it.effect("an interrupted run does not wait long for one that cannot be interrupted", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const clings = Middleware.toolExecution({
        name: "clings",
        wrap: () => () => Effect.uninterruptible(Effect.andThen(Deferred.succeed(started, undefined), Effect.never))
      })
      const fiber = yield* Effect.forkChild(runTools([clings], {}, slow().base))
      yield* Deferred.await(started)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(interrupting)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )
})

/** A payload of everything that could be changed. */
const payload = () => ({
  text: "a",
  list: [{ x: 1 }],
  bytes: new Uint8Array([1, 2, 3]),
  buffer: Buffer.from("abc"),
  map: new Map([["k", { v: 1 }]]),
  set: new Set([1]),
  date: new Date(0)
})

type Payload = ReturnType<typeof payload>

const mutations: ReadonlyArray<readonly [name: string, mutate: (given: Payload) => void]> = [
  ["a member", (given) => void (given.text = "b")],
  ["a new member", (given) => void Object.assign(given, { more: 1 })],
  ["a deleted member", (given) => void Reflect.deleteProperty(given, "text")],
  ["a list", (given) => void given.list.push({ x: 2 })],
  [
    "a nested member",
    (given) => {
      const [first] = given.list
      if (first !== undefined) first.x = 2
    }
  ],
  ["bytes", (given) => void given.bytes.fill(9)],
  ["a buffer", (given) => void given.buffer.fill(9)],
  ["a Map", (given) => void given.map.set("k", { v: 2 })],
  [
    "a value of a Map",
    (given) => {
      const value = given.map.get("k")
      if (value !== undefined) value.v = 2
    }
  ],
  ["a Set", (given) => void given.set.add(2)],
  ["a date", (given) => void given.date.setTime(5)],
  ["the prototype", (given) => void Object.setPrototypeOf(given, { evil: true })],
  ["a definition", (given) => void Object.defineProperty(given, "text", { value: "b" })]
]

const attempted = (given: unknown, mutate: (given: Payload) => void): void => {
  try {
    mutate(given as Payload)
  } catch {
    // A frozen value says no.
  }
}

describe("a mutation changes nothing for anybody else", () => {
  for (const [name, mutate] of mutations) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const sent = payload()
        const seen: Array<unknown> = []
        const typedRequest = (label: string) =>
          Middleware.toolRequest({
            name: label,
            rewrite: (args, context) =>
              Effect.sync(() => {
                assert.deepStrictEqual<unknown>({ ...args }, payload())
                assert.deepStrictEqual<unknown>({ ...context.originalArgs }, payload())
                attempted(args, mutate)
                attempted(context.originalArgs, mutate)
                return Middleware.unchanged
              })
          })
        const plainRequest = Plain.toolRequest({ name: "plain" }, (call) => {
          assert.deepStrictEqual<unknown>({ ...(call["args"] as object) }, payload())
          attempted(call["args"], mutate)
          attempted(call["original_args"], mutate)
        })
        const rewritten = yield* rewriteArgs([typedRequest("first"), plainRequest, typedRequest("second")], sent)
        assert.strictEqual(rewritten.payload, sent)

        const typed = Middleware.toolExecution({
          name: "typed",
          wrap: (next, context) => (args) => {
            attempted(args, mutate)
            attempted(context.originalArgs, mutate)
            return Effect.tap(next(args), (result) => Effect.sync(() => attempted(result.output, mutate)))
          }
        })
        const plain = Plain.toolExecution({ name: "plain" }, async (call) => {
          attempted(call["args"], mutate)
          return await nextOf(call)(call["args"])
        })
        const result = payload()
        const { value, warnings } = yield* withWarnings(
          runTools([typed, plain, typed], sent, (args: ToolArguments) => {
            seen.push(args)
            return Effect.succeed(output(result))
          })
        )
        assert.deepStrictEqual(warnings, [])
        assert.strictEqual(seen[0], sent)
        assert.strictEqual(value.output, result)
        assert.deepStrictEqual([sent, result], [payload(), payload()])
      })
    )
  }

  it.effect("on all kinds of a model call, in the stream and in the answer", () =>
    Effect.gen(function* () {
      const request = { messages: [{ role: "user", content: "hi" }] }
      const answer = textAnswer("hello")
      const usage = JSON.stringify(answer.usage)
      const spoil = (value: unknown): void => {
        for (const change of [
          () => (value as { messages: Array<unknown> }).messages.push(1),
          () => ((value as typeof answer).parts as Array<unknown>).push(1),
          () => ((value as { usage: { inputTokens: { total: number } } }).usage.inputTokens.total = 77),
          () => ((value as { usage: { inputTokens: unknown } }).usage.inputTokens = 77),
          () => (((value as Array<{ delta: string }>)[0] as { delta: string }).delta = "x")
        ]) {
          try {
            change()
          } catch {
            // As above.
          }
        }
      }
      yield* rewriteRequest(
        [
          Middleware.llmRequest({
            name: "spoils",
            rewrite: (given) =>
              Effect.sync(() => {
                spoil(given)
                return Middleware.unchanged
              })
          })
        ],
        request
      )
      const shown: Array<string> = []
      const spoils = Middleware.llmExecution({
        name: "spoils",
        wrap: (next, context) => (given) => {
          spoil(given)
          spoil(context.originalRequest)
          const onPart = (parts: ReadonlyArray<never>) =>
            Effect.sync(() => {
              spoil(parts)
              return parts
            })
          return Effect.tap(next(given, { onPart: onPart as never }), (response) => Effect.sync(() => spoil(response)))
        }
      })
      const delta = { type: "text-delta", id: "1", delta: "hello" }
      const response = yield* runModel(
        [spoils, spoils],
        request,
        (_, options) => Effect.as(options?.onPart?.([delta as never]) ?? Effect.void, answer),
        {
          onPart: (parts) =>
            Effect.sync(() => {
              for (const part of parts) if (part.type === "text-delta") shown.push(part.delta)
              return parts
            })
        }
      )
      assert.strictEqual(response, answer)
      assert.deepStrictEqual(shown, ["hello"])
      assert.deepStrictEqual(request, { messages: [{ role: "user", content: "hi" }] })
      assert.strictEqual(JSON.stringify(response.usage), usage)
      assert.strictEqual(response.parts.length, 1)
    })
  )

  it.effect("what a wrapper keeps of what it handed on or back, it cannot change later", () =>
    Effect.gen(function* () {
      const kept = { args: { a: { b: 1 } }, result: { output: { c: { d: 1 } }, isFailure: false } }
      let below: ToolArguments = {}
      const result = yield* runTools(
        [Middleware.toolExecution({ name: "keeps", wrap: (next) => () => Effect.as(next(kept.args), kept.result) })],
        {},
        (args) => {
          below = args
          kept.args.a.b = 2
          return Effect.succeed(output("base"))
        }
      )
      kept.result.output.c.d = 2
      assert.deepStrictEqual([below, result.output], [{ a: { b: 1 } }, { c: { d: 1 } }])
    })
  )

  it.effect("a pass-through reads nothing, so that nothing is copied", () =>
    Effect.gen(function* () {
      let reads = 0
      const big = Object.defineProperty({}, "messages", { enumerable: true, get: () => ++reads })
      const pass = Middleware.toolExecution({ name: "pass", wrap: (next) => (args) => next(args) })
      yield* runTools([pass, pass, pass], big, () => Effect.succeed(output("base")))
      assert.strictEqual(reads, 0)
    })
  )

  it.effect("a request says its protocol to typed middleware, and nobody else sees that", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const sent: Array<unknown> = []
      const request = { model: "m", nested: { deep: [1] } }
      const execution = Middleware.llmExecution({
        name: "execution",
        wrap: (next) => (given) => {
          seen.push(given.apiMode, given["model"], Object.keys(given), JSON.stringify(given), { ...given })
          return given["again"] === true ? next(given) : next({ ...given, again: true })
        }
      })
      const base = (given: object) =>
        Effect.sync(() => {
          sent.push(given, Reflect.get(given, "apiMode"))
          return textAnswer("done")
        })
      yield* runModel([execution, execution], request, base)
      const again = { ...request, again: true }
      assert.deepStrictEqual(seen, [
        "chat_completions",
        "m",
        ["model", "nested"],
        JSON.stringify(request),
        request,
        "chat_completions",
        "m",
        ["model", "nested", "again"],
        JSON.stringify(again),
        again
      ])
      assert.deepStrictEqual(sent, [again, undefined])

      const rewriting = Middleware.llmRequest({
        name: "rewriting",
        rewrite: (given) => Effect.succeed(Middleware.replacePayload({ ...given, mode: given.apiMode }))
      })
      const { payload } = yield* rewriteRequest([rewriting, rewriting], request)
      assert.deepStrictEqual(payload, { ...request, mode: "chat_completions" })
      const named = Middleware.llmExecution({
        name: "named",
        wrap: (next) => (given) => (seen.push({ ...given }), next(given))
      })
      const own = { apiMode: "own" }
      yield* runModel([named], own, base)
      assert.deepStrictEqual([seen.at(-1), sent.at(-2)], [own, own])
    })
  )
})

describe("a typed wrapper", () => {
  const detached = (name: string, onFailure: "open" | "closed", value: ToolOutput | undefined) =>
    Middleware.toolExecution({
      name,
      onFailure,
      wrap: (next) => (args) =>
        Effect.as(Effect.forkDetach(next(args), { startImmediately: true }), value as ToolOutput)
    })

  it.effect("that leaves its call of next running in another fiber has failed, and the call is awaited", () =>
    Effect.gen(function* () {
      for (const value of [output("early"), undefined]) {
        const { base, state } = slow()
        const { value: exit, warnings } = yield* withWarnings(
          moved(runTools([detached("leak", "open", value)], {}, base))
        )
        assert.strictEqual(valueOf(exit), "base")
        assert.deepStrictEqual(state, { runs: 1, ended: 1 })
        assert.match(warnings.join(), /"leak" failed \(it ended while its call of next was still running\)/)
        const closed = yield* moved(runTools([detached("leak", "closed", value)], {}, slow().base))
        assert.instanceOf(Exit.isFailure(closed) ? Cause.squash(closed.cause) : undefined, MiddlewareFailure)
      }
    })
  )

  it.effect("that left its call of next running does not outlive an interrupted run", () =>
    Effect.gen(function* () {
      const { base, state } = slow(undefined, 3600)
      const fiber = yield* Effect.forkChild(runTools([detached("leak", "open", undefined)], {}, base), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(state, { runs: 1, ended: 0 })
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(state, { runs: 1, ended: 1 })
    })
  )

  it.effect("that interrupted its own call and died says that the result is unknown", () =>
    Effect.gen(function* () {
      const cut = Middleware.toolExecution({
        name: "cut",
        wrap: (next) => (args) => Effect.andThen(Effect.timeoutOption(next(args), "1 second"), Effect.die("oops"))
      })
      const exit = yield* moved(runTools([cut], {}, slow(undefined, 60).base))
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
      assert.instanceOf(error, MiddlewareFailure)
      assert.include(String(error), "so the result of the call is unknown")
      assert.notInclude(String(error), "registered to fail closed")
    })
  )
})
