// The conformance suite of session stores over a real Postgres, and what goes wrong with one.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as PostgresClient from "../../src/base/platform/PostgresClient.ts"
import * as PostgresLeases from "../../src/base/platform/PostgresLeases.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as SearchWords from "../../src/store/SearchWords.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { makeNewSession, suite, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { eventually } from "../support/waiting.ts"

const id = SessionId.make("s")

describe.skipIf(missing !== undefined)(`Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  let schemas = 0
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  const at = (url: string) => SessionStore.layerPostgres({ url: Redacted.make(url), connections: 3 })
  /** A store with tables of its own. */
  const layer = Layer.unwrap(Effect.sync(() => at(server.url(`s${schemas++}`))))

  suite("PostgresSessionStore", layer)

  it.live("search finds what other stores find: by the index, and in messages that are not in it", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const pieces = [
        "red",
        "green",
        "Blue",
        "réd",
        "red_green",
        "greenish",
        "12",
        "3.14",
        "会",
        "会議",
        "議事録",
        "สวัสดี",
        "안녕",
        "İstanbul",
        "ﬁne",
        "a\u0301b",
        "\0x",
        "x".repeat(90),
        "x".repeat(91),
        "O'Neil",
        "back\\slash",
        "\ue000"
      ]
      // A fixed sequence.
      let state = 7
      const random = (count: number): number =>
        ((state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) >>> 16) % count
      const some = (count: number): string =>
        Array.from({ length: count }, () => pieces[random(pieces.length)] ?? "").join(random(3) === 0 ? "" : " ")
      const texts = Array.from({ length: 200 }, () => some(1 + random(6)))
      const operators = ["*", " NOT ", " OR ", '"', "(", "-"]
      const queries = [
        "red",
        "gre*",
        '"red green"',
        `${"x".repeat(80)}*`,
        "会",
        "会議 NOT red",
        "'",
        "\\",
        ...Array.from({ length: 100 }, () => some(1 + random(2)) + (operators[random(12)] ?? "") + some(random(2)))
      ]
      const fill = Effect.gen(function* () {
        const { append, create } = yield* SessionStore.SessionStore
        yield* create(makeNewSession("s"))
        for (let from = 0; from < texts.length; from += 50)
          yield* append(id, texts.slice(from, from + 50).map(makeUserMessage))
      })
      const ask = SessionSearch.use(({ search }) =>
        Effect.forEach(queries, (query) =>
          Effect.map(search(query, { limit: 300 }), (hits) =>
            hits.map(({ messageId }) => messageId).toSorted((a, b) => a - b)
          )
        )
      )
      const expected = yield* Effect.provide(Effect.andThen(fill, ask), SessionStore.layerMemory, { local: true })
      // The index of SQLite takes letters beside signs that are words of their own for one word.
      const isApart = (position: number): boolean =>
        !/(?:[a-z0-9]|\u0301)(?:会|議|ส|안)|(?:会|議|録|ดี|녕)[a-zİﬁ0-9]/iu.test(texts[position] ?? "")
      const sqlite = yield* Effect.provide(
        Effect.andThen(fill, ask),
        SessionStore.layerSqlite({ path: `${directory}/state.db` }),
        { local: true }
      )
      assert.deepStrictEqual(
        sqlite.map((found) => found.filter(isApart)),
        expected.map((found) => found.filter(isApart))
      )
      const schema = `s${schemas++}`
      const check = (found: ReadonlyArray<ReadonlyArray<number>>, place: string) => {
        for (const [index, query] of queries.entries())
          assert.deepStrictEqual(found[index], expected[index], `${query} ${place}`)
      }
      yield* Effect.provide(
        Effect.gen(function* () {
          yield* fill
          check(yield* ask, "by the index")
          const plan = server.query(
            `SET enable_seqscan = off; EXPLAIN SELECT id FROM ${schema}.messages WHERE words @@ CAST('red' AS tsquery) OR (words IS NULL AND position('red' in folded) > 0)`
          )
          for (const name of ["messages_words", "messages_without_words"]) assert.include(plan, name)
          // As messages of before the index are.
          const old = texts.slice(0, 100).map(
            (text, position) => `UPDATE ${schema}.messages SET words = NULL,
          folded = convert_from(decode('${Buffer.from(SearchWords.fold(text.replaceAll("\0", " "))).toString("hex")}', 'hex'), 'UTF8') WHERE position = ${position}`
          )
          server.query(old.join("; "))
          check(yield* ask, "with old messages")
          // One with too many words for the index.
          yield* SessionStore.SessionStore.use((store) =>
            store.append(id, [makeUserMessage(Array.from({ length: 40_000 }, (_, index) => `word${index}`).join(" "))])
          )
          assert.strictEqual(server.query(`SELECT count(*) FROM ${schema}.messages WHERE words IS NULL`), "101")
          assert.deepStrictEqual(
            (yield* SessionSearch.use(({ search }) => search("word39999"))).map(({ messageId }) => messageId),
            [texts.length]
          )
        }),
        at(server.url(schema)),
        { local: true }
      )
      assert.isAbove(expected.filter((found) => found.length > 0).length, 70)
    })
  )

  describe("faults", () => {
    it.live(
      "a server that goes away and comes back is waited for, which is said once; each message is there once",
      () =>
        Effect.gen(function* () {
          const told: Array<string> = []
          const logger = Logger.make<unknown, void>(({ message }) => void told.push(String(message)))
          yield* Effect.gen(function* () {
            const store = yield* SessionStore.SessionStore
            yield* store.create(makeNewSession("s"))
            const writing = yield* Effect.forkChild(
              Effect.forEach(
                Array.from({ length: 400 }, (_, index) => index),
                (index) => store.append(id, [makeUserMessage(`message ${index}`)])
              )
            )
            for (let round = 0; round < 3; round++) {
              yield* Effect.sleep("60 millis")
              yield* Effect.promise(server.stop)
              yield* Effect.sleep("300 millis")
              yield* Effect.promise(server.start)
            }
            const positions = yield* Fiber.join(writing)
            assert.deepStrictEqual(
              positions,
              positions.map((_, index) => index)
            )
            const messages = yield* store.messages(id)
            assert.deepStrictEqual(
              messages.map(({ content }) => JSON.stringify(content).match(/message (\d+)/)?.[1]),
              positions.map(String)
            )
            assert.strictEqual(Option.getOrThrow(yield* store.get(id)).messageCount, 400)
          }).pipe(Effect.provide(layer, { local: true }), Effect.provide(Logger.layer([logger])))
          assert.isAtMost(told.filter((line) => line.includes("waiting for it")).length, 3, told.join("\n"))
          assert.isAtLeast(told.filter((line) => line.includes("waiting for it")).length, 1)
          assert.deepStrictEqual(
            told.filter((line) => line.includes("hermes@")),
            []
          )
        })
    )

    it.live("an outage that work without logs notices first is reported, and its end", () =>
      Effect.gen(function* () {
        const told: Array<string> = []
        const logger = Logger.make<unknown, void>(({ message }) => void told.push(String(message)))
        yield* Effect.gen(function* () {
          const sql = yield* PostgresClient.open({ url: Redacted.make(server.url(`s${schemas++}`)), connections: 2 })
          yield* Effect.promise(server.stop)
          const reading = yield* Effect.forkChild(
            sql.waiting(sql`SELECT 1`).pipe(Effect.provideService(References.MinimumLogLevel, "Fatal"))
          )
          yield* eventually(
            "a line about the server",
            Effect.sync(() => told.length > 0)
          ).pipe(Effect.ensuring(Effect.promise(server.start)))
          yield* Fiber.join(reading)
        }).pipe(Effect.provide(Logger.layer([logger])))
        assert.strictEqual(told.length, 2, told.join("\n"))
        assert.include(told[0], "waiting for it")
        assert.include(told[1], "The database answers again")
      })
    )

    it.live("a notification of a transaction is sent by its commit", () =>
      Effect.gen(function* () {
        const sql = yield* PostgresClient.open({ url: Redacted.make(server.url(`s${schemas++}`)), connections: 3 })
        const payloads = yield* sql.listen("committed")
        yield* Effect.exit(sql.transaction(Effect.andThen(sql.notify("committed", "taken back"), Effect.fail("no"))))
        yield* sql.transaction(sql.notify("committed", "kept"))
        assert.strictEqual(yield* Queue.take(payloads), "kept")
      })
    )

    it.live("a session has one owner over all processes; its messages are written by nobody else", () =>
      Effect.gen(function* () {
        const url = server.url(`s${schemas++}`)
        const owned = Effect.gen(function* () {
          const first = yield* SessionStore.SessionStore
          yield* first.create(makeNewSession("s"))
          yield* first.acquire(id)
          const busy = yield* Effect.flip(
            Effect.scoped(
              SessionStore.SessionStore.use((second) => second.acquire(id)).pipe(
                Effect.provide(at(url), { local: true })
              )
            )
          )
          assert.strictEqual(busy._tag, "SessionBusy")
          // As if it had been taken over while this process stood still.
          server.query(`UPDATE s${schemas - 1}.leases SET owner = 'another'`)
          const lost = yield* Effect.flip(first.append(id, [makeUserMessage("late")]))
          assert.strictEqual(
            lost.message,
            "session s was taken over by another process: wait for its run to end, then resume the session"
          )
          // Nor is a call begun, which would be a side effect of its own.
          const begun = yield* Effect.flip(first.begin(id, ["call"]))
          assert.strictEqual(begun.message, lost.message)
          assert.deepStrictEqual([yield* first.messages(id), Array.from(yield* first.begun(id))], [[], []])
        })
        yield* Effect.scoped(owned).pipe(Effect.provide(at(url), { local: true }))
      })
    )

    it.live("a lease that was lost and taken again is the later one's: the end of the earlier does not touch it", () =>
      Effect.gen(function* () {
        const name = `s${schemas++}`
        const own = Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          yield* store.create(makeNewSession("s"))
          const [earlier, later] = [yield* Scope.make(), yield* Scope.make()]
          yield* Scope.provide(store.acquire(id), earlier)
          // As if another process had had it in the meantime.
          server.query(`DELETE FROM ${name}.leases`)
          yield* Scope.provide(store.acquire(id), later)
          yield* Scope.close(earlier, Exit.void)
          assert.strictEqual(yield* store.append(id, [makeUserMessage("in time")]), 0)
          server.query(`UPDATE ${name}.leases SET owner = 'another'`)
          assert.strictEqual(
            (yield* Effect.flip(store.append(id, [makeUserMessage("late")]))).message,
            "session s was taken over by another process: wait for its run to end, then resume the session"
          )
          yield* Scope.close(later, Exit.void)
        })
        yield* Effect.provide(own, at(server.url(name)), { local: true })
      })
    )

    it.live("a lease is given to one of many who ask in one process, in whichever order their statements arrive", () =>
      Effect.gen(function* () {
        const sql = yield* PostgresClient.open({ url: Redacted.make(server.url(`s${schemas++}`)), connections: 3 })
        yield* sql.unsafe(
          `CREATE SCHEMA ${PostgresClient.readSchemaName(Redacted.make(server.url(`s${schemas - 1}`)))}`
        )
        yield* sql.unsafe(PostgresLeases.table)
        const [asked, open] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        let statements = 0
        // The first statement arrives last.
        const leases = PostgresLeases.make<SqlError>(sql, yield* PostgresLeases.holdProcess(sql), (effect) =>
          Effect.suspend(() =>
            statements++ > 0
              ? effect
              : Deferred.succeed(asked, undefined).pipe(Effect.andThen(Deferred.await(open)), Effect.andThen(effect))
          )
        )
        const first = yield* Effect.forkChild(Effect.exit(Effect.scoped(leases.take("one"))))
        yield* Deferred.await(asked)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const second = yield* leases.take("one")
            const owner = leases.getOwner("one")
            yield* Deferred.succeed(open, undefined)
            const refused = yield* Effect.flip(yield* Fiber.join(first))
            assert.deepStrictEqual([refused._tag, "isOwn" in refused && refused.isOwn], ["LeaseTaken", true])
            assert.deepStrictEqual([yield* second.isHeld, leases.getOwner("one")], [true, owner])
            assert.strictEqual(
              yield* Effect.map(sql<{ readonly owner: string }>`SELECT owner FROM leases`, ([row]) => row?.owner),
              owner
            )
          })
        )
        yield* Effect.scoped(leases.take("one"))
      })
    )

    it.live("a lease that could not be given back is free for its own process, and for no other", () =>
      Effect.gen(function* () {
        const name = `s${schemas++}`
        const own = Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          yield* store.create(makeNewSession("s"))
          yield* Effect.scoped(
            Effect.gen(function* () {
              yield* store.acquire(id)
              // Within the process it is one at a time.
              assert.strictEqual((yield* Effect.flip(Effect.scoped(store.acquire(id))))._tag, "SessionBusy")
              // As if the server were away at its end.
              server.query(
                `CREATE RULE kept AS ON DELETE TO ${name}.leases DO INSTEAD SELECT name FROM ${name}.leases WHERE FALSE`
              )
            })
          )
          server.query(`DROP RULE kept ON ${name}.leases`)
          const other = yield* Effect.flip(
            Effect.scoped(
              Effect.provide(
                SessionStore.SessionStore.use((second) => second.acquire(id)),
                at(server.url(name)),
                { local: true }
              )
            )
          )
          assert.strictEqual(other._tag, "SessionBusy")
          yield* Effect.scoped(store.acquire(id))
        })
        yield* Effect.provide(own, at(server.url(name)), { local: true })
      })
    )

    const refused = (url: string) =>
      Effect.map(
        Effect.flip(
          Effect.provide(
            SessionStore.SessionStore.use((store) => store.list()),
            at(url),
            { local: true }
          )
        ),
        ({ message }) => message
      )

    it.live("an address that is wrong is one line at once, without its password", () =>
      Effect.gen(function* () {
        assert.strictEqual(
          yield* refused("mysql://a:secret@localhost/x"),
          "store.url or cluster.database_url is not a Postgres address: write postgres://user:password@host:port/database"
        )
        assert.match(
          yield* refused("postgres://a:secret@127.0.0.1:1/x"),
          /^Postgres at 127\.0\.0\.1:1\/x does not answer \(ECONNREFUSED\)$/
        )
        assert.match(
          yield* refused(server.url("x", "nowhere")),
          /nowhere: no such database; create it, or correct store\.url or cluster\.database_url$/
        )
        assert.match(
          yield* refused(server.url("x").replace("hermes@", "stranger:secret@")),
          /refuses the login: correct user and password/
        )
      })
    )

    it.live("a schema of a later version is refused and left as it is", () =>
      Effect.gen(function* () {
        const name = `s${schemas++}`
        yield* Effect.provide(
          SessionStore.SessionStore.use((store) => store.list()),
          at(server.url(name)),
          { local: true }
        )
        server.query(`INSERT INTO ${name}.schema_version VALUES (99, 'later')`)
        assert.match(
          yield* refused(server.url(name)),
          /was written by a newer version \(schema 99; supported: \d+\): update hermes on this machine to use it$/
        )
      })
    )
  })
})
