// What `npm run bench` measures: workloads, and ways to measure them. A worker measures one runner; all numbers are
// better when lower.
import { PerformanceObserver } from "node:perf_hooks"

/** What is measured: runs of the scripts that the model server knows. */
export interface Runner {
  readonly runLoop: (k: number) => Promise<string>
  readonly runFanout: (n: number) => Promise<string>
  readonly runLoopStream: (k: number) => Promise<string>
  readonly runStream: (n: number, onDelta: (text: string) => void, kind?: "stream" | "trickle") => Promise<void>
  readonly openSession?: ((k: number) => Promise<unknown>) | undefined
  readonly runSession?: ((prompts: number, onPrompt: (index: number) => void) => Promise<void>) | undefined
  readonly runChildren?: ((n: number, k: number) => Promise<unknown>) | undefined
  readonly runGate?: (() => Promise<unknown>) | undefined
}

/** A sample: units of the workload, over at least `millis` of time. Undefined where the runner cannot do it. */
type Sample = (runner: Runner, millis: number) => Promise<number | undefined>

/** One row of the table. */
export interface Workload {
  readonly name: string
  readonly unit: string
  readonly sample: Sample
  /** Flags of a process of its own for each sample; workers that live on where absent. */
  readonly fresh?: ReadonlyArray<string>
  /** Columns that are measured; all of them where absent. */
  readonly only?: ReadonlyArray<string>
}

const check =
  (results: number) =>
  (text: string): void => {
    if (text !== `done: ${results} tool results seen.`) throw new Error(`wrong answer: ${text}`)
  }

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return system + user
}

/** Microseconds of one unit, by the clock that is given. */
const each =
  (clock: () => number, units: number, work: (runner: Runner) => Promise<unknown> | undefined): Sample =>
  async (runner, millis) => {
    const end = performance.now() + millis
    const started = clock()
    let runs = 0
    do {
      const running = work(runner)
      if (running === undefined) return undefined
      await running
      runs++
    } while (performance.now() < end)
    return (clock() - started) / runs / units
  }

const turns = (name: string, units: number, work: (runner: Runner) => Promise<unknown> | undefined): Workload => ({
  name,
  unit: "µs/turn",
  sample: each(cpu, units, work)
})

const loop = (k: number): Workload => turns(`${k} turns`, k + 1, (runner) => runner.runLoop(k).then(check(k)))

const agents =
  (count: number) =>
  (runner: Runner): Promise<unknown> =>
    Promise.all(Array.from({ length: count }, () => runner.runLoop(10).then(check(10))))

const deltas = (kind: "stream" | "trickle", n: number): Workload => ({
  name: kind === "stream" ? `${n} deltas, burst` : `${n} deltas, one per read`,
  unit: "µs/delta",
  sample: each(cpu, n, async (runner) => {
    let seen = 0
    await runner.runStream(n, () => void seen++, kind)
    if (seen !== n) throw new Error(`${seen} deltas of ${n}`)
  })
})

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN

const firstDelta: Sample = async (runner, millis) => {
  const end = performance.now() + millis
  const times: Array<number> = []
  do {
    const started = performance.now()
    let first = 0
    await runner.runStream(
      2000,
      () => {
        first ||= performance.now()
      },
      "stream"
    )
    times.push(first - started)
  } while (performance.now() < end)
  return median(times)
}

const prompts = 300

/** What a prompt costs more for each prompt before it: the last third of a session less the first. */
const perEarlier: Sample = async (runner) => {
  if (runner.runSession === undefined) return undefined
  const at: Array<number> = []
  await runner.runSession(prompts, () => void at.push(cpu()))
  const third = prompts / 3
  const spent = (from: number): number => ((at[from + third - 1] ?? 0) - (at[from] ?? 0)) / (third - 1)
  return (spent(2 * third) - spent(0)) / (2 * third)
}

const collect = (): number => {
  globalThis.gc?.()
  const { external, heapUsed } = process.memoryUsage()
  return heapUsed + external
}

/** Bytes that are allocated, in a young generation that holds all of them. */
const allocated: Sample = async (runner) => {
  for (let run = 0; run < 30; run++) await runner.runLoop(50).then(check(50))
  let collections = 0
  const observer = new PerformanceObserver((list) => void (collections += list.getEntries().length))
  collect()
  await new Promise(setImmediate)
  observer.observe({ entryTypes: ["gc"] })
  const before = process.memoryUsage().heapUsed
  const runs = 8
  for (let run = 0; run < runs; run++) await runner.runLoop(50)
  const after = process.memoryUsage().heapUsed
  await new Promise(setImmediate)
  observer.disconnect()
  return collections > 0 ? undefined : (after - before) / runs / 51
}

/** Bytes that each of some things takes which stay. */
const kept =
  (count: number, open: (runner: Runner) => Promise<unknown> | undefined, isWaiting: boolean): Sample =>
  async (runner) => {
    for (let run = 0; run < 100; run++) await runner.runLoop(10)
    const before = collect()
    const all: Array<unknown> = []
    for (let index = 0; index < count; index++) {
      const one = open(runner)
      if (one === undefined) return undefined
      all.push(isWaiting ? one : await one)
    }
    if (isWaiting) await new Promise((resolve) => setTimeout(resolve, 1000))
    const bytes = (collect() - before) / count
    return all.length === count ? bytes : undefined
  }

const exposed = ["--expose-gc"]

/** The rows, in their order. */
export const workloads: ReadonlyArray<Workload> = [
  loop(10),
  loop(50),
  loop(200),
  turns("50 turns streamed", 51, (runner) => runner.runLoopStream(50).then(check(50))),
  turns("8 calls at once", 2, (runner) => runner.runFanout(8).then(check(8))),
  turns("500 agents at once", 5500, agents(500)),
  {
    name: "500 agents at once, time",
    unit: "µs/turn",
    sample: each(() => performance.now() * 1000, 5500, agents(500))
  },
  turns("100 children of a run", 1100, (runner) => runner.runChildren?.(100, 10)),
  deltas("stream", 2000),
  deltas("trickle", 250),
  { name: "first delta of a burst", unit: "ms", sample: firstDelta },
  { name: "per earlier turn of a session", unit: "µs", sample: perEarlier },
  {
    name: "allocated",
    unit: "bytes/turn",
    sample: allocated,
    fresh: [...exposed, "--min-semi-space-size=512", "--max-semi-space-size=512"]
  },
  {
    name: "idle session of 10 turns",
    unit: "bytes",
    sample: kept(300, (runner) => runner.openSession?.(10), false),
    fresh: exposed
  },
  {
    name: "waiting agent with its socket",
    unit: "bytes",
    sample: kept(100, (runner) => runner.runGate?.(), true),
    fresh: exposed
  }
]
