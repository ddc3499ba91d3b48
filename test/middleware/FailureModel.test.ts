import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import { ExecutionBlocked, MiddlewareFailure, TranslatedFailure } from "../../src/domain/AgentError.ts"
import * as Ids from "../../src/domain/Ids.ts"
import type { ToolOutput } from "../../src/domain/ToolOutput.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import type { Next } from "../../src/middleware/MiddlewareBoundary.ts"
import type { ToolArguments, ToolCallContext } from "../../src/middleware/Kind.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { expected, generate, type Outcome, random, type Scenario, type Wrapper } from "./scenario.ts"

const runs = Number(process.env["HERMES_FUZZ_RUNS"] ?? 10_000)

class Failure extends Schema.TaggedError<Failure>("test/Failure")("Failure", { id: Schema.String }) {}

const output = (text: string): ToolOutput => ({ output: text, isFailure: false })

const context: ToolCallContext = {
  sessionId: Ids.SessionId.make("s"),
  taskId: Ids.TaskId.make("t"),
  turnId: Ids.TurnId.make("u"),
  apiRequestId: Ids.ApiRequestId.make("a"),
  toolName: "tool",
  toolCallId: Ids.ToolCallId.make("c"),
  originalArgs: {},
  trace: []
}

type NextTool = Next<ToolArguments, undefined, ToolOutput, unknown, unknown>

interface Leaks {
  readonly typed: Array<NextTool>
  readonly plain: Array<() => Promise<unknown>>
}

const typed = (wrapper: Wrapper, leaks: Leaks): Middleware.ToolExecution => {
  const { id } = wrapper
  const own = Effect.die(`own${id}`)
  const wrap = (next: NextTool) => (args: ToolArguments): Effect.Effect<ToolOutput | undefined, unknown, unknown> => {
    if (wrapper.leaks) leaks.typed.push(next)
    switch (wrapper.before) {
      case "die":
        return own
      case "veto":
        return Effect.fail(new Failure({ id: `veto${id}` }))
      case "short":
        return Effect.succeed(output(`short${id}`))
      case "nothing":
        return Effect.succeed(undefined)
      case "next":
        break
    }
    return next(args).pipe(Effect.matchEffect({
      onSuccess: (value): Effect.Effect<ToolOutput | undefined, unknown, unknown> => {
        switch (wrapper.afterValue) {
          case "return":
            return Effect.succeed(value)
          case "change":
            return Effect.succeed(output(`changed${id}`))
          case "nothing":
            return Effect.succeed(undefined)
          case "fail":
            return Effect.fail(new Failure({ id: `fail${id}` }))
          case "die":
            return own
          case "again":
            return next(args)
        }
      },
      onFailure: (error): Effect.Effect<ToolOutput | undefined, unknown, unknown> => {
        switch (wrapper.afterFailure) {
          case "pass":
            return Effect.fail(error)
          case "swallow":
            return Effect.succeed(output(`swallowed${id}`))
          case "nothing":
            return Effect.succeed(undefined)
          case "translate":
            return Effect.fail(new Failure({ id: `translated${id}` }))
          case "die":
            return own
          case "again":
            return next(args)
        }
      }
    }))
  }
  return Middleware.toolExecutionUndeclared({
    name: String(id),
    onFailure: wrapper.closed ? "closed" : "open",
    wrap
  })
}

