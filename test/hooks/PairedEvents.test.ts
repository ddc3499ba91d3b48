import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as PairedEvents from "../../src/hooks/PairedEvents.ts"
import { apiAnswer, apiError, apiRequest, toolCall, toolDone, withWarnings } from "./support/events.ts"
import { effectProp } from "../support/property.ts"

const opening = ["pre_api_request", () => apiRequest] as const

const closeApi = (exit: Exit.Exit<string, string>): PairedEvents.Event<"post_api_request" | "api_request_error"> => {
  if (Exit.isSuccess(exit)) return ["post_api_request", () => apiAnswer]
  const reason = Exit.hasInterrupts(exit) ? "interrupted" : Exit.hasDies(exit) ? "defect" : "failure"
  return ["api_request_error", () => ({ ...apiError, reason })]
}

const bracket = (hooks: Hooks.Service, effect: Effect.Effect<string, string>) =>
  PairedEvents.bracket(effect, hooks, { open: opening, close: closeApi })

// How the work between the two ends goes, and when the run is interrupted.
const Work = Schema.Literals(["succeed", "fail", "die", "throw", "interrupt itself", "hang"])
const expected = {
  succeed: "post_api_request",
  fail: "api_request_error failure",
  die: "api_request_error defect",
  throw: "api_request_error defect",
  "interrupt itself": "api_request_error interrupted",
  hang: "api_request_error interrupted"
} as const

const work = (kind: typeof Work.Type): Effect.Effect<string, string> => {
  switch (kind) {
    case "succeed":
      return Effect.succeed("ok")
    case "fail":
      return Effect.fail("no")
    case "die":
      return Effect.die("bug")
    case "throw":
      return Effect.sync(() => {
        throw new Error("bug")
      })
    case "interrupt itself":
      return Effect.interrupt
    case "hang":
      return Effect.never
  }
}

const recorder = (log: Array<string>) =>
  Hooks.observer(
    { label: "recorder" },
    {
      pre_api_request: () => Effect.sync(() => void log.push("pre_api_request")),
      post_api_request: () => Effect.sync(() => void log.push("post_api_request")),
      api_request_error: (event) => Effect.sync(() => void log.push(`api_request_error ${event.reason}`)),
      pre_tool_call: (event) => Effect.sync(() => void log.push(`pre ${event.tool_call_id}`)),
      post_tool_call: (event) => Effect.sync(() => void log.push(`post ${event.tool_call_id} ${event.status}`))
    }
  )

const Listener = Schema.Literals(["none", "fine", "fails", "slow"])

/** Listeners around the recorder that are no help. */
const listener = (kind: typeof Listener.Type) => {
  const act = kind === "fails" ? Effect.fail("down") : kind === "slow" ? Effect.sleep("2 seconds") : Effect.void
  return Hooks.observer(
    { label: kind },
    { pre_api_request: () => act, post_api_request: () => act, api_request_error: () => act }
  )
}

describe("bracket", () => {
  effectProp(
    "an opening event has exactly one closing event, whatever happens between them and whoever listens",
    {
      kind: Work,
      pauses: Schema.Literals([0, 1, 3]),
      interruptAfter: Schema.Literals([-1, 0, 1, 2, 3, 5]),
      before: Listener,
      after: Listener
    },
    ({ after, before, interruptAfter, kind, pauses }) =>
      withWarnings(() =>
        Effect.gen(function* () {
          const log: Array<string> = []
          const hooks = yield* Hooks.make()
          if (before !== "none") yield* hooks.register(listener(before))
          yield* hooks.register(recorder(log))
          if (after !== "none") yield* hooks.register(listener(after))
          const fiber = yield* Effect.forkChild(
            bracket(hooks, Effect.andThen(Effect.sleep(`${pauses} seconds`), work(kind)))
          )
          // Listeners and work pause for whole seconds: by then each step of the script is over.
          for (let second = 0; second <= 20; second++) {
            if (second === interruptAfter || second === 15) yield* Effect.forkChild(Fiber.interrupt(fiber))
            yield* TestClock.adjust(second === interruptAfter ? "500 millis" : "1 second")
          }
          const exit = yield* Fiber.await(fiber)
          const opened = log.filter((line) => line === "pre_api_request").length
          const closed = log.filter((line) => line !== "pre_api_request")
          assert.isAtMost(opened, 1)
          if (log.length > 0) assert.strictEqual(closed.length, 1)
          if (opened === 1) assert.strictEqual(log[0], "pre_api_request")
          if (interruptAfter === -1) {
            assert.deepStrictEqual(log, ["pre_api_request", expected[kind]])
            assert.strictEqual(Exit.isSuccess(exit), kind === "succeed")
          }
        })
      ),
    { arbitrary: { runs: 150 } }
  )

  it.effect("without a listener for either end it is the Effect itself", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      const result = yield* PairedEvents.bracket(Effect.succeed(1), hooks, {
        open: [
          "pre_api_request",
          () => {
            throw new Error("made")
          }
        ],
        close: () => {
          throw new Error("made")
        }
      })
      assert.strictEqual(result, 1)
    })
  )

  it.effect("whoever listens only to the end is told of every end", () =>
    Effect.gen(function* () {
      let ends = 0
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.on("api_request_error", () => Effect.sync(() => void ends++)))
      yield* Effect.exit(bracket(hooks, work("fail")))
      yield* bracket(hooks, work("succeed"))
      assert.strictEqual(ends, 1)
    })
  )

  it.effect("what goes wrong in making the closing event does not change the result", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(recorder([]))
        const result = yield* PairedEvents.bracket(Effect.succeed(1), hooks, {
          open: opening,
          close: () => {
            throw new Error("bug")
          }
        })
        assert.strictEqual(result, 1)
        assert.deepStrictEqual(warnings, ["hook pre_api_request could not be closed: Error: bug"])
      })
    )
  )
})

