// `npm run bench`: the runtime beside the plain SDK loop against one model server, in turns, as ratios of CPU time. Compare
// ratios, never times: machines are shared. `--quick` is a look, not a measurement.
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as Plain from "./plain.ts"
import hermes from "./runner.ts"

const quick = process.argv.includes("--quick")
const cycles = quick ? 3 : 11
const batchMillis = quick ? 100 : 300
const warmMillis = quick ? 500 : 4000
const system = "You are a benchmark agent. Call the echo tool as asked."
const prompt = "Go."

const server = fork(fileURLToPath(new URL("server.ts", import.meta.url)))
const port = await new Promise<number>((resolve, reject) => {
  server.once("message", (message: { port: number }) => resolve(message.port))
  server.once("error", reject)
})
const url = `http://127.0.0.1:${port}/v1`

const ours = Object.create(hermes) as typeof hermes & ThisType<unknown>
await hermes.setup.call(ours as never, url, { tool: (text) => text, middlewares: 0, system, prompt })
const plain = Plain.make(url, system, prompt)

interface Workload {
  readonly name: string
  /** Turns or deltas of one run. */
  readonly units: number
  readonly unit: string
  readonly plain: () => Promise<unknown>
  readonly ours: () => Promise<unknown>
}

const check = (steps: number) => (text: string): void => {
  if (text !== `done: ${steps} tool results seen.`) throw new Error(`wrong answer: ${text}`)
}

const loop = (k: number): Workload => ({
  name: `${k}-turn loop`,
  units: k + 1,
  unit: "turn",
  plain: () => plain.runLoop(`loop-${k}`).then(check(k)),
  ours: () => hermes.runLoop.call(ours as never, k).then(check(k))
})

const stream = (n: number): Workload => {
  const count = async (run: (onDelta: (text: string) => void) => Promise<unknown>): Promise<void> => {
    let seen = 0
    await run(() => seen++)
    if (seen !== n) throw new Error(`${seen} deltas of ${n}`)
  }
  return {
    name: `${n} streamed deltas`,
    units: n,
    unit: "delta",
    plain: () => count((onDelta) => plain.runStream(`stream-${n}`, onDelta)),
    ours: () => count((onDelta) => hermes.runStream.call(ours as never, n, onDelta))
  }
}

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return system + user
}

/** Microseconds of CPU for one unit, over at least `millis` of wall time. */
const batch = async (run: () => Promise<unknown>, units: number, millis: number): Promise<number> => {
  const end = performance.now() + millis
  const started = cpu()
  let runs = 0
  do {
    await run()
    runs++
  } while (performance.now() < end)
  return (cpu() - started) / runs / units
}

const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

const measure = async (workload: Workload): Promise<string> => {
  await batch(workload.plain, workload.units, warmMillis)
  await batch(workload.ours, workload.units, warmMillis)
  const base: Array<number> = []
  const ratios: Array<number> = []
  for (let cycle = 0; cycle < cycles; cycle++) {
    const first = cycle % 2 === 0
    const a = first ? await batch(workload.plain, workload.units, batchMillis) : 0
    const b = await batch(workload.ours, workload.units, batchMillis)
    const plainCost = first ? a : await batch(workload.plain, workload.units, batchMillis)
    base.push(plainCost)
    ratios.push(b / plainCost)
  }
  const spread = ratios.toSorted((a, b) => a - b)
  return `| ${workload.name} | ${median(base).toFixed(1)} µs/${workload.unit} | ${median(ratios).toFixed(2)} | ` +
    `${(spread[0] ?? 0).toFixed(2)}–${(spread.at(-1) ?? 0).toFixed(2)} |`
}

process.stdout.write("| workload | plain SDK loop, CPU | hermes-effect × | lowest–highest |\n|---|---:|---:|---:|\n")
for (const workload of [loop(10), loop(50), loop(200), stream(2000)]) {
  process.stdout.write(`${await measure(workload)}\n`)
}
server.disconnect()
process.exit(0)
