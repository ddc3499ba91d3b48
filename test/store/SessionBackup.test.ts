// Backups: every row comes back, in SQLite and in Postgres and from one to the other, one state of a store that others
// write to, and nothing changes by a backup that is not whole.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { DatabaseSync } from "node:sqlite"
import type { Entry } from "../../src/base/domain/RecordEvent.ts"
import * as Cost from "../../src/base/domain/Cost.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as BackupFile from "../../src/store/BackupFile.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import { SessionBackup, type TableName, tableNames, type TableRows } from "../../src/store/SessionBackup.ts"
import * as BackupTables from "../../src/store/sql/BackupTables.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import {
  buildToolResult,
  makeAssistantMessage,
  makeNewSession,
  makeToolCalls,
  makeUserMessage
} from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

type Place = ReturnType<typeof SessionStore.layerSqlite>

/** A number of sessions with everything that a store holds. */
const fill = Effect.fnUntraced(function* (count: number) {
  const store = yield* SessionStore.SessionStore
  const record = yield* RunRecord
  for (let index = 0; index < count; index++) {
    const id = Ids.SessionId.make(`s${index}`)
    yield* store.create(
      makeNewSession(id, {
        title: `Talk ${index}`,
        cwd: "/somewhere",
        branch: "main",
        systemPrompt: `prompt \0 ${index} \u0001`,
        ...(index === 0 ? {} : { parentId: Ids.SessionId.make(`s${index - 1}`), hasOwnPrompt: true })
      })
    )
    yield* store.append(id, [makeUserMessage(`where is the zebra ${index} \0 ünï`), makeToolCalls("done", "open")])
    yield* store.begin(id, ["open", "a\0b"])
    yield* store.append(id, [buildToolResult("done", "it sleeps")])
    yield* store.recordUsage(id, {
      provider: "test",
      model: "model-a",
      usage: { ...Usage.zero, inputTokens: 7, requestCount: 1 },
      cost: { usd: 0.25, status: "estimated", source: Cost.toSpent(Cost.nothing).source }
    })
    const turnId = Ids.TurnId.make("t")
    const entries: ReadonlyArray<Entry> = [0, 1].map((at) => ({
      sessionId: id,
      turnId,
      at: at + 0.5,
      event: { _tag: "SessionEnded", reason: `end ${index}` }
    }))
    yield* record.append(entries)
    yield* store.storeStep(id, { callId: "open", name: "paid\0", value: { amount: index } })
    yield* store.suspend(id, {
      reason: "suspended",
      callIds: [],
      questions: [
        {
          question: {
            id: `q${index}`,
            sessionId: id,
            runId: turnId,
            callId: "open",
            kind: "text",
            title: "Go on?",
            schema: {},
            createdAt: 5
          },
          place: "place\0",
          state: "open"
        }
      ]
    })
  }
})

/** All rows of a store. */
const dump = Effect.fnUntraced(function* () {
  const parts: Array<TableRows> = []
  yield* SessionBackup.use((backup) => backup.read((part) => Effect.sync(() => parts.push(part))))
  return Map.groupBy(
    parts.flatMap(({ rows, table }) => rows.map((row) => ({ row, table }))),
    ({ table }) => table
  )
})

/** The bytes of a backup of a store. */
const write = Effect.fnUntraced(function* () {
  const bytes = [yield* BackupFile.encodeStart(1, "1.0.0")]
  let counts = BackupFile.nothing
  yield* SessionBackup.use((backup) =>
    backup.read((part) =>
      Effect.map(BackupFile.encodeRows(part), (encoded) => {
        bytes.push(encoded)
        counts = BackupFile.countRows(counts, part)
      })
    )
  )
  bytes.push(yield* BackupFile.encodeEnd(counts))
  return bytes
})

const restore = (bytes: ReadonlyArray<Uint8Array>, replace = false) =>
  SessionBackup.use((backup) =>
    backup.write(BackupFile.selectRows(BackupFile.readLines(Stream.fromIterable(bytes))), { replace })
  )

const joined = (bytes: ReadonlyArray<Uint8Array>) => Buffer.concat(bytes)