describe("open", () => {
  const tool = (hooks: Hooks.Service, id: string) =>
    PairedEvents.open(hooks, {
      open: ["pre_tool_call", () => ({ ...toolCall, tool_call_id: id as typeof toolCall.tool_call_id })],
      otherwise: (exit) => [
        "post_tool_call",
        () => ({
          ...toolDone,
          tool_call_id: id as typeof toolCall.tool_call_id,
          status: Exit.hasInterrupts(exit) ? "cancelled" : "error"
        })
      ]
    })

  const finish = (span: PairedEvents.Span<"pre_tool_call">, id: string) =>
    span.close(["post_tool_call", () => ({ ...toolDone, tool_call_id: id as typeof toolCall.tool_call_id })])

  it.effect("the first close counts, and what nobody closed is closed with the scope", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const hooks = yield* Hooks.make()
      yield* hooks.register(recorder(log))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const a = yield* tool(hooks, "a")
          const b = yield* tool(hooks, "b")
          yield* tool(hooks, "c")
          yield* finish(b, "b")
          yield* finish(b, "b")
          yield* finish(a, "a")
        })
      )
      assert.deepStrictEqual(log, ["pre a", "pre b", "pre c", "post b ok", "post a ok", "post c error"])
    })
  )

  it.effect("an interrupt closes what is open, also what was being opened", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const reached = yield* Deferred.make<void>()
      const hooks = yield* Hooks.make()
      yield* hooks.register(recorder(log))
      yield* hooks.register(
        Hooks.on("pre_tool_call", (event) =>
          event.tool_call_id === "b" ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never) : Effect.void
        )
      )
      const fiber = yield* Effect.forkChild(Effect.scoped(Effect.andThen(tool(hooks, "a"), tool(hooks, "b"))))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      assert.sameMembers(log, ["pre a", "pre b", "post b cancelled", "post a cancelled"])
    })
  )

  it.effect("whenever the interrupt comes, there is one closing event for each opening one", () =>
    Effect.gen(function* () {
      const seen = new Set<string>()
      for (let after = 0; after < 80; after++) {
        const log: Array<string> = []
        const hooks = yield* Hooks.make()
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hooks.register(recorder(log))
            const fiber = yield* Effect.forkChild(
              Effect.scoped(Effect.flatMap(tool(hooks, "a"), (span) => finish(span, "a"))).pipe(
                // Every few operations there is a place where the interrupt can come.
                Effect.provideService(Scheduler.MaxOpsBeforeYield, 3)
              )
            )
            for (let i = 0; i < after; i++) yield* Effect.yieldNow
            yield* Fiber.interrupt(fiber)
          })
        )
        assert.isTrue(log.length === 0 || log.length === 2, `after ${after}: ${log.join(", ")}`)
        seen.add(log.join(", "))
      }
      assert.sameMembers([...seen], ["", "pre a, post a cancelled", "pre a, post a ok"])
    })
  )

  it.effect("an interrupt does not keep a closing event from anybody once it is on its way", () =>
    withWarnings(() =>
      Effect.gen(function* () {
        const log: Array<string> = []
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.never))
        yield* hooks.register(recorder(log))
        const fiber = yield* Effect.forkChild(
          Effect.scoped(Effect.flatMap(tool(hooks, "a"), (span) => finish(span, "a")))
        )
        yield* Effect.yieldNow
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(interrupting)
        assert.deepStrictEqual(log, ["pre a", "post a ok"])
      })
    )
  )

  it.effect("the answer comes with the span", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.fromPlain("pre_tool_call", () => ({ action: "block", message: "no" })))
      const span = yield* tool(hooks, "a")
      assert.deepStrictEqual(span.answer, { action: "block", message: "no" })
    })
  )

  it.effect("without a listener nothing is opened, nothing closed", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      const scope = yield* Scope.make()
      const span = yield* tool(hooks, "a").pipe(Effect.provideService(Scope.Scope, scope))
      assert.isUndefined(span.answer)
      yield* finish(span, "a")
      assert.strictEqual(scope.state._tag, "Empty")
    })
  )
})