const plain = (wrapper: Wrapper, leaks: Leaks): Middleware.ToolExecution => {
  const { id } = wrapper
  const own = (): never => {
    throw `own${id}`
  }
  const body = async (next: (args?: unknown) => Promise<unknown>, args: unknown): Promise<unknown> => {
    let value: unknown
    try {
      value = await next(args)
    } catch (error) {
      switch (wrapper.afterFailure) {
        case "pass":
          throw error
        case "swallow":
          return `swallowed${id}`
        case "nothing":
          return undefined
        case "translate":
          throw new Error(`translated${id}`, { cause: error })
        case "die":
          return own()
        case "again":
          return next(args)
      }
    }
    switch (wrapper.afterValue) {
      case "return":
        return value
      case "change":
        return `changed${id}`
      case "nothing":
        return undefined
      case "fail":
        throw new Error(`fail${id}`)
      case "die":
        return own()
      case "again":
        return next(args)
    }
  }
  const first = (call: Plain.Envelope): unknown => {
    const next = call["next_call"] as (args?: unknown) => Promise<unknown>
    if (wrapper.leaks) leaks.plain.push(() => next())
    switch (wrapper.before) {
      case "die":
        return own()
      case "veto":
        throw new ExecutionBlocked({ reason: `veto${id}`, metadata: {} })
      case "short":
        return `short${id}`
      case "nothing":
        return undefined
      case "next":
        return body(next, call["args"])
    }
  }
  const callback: Plain.Callback = wrapper.form === "async" ? async (call) => first(call) : first
  return Plain.toolExecution({ name: String(id), onFailure: wrapper.closed ? "closed" : "open" }, callback)
}

const nameOf = (error: unknown, scenario: Scenario): string => {
  if (error instanceof Failure) return error.id
  if (error instanceof MiddlewareFailure) return `closed${error.middleware}`
  if (error instanceof TranslatedFailure) return `translated${error.middleware}`
  if (error instanceof ExecutionBlocked) return error.reason
  return `unexpected ${String(error)} in ${JSON.stringify(scenario)}`
}

const outcomeOf = (exit: Exit.Exit<ToolOutput, unknown>, scenario: Scenario): Outcome => {
  if (Exit.isSuccess(exit)) return { _tag: "value", value: String(exit.value.output) }
  const { cause } = exit
  if (Cause.hasInterrupts(cause)) return { _tag: "interrupt" }
  const typedFailure = cause.reasons.find(Cause.isFailReason)
  if (typedFailure !== undefined) return { _tag: "fail", error: nameOf(typedFailure.error, scenario) }
  const defect = cause.reasons.find(Cause.isDieReason)
  return { _tag: "die", defect: String(defect?.defect) }
}

const play = Effect.fnUntraced(function*(scenario: Scenario) {
  let baseRuns = 0
  const leaks: Leaks = { typed: [], plain: [] }
  const stack = Stack.make(
    scenario.wrappers.map((wrapper) => wrapper.form === "typed" ? typed(wrapper, leaks) : plain(wrapper, leaks))
  )
  const base = (): Effect.Effect<ToolOutput, Failure> =>
    Effect.suspend((): Effect.Effect<ToolOutput, Failure> => {
      baseRuns++
      switch (scenario.base) {
        case "value":
          return Effect.succeed(output("base"))
        case "fail":
          return Effect.fail(new Failure({ id: "base" }))
        case "die":
          return Effect.die("base")
        case "interrupt":
          return Effect.interrupt
      }
    })
  const chain = Chain.run(stack.toolExecution, Chain.joinNothing, stack.faults, context, base)
  // The chain erases its requirements; those of this test are none.
  const exit = yield* Effect.exit(chain({}, undefined) as Effect.Effect<ToolOutput, unknown>)
  const runsThen = baseRuns
  for (const next of leaks.typed) yield* Effect.exit(next() as Effect.Effect<ToolOutput, unknown>)
  for (const next of leaks.plain) yield* Effect.exit(Effect.tryPromise(() => next()))
  return { outcome: outcomeOf(exit, scenario), baseRuns: runsThen, late: baseRuns - runsThen }
})

describe("the failure model of execution middleware", () => {
  it.live(`${runs} random chains come to what the table says`, () =>
    Effect.gen(function*() {
      for (let seed = 1; seed <= runs; seed++) {
        const scenario = generate(random(seed))
        const played = yield* play(scenario)
        assert.deepStrictEqual(
          played,
          { ...expected(scenario), late: 0 },
          `seed ${seed}: ${JSON.stringify(scenario)}`
        )
      }
    }).pipe(Effect.provide(Logger.layer([]))), 240_000)
})
