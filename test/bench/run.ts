// `npm run bench`: the runtime as an application gets it beside the plain SDK loop, against one model server, in turns, as ratios of CPU
// time. Compare ratios, never times: machines are shared. The column A/A is the plain loop against itself: what it is off 1 is noise.
// `--quick` is a look, not a measurement; `--compare REF` adds the runtime of another commit; `--only NAME,…` names workloads.
import { execFileSync, fork } from "node:child_process"
import { mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { parseArgs } from "node:util"
import { root } from "../support/sources.ts"
import * as Plain from "./plain.ts"
import { variants } from "./runner.ts"
import * as Thin from "./thin.ts"

const { values: { compare, only, quick } } = parseArgs({
  options: { quick: { type: "boolean", default: false }, compare: { type: "string" }, only: { type: "string" } }
})
const cycles = quick ? 3 : 11
const batchMillis = quick ? 100 : 300
const warmMillis = quick ? 300 : 2000
const system = "You are a benchmark agent. Call the echo tool as asked."
const prompt = "Go."

/** What is measured: runs of the scripts that the model server knows. */
type Runner = ReturnType<typeof Plain.make>

interface Workload {
  readonly name: string
  /** Turns or deltas of one run. */
  readonly units: number
  readonly unit: string
  readonly run: (runner: Runner) => Promise<unknown>
}

const check = (results: number) => (text: string): void => {
  if (text !== `done: ${results} tool results seen.`) throw new Error(`wrong answer: ${text}`)
}

const loop = (k: number): Workload => ({ name: `${k} turns`, units: k + 1, unit: "turn", run: (runner) => runner.runLoop(k).then(check(k)) })

const deltas = (kind: "stream" | "trickle", n: number): Workload => ({
  name: kind === "stream" ? `${n} deltas, burst` : `${n} deltas, one per read`,
  units: n,
  unit: "delta",
  run: async (runner) => {
    let seen = 0
    await runner.runStream(n, () => void seen++, kind)
    if (seen !== n) throw new Error(`${seen} deltas of ${n}`)
  }
})

const workloads: ReadonlyArray<Workload> = [
  loop(10),
  loop(50),
  loop(200),
  { name: "50 turns streamed", units: 51, unit: "turn", run: (runner) => runner.runLoopStream(50).then(check(50)) },
  { name: "8 calls at once", units: 2, unit: "turn", run: (runner) => runner.runFanout(8).then(check(8)) },
  { name: "100 agents at once", units: 1100, unit: "turn", run: (runner) => Promise.all(Array.from({ length: 100 }, () => runner.runLoop(10).then(check(10)))) },
  deltas("stream", 2000),
  deltas("trickle", 250)
]

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return system + user
}

/** Microseconds of CPU for one unit, over at least `millis` of wall time. */
const batch = async (work: () => Promise<unknown>, units: number, millis: number): Promise<number> => {
  const end = performance.now() + millis
  const started = cpu()
  let runs = 0
  do {
    await work()
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

const shuffled = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items.map((item) => ({ item, order: Math.random() })).toSorted((a, b) => a.order - b.order).map(({ item }) => item)

/** The runner of another commit, from a work tree of its own that `remove` takes away. */
const runnerOf = async (ref: string): Promise<{ readonly runner: { setup: (typeof variants)[number]["setup"] } & Runner; readonly remove: () => void }> => {
  const folder = join(mkdtempSync(join(tmpdir(), "hermes-bench-ref-")), "tree")
  execFileSync("git", ["worktree", "add", "--detach", "--quiet", folder, ref], { cwd: root })
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  // The default export of this file is the runner of the peer benchmark in every commit.
  const { default: runner } = await import(pathToFileURL(join(folder, "test/bench/runner.ts")).href)
  return {
    runner,
    remove: () => {
      execFileSync("git", ["worktree", "remove", "--force", folder], { cwd: root })
      rmSync(join(folder, ".."), { recursive: true, force: true })
    }
  }
}

const server = fork(fileURLToPath(new URL("server.ts", import.meta.url)))
const port = await new Promise<number>((resolve, reject) => {
  server.once("message", (message: { port: number }) => resolve(message.port))
  server.once("error", reject)
})
const url = `http://127.0.0.1:${port}/v1`
const options = { tool: (text: string) => text, middlewares: 0, system, prompt }

const other = compare === undefined ? undefined : await runnerOf(compare)
await other?.runner.setup(url, options)
for (const variant of variants) await variant.setup(url, options)
const plain = Plain.make(url, system, prompt)
const columns: ReadonlyArray<{ readonly name: string; readonly runner: Runner }> = [
  { name: "A/A", runner: Plain.make(url, system, prompt) },
  { name: "thin Effect loop", runner: Thin.make(url, system, prompt) },
  ...variants.map((runner) => ({ name: runner.name, runner })),
  ...other === undefined || compare === undefined ? [] : [{ name: compare, runner: other.runner }]
]

const measure = async ({ name, run, unit, units }: Workload): Promise<string> => {
  const all = [plain, ...columns.map(({ runner }) => runner)]
  for (const runner of all) await batch(() => run(runner), units, warmMillis)
  const costs = new Map<Runner, Array<number>>(all.map((runner) => [runner, []]))
  for (let cycle = 0; cycle < cycles; cycle++) {
    for (const runner of shuffled(all)) costs.get(runner)?.push(await batch(() => run(runner), units, batchMillis))
  }
  const base = costs.get(plain) ?? []
  const cells = columns.map(({ runner }) => {
    const ratios = (costs.get(runner) ?? []).map((cost, cycle) => cost / (base[cycle] ?? Number.NaN)).toSorted((a, b) => a - b)
    return `${median(ratios).toFixed(2)} (${(ratios[0] ?? Number.NaN).toFixed(2)}–${(ratios.at(-1) ?? Number.NaN).toFixed(2)})`
  })
  return `| ${name} | ${median(base).toFixed(1)} µs/${unit} | ${cells.join(" | ")} |`
}

try {
  const wanted = only?.split(",")
  process.stdout.write(`| workload | plain SDK loop, CPU | ${columns.map(({ name }) => name).join(" | ")} |\n|---|---:|${columns.map(() => "---:|").join("")}\n`)
  for (const workload of workloads) {
    if (wanted === undefined || wanted.some((part) => workload.name.includes(part))) process.stdout.write(`${await measure(workload)}\n`)
  }
} finally {
  for (const variant of variants) await variant.close()
  other?.remove()
  server.disconnect()
}
process.exit(0)
