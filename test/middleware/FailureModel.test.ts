import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { randomInt } from "node:crypto"
import { ExecutionBlocked, MiddlewareFailure, TranslatedFailure } from "../../src/base/domain/AgentError.ts"
import type { ModelResponse } from "../../src/base/domain/ModelCall.ts"
import type { ToolOutput } from "../../src/base/domain/ToolOutput.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Requests from "../../src/middleware/Pipeline.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as ResultContract from "../../src/middleware/ResultContract.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { isLong, scaleRuns } from "../support/effort.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { anyCalls, llmContext, toolContext } from "../support/middlewareContexts.ts"
import {
  type ExecutionKind,
  expected,
  expectedPayload,
  generate,
  generatePipeline,
  isInFlight,
  type Outcome,
  type Pipeline,
  random,
  type Rewriter,
  type Scenario,
  type Wrapper
} from "./scenario.ts"

const runs = Number(process.env["HERMES_FUZZ_RUNS"] ?? scaleRuns(3_000))
/** Seeds that no run had before, for long runs; a failure names its own, and `HERMES_FUZZ_SEED` begins with it. */
const fresh = Number(process.env["HERMES_FUZZ_SEED"] ?? randomInt(1_000_000, 2 ** 31))
const seeds = [
  ...Array.from({ length: runs }, (_, index) => index + 1),
  ...Array.from({ length: isLong ? Math.ceil(runs / 4) : 0 }, (_, index) => fresh + index)
]

const deadline = () => 1_000

class Failure extends Schema.TaggedError<Failure>("test/Failure")("Failure", { id: Schema.String }) {}

type Step = Effect.Effect<unknown, unknown, unknown>
type Next = (request?: never) => Step

/** How values of a kind are made and read. */
interface Kind {
  readonly make: (text: string) => unknown
  readonly read: (value: unknown) => string
  /** A result as a plain function gives it. */
  readonly plain: (text: string) => unknown
  readonly payload: "args" | "request"
  readonly typed: (options: Middleware.Registration, wrap: (next: Next) => (given: unknown) => Step) => Middleware.Any
  readonly untyped: ((options: Middleware.Registration, callback: Plain.Callback) => Middleware.Any) | undefined
  readonly run: (stack: Stack.Stack, base: (given: unknown) => Step) => Step
}

/** The constructors are typed by their kinds; the scenarios are the same for all of them. */
const constructed =
  (make: unknown): Kind["typed"] =>
  (options, wrap) =>
    (make as (options: unknown) => Middleware.Any)({ ...options, wrap })

/** Chains repeat calls without a bound: the table is that of one call. */
const neverSetAside = ({ faults }: Stack.Stack): Stack.Stack["faults"] => ({ ...faults, isSetAside: () => false })

const given = () => ({ list: [1, { deep: "x" }], text: "given" })

const ofTool = (text: string): ToolOutput => ({ output: text, isFailure: false })
const readTool = (value: unknown): string => String((value as ToolOutput).output)
const readModel = (response: unknown): string =>
  (response as ModelResponse).parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

