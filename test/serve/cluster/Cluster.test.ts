// Durable runs whose processes are killed, or whose database goes away: each is done once, and nothing of it twice.
// `HERMES_TEST_CLUSTER_KILLS` says how many runners over Postgres are killed, `HERMES_TEST_CLUSTER_AWAY` for how many
// seconds the database is gone (`npm run test:cluster`).
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { DatabaseSync } from "node:sqlite"
import * as ClusterDatabase from "../../../src/serve/cluster/ClusterDatabase.ts"
import * as ClusterJobs from "../../../src/serve/cluster/ClusterJobs.ts"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Offline, RunRecord, Runtime, SessionStore } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { CronJobs } from "../../../src/tools/cron/CronJobs.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { commandOf, runScript } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { eventually, readUntil } from "../../support/waiting.ts"

const kills = Number(process.env["HERMES_TEST_CLUSTER_KILLS"] ?? 1)
const away = Number(process.env["HERMES_TEST_CLUSTER_AWAY"] ?? 2)
const isTold = process.env["HERMES_TEST_CLUSTER_KILLS"] !== undefined

/** A started runner, and the lines that it said. */
interface Runner {
  readonly child: ChildProcess
  readonly lines: Array<string>
}

/** Processor time in ms. */
const cpuOf = ({ child }: Runner): number => {
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const count = (lines: ReadonlyArray<string>, line: string): number => lines.filter((one) => one === line).length
const tracesIn = (path: string): ReadonlyArray<string> =>
  existsSync(path) ? readFileSync(path, "utf8").split("\n") : []

/** Compares what the store says of each row with what its tools left behind. */
const isTrue = Effect.fnUntraced(function* (rows: ReadonlyArray<string>, traces: ReadonlyArray<string>) {
  const store = yield* SessionStore.SessionStore
  const record = yield* RunRecord.RunRecord
  let unknown = 0
  for (const row of rows) {
    const messages = yield* store.messages(SessionId.make(row))
    assert.deepStrictEqual(Conversation.listOpenCalls(messages), [], row)
    assert.deepStrictEqual(messages.filter(({ role }) => role === "user").length, 1, `${row} was asked once`)
    assert.strictEqual(Conversation.readText(messages.at(-1) ?? assert.fail(row)), `done ${row}`)
    const told = new Map(
      messages.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result] as const] : []))
          : []
      )
    )
    assert.deepStrictEqual(
      Array.from(told.keys()).toSorted(),
      ["a", "b", "c", "d"].map((id) => `${row}-${id}`)
    )
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
    const positions = (yield* Stream.runCollect(record.read({ sessionId: row, kinds: ["MessageAppended"] }))).flatMap(
      ({ event }) => (event._tag === "MessageAppended" && event.position !== undefined ? [event.position] : [])
    )
    assert.deepStrictEqual(
      positions,
      messages.map((_, position) => position),
      row
    )
  }
  return unknown
})

/** Compares sessions whose second turn was cut in a tool call, by the kill of its runner, with the traces. */
const talkedOn = Effect.fnUntraced(function* (
  talks: ReadonlyMap<string, ReadonlyArray<string>>,
  traces: ReadonlyArray<string>
) {
  const store = yield* SessionStore.SessionStore
  for (const [talk, turns] of talks) {
    const messages = yield* store.messages(SessionId.make(talk))
    // All turns, in their order, each asked once and answered once.
    assert.deepStrictEqual(
      messages.flatMap((message) => (message.role === "user" ? [Conversation.readText(message)] : [])),
      turns.map((turn) => turn.replace("-", " "))
    )
    const answers = messages.flatMap((message) =>
      message.role === "assistant" && Conversation.listToolCalls(message).length === 0
        ? [Conversation.readText(message)]
        : []
    )
    assert.deepStrictEqual(
      answers,
      turns.map((turn) => `done ${turn}`)
    )
    assert.deepStrictEqual(Conversation.listOpenCalls(messages), [])
    const results = new Map(
      messages.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result] as const] : []))
          : []
      )
    )
    for (const turn of turns) {
      for (const call of ["a", "b", "c"])
        assert.strictEqual(count(traces, `begin ${turn}-${call}`), 1, `${turn}-${call}`)
    }
    const [, cut = ""] = turns
    assert.deepStrictEqual(
      [results.get(`${cut}-c`), count(traces, `end ${cut}-c`)],
      [Conversation.mayHaveHappenedResult, 0]
    )
    assert.strictEqual(results.get(`${cut}-d`), `did ${cut}-d`)
  }
})

