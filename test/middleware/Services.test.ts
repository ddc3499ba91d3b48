// Middleware that gives services to calls and nothing else: where it stands, what it costs, and what becomes of a call
// when it dies.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import * as PluginAdapter from "../../src/agent/plugin/PluginAdapter.ts"
import { output, toolContext } from "../support/middlewareContexts.ts"
import { isClockWarning } from "../support/clockWarnings.ts"

const Places = Context.Reference<ReadonlyArray<string>>("test/Places", { defaultValue: () => [] })

const giving = (name: string) =>
  Middleware.toolServices({
    name,
    services: (given, { toolName }) =>
      Context.add(given, Places, [...Context.get(given, Places), `${name} ${toolName}`])
  })

const run = (entries: ReadonlyArray<Middleware.Any>) => {
  const stack = Stack.make(entries)
  const base = () => Effect.map(Places, (places) => output(places.join(", ")))
  const chain = Chain.run(stack.toolExecution, Chain.toolCalls, stack.faults, toolContext({}), base)
  return Chain.provideServices(
    stack.toolServices,
    stack.faults,
    () => toolContext({}),
    chain({}, undefined) as Effect.Effect<ReturnType<typeof output>>
  ) // These wrappers need nothing.
}

describe("services of calls", () => {
  it.effect("are there for wrappers too, in the order of the stack, and for nothing after the call", () =>
    Effect.gen(function* () {
      const { toolName } = toolContext({})
      let seen: ReadonlyArray<string> = []
      const wrapper = Middleware.toolExecution({
        name: "reads",
        wrap: (next) => (args) =>
          Effect.andThen(
            Effect.map(Places, (places) => void (seen = places)),
            next(args)
          )
      })
      const result = yield* run([
        wrapper,
        giving("a"),
        PluginAdapter.adaptMiddleware(giving("b"), Context.empty(), "plugin b")
      ])
      assert.deepStrictEqual(seen, [`a ${toolName}`, `b ${toolName}`])
      assert.deepStrictEqual(result, output(`a ${toolName}, b ${toolName}`))
      assert.deepStrictEqual(yield* Places, [])
    })
  )

  it.effect("that cannot be given are a warning, and the call goes on with the others", () =>
    Effect.gen(function* () {
      const { toolName } = toolContext({})
      const warnings: Array<unknown> = []
      const logger = Logger.make(({ message }) => {
        if (!isClockWarning(message)) warnings.push(...(Array.isArray(message) ? message : [message]))
      })
      const dies = Middleware.toolServices({
        name: "dies",
        services: () => {
          throw new Error("no place")
        }
      })
      const result = yield* Effect.provide(run([giving("a"), dies, giving("b")]), Logger.layer([logger]))
      assert.deepStrictEqual(result, output(`a ${toolName}, b ${toolName}`))
      assert.deepStrictEqual(warnings, [
        'tool_execution middleware "dies" failed (no place); the call continues without it'
      ])
    })
  )

  it.effect("cost no fiber", () =>
    Effect.gen(function* () {
      let fibers = 0
      const metrics: Metric.FiberRuntimeMetricsService = {
        recordFiberStart: () => void fibers++,
        recordFiberEnd: () => {}
      }
      yield* Effect.provideService(run([giving("a"), giving("b")]), Metric.FiberRuntimeMetrics, metrics)
      assert.strictEqual(fibers, 0)
    })
  )
})
