// `npm run bench`: the runtime as an application gets it beside the plain SDK loop, against one model server. Each
// runner has a process of its own; they take turns, in an order that changes, and a ratio divides by the plain loop of
// the same cycle. The column A/A is the plain loop against itself: what it is off 1 is noise. Compare ratios, never
// times: machines are shared. `--quick` is a look, not a measurement; `--compare REF` adds the runtime of another
// commit; `--only NAME,…` names rows, `--columns NAME,…` columns; `--warm SECONDS` is the time that each column runs
// before a row is measured (2.5 when absent: a process that has just been started is measured while its code is still
// compiled); `--peer FILE` (any number) adds a module whose default export is a runner of another library.
import { type ChildProcess, execFileSync, fork, spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { root } from "../support/sources.ts"
import { variants } from "./runner.ts"
import { type Workload, workloads } from "./workloads.ts"

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    compare: { type: "string" },
    only: { type: "string" },
    columns: { type: "string" },
    warm: { type: "string" },
    peer: { type: "string", multiple: true, default: [] }
  }
})
const cycles = values.quick ? 3 : 11
const freshCycles = values.quick ? 1 : 3
const batchMillis = values.quick ? 150 : 400
const warmMillis = values.warm === undefined ? (values.quick ? 500 : 2500) : Number(values.warm) * 1000

const chosen = (wanted: string | undefined, name: string): boolean =>
  wanted === undefined || wanted.split(",").some((part) => name.includes(part))

interface Column {
  readonly name: string
  /** What the worker is told. */
  readonly runner: string
  readonly tree: string
}

/** A work tree of another commit, which `remove` takes away. */
const treeOf = (ref: string) => {
  const folder = join(mkdtempSync(join(tmpdir(), "hermes-bench-ref-")), "tree")
  execFileSync("git", ["worktree", "add", "--detach", "--quiet", folder, ref], { cwd: root })
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  return {
    folder,
    remove: () => {
      execFileSync("git", ["worktree", "remove", "--force", folder], { cwd: root })
      rmSync(join(folder, ".."), { recursive: true, force: true })
    }
  }
}

const message = <A>(child: ChildProcess): Promise<A> =>
  new Promise((done, failed) => {
    const exited = (code: number | null): void => failed(new Error(`a worker ended with ${code}`))
    child.once("exit", exited)
    child.once("message", (value) => {
      child.off("exit", exited)
      // Both ends are of this folder.
      done(value as A)
    })
  })

const server = fork(join(import.meta.dirname, "server.ts"))
const { port } = await message<{ readonly port: number }>(server)
const url = `http://127.0.0.1:${port}/v1`

const other = values.compare === undefined ? undefined : treeOf(values.compare)
const plain: Column = { name: "plain", runner: "plain", tree: root }
const columns: ReadonlyArray<Column> = [
  { name: "A/A", runner: "A/A", tree: root },
  { name: "thin Effect loop", runner: "thin Effect loop", tree: root },
  ...variants.map(({ name }) => ({ name, runner: name, tree: root })),
  ...values.peer.map((file) => ({ name: basename(join(file, "..")), runner: resolve(file), tree: root })),
  ...(other === undefined
    ? []
    : ["hermes-effect", "SQLite"].map((name) => ({
        name: `${name} of ${values.compare}`,
        runner: name,
        tree: other.folder
      })))
].filter(({ name }) => chosen(values.columns, name))

const workers = new Map<string, ChildProcess>()
const started = async ({ runner, tree }: Column, flags: ReadonlyArray<string>): Promise<ChildProcess> => {
  const child = fork(join(import.meta.dirname, "worker.ts"), [runner, url, tree], { execArgv: [...flags] })
  await message(child)
  return child
}
const asked = async (child: ChildProcess, { name }: Workload, millis: number): Promise<number | undefined> => {
  const answer = message<{ readonly value?: number; readonly error?: string }>(child)
  child.send({ workload: name, millis })
  const { error, value } = await answer
  if (error !== undefined) throw new Error(error)
  return value
}
const ended = (child: ChildProcess): Promise<unknown> => {
  const gone = new Promise((done) => child.once("exit", done))
  child.kill("SIGTERM")
  setTimeout(() => child.kill("SIGKILL"), 2000).unref()
  return gone
}

const sample = async (column: Column, workload: Workload, millis: number): Promise<number | undefined> => {
  if (workload.fresh !== undefined) {
    const child = await started(column, workload.fresh)
    const value = await asked(child, workload, millis)
    await ended(child)
    return value
  }
  const known = workers.get(column.name) ?? (await started(column, []))
  workers.set(column.name, known)
  return asked(known, workload, millis)
}

