// Middleware that passes everything on is not there: the record, the events, the requests and the session are the same
// bytes.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { randomInt } from "node:crypto"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { names } from "../../src/hooks/Payloads.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as S from "../models/routing/support.ts"
import { isLong } from "../support/effort.ts"
import * as Fake from "../support/fakeModel.ts"
import { running } from "../support/movingClock.ts"
import { random } from "./scenario.ts"

type NextCall = (payload?: unknown) => Promise<unknown>

/** Every way to pass a call on. */
const passes: ReadonlyArray<readonly [name: string, entry: Middleware.Any]> = [
  ["llm_request unchanged", Middleware.llmRequest({ name: "p", rewrite: () => Effect.succeed(Middleware.unchanged) })],
  [
    "llm_request that reads",
    Middleware.llmRequest({
      name: "p",
      rewrite: (request, context) =>
        Effect.sync(() => {
          JSON.stringify([request, context.originalRequest])
          return Middleware.unchanged
        })
    })
  ],
  ["llm_request plain", Plain.llmRequest({ name: "p" }, () => undefined)],
  [
    "tool_request unchanged",
    Middleware.toolRequest({ name: "p", rewrite: () => Effect.succeed(Middleware.unchanged) })
  ],
  ["tool_request plain async", Plain.toolRequest({ name: "p" }, async () => undefined)],
  ["llm_execution", Middleware.llmExecution({ name: "p", wrap: (next) => (request) => next(request) })],
  ["llm_execution without a request", Middleware.llmExecution({ name: "p", wrap: (next) => () => next() })],
  [
    "llm_execution with onPart",
    Middleware.llmExecution({
      name: "p",
      wrap: (next) => (request) =>
        next(request, { onPart: (parts) => Effect.sync(() => (JSON.stringify(parts), parts)) })
    })
  ],
  [
    "llm_execution that copies the request",
    Middleware.llmExecution({ name: "p", wrap: (next) => (request) => next({ ...request }) })
  ],
  [
    "llm_execution that copies the response",
    Middleware.llmExecution({
      name: "p",
      wrap: (next) => (request) =>
        Effect.map(next(request), (response) => ({ ...response, parts: [...response.parts] }))
    })
  ],
  ["llm_execution plain", Plain.llmExecution({ name: "p" }, (call) => (call["next_call"] as NextCall)())],
  [
    "llm_execution plain async",
    Plain.llmExecution({ name: "p" }, async (call) => await (call["next_call"] as NextCall)(call["request"]))
  ],
  ["tool_execution", Middleware.toolExecution({ name: "p", wrap: (next) => (args) => next(args) })],
  [
    "tool_execution that copies",
    Middleware.toolExecution({
      name: "p",
      wrap: (next) => (args) => Effect.map(next({ ...args }), (output) => ({ ...output }))
    })
  ],
  ["tool_execution plain", Plain.toolExecution({ name: "p" }, (call) => (call["next_call"] as NextCall)(call["args"]))],
  [
    "tool_execution plain async",
    Plain.toolExecution({ name: "p" }, async (call) => await (call["next_call"] as NextCall)())
  ],
  ["wrap_model_call", Middleware.wrapModelCall({ name: "p", wrap: (next) => (params) => next(params) })],
  [
    "wrap_model_call that copies",
    Middleware.wrapModelCall({
      name: "p",
      wrap: (next) => (params) => Effect.map(next({ ...params, call: { ...params.call } }), (answer) => ({ ...answer }))
    })
  ],
  ["wrap_tool_call", Middleware.wrapToolCall({ name: "p", wrap: (next) => (args) => next(args) })],
  [
    "llm_execution that fails on",
    Middleware.llmExecution<AiError.AiError, AiError.AiError>({
      name: "p",
      wrap: (next) => (request) =>
        Effect.catchIf(
          next(request),
          (error): error is Extract<typeof error, AiError.AiError> => AiError.isAiError(error),
          (error) => Effect.fail(error)
        )
    })
  ]
]

