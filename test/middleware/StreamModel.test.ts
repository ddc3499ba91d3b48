// Streams, held parts and replaced answers, in random chains of all wrappers that see a stream.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { randomInt } from "node:crypto"
import { MiddlewareFailure } from "../../src/domain/AgentError.ts"
import { type ExecuteOptions, hold, type ModelResponse, type OnPart, type StreamPart, textDelta } from "../../src/domain/Model.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import type { NextCall } from "../../src/middleware/PlainExecution.ts"
import type { PartDictionary } from "../../src/middleware/PlainParts.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { llmContext } from "../support/middlewareContexts.ts"
import { type Outcome, random } from "./scenario.ts"
import { expectedStream, generateStream, type Scenario, stepOf, type Wrapper } from "./streamScenario.ts"

const runs = Math.ceil(Number(process.env["HERMES_FUZZ_RUNS"] ?? 10_000) / 4)
/** Seeds that no run had before; a failure names its own, and `HERMES_FUZZ_SEED` begins with it. */
const fresh = Number(process.env["HERMES_FUZZ_SEED"] ?? randomInt(1_000_000, 2 ** 31))
const seeds = [...Array.from({ length: runs }, (_, index) => index + 1), ...Array.from({ length: Math.ceil(runs / 4) }, (_, index) => fresh + index)]

const deadline = () => 1_000

class Failure extends Schema.TaggedError<Failure>("test/StreamFailure")("Failure", { id: Schema.String }) {}

const textOf = (response: ModelResponse): string => response.parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("")

const deltasOf = (parts: ReadonlyArray<StreamPart>): ReadonlyArray<string> => parts.flatMap((part) => part.type === "text-delta" ? [part.delta] : [])

/** How a wrapper's kind makes and reads its answers. */
const answers = {
  llm_execution: {
    make: (text: string): unknown => ({ ...textAnswer(text), raw: { text } }),
    read: (answer: unknown): string => textOf(answer as ModelResponse)
  },
  wrap_model_call: {
    make: (text: string): unknown => ({ response: textAnswer(text), route: {}, attempt: 0 }),
    read: (answer: unknown): string => textOf((answer as { readonly response: ModelResponse }).response)
  }
}

type Step = Effect.Effect<unknown, unknown, unknown>

const onPartOf = (wrapper: Wrapper): OnPart | undefined => {
  if (wrapper.does === "none") return undefined
  let calls = 0
  return (parts) =>
    Effect.suspend(() => {
      const texts = deltasOf(parts)
      const step = stepOf(wrapper, ++calls, texts)
      if (step._tag === "hold") return Effect.succeed(hold)
      if (step._tag === "broken") return step.how === "die" ? Effect.die(`broken${wrapper.id}`) : Effect.never
      return Effect.succeed(step.texts.join() === texts.join() ? parts : step.texts.map((text) => textDelta("1", text)))
    })
}

const typed = (wrapper: Wrapper, kind: Scenario["kind"]): Middleware.Any => {
  const { after, closed, id } = wrapper
  const wrap = (next: (request: never, options?: ExecuteOptions) => Step) => (request: never): Step => {
    const onPart = onPartOf(wrapper)
    return Effect.flatMap(next(request, onPart === undefined ? undefined : { onPart }), (answer): Step => {
      switch (after) {
        case "return":
          return Effect.succeed(answer)
        case "change":
          return Effect.succeed(answers[kind].make(`changed${id};`))
        case "nothing":
          return Effect.succeed(undefined)
        case "die":
          return Effect.die(`own${id}`)
        case "fail":
          return Effect.fail(new Failure({ id: `fail${id}` }))
        case "hang":
          return Effect.never
      }
    })
  }
  const options = { name: String(id), onFailure: closed ? "closed" as const : "open" as const, wrap: wrap as never }
  return kind === "llm_execution" ? Middleware.llmExecutionUndeclared(options) : Middleware.wrapModelCallUndeclared(options)
}

