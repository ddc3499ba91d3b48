// The number of messages that a run remembers of its session is checked, so that writes of others are not overwritten.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { watchStatements } from "../../support/watchStatements.ts"

const id = SessionId.make("s")
const usage = {
  provider: "p",
  model: "m",
  usage: { ...Usage.zero, inputTokens: 3, requestCount: 1 },
  cost: { usd: 0, status: "included", source: "none" }
} as const

/** Two connections to one file, of which the first holds the session and knows its number of messages. */
const opened = Effect.gen(function* () {
  const path = `${yield* temporaryDirectory}/state.db`
  const [own, other] = [yield* SqliteStore.open(path), yield* SqliteStore.open(path)]
  yield* own.store.create(makeNewSession(id))
  yield* own.store.acquire(id)
  yield* own.store.append(id, [makeUserMessage("one")])
  return { own, other }
})

describe("a session that a run holds", () => {
  it.live("gets the next position when another process has added a message, and all usage", () =>
    Effect.gen(function* () {
      const { other, own } = yield* opened
      yield* other.store.append(id, [makeUserMessage("two")])
      yield* other.store.recordUsage(id, usage)
      const position = yield* own.together(
        Effect.andThen(own.store.recordUsage(id, usage), own.store.append(id, [makeUserMessage("three")]))
      )
      assert.strictEqual(position, 2)
      assert.deepStrictEqual(
        yield* other.store.messages(id),
        ["one", "two", "three"].map((text) => makeUserMessage(text))
      )
      const session = Option.getOrThrow(yield* own.store.get(id))
      assert.deepStrictEqual([session.messageCount, session.usage.inputTokens], [3, 6])
      assert.deepStrictEqual(
        (yield* own.store.usageByModel(id)).map((one) => one.usage.inputTokens),
        [6]
      )
    }).pipe(Effect.scoped)
  )

  it.live("is not there any more when another process has removed it", () =>
    Effect.gen(function* () {
      const { other, own } = yield* opened
      yield* other.store.remove(id)
      for (const write of [own.store.append(id, [makeUserMessage("two")]), own.store.recordUsage(id, usage)])
        assert.match((yield* Effect.flip(write)).message, /^no session "s": /u)
    }).pipe(Effect.scoped)
  )

  it.effect("has the position of before a transaction that failed", () =>
    Effect.gen(function* () {
      const { own } = yield* opened
      yield* Effect.exit(own.together(Effect.andThen(own.store.append(id, [makeUserMessage("no")]), Effect.fail("no"))))
      assert.strictEqual(yield* own.store.append(id, [makeUserMessage("two")]), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("is not read again for each write", () =>
    Effect.gen(function* () {
      const { own } = yield* opened
      const statements: Array<string> = []
      yield* watchStatements(
        ({ sourceSQL }) =>
          void statements.push(
            sourceSQL
              .split(/[\s(]+/u)
              .slice(0, 3)
              .join(" ")
          )
      )
      yield* own.store.append(id, [makeUserMessage("two"), makeUserMessage("three")])
      assert.deepStrictEqual(statements, ["BEGIN IMMEDIATE", "UPDATE sessions SET", "INSERT INTO messages", "COMMIT"])
    }).pipe(Effect.scoped)
  )
})