describe("durable runs of one process", () => {
  it.live("are gone on with by the next process after a kill", () =>
    Effect.gen(function* () {
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
      yield* Effect.provide(
        isTrue(rows, tracesIn(traces)),
        SessionStore.layerSqlite({ path: `${directory}/state.db` }),
        { local: true }
      )
    })
  )
})

describe("the file of one process", () => {
  it.live("loses runs that are over for so many days, with all that their workflows left", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = `${directory}/cluster.db`
      const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
      const agent = Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
      const cluster = Cluster.layerSqlite({ path, retentionDays: 2 }).pipe(Layer.provide(agent))
      const file = <A>(use: (database: DatabaseSync) => A): Effect.Effect<A> =>
        Effect.acquireUseRelease(
          Effect.sync(() => new DatabaseSync(path)),
          (database) => Effect.sync(() => use(database)),
          (database) => Effect.sync(() => database.close())
        )
      const count = (from: string) =>
        Effect.map(
          file((database) => database.prepare(`SELECT count(*) AS count FROM ${from}`).get()),
          (row) => Number(row?.["count"])
        )
      const turn = (id: string) =>
        Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: `Reply exactly ${id}` }))
      yield* Effect.provide(
        Effect.gen(function* () {
          for (const id of ["old", "young"]) yield* turn(id)
          yield* Cluster.waitForOutcomes(["old", "young"])
          // The workflow says that it is over after its run is.
          yield* readUntil(
            "the workflows are over",
            count("cluster_messages WHERE processed = 0"),
            (open) => open === 0
          )
        }),
        cluster,
        { local: true }
      )
      const [messages, replies] = [yield* count("cluster_messages"), yield* count("cluster_replies")]
      yield* file((database) => database.exec("UPDATE runs SET ended_at = ended_at - 3 * 86400000 WHERE id = 'old'"))
      yield* Effect.provide(
        Effect.gen(function* () {
          yield* readUntil("the old run is removed", count("runs"), (left) => left === 1)
          assert.strictEqual((yield* turn("young"))?.status, "finished")
        }),
        cluster,
        { local: true }
      )
      assert.deepStrictEqual(
        [2 * (yield* count("cluster_messages")), 2 * (yield* count("cluster_replies"))],
        [messages, replies]
      )
    })
  )
})