const plain = (wrapper: Wrapper): Middleware.Any => {
  const { after, closed, form, id } = wrapper
  const onPart = () => {
    let calls = 0
    return (parts: ReadonlyArray<PartDictionary>): unknown => {
      const texts = parts.map((part) => String(part["delta"]))
      const step = stepOf(wrapper, ++calls, texts)
      if (step._tag === "hold") return { action: "hold" }
      if (step._tag === "broken") {
        if (step.how === "hang") return new Promise(() => {})
        throw new Error(`broken${id}`)
      }
      if (step.texts.length === 0) return undefined
      const given = step.texts.join() === texts.join() ? parts : step.texts.map((delta) => ({ type: "text_delta", id: "1", delta }))
      return form === "async" ? Promise.resolve(given) : given
    }
  }
  return Plain.llmExecution({ name: String(id), onFailure: closed ? "closed" : "open" }, async (call) => {
    const next = call["next_call"] as NextCall
    const body = await (wrapper.does === "none" ? next(call["request"]) : next(call["request"], { on_part: onPart() }))
    switch (after) {
      case "return":
        return body
      case "change":
        return { text: `changed${id};` }
      case "nothing":
        return undefined
      case "die":
      case "fail":
        throw new Error(`own${id}`)
      case "hang":
        return await new Promise(() => {})
    }
  })
}

const pause = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** The end of an effect, however often the clock has to move for it. */
const ended = Effect.fnUntraced(function*(effect: Step) {
  // The chain erases its requirements; those of this test are none.
  const fiber = yield* Effect.forkDetach(effect as Effect.Effect<unknown, unknown>, { startImmediately: true })
  for (let round = 0; round < 200 && fiber.pollUnsafe() === undefined; round++) {
    yield* pause
    if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 seconds")
  }
  return fiber.pollUnsafe() ?? Exit.die("it never ended")
})

const outcomeOf = (exit: Exit.Exit<unknown, unknown>, read: (answer: unknown) => string): Outcome => {
  if (Exit.isSuccess(exit)) return { _tag: "value", value: read(exit.value) }
  const failed = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (failed instanceof Failure) return { _tag: "fail", error: failed.id }
  if (failed instanceof MiddlewareFailure) return { _tag: "fail", error: `closed${failed.middleware}` }
  if (failed !== undefined) return { _tag: "fail", error: String(failed) }
  return { _tag: "die", defect: String(exit.cause.reasons.find(Cause.isDieReason)?.defect) }
}

const play = Effect.fnUntraced(function*({ base, kind, pieces, wrappers }: Scenario) {
  const shown: Array<string> = []
  const stack = Stack.make(wrappers.map((wrapper) => wrapper.form === "typed" ? typed(wrapper, kind) : plain(wrapper)))
  const bottom = (_: unknown, options: ExecuteOptions | undefined): Step =>
    Effect.gen(function*() {
      for (const piece of pieces) if (options?.onPart !== undefined) yield* options.onPart([textDelta("1", piece)])
      if (base === "fail") return yield* Effect.fail(new Failure({ id: "base" }))
      return base === "die" ? yield* Effect.die("base") : answers[kind].make(pieces.join(""))
    })
  const options: ExecuteOptions = {
    onPart: (parts) => Effect.sync(() => {
      shown.push(...deltasOf(parts))
      return parts
    })
  }
  const decode = (raw: unknown) => Effect.succeed(textAnswer((raw as { text: string }).text))
  const run = kind === "llm_execution"
    ? Chain.run(stack.llmExecution, Chain.joinOnPart<never, ModelResponse>({ get: (response) => response, set: (_, response) => response }) as never, stack.faults, { ...llmContext({}), decode }, bottom as never, deadline)
    : Chain.run(stack.wrapModelCall, Chain.joinOnPart<never, { response: ModelResponse }>({ get: ({ response }) => response, set: (answer, response) => ({ ...answer, response }) }) as never, stack.faults, {} as never, bottom as never, deadline)
  const exit = yield* ended(run({} as never, options as never))
  return { outcome: outcomeOf(exit, answers[kind].read), shown }
})

describe("the failure model of streams", () => {
  it.effect(`${seeds.length} random chains around a stream show what the rules say, and come to it`, () =>
    Effect.gen(function*() {
      for (const seed of seeds) {
        const scenario = generateStream(random(seed))
        assert.deepStrictEqual(yield* play(scenario), expectedStream(scenario), `HERMES_FUZZ_SEED=${seed}: ${JSON.stringify(scenario)}`)
      }
    }).pipe(Effect.provide(Logger.layer([]))), 240_000)
})
