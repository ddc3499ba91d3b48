// The inbox of a session between two connections: a text stays until it is settled, and is held by one of them.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { SessionSamples } from "../../src/kit/entry/testing.ts"
import * as RemoteSession from "../../src/store/RemoteSession.ts"
import { SessionActivity } from "../../src/store/SessionActivity.ts"
import { SessionInbox } from "../../src/store/SessionInbox.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** Connections to one file. The scope of a connection is that of its process. */
const makeConnections = Effect.gen(function* () {
  const path = `${yield* temporaryDirectory}/state.db`
  const open = Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const context = yield* Layer.buildWithScope(Layer.fresh(SessionStore.layerSqlite({ path })), scope)
    return { context, inbox: Context.get(context, SessionInbox), close: Scope.close(scope, Exit.void) }
  })
  const sender = yield* open
  yield* Context.get(sender.context, SessionStore.SessionStore).create(SessionSamples.makeNewSession("s"))
  return { sender, owner: yield* open, other: yield* open }
})

const steer = { sessionId: "s", kind: "steer", body: '{"prompt":"Use tabs","busy":"steer"}' } as const

describe("the inbox of a session", () => {
  it.live("has a text until it is settled, for one process at a time", () =>
    Effect.gen(function* () {
      const { other, owner, sender } = yield* makeConnections
      const { number = 0 } = (yield* sender.inbox.send(steer)) ?? {}
      const [text, ...more] = yield* owner.inbox.take("s")
      assert.deepStrictEqual([text?.number, text?.isRepeated, more], [number, false, []])
      assert.deepStrictEqual(yield* owner.inbox.take("s"), [])
      assert.deepStrictEqual(yield* other.inbox.take("s"), [])
      assert.isFalse(yield* sender.inbox.withdraw("s", number))
      yield* owner.close
      const [again] = yield* other.inbox.take("s")
      assert.deepStrictEqual([again?.id, again?.isRepeated], [text?.id, true])
      yield* other.inbox.release([number])
      assert.strictEqual((yield* other.inbox.take("s")).length, 1)
      yield* other.inbox.reply(text ?? assert.fail(), "{}")
      yield* sender.inbox.remove("s", number)
      assert.deepStrictEqual(yield* sender.inbox.waiting, ["s"])
      yield* other.inbox.settle("s", [number])
      assert.deepStrictEqual(yield* sender.inbox.waiting, [])
      assert.strictEqual((yield* sender.inbox.read("s", number))._tag, "removed")
    })
  )

  it.live("keeps the reply to a settled text for its sender", () =>
    Effect.gen(function* () {
      const { owner, sender } = yield* makeConnections
      const { number = 0 } = (yield* sender.inbox.send(steer)) ?? {}
      const [text] = yield* owner.inbox.take("s")
      yield* owner.inbox.settle("s", [number])
      yield* owner.inbox.reply(text ?? assert.fail(), "{}")
      assert.deepStrictEqual(yield* sender.inbox.read("s", number), { _tag: "replied", reply: "{}" })
      yield* sender.inbox.remove("s", number)
      assert.strictEqual((yield* sender.inbox.read("s", number))._tag, "removed")
    })
  )

  it.live("gives a text that a process left back to its sender, and takes other messages once", () =>
    Effect.gen(function* () {
      const { other, owner, sender } = yield* makeConnections
      const { number = 0 } = (yield* sender.inbox.send(steer)) ?? {}
      yield* sender.inbox.send({ sessionId: "s", kind: "cancel", body: "{}" })
      assert.deepStrictEqual(
        (yield* owner.inbox.take("s")).map(({ kind }) => kind),
        ["steer", "cancel"]
      )
      yield* owner.close
      assert.isTrue(yield* sender.inbox.withdraw("s", number))
      assert.deepStrictEqual(yield* other.inbox.take("s"), [])
    })
  )

  it.effect("measures the time of readers by the clock of the database", () =>
    Effect.gen(function* () {
      const { other, sender } = yield* makeConnections
      const isWatched = Effect.provideContext(RemoteSession.isWatched("s"), other.context)
      assert.isFalse(yield* isWatched)
      // The clock of the reader is years behind the machine's, and then hours ahead of itself.
      yield* Effect.provideContext(RemoteSession.announceWatch("s"), sender.context)
      yield* TestClock.adjust("5 hours")
      assert.isTrue(yield* isWatched)
      yield* sender.inbox.watch("s", -1)
      assert.isFalse(yield* isWatched)
    })
  )

  it.live("waits for a session that a run holds and is about to store", () =>
    Effect.gen(function* () {
      const { owner, sender } = yield* makeConnections
      const steered = yield* Effect.forkChild(
        RemoteSession.steerTurn("new", { prompt: "Use tabs", busy: "steer" }).pipe(
          Effect.provide(
            Context.add(sender.context, SessionActivity, {
              ...Context.get(sender.context, SessionActivity),
              running: Effect.succeed(new Set(["new"]))
            })
          )
        )
      )
      // The message is sent in vain until the session is there.
      yield* Effect.sleep("20 millis")
      yield* Context.get(owner.context, SessionStore.SessionStore).create(SessionSamples.makeNewSession("new"))
      const [text] = yield* Effect.repeat(Effect.delay(owner.inbox.take("new"), "20 millis"), {
        until: ({ length }) => length > 0
      })
      yield* owner.inbox.reply(text ?? assert.fail(), '{"status":"steering"}')
      assert.strictEqual(yield* Fiber.join(steered), "steering")
    })
  )

  it.effect("refuses a message to a session that is never stored", () =>
    Effect.gen(function* () {
      const { sender } = yield* makeConnections
      const refuse = (running: ReadonlyArray<ReadonlySet<string>>) =>
        Effect.gen(function* () {
          const left = Array.from(running)
          const sent = yield* RemoteSession.cancelTurn("new").pipe(
            Effect.provide(
              Context.add(sender.context, SessionActivity, {
                ...Context.get(sender.context, SessionActivity),
                running: Effect.sync(() => (left.length > 1 ? left.shift() : left[0]) ?? new Set<string>())
              })
            ),
            Effect.flip,
            Effect.forkChild
          )
          yield* Effect.repeat(TestClock.adjust("1 second"), { until: () => sent.pollUnsafe() !== undefined })
          const error = yield* Fiber.join(sent)
          return error._tag === "RemoteRefused" ? error.reason : error._tag
        })
      assert.strictEqual(yield* refuse([new Set(["new"])]), "unreachable")
      assert.strictEqual(yield* refuse([new Set(["new"]), new Set()]), "ended")
    })
  )
})
