import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as TestClock from "effect/testing/TestClock"
import { ExecutionBlocked, MiddlewareFailure } from "../../src/base/domain/AgentError.ts"
import {
  type ExecuteOptions,
  type ModelResponse,
  type OnPart,
  type StreamPart,
  makeTextDelta
} from "../../src/base/domain/ModelCall.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import * as Fake from "../support/fakeModel.ts"
import { anyCalls, ids, runModel, withWarnings } from "../support/middlewareContexts.ts"

const textOf = (response: ModelResponse): string =>
  response.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

const base = Fake.pieces("Hello ", "dear ", "world")

const collect = () => {
  const shown: Array<string> = []
  const onPart: OnPart = (parts) =>
    Effect.sync(() => {
      for (const part of parts) if (part.type === "text-delta") shown.push(part.delta)
      return parts
    })
  return { shown, options: { onPart } }
}

const mapDeltas = (name: string, f: (delta: string) => string | undefined, onFailure?: "closed") =>
  Middleware.llmExecution({
    name,
    onFailure,
    wrap: (next) => (request) =>
      next(request, {
        onPart: (parts) =>
          Effect.sync(() =>
            parts.flatMap((part): ReadonlyArray<StreamPart> => {
              if (part.type !== "text-delta") return [part]
              const delta = f(part.delta)
              return delta === undefined ? [] : [Response.makePart("text-delta", { id: part.id, delta })]
            })
          )
      })
  })

