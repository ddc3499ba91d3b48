// A second `next` of each execution kind, typed and plain: beside a call that runs it is refused, after it the wrap
// kinds may repeat.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { llmContext, output, toolContext, withWarnings, anyCalls } from "../support/middlewareContexts.ts"

type Next = () => Effect.Effect<unknown, unknown>
type NextCall = () => Promise<unknown>
type Base = () => Effect.Effect<unknown, unknown>

interface Kind {
  readonly value: unknown
  readonly repeats: boolean
  readonly typed: (
    options: Middleware.Registration & { readonly wrap: (next: Next) => () => Effect.Effect<unknown, unknown> }
  ) => Middleware.Any
  readonly plain: (options: Middleware.Registration, callback: Plain.Callback) => Middleware.Any
  readonly run: (stack: ReturnType<typeof Stack.make>, base: Base) => Effect.Effect<unknown, unknown, unknown>
}

// The kinds differ in types that these wrappers do not look at.
const kinds: Readonly<Record<string, Kind>> = {
  tool_execution: {
    value: output("base"),
    repeats: false,
    typed: Middleware.toolExecutionUndeclared as never,
    plain: Plain.toolExecution,
    run: (stack, base) =>
      Chain.run(stack.toolExecution, Chain.toolCalls, stack.faults, toolContext({}), base as never)({}, undefined)
  },
  wrap_tool_call: {
    value: output("base"),
    repeats: true,
    typed: Middleware.wrapToolCallUndeclared as never,
    plain: Plain.wrapToolCall,
    run: (stack, base) =>
      Chain.run(stack.wrapToolCall, Chain.toolCalls, stack.faults, toolContext({}), base as never)({}, undefined)
  },
  llm_execution: {
    value: textAnswer("base"),
    repeats: false,
    typed: Middleware.llmExecutionUndeclared as never,
    plain: Plain.llmExecution,
    run: (stack, base) =>
      Chain.run(stack.llmExecution, anyCalls as never, stack.faults, llmContext({}), base as never)({}, undefined)
  },
  wrap_model_call: {
    value: { response: textAnswer("base"), route: {}, attempt: 0 },
    repeats: true,
    typed: Middleware.wrapModelCallUndeclared as never,
    plain: Plain.wrapModelCall,
    run: (stack, base) =>
      Chain.run(
        stack.wrapModelCall,
        anyCalls as never,
        stack.faults,
        {} as never,
        base as never
      )({} as never, undefined)
  }
}

const nextOf = (call: Plain.Envelope): NextCall => call["next_call"] as NextCall

const atOnce = {
  typed: (next: Next) => () => Effect.map(Effect.all([next(), next()], { concurrency: 2 }), ([first]) => first),
  plain: (call: Plain.Envelope) => Promise.all([nextOf(call)(), nextOf(call)()]).then(([first]) => first)
}

const inTurn = {
  typed: (next: Next) => () => Effect.andThen(next(), next()),
  plain: async (call: Plain.Envelope) => {
    await nextOf(call)()
    return await nextOf(call)()
  }
}

/** Runs one wrapper around a call that takes a second each time. */
const play = (
  kind: Kind,
  form: "typed" | "plain",
  wrap: typeof atOnce | typeof inTurn,
  options: { readonly onFailure?: "open" | "closed"; readonly failure?: Error } = {}
) =>
  Effect.gen(function* () {
    const state = { runs: 0, ended: 0 }
    const base: Base = () =>
      Effect.suspend(() => {
        state.runs++
        const result = options.failure === undefined ? Effect.succeed(kind.value) : Effect.fail(options.failure)
        return Effect.andThen(
          Effect.sleep("1 second"),
          Effect.tap(Effect.exit(result), () => Effect.sync(() => void state.ended++))
        ).pipe(Effect.flatten)
      })
    const registration = { name: "twice", onFailure: options.onFailure }
    const entry =
      form === "typed" ? kind.typed({ ...registration, wrap: wrap.typed }) : kind.plain(registration, wrap.plain)
    // Wrappers of this file need nothing.
    const call = kind.run(Stack.make([entry]), base) as Effect.Effect<unknown, unknown>
    const { value, warnings } = yield* withWarnings(
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(call)
        for (let i = 0; i < 100 && fiber.pollUnsafe() === undefined; i++) {
          yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
          yield* TestClock.adjust("1 second")
        }
        return yield* Fiber.await(fiber)
      })
    )
    return { exit: value, warnings, ...state }
  })

const failureOf = (exit: Exit.Exit<unknown, unknown>): unknown =>
  Exit.isFailure(exit)
    ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error] : []))[0]
    : undefined

describe("a second next", () => {
  for (const [name, kind] of Object.entries(kinds)) {
    for (const form of ["typed", "plain"] as const) {
      const refusal = kind.repeats
        ? "called next() while its last call of it was still running"
        : "called next() more than once"

      it.effect(`${name}, ${form}: beside one that runs it is refused, and the value of the first stands`, () =>
        Effect.gen(function* () {
          const { ended, exit, runs, warnings } = yield* play(kind, form, atOnce)
          assert.deepStrictEqual(Exit.isSuccess(exit) ? exit.value : exit, kind.value)
          assert.deepStrictEqual([runs, ended, warnings.length], [1, 1, 1])
          assert.include(warnings[0], refusal)
        })
      )

      it.effect(`${name}, ${form}: beside one that runs it is refused, and the failure of the first stands`, () =>
        Effect.gen(function* () {
          const failure = new Error("from below")
          const { ended, exit, runs } = yield* play(kind, form, atOnce, { failure })
          assert.strictEqual(failureOf(exit), failure)
          assert.deepStrictEqual([runs, ended], [1, 1])
        })
      )

      it.effect(`${name}, ${form}: a closed one fails the call when the first is over`, () =>
        Effect.gen(function* () {
          const { ended, exit, runs } = yield* play(kind, form, atOnce, { onFailure: "closed" })
          const error = failureOf(exit)
          assert.instanceOf(error, MiddlewareFailure)
          assert.include(String(error), refusal)
          assert.deepStrictEqual([runs, ended], [1, 1])
        })
      )

      it.effect(`${name}, ${form}: after the first ${kind.repeats ? "it repeats the call" : "it is refused"}`, () =>
        Effect.gen(function* () {
          const { exit, runs, warnings } = yield* play(kind, form, inTurn)
          assert.deepStrictEqual(Exit.isSuccess(exit) ? exit.value : exit, kind.value)
          assert.deepStrictEqual([runs, warnings.length], kind.repeats ? [2, 0] : [1, 1])
        })
      )
    }
  }
})