const median = (list: ReadonlyArray<number>): number => {
  const sorted = list.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

const shuffled = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items
    .map((item) => ({ item, order: Math.random() }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ item }) => item)

/** The median of the ratios of each cycle, and their quartiles. */
const ratio = (over: ReadonlyArray<number>, under: ReadonlyArray<number>): string => {
  const each = over
    .map((value, cycle) => value / (under[cycle] ?? Number.NaN))
    .filter(Number.isFinite)
    .toSorted((a, b) => a - b)
  if (each.length === 0) return "–"
  const at = (part: number): string => (each[Math.round((each.length - 1) * part)] ?? Number.NaN).toFixed(2)
  return `${median(each).toFixed(2)} (${at(0.25)}–${at(0.75)})`
}

type Costs = ReadonlyMap<string, ReadonlyArray<number>>

const measure = async (workload: Workload): Promise<Costs> => {
  const all = [plain, ...columns.filter(({ name }) => workload.only === undefined || workload.only.includes(name))]
  if (workload.fresh === undefined) for (const column of all) await sample(column, workload, warmMillis)
  const costs = new Map<string, Array<number>>(all.map(({ name }) => [name, []]))
  for (let cycle = 0; cycle < (workload.fresh === undefined ? cycles : freshCycles); cycle++) {
    for (const column of shuffled(all))
      costs.get(column.name)?.push((await sample(column, workload, batchMillis)) ?? Number.NaN)
  }
  return costs
}

const row = ({ name, unit }: Workload, costs: Costs): string => {
  const base = costs.get(plain.name) ?? []
  return `| ${name} | ${median(base).toFixed(1)} ${unit} | ${columns.map((column) => ratio(costs.get(column.name) ?? [], base)).join(" | ")} |\n`
}

/** What listeners, wrappers and exporters that do nothing of use cost, beside the runtime without them. */
const additions = (costs: Costs): ReadonlyArray<string> => {
  const none = costs.get("hermes-effect")
  if (none === undefined) return []
  const times = ["ten listeners", "exporters"].flatMap((name) => {
    const with_ = costs.get(name)
    return with_ === undefined ? [] : [`${name} × none: ${ratio(with_, none)}`]
  })
  const wrapped = costs.get("ten wrappers")?.map((cost, cycle) => (cost - (none[cycle] ?? Number.NaN)) / 10)
  return wrapped === undefined ? times : [...times, `a wrapper of a tool call: ${median(wrapped).toFixed(2)} µs`]
}

interface Start {
  readonly imported: { readonly wall: number; readonly cpu: number }
  readonly answered: { readonly wall: number; readonly cpu: number }
}

const startOf = (kind: string): Start => {
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, "startRun.ts"), kind, url],
    { encoding: "utf8" }
  )
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

/** Import and first answer of a process, on the built package. */
const starts = (): string => {
  if (!existsSync(join(root, "dist/index.js"))) return "start: build the package first (npm run build)\n"
  const rounds = Array.from(
    { length: values.quick ? 3 : 11 },
    () => [startOf("plain"), startOf("hermes-effect")] as const
  )
  const of = (part: "imported" | "answered", clock: "wall" | "cpu"): string => {
    const [sdk, own] = [0, 1].map((index) => rounds.map((round) => round[index]?.[part][clock] ?? Number.NaN))
    return `${median(own ?? []).toFixed(0)} ms, ${ratio(own ?? [], sdk ?? [])}`
  }
  return [
    "| start (× of the SDK) | time | CPU |\n|---|---:|---:|",
    `| import of the package | ${of("imported", "wall")} | ${of("imported", "cpu")} |`,
    `| first answer | ${of("answered", "wall")} | ${of("answered", "cpu")} |\n`
  ].join("\n")
}

try {
  process.stdout.write(
    `| workload | plain SDK loop | ${columns.map(({ name }) => name).join(" | ")} |\n|---|---:|${columns.map(() => "---:|").join("")}\n`
  )
  const notes: Array<string> = []
  for (const workload of workloads.filter(({ name }) => chosen(values.only, name))) {
    const costs = await measure(workload)
    process.stdout.write(row(workload, costs))
    if (/^(50|200) turns$/.test(workload.name))
      notes.push(...additions(costs).map((note) => `${workload.name}: ${note}`))
  }
  process.stdout.write(
    `\n${notes.map((note) => `${note}\n`).join("")}${chosen(values.only, "start") ? `\n${starts()}` : ""}`
  )
} finally {
  await Promise.all(Array.from(workers.values(), ended))
  other?.remove()
  server.disconnect()
}
process.exit(0)
