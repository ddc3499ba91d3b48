// `npm run faults:cluster`: rows of a batch on three runners, through faults of runners, database and client. Arguments:
// rows, faults, seed, takeover time in seconds. Ends with 1 if an effect happened twice, or a row has no result.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { faults, runThroughFaults } from "../support/clusterFaults.ts"
import { startServer } from "../support/postgresServer.ts"

const [rows = 2_000, count = 20, seed = Date.now() % 100_000, takeover = 4] = process.argv.slice(2).map(Number)

let state = seed
/** Mulberry32. */
const random = (): number => {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const server = await startServer()
const directory = mkdtempSync(`${tmpdir()}/hermes-cluster-faults-`)
print(`${rows} rows, ${count} faults, seed ${seed}, takeover ${takeover} s`)
try {
  const { attempts, done, lost, millis, output, repeated, twice } = await runThroughFaults({
    server,
    directory,
    schema: "faults",
    rows,
    runners: 3,
    concurrency: 8,
    takeover,
    faults: Array.from({ length: count }, () => faults[Math.floor(random() * faults.length)] ?? "freeze"),
    random,
    pause: 400,
    told: print
  })
  print(`${done} of ${rows} rows done in ${(millis / 1000).toFixed(0)} s`)
  for (const [name, list] of Object.entries({ twice, repeated, lost, attempts }))
    print(`${name}: ${list.length}${list.length === 0 ? "" : ` (${list.slice(0, 20).join("; ")})`}`)
  if (done !== rows || twice.length + repeated.length + lost.length > 0) {
    print(output.split("\n").slice(-20).join("\n"))
    process.exitCode = 1
  }
} finally {
  await server.remove()
  rmSync(directory, { recursive: true, force: true })
}
process.exit()
