// The work of a wrapper around a call, in counts: fibers, and steps of the interpreter.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { anyCalls, llmContext, output, toolContext } from "../support/middlewareContexts.ts"
import { countInto } from "../support/workCounts.ts"

type Run = (wrappers: number) => Effect.Effect<unknown, unknown>

const times = (count: number, entry: Middleware.Any): Stack.Stack =>
  Stack.make(Array.from({ length: count }, () => entry))

/** Fibers and steps that one wrapper more costs. */
const perWrapper = Effect.fnUntraced(function* (run: Run) {
  const counted = Effect.fnUntraced(function* (wrappers: number) {
    const count = { fibers: 0, steps: 0 }
    yield* Effect.suspend(() => run(wrappers)).pipe(countInto(count))
    return count
  })
  const [short, long] = [yield* counted(1), yield* counted(11)]
  return { fibers: (long.fibers - short.fibers) / 10, steps: (long.steps - short.steps) / 10 }
})

const tool =
  (entry: Middleware.Any): Run =>
  (wrappers) => {
    const stack = times(wrappers, entry)
    return Chain.run(stack.toolExecution, Chain.toolCalls, stack.faults, toolContext({}), () =>
      Effect.succeed(output("base"))
    )({ a: 1 }, undefined) as Effect.Effect<unknown, unknown> // These wrappers need nothing.
  }

const llm =
  (entry: Middleware.Any): Run =>
  (wrappers) => {
    const stack = times(wrappers, entry)
    const join = Chain.joinOnPart({
      get: (response: ReturnType<typeof textAnswer>) => response,
      set: (_, response) => response
    })
    return Chain.run(stack.llmExecution, { ...anyCalls, join } as never, stack.faults, llmContext({}), () =>
      Effect.succeed(textAnswer("base"))
    )({} as never, undefined) as Effect.Effect<unknown, unknown> // These wrappers need nothing.
  }

describe("a wrapper", () => {
  it.effect("that passes the call on takes no fiber and two steps", () =>
    Effect.gen(function* () {
      const same = Middleware.toolExecution({ name: "p", wrap: (next) => (args) => next(args) })
      assert.deepStrictEqual(yield* perWrapper(tool(same)), { fibers: 0, steps: 2 })
      const other = Middleware.toolExecution({ name: "p", wrap: (next) => (args) => next({ ...args }) })
      assert.deepStrictEqual(yield* perWrapper(tool(other)), { fibers: 0, steps: 2 })
      const model = Middleware.llmExecution({ name: "p", wrap: (next) => (request) => next(request) })
      assert.deepStrictEqual(yield* perWrapper(llm(model)), { fibers: 0, steps: 2 })
    })
  )

  it.effect("that looks at the result takes a fiber and few steps more", () =>
    Effect.gen(function* () {
      const reads = Middleware.toolExecution({
        name: "p",
        wrap: (next) => (args) => Effect.map(next(args), (output) => output)
      })
      assert.deepStrictEqual(yield* perWrapper(tool(reads)), { fibers: 1, steps: 13 })
    })
  )
})
