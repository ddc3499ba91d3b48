// Values in requests that are neither plain objects nor arrays: each receiver has a copy, or the request is refused.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ToolArguments } from "../../src/middleware/Kind.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Frozen from "../../src/middleware/Frozen.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import { output, rewriteArgs, runTools, withWarnings } from "../support/middlewareContexts.ts"

class Counter {
  count = 1
}

const makeValues = () => ({
  url: new URL("https://a.example/x"),
  query: new URLSearchParams({ a: "1" }),
  headers: new Headers({ a: "1" }),
  pattern: /a/g
})

type Values = ReturnType<typeof makeValues>

const change = ({ headers, pattern, query, url }: Values): void => {
  url.pathname = "/changed"
  query.set("a", "changed")
  headers.set("a", "changed")
  pattern.lastIndex = 7
}

const read = ({ headers, pattern, query, url }: Values) => [
  url.href,
  query.get("a"),
  headers.get("a"),
  pattern.source,
  pattern.flags,
  pattern.lastIndex
]

// The arguments of these tests have such members.
const asValues = (args: ToolArguments): Values => args as unknown as Values

const unchanged = read(makeValues())

describe("URLs, headers and regular expressions in a request", () => {
  it.effect("are copied for each receiver, and their author's copy has no effect later", () =>
    Effect.gen(function* () {
      const own = makeValues()
      const reached: Array<unknown> = []
      yield* runTools(
        [
          Middleware.toolExecution({
            name: "author",
            wrap: (next) => () => {
              const called = next({ ...own })
              return Effect.tap(called, () => Effect.sync(() => change(own)))
            }
          }),
          Middleware.toolExecution({
            name: "reader",
            wrap: (next) => (args) =>
              Effect.suspend(() => {
                change(own)
                change(asValues(args))
                return next(args)
              })
          })
        ],
        {},
        (args) => Effect.sync(() => (reached.push(read(asValues(args))), output("ok")))
      )
      assert.deepStrictEqual(reached, [unchanged])
    })
  )

  it("keep what they are in a copy and in a view", () => {
    for (const made of [Frozen.copy(makeValues()), Frozen.makeView(makeValues()), Frozen.accept(makeValues())])
      assert.deepStrictEqual(read(made), unchanged)
  })
})

describe("an instance of a class in a request", () => {
  const reached: Array<unknown> = []
  const base = (args: ToolArguments) => Effect.sync(() => (reached.push(args["counter"]), output("ok")))
  const counter = new Counter()
  const kinds: Readonly<Record<string, (options: Middleware.Registration) => Middleware.Any>> = {
    "typed, after other work": (options) =>
      Middleware.toolExecution({ ...options, wrap: (next) => () => Effect.andThen(Effect.void, next({ counter })) }),
    "typed, as its only act": (options) =>
      Middleware.toolExecution({ ...options, wrap: (next) => () => next({ counter }) }),
    plain: (options) =>
      Plain.toolExecution(options, (call) => (call["next_call"] as (args: unknown) => Promise<unknown>)({ counter }))
  }
  for (const [what, make] of Object.entries(kinds)) {
    it.effect(`${what}: is the wrapper's named fault, and the call continues as it was`, () =>
      Effect.gen(function* () {
        const { value, warnings } = yield* withWarnings(runTools([make({ name: "w" })], { counter: 5 }, base))
        assert.deepStrictEqual([value.output, reached.splice(0)], ["ok", [5]])
        assert.match(
          warnings.join("\n"),
          /"w" failed \(it passed an instance of Counter in a request.*pass a plain object/
        )
        const closed = yield* Effect.exit(runTools([make({ name: "w", onFailure: "closed" })], { counter: 5 }, base))
        assert.match(Exit.isFailure(closed) ? Cause.pretty(closed.cause) : "", /InstanceRefused/)
        assert.deepStrictEqual(reached.splice(0), [])
      })
    )
  }

  it.effect("is refused in a rewrite, typed and plain", () =>
    Effect.gen(function* () {
      const entries = [
        Middleware.toolRequest({
          name: "typed",
          rewrite: () => Effect.succeed(Middleware.replacePayload({ counter }))
        }),
        Plain.toolRequest({ name: "plain" }, () => ({ args: { list: [{ counter }] } }))
      ]
      const { value, warnings } = yield* withWarnings(rewriteArgs(entries, { counter: 5 }))
      assert.deepStrictEqual(value.payload, { counter: 5 })
      assert.lengthOf(
        warnings.filter((line) => line.includes("an instance of Counter")),
        2
      )
    })
  )

  it.effect("may be passed back by code that received it", () =>
    Effect.gen(function* () {
      const { value, warnings } = yield* withWarnings(
        runTools(
          [Middleware.toolExecution({ name: "w", wrap: (next) => (args) => next({ ...args, more: 1 }) })],
          { counter },
          base
        )
      )
      assert.deepStrictEqual([value.output, reached.splice(0), warnings], ["ok", [counter], []])
    })
  )
})