const Echo = Tool.make("echo", {
  parameters: Schema.Struct({ text: Schema.String, list: Schema.Array(Schema.Finite) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Breaks = Tool.make("breaks", { success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo, Breaks)
const tools = Toolset.make(
  "test",
  toolkit,
  toolkit.toLayer({
    echo: ({ list, text }) => Effect.succeed(`${text} ${list.join()}`),
    breaks: () => Effect.die(new Error("it broke"))
  })
)

const id = SessionId.make("recorded")

/**
 * One run with a failed attempt, calls that succeed and fail, and a streamed answer; everything that can be seen of it.
 */
const recorded = Effect.fnUntraced(function* (middleware: ReadonlyArray<Middleware.Any>) {
  const fake = Fake.make(
    () => Effect.fail(S.http(503, "down")),
    Fake.calls(
      Fake.call("c1", "echo", { text: "hello", list: [1, 2, 3] }),
      Fake.call("c2", "breaks", {}),
      Fake.call("c3", "unknown", { x: 1 })
    ),
    Fake.pieces("All ", "is ", "done")
  )
  const events: Array<RunEvent> = []
  const hooked: Array<readonly [string, string]> = []
  const runtime = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    tools: [tools],
    middleware,
    hooks: names.map((name) =>
      Hooks.on(name, (event: object) => Effect.sync(() => void hooked.push([name, JSON.stringify(event)])))
    )
    // The lists differ from run to run: their types say nothing here.
  } as never) as Layer.Layer<Agent.Agent | RunRecord | SessionStore.SessionStore>
  return yield* Effect.gen(function* () {
    const agent = yield* Agent.Agent
    const result = yield* agent.run({
      prompt: "go",
      sessionId: id,
      streaming: true,
      onEvent: (told) => Effect.sync(() => void events.push(...told))
    })
    const messages = yield* (yield* SessionStore.SessionStore).messages(id)
    // The counts of the middleware itself are the only part of a record that tells of it.
    const record = (yield* Stream.runCollect((yield* RunRecord).read())).map((entry) =>
      entry.event._tag === "RunEnded" ? { ...entry, event: { ...entry.event, middleware: undefined } } : entry
    )
    return [result, messages, events, fake.executed, hooked, record].map((part) => JSON.stringify(part, undefined, 1))
  }).pipe(Effect.provide(runtime), Random.withSeed("the same ids"), running)
})

/** Times depend on how often the test's clock had to move; every other byte counts. */
const timeless = (parts: ReadonlyArray<string>): ReadonlyArray<string> =>
  parts.map((part) =>
    part.replaceAll(
      /("?\\?"(?:at|createdAt|startedAt|firstPartAt|durationMillis|duration_ms|started_at|ended_at|api_duration|time_to_first_token|waitedMillis)\\?":\s?)[\d.]+/g,
      "$10"
    )
  )

const stacks = (): ReadonlyArray<readonly [string, ReadonlyArray<Middleware.Any>]> => {
  const fresh = Number(process.env["HERMES_FUZZ_SEED"] ?? randomInt(1_000_000, 2 ** 31))
  return [1, 2, 3, ...(isLong ? [fresh, fresh + 1, fresh + 2] : [])].map((seed) => {
    const next = random(seed)
    const chosen = Array.from(
      { length: 1 + Math.floor(next() * 8) },
      () => passes[Math.floor(next() * passes.length)] ?? passes[0]
    )
    return [
      `HERMES_FUZZ_SEED=${seed}: ${chosen.map((one) => one?.[0]).join(", ")}`,
      chosen.flatMap((one) => (one === undefined ? [] : [one[1]]))
    ]
  })
}

describe("pass-through middleware", () => {
  for (const [name, entry] of passes) {
    it.effect(`${name} changes no byte of a recorded run`, () =>
      Effect.gen(function* () {
        const without = yield* recorded([])
        assert.include(without[0], "All is done")
        assert.include(without[5], "AttemptEnded")
        assert.deepStrictEqual(timeless(yield* recorded([entry])), timeless(without))
      })
    )
  }

  it.effect("any stack of them changes no byte", () =>
    Effect.gen(function* () {
      const without = timeless(yield* recorded([]))
      for (const [name, stack] of stacks()) assert.deepStrictEqual(timeless(yield* recorded(stack)), without, name)
      const all = passes.map(([, entry]) => entry)
      assert.deepStrictEqual(timeless(yield* recorded(all)), without)
    })
  )

  it.effect("a stack that tries to change everything changes no byte", () =>
    Effect.gen(function* () {
      const spoil = (value: unknown, depth = 0): void => {
        if (typeof value !== "object" || value === null || depth > 6) return
        for (const key of Object.keys(value)) {
          try {
            spoil(Reflect.get(value, key), depth + 1)
            if (Array.isArray(value)) value.push("spoilt")
            Reflect.set(value, key, "spoilt")
          } catch {
            // It says no.
          }
        }
      }
      const spoiling = <A>(...values: ReadonlyArray<A>) => Effect.sync(() => values.forEach((value) => spoil(value)))
      const spoils: ReadonlyArray<Middleware.Any> = [
        Middleware.llmRequest({
          name: "s",
          rewrite: (request, context) => Effect.as(spoiling<unknown>(request, context), Middleware.unchanged)
        }),
        Middleware.toolRequest({
          name: "s",
          rewrite: (args, context) => Effect.as(spoiling<unknown>(args, context), Middleware.unchanged)
        }),
        Middleware.llmExecution({
          name: "s",
          wrap: (next, context) => (request) =>
            spoiling<unknown>(request, context).pipe(
              Effect.andThen(next(request, { onPart: (parts) => Effect.as(spoiling(parts), parts) })),
              Effect.tap((response) => spoiling(response))
            )
        }),
        Middleware.toolExecution({
          name: "s",
          wrap: (next, context) => (args) =>
            spoiling<unknown>(args, context).pipe(
              Effect.andThen(next(args)),
              Effect.tap((output) => spoiling(output))
            )
        }),
        Middleware.wrapModelCall({
          name: "s",
          wrap: (next) => (params) =>
            spoiling(params).pipe(
              Effect.andThen(next(params)),
              Effect.tap((answer) => spoiling(answer))
            )
        }),
        Middleware.wrapToolCall({
          name: "s",
          wrap: (next, context) => (args) =>
            spoiling<unknown>(args, context).pipe(
              Effect.andThen(next(args)),
              Effect.tap((output) => spoiling(output))
            )
        }),
        Plain.llmExecution({ name: "s" }, async (call) => {
          spoil(call)
          const body = await (call["next_call"] as NextCall)(call["request"])
          spoil(body)
          return body
        }),
        Plain.toolExecution({ name: "s" }, (call) => {
          spoil(call)
          return (call["next_call"] as NextCall)(call["args"])
        })
      ]
      const without = timeless(yield* recorded([]))
      for (const [index, entry] of spoils.entries()) {
        assert.deepStrictEqual(timeless(yield* recorded([entry])), without, `${index} ${entry.kind}`)
      }
      assert.deepStrictEqual(timeless(yield* recorded([...spoils, ...spoils])), without)
    })
  )
})
