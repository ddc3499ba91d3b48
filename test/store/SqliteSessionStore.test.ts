import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionMaintenance from "../../src/store/SessionMaintenance.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeNewSession, suite, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

suite(
  "SqliteSessionStore",
  Layer.unwrap(
    Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
  )
)

const id = SessionId.make("s")

const withStore = <A, E, R>(path: string, body: Effect.Effect<A, E, R | SessionStore.SessionStore>) =>
  Effect.provide(body, SessionStore.layerSqlite({ path }), { local: true })

const create = SessionStore.SessionStore.use((store) => store.create(makeNewSession(id)))
const append = (text: string) => SessionStore.SessionStore.use((store) => store.append(id, [makeUserMessage(text)]))
const read = SessionStore.SessionStore.use((store) => store.messages(id))
const list = SessionStore.SessionStore.use((store) => store.list())

/** Something else than the store that has the database open. */
const rival = (path: string) =>
  Effect.acquireRelease(
    Effect.sync(() => new DatabaseSync(path)),
    (database) => Effect.sync(() => database.close())
  )

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)

describe("opening", () => {
  it.effect("building the layer touches nothing; the first operation opens", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/home/state.db`
      yield* withStore(
        path,
        Effect.gen(function* () {
          yield* SessionStore.SessionStore
          assert.isFalse(existsSync(path))
          yield* list
          assert.isTrue(existsSync(path))
        })
      )
    })
  )

  it.effect(
    "the file and its companions are readable by their owner alone, and so is a directory that had to be made",
    () =>
      Effect.gen(function* () {
        const directory = `${yield* temporaryDirectory}/new/home`
        yield* withStore(
          `${directory}/state.db`,
          Effect.andThen(
            create,
            Effect.sync(() => {
              const files = readdirSync(directory)
              assert.includeMembers(files, ["state.db", "state.db-wal"])
              assert.deepStrictEqual(
                files.map((file) => mode(`${directory}/${file}`)),
                files.map(() => "600")
              )
              assert.strictEqual(mode(directory), "700")
            })
          )
        )
        chmodSync(`${directory}/state.db`, 0o644)
        yield* withStore(`${directory}/state.db`, list)
        assert.strictEqual(mode(`${directory}/state.db`), "600")
      })
  )

  it.effect("what was closed is read again, and leaves one file", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = `${directory}/state.db`
      yield* withStore(path, Effect.andThen(create, append("hello")))
      assert.deepStrictEqual(readdirSync(directory), ["state.db"])
      assert.deepStrictEqual(yield* withStore(path, read), [makeUserMessage("hello")])
    })
  )

  it.effect("many first operations at once open one database", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const sessions = Array.from({ length: 10 }, (_, index) => makeNewSession(`s${index}`))
      yield* withStore(
        path,
        Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          yield* Effect.forEach(sessions, store.create, { concurrency: "unbounded" })
          assert.strictEqual((yield* store.list()).length, 10)
        })
      )
    })
  )

  it.effect("what could not be opened is tried again by the next operation", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(`${directory}/home`, "in the way")
      yield* withStore(
        `${directory}/home/state.db`,
        Effect.gen(function* () {
          yield* Effect.flip(list)
          rmSync(`${directory}/home`)
          assert.deepStrictEqual(yield* list, [])
        })
      )
    })
  )
})

it.effect(
  "reads messages that were added since, also of another process, and those of a new session with the id of a removed one",
  () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const id = SessionId.make("again")
      const layer = SessionStore.layerSqlite({ path })
      yield* Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const other = <A, E>(f: (store: SessionStore.Service) => Effect.Effect<A, E>) =>
          Effect.provide(SessionStore.SessionStore.use(f), SessionStore.layerSqlite({ path }), { local: true })
        yield* store.create(makeNewSession("again"))
        yield* store.append(id, [makeUserMessage("a"), makeUserMessage("b")])
        const first = yield* store.messages(id)
        yield* other((store) => store.append(id, [makeUserMessage("c")]))
        const second = yield* store.messages(id)
        assert.deepStrictEqual(second, ["a", "b", "c"].map(makeUserMessage))
        // What was read is the same object, so that nothing is made of it twice.
        assert.strictEqual(second[0], first[0])
        yield* TestClock.adjust(1)
        yield* other((store) =>
          Effect.andThen(
            store.remove(id),
            Effect.andThen(
              store.create(makeNewSession("again")),
              store.append(id, ["x", "y", "z", "w"].map(makeUserMessage))
            )
          )
        )
        assert.deepStrictEqual(yield* store.messages(id), ["x", "y", "z", "w"].map(makeUserMessage))
        yield* store.remove(id)
        assert.deepStrictEqual(yield* store.messages(id), [])
      }).pipe(Effect.provide(layer, { local: true }))
    })
)

describe("what can not be opened is one line with a remedy", () => {
  const refused = (path: string) =>
    Effect.map(Effect.flip(withStore(path, list)), (error) => {
      assert.strictEqual(error._tag, "SessionStoreError")
      assert.strictEqual(error.operation, "open")
      assert.notInclude(error.message, "\n")
      assert.isTrue(error.message.startsWith(path), error.message)
      return error.message.slice(path.length)
    })

  it.effect("a path through a file", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(`${directory}/file`, "")
      assert.match(yield* refused(`${directory}/file/state.db`), /^ cannot be created: check that its path/u)
    })
  )

  it.effect("a path of a directory", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      mkdirSync(`${directory}/state.db`)
      assert.match(yield* refused(`${directory}/state.db`), /^ cannot be created: check that its path/u)
    })
  )

  it.effect("a file that is no database", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      writeFileSync(path, "sessions:\n".repeat(1000))
      assert.match(yield* refused(path), /^ is damaged or no database: move it away/u)
      assert.strictEqual(statSync(path).size, 10_000)
    })
  )

  it.effect("a database that was cut short", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(path, Effect.andThen(create, append("long ".repeat(10_000))))
      truncateSync(path, 8192)
      const error = yield* Effect.flip(withStore(path, read))
      assert.match(
        error.message,
        / is damaged: `hermes sessions repair` rescues what is readable and keeps the damaged file$/u
      )
      const { done, keptAt } = yield* Effect.provide(
        SessionMaintenance.repair(path, { checkOnly: false }),
        NodeServices.layer
      )
      assert.match(done[0] ?? "", /^wrote what is readable to a new file/u)
      assert.strictEqual(statSync(keptAt ?? "").size, 8192)
      yield* withStore(path, create)
    })
  )

  it.effect("a database with a row that its table does not allow: the repair says where something is lost", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(path, Effect.andThen(create, Effect.andThen(append("kept"), append("lost"))))
      yield* Effect.scoped(
        Effect.map(rival(path), (other) => {
          const allow = (from: string, to: string) =>
            other.exec(
              `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}') WHERE name = 'messages'; PRAGMA writable_schema = RESET`
            )
          other.enableDefensive(false)
          allow("content TEXT NOT NULL", "content TEXT NULL")
          other.exec("UPDATE messages SET content = NULL WHERE position = 1")
          allow("content TEXT NULL", "content TEXT NOT NULL")
        })
      )
      const { done, keptAt, problems } = yield* Effect.provide(
        SessionMaintenance.repair(path, { checkOnly: false }),
        NodeServices.layer
      )
      assert.match(problems.join(), /NULL value in messages\.content/u)
      assert.deepStrictEqual(done, [
        "wrote what is readable to a new file (1 session, 1 message; lost: 1 message); incomplete: messages",
        "counted the messages of 1 session"
      ])
      assert.isTrue(existsSync(keptAt ?? ""))
      assert.deepStrictEqual(yield* withStore(path, read), [makeUserMessage("kept")])
    })
  )

  it.effect("the database of another program", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const other = yield* rival(path)
      other.exec("CREATE TABLE sessions (id TEXT)")
      assert.match(yield* refused(path), /^ is the database of another program: move it away/u)
    })
  )
})