describe("SessionBackup", () => {
  let server: Server | undefined
  let schemas = 0
  beforeAll(async () => {
    server = missing === undefined ? await startServer() : undefined
  })
  afterAll(() => server?.remove())

  /** Makes a layer of a store, which may be built several times. */
  const makers: Readonly<Record<string, Effect.Effect<Place, never, import("effect/Scope").Scope>>> = {
    SQLite: Effect.map(temporaryDirectory, (directory) =>
      SessionStore.layerSqlite({ path: join(directory, `state${schemas++}.db`) })
    ),
    ...(missing === undefined
      ? {
          Postgres: Effect.sync(() =>
            SessionStore.layerPostgres({ url: Redacted.make(server?.url(`backup${schemas++}`) ?? ""), connections: 3 })
          )
        }
      : {})
  }
  const kinds = Object.keys(makers)
  const make = (kind: string) => makers[kind] ?? Effect.die(kind)

  for (const [from, to] of kinds.flatMap((from) => kinds.map((to) => [from, to] as const))) {
    it.live(`all rows of ${from} are in ${to} after a restoration, and are found there`, () =>
      Effect.gen(function* () {
        const [source, target] = [yield* make(from), yield* make(to)]
        const { bytes, rows } = yield* Effect.provide(
          Effect.gen(function* () {
            yield* fill(130)
            return { rows: yield* dump(), bytes: yield* write() }
          }),
          source,
          { local: true }
        )
        assert.strictEqual(rows.size, 7)
        yield* Effect.provide(
          Effect.gen(function* () {
            yield* restore(bytes)
            const again = yield* dump()
            // Postgres cannot store NUL in text for search.
            const comparable = (all: typeof rows) =>
              Array.from(all, ([table, found]) => [
                table,
                found.map(({ row }) =>
                  Object.entries(row).map(([name, value]) => [
                    name,
                    typeof value === "string" ? value.replaceAll("\0", " ") : value
                  ])
                )
              ])
            assert.deepStrictEqual(comparable(again), comparable(rows))
            const search = yield* SessionSearch
            assert.isAbove((yield* search.search("zebra")).length, 0)
            const store = yield* SessionStore.SessionStore
            const id = Ids.SessionId.make("s3")
            assert.deepStrictEqual((yield* store.messages(id))[0], makeUserMessage("where is the zebra 3 \0 ünï"))
            assert.deepStrictEqual(Array.from(yield* store.begun(id)).toSorted(), ["a\0b", "open"])
            assert.lengthOf(yield* store.listQuestions({ sessionId: id }), 1)
            assert.lengthOf(yield* store.listSteps(id), 1)
            // A restored session goes on.
            yield* store.append(id, [makeAssistantMessage("here")])
            assert.lengthOf(yield* store.messages(id), 4)

            // Sessions are replaced only on request, and only if no process uses one.
            const refused = yield* Effect.exit(restore(bytes))
            assert.isTrue(Exit.isFailure(refused))
            assert.lengthOf(yield* store.messages(id), 4)
            yield* restore(bytes, true)
            assert.lengthOf(yield* store.messages(id), 3)
            const held = yield* Effect.scoped(Effect.andThen(store.acquire(id), Effect.exit(restore(bytes, true))))
            assert.include(JSON.stringify(held), "SessionBusy")

            // A backup that is cut changes nothing.
            const whole = joined(bytes)
            for (const cut of [
              whole.subarray(0, whole.length - 30),
              joined(bytes.slice(0, -1)),
              joined(bytes.slice(0, 3))
            ]) {
              const exit = yield* Effect.exit(restore([cut], true))
              assert.include(JSON.stringify(exit), "BackupDamaged")
            }
            assert.deepStrictEqual(comparable(yield* dump()), comparable(rows))
          }),
          target,
          { local: true }
        )
      }).pipe(Effect.scoped)
    )
  }

  it.live.each(kinds)("a backup of %s has one state of a store that another process writes to", (kind) =>
    Effect.gen(function* () {
      const place = yield* make(kind)
      const writer = yield* Layer.build(Layer.fresh(place))
      yield* Effect.provide(fill(10), writer)
      const rows = yield* Effect.provide(
        Effect.gen(function* () {
          const parts: Array<TableRows> = []
          const append = Effect.provide(
            SessionStore.SessionStore.use((store) =>
              Effect.forEach(
                Array.from({ length: 10 }, (_, index) => Ids.SessionId.make(`s${index}`)),
                (id) => store.append(id, [makeAssistantMessage("late")])
              )
            ),
            writer
          )
          yield* SessionBackup.use((backup) =>
            backup.read((part) =>
              Effect.gen(function* () {
                parts.push(part)
                // Another fiber, which is not in the transaction of the reader.
                yield* Fiber.join(yield* Effect.sync(() => Effect.runFork(append)))
              })
            )
          )
          return parts
        }),
        Layer.fresh(place),
        { local: true }
      )
      const count = (table: string) => rows.filter((part) => part.table === table).flatMap(({ rows }) => rows)
      assert.strictEqual(count("messages").length, 30)
      assert.deepStrictEqual(
        count("sessions").map((row) => row["message_count"]),
        Array.from({ length: 10 }, () => 3)
      )
    }).pipe(Effect.scoped)
  )

  it.live("the columns of a backup are the columns of the tables", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "state.db")
      yield* Effect.provide(fill(1), SessionStore.layerSqlite({ path }), { local: true })
      // Numbers of rows, words for search, names of the restoring database, and starts of calls, which are rows of
      // `begun_calls` in a backup.
      const own = new Set(["made", "words", "folded", "begun"])
      const listColumns = (table: TableName) => {
        const rows = new DatabaseSync(path, { readOnly: true })
        try {
          return rows
            .prepare("SELECT name FROM pragma_table_info(?)")
            .all(table)
            .map(({ name }) => String(name))
            .filter((name) => !own.has(name) && (name !== "id" || table === "sessions" || table === "questions"))
        } finally {
          rows.close()
        }
      }
      for (const table of tableNames)
        assert.sameMembers(
          BackupTables.columns[table].map(({ name }) => name),
          listColumns(table),
          table
        )
    }).pipe(Effect.scoped)
  )

  it.effect("lines of other programs and other forms are refused by name", () =>
    Effect.gen(function* () {
      const { gzipBytes } = yield* Effect.promise(() => import("../../src/base/platform/Compression.ts"))
      const start = '{"hermes_backup":1}'
      const end = '{"end":{"rows":{},"files":0}}'
      const cases: ReadonlyArray<readonly [lines: ReadonlyArray<string>, message: string]> = [
        [["hello"], "line 1 is not JSON"],
        [['{"a":1}'], "it is not a backup of hermes"],
        [['{"hermes_backup":2}', end], "update hermes"],
        [[start], "it is incomplete"],
        [[start, '{"table":"leases","row":{}}', end], "unknown table"],
        [[start, '{"table":"call_steps","row":{"session_id":"s","call_id":"c","name":"n"}}', end], "call_steps.value"],
        [[start, '{"table":"messages","row":{"session_id":"s","position":1.5}}', end], "messages.position is not"],
        [[start, '{"table":"begun_calls","row":{"later":1}}', end], "begun_calls.later is of a later version"],
        [[start, '{"file":"a","base64":"§"}', end], "not base64"],
        [[start, '{"file":"a","base64":"YQ=="}', end], "differ from its last line"],
        [[start, end, end], "after its end"]
      ]
      for (const [lines, message] of cases) {
        const bytes = yield* Effect.promise(() => gzipBytes(`${lines.join("\r\n")}\r\n`))
        const exit = yield* Effect.exit(Stream.runDrain(BackupFile.readLines(Stream.succeed(bytes))))
        assert.include(JSON.stringify(exit), message, lines.join())
      }
      const plain = yield* Effect.exit(
        Stream.runDrain(BackupFile.readLines(Stream.succeed(new TextEncoder().encode("not gzip"))))
      )
      assert.include(JSON.stringify(plain), "it is not a gzip file")
    })
  )
})

describe("a backup from elsewhere", () => {
  it.effect("is refused before a line that does not end is in memory", () =>
    Effect.gen(function* () {
      let parts = 0
      const start = yield* BackupFile.encodeStart(1, "1.0.0")
      const bomb = gzipSync(Buffer.alloc(16 * 1024 ** 2, "a"))
      const bytes = Stream.concat(
        Stream.succeed(start),
        Stream.map(Stream.rechunk(Stream.range(1, 10_000), 1), () => {
          parts++
          return bomb
        })
      )
      const error = yield* Effect.flip(Stream.runDrain(BackupFile.readLines(bytes)))
      assert.include(error.message, "a line of more than")
      assert.isBelow(parts, 100)
    })
  )
})
