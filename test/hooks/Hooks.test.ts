import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type { HookEvents } from "../../src/hooks/Payloads.ts"
import { apiRequest, sessionEnd, toolCall, toolDone, turn, withWarnings } from "./support/events.ts"

const done = () => toolDone
const never = (): never => {
  throw new Error("nobody listens: this must not be made")
}

class Journal extends Context.Service<Journal, { readonly write: (line: string) => Effect.Effect<void> }>()(
  "test/Journal"
) {}

/** The one warning about an observer that missed its deadline. */
const late = (event: string, label: string): string =>
  `hook ${event}: ${label} took longer than 5s; from now on the events of ${label} are queued and the run no longer waits. ` +
  'Register it with delivery "queued" to have that from the start.'

describe("Hooks", () => {
  it.effect("without a listener nothing is made, not even an Effect", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      assert.isFalse(hooks.has("post_tool_call"))
      assert.strictEqual(hooks.emit("post_tool_call", never), hooks.emit("post_tool_call", never))
      assert.strictEqual(hooks.ask("pre_tool_call", never), hooks.ask("pre_tool_call", never))
      yield* hooks.emit("post_tool_call", never)
      assert.isUndefined(yield* hooks.ask("transform_tool_result", never))
      assert.deepStrictEqual(yield* hooks.invoke("on_banana", never), [])
    })
  )

  it.effect("listeners are told in the order of registration, with one payload that is made once", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [string, HookEvents["post_tool_call"]]> = []
      let made = 0
      const hooks = yield* Hooks.make()
      const listener = (name: string, pause: number) =>
        Hooks.on("post_tool_call", (event) =>
          Effect.andThen(
            Effect.sync(() => seen.push([name, event])),
            Effect.sleep(pause)
          )
        )
      yield* hooks.register(listener("first", 100))
      yield* hooks.register(listener("second", 0))
      const fiber = yield* Effect.forkChild(
        hooks.emit("post_tool_call", () => {
          made++
          return toolDone
        })
      )
      yield* TestClock.adjust(100)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        seen.map(([name]) => name),
        ["first", "second"]
      )
      assert.strictEqual(seen[0]?.[1], seen[1]?.[1])
      assert.strictEqual(made, 1)
    })
  )

  it.effect("a listener is there for as long as its scope, and no longer", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* hooks.register(Hooks.on("post_tool_call", () => Effect.void, { label: "audit" }))
          assert.isTrue(hooks.has("post_tool_call"))
          assert.deepStrictEqual(hooks.list(), [
            { label: "audit", events: ["post_tool_call"], mode: "inline", dropped: 0 }
          ])
        })
      )
      assert.isFalse(hooks.has("post_tool_call"))
      assert.deepStrictEqual(hooks.list(), [])
    })
  )

  it.effect("a listener gets what it needs from where it was registered, and the rest from the call", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const hook = Hooks.on("post_tool_call", (event) => Effect.flatMap(Journal, ({ write }) => write(event.tool_name)))
      const layer = Hooks.layer([hook]).pipe(
        Layer.provide(
          Layer.succeed(Journal, { write: (line) => Effect.sync(() => lines.push(line)).pipe(Effect.asVoid) })
        )
      )
      yield* Effect.flatMap(Hooks.Hooks, (hooks) => hooks.emit("post_tool_call", done)).pipe(Effect.provide(layer))
      assert.deepStrictEqual(lines, ["terminal"])
    })
  )

  it.effect("a listener that fails, dies, throws or interrupts itself is one warning, and the next one is told", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        let told = 0
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.fail("no"), { label: "fails" }))
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.die(new TypeError("bug")), { label: "dies" }))
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.interrupt, { label: "stops" }))
        yield* hooks.register(
          Hooks.fromPlain(
            "post_tool_call",
            () => {
              throw new Error("token=abcdefgh12345678abcdefgh")
            },
            { label: "throws" }
          )
        )
        yield* hooks.register(
          Hooks.fromPlain("post_tool_call", () => Promise.reject(new Error("late")), { label: "rejects" })
        )
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.sync(() => void told++)))
        yield* hooks.emit("post_tool_call", done)
        yield* hooks.emit("post_tool_call", done)
        assert.strictEqual(told, 2)
        assert.deepStrictEqual(warnings, [
          "hook post_tool_call: fails failed: no",
          "hook post_tool_call: dies failed: TypeError: bug",
          "hook post_tool_call: stops failed: it interrupted itself",
          "hook post_tool_call: throws failed: Error: token=***",
          "hook post_tool_call: rejects failed: Error: late"
        ])
      })
    )
  )

  it.effect(
    "observers that take too long are left behind together after 5 seconds, even one that can not be interrupted",
    () =>
      withWarnings((warnings) =>
        Effect.gen(function* () {
          let told = 0
          const hooks = yield* Hooks.make()
          yield* hooks.register(Hooks.on("post_tool_call", () => Effect.never, { label: "hangs" }))
          yield* hooks.register(
            Hooks.on("post_tool_call", () => Effect.uninterruptible(Effect.sleep("1 hour")), { label: "clings" })
          )
          yield* hooks.register(Hooks.fromPlain("post_tool_call", () => new Promise(() => {}), { label: "forgets" }))
          yield* hooks.register(Hooks.on("post_tool_call", () => Effect.sync(() => void told++)))
          const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", done))
          yield* TestClock.adjust("4999 millis")
          assert.isUndefined(fiber.pollUnsafe())
          assert.strictEqual(told, 1)
          yield* TestClock.adjust("1 millis")
          yield* Fiber.join(fiber)
          assert.deepStrictEqual(
            warnings,
            ["hangs", "clings", "forgets"].map((name) => late("post_tool_call", name))
          )
        })
      )
  )

  it.effect(
    "any number of hung observers cost a run one deadline, at the first of their events, and nothing at its end",
    () =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        for (let index = 0; index < 20; index++) {
          yield* hooks
            .register(
              Hooks.observer(
                { label: `hung ${index}` },
                { post_tool_call: () => Effect.never, on_session_end: () => Effect.never }
              )
            )
            .pipe(Effect.provideService(Scope.Scope, scope))
        }
        const fiber = yield* Effect.forkChild(
          Effect.gen(function* () {
            for (let event = 0; event < 10; event++) yield* hooks.emit("post_tool_call", () => toolDone)
            yield* hooks.emit("on_session_end", () => sessionEnd)
            yield* Scope.close(scope, Exit.void)
          })
        )
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(fiber)
      })
  )

  it.effect("an observer beside one that hangs is done with before; hooks of one plugin wait for each other", () =>
    withWarnings(() =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const hooks = yield* Hooks.make()
        const note = (name: string, pause: number) =>
          Hooks.on("post_tool_call", () =>
            Effect.andThen(
              Effect.sleep(pause),
              Effect.sync(() => void seen.push(name))
            )
          )
        const owner = { key: {}, label: "plugin" }
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.never, { label: "hangs" }))
        yield* hooks.register({ ...note("plugin 1", 200), owner })
        yield* hooks.register({ ...note("plugin 2", 0), owner })
        yield* hooks.register(note("other", 100))
        const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", () => toolDone))
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(seen, ["other", "plugin 1", "plugin 2"])
        yield* TestClock.adjust("4 seconds")
        yield* Fiber.join(fiber)
      })
    )
  )

  it.effect("interrupting the run while several observers are waited for interrupts all of them", () =>
    Effect.gen(function* () {
      let open = 0
      const hooks = yield* Hooks.make()
      const hang = Effect.suspend(() => {
        open++
        return Effect.ensuring(
          Effect.never,
          Effect.sync(() => void open--)
        )
      })
      for (let index = 0; index < 3; index++) yield* hooks.register(Hooks.on("post_tool_call", () => hang))
      const fiber = yield* Effect.forkChild(
        hooks.emit("post_tool_call", () => toolDone),
        { startImmediately: true }
      )
      assert.strictEqual(open, 3)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(open, 0)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("a listener may have a deadline of its own", () =>
    Effect.gen(function* () {
      let told = false
      const hooks = yield* Hooks.make()
      yield* hooks.register(
        Hooks.on(
          "post_tool_call",
          () =>
            Effect.andThen(
              Effect.sleep("1 minute"),
              Effect.sync(() => void (told = true))
            ),
          { deadline: "2 minutes" }
        )
      )
      const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", done))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      assert.isTrue(told)
    })
  )

  it.effect(
    "a listener that may answer has the runtime's deadline, which may be none; one of its own and an observer's stay",
    () =>
      withWarnings((warnings) =>
        Effect.gen(function* () {
          const slow = (seconds: number) => () =>
            Effect.as(Effect.sleep(`${seconds} seconds`), { action: "block" as const, message: "no" })
          const listening = Effect.fnUntraced(function* (answerDeadline: Duration.Duration | undefined) {
            const hooks = yield* Hooks.make({ answerDeadline })
            yield* hooks.register(Hooks.on("pre_tool_call", slow(3), { label: "slow" }))
            yield* hooks.register(Hooks.on("pre_tool_call", slow(1), { label: "own", deadline: "500 millis" }))
            yield* hooks.register(Hooks.on("post_tool_call", () => Effect.never, { label: "observer" }))
            const fiber = yield* Effect.forkChild(
              Effect.andThen(
                hooks.emit("post_tool_call", done),
                hooks.ask("pre_tool_call", () => toolCall)
              )
            )
            for (let i = 0; i < 100; i++) yield* TestClock.adjust("10 seconds")
            return yield* Fiber.join(fiber)
          })
          assert.isUndefined(yield* listening(Duration.seconds(2)))
          assert.isDefined(yield* listening(Duration.infinity))
          assert.isDefined(yield* listening(undefined))
          const given = ["hook pre_tool_call: own took longer than 500ms", late("post_tool_call", "observer")]
          assert.deepStrictEqual(
            warnings.filter((warning) => !given.includes(warning)),
            ["hook pre_tool_call: slow took longer than 2s"]
          )
        })
      )
  )

  it.effect("a payload that can not be made is a warning, and the run goes on", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("post_tool_call", () => Effect.void, { label: "audit" }))
        yield* hooks.emit("post_tool_call", never)
        assert.deepStrictEqual(warnings, [
          "hook post_tool_call: audit was not called: Error: the payload of post_tool_call could not be made"
        ])
      })
    )
  )

  it.effect("interrupting the run interrupts waiting for a listener, and the listener", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const stopped = yield* Deferred.make<void>()
      const hooks = yield* Hooks.make()
      yield* hooks.register(
        Hooks.on("post_tool_call", () =>
          Deferred.succeed(started, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
          )
        )
      )
      const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", done))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(stopped)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("inside an uninterruptible region every listener is told, with its deadline", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        let told = 0
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("on_session_end", () => Effect.never, { label: "hangs" }))
        yield* hooks.register(Hooks.on("on_session_end", () => Effect.sync(() => void told++)))
        const fiber = yield* Effect.forkChild(
          Effect.onExit(Effect.never, () => hooks.emit("on_session_end", () => sessionEnd))
        )
        yield* Effect.yieldNow
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(interrupting)
        assert.strictEqual(told, 1)
        assert.strictEqual(warnings.length, 1)
      })
    )
  )

  it.effect("an unknown name is registered with a warning that names the known ones", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.fromPlain("post_tol_call", () => 1, { label: "typo" }))
        assert.include(warnings[0], `nothing here emits "post_tol_call", did you mean post_tool_call?`)
        assert.include(warnings[0], "subagent_stop")
        assert.deepStrictEqual(yield* hooks.invoke("post_tol_call", () => ({})), [1])
      })
    )
  )

  it.effect("a plain function's mutation is never visible to anybody else", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        let seen: unknown
        const args = { command: "ls", nested: { deep: [1] } }
        const hooks = yield* Hooks.make()
        yield* hooks.register(
          Hooks.fromPlain(
            "pre_tool_call",
            (event) => {
              Reflect.set(event, "tool_name", "other")
              Reflect.set(Object(event.args["nested"]), "deep", 2)
              Object.assign(event.args, { command: "rm" })
            },
            { label: "vandal" }
          )
        )
        yield* hooks.register(Hooks.fromPlain("pre_tool_call", (event) => void (seen = event)))
        yield* hooks.ask("pre_tool_call", () => ({ ...toolCall, args }))
        assert.deepInclude(seen, { tool_name: "terminal", args: { command: "ls", nested: { deep: [1] } } })
        assert.deepStrictEqual(args, { command: "ls", nested: { deep: [1] } })
        assert.match(String(warnings[0]), /^hook pre_tool_call: vandal failed: TypeError: /)
      })
    )
  )

  it.effect("plain functions may return values, promises or Effects", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.fromPlain("pre_llm_call", () => "a"))
      yield* hooks.register(Hooks.fromPlain("pre_llm_call", () => Promise.resolve({ context: "b" })))
      yield* hooks.register(Hooks.fromPlain("pre_llm_call", () => Effect.succeed("c")))
      yield* hooks.register(Hooks.on("pre_llm_call", () => Effect.succeed("d")))
      yield* hooks.register(Hooks.on("pre_llm_call", () => Effect.void))
      assert.strictEqual(yield* hooks.ask("pre_llm_call", () => turn), "a\n\nb\n\nc\n\nd")
    })
  )
})

