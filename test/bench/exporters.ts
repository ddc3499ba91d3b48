// `npm run bench:exporters`: sessions with all exporters, and with `RunTelemetry` and Effect's exporter, beside the same
// without any, each in a process of its own, in turns, on the built package. CPU from building the layer to closing it;
// `A/A` is the ratio of two that are the same. `--quick` is a look. `--rounds n` and `--turns n,…` choose.
import { fork, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import type { Sample } from "./exportersRun.ts"

const { values } = parseArgs({
  options: { quick: { type: "boolean" }, rounds: { type: "string" }, turns: { type: "string" } }
})
const rounds = Number(values.rounds ?? (values.quick === true ? 3 : 11))
const sizes = (values.turns ?? "20,50,200").split(",").map(Number)

const server = fork(join(import.meta.dirname, "server.ts"))
const port = await new Promise<number>((resolve, reject) => {
  server.once("message", (message: { port: number }) => resolve(message.port))
  server.once("error", reject)
})
const directory = mkdtempSync(join(tmpdir(), "hermes-bench-"))

const kinds = ["on", "telemetry"] as const

const run = (exporters: "off" | (typeof kinds)[number], turns: number): Sample => {
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    [
      join(import.meta.dirname, "exportersRun.ts"),
      exporters,
      String(turns),
      `http://127.0.0.1:${port}`,
      join(directory, "out")
    ],
    { encoding: "utf8", env: { PATH: process.env["PATH"], HERMES_HOME: join(directory, "home") } }
  )
  if (status !== 0) throw new Error(stderr)
  rmSync(join(directory, "out"), { recursive: true, force: true })
  return JSON.parse(stdout) as Sample
}

const median = (list: ReadonlyArray<number>): number => {
  const sorted = list.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

/** Ratio of the medians, with the quartiles of the ratios of each round. */
const ratio = (over: ReadonlyArray<number>, under: ReadonlyArray<number>): string => {
  const each = over.map((value, index) => value / (under[index] ?? Number.NaN)).toSorted((a, b) => a - b)
  const at = (part: number): string => (each[Math.round((each.length - 1) * part)] ?? Number.NaN).toFixed(2)
  return `${(median(over) / median(under)).toFixed(2)} (${at(0.25)}–${at(0.75)})`
}

process.stdout.write(
  "| turns | exporters | session | off, CPU | CPU | × off (quartiles) | A/A |\n|---:|---|---|---:|---:|---:|---:|\n"
)
try {
  for (const turns of sizes) {
    const samples = Array.from({ length: rounds }, (_, round) => {
      // Off stands at both ends, so that what changes during a round changes nothing in its ratios.
      const off = run("off", turns)
      const order = round % 2 === 0 ? kinds : kinds.toReversed()
      const on = new Map(order.map((kind) => [kind, run(kind, turns)] as const))
      return { off, on, again: run("off", turns) }
    })
    for (const kind of kinds) {
      for (const session of ["first", "later"] as const) {
        const off = samples.map((sample) => sample.off[session])
        const again = samples.map((sample) => sample.again[session])
        const both = off.map((one, index) => (one + (again[index] ?? Number.NaN)) / 2)
        const on = samples.map((sample) => sample.on.get(kind)?.[session] ?? Number.NaN)
        process.stdout.write(
          `| ${turns} | ${kind} | ${session} | ${median(both).toFixed(0)} ms | ${median(on).toFixed(0)} ms | ${ratio(on, both)} | ${ratio(again, off)} |\n`
        )
      }
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
  server.disconnect()
}