const kinds: { readonly [K in ExecutionKind]: Kind } = {
  tool_execution: {
    make: ofTool,
    read: readTool,
    plain: (text) => text,
    payload: "args",
    typed: constructed(Middleware.toolExecutionUndeclared),
    untyped: Plain.toolExecution,
    run: (stack, base) =>
      Chain.run(
        stack.toolExecution,
        Chain.toolCalls,
        neverSetAside(stack),
        toolContext({}),
        base as never,
        deadline
      )(given(), undefined)
  },
  wrap_tool_call: {
    make: ofTool,
    read: readTool,
    plain: (text) => text,
    payload: "args",
    typed: constructed(Middleware.wrapToolCallUndeclared),
    untyped: undefined,
    run: (stack, base) =>
      Chain.run(
        stack.wrapToolCall,
        Chain.toolCalls,
        neverSetAside(stack),
        toolContext({}),
        base as never,
        deadline
      )(given(), undefined)
  },
  llm_execution: {
    make: (text) => ({ ...textAnswer(text), raw: { text } }),
    read: readModel,
    plain: (text) => ({ text }),
    payload: "request",
    typed: constructed(Middleware.llmExecutionUndeclared),
    untyped: Plain.llmExecution,
    run: (stack, base) => {
      const join = Chain.joinOnPart<never, ModelResponse>({
        get: (response) => response,
        set: (_, response) => response
      })
      const context = {
        ...llmContext({}),
        decode: (raw: unknown) => {
          const text = typeof raw === "object" && raw !== null ? Reflect.get(raw, "text") : undefined
          return typeof text === "string"
            ? Effect.succeed(textAnswer(text))
            : Effect.fail(new Error("no body") as never)
        }
      }
      return Chain.run(
        stack.llmExecution,
        { contract: ResultContract.response, join } as never,
        neverSetAside(stack),
        context,
        base as never,
        deadline
      )(given(), undefined)
    }
  },
  wrap_model_call: {
    make: (text) => ({
      response: textAnswer(text),
      route: { provider: "p", model: "m", apiMode: "chat_completions" },
      attempt: 0
    }),
    read: (answer) => readModel((answer as { readonly response: unknown }).response),
    plain: (text) => ({ text }),
    payload: "request",
    typed: constructed(Middleware.wrapModelCallUndeclared),
    untyped: undefined,
    run: (stack, base) =>
      Chain.run(
        stack.wrapModelCall,
        { ...anyCalls, contract: ResultContract.answer } as never,
        neverSetAside(stack),
        {} as never,
        base as never,
        deadline
      )(given() as never, undefined)
  }
}

interface Leaks {
  readonly typed: Array<Next>
  readonly plain: Array<() => Promise<unknown>>
}

const wrongValues: ReadonlyArray<unknown> = [
  42,
  "text",
  true,
  [],
  [1, null],
  { envelope: { text: "x" } },
  { parts: 5 },
  { parts: [null], finishReason: "stop", usage: {} },
  { response: 1 },
  { output: undefined, isFailure: false },
  { output: "x" },
  () => "x",
  Symbol("x"),
  10n,
  new Date(0),
  new Map([["parts", []]]),
  new Proxy(
    {},
    {
      get: (_, key) => {
        // A promise that fails to resolve is a throw, not a value.
        if (key === "then") return undefined
        throw new Error("a getter that fails")
      }
    }
  )
]

/** A value that no kind has as its result. */
const garbage = (id: number): unknown => wrongValues[id % wrongValues.length]

/** Tries to change everything that it can reach. */
const spoil = (value: unknown): void => {
  if (typeof value !== "object" || value === null) return
  for (const key of Object.keys(value)) {
    try {
      spoil(Reflect.get(value, key))
      Reflect.set(value, key, "spoilt")
      Reflect.deleteProperty(value, key)
    } catch {
      // It says no.
    }
  }
}

const typed = (wrapper: Wrapper, leaks: Leaks, kind: Kind): Middleware.Any => {
  const { id, mutates } = wrapper
  const own = Effect.die(`own${id}`)
  const wrap =
    (next: Next) =>
    (request: unknown): Step => {
      if (mutates) spoil(request)
      if (wrapper.leaks) leaks.typed.push(next)
      switch (wrapper.before) {
        case "die":
          return own
        case "hang":
          return Effect.never
        case "interrupt":
          return Effect.interrupt
        case "veto":
          return Effect.fail(new Failure({ id: `veto${id}` }))
        case "short":
          return Effect.succeed(kind.make(`short${id}`))
        case "garbage":
          return Effect.succeed(garbage(wrapper.wrong))
        case "nothing":
          return Effect.succeed(undefined)
        case "pass on":
          return next(request as never)
        default:
          break
      }
      return next(request as never).pipe(
        Effect.matchEffect({
          onSuccess: (value): Step => {
            if (mutates) spoil(value)
            switch (wrapper.afterValue) {
              case "return":
                return Effect.succeed(value)
              case "change":
                return Effect.succeed(kind.make(`changed${id}`))
              case "garbage":
                return Effect.succeed(garbage(wrapper.wrong))
              case "nothing":
                return Effect.succeed(undefined)
              case "fail":
                return Effect.fail(new Failure({ id: `fail${id}` }))
              case "die":
                return own
              case "hang":
                return Effect.never
              case "interrupt":
                return Effect.interrupt
              case "again":
                return next(request as never)
            }
          },
          onFailure: (error): Step => {
            switch (wrapper.afterFailure) {
              case "pass":
                return Effect.fail(error)
              case "swallow":
                return Effect.succeed(kind.make(`swallowed${id}`))
              case "garbage":
                return Effect.succeed(garbage(wrapper.wrong))
              case "nothing":
                return Effect.succeed(undefined)
              case "translate":
                return Effect.fail(new Failure({ id: `translated${id}` }))
              case "die":
                return own
              case "hang":
                return Effect.never
              case "interrupt":
                return Effect.interrupt
              case "again":
                return next(request as never)
            }
          }
        })
      )
    }
  return kind.typed({ name: String(id), onFailure: wrapper.closed ? "closed" : "open" }, wrap)
}