describe("other processes", () => {
  it.live("a writer waits for the lock, longer than SQLite does", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(
        path,
        Effect.gen(function* () {
          yield* create
          const other = yield* rival(path)
          other.exec("BEGIN IMMEDIATE")
          const writing = yield* Effect.forkChild(append("patient"), { startImmediately: true })
          // Nothing else runs while SQLite waits: when this does, the first attempt has failed.
          yield* Effect.sleep(1)
          other.exec("COMMIT")
          yield* Fiber.join(writing)
          assert.deepStrictEqual(yield* read, [makeUserMessage("patient")])
        })
      )
    })
  )

  it.effect("reading does not wait for a writer", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(
        path,
        Effect.gen(function* () {
          yield* create
          yield* append("before")
          const other = yield* rival(path)
          other.exec("BEGIN IMMEDIATE; DELETE FROM messages")
          assert.deepStrictEqual(yield* read, [makeUserMessage("before")])
        })
      )
    })
  )

  it.effect("the log is carried over to the database a second after a write", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* withStore(
        `${directory}/state.db`,
        Effect.gen(function* () {
          yield* create
          for (let index = 1; index < 60; index++) yield* append(`message ${index}`)
          yield* TestClock.adjust("1 second")
          yield* append("later")
          copyFileSync(`${directory}/state.db`, `${directory}/copy.db`)
        })
      )
      assert.strictEqual((yield* withStore(`${directory}/copy.db`, read)).length, 59)
    })
  )
})

