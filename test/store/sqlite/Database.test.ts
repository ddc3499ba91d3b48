import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { createHash } from "node:crypto"
import { copyFileSync, statSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as SqliteClient from "../../../src/base/platform/SqliteClient.ts"
import * as Database from "../../../src/store/sqlite/Database.ts"
import * as Migrations from "../../../src/store/sqlite/Migrations.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const id = SessionId.make("s")

/** What `node:sqlite` throws. */
const sqliteError = (errcode: number, message: string): Error =>
  Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode })

const noChanges =
  (all: SqliteClient.Database["all"]): SqliteClient.Database["run"] =>
  (sql, parameters) => {
    all(sql, parameters)
    return { changes: 0, lastInsertRowid: 0 }
  }

/** A database that answers statements as told, and remembers them. */
const scripted = (answer: (sql: string) => ReadonlyArray<SqliteClient.Row>) => {
  const statements: Array<string> = []
  const all = (sql: string): ReadonlyArray<SqliteClient.Row> => {
    statements.push(sql)
    return answer(sql)
  }
  const database: SqliteClient.Database = {
    all,
    once: all,
    run: noChanges(all),
    isTransaction: () => false,
    close: () => {}
  }
  return { statements, database }
}

describe("the journal", () => {
  const configured = (answer: (sql: string) => ReadonlyArray<SqliteClient.Row>) =>
    Effect.gen(function* () {
      const { database, statements } = scripted(answer)
      yield* SqliteClient.configure(yield* SqliteClient.make(database))
      return statements
    })

  it.effect("is a write-ahead log, which need not be synchronised on every write", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* configured(() => [{ journal_mode: "wal" }]), [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = NORMAL"
      ])
    })
  )

  it.effect("stays a rollback journal where SQLite says that a log is impossible", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* configured(() => [{ journal_mode: "delete" }]), [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL"
      ])
    })
  )

  it.effect("becomes a rollback journal where the attempt fails", () =>
    Effect.gen(function* () {
      const statements = yield* configured((sql) => {
        if (sql.endsWith("WAL")) throw sqliteError(4874, "disk I/O error")
        return [{ journal_mode: "delete" }]
      })
      assert.deepStrictEqual(statements, [
        "PRAGMA journal_mode = WAL",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA synchronous = FULL"
      ])
    })
  )

  it.effect("is not given up because somebody else holds the lock", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        configured(() => {
          throw sqliteError(5, "database is locked")
        })
      )
      assert.strictEqual(error.reason._tag, "LockTimeoutError")
    })
  )
})

describe("a lock", () => {
  it.effect("is waited for 15 seconds in pauses of 20 to 150 ms, then it is a failure with a remedy", () =>
    Effect.gen(function* () {
      const { database, statements } = scripted(() => {
        throw sqliteError(5, "database is locked")
      })
      const { write } = Database.make("/home/state.db", yield* SqliteClient.make(database))
      const writing = yield* Effect.forkChild(Effect.flip(write("append", Effect.void)), { startImmediately: true })
      yield* TestClock.adjust("16 seconds")
      const error = yield* Fiber.join(writing)
      assert.strictEqual(error.operation, "append")
      assert.strictEqual(
        error.message,
        "/home/state.db stayed locked: another program is holding it, close that one and try again"
      )
      assert.deepStrictEqual(Array.from(new Set(statements)), ["BEGIN IMMEDIATE"])
      assert.isAtLeast(statements.length, 15_000 / 150)
      assert.isAtMost(statements.length, 1 + 15_000 / 20)
    })
  )
})