describe("middleware around a streamed answer", () => {
  it.effect("a wrapper without onPart changes nothing of the stream or the response", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      let below: ModelResponse | undefined
      const response = yield* runModel(
        [Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })],
        {},
        (request, given) => Effect.tap(base(request, given), (answer) => Effect.sync(() => (below = answer))),
        options
      )
      assert.strictEqual(response, below)
      assert.deepStrictEqual(shown, ["Hello ", "dear ", "world"])
    })
  )

  it.effect("what it changes is what the user sees, what the response says, and what the frames above see", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      const inner: Array<string> = []
      const response = yield* runModel(
        [
          mapDeltas("shout", (delta) => delta.toUpperCase()),
          Middleware.llmExecution({
            name: "looker",
            wrap: (next) => (request) =>
              Effect.tap(next(request), (answer) => Effect.sync(() => inner.push(textOf(answer))))
          })
        ],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, ["HELLO ", "DEAR ", "WORLD"])
      assert.strictEqual(textOf(response), "HELLO DEAR WORLD")
      assert.deepStrictEqual(inner, ["Hello dear world"], "a frame below sees the answer as it came")
    })
  )

  it.effect("it can cut, and nested frames see the stream in order from the inside out", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      const response = yield* runModel(
        [
          mapDeltas("mark", (delta) => `<${delta}>`),
          mapDeltas("cut", (delta) => (delta === "dear " ? undefined : delta))
        ],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, ["<Hello >", "<world>"])
      assert.strictEqual(textOf(response), "<Hello ><world>")
    })
  )

  it.effect("it can hold what streams and let it go later", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      let held = ""
      const hold = Middleware.llmExecution({
        name: "hold",
        wrap: (next) => (request) =>
          next(request, {
            onPart: (parts) =>
              Effect.sync(() =>
                parts.flatMap((part): ReadonlyArray<StreamPart> => {
                  if (part.type !== "text-delta") return [part]
                  held += part.delta
                  if (!held.endsWith("world")) return []
                  return [Response.makePart("text-delta", { id: part.id, delta: held })]
                })
              )
          })
      })
      const response = yield* runModel([hold], {}, base, options)
      assert.deepStrictEqual(shown, ["Hello dear world"])
      assert.strictEqual(textOf(response), "Hello dear world")
    })
  )

  it.effect("it can answer in the provider's stead: nothing streams, and the response is its own", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      const response = yield* runModel(
        [Middleware.llmExecution({ name: "cache", wrap: () => () => Effect.succeed(Fake.textAnswer("cached")) })],
        {},
        base,
        options
      )
      assert.deepStrictEqual(shown, [])
      assert.strictEqual(textOf(response), "cached")
    })
  )

  it.effect("an onPart that dies before it changed anything is passed by with one warning: nothing is lost", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      const broken = Middleware.llmExecution({
        name: "broken",
        wrap: (next) => (request) =>
          next(request, {
            onPart: (parts) =>
              Effect.sync(() => {
                if (parts.some((part) => part.type === "text-delta" && part.delta === "dear "))
                  throw new Error("onPart broke")
                return parts
              })
          })
      })
      const { value, warnings } = yield* withWarnings(runModel([broken], {}, base, options))
      assert.deepStrictEqual(shown, ["Hello ", "dear ", "world"])
      assert.strictEqual(textOf(value), "Hello dear world")
      assert.strictEqual(warnings.length, 1)
      assert.include(warnings[0], "the rest of the stream bypasses it")
    })
  )

  it.effect(
    "an onPart that dies after it changed something ends the answer with what was shown, with one warning",
    () =>
      Effect.gen(function* () {
        const { options, shown } = collect()
        const broken = mapDeltas("broken", (delta) => {
          if (delta === "dear ") throw new Error("onPart broke")
          return delta.toUpperCase()
        })
        const { value, warnings } = yield* withWarnings(runModel([broken], {}, base, options))
        assert.deepStrictEqual(shown, ["HELLO "])
        assert.strictEqual(textOf(value), "HELLO ")
        assert.strictEqual(value.finishReason, "content-filter")
        assert.strictEqual(warnings.length, 1)
        assert.include(warnings[0], "the rest of the stream is withheld")
      })
  )

  it.effect("after an onPart that took something out has died, the rest is neither shown nor seen by the wrapper", () =>
    Effect.gen(function* () {
      const redacting = (then: (response: ModelResponse) => Effect.Effect<ModelResponse, ExecutionBlocked>) => {
        const { options, shown } = collect()
        const broken = Middleware.llmExecution({
          name: "redactor",
          wrap: (next) => (request) =>
            next(request, {
              onPart: (parts) =>
                Effect.sync(() =>
                  parts.map((part) => {
                    if (part.type !== "text-delta") return part
                    if (part.delta === "dear ") throw new Error("broken")
                    return makeTextDelta(part.id, part.delta.replace("Hello", "[removed]"))
                  })
                )
            }).pipe(Effect.flatMap(then))
        })
        return Effect.map(Effect.exit(runModel([broken], {}, base, options)), (exit) => ({ exit, shown }))
      }
      const stands = yield* redacting((response) => Effect.succeed({ ...response }))
      assert.deepStrictEqual(stands.shown, ["[removed] "])
      assert.isTrue(Exit.isSuccess(stands.exit) && textOf(stands.exit.value) === "[removed] ")
      const changed = yield* redacting(() => Effect.succeed(Fake.textAnswer("[all removed]")))
      assert.deepStrictEqual(changed.shown, ["[removed] "])
      assert.isTrue(Exit.isSuccess(changed.exit) && textOf(changed.exit.value) === "[all removed]")
      const vetoed = yield* redacting(() => Effect.fail(new ExecutionBlocked({ reason: "no", metadata: {} })))
      assert.deepStrictEqual(vetoed.shown, ["[removed] "])
      assert.isTrue(Exit.isFailure(vetoed.exit))
    })
  )

  for (const kind of ["llmExecution", "wrapModelCall"] as const) {
    it.effect(`next of ${kind} inside its own onPart is refused at once, and the stream goes on`, () =>
      Effect.gen(function* () {
        const { options, shown } = collect()
        const inside =
          (next: () => Effect.Effect<unknown, unknown>): OnPart =>
          (parts) =>
            Effect.as(next(), parts) as Effect.Effect<typeof parts>
        const entry =
          kind === "llmExecution"
            ? Middleware.llmExecution({
                name: "again",
                wrap: (next) => (request) => next(request, { onPart: inside(next) })
              })
            : Middleware.wrapModelCall({
                name: "again",
                wrap: (next) => (params) => next(params, { onPart: inside(next) })
              })
        const stack = Stack.make([entry])
        const streamed = (_: unknown, given: ExecuteOptions | undefined) => base({} as never, given)
        const run =
          entry.kind === "llm_execution"
            ? runModel([entry], {}, base, options)
            : (Chain.run(
                stack.wrapModelCall,
                {
                  contract: anyCalls.contract,
                  join: Chain.joinOnPart<never, ModelResponse>({
                    get: (response) => response,
                    set: (_, response) => response
                  }) as never
                } as never,
                stack.faults,
                {} as never,
                streamed as never
              )({} as never, options) as unknown as Effect.Effect<ModelResponse, unknown>)
        // The clock stands still: a call that is waited for would never end.
        const { value, warnings } = yield* withWarnings(run)
        assert.deepStrictEqual(shown, ["Hello ", "dear ", "world"])
        assert.strictEqual(textOf(value), "Hello dear world")
        assert.strictEqual(warnings.length, 1)
        assert.include(
          warnings[0],
          kind === "llmExecution" ? "called next() more than once" : "while its last call of it was still running"
        )
      })
    )
  }

  describe("an onPart that holds the stream", () => {
    /** Holds until `decide` says what goes on in the place of all parts so far. */
    const guard = (
      decide: (text: string, parts: ReadonlyArray<StreamPart>) => ReadonlyArray<StreamPart>,
      then: (response: ModelResponse) => Effect.Effect<ModelResponse, ExecutionBlocked> = Effect.succeed,
      onFailure?: "closed"
    ) =>
      Middleware.llmExecution({
        name: "guard",
        onFailure,
        wrap: (next) => (request) =>
          Effect.flatMap(
            next(request, {
              onPart: (parts) =>
                Effect.sync(() =>
                  decide(parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join(""), parts)
                )
            }),
            then
          )
      })
    const play = Effect.fnUntraced(function* (entries: ReadonlyArray<Middleware.Any>, model: Fake.Turn = base) {
      const { options, shown } = collect()
      const { value: exit, warnings } = yield* withWarnings(Effect.exit(runModel(entries, {}, model, options)))
      return { shown, text: Exit.isSuccess(exit) ? textOf(exit.value) : undefined, exit, warnings }
    })
    const always = () => Middleware.hold

    it.effect("sees all that it holds with each new part, and lets it go in order", () =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const { shown, text } = yield* play([
          guard((text, parts) => {
            seen.push(text)
            return text.includes("dear") ? parts : Middleware.hold
          })
        ])
        assert.deepStrictEqual(seen, ["", "Hello ", "Hello dear ", "world"])
        assert.deepStrictEqual(shown, ["Hello ", "dear ", "world"])
        assert.strictEqual(text, "Hello dear world")
      })
    )

    it.effect("may put something in the place of all that it held", () =>
      Effect.gen(function* () {
        const { shown, text } = yield* play([
          guard((text) =>
            text.includes("dear")
              ? [makeTextDelta("1", "Bye ")]
              : text === "world"
                ? [makeTextDelta("1", text)]
                : Middleware.hold
          )
        ])
        assert.deepStrictEqual(shown, ["Bye ", "world"])
        assert.strictEqual(text, "Bye world")
      })
    )

    it.effect(
      "until the wrapper has decided on the whole answer: it goes on where the answer stands, through the wrappers above",
      () =>
        Effect.gen(function* () {
          const shout = mapDeltas("shout", (delta) => delta.toUpperCase())
          let before: number | undefined
          const { options, shown } = collect()
          const answer = yield* runModel(
            [
              shout,
              guard(always, (response) =>
                Effect.sync(() => {
                  before = shown.length
                  assert.strictEqual(textOf(response), "Hello dear world")
                  return response
                })
              )
            ],
            {},
            base,
            options
          )
          assert.strictEqual(before, 0)
          assert.deepStrictEqual(shown, ["HELLO ", "DEAR ", "WORLD"])
          assert.strictEqual(textOf(answer), "HELLO DEAR WORLD")
        })
    )

    it.effect("and gives another answer, or vetoes it: nothing of what it held is shown", () =>
      Effect.gen(function* () {
        const other = yield* play([guard(always, () => Effect.succeed(Fake.textAnswer("no")))])
        assert.deepStrictEqual([other.shown, other.text], [[], "no"])
        const vetoed = yield* play([
          guard(always, () => Effect.fail(new ExecutionBlocked({ reason: "no", metadata: {} })))
        ])
        assert.deepStrictEqual([vetoed.shown, vetoed.text], [[], undefined])
      })
    )

    it.effect("and dies: open lets go of what it held, closed drops it and the call fails", () =>
      Effect.gen(function* () {
        const dies = (text: string) => {
          if (text.includes("dear")) throw new Error("broken")
          return Middleware.hold
        }
        const open = yield* play([guard(dies)])
        assert.deepStrictEqual(
          [open.shown, open.text, open.warnings.length],
          [["Hello ", "dear ", "world"], "Hello dear world", 1]
        )
        const late = yield* play([guard(always, () => Effect.die("broken"))])
        assert.deepStrictEqual([late.shown, late.text], [["Hello ", "dear ", "world"], "Hello dear world"])
        for (const closed of [guard(dies, undefined, "closed"), guard(always, () => Effect.die("broken"), "closed")]) {
          const { exit, shown } = yield* play([closed])
          assert.deepStrictEqual(shown, [])
          assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof MiddlewareFailure)
        }
      })
    )

    it.effect("for too many parts or characters, or for longer than its deadline, has failed", () =>
      Effect.gen(function* () {
        const long = yield* play([guard(always)], Fake.pieces("a".repeat(Chain.heldAtMost.characters), "b", "c"))
        assert.deepStrictEqual(
          long.shown.map((text) => text.length),
          [Chain.heldAtMost.characters, 1, 1]
        )
        assert.match(long.warnings[0] ?? "", /onPart held the stream for more than 1000000 characters/)
        const many = yield* play([guard(always)], (_, options) =>
          Effect.as(
            options?.onPart?.(Array.from({ length: Chain.heldAtMost.parts + 1 }, () => makeTextDelta("1", "a"))) ??
              Effect.void,
            Fake.textAnswer("a")
          )
        )
        assert.match(many.warnings[0] ?? "", /for more than 50000 parts/)
        const slow: Fake.Turn = (request, options) =>
          Effect.andThen(
            Fake.pieces("a")(request, options),
            Effect.andThen(Effect.sleep("6 minutes"), Fake.pieces("b")(request, options))
          )
        const playing = yield* Effect.forkChild(play([guard(always)], slow))
        yield* TestClock.adjust("6 minutes")
        const { shown, warnings } = yield* Fiber.join(playing)
        assert.deepStrictEqual(shown, ["a", "b"])
        assert.match(warnings[0] ?? "", /for more than 300 s/)
        const closed = yield* play(
          [guard(always, undefined, "closed")],
          Fake.pieces("a".repeat(Chain.heldAtMost.characters), "b")
        )
        assert.deepStrictEqual([closed.shown, closed.text], [[], undefined])
      })
    )
  })

  it.effect("an attempt that is made again begins anew for an onPart of the whole call", () =>
    Effect.gen(function* () {
      let asked = 0
      const lost = Fake.failure(
        new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "", description: "lost" })
      )
      const fake = Fake.make((request, options) =>
        asked++ === 0 ? Effect.andThen(Fake.pieces("Hel")(request, options), Effect.fail(lost)) : base(request, options)
      )
      const entry = Middleware.wrapModelCall({
        name: "shout",
        wrap: (next) => (params) =>
          next(params, {
            onPart: (parts) =>
              Effect.succeed(
                parts.map((part) =>
                  part.type === "text-delta" ? makeTextDelta(part.id, part.delta.toUpperCase()) : part
                )
              )
          })
      })
      const answer = yield* Effect.gen(function* () {
        const router = yield* ModelRouter.ModelRouter
        const fiber = yield* Effect.forkChild(
          ModelRouter.callModel<MiddlewareFailure>(
            router,
            { stack: Stack.make([entry]), hooks: Effect.runSync(Hooks.make()) },
            {
              call: { messages: [], tools: [], toolChoice: "auto", responseFormat: { type: "text" }, stream: true },
              context: { ...ids, platform: "test", apiCallCount: 1 },
              userMessage: "hi",
              options: undefined
            }
          )
        )
        yield* TestClock.adjust("1 minute")
        return yield* Fiber.join(fiber)
      }).pipe(Effect.provide(fake.router))
      assert.strictEqual(textOf(answer.response), "HELLO DEAR WORLD")
    })
  )

  it.effect("a closed one that dies ends the stream and fails the call", () =>
    Effect.gen(function* () {
      const { options, shown } = collect()
      const policy = mapDeltas(
        "policy",
        (delta) => {
          if (delta === "dear ") throw new Error("forbidden")
          return delta
        },
        "closed"
      )
      const outer = Middleware.llmExecution({ name: "outer", wrap: (next) => (request) => next(request) })
      const error = yield* Effect.flip(runModel([outer, policy], {}, base, options))
      assert.isTrue(error instanceof MiddlewareFailure && error.middleware === "policy")
      assert.deepStrictEqual(shown, ["Hello "])
    })
  )

  it.effect("without anybody who watches, onPart still sees what streams", () =>
    Effect.gen(function* () {
      const response = yield* runModel([mapDeltas("shout", (delta) => delta.toUpperCase())], {}, base)
      assert.strictEqual(textOf(response), "HELLO DEAR WORLD")
    })
  )

  describe("an answer that comes whole", () => {
    const whole = Fake.text("Hello dear world")
    const redact = (onFailure?: "closed") =>
      mapDeltas("redact", (delta) => delta.replaceAll("dear", "[gone]"), onFailure)

    it.effect("goes through onPart before the wrapper and the caller see it", () =>
      Effect.gen(function* () {
        for (const onFailure of [undefined, "closed"] as const) {
          const response = yield* runModel([redact(onFailure)], {}, whole)
          assert.strictEqual(textOf(response), "Hello [gone] world")
          assert.strictEqual(response.finishReason, "stop")
        }
      })
    )

    it.effect("is refused where a closed onPart fails, and bypasses an open one with a warning", () =>
      Effect.gen(function* () {
        const broken = (onFailure?: "closed") =>
          mapDeltas(
            "broken",
            () => {
              throw new Error("boom")
            },
            onFailure
          )
        const refused = yield* Effect.exit(runModel([broken("closed")], {}, whole))
        const error = Exit.isFailure(refused) ? Cause.squash(refused.cause) : undefined
        assert.instanceOf(error, MiddlewareFailure)
        const { value, warnings } = yield* withWarnings(runModel([broken()], {}, whole))
        assert.strictEqual(textOf(value), "Hello dear world")
        assert.lengthOf(warnings, 1)
      })
    )

    it.effect("passes all wrappers from the inside out, once each", () =>
      Effect.gen(function* () {
        const { options, shown } = collect()
        const response = yield* runModel(
          [mapDeltas("shout", (delta) => delta.toUpperCase()), redact()],
          {},
          whole,
          options
        )
        assert.strictEqual(textOf(response), "HELLO [GONE] WORLD")
        assert.deepStrictEqual(shown, ["HELLO [GONE] WORLD"])
      })
    )

    it.effect("that a wrapper below gives is seen by the guards above it", () =>
      Effect.gen(function* () {
        const cached = Middleware.llmExecution({
          name: "cache",
          wrap: () => () => Effect.succeed(Fake.textAnswer("dear cache"))
        })
        assert.strictEqual(textOf(yield* runModel([redact(), cached], {}, whole)), "[gone] cache")
      })
    )

    it.effect("keeps its calls, its reasoning and what the provider sent with them", () =>
      Effect.gen(function* () {
        const answer = Fake.answer(
          [
            Response.makePart("reasoning", { text: "a dear thought", metadata: { anthropic: { signature: "s" } } }),
            Response.makePart("text", { text: "dear" }),
            Fake.call("c1", "read_file", { path: "dear.txt" })
          ],
          "tool-calls"
        )
        const response = yield* runModel([redact()], {}, () => Effect.succeed(answer))
        assert.deepStrictEqual(
          response.parts.map(({ type }) => type),
          ["reasoning", "text", "tool-call"]
        )
        assert.strictEqual(textOf(response), "[gone]")
        assert.deepStrictEqual(response.parts[0]?.metadata, { anthropic: { signature: "s" } })
        assert.deepStrictEqual(response.usage, answer.usage)
        assert.strictEqual(response.finishReason, "tool-calls")
      })
    )
  })
})
