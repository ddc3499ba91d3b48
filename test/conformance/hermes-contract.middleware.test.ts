// Cases 1–47 of the plugin contract: request and execution middleware. Where the architecture decided otherwise, the
// name of the test says so.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { ExecutionBlocked, MiddlewareFailure, TranslatedFailure } from "../../src/base/domain/AgentError.ts"
import type { ToolArguments } from "../../src/middleware/Kind.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { textAnswer } from "../support/fakeModel.ts"
import {
  llmContext,
  output,
  rewriteArgs,
  rewriteRequest,
  runModel,
  runTools,
  withWarnings
} from "../support/middlewareContexts.ts"

class Failure extends Schema.TaggedError<Failure>("test/ContractFailure")("ContractFailure", { id: Schema.String }) {}
const failure = new Failure({ id: "F" })

type Next = (payload?: unknown) => Promise<unknown>
const nextOf = (call: Plain.Envelope): Next => call["next_call"] as Next
const argsOf = (call: Plain.Envelope): Record<string, unknown> => call["args"] as Record<string, unknown>
const requestOf = (call: Plain.Envelope): Record<string, unknown> => call["request"] as Record<string, unknown>

const toolRequest = (callback: Plain.Callback) => Plain.toolRequest({ name: "mw" }, callback)
const llmRequest = (callback: Plain.Callback, name = "mw") => Plain.llmRequest({ name }, callback)
const toolExecution = (callback: Plain.Callback, name = "mw") => Plain.toolExecution({ name }, callback)

const counting = (result: Effect.Effect<unknown, unknown>) => {
  const seen: Array<ToolArguments> = []
  return {
    seen,
    base: (args: ToolArguments) =>
      Effect.suspend(() => {
        seen.push(args)
        return Effect.map(result, output)
      })
  }
}
const ok = Effect.succeed("base")