describe("a checkpoint", () => {
  /** Opens a database, with the messages that its file has without its log. */
  const opened = Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const path = `${directory}/state.db`
    const { store } = yield* SqliteStore.open(path)
    yield* store.create(makeNewSession(id))
    yield* TestClock.adjust("1 second")
    const countInFile = Effect.sync(() => {
      copyFileSync(path, `${directory}/copy.db`)
      const copy = new DatabaseSync(`${directory}/copy.db`)
      try {
        return copy.prepare("SELECT count(*) AS count FROM messages").get()?.["count"]
      } finally {
        copy.close()
      }
    })
    return { store, countInFile, log: `${path}-wal` }
  })

  it.effect("follows each write after a second", () =>
    Effect.gen(function* () {
      const { countInFile, store } = yield* opened
      for (const count of [1, 2]) {
        yield* store.append(id, [makeUserMessage("hello")])
        assert.strictEqual(yield* countInFile, count - 1)
        yield* TestClock.adjust("999 millis")
        assert.strictEqual(yield* countInFile, count - 1)
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* countInFile, count)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is made by the writes of a log that has grown to 16 MB", () =>
    Effect.gen(function* () {
      const { log, store } = yield* opened
      const text = "x".repeat(1_000_000)
      for (let count = 0; count < 24; count++) yield* store.append(id, [makeUserMessage(text)])
      assert.isAtLeast(statSync(log).size, 16_000_000)
      assert.isAtMost(statSync(log).size, 20_000_000)
    }).pipe(Effect.scoped)
  )
})

describe("a transaction", () => {
  /** Statements of a transaction that one statement fails in, and what ran after it. */
  const refusing = (refused: string) =>
    Effect.gen(function* () {
      let isOpen = false
      const statements: Array<string> = []
      const all = (text: string): ReadonlyArray<SqliteClient.Row> => {
        statements.push(text)
        if (text === refused) throw sqliteError(787, "FOREIGN KEY constraint failed")
        if (text.startsWith("BEGIN")) isOpen = true
        if (text === "COMMIT" || text === "ROLLBACK") isOpen = false
        return []
      }
      const client = yield* SqliteClient.make({
        all,
        once: all,
        run: noChanges(all),
        isTransaction: () => isOpen,
        close: () => {}
      })
      const told: Array<string> = []
      const write = client.transaction(
        Effect.gen(function* () {
          yield* client.afterTransaction(Effect.sync(() => void told.push(`after ${statements.join(", ")}`)))
          yield* client.statements((all) => all("one", []))
          yield* client.unsafe("two")
        })
      )
      return { statements, told, client, exit: yield* Effect.exit(write) }
    })

  it.effect("is committed, and then what waits for it runs", () =>
    Effect.gen(function* () {
      const { exit, statements, told } = yield* refusing("none")
      assert.isTrue(exit._tag === "Success")
      assert.deepStrictEqual(statements, ["BEGIN IMMEDIATE", "one", "two", "COMMIT"])
      assert.deepStrictEqual(told, ["after BEGIN IMMEDIATE, one, two, COMMIT"])
    })
  )

  it.effect(
    "is rolled back where a statement or the commit fails; nothing that waits for it runs, and the next one begins",
    () =>
      Effect.gen(function* () {
        for (const refused of ["one", "two", "COMMIT"]) {
          const { client, exit, statements, told } = yield* refusing(refused)
          assert.isTrue(exit._tag === "Failure")
          assert.deepStrictEqual(statements.slice(-2), [refused, "ROLLBACK"])
          assert.deepStrictEqual(told, [])
          const next = yield* Effect.exit(
            client.transaction(client.afterTransaction(Effect.sync(() => void told.push("next"))))
          )
          assert.deepStrictEqual([next._tag, told], refused === "COMMIT" ? ["Failure", []] : ["Success", ["next"]])
        }
      })
  )

  it.effect("is rolled back where its Effect dies", () =>
    Effect.gen(function* () {
      const { client, statements } = yield* refusing("none")
      yield* Effect.exit(client.transaction(Effect.die("fault")))
      assert.deepStrictEqual(statements.slice(-2), ["BEGIN IMMEDIATE", "ROLLBACK"])
      yield* client.transaction(Effect.void)
      assert.deepStrictEqual(statements.slice(-2), ["BEGIN IMMEDIATE", "COMMIT"])
    })
  )

  it.effect("runs what was put off before the next statement of the client, and before its end", () =>
    Effect.gen(function* () {
      const { client, statements } = yield* refusing("none")
      statements.length = 0
      const put = (text: string) => client.statements((_, transaction) => transaction.putOff((all) => all(text, [])))
      yield* client.transaction(
        Effect.gen(function* () {
          yield* put("late")
          yield* client.statements((all) => all("direct", []))
          yield* client.unsafe("other")
          yield* put("later")
        })
      )
      assert.deepStrictEqual(statements, ["BEGIN IMMEDIATE", "direct", "late", "other", "later", "COMMIT"])
    })
  )

  it.effect(
    "is rolled back where what was put off fails, also if somebody went on; what was put off in it is never done",
    () =>
      Effect.gen(function* () {
        const { client, statements } = yield* refusing("bad")
        statements.length = 0
        const put = (text: string) => client.statements((_, transaction) => transaction.putOff((all) => all(text, [])))
        const failing = Effect.andThen(put("bad"), put("never"))
        assert.isTrue((yield* Effect.exit(client.transaction(failing)))._tag === "Failure")
        assert.isTrue(
          (yield* Effect.exit(client.transaction(Effect.andThen(failing, Effect.ignore(client.unsafe("other"))))))
            ._tag === "Failure"
        )
        yield* Effect.exit(client.transaction(Effect.andThen(put("never"), Effect.die("fault"))))
        yield* client.unsafe("next")
        yield* client.transaction(Effect.void)
        assert.deepStrictEqual(statements.join(", ").split(", BEGIN IMMEDIATE, "), [
          "BEGIN IMMEDIATE, bad, ROLLBACK",
          "bad, bad, ROLLBACK",
          "ROLLBACK, next",
          "COMMIT"
        ])
      })
  )
})

