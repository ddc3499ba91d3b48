// `on_part` of plain functions: dictionaries of parts, and what they may give back.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Response from "effect/ai/Response"
import * as TestClock from "effect/testing/TestClock"
import { ExecutionBlocked, MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import { type ModelResponse, type StreamPart, makeTextDelta } from "../../src/base/domain/ModelCall.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import type { NextCall } from "../../src/middleware/PlainExecution.ts"
import type { PartDictionary } from "../../src/middleware/PlainParts.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Fake from "../support/fakeModel.ts"
import { runModel, withWarnings } from "../support/middlewareContexts.ts"

const all: ReadonlyArray<StreamPart> = [
  Response.makePart("response-metadata", { id: "r1", modelId: "m", timestamp: undefined }),
  Response.makePart("reasoning-start", { id: "1" }),
  Response.makePart("reasoning-delta", { id: "1", delta: "hm", metadata: { p: { signature: "x" } } }),
  Response.makePart("reasoning-end", { id: "1" }),
  Response.makePart("text-start", { id: "2" }),
  makeTextDelta("2", "my secret"),
  Response.makePart("text-end", { id: "2" }),
  Response.makePart("tool-params-start", { id: "c", name: "t", providerExecuted: false }),
  Response.makePart("tool-params-delta", { id: "c", delta: '{"a":1}' }),
  Response.makePart("tool-params-end", { id: "c" }),
  Response.makePart("tool-call", { id: "c", name: "t", params: { a: 1 }, providerExecuted: false }),
  Response.makePart("file", { mediaType: "image/png", data: new Uint8Array([1]) }),
  Response.makePart("finish", {
    reason: "tool-calls",
    usage: Usage.toResponse({ input: 3, output: 4 }),
    response: undefined
  })
]

/** A model that streams these parts, one by one. */
const model =
  (parts: ReadonlyArray<StreamPart>): Fake.Turn =>
  (_, options) =>
    Effect.as(
      Effect.forEach(parts, (part) => options?.onPart?.([part]) ?? Effect.void),
      Fake.answer([Response.makePart("text", { text: "my secret" }), Fake.call("c", "t", { a: 1 })], "stop")
    )

type OnPart = (parts: ReadonlyArray<PartDictionary>) => unknown

const play = Effect.fnUntraced(function* (
  onPart: OnPart,
  {
    onFailure,
    parts = all,
    then
  }: {
    readonly onFailure?: "closed"
    readonly parts?: ReadonlyArray<StreamPart>
    readonly then?: (body: unknown) => unknown
  } = {}
) {
  const shown: Array<StreamPart> = []
  const entry = Plain.llmExecution({ name: "plain", onFailure }, async (call) => {
    const body = await (call["next_call"] as NextCall)(call["request"], { on_part: onPart })
    return then === undefined ? body : then(body)
  })
  const { value: exit, warnings } = yield* withWarnings(
    Effect.exit(
      runModel([entry], {}, model(parts), {
        onPart: (parts) =>
          Effect.sync(() => {
            shown.push(...parts)
            return parts
          })
      })
    )
  )
  return { exit, shown, warnings }
})

const textOf = (exit: Exit.Exit<ModelResponse, unknown>): string =>
  Exit.isSuccess(exit)
    ? exit.value.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
    : String(exit)

const redacted = (part: PartDictionary): PartDictionary =>
  part.type === "text_delta" ? { ...part, delta: String(part["delta"]).replace("secret", "[removed]") } : part

describe("on_part of a plain function", () => {
  it.effect("sees each part as a frozen dictionary, and what it passes on is the part itself", () =>
    Effect.gen(function* () {
      const seen: Array<PartDictionary> = []
      const { exit, shown } = yield* play((parts) => {
        seen.push(...parts)
        for (const part of parts)
          assert.throws(() => Reflect.apply(Object.assign, undefined, [part, { delta: "spoilt" }]))
        return [...parts]
      })
      assert.deepStrictEqual(
        seen.map(({ metadata: _, ...part }) => part),
        [
          { type: "response_metadata", id: "r1", model: "m" },
          { type: "reasoning_start", id: "1" },
          { type: "reasoning_delta", id: "1", delta: "hm" },
          { type: "reasoning_end", id: "1" },
          { type: "text_start", id: "2" },
          { type: "text_delta", id: "2", delta: "my secret" },
          { type: "text_end", id: "2" },
          { type: "tool_params_start", id: "c", name: "t" },
          { type: "tool_params_delta", id: "c", delta: '{"a":1}' },
          { type: "tool_params_end", id: "c" },
          { type: "tool_call", id: "c", name: "t", params: { a: 1 } },
          { type: "file", media_type: "image/png", data: new Uint8Array([1]) },
          {
            type: "finish",
            reason: "tool-calls",
            usage: { ...Usage.toWire(Usage.fromResponse(Usage.toResponse({ input: 3, output: 4 }))) }
          }
        ]
      )
      assert.deepStrictEqual(seen[2]?.["metadata"], { p: { signature: "x" } })
      for (const [index, part] of shown.entries()) assert.strictEqual(part, all[index], part.type)
      assert.lengthOf(shown, all.length)
      assert.strictEqual(textOf(exit), "my secret")
    })
  )

  it.effect("changes parts, at once, by a promise or an Effect; spread parts keep what they were", () =>
    Effect.gen(function* () {
      const ways: ReadonlyArray<OnPart> = [
        (parts) => parts.map(redacted),
        async (parts) => parts.map(redacted),
        (parts) => Effect.succeed(parts.map(redacted)),
        (parts) => parts.map((part) => redacted({ ...part }))
      ]
      for (const way of ways) {
        const { exit, shown, warnings } = yield* play(way)
        assert.deepStrictEqual(warnings, [])
        assert.deepStrictEqual(
          shown.map(({ type }) => type),
          all.map(({ type }) => type)
        )
        assert.strictEqual(textOf(exit), "my [removed]")
        const reasoning = Exit.isSuccess(exit) ? exit.value.parts.find(({ type }) => type === "reasoning") : undefined
        assert.deepStrictEqual(reasoning?.metadata, { p: { signature: "x" } })
        assert.isTrue(Exit.isSuccess(exit) && exit.value.finishReason === "tool-calls")
      }
    })
  )

  it.effect("cuts by nothing, and gives one part for a list of one", () =>
    Effect.gen(function* () {
      const cut = yield* play((parts) => (parts[0]?.type === "text_delta" ? undefined : parts[0]))
      assert.strictEqual(textOf(cut.exit), "")
      assert.strictEqual(cut.shown.length, all.length - 1)
    })
  )

  it.effect(
    "holds until the function has returned: the answer as it is lets it go, another one or a veto drops it",
    () =>
      Effect.gen(function* () {
        const hold = () => ({ action: "hold" })
        const stands = yield* play(hold)
        assert.strictEqual(stands.shown.length, all.length)
        const other = yield* play(hold, { then: () => ({ other: true }) })
        assert.deepStrictEqual([other.shown.length, textOf(other.exit)], [0, 'decoded {"other":true}'])
        const vetoed = yield* play(hold, {
          then: () => {
            throw new ExecutionBlocked({ reason: "no", metadata: {} })
          }
        })
        assert.isTrue(vetoed.shown.length === 0 && Exit.isFailure(vetoed.exit))
        const throws = yield* play(hold, {
          then: () => {
            throw new Error("broken")
          }
        })
        assert.deepStrictEqual(
          [throws.shown.length, textOf(throws.exit), throws.warnings.length],
          [all.length, "my secret", 1]
        )
      })
  )

  it.effect(
    "that throws, rejects, hangs or gives something else is passed by with one warning; closed fails the call",
    () =>
      Effect.gen(function* () {
        const faults: ReadonlyArray<readonly [OnPart, RegExp]> = [
          [
            () => {
              throw new Error("thrown")
            },
            /thrown/
          ],
          [() => Promise.reject(new Error("rejected")), /rejected/],
          [() => new Promise(() => {}), /no answer within 300 s/],
          [() => "text", /parts with a `type`, got text/],
          [() => [{ type: "text_delta", id: "2" }], /needs the text `delta`/],
          [() => [{ type: "surprise" }], /cannot make a part of the type surprise/],
          [() => Effect.interrupt, /interrupted/]
        ]
        for (const [fault, warning] of faults) {
          const onPart: OnPart = (parts) => (parts.some(({ type }) => type === "text_delta") ? fault(parts) : parts)
          for (const onFailure of [undefined, "closed"] as const) {
            const playing = yield* Effect.forkChild(play(onPart, onFailure === undefined ? {} : { onFailure }))
            while (playing.pollUnsafe() === undefined) {
              yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
              yield* TestClock.adjust("5 minutes")
            }
            const { exit, shown, warnings } = yield* Fiber.join(playing)
            if (onFailure === "closed") {
              assert.isTrue(
                Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof MiddlewareFailure,
                String(warning)
              )
              assert.isFalse(shown.some(({ type }) => type === "text-delta"))
            } else {
              assert.lengthOf(warnings, 1)
              assert.match(warnings[0] ?? "", warning)
              assert.strictEqual(shown.length, all.length)
              assert.strictEqual(textOf(exit), "my secret", String(warning))
            }
          }
        }
      })
  )

  it.effect("options that are none are the function's own failure", () =>
    Effect.gen(function* () {
      for (const options of [{ onPart: () => [] }, { on_part: 5 }, "x"]) {
        const entry = Plain.llmExecution({ name: "plain" }, (call) =>
          Reflect.apply(call["next_call"] as NextCall, undefined, [undefined, options])
        )
        const { value, warnings } = yield* withWarnings(runModel([entry], {}, model(all)))
        assert.strictEqual(textOf(Exit.succeed(value)), "my secret")
        assert.match(warnings[0] ?? "", /next_call\(\) takes \{ on_part: function \}/)
      }
    })
  )
})