const never = () => new Promise<never>(() => {})

const plain = (wrapper: Wrapper, leaks: Leaks, kind: Kind, untyped: NonNullable<Kind["untyped"]>): Middleware.Any => {
  const { id, mutates } = wrapper
  const own = (): never => {
    throw `own${id}`
  }
  const body = async (next: (args?: unknown) => Promise<unknown>, request: unknown): Promise<unknown> => {
    let value: unknown
    try {
      value = await next(request)
    } catch (error) {
      switch (wrapper.afterFailure) {
        case "pass":
          throw error
        case "swallow":
          return kind.plain(`swallowed${id}`)
        case "garbage":
          return garbage(wrapper.wrong)
        case "nothing":
          return undefined
        case "translate":
          throw new Error(`translated${id}`, { cause: error })
        case "die":
          return own()
        case "hang":
          return await never()
        case "interrupt":
          return Effect.interrupt
        case "again":
          return next(request)
      }
    }
    if (mutates) spoil(value)
    switch (wrapper.afterValue) {
      case "return":
        return value
      case "change":
        return kind.plain(`changed${id}`)
      case "garbage":
        return garbage(wrapper.wrong)
      case "nothing":
        return undefined
      case "fail":
        throw new Error(`fail${id}`)
      case "die":
        return own()
      case "hang":
        return await never()
      case "interrupt":
        return Effect.interrupt
      case "again":
        return next(request)
    }
  }
  const first = (call: Plain.Envelope): unknown => {
    const next = call["next_call"] as (args?: unknown) => Promise<unknown>
    const request = call[kind.payload]
    if (mutates) spoil(request)
    if (wrapper.leaks) leaks.plain.push(() => next())
    switch (wrapper.before) {
      case "die":
        return own()
      case "hang":
        return never()
      case "interrupt":
        return Effect.interrupt
      case "veto":
        throw new ExecutionBlocked({ reason: `veto${id}`, metadata: {} })
      case "short":
        return kind.plain(`short${id}`)
      case "garbage":
        return garbage(wrapper.wrong)
      case "nothing":
        return undefined
      case "flight throw":
        void next(request)
        return own()
      case "flight nothing":
        void next(request)
        return undefined
      case "flight answer":
        void next(request)
        return kind.plain(`early${id}`)
      case "flight twice":
        return Promise.all([next(request), next(request)])
      case "flight veto":
        void next(request)
        throw new ExecutionBlocked({ reason: `veto${id}`, metadata: {} })
      case "pass on":
        return next(request)
      case "next":
        return body(next, request)
    }
  }
  const callback: Plain.Callback = wrapper.form === "async" ? async (call) => first(call) : first
  return untyped({ name: String(id), onFailure: wrapper.closed ? "closed" : "open" }, settled(callback))
}

/** A promise of an Effect is a promise of a value to the middleware: a plain function that interrupts itself fails. */
const settled =
  (callback: Plain.Callback): Plain.Callback =>
  (call) => {
    const returned = callback(call)
    if (!(returned instanceof Promise)) return returned
    return returned.then((value: unknown) => {
      if (Effect.isEffect(value)) throw new Error("interrupted itself")
      return value
    })
  }

const nameOf = (error: unknown, scenario: unknown): string => {
  if (error instanceof Failure) return error.id
  if (error instanceof MiddlewareFailure) return `closed${error.middleware}`
  if (error instanceof TranslatedFailure) return `translated${error.middleware}`
  if (error instanceof ExecutionBlocked) return error.reason
  return `unexpected ${String(error)} in ${JSON.stringify(scenario)}`
}

