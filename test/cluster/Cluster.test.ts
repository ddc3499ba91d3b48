// Durable runs whose processes are killed: each is done once, and nothing of it twice. `HERMES_TEST_CLUSTER_KILLS` says how many runners
// over Postgres are killed (`npm run test:cluster`).
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import * as Conversation from "../../src/domain/Conversation.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import { Cluster, RunRecord, SessionStore } from "../../src/index.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { commandOf, runScript } from "../support/runScript.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const kills = Number(process.env["HERMES_TEST_CLUSTER_KILLS"] ?? 1)

const count = (lines: ReadonlyArray<string>, line: string): number => lines.filter((one) => one === line).length
const tracesIn = (path: string): ReadonlyArray<string> => existsSync(path) ? readFileSync(path, "utf8").split("\n") : []

/** Compares what the store says of each row with what its tools left behind. */
const isTrue = Effect.fnUntraced(function*(rows: ReadonlyArray<string>, traces: ReadonlyArray<string>) {
  const store = yield* SessionStore.SessionStore
  const record = yield* RunRecord.RunRecord
  let unknown = 0
  for (const row of rows) {
    const messages = yield* store.messages(SessionId.make(row))
    assert.deepStrictEqual(Conversation.openCalls(messages), [], row)
    assert.deepStrictEqual(messages.filter(({ role }) => role === "user").length, 1, `${row} was asked once`)
    assert.strictEqual(Conversation.text(messages.at(-1) ?? assert.fail(row)), `done ${row}`)
    const told = new Map(messages.flatMap((message) => message.role === "tool"
      ? message.content.flatMap((part) => part.type === "tool-result" ? [[part.id, part.result] as const] : [])
      : []))
    assert.deepStrictEqual(Array.from(told.keys()).toSorted(), ["a", "b", "c", "d"].map((id) => `${row}-${id}`))
    for (const [id, what] of told) {
      const [began, ended] = [count(traces, `begin ${id}`), count(traces, `end ${id}`)]
      if (id.endsWith("-d")) {
        // May be repeated, and then has its result.
        assert.strictEqual(what, `did ${id}`)
        assert.isAtLeast(ended, 1)
        continue
      }
      assert.isAtMost(began, 1, `${id} ran twice`)
      if (what === `did ${id}`) assert.deepStrictEqual([began, ended], [1, 1], id)
      else {
        assert.strictEqual(what, Conversation.mayHaveHappenedResult, id)
        unknown++
      }
    }
    // Each message stands once in the record too.
    const positions = (yield* Stream.runCollect(record.read({ sessionId: row, kinds: ["MessageAppended"] })))
      .flatMap(({ event }) => event._tag === "MessageAppended" && event.position !== undefined ? [event.position] : [])
    assert.deepStrictEqual(positions, messages.map((_, position) => position), row)
  }
  return unknown
})

describe("durable runs of one process", () => {
  it.live("are gone on with by the next process after a kill", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const traces = `${directory}/traces`
      const run = (onLine?: (line: string, child: ChildProcess) => void) =>
        runScript("clusterWorker.ts", ["sqlite", directory, "3", traces, "30", "8"], onLine)
      const killed = yield* run((line, child) => {
        if (line !== "ready") return
        const look = setInterval(() => {
          if (tracesIn(traces).filter((one) => one.startsWith("begin")).length < 7) return
          clearInterval(look)
          child.kill("SIGKILL")
        }, 5)
      })
      assert.strictEqual(killed.signal, "SIGKILL")
      const second = yield* run()
      assert.strictEqual(second.code, 0, second.errors)
      const rows = Array.from({ length: 8 }, (_, row) => `row-${row}`)
      yield* Effect.provide(isTrue(rows, tracesIn(traces)), SessionStore.layerSqlite({ path: `${directory}/state.db` }), { local: true })
    }))
})

describe.skipIf(missing !== undefined)(`a cluster over Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  /** Starts a runner, and waits until it is at work. */
  const startRunner = (url: string, traces: string) =>
    Effect.acquireRelease(
      Effect.callback<ChildProcess>((resume) => {
        const [command, ...args] = commandOf("clusterWorker.ts", ["runner", url, "4", traces, "20"])
        const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
        createInterface({ input: child.stdout ?? assert.fail() }).once("line", () => resume(Effect.succeed(child)))
      }),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )

  it.live(`goes on after the kill of any runner (${kills} times); each row is done once, and nothing of it twice`, () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const traces = `${directory}/traces`
      const url = server.url("kills")
      const runners = yield* Effect.all(Array.from({ length: 3 }, () => startRunner(url, traces)), { concurrency: 3 })
      const rows: Array<string> = []
      const perKill = 30
      const client = Effect.gen(function*() {
        for (let kill = 0; kill < kills; kill++) {
          const added = Array.from({ length: perKill }, (_, index) => `row-${kill * perKill + index}`)
          rows.push(...added)
          for (const id of added) yield* Cluster.submit(Cluster.turn({ id, sessionId: id, prompt: id.replace("-", " "), batch: "test" }))
          // In the middle of the work.
          const before = tracesIn(traces).length
          yield* Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), Effect.sync(() => tracesIn(traces).length)), { until: (now) => now > before + 60 })
          runners[kill % 3]?.kill("SIGKILL")
          const began = Date.now()
          const outcomes = yield* Cluster.settled(rows)
          if (process.env["HERMES_TEST_CLUSTER_KILLS"] !== undefined) process.stdout.write(`kill ${kill + 1}: all over after ${Date.now() - began} ms\n`)
          for (const [id, outcome] of outcomes) assert.strictEqual(outcome.status, "finished", `${id}: ${outcome.message}`)
          if (kill + 1 < kills) runners[kill % 3] = yield* startRunner(url, traces)
        }
        // Submitted again, they are over already.
        for (const id of rows.slice(0, 3)) {
          const known = yield* Cluster.submit(Cluster.turn({ id, sessionId: id, prompt: id.replace("-", " "), batch: "test" }))
          assert.strictEqual(known?.status, "finished")
        }
        return yield* Cluster.Cluster.use(({ counts }) => counts)
      })
      const counts = yield* Effect.provide(client, Cluster.layerClient({ url: Redacted.make(url) }), { local: true })
      assert.deepStrictEqual(counts, [{ batch: "test", waiting: 0, running: 0, finished: kills * perKill, failed: 0 }])
      const unknown = yield* Effect.provide(isTrue(rows, tracesIn(traces)), SessionStore.layerPostgres({ url: Redacted.make(url) }), { local: true })
      if (kills > 1) process.stdout.write(`${rows.length} rows, ${kills} kills, ${unknown} calls told "may have happened"\n`)
    }), 60_000 + kills * 60_000)
})