describe("the row of a session", () => {
  const counted = { ...Usage.zero, inputTokens: 3, requestCount: 1 }
  const usage = {
    provider: "p",
    model: "m",
    usage: counted,
    cost: { usd: 0.5, status: "estimated", source: "official_docs_snapshot" }
  } as const

  it.effect("is written once in a transaction, whatever changes in it, in the order of the operations", () =>
    Effect.gen(function* () {
      const database = yield* Database.open(`${yield* temporaryDirectory}/state.db`)
      const store = SqliteStore.make(database)
      const other = SessionId.make("other")
      yield* store.create(makeNewSession(id))
      yield* store.create(makeNewSession(other))
      yield* database.sql`CREATE TEMP TABLE updates (id TEXT)`
      yield* database.sql`CREATE TEMP TRIGGER updated AFTER UPDATE ON sessions BEGIN INSERT INTO updates VALUES (old.id); END`
      yield* database.together(
        Effect.gen(function* () {
          yield* store.recordUsage(id, usage)
          assert.strictEqual(yield* store.append(id, [makeUserMessage("one"), makeUserMessage("two")]), 0)
          yield* store.recordUsage(id, { ...usage, cost: { usd: null, status: "unknown", source: "none" } })
          assert.strictEqual(yield* store.append(other, [makeUserMessage("one")]), 0)
          assert.strictEqual(yield* store.append(id, [makeUserMessage("three")]), 2)
          yield* store.begin(id, ["call"])
        })
      )
      assert.deepStrictEqual(yield* database.sql`SELECT id, count(*) AS count FROM updates GROUP BY id`, [
        { id: "other", count: 1 },
        { id: "s", count: 1 }
      ])
      const { cost, messageCount, usage: sums } = Option.getOrThrow(yield* store.get(id))
      assert.deepStrictEqual(
        [messageCount, sums.inputTokens, sums.requestCount, cost],
        [3, 6, 2, { usd: 0.5, status: "unknown", source: "none" }]
      )
      assert.deepStrictEqual(
        (yield* store.usageByModel(id)).map(({ usage }) => usage),
        [sums]
      )
      assert.lengthOf(yield* store.messages(id), 3)

      const reason = yield* database.together(
        Effect.gen(function* () {
          yield* store.append(id, [makeUserMessage("four")])
          assert.strictEqual(Option.getOrThrow(yield* store.get(id)).messageCount, 4)
          assert.strictEqual(yield* store.append(id, [makeUserMessage("behind what was read")]), 4)
          yield* store.recordUsage(id, usage)
          yield* store.end(id, "done")
          return Option.getOrThrow(yield* store.get(id)).endReason
        })
      )
      assert.deepStrictEqual([reason, Option.getOrThrow(yield* store.get(id)).endReason], ["done", "done"])
      const behind = Option.getOrThrow(yield* store.get(id))
      assert.deepStrictEqual([behind.messageCount, behind.usage.requestCount], [5, 3])
      yield* store.append(id, [makeUserMessage("five")])
      assert.isUndefined(Option.getOrThrow(yield* store.get(id)).endReason)
    })
  )
})

