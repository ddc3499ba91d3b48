// Streams, held parts and replaced answers, in random chains of all wrappers that see a stream.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import { randomInt } from "node:crypto"
import { MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import { type ExecuteOptions, type ModelResponse, makeTextDelta } from "../../src/base/domain/ModelCall.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { textAnswer } from "../support/fakeModel.ts"
import { isLong, scaleRuns } from "../support/effort.ts"
import { anyCalls, llmContext } from "../support/middlewareContexts.ts"
import { type Outcome, random } from "./scenario.ts"
import { answers, deltasOf, entriesOf, Failure, type Step } from "../support/streamWrappers.ts"
import { expectedStream, generateStream, type Scenario } from "./streamScenario.ts"

const runs = Math.ceil(Number(process.env["HERMES_FUZZ_RUNS"] ?? scaleRuns(3_000)) / 4)
/** Seeds that no run had before, for long runs; a failure names its own, and `HERMES_FUZZ_SEED` begins with it. */
const fresh = Number(process.env["HERMES_FUZZ_SEED"] ?? randomInt(1_000_000, 2 ** 31))
const seeds = [
  ...Array.from({ length: runs }, (_, index) => index + 1),
  ...Array.from({ length: isLong ? Math.ceil(runs / 4) : 0 }, (_, index) => fresh + index)
]

const deadline = () => 1_000

const pause = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** The end of an effect, however often the clock has to move for it. */
const ended = Effect.fnUntraced(function* (effect: Step) {
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

const play = Effect.fnUntraced(function* (scenario: Scenario) {
  const { base, kind, pieces, streams } = scenario
  const shown: Array<string> = []
  const stack = Stack.make(entriesOf(scenario))
  const bottom = (_: unknown, options: ExecuteOptions | undefined): Step =>
    Effect.gen(function* () {
      if (streams)
        for (const piece of pieces)
          if (options?.onPart !== undefined) yield* options.onPart([makeTextDelta("1", piece)])
      if (base === "fail") return yield* Effect.fail(new Failure({ id: "base" }))
      return base === "die" ? yield* Effect.die("base") : answers[kind].make(pieces.join(""))
    })
  const options: ExecuteOptions = {
    onPart: (parts) =>
      Effect.sync(() => {
        shown.push(...deltasOf(parts))
        return parts
      })
  }
  const decode = (raw: unknown) => Effect.succeed(textAnswer((raw as { text: string }).text))
  const run =
    kind === "llm_execution"
      ? Chain.run(
          stack.llmExecution,
          {
            contract: anyCalls.contract,
            join: Chain.joinOnPart<never, ModelResponse>({
              get: (response) => response,
              set: (_, response) => response
            }) as never
          } as never,
          stack.faults,
          { ...llmContext({}), decode },
          bottom as never,
          deadline
        )
      : Chain.run(
          stack.wrapModelCall,
          {
            contract: anyCalls.contract,
            join: Chain.joinOnPart<never, { response: ModelResponse }>({
              get: ({ response }) => response,
              set: (answer, response) => ({ ...answer, response })
            }) as never
          } as never,
          stack.faults,
          {} as never,
          bottom as never,
          deadline
        )
  const exit = yield* ended(run({} as never, options as never))
  return { outcome: outcomeOf(exit, answers[kind].read), shown }
})

/** Two parts that hang take longer than a third wrapper may hold the stream, and the model knows no times. */
const keepOneHang = (scenario: Scenario): Scenario => {
  const first = scenario.wrappers.find(({ does }) => does === "hang")
  return {
    ...scenario,
    wrappers: scenario.wrappers.map((wrapper) =>
      wrapper.does === "hang" && wrapper !== first ? { ...wrapper, does: "die" } : wrapper
    )
  }
}

describe("the failure model of streams", () => {
  it.effect(`${seeds.length} random chains around a stream show what the rules say, and come to it`, () =>
    Effect.gen(function* () {
      for (const seed of seeds) {
        const scenario = keepOneHang(generateStream(random(seed)))
        assert.deepStrictEqual(
          yield* play(scenario),
          expectedStream(scenario),
          `HERMES_FUZZ_SEED=${seed}: ${JSON.stringify(scenario)}`
        )
      }
    }).pipe(Effect.provide(Logger.layer([])))
  )
})
