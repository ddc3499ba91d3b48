// `npm run bench:cluster`: rows in a second on one runner and on two, over a Postgres that this starts, with the processor time of each
// row on the runners and in the database. Rows make three model calls and four tool calls. Arguments: rows, pause of the model in ms, runs
// at a time of a runner.
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { createInterface } from "node:readline"
import { Cluster } from "../../src/index.ts"
import { startServer } from "../support/postgresServer.ts"
import { commandOf } from "../support/runScript.ts"

const [rows = 300, pause = 500, concurrency = 8] = process.argv.slice(2).map(Number)

/** Processor time in ms of all processes of the server. */
const serverTime = (): number =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).reduce((sum, pid) => {
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
    const [command, ...args] = commandOf("clusterWorker.ts", ["runner", url, String(concurrency), traces, String(pause)])
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
    let told: (time: number) => void = () => {}
    const time = new Promise<number>((done) => told = done)
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line === "ready") resolve({ child, time })
      if (line.startsWith("cpu ")) told(Number(line.slice(4)))
    })
  })

const measure = async (url: string, runners: number, count: number, folder: string) => {
  const started = await Promise.all(Array.from({ length: runners }, () => startRunner(url, `${folder}/traces`)))
  const submitted = (prefix: string, count: number) => Effect.gen(function*() {
    const ids = Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
    yield* Effect.forEach(ids, (id) => Cluster.submit(Cluster.turn({ id, sessionId: id, prompt: id.replace(/^.*-/, "row ") })), { concurrency: 4 })
    yield* Cluster.settled(ids)
  })
  const warm = await Effect.runPromise(Effect.provide(Effect.gen(function*() {
    yield* submitted(`warm${runners}`, 16 * runners)
    const server = serverTime()
    const began = performance.now()
    yield* submitted(`row${runners}`, count)
    return { millis: performance.now() - began, server: serverTime() - server }
  }), Cluster.layerClient({ url: Redacted.make(url) })))
  for (const { child } of started) child.kill("SIGTERM")
  const times = await Promise.all(started.map(({ time }) => time))
  // They would wait for the server, which goes now.
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  for (const { child } of started) child.kill("SIGKILL")
  return { rate: count / warm.millis * 1000, server: warm.server / count, runner: times.reduce((sum, time) => sum + time, 0) / (count + 16 * runners) }
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
  const print = (what: string, { rate, runner, server }: Awaited<ReturnType<typeof measure>>, runners: number) =>
    process.stdout.write(`${what}: ${rate.toFixed(1)} rows/s, ${(runner - start * runners / (rows + 16 * runners)).toFixed(1)} ms of a runner and ${server.toFixed(1)} ms of Postgres a row\n`)
  process.stdout.write(`${rows} rows of 3 model calls (${pause} ms) and 4 tool calls, ${concurrency} runs at a time of a runner; a runner that idles: ${start} ms in 10 s\n`)
  const one = await measure(server.url("one"), 1, rows, folder)
  print("1 runner", one, 1)
  const two = await measure(server.url("two"), 2, rows, folder)
  print("2 runners", two, 2)
  process.stdout.write(`ratio ${(two.rate / one.rate).toFixed(2)}\n`)
} finally {
  await server.remove()
  rmSync(folder, { recursive: true, force: true })
}
process.exit(0)