describe("a full disk", () => {
  it.effect("is a failure with a remedy, and what was stored stays readable and writable", () =>
    Effect.gen(function* () {
      const database = yield* Database.open(`${yield* temporaryDirectory}/state.db`)
      const store = SqliteStore.make(database)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("kept")])
      yield* database.sql`PRAGMA max_page_count = 60`
      const error = yield* Effect.flip(
        store.append(id, [makeUserMessage("lost"), makeUserMessage("too long ".repeat(50_000))])
      )
      assert.match(error.message, /state\.db cannot grow because the disk is full: free some space and try again/u)
      assert.deepStrictEqual(yield* store.messages(id), [makeUserMessage("kept")])
      yield* database.sql`PRAGMA max_page_count = 10000`
      yield* store.append(id, [makeUserMessage("again")])
      assert.deepStrictEqual(yield* store.messages(id), [makeUserMessage("kept"), makeUserMessage("again")])
    })
  )
})

describe("a shared commit", () => {
  /** A store whose writes share commits, and how many messages another connection sees. */
  const shared = Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const database = yield* Database.open(path, undefined, "20 millis")
    const store = SqliteStore.make(database)
    const seen = () => {
      const other = new DatabaseSync(path, { readOnly: true })
      try {
        return other
          .prepare(`SELECT (SELECT count(*) FROM messages) AS messages,
            (SELECT count(*) FROM begun_calls) + (SELECT count(begun) FROM messages) AS calls`)
          .get()
      } finally {
        other.close()
      }
    }
    return { path, database, store, seen }
  })

  it.effect(
    "holds the writes of a short time, which are read at once, and those before the start of a call at once",
    () =>
      Effect.gen(function* () {
        const { database, seen, store } = yield* shared
        yield* store.create(makeNewSession(id))
        yield* store.append(id, [makeUserMessage("one")])
        yield* store.append(id, [makeUserMessage("two")])
        assert.lengthOf(yield* store.messages(id), 2)
        assert.deepStrictEqual({ ...seen() }, { messages: 0, calls: 0 })
        yield* TestClock.adjust("20 millis")
        assert.deepStrictEqual({ ...seen() }, { messages: 2, calls: 0 })
        yield* store.append(id, [makeUserMessage("three")])
        yield* store.begin(id, ["call"])
        assert.deepStrictEqual({ ...seen() }, { messages: 3, calls: 1 })
        yield* database.together(
          Effect.andThen(store.append(id, [makeUserMessage("four")]), store.begin(id, ["other"]))
        )
        assert.deepStrictEqual({ ...seen() }, { messages: 4, calls: 2 })
        yield* store.append(id, [makeUserMessage("five")])
        yield* store.committed ?? Effect.void
        assert.deepStrictEqual({ ...seen() }, { messages: 5, calls: 2 })
      })
  )

  it.effect("leaves out a write that fails, and no other", () =>
    Effect.gen(function* () {
      const { database, seen, store } = yield* shared
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("one")])
      const failing = database.together(
        Effect.andThen(
          store.append(id, [makeUserMessage("none")]),
          store.append(SessionId.make("unknown"), [makeUserMessage("none")])
        )
      )
      assert.strictEqual((yield* Effect.flip(failing)).operation, "append")
      yield* Effect.exit(
        database.together(Effect.andThen(store.append(id, [makeUserMessage("none")]), Effect.die("fault")))
      )
      yield* store.append(id, [makeUserMessage("two")])
      yield* store.committed ?? Effect.void
      assert.deepStrictEqual({ ...seen() }, { messages: 2, calls: 0 })
    })
  )

  it.effect("that fails is told to every later write, as what was written before is not there", () =>
    Effect.gen(function* () {
      let isOpen = false
      const statements: Array<string> = []
      const all = (text: string): ReadonlyArray<SqliteClient.Row> => {
        statements.push(text)
        if (text === "COMMIT") throw sqliteError(13, "database or disk is full")
        if (text.startsWith("BEGIN")) isOpen = true
        if (text === "ROLLBACK") isOpen = false
        return []
      }
      const scope = yield* Effect.scope
      const client = yield* SqliteClient.make(
        { all, once: all, run: noChanges(all), isTransaction: () => isOpen, close: () => {} },
        { within: "20 millis", scope }
      )
      const { write } = Database.make("/home/state.db", client)
      yield* write("append", Effect.void)
      yield* TestClock.adjust("20 millis")
      assert.deepStrictEqual(statements, [
        "BEGIN IMMEDIATE",
        "SAVEPOINT one_write",
        "RELEASE one_write",
        "COMMIT",
        "ROLLBACK"
      ])
      for (const later of [
        write("append", Effect.void),
        Database.make("/home/state.db", client).committed ?? Effect.void
      ]) {
        assert.match(
          (yield* Effect.flip(later)).message,
          /^\/home\/state\.db cannot grow because the disk is full: free some space and try again/u
        )
      }
      assert.lengthOf(statements, 5)
    })
  )

  it.effect("is made when the database is closed", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const store = SqliteStore.make(yield* Database.open(path, undefined, "1 hour"))
          yield* store.create(makeNewSession(id))
          yield* store.append(id, [makeUserMessage("one")])
        })
      )
      assert.deepStrictEqual(yield* SqliteStore.make(yield* Database.open(path)).messages(id), [makeUserMessage("one")])
    })
  )
})

