// A process that takes a lease again and again, and writes down when it had it. Each look at the table is followed by a
// pause, in which any other process could slip in.
// Arguments: database, lease, journal, rounds, milliseconds of the pause, "die" to end by kill -9 while holding the lease.
import * as Effect from "effect/Effect"
import { appendFileSync } from "node:fs"
import * as Leases from "../../src/platform/Leases.ts"
import * as NodeSqlite from "../../src/platform/NodeSqlite.ts"
import * as SqliteClient from "../../src/platform/SqliteClient.ts"

const [path = "", name = "", journal = "", rounds = "1", pause = "0", ending = ""] = process.argv.slice(2)

const sleep = (millis: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis)
}

const slowly = (database: NodeSqlite.Database): NodeSqlite.Database => ({
  ...database,
  all: (sql, parameters) => {
    const rows = database.all(sql, parameters)
    if (sql.trimStart().startsWith("SELECT")) sleep(Number(pause))
    return rows
  }
})

const note = (what: string) => Effect.sync(() => appendFileSync(journal, `${process.pid} ${what}\n`))

const program = Effect.gen(function*() {
  const database = yield* Effect.promise(() => NodeSqlite.open(path))
  const sql = yield* SqliteClient.make(slowly(database))
  yield* SqliteClient.waiting(SqliteClient.configure(sql))
  yield* SqliteClient.waiting(sql.unsafe(Leases.table).unprepared)
  const leases = Leases.make(sql, (effect) => SqliteClient.waiting(Effect.uninterruptible(sql.withTransaction(effect))))
  for (let round = 0; round < Number(rounds); round++) {
    yield* leases.during(name, () =>
      Effect.gen(function*() {
        yield* note("in")
        if (ending === "die") process.kill(process.pid, "SIGKILL")
        yield* Effect.sleep(5)
        yield* note("out")
      }))
  }
})

await Effect.runPromise(program)
