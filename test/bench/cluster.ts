// `npm run bench:cluster`: rows in a second on one runner and on two, over a Postgres that this starts, with the
// processor time of each row on the runners, in the database and in the client, and the share of the machine that all
// of them and whoever else is there use. Rows make three model calls and four tool calls; the model answers inside of
// the runner. The rate is that of the time in which every runner has rows left: the end, where one waits for the other,
// is told apart. Then the costs of a row of two calls and of an idle runner, in counts. Arguments: rows, pause of the
// model in ms, runs at a time of a runner.
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { createInterface } from "node:readline"
import { Cluster } from "../../src/kit/entry/cluster.ts"
import * as Costs from "../support/clusterCosts.ts"
import { startServer } from "../support/postgresServer.ts"
import { commandOf } from "../support/runScript.ts"

const [rows = 600, pause = 500, concurrency = 8] = process.argv.slice(2).map(Number)

/** Processor time in ms of all processes of the server. */
const serverTime = (): number =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
        if (!stat.includes("(postgres)")) return sum
        const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
        // Of ended children too; ticks of 10 ms.
        return sum + (Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14])) * 10
      } catch {
        // The process has ended.
        return sum
      }
    }, 0)

interface Runner {
  readonly child: ChildProcess
  /** Processor time in ms, once it has ended. */
  readonly time: Promise<number>
}

const startRunner = (url: string, traces: string) =>
  new Promise<Runner>((resolve) => {
    const [command, ...args] = commandOf("clusterWorker.ts", [
      "runner",
      url,
      String(concurrency),
      traces,
      String(pause)
    ])
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
    let told: (time: number) => void = () => {}
    const time = new Promise<number>((done) => (told = done))
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line === "ready") resolve({ child, time })
      if (line.startsWith("cpu ")) told(Number(line.slice(4)))
    })
  })

/** Processor time in ms that the whole machine has used. */
const machineTime = (): number =>
  cpus().reduce(
    (sum, { times: { idle: _, ...busy } }) => sum + Object.values(busy).reduce((all, one) => all + one, 0),
    0
  )

/** Processor time in ms of this process, which is the client. */
const clientTime = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const measure = async (url: string, runners: number, count: number, folder: string) => {
  const started = await Promise.all(Array.from({ length: runners }, () => startRunner(url, `${folder}/traces`)))
  /** Submits rows and returns when they were over, in ms since the first was submitted. */
  const submitted = (prefix: string, count: number) =>
    Effect.gen(function* () {
      const ids = Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
      const began = performance.now()
      const ends: Array<number> = []
      yield* Effect.forEach(
        ids,
        (id) => Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: id.replace(/^.*-/, "row ") })),
        { concurrency: 4 }
      )
      yield* Cluster.waitForOutcomes(ids, (some) =>
        Effect.sync(() => {
          const at = performance.now() - began
          for (let index = 0; index < some.size; index++) ends.push(at)
        })
      )
      return ends
    })
  const used = await Effect.runPromise(
    Effect.provide(
      Effect.gen(function* () {
        yield* submitted(`warm${runners}`, 16 * runners)
        const before = [serverTime(), clientTime(), machineTime()]
        const ends = yield* submitted(`row${runners}`, count)
        const [server = 0, client = 0, machine = 0] = [serverTime(), clientTime(), machineTime()].map(
          (time, index) => time - (before[index] ?? 0)
        )
        return { ends, server, client, machine }
      }),
      Cluster.layerClient({ url: Redacted.make(url) })
    )
  )
  for (const { child } of started) child.kill("SIGTERM")
  const times = await Promise.all(started.map(({ time }) => time))
  // They would wait for the server, which goes now.
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  for (const { child } of started) child.kill("SIGKILL")
  const { client, ends, machine, server: database } = used
  const whole = ends.at(-1) ?? 0
  // Rows are spread over the runners by their names: after three quarters each of them still has some.
  const [from, to] = [Math.floor(count / 8), Math.floor((count * 3) / 4)]
  const runner = times.reduce((sum, time) => sum + time, 0) / (count + 16 * runners)
  return {
    rate: ((to - from) / ((ends[to] ?? whole) - (ends[from] ?? 0))) * 1000,
    withEnd: (count / whole) * 1000,
    runner,
    server: database / count,
    client: client / count,
    /** Shares of all processors. */
    ours: (runner * count + database + client) / whole / cpus().length,
    busy: machine / whole / cpus().length
  }
}

const server = await startServer({ fsync: "on", synchronous_commit: "on" })
const folder = mkdtempSync(`${tmpdir()}/hermes-cluster-bench-`)
try {
  // Time of a runner that does nothing.
  const idle = await startRunner(server.url("idle"), `${folder}/traces`)
  await new Promise((resolve) => setTimeout(resolve, 10_000))
  idle.child.kill("SIGTERM")
  const start = await idle.time
  idle.child.kill("SIGKILL")
  const percent = (share: number): string => `${Math.round(share * 100)} %`
  const print = (
    what: string,
    { busy, client, ours, rate, runner, server, withEnd }: Awaited<ReturnType<typeof measure>>,
    runners: number
  ) =>
    process.stdout.write(
      `${what}: ${rate.toFixed(2)} rows/s (${withEnd.toFixed(2)} with the end); ${(runner - (start * runners) / (rows + 16 * runners)).toFixed(1)} ms of a runner, ` +
        `${server.toFixed(1)} ms of Postgres and ${client.toFixed(1)} ms of the client a row; ` +
        `they use ${percent(ours)} of ${cpus().length} processors, which are busy for ${percent(busy)}\n`
    )
  process.stdout.write(
    `${rows} rows of 3 model calls (${pause} ms) and 4 tool calls, ${concurrency} runs at a time of a runner; a runner that idles: ${start} ms in 10 s\n`
  )
  const one = await measure(server.url("one"), 1, rows, folder)
  print("1 runner", one, 1)
  const two = await measure(server.url("two"), 2, rows, folder)
  print("2 runners", two, 2)
  process.stdout.write(
    `ratio ${(two.rate / one.rate).toFixed(2)} (${(two.withEnd / one.withEnd).toFixed(2)} with the end)\n`
  )
} finally {
  await server.remove()
  rmSync(folder, { recursive: true, force: true })
}

const counted = await Costs.startCountedServer()
try {
  const costs = await Effect.runPromise(Costs.measureCosts(counted, 200, 20))
  const sum = (values: Iterable<number>): number => Array.from(values).reduce((all, one) => all + one, 0)
  const toKilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`
  const tables = Object.entries(costs.tables).map(([name, bytes]) => `${name} ${toKilobytes(bytes)}`)
  const { connections, seconds, statements } = costs.idle
  process.stdout.write(
    `a row of two calls: ${((sum(costs.statements.values()) + sum(costs.polls.values())) / 200).toFixed(1)} statements, ` +
      `${toKilobytes(sum(Object.values(costs.tables)))} in tables (${tables.join(", ")}), ` +
      `${toKilobytes(costs.wal)} in the log of changes\n` +
      `an idle runner: ${(statements.length / seconds).toFixed(1)} statements a second, ${connections} connections\n`
  )
} finally {
  await counted.remove()
}
process.exit(0)