describe("migrations", () => {
  const known = Migrations.migrations.map(({ version }) => version)
  const later: Migrations.Migration = {
    version: known.length + 1,
    name: "pins",
    statements: [
      "ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
      "CREATE INDEX sessions_pinned ON sessions (pinned)"
    ]
  }

  it("that was released never changes: a change of the tables is a new one", () => {
    const digests = Migrations.migrations.map((_, index) =>
      createHash("sha256")
        .update(JSON.stringify(Migrations.migrations.slice(0, index + 1)))
        .digest("hex")
    )
    assert.deepStrictEqual(digests, [
      "b32bc381980aa933772a7f224aa29e819c5a89e9e7df1788475611a95e043f4c",
      "3db3a30e7d6b0e6bb75fdf053abadfc3a5e8133fc9442a6e77835d3e90298f42",
      "0b545493481528840e3bfc9f761bc18a337822a7f15b6327848fd62b3ed6dc22",
      "8e86a14a91bfed1fa422b473d90f750c9b5c9d59e64644760f4aed8930b0ac73",
      "732efeebf01b8af268e3ffa97c42b023a3c9777148ea6388b51bf2e286fb8279",
      "47ddda6e243afc74d28cb474b48559f130e6dc92e8bdf5e498fd3c62a0445344",
      "580d4d40b9c441c5921c230afcc16241509fa91d71de1050a7058d19f1bf9da6",
      "a313627043729564f1960e10a350ddf984b0a834539b97e658e7578eb627e4cf",
      "05cdd9668e05956b738aa5e24e6300c8387a16f8cf99576f38cb9b0bdcce7ab6",
      "3daf4a29372f0034d61446d812976c3540443f7ea15b0a214e234596bcf830d9",
      "cfbe1c351609788d9a205cae2d47e381510a7eb6d4158d74db9e1c1b44a17d17",
      "e43635b5deaecbceeae16e14a1c8bc6183d52b420e7e3c5ab736bced65d44a56",
      "77c565bc616ec3f726279186d6ab5dbcc84a9aeb05394ef9e8d3f4751e381545",
      "ac0f18184d4a564747e18e082329309926b057cd99af20cd812035e44dd9ef69",
      "bf69598fd0a7956a3066ab6cec475f5fc53a694472f472c187ed35abd3692280"
    ])
  })

  const older = Effect.fnUntraced(function* (path: string) {
    const store = SqliteStore.make(yield* Database.open(path))
    yield* store.create(makeNewSession(id, { title: "Old" }))
    yield* store.append(id, [makeUserMessage("from the older version")])
  }, Effect.scoped)

  const versions = (path: string): ReadonlyArray<unknown> => {
    const database = new DatabaseSync(path)
    try {
      return database
        .prepare("SELECT version FROM schema_version ORDER BY version")
        .all()
        .map((row) => row["version"])
    } finally {
      database.close()
    }
  }

  it.effect("a database of an older version is brought up to date when it is opened, with all that is in it", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* older(path)
      assert.deepStrictEqual(versions(path), known)
      const store = SqliteStore.make(yield* Database.open(path, [...Migrations.migrations, later]))
      assert.deepStrictEqual(yield* store.messages(id), [makeUserMessage("from the older version")])
      assert.strictEqual(Option.getOrThrow(yield* store.get(id)).title, "Old")
      yield* store.append(id, [makeUserMessage("from the newer version")])
      assert.deepStrictEqual(versions(path), [...known, later.version])
    })
  )

  it.effect("sessions of version one have cost nothing that is known", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* Database.open(path, Migrations.migrations.slice(0, 1))
          yield* sql`INSERT INTO sessions (id, source, provider, model, started_at, updated_at, system_prompt)
          VALUES (${id}, 'cli', 'p', 'm', 1, 1, 'Be kind.')`
          yield* sql`INSERT INTO session_model_usage VALUES (${id}, 'p', 'm', 1, 2, 3, 4, 5, 6)`
        })
      )
      const store = SqliteStore.make(yield* Database.open(path))
      const unknown = { usd: null, status: "unknown", source: "none" } as const
      assert.deepInclude(Option.getOrThrow(yield* store.get(id)), { systemPrompt: "Be kind.", cost: unknown })
      assert.deepInclude((yield* store.usageByModel(id))[0], { model: "m", cost: unknown })
      const cost = { usd: 0.5, status: "estimated", source: "official_docs_snapshot" } as const
      yield* store.recordUsage(id, { provider: "p", model: "m", usage: Usage.zero, cost })
      assert.deepStrictEqual(Option.getOrThrow(yield* store.get(id)).cost, cost)
    })
  )

  it.effect("the table of sessions is made again with all rows that refer to it, in their order", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* Database.open(path, Migrations.migrations.slice(0, 13))
          for (const [rowid, one] of [
            [9, "first"],
            [4, "second"]
          ] as const) {
            yield* sql`INSERT INTO sessions
              (rowid, id, source, provider, model, title, tenant, branch, started_at, updated_at, system_prompt)
              VALUES (${rowid}, ${one}, 'cli', 'p', 'm', ${one}, 'acme', 'main', 1, 1, 'Be kind.')`
            yield* sql`INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls,
              envelope) VALUES (${one}, 0, 'user', 1, 'zebra', '', '', '{}')`
            yield* sql`INSERT INTO begun_calls VALUES (${one}, 'c')`
            yield* sql`INSERT INTO run_record (session_id, turn_id, at, version, kind, body)
              VALUES (${one}, 't', 1, 1, 'SessionEnded', '{}')`
            yield* sql`INSERT INTO session_notices VALUES (${one}, 'k', '{}')`
          }
        })
      )
      const { sql, write } = yield* Database.open(path)
      assert.deepStrictEqual(
        yield* sql`SELECT rowid, id, title, tenant, branch, system_prompt FROM sessions ORDER BY 1`,
        [
          { rowid: 4, id: "second", title: "second", tenant: "acme", branch: "main", system_prompt: "Be kind." },
          { rowid: 9, id: "first", title: "first", tenant: "acme", branch: "main", system_prompt: "Be kind." }
        ]
      )
      const count = Effect.map(
        sql<{ readonly rows: number }>`SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM begun_calls)
          + (SELECT count(*) FROM run_record) + (SELECT count(*) FROM session_notices) AS rows`,
        ([found]) => found?.rows
      )
      assert.strictEqual(yield* count, 8)
      assert.deepStrictEqual(yield* sql`PRAGMA foreign_key_check`, [])
      // Foreign keys are enforced again.
      yield* write("remove", sql`DELETE FROM sessions WHERE id = 'first'`)
      assert.strictEqual(yield* count, 4)
    })
  )

  it.effect("the record is made again with the numbers of its entries, which are found by session and go with it", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const entries = [
        [3, "first", "tools x"],
        [300, "second", null],
        [301, "first", null],
        [2000, "first", null]
      ] as const
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* Database.open(path, Migrations.migrations.slice(0, 14))
          for (const one of ["first", "second"])
            yield* sql`INSERT INTO sessions (id, source, provider, model, started_at, updated_at, system_prompt)
              VALUES (${one}, 'cli', 'p', 'm', 1, 1, '')`
          for (const [number, session, key] of entries)
            yield* sql`INSERT INTO run_record (id, session_id, turn_id, at, version, kind, content_key, body)
              VALUES (${number}, ${session}, 't', ${number}, 1, 'SessionEnded', ${key},
                '{"_tag":"SessionEnded","reason":"shutdown"}')`
        })
      )
      const { record, store } = yield* SqliteStore.open(path)
      const readTimes = (sessionId: string) =>
        Effect.map(Stream.runCollect(record.read({ sessionId })), (found) => found.map(({ at }) => at))
      assert.deepStrictEqual([yield* readTimes("first"), yield* readTimes("second")], [[3, 301, 2000], [300]])
      yield* store.remove(SessionId.make("first"))
      assert.deepStrictEqual([yield* readTimes("first"), yield* readTimes("second")], [[], [300]])
      const rows = new DatabaseSync(path, { readOnly: true })
      assert.deepStrictEqual(
        ["run_record", "record_parts"].map((table) => rows.prepare(`SELECT session_id FROM ${table}`).all().length),
        [1, 1]
      )
      rows.close()
    })
  )

  it.effect("is refused inside a transaction, in which foreign keys would remove rows", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const { sql } = yield* Database.open(path, Migrations.migrations.slice(0, 13))
      const migrated = sql.withTransaction(Migrations.migrate(sql, path, Migrations.migrations))
      assert.match((yield* Effect.flip(migrated)).message, /cannot be migrated within a transaction/u)
      assert.lengthOf(versions(path), 13)
    })
  )

  it.effect("a database that is up to date is not written to", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* older(path)
      const other = new DatabaseSync(path)
      yield* Effect.addFinalizer(() => Effect.sync(() => other.close()))
      other.exec("BEGIN IMMEDIATE")
      yield* Database.open(path)
    })
  )

  it.effect("a migration that fails leaves the version before it, whole", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* older(path)
      const broken = { ...later, statements: [...later.statements, "CREATE TABLE sessions (id TEXT)"] }
      const error = yield* Effect.flip(Database.open(path, [...Migrations.migrations, broken]))
      assert.match(error.message, /state\.db: table sessions already exists$/u)
      assert.deepStrictEqual(versions(path), known)
      const store = SqliteStore.make(yield* Database.open(path, [...Migrations.migrations, later]))
      assert.deepStrictEqual(yield* store.messages(id), [makeUserMessage("from the older version")])
    })
  )

  it.effect("a database of a newer version is left alone, with a remedy", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.scoped(Database.open(path, [...Migrations.migrations, later]))
      const error = yield* Effect.flip(Database.open(path))
      assert.strictEqual(
        error.message,
        `${path} was written by a newer version (schema ${later.version}; supported: ${known.length}): update hermes to open it`
      )
    })
  )
})