describe("request middleware", () => {
  it.effect("1 without callbacks the payload is the same object and the trace is empty", () =>
    Effect.gen(function* () {
      const request = { a: 1 }
      assert.deepStrictEqual(yield* rewriteRequest([], request), { payload: request, trace: [] })
      assert.strictEqual((yield* rewriteRequest([], request)).payload, request)
      assert.strictEqual((yield* rewriteArgs([], request)).payload, request)
    })
  )

  it.effect("2 without execution callbacks the base operation gets and gives the very same objects", () =>
    Effect.gen(function* () {
      const args = { a: 1 }
      const result = yield* runTools([], args, (given) => Effect.succeed(output(given)))
      assert.strictEqual(result.output, args)
    })
  )

  it.effect("4 a replacement that changes nothing still counts", () =>
    Effect.gen(function* () {
      const outcome = yield* rewriteArgs([toolRequest((call) => ({ args: argsOf(call), source: "same" }))], { a: 1 })
      assert.deepStrictEqual(outcome, { payload: { a: 1 }, trace: [{ source: "same" }] })
    })
  )

  it.effect(
    "5 (the architecture decides: a pipeline) the second sees the first one's replacement and the original",
    () =>
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        const outcome = yield* rewriteRequest(
          [
            llmRequest((call) => ({ request: { ...requestOf(call), a: 1 }, source: "A" })),
            llmRequest((call) => {
              seen.push(requestOf(call), call["original_request"])
              return { request: { ...requestOf(call), b: 2 }, source: "B" }
            })
          ],
          { x: 0 }
        )
        assert.deepStrictEqual(seen, [{ x: 0, a: 1 }, { x: 0 }])
        assert.deepStrictEqual(outcome, { payload: { x: 0, a: 1, b: 2 }, trace: [{ source: "A" }, { source: "B" }] })
      })
  )

  it.effect("7 and 8 (the architecture decides) mutation by plugin code is never visible to anybody else", () =>
    Effect.gen(function* () {
      const request = { x: 0, deep: { y: 1 } }
      const { value, warnings } = yield* withWarnings(
        rewriteRequest(
          [
            llmRequest((call) => {
              requestOf(call)["x"] = 9
            }),
            llmRequest((call) => {
              ;(call["original_request"] as { deep: { y: number } }).deep.y = 9
            }),
            llmRequest((call) => ({ request: { ...requestOf(call), b: 2 } }))
          ],
          request
        )
      )
      assert.deepStrictEqual(value.payload, { x: 0, deep: { y: 1 }, b: 2 })
      assert.deepStrictEqual(request, { x: 0, deep: { y: 1 } })
      assert.strictEqual(warnings.length, 2)
    })
  )

  it.effect("10 and 11 trace entries keep the non-empty strings among source, reason and name", () =>
    Effect.gen(function* () {
      const outcome = yield* rewriteRequest(
        [
          llmRequest((call) => ({ request: requestOf(call), source: "s", reason: "r", name: "n", extra: 1 })),
          llmRequest((call) => ({ request: requestOf(call), source: "", reason: 5 }))
        ],
        {}
      )
      assert.deepStrictEqual(outcome.trace, [{ source: "s", reason: "r", name: "n" }, { source: "plugin" }])
    })
  )

  it.effect("13 a replacement that the plugin keeps and changes later does not change the payload", () =>
    Effect.gen(function* () {
      const kept: { request: Record<string, unknown> } = { request: { a: { b: 1 } } }
      const outcome = yield* rewriteRequest([llmRequest(() => kept)], {})
      kept.request["a"] = 2
      assert.deepStrictEqual(outcome.payload, { a: { b: 1 } })
    })
  )

  it.effect("14 and 16 an llm_request callback sees versions, ids and route, and no next_call", () =>
    Effect.gen(function* () {
      let seen: Plain.Envelope = {}
      yield* rewriteRequest(
        [
          llmRequest((call) => {
            seen = call
          })
        ],
        { a: 1 }
      )
      const { original_request, request, ...rest } = seen
      assert.deepStrictEqual([request, original_request], [{ a: 1 }, { a: 1 }])
      assert.deepStrictEqual(rest, {
        telemetry_schema_version: "hermes.observer.v1",
        middleware_schema_version: "hermes.middleware.v1",
        session_id: "s",
        task_id: "t",
        turn_id: "u",
        api_request_id: "a",
        platform: "cli",
        model: "fake-1",
        provider: "fake",
        base_url: "",
        api_mode: "chat_completions",
        api_call_count: 1,
        retry_count: 0,
        middleware_trace: []
      })
      assert.isTrue(Object.isFrozen(seen))
    })
  )

  it.effect("17 an interrupt propagates and later callbacks are not run", () =>
    Effect.gen(function* () {
      let later = false
      const started = Deferred.makeUnsafe<void>()
      const wait = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      const fiber = yield* Effect.forkChild(
        rewriteRequest(
          [
            Middleware.llmRequest({ name: "wait", rewrite: () => wait }),
            llmRequest(() => {
              later = true
            })
          ],
          {}
        )
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      assert.isFalse(later)
    })
  )

  it.effect(
    "17 (overridden: architecture §6) a callback that interrupts itself has failed, and the next one is run",
    () =>
      Effect.gen(function* () {
        let later = false
        yield* rewriteRequest(
          [
            Middleware.llmRequest({ name: "stop", rewrite: () => Effect.interrupt }),
            llmRequest(() => {
              later = true
            })
          ],
          {}
        )
        assert.isTrue(later)
      })
  )

  it.effect("19 the same function registered twice runs twice", () =>
    Effect.gen(function* () {
      let runs = 0
      const callback = () => {
        runs++
      }
      yield* rewriteRequest([llmRequest(callback), llmRequest(callback)], {})
      assert.strictEqual(runs, 2)
    })
  )

  it.effect("a wrong shape is one warning for each distinct fault, and the request goes on as it was", () =>
    Effect.gen(function* () {
      const { value, warnings } = yield* withWarnings(
        rewriteRequest(
          [
            llmRequest(() => "nonsense", "one"),
            llmRequest(() => ({ request: [] }), "two"),
            llmRequest(() => {
              throw new Error("boom")
            }, "three")
          ],
          { a: 1 }
        )
      )
      assert.deepStrictEqual(value, { payload: { a: 1 }, trace: [] })
      assert.deepStrictEqual(warnings.length, 3)
    })
  )

  it.effect("a closed request middleware that fails fails the call", () =>
    Effect.gen(function* () {
      const closed = Plain.llmRequest({ name: "policy", onFailure: "closed" }, () => {
        throw new Error("boom")
      })
      const error = yield* Effect.flip(rewriteRequest([closed], {}))
      assert.isTrue(error instanceof MiddlewareFailure && error.middleware === "policy")
    })
  )
})