const outcomeOf = (exit: Exit.Exit<unknown, unknown>, read: (value: unknown) => string, scenario: unknown): Outcome => {
  if (Exit.isSuccess(exit)) return { _tag: "value", value: read(exit.value) }
  const { cause } = exit
  if (Cause.hasInterrupts(cause)) return { _tag: "interrupt" }
  const typedFailure = cause.reasons.find(Cause.isFailReason)
  if (typedFailure !== undefined) return { _tag: "fail", error: nameOf(typedFailure.error, scenario) }
  const defect = cause.reasons.find(Cause.isDieReason)
  return { _tag: "die", defect: String(defect?.defect) }
}

const pause = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** The end of an effect, however often the clock has to move for it. */
const ended = Effect.fnUntraced(function* (effect: Step) {
  // The chain erases its requirements; those of this test are none.
  const fiber = yield* Effect.forkDetach(effect as Effect.Effect<unknown, unknown>, { startImmediately: true })
  for (let round = 0; round < 100 && fiber.pollUnsafe() === undefined; round++) {
    yield* pause
    if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("31 seconds")
  }
  return fiber.pollUnsafe() ?? Exit.die("it never ended")
})

/** The call below takes a while, so that a wrapper above can end before it. */
const slow = (kind: Kind): Middleware.Any =>
  kind.typed(
    { name: "slow" },
    (next) => (request) => Effect.ensuring(next(request as never), Effect.uninterruptible(Effect.sleep(10)))
  )

const play = Effect.fnUntraced(function* (scenario: Scenario) {
  let baseRuns = 0
  const spoilt: Array<unknown> = []
  const leaks: Leaks = { typed: [], plain: [] }
  const kind = kinds[scenario.kind]
  const stack = Stack.make(
    scenario.wrappers.flatMap((wrapper) => {
      const made =
        wrapper.form === "typed" || kind.untyped === undefined
          ? typed(wrapper, leaks, kind)
          : plain(wrapper, leaks, kind, kind.untyped)
      return isInFlight(wrapper) ? [made, slow(kind)] : [made]
    })
  )
  const base = (request: unknown): Step =>
    Effect.suspend((): Step => {
      baseRuns++
      if (JSON.stringify(request) !== JSON.stringify(given())) spoilt.push(request)
      switch (scenario.base) {
        case "value":
          return Effect.succeed(kind.make("base"))
        case "fail":
          return Effect.fail(new Failure({ id: "base" }))
        case "die":
          return Effect.die("base")
        case "interrupt":
          return Effect.interrupt
      }
    })
  const exit = yield* ended(kind.run(stack, base))
  const runsThen = baseRuns
  for (const next of leaks.typed) yield* Effect.exit(next() as Effect.Effect<unknown, unknown>)
  for (const next of leaks.plain) yield* Effect.exit(Effect.tryPromise(() => next()))
  return { outcome: outcomeOf(exit, kind.read, scenario), baseRuns: runsThen, late: baseRuns - runsThen, spoilt }
})

interface Payload {
  readonly ids: ReadonlyArray<number>
  readonly [name: string]: unknown
}

const idsOf = (payload: unknown): ReadonlyArray<number> => (payload as Payload).ids

const rewriter = (
  { closed, does, form, id, mutates }: Rewriter,
  kind: Pipeline["kind"],
  kept: Array<{ ids: Array<number> }>
): Middleware.Any => {
  const options = { name: String(id), onFailure: closed ? ("closed" as const) : ("open" as const) }
  const replaced = (payload: unknown) => {
    const replacement = { ids: [...idsOf(payload), id] }
    if (does === "keep") kept.push(replacement)
    return replacement
  }
  if (form === "typed") {
    const rewrite = (payload: unknown): Effect.Effect<Requests.Answer<never>, unknown> => {
      if (mutates) spoil(payload)
      switch (does) {
        case "nothing":
          return Effect.succeed(Middleware.unchanged)
        case "rewrite":
        case "keep":
          return Effect.succeed(Middleware.replacePayload(replaced(payload) as never))
        case "die":
          return Effect.die("own")
        case "veto":
          return Effect.fail(new ExecutionBlocked({ reason: `veto${id}`, metadata: {} }))
        case "hang":
          return Effect.never
        case "interrupt":
          return Effect.interrupt
      }
    }
    return kind === "llm_request"
      ? Middleware.llmRequest({ ...options, rewrite })
      : Middleware.toolRequest({ ...options, rewrite })
  }
  const member = kind === "llm_request" ? "request" : "args"
  const callback = (call: Plain.Envelope): unknown => {
    if (mutates) spoil(call[member])
    switch (does) {
      case "nothing":
        return undefined
      case "rewrite":
      case "keep":
        return { [member]: replaced(call[member]) }
      case "die":
        throw new Error("own")
      case "veto":
        throw new ExecutionBlocked({ reason: `veto${id}`, metadata: {} })
      case "hang":
        return never()
      case "interrupt":
        return form === "async" ? Promise.reject(new Error("interrupted itself")) : Effect.interrupt
    }
  }
  const run: Plain.Callback = form === "async" ? async (call) => callback(call) : callback
  return kind === "llm_request" ? Plain.llmRequest(options, run) : Plain.toolRequest(options, run)
}