describe("asking", () => {
  it.effect("a guard that fails or hangs lets the call through, unless it is registered as closed", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("pre_tool_call", () => Effect.fail("down"), { label: "open" }))
        assert.isUndefined(yield* hooks.ask("pre_tool_call", () => toolCall))
        yield* hooks.register(Hooks.on("pre_tool_call", () => Effect.never, { label: "policy", onFailure: "closed" }))
        const asked = yield* Effect.forkChild(hooks.ask("pre_tool_call", () => toolCall))
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual(yield* Fiber.join(asked), {
          action: "block",
          message: "Blocked: the guard policy took longer than 30s"
        })
        assert.strictEqual(warnings.length, 2)
      })
    )
  )

  it.effect("a closed guard that could not even be called blocks", () =>
    withWarnings(() =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.on("pre_tool_call", () => Effect.void, { label: "policy", onFailure: "closed" }))
        const answer = yield* hooks.ask("pre_tool_call", never)
        assert.strictEqual(answer?.action, "block")
      })
    )
  )

  it.effect("an answer that throws when it is looked at is the listener's fault", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        yield* hooks.register(
          Hooks.fromPlain(
            "pre_tool_call",
            () =>
              new Proxy(
                {},
                {
                  get: () => {
                    throw new Error("boo")
                  }
                }
              ),
            { label: "trap" }
          )
        )
        assert.isUndefined(yield* hooks.ask("pre_tool_call", () => toolCall))
        assert.deepStrictEqual(warnings, ["hook pre_tool_call: trap failed: Error: boo"])
      })
    )
  )

  it.effect("an approval can be asked for; the first directive wins", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.fromPlain("pre_tool_call", () => ({ action: "approve", rule_key: " ", message: 5 })))
      yield* hooks.register(
        Hooks.on("pre_tool_call", () => Effect.succeed({ action: "block", message: "no" } as const))
      )
      assert.deepStrictEqual(yield* hooks.ask("pre_tool_call", () => toolCall), { action: "approve" })
    })
  )
})