describe("execution middleware", () => {
  it.effect("20 a pass-through lets the failure itself through: same identity, one run, no warning", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(Effect.fail(failure))
      const { value, warnings } = yield* withWarnings(
        Effect.exit(runTools([toolExecution((call) => nextOf(call)(argsOf(call)))], { a: 1 }, base))
      )
      assert.isTrue(Exit.isFailure(value) && Cause.squash(value.cause) === failure)
      assert.deepStrictEqual(seen, [{ a: 1 }])
      assert.deepStrictEqual(warnings, [])
    })
  )

  it.effect("22 a callback that raises before next is left out, and the rest of the chain runs", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      const result = yield* runTools(
        [
          toolExecution(() => {
            throw new Error("early")
          }),
          toolExecution((call) => nextOf(call)({ ...argsOf(call), rewritten: true }))
        ],
        { q: 1 },
        base
      )
      assert.deepStrictEqual([result.output, seen], ["base", [{ q: 1, rewritten: true }]])
    })
  )

  it.effect("23 a callback that raises after next keeps the result, runs nothing twice, and is one warning", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      const { value, warnings } = yield* withWarnings(
        runTools(
          [
            toolExecution(async (call) => {
              await nextOf(call)()
              throw new Error("late")
            })
          ],
          {},
          base
        )
      )
      assert.deepStrictEqual([value.output, seen.length, warnings.length], ["base", 1, 1])
      assert.match(warnings[0] ?? "", /tool_execution middleware "mw" failed \(late\)/)
    })
  )

  it.effect("25 an interrupt of the base operation is never caught by plugin code", () =>
    Effect.gen(function* () {
      let entered = false
      const exit = yield* Effect.exit(
        runTools(
          [
            toolExecution(async (call) => {
              try {
                return await nextOf(call)()
              } catch {
                entered = true
                return "caught"
              }
            })
          ],
          {},
          () => Effect.interrupt
        )
      )
      assert.isTrue(Exit.hasInterrupts(exit))
      assert.isFalse(entered)
    })
  )

  it.effect("26 a second next_call is refused, and the first result stands", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      const result = yield* runTools(
        [
          toolExecution(async (call) => {
            await nextOf(call)()
            return nextOf(call)()
          })
        ],
        {},
        base
      )
      assert.deepStrictEqual([result.output, seen.length], ["base", 1])
    })
  )

  it.effect("28 a second next_call after a failure is what propagates, as a translation", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(Effect.fail(failure))
      const error = yield* Effect.flip(
        runTools(
          [
            toolExecution(async (call) => {
              try {
                return await nextOf(call)()
              } catch {
                return nextOf(call)()
              }
            })
          ],
          {},
          base
        )
      )
      assert.isTrue(
        error instanceof TranslatedFailure && error.downstream === failure && /more than once/.test(error.message)
      )
      assert.strictEqual(seen.length, 1)
    })
  )

  it.effect(
    "29 a swallowed failure that supplies a result is that result; one that supplies nothing is still a failure",
    () =>
      Effect.gen(function* () {
        const swallow = (value: unknown) =>
          toolExecution(async (call) => {
            try {
              return await nextOf(call)()
            } catch {
              return value
            }
          })
        const { base } = counting(Effect.fail(failure))
        assert.strictEqual((yield* runTools([swallow("instead")], {}, base)).output, "instead")
        assert.strictEqual(yield* Effect.flip(runTools([swallow(undefined)], {}, base)), failure)
        assert.strictEqual(yield* Effect.flip(runTools([swallow(null)], {}, base)), failure)
      })
  )

  it.effect(
    "31 (the architecture decides: there is no null success) a short circuit is a value; nothing is a failure before next",
    () =>
      Effect.gen(function* () {
        const { base, seen } = counting(ok)
        assert.strictEqual((yield* runTools([toolExecution(() => "short")], {}, base)).output, "short")
        assert.strictEqual(seen.length, 0)
        assert.strictEqual((yield* runTools([toolExecution(() => null)], {}, base)).output, "base")
        assert.strictEqual(seen.length, 1)
      })
  )

  it.effect(
    "32 (the architecture decides: next fails with the downstream error itself) a handler of the concrete type is entered",
    () =>
      Effect.gen(function* () {
        const { base } = counting(Effect.fail(failure))
        const result = yield* runTools(
          [
            toolExecution(async (call) => {
              try {
                return await nextOf(call)()
              } catch (error) {
                return error instanceof Failure ? `handled ${error.id}` : "other"
              }
            })
          ],
          {},
          base
        )
        assert.strictEqual(result.output, "handled F")
      })
  )

  it.effect("34 throwing the downstream failure on is a pass-through", () =>
    Effect.gen(function* () {
      const { base } = counting(Effect.fail(failure))
      const { value, warnings } = yield* withWarnings(
        Effect.flip(
          runTools(
            [
              toolExecution((call) =>
                nextOf(call)().catch((error) => {
                  throw error
                })
              )
            ],
            {},
            base
          )
        )
      )
      assert.strictEqual(value, failure)
      assert.deepStrictEqual(warnings, [])
    })
  )

  it.effect("35 the outer frame sees the inner one's translation, and that is the final failure", () =>
    Effect.gen(function* () {
      const translated = new Error("translated")
      let outer: unknown
      const { base } = counting(Effect.fail(failure))
      const error = yield* Effect.flip(
        runTools(
          [
            toolExecution(async (call) => {
              try {
                return await nextOf(call)()
              } catch (caught) {
                outer = caught
                throw caught
              }
            }),
            toolExecution(async (call) => {
              try {
                return await nextOf(call)()
              } catch {
                throw translated
              }
            })
          ],
          {},
          base
        )
      )
      assert.isTrue(error instanceof TranslatedFailure && error.thrown === translated && error.downstream === failure)
      assert.strictEqual(outer, error)
    })
  )

  it.effect("37 next_call without an argument, or with null, keeps the payload; an empty mapping replaces it", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      for (const given of [undefined, null, {}]) {
        yield* runTools([toolExecution((call) => nextOf(call)(given))], { a: 1 }, base)
      }
      assert.deepStrictEqual(seen, [{ a: 1 }, { a: 1 }, {}])
    })
  )

  it.effect("38 args follow next_call, original_args do not", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      yield* runTools(
        [
          toolExecution((call) => nextOf(call)({ b: 2 })),
          toolExecution((call) => {
            seen.push(call["args"], call["original_args"])
            return nextOf(call)()
          })
        ],
        { a: 1 },
        counting(ok).base
      )
      assert.deepStrictEqual(seen, [{ b: 2 }, { a: 1 }])
    })
  )

  it.effect("40 what was built and not passed on is lost", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      yield* runTools(
        [
          toolExecution((call) => {
            const copy = { ...argsOf(call), b: 2 }
            throw new Error(JSON.stringify(copy))
          })
        ],
        { a: 1 },
        base
      )
      assert.deepStrictEqual(seen, [{ a: 1 }])
    })
  )

  it.effect("41 the first is outermost: entry 1, 2, 3, exit 3, 2, 1", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const frame = (id: number) =>
        toolExecution(async (call) => {
          order.push(`>${id}`)
          const value = await nextOf(call)()
          order.push(`<${id}`)
          return value
        })
      yield* runTools([frame(1), frame(2), frame(3)], {}, counting(ok).base)
      assert.deepStrictEqual(order, [">1", ">2", ">3", "<3", "<2", "<1"])
    })
  )

  it.effect("43 an interrupt before next propagates, and the base does not run", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      const started = Deferred.makeUnsafe<void>()
      const wait = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      const fiber = yield* Effect.forkChild(
        runTools([Middleware.toolExecution({ name: "wait", wrap: () => () => wait })], {}, base)
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      assert.strictEqual(seen.length, 0)
    })
  )

  it.effect(
    "43 (overridden: architecture §6) a wrapper that interrupts itself before next has failed, and the base runs once",
    () =>
      Effect.gen(function* () {
        const { base, seen } = counting(ok)
        yield* runTools([Middleware.toolExecution({ name: "stop", wrap: () => () => Effect.interrupt })], {}, base)
        assert.strictEqual(seen.length, 1)
      })
  )

  it.effect("44 llm_execution sees the rewritten request, the pristine one and the trace", () =>
    Effect.gen(function* () {
      let seen: Plain.Envelope = {}
      yield* runModel(
        [
          Plain.llmExecution({ name: "mw" }, (call) => {
            seen = call
            return nextOf(call)()
          })
        ],
        { a: 2 },
        () => Effect.succeed(textAnswer("x")),
        undefined,
        llmContext({ a: 1 }, [{ source: "rewriter" }])
      )
      assert.deepStrictEqual(
        [seen["request"], seen["original_request"], seen["middleware_trace"]],
        [{ a: 2 }, { a: 1 }, [{ source: "rewriter" }]]
      )
    })
  )

  it.effect("46 and 47 a veto propagates through every frame and names who vetoed, unless it says so itself", () =>
    Effect.gen(function* () {
      const { base, seen } = counting(ok)
      const veto = (metadata: Record<string, unknown>) =>
        toolExecution(() => {
          throw new ExecutionBlocked({ reason: "budget", metadata })
        }, "inner")
      const outer = toolExecution((call) => nextOf(call)(), "outer")
      const error = yield* Effect.flip(runTools([outer, veto({})], {}, base))
      assert.isTrue(error instanceof ExecutionBlocked)
      assert.deepStrictEqual((error as ExecutionBlocked).metadata, { checked_by: "inner" })
      const signed = yield* Effect.flip(runTools([veto({ checked_by: "me" })], {}, base))
      assert.deepStrictEqual((signed as ExecutionBlocked).metadata, { checked_by: "me" })
      assert.strictEqual(seen.length, 0)
    })
  )

  it.effect(
    "a plain llm_execution gets the raw body; handing it back is the same response, another body is decoded",
    () =>
      Effect.gen(function* () {
        const response = textAnswer("from below")
        const same = yield* runModel(
          [
            Plain.llmExecution({ name: "mw" }, async (call) => {
              const raw = await nextOf(call)(call["request"])
              assert.deepStrictEqual(raw, response.raw)
              return raw
            })
          ],
          {},
          () => Effect.succeed(response)
        )
        assert.strictEqual(same, response)
        const other = yield* runModel([Plain.llmExecution({ name: "mw" }, () => ({ mine: true }))], {}, () =>
          Effect.succeed(response)
        )
        assert.deepStrictEqual(
          other.parts.map((part) => (part.type === "text" ? part.text : "")),
          ['decoded {"mine":true}']
        )
      })
  )

  it.effect("handlers may return Effects, and next_call may be used from one", () =>
    Effect.gen(function* () {
      const result = yield* runTools(
        [
          toolExecution((call) =>
            Effect.map(
              Effect.promise(() => nextOf(call)()),
              (text) => `${String(text)}!`
            )
          )
        ],
        {},
        counting(ok).base
      )
      assert.strictEqual(result.output, "base!")
    })
  )
})
