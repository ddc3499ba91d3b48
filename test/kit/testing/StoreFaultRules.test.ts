// The rules of stores whose medium fails: SQLite with a full disk, a store in memory that is guarded, and for each rule
// a store that breaks it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { DatabaseSync } from "node:sqlite"
import { SessionStoreError } from "../../../src/base/domain/AgentError.ts"
import { SessionSearch } from "../../../src/store/SessionSearch.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as StoreFaultRules from "../../../src/kit/testing/StoreFaultRules.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const nameOf = ({ about, name }: { readonly about: string; readonly name: string }) => `${about}: ${name}`

const broken = <E>(subject: Layer.Layer<StoreFaultRules.Subject, E>, rules = StoreFaultRules.rules) =>
  Effect.map(Conformance.runRules(rules, subject), (results) =>
    results.flatMap((result) => (result.broken === undefined ? [] : [[nameOf(result), result.broken.message]]))
  ).pipe(Effect.provide(Logger.layer([])))

const full = (operation: string) =>
  new SessionStoreError({ operation, message: "the disk is full: make room and try again" })

interface Medium {
  isFull: boolean
}

/** A store in memory that refuses messages, changed by a mutation. */
const guarded = (
  change: (
    inner: SessionStore.Service,
    guarded: SessionStore.Service,
    medium: Medium
  ) => Partial<SessionStore.Service> = () => ({})
) =>
  Layer.effect(
    StoreFaultRules.Subject,
    Effect.gen(function* () {
      const inner = yield* SessionStore.SessionStore
      const search = yield* SessionSearch
      const medium: Medium = { isFull: false }
      const store: SessionStore.Service = {
        ...inner,
        append: (...args) =>
          Effect.suspend(() => (medium.isFull ? Effect.fail(full("append")) : inner.append(...args))),
        continueIn: (...args) =>
          Effect.suspend(() => (medium.isFull ? Effect.fail(full("continueIn")) : inner.continueIn(...args)))
      }
      const set = (isFull: boolean) => Effect.sync(() => void (medium.isFull = isFull))
      return { store: { ...store, ...change(inner, store, medium) }, search, breaks: set(true), mends: set(false) }
    })
  ).pipe(Layer.provide(SessionStore.layerMemory))

const sqlite = Layer.effect(
  StoreFaultRules.Subject,
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const context = yield* Layer.build(SessionStore.layerSqlite({ path }))
    return yield* Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      const search = yield* SessionSearch
      yield* store.list()
      const rival = yield* Effect.acquireRelease(
        Effect.sync(() => new DatabaseSync(path)),
        (database) => Effect.sync(() => database.close())
      )
      return {
        store,
        search,
        breaks: Effect.sync(() =>
          rival.exec("CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        ),
        mends: Effect.sync(() => rival.exec("DROP TRIGGER full"))
      }
    }).pipe(Effect.provideContext(context))
  })
)

const mutants: ReadonlyArray<readonly [does: string, change: Parameters<typeof guarded>[0], rule: string]> = [
  [
    "says that it wrote",
    (inner, _, medium) => ({
      append: (...args) => Effect.suspend(() => (medium.isFull ? Effect.succeed(0) : inner.append(...args)))
    }),
    "while it fails: messages are refused with SessionStoreError"
  ],
  [
    "dies",
    (inner, _, medium) => ({
      list: (...args) => Effect.suspend(() => (medium.isFull ? Effect.die(new Error("EIO")) : inner.list(...args)))
    }),
    "while it fails: every operation succeeds, or fails with SessionStoreError"
  ],
  [
    "writes half of a batch",
    (inner, _, medium) => ({
      append: (id, messages) =>
        Effect.suspend(() =>
          medium.isFull
            ? Effect.andThen(inner.append(id, messages.slice(0, 1)), Effect.fail(full("append")))
            : inner.append(id, messages)
        )
    }),
    "afterwards: everything is there that was written, and nothing of what was refused"
  ],
  [
    "stays broken",
    (inner, _, medium) => {
      let wasFull = false
      return {
        append: (...args) =>
          Effect.suspend(() => {
            wasFull = wasFull || medium.isFull
            return wasFull ? Effect.fail(full("append")) : inner.append(...args)
          })
      }
    },
    "afterwards: messages can be written again, behind those that are there"
  ],
  [
    "ends a session that does not go on",
    (inner, _, medium) => ({
      continueIn: (id, next) =>
        Effect.suspend(() =>
          medium.isFull
            ? Effect.andThen(inner.end(id, "compression"), Effect.fail(full("continueIn")))
            : inner.continueIn(id, next)
        )
    }),
    "afterwards: a continuation that was refused has left the session as it was"
  ],
  [
    "writes message by message",
    (_, store) => ({
      append: (id, messages) =>
        Effect.map(
          Effect.forEach(messages, (message) => Effect.andThen(Effect.yieldNow, store.append(id, [message]))),
          ([first = 0]) => first
        )
    }),
    "interruption: leaves all messages of a batch, or none"
  ],
  [
    "forgets what it refuses, and says nothing",
    (inner, _, medium) => ({
      append: (...args) => Effect.suspend(() => (medium.isFull ? Effect.succeed(0) : inner.append(...args)))
    }),
    "runs: fail with SessionStoreError while it fails, and their session goes on afterwards"
  ]
]

describe("rules of stores whose medium fails", () => {
  it.live("a guarded store in memory keeps them", () =>
    Effect.map(broken(guarded()), (found) => assert.deepStrictEqual(found, []))
  )

  it.live("SQLite keeps them with a full disk", () =>
    Effect.map(broken(sqlite), (found) => assert.deepStrictEqual(found, []))
  )

  for (const [does, change, rule] of mutants) {
    it.live(`one that ${does} is told`, () =>
      Effect.map(
        broken(
          guarded(change),
          StoreFaultRules.rules.filter((one) => nameOf(one) === rule)
        ),
        (found) =>
          assert.deepStrictEqual(
            found.map(([name]) => name),
            [rule]
          )
      )
    )
  }

  it("every rule has a store that breaks it", () => {
    const named = new Set(mutants.map(([, , rule]) => rule))
    assert.deepStrictEqual(
      StoreFaultRules.rules.map(nameOf).filter((rule) => !named.has(rule)),
      []
    )
  })
})