const pass = Effect.fnUntraced(function* (pipeline: Pipeline) {
  const kept: Array<{ ids: Array<number> }> = []
  const stack = Stack.make(pipeline.rewriters.map((one) => rewriter(one, pipeline.kind, kept)))
  const sent: Payload = { ids: [] }
  const run =
    pipeline.kind === "llm_request"
      ? Requests.run(stack.llmRequest, neverSetAside(stack), sent, (trace) => llmContext(sent, trace))
      : Requests.run(stack.toolRequest, neverSetAside(stack), sent, (trace) => toolContext(sent, trace))
  const exit = yield* ended(run as Step)
  // Whoever keeps what it handed in cannot change it any more.
  for (const one of kept) one.ids.push(-1)
  const read = (outcome: unknown) => idsOf((outcome as Requests.Outcome<unknown>).payload).join()
  return { outcome: outcomeOf(exit, read, pipeline), sent }
})

describe("the failure model of middleware", () => {
  it.effect(`${seeds.length} random chains of the execution kinds come to what the table says`, () =>
    Effect.gen(function* () {
      for (const seed of seeds) {
        const scenario = generate(random(seed))
        const played = yield* play(scenario)
        assert.deepStrictEqual(
          played,
          { ...expected(scenario), late: 0, spoilt: [] },
          `HERMES_FUZZ_SEED=${seed}: ${JSON.stringify(scenario)}`
        )
      }
    }).pipe(Effect.provide(Logger.layer([])))
  )

  it.effect(`${seeds.length} random pipelines of the request kinds come to what the table says`, () =>
    Effect.gen(function* () {
      for (const seed of seeds) {
        const pipeline = generatePipeline(random(seed))
        const { outcome, sent } = yield* pass(pipeline)
        assert.deepStrictEqual(
          outcome,
          expectedPayload(pipeline),
          `HERMES_FUZZ_SEED=${seed}: ${JSON.stringify(pipeline)}`
        )
        assert.deepStrictEqual(sent, { ids: [] })
      }
    }).pipe(Effect.provide(Logger.layer([])))
  )

  it.effect(
    "an interrupted run ends interrupted, whatever its wrappers do, and what is below has ended before it",
    () =>
      Effect.gen(function* () {
        for (const seed of seeds.slice(0, scaleRuns(500))) {
          const { kind: name, wrappers } = generate(random(seed))
          const kind = kinds[name]
          const leaks: Leaks = { typed: [], plain: [] }
          const stack = Stack.make(
            wrappers.map((wrapper) =>
              wrapper.form === "typed" || kind.untyped === undefined
                ? typed(wrapper, leaks, kind)
                : plain(wrapper, leaks, kind, kind.untyped)
            )
          )
          let open = 0
          const base = (): Step =>
            Effect.suspend(() => {
              open++
              return Effect.ensuring(
                Effect.never,
                Effect.sync(() => void open--)
              )
            })
          const fiber = yield* Effect.forkDetach(kind.run(stack, base) as Effect.Effect<unknown, unknown>, {
            startImmediately: true
          })
          yield* pause
          const done = fiber.pollUnsafe()
          yield* Fiber.interrupt(fiber)
          const exit = yield* Fiber.await(fiber)
          assert.strictEqual(open, 0, `HERMES_FUZZ_SEED=${seed}`)
          if (done === undefined) assert.isTrue(Exit.hasInterrupts(exit), `HERMES_FUZZ_SEED=${seed}`)
        }
      }).pipe(Effect.provide(Logger.layer([])))
  )
})
