import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { readFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { goodForMillis, Leases, layer as leasesIn } from "../../../src/base/platform/Leases.ts"
import { getCurrentProcess, isDead } from "../../../src/base/platform/ProcessIdentity.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { runScript } from "../../support/runScript.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const database = Effect.map(temporaryDirectory, (directory) => `${directory}/state.db`)

const within = <A, E, R>(path: string, body: Effect.Effect<A, E, R>) =>
  Effect.provide(body, leasesIn(path), { local: true })

/** Changes the rows of the leases behind their owners' backs. */
const tamper = (path: string, statement: string): void => {
  const file = new DatabaseSync(path)
  try {
    file.exec(statement)
  } finally {
    file.close()
  }
}

describe("a lease", () => {
  it.live("is held by one of two processes at a time, however slowly each looks at the one before", () =>
    Effect.gen(function* () {
      const path = yield* database
      const journal = `${path}.journal`
      // One that dies while it holds the lease leaves a row that both find stale at the same time.
      const dead = yield* runScript("leaseHolder.ts", [path, "job", journal, "1", "0", "die"])
      assert.strictEqual(dead.signal, "SIGKILL", dead.errors)
      const ended = yield* Effect.forEach(
        [1, 2],
        () => runScript("leaseHolder.ts", [path, "job", journal, "15", "30"]),
        { concurrency: 2 }
      )
      for (const { code, errors } of ended) assert.deepStrictEqual([code, errors], [0, ""])
      const [first, ...entries] = readFileSync(journal, "utf8")
        .trim()
        .split("\n")
        .map((line) => line.split(" "))
      assert.strictEqual(first?.[1], "in")
      assert.strictEqual(entries.length, 60)
      for (let index = 0; index < entries.length; index += 2) {
        const [[entered, isIn] = [], [left, isOut] = []] = entries.slice(index, index + 2)
        assert.deepStrictEqual([isIn, isOut, left], ["in", "out", entered])
      }
      assert.strictEqual(new Set(entries.map(([pid]) => pid)).size, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("names its owner to everybody else, and is free when its scope closes", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Effect.gen(function* () {
          const leases = yield* Leases
          yield* Effect.scoped(
            Effect.gen(function* () {
              yield* leases.take("job")
              const own = yield* Effect.flip(Effect.scoped(leases.take("job")))
              assert.strictEqual(own.message, "job is in use by this process: wait for it to end, or end it")
              tamper(path, `UPDATE leases SET pid = ${process.ppid}, start_time = ''`)
              const other = yield* Effect.flip(Effect.scoped(leases.take("job")))
              assert.strictEqual(
                other.message,
                `job is in use by process ${process.ppid}: wait for it to end, or end it`
              )
              tamper(path, `UPDATE leases SET pid = ${process.pid}`)
            })
          )
          yield* Effect.scoped(leases.take("job"))
        })
      )
    })
  )

  it.effect("of another machine is taken over when it expires, and not before", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Effect.gen(function* () {
          const leases = yield* Leases
          yield* Effect.scoped(leases.take("warm up"))
          tamper(path, `INSERT INTO leases VALUES ('job', 'x', 'elsewhere', 1, '', ${goodForMillis})`)
          yield* TestClock.setTime(goodForMillis - 1)
          assert.strictEqual((yield* Effect.flip(Effect.scoped(leases.take("job"))))._tag, "LeaseTaken")
          yield* TestClock.setTime(goodForMillis)
          yield* Effect.scoped(leases.take("job"))
        })
      )
    })
  )

  it.effect("that somebody took over is lost: its owner learns it before it writes, and by itself", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Effect.gen(function* () {
          const leases = yield* Leases
          const scope = yield* Scope.make()
          const lease = yield* Scope.provide(leases.take("job"), scope)
          assert.isTrue(yield* lease.isHeld)
          tamper(path, "UPDATE leases SET owner = 'somebody else'")
          const told = yield* Effect.forkChild(lease.lost)
          yield* TestClock.adjust("15 seconds")
          yield* Fiber.join(told)
          assert.isFalse(yield* lease.isHeld)
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual((yield* Effect.flip(Effect.scoped(leases.take("job"))))._tag, "LeaseTaken")
        })
      )
    })
  )

  it.effect("is waited for by those who need it", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Effect.gen(function* () {
          const leases = yield* Leases
          const entered = yield* Deferred.make<void>()
          const leave = yield* Deferred.make<void>()
          const first = yield* Effect.forkChild(
            leases.during("job", () => Effect.andThen(Deferred.succeed(entered, undefined), Deferred.await(leave)))
          )
          yield* Deferred.await(entered)
          const second = yield* Effect.forkChild(leases.during("job", () => Effect.succeed("mine")))
          yield* TestClock.adjust("1 second")
          yield* Deferred.succeed(leave, undefined)
          yield* Fiber.join(first)
          yield* TestClock.adjust("1 second")
          assert.strictEqual(yield* Fiber.join(second), "mine")
        })
      )
    })
  )

  it.effect("of an interrupted owner is free", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Effect.gen(function* () {
          const leases = yield* Leases
          const entered = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(
            leases.during("job", () => Effect.andThen(Deferred.succeed(entered, undefined), Effect.never))
          )
          yield* Deferred.await(entered)
          yield* Fiber.interrupt(fiber)
          yield* Effect.scoped(leases.take("job"))
        })
      )
    })
  )

  it.effect("may be taken before the first session is made, and not in the database of another program", () =>
    Effect.gen(function* () {
      const path = yield* database
      yield* within(
        path,
        Leases.use(({ take }) => Effect.scoped(take("job")))
      )
      yield* Effect.provide(
        SessionStore.SessionStore.use((store) => store.create(makeNewSession("s"))),
        SessionStore.layerSqlite({ path }),
        { local: true }
      )
      yield* within(
        path,
        Leases.use(({ take }) => Effect.scoped(take("job")))
      )
      const foreign = `${path}.other`
      tamper(foreign, "CREATE TABLE theirs (id INTEGER)")
      const error = yield* Effect.flip(
        within(
          foreign,
          Leases.use(({ take }) => Effect.scoped(take("job")))
        )
      )
      assert.strictEqual(
        error.message,
        `${foreign} is the database of another program: move it away, or set another HERMES_HOME`
      )
    })
  )
})