describe("queued", () => {
  const collector = (capacity: number, gate: Effect.Effect<void>, seen: Array<string>) =>
    Hooks.observer(
      { label: "exporter", mode: "queued", capacity, deadline: "1 minute" },
      {
        pre_api_request: (event) =>
          Effect.andThen(
            gate,
            Effect.sync(() => void seen.push(`pre ${event.api_call_count}`))
          ),
        post_tool_call: (event) =>
          Effect.andThen(
            gate,
            Effect.sync(() => void seen.push(`tool ${event.tool_call_id}`))
          )
      }
    )

  it.effect("never delays the run, and keeps the order of events across hooks", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const gate = yield* Deferred.make<void>()
      const hooks = yield* Hooks.make()
      const scope = yield* Scope.make()
      yield* hooks.register(collector(10, Deferred.await(gate), seen)).pipe(Effect.provideService(Scope.Scope, scope))
      yield* hooks.emit("pre_api_request", () => apiRequest)
      yield* hooks.emit("post_tool_call", done)
      yield* hooks.emit("pre_api_request", () => ({ ...apiRequest, api_call_count: 2 }))
      assert.deepStrictEqual(seen, [])
      yield* Deferred.succeed(gate, undefined)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(seen, ["pre 1", "tool call_1", "pre 2"])
    })
  )

  it.effect("a full queue drops its oldest event, warns once and counts", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const gate = yield* Deferred.make<void>()
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        yield* hooks.register(collector(2, Deferred.await(gate), seen)).pipe(Effect.provideService(Scope.Scope, scope))
        const emit = (count: number) => hooks.emit("pre_api_request", () => ({ ...apiRequest, api_call_count: count }))
        yield* emit(1)
        yield* Effect.yieldNow
        yield* TestClock.adjust(0)
        for (let count = 2; count <= 6; count++) yield* emit(count)
        assert.strictEqual(hooks.list()[0]?.dropped, 3)
        assert.deepStrictEqual(warnings, ["hook exporter: its queue is full, the oldest events are dropped"])
        yield* Deferred.succeed(gate, undefined)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(seen, ["pre 1", "pre 5", "pre 6"])
      })
    )
  )

  it.effect("what is left when the hook is removed is handled for five seconds, and what is lost is said", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        yield* hooks.register(collector(10, Effect.never, [])).pipe(Effect.provideService(Scope.Scope, scope))
        yield* hooks.emit("post_tool_call", done)
        yield* hooks.emit("post_tool_call", done)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
        yield* TestClock.adjust("4 seconds")
        assert.isUndefined(closing.pollUnsafe())
        assert.isFalse(hooks.has("post_tool_call"))
        yield* TestClock.adjust("1 seconds")
        yield* Fiber.join(closing)
        assert.include(warnings, "hook exporter: 2 events were lost at the end")
      })
    )
  )

  it.effect("a queued listener that fails or hangs does not stop the ones after it", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        let calls = 0
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        yield* hooks
          .register(
            Hooks.observer(
              { label: "exporter", mode: "queued", deadline: "1 second" },
              {
                post_tool_call: () => {
                  calls++
                  if (calls === 1) return Effect.die("broken")
                  return calls === 2 ? Effect.never : Effect.sync(() => void seen.push("ok"))
                }
              }
            )
          )
          .pipe(Effect.provideService(Scope.Scope, scope))
        for (let i = 0; i < 3; i++) yield* hooks.emit("post_tool_call", done)
        yield* TestClock.adjust("1 second")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(seen, ["ok"])
        assert.deepStrictEqual(warnings, [
          "hook post_tool_call: exporter failed: broken",
          "hook post_tool_call: exporter took longer than 1s"
        ])
      })
    )
  )

  it.effect("an inline observer that misses its deadline runs on and is queued from then on, with one warning", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        let calls = 0
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        yield* hooks
          .register(
            Hooks.on(
              "post_tool_call",
              () => {
                const call = ++calls
                const note = (what: string) => Effect.sync(() => void seen.push(`${what} ${call}`))
                return call === 2
                  ? Effect.andThen(note("begins"), Effect.andThen(Effect.sleep("7 seconds"), note("ends")))
                  : note("ends")
              },
              { label: "slow" }
            )
          )
          .pipe(Effect.provideService(Scope.Scope, scope))
        const took = Effect.fnUntraced(function* () {
          const before = yield* Clock.currentTimeMillis
          const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", done), { startImmediately: true })
          if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("5 seconds")
          yield* Fiber.join(fiber)
          return (yield* Clock.currentTimeMillis) - before
        })
        assert.deepStrictEqual([yield* took(), yield* took(), yield* took(), yield* took()], [0, 5_000, 0, 0])
        assert.strictEqual(hooks.list()[0]?.mode, "queued")
        assert.deepStrictEqual(seen, ["ends 1", "begins 2"])
        yield* TestClock.adjust("2 seconds")
        assert.deepStrictEqual(
          seen,
          ["ends 1", "begins 2", "ends 2", "ends 3", "ends 4"],
          "in order, behind the one that ran on"
        )
        assert.deepStrictEqual(warnings, [late("post_tool_call", "slow")])
        yield* Scope.close(scope, Exit.void)
      })
    )
  )

  it.effect("an inline observer that hangs costs one deadline, at the end none, and is interrupted", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        let open = 0
        const hang = Effect.suspend(() => {
          open++
          return Effect.ensuring(
            Effect.never,
            Effect.sync(() => void open--)
          )
        })
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        yield* hooks
          .register(Hooks.on("post_tool_call", () => hang, { label: "hung" }))
          .pipe(Effect.provideService(Scope.Scope, scope))
        const run = Effect.gen(function* () {
          for (let event = 0; event < 10; event++) yield* hooks.emit("post_tool_call", done)
          yield* Scope.close(scope, Exit.void)
        })
        const fiber = yield* Effect.forkChild(run)
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(fiber)
        assert.strictEqual(yield* Clock.currentTimeMillis, 5_000)
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
        assert.strictEqual(open, 0)
        assert.include(warnings, "hook hung: 10 events were lost at the end")
      })
    )
  )

  it.effect("a listener that may answer is waited for at each event, also of a plugin that is queued", () =>
    withWarnings(() =>
      Effect.gen(function* () {
        const owner = { key: {}, label: "plugin" }
        const hooks = yield* Hooks.make()
        const scope = yield* Scope.make()
        const register = (hook: Hook<never>) =>
          Effect.provideService(hooks.register({ ...hook, owner }), Scope.Scope, scope)
        yield* register(Hooks.on("post_tool_call", () => Effect.never))
        yield* register(
          Hooks.on("pre_tool_call", () =>
            Effect.as(Effect.sleep("20 seconds"), { action: "block" as const, message: "no" })
          )
        )
        const first = yield* Effect.forkChild(hooks.emit("post_tool_call", done))
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(first)
        for (let ask = 0; ask < 2; ask++) {
          const asked = yield* Effect.forkChild(hooks.ask("pre_tool_call", () => toolCall))
          yield* TestClock.adjust("20 seconds")
          assert.deepStrictEqual(yield* Fiber.join(asked), { action: "block", message: "no" })
        }
        yield* Scope.close(scope, Exit.void)
      })
    )
  )

  it.effect(
    "the hooks of one owner count together, keep their order in the queue, and its guards are still waited for",
    () =>
      withWarnings(() =>
        Effect.gen(function* () {
          const owner = { key: {}, label: "plugin" }
          const seen: Array<string> = []
          let hangs = true
          const slow = (label: string) =>
            Effect.suspend(() => (hangs ? Effect.never : Effect.sync(() => void seen.push(label))))
          const hooks = yield* Hooks.make()
          const scope = yield* Scope.make()
          const register = (hook: Hook<never>) =>
            Effect.provideService(hooks.register({ ...hook, owner }), Scope.Scope, scope)
          yield* register(Hooks.on("pre_api_request", () => slow("pre")))
          yield* register(Hooks.on("post_tool_call", () => slow("post")))
          yield* register(Hooks.on("on_session_end", () => slow("end")))
          yield* register(Hooks.on("pre_tool_call", () => Effect.succeed({ action: "block" as const, message: "no" })))
          const told = Effect.andThen(
            hooks.emit("pre_api_request", () => apiRequest),
            hooks.emit("post_tool_call", done)
          )
          const run = Effect.andThen(
            told,
            hooks.emit("on_session_end", () => sessionEnd)
          )
          const fiber = yield* Effect.forkChild(run)
          yield* TestClock.adjust("5 seconds")
          yield* Fiber.join(fiber)
          assert.strictEqual(yield* Clock.currentTimeMillis, 5_000)
          hangs = false
          // The one that ran on is interrupted after its deadline; those behind it go on.
          yield* TestClock.adjust("5 seconds")
          yield* Effect.andThen(run, run)
          assert.deepStrictEqual(yield* hooks.ask("pre_tool_call", () => toolCall), { action: "block", message: "no" })
          yield* TestClock.adjust("1 seconds")
          assert.deepStrictEqual(seen, ["post", "end", "pre", "post", "end", "pre", "post", "end"])
          yield* Scope.close(scope, Exit.void)
        })
      )
  )
})