describe.skipIf(missing !== undefined)(
  `a cluster over Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    /** Starts a runner, and waits until it is at work. */
    const startRunner = (url: string, traces: string, kind = "runner") =>
      Effect.acquireRelease(
        Effect.callback<Runner>((resume) => {
          const [command, ...args] = commandOf("clusterWorker.ts", [kind, url, "4", traces, "20"])
          const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] })
          const runner: Runner = { child, lines: [] }
          for (const input of [child.stdout ?? assert.fail(), child.stderr ?? assert.fail()])
            createInterface({ input }).on("line", (line) => void runner.lines.push(line))
          createInterface({ input: child.stdout ?? assert.fail() }).once("line", () => resume(Effect.succeed(runner)))
        }),
        ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
      )

    let attempts = 0
    it.live(
      `goes on after the kill of any runner (${kills} times); and after the database was away for ${away} s; each row is done once, and nothing of it twice`,
      () =>
        Effect.gen(function* () {
          const directory = yield* temporaryDirectory
          const traces = `${directory}/traces`
          // A second attempt has a database of its own.
          const schema = `kills_${++attempts}`
          const url = server.url(schema)
          const runners = yield* Effect.all(
            Array.from({ length: 3 }, () => startRunner(url, traces)),
            { concurrency: 3 }
          )
          const rows: Array<string> = []
          const talks = new Map<string, ReadonlyArray<string>>()
          const perKill = 30
          const client = Effect.gen(function* () {
            /** Returns in the middle of the work. */
            const begin = Effect.gen(function* () {
              const added = Array.from({ length: perKill }, (_, index) => `row-${rows.length + index}`)
              rows.push(...added)
              for (const id of added)
                yield* Cluster.submit(
                  Cluster.makeTurnRequest({ id, sessionId: id, prompt: id.replace("-", " "), batch: "test" })
                )
              const before = tracesIn(traces).length
              yield* Effect.repeat(
                Effect.andThen(
                  Effect.sleep("20 millis"),
                  Effect.sync(() => tracesIn(traces).length)
                ),
                { until: (now) => now > before + 60 }
              )
            })
            const end = Effect.fnUntraced(function* (what: string, more: ReadonlyArray<string> = []) {
              const began = Date.now()
              const outcomes = yield* Cluster.waitForOutcomes([...rows, ...more])
              if (isTold) process.stdout.write(`${what}: all over after ${Date.now() - began} ms\n`)
              for (const [id, outcome] of outcomes)
                assert.strictEqual(outcome.status, "finished", `${id}: ${outcome.message}`)
            })
            for (let kill = 0; kill < kills; kill++) {
              yield* begin
              // The one that holds the session of this kill, in a tool call of its second turn.
              const talk = `talk-${kill}`
              const turns = [0, 1, 2].map((turn) => `row-${10_000 + 3 * kill + turn}`)
              for (const id of turns)
                yield* Cluster.submit(
                  Cluster.makeTurnRequest({ id, sessionId: talk, prompt: id.replace("-", " "), batch: "test" })
                )
              yield* Effect.repeat(
                Effect.andThen(
                  Effect.sleep("20 millis"),
                  Effect.sync(() => tracesIn(traces))
                ),
                { until: (lines) => lines.includes(`begin ${turns[1]}-c`) }
              )
              const owner = server.query(`SELECT runner FROM ${schema}.runs WHERE id = '${turns[1]}'`)
              const at = runners.findIndex(({ child }) => owner.includes(`-${child.pid}-`))
              assert.isAtLeast(at, 0, owner)
              // It has the session to itself.
              assert.strictEqual(
                server.query(`SELECT pid FROM ${schema}.leases WHERE name = 'session ${talk}'`),
                String(runners[at]?.child.pid)
              )
              runners[at]?.child.kill("SIGKILL")
              talks.set(talk, turns)
              yield* end(`kill ${kill + 1}`, turns)
              // The conversation went on elsewhere, also the turn that waited behind the one that was cut.
              const owners = server.query(
                `SELECT string_agg((runner = '${owner}')::text, ', ' ORDER BY made) FROM ${schema}.runs WHERE id IN ('${turns[1]}', '${turns[2]}')`
              )
              assert.strictEqual(owners, "false, false")
              assert.strictEqual(
                server.query(`SELECT count(*) FROM ${schema}.leases WHERE name = 'session ${talk}'`),
                "0"
              )
              if (kill + 1 < kills) runners[at] = yield* startRunner(url, traces)
            }
            const alive = runners.filter(({ child }) => child.signalCode === null)
            assert.strictEqual(alive.length, 2)
            yield* begin
            yield* Effect.promise(server.stop)
            const used = alive.map(cpuOf)
            yield* Effect.sleep(`${away} seconds`)
            for (const [index, runner] of alive.entries()) {
              assert.deepStrictEqual(
                [runner.child.exitCode, runner.child.signalCode],
                [null, null],
                runner.lines.join("\n")
              )
              const share = (cpuOf(runner) - (used[index] ?? 0)) / away / 1000
              if (isTold) process.stdout.write(`without database: ${(share * 100).toFixed(1)} % of a processor\n`)
              // It waits, and does not try again without a pause.
              assert.isBelow(share, 0.5)
            }
            yield* Effect.promise(server.start)
            yield* end(`database away for ${away} s`)
            // A runner says it at its next request, which may come after the last run.
            yield* Effect.repeat(
              Effect.andThen(
                Effect.sleep("50 millis"),
                Effect.sync(() => alive)
              ),
              {
                until: (runners) =>
                  runners.every(({ lines }) => lines.some((line) => line.includes("The database answers again")))
              }
            )
            for (const { lines } of alive) {
              const said = lines.filter((line) => line.includes("WARN") || line.includes("ERROR"))
              assert.deepStrictEqual(
                said.filter(
                  (line) =>
                    !/does not answer \([^)]+\); waiting for it|The database answers again|is gone; the others go on/.test(
                      line
                    )
                ),
                []
              )
              assert.strictEqual(
                said.filter((line) =>
                  /Postgres at \S+ does not answer \([^)]+\); waiting for it up to 10 minutes\.$/.test(line)
                ).length,
                1,
                said.join("\n")
              )
              assert.strictEqual(
                said.filter((line) => /The database answers again after \d+ s\.$/.test(line)).length,
                1,
                said.join("\n")
              )
            }
            // Submitted again, they are over already.
            for (const id of rows.slice(0, 3)) {
              const known = yield* Cluster.submit(
                Cluster.makeTurnRequest({ id, sessionId: id, prompt: id.replace("-", " "), batch: "test" })
              )
              assert.strictEqual(known?.status, "finished")
            }
            return yield* Cluster.Cluster.use(({ counts }) => counts)
          })
          const counts = yield* Effect.provide(client, Cluster.layerClient({ url: Redacted.make(url) }), {
            local: true
          })
          assert.deepStrictEqual(counts, [
            {
              batch: "test",
              waiting: 0,
              suspended: 0,
              running: 0,
              finished: (kills + 1) * perKill + kills * 3,
              failed: 0
            }
          ])
          const unknown = yield* Effect.provide(
            Effect.andThen(talkedOn(talks, tracesIn(traces)), isTrue(rows, tracesIn(traces))),
            SessionStore.layerPostgres({ url: Redacted.make(url) }),
            { local: true }
          )
          if (kills > 1)
            process.stdout.write(`${rows.length} rows, ${kills} kills, ${unknown} calls told "may have happened"\n`)
        }),
      300_000 + (kills + away) * 60_000
    )

    it.live("jobs are run once each by three runners, also when one of them is killed at the tick", () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const traces = `${directory}/traces`
        const url = server.url("cron")
        const jobs = yield* Layer.build(Layer.provide(ClusterJobs.layer, ClusterDatabase.layer(Redacted.make(url), 2)))
        const { create, list } = Context.get(jobs, CronJobs)
        const runners = yield* Effect.all(
          Array.from({ length: 3 }, () => startRunner(url, traces, "cron")),
          { concurrency: 3 }
        )
        const names = Array.from({ length: 20 }, (_, index) => `job-${index}`)
        // Ten at one moment, then one after another.
        const moment = Date.now() + 1_000 + names.length * 20
        for (const [index, name] of names.entries())
          yield* create({ schedule: new Date(moment + Math.max(0, index - 9) * 50).toISOString(), prompt: name, name })
        const lines = yield* Effect.repeat(
          Effect.andThen(
            Effect.sleep("5 millis"),
            Effect.sync(() => tracesIn(traces))
          ),
          { until: (found) => found.length > 1 }
        )
        const victim = Number(lines[0]?.split(" ")[2])
        runners.find(({ child }) => child.pid === victim)?.child.kill("SIGKILL")
        const began = (found: ReadonlyArray<string>) =>
          found.filter((line) => line.startsWith("begin")).map((line) => line.split(" ")[1] ?? "")
        yield* eventually(
          "each job has begun",
          Effect.sync(() => began(tracesIn(traces)).length >= names.length)
        )
        yield* Effect.sleep("300 millis")
        const all = tracesIn(traces)
        // A runner that is killed between the claim of a job and its first line had its one run: the job is held by a
        // claim that runs out.
        const held = (yield* list).jobs.flatMap(({ name, running }) =>
          running !== null && !began(all).includes(name) ? [name] : []
        )
        assert.deepStrictEqual([...began(all), ...held].toSorted(), names.toSorted())
        for (const line of all.filter((line) => line.startsWith("begin") && !line.endsWith(` ${victim}`)))
          assert.include(all, line.replace("begin", "end"))
      })
    )
  }
)