describe("a process", () => {
  it("is dead when it is gone, or its id belongs to another one by now", () => {
    const own = getCurrentProcess()
    assert.isFalse(isDead(own))
    assert.isFalse(isDead({ ...own, machine: "elsewhere", pid: 2 ** 22 + 1 }))
    assert.isTrue(isDead({ ...own, pid: 2 ** 22 + 1 }))
    if (own.startTime !== "") assert.isTrue(isDead({ ...own, startTime: "1" }))
  })
})

describe("a session", () => {
  it.effect("that another process took over takes no more messages from the one that lost it", () =>
    Effect.gen(function* () {
      const path = yield* database
      const id = SessionId.make("s")
      yield* Effect.provide(
        Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          yield* store.create(makeNewSession(id))
          const { lost } = yield* store.acquire(id)
          yield* store.append(id, [makeUserMessage("mine")])
          tamper(path, `UPDATE leases SET owner = 'somebody else', pid = ${process.ppid}, start_time = ''`)
          const told = yield* Effect.forkChild(Effect.flip(lost ?? Effect.never))
          yield* TestClock.adjust(goodForMillis)
          const refused = yield* Effect.flip(store.append(id, [makeUserMessage("late")]))
          assert.match(refused.message, /^session s was taken over by another process: /u)
          assert.strictEqual((yield* Fiber.join(told))._tag, "SessionBusy")
          assert.deepStrictEqual(yield* store.messages(id), [makeUserMessage("mine")])
        }).pipe(Effect.scoped),
        SessionStore.layerSqlite({ path }),
        { local: true }
      )
    })
  )
})