describe("stored messages", () => {
  it.effect("are versioned envelopes", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(path, Effect.andThen(create, append("hello")))
      const other = yield* rival(path)
      assert.deepStrictEqual(
        other
          .prepare("SELECT envelope FROM messages")
          .all()
          .map((row) => JSON.parse(String(row["envelope"]))),
        [{ v: 1, message: { role: "user", content: "hello", options: {} } }]
      )
    })
  )

  it.effect("in a newer format are an error that names the message, and stay", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const newer = '{"v":2,"turn":{}}'
      yield* withStore(
        path,
        Effect.gen(function* () {
          yield* create
          yield* append("first")
          yield* append("second")
          const other = yield* rival(path)
          other.prepare("UPDATE messages SET envelope = ? WHERE position = 1").run(newer)
          const error = yield* Effect.flip(read)
          assert.strictEqual(error.operation, "messages")
          assert.match(error.message, /^message 1 of session s was written in format 2 by a newer version: update/u)
          yield* append("third")
          assert.deepStrictEqual(
            other
              .prepare("SELECT envelope FROM messages WHERE position = 1")
              .all()
              .map((row) => row["envelope"]),
            [newer]
          )
        })
      )
    })
  )

  it.effect("that are damaged are an error that names the message", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* withStore(
        path,
        Effect.gen(function* () {
          yield* create
          yield* append("first")
          const other = yield* rival(path)
          for (const envelope of ["", "{", "{}", '{"v":1}', '{"v":1,"message":{"role":"boss"}}', "null"]) {
            other.prepare("UPDATE messages SET envelope = ?").run(envelope)
            const error = yield* Effect.flip(read)
            assert.match(error.message, /^message 0 of session s is damaged: [^\n]*$/u)
          }
        })
      )
    })
  )

  it.effect("that JSON can not express are refused whole, before anything is written", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const cycle: Record<string, unknown> = {}
      cycle["self"] = cycle
      yield* withStore(
        path,
        Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          yield* create
          for (const params of [cycle, { n: 1n }]) {
            const call = Prompt.toolCallPart({ id: "c", name: "tool", params, providerExecuted: false })
            const error = yield* Effect.flip(
              store.append(id, [makeUserMessage("fine"), Prompt.assistantMessage({ content: [call] })])
            )
            assert.match(
              error.message,
              /^a message of role assistant cannot be stored \([^\n]*\): give tools results of plain JSON data$/u
            )
          }
          assert.deepStrictEqual(yield* read, [])
        })
      )
    })
  )
})
