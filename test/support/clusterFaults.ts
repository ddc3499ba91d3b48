// Rows of a batch on runners that are frozen, cut off and killed while their database restarts and their client dies:
// the effects of their tools are counted outside, in a file. Real processes over a real Postgres.
import { spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { connect, createServer, type Server as SocketServer, type Socket } from "node:net"
import { createInterface } from "node:readline"
import * as BatchFiles from "../../src/research/batch/BatchFiles.ts"
import { codeCache } from "./builtProgram.ts"
import { program, standInWhereUnset, withoutSandbox } from "./hermes.ts"
import type { Server } from "./postgresServer.ts"
import { commandOf } from "./runScript.ts"

/** Faults, and the processes that they meet. */
export const faults = ["freeze", "partition", "kill", "restart", "kill and restart", "client"] as const
export type Fault = (typeof faults)[number]

const wait = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

/** A way to the server that can be interrupted: nothing passes, and no end learns of it. */
const makeWay = async (from: string, folder: string) => {
  mkdirSync(folder, { recursive: true })
  let isCut = false
  const pairs = new Set<readonly [Socket, Socket]>()
  const server: SocketServer = createServer((near) => {
    const far = connect(`${from}/.s.PGSQL.5432`)
    const pair = [near, far] as const
    pairs.add(pair)
    for (const [one, other] of [pair, [far, near] as const]) {
      one.on("data", (bytes) => other.write(bytes))
      one.on("error", () => undefined)
      one.on("close", () => {
        const end = () => {
          pairs.delete(pair)
          other.destroy()
        }
        // The other end learns of it when the way is open again.
        if (isCut) waiting.push(end)
        else end()
      })
      if (isCut) one.pause()
    }
  })
  const waiting: Array<() => void> = []
  await new Promise<void>((resolve) => server.listen(`${folder}/.s.PGSQL.5432`, resolve))
  return {
    cut: () => {
      isCut = true
      for (const pair of pairs) for (const socket of pair) socket.pause()
    },
    open: () => {
      isCut = false
      for (const pair of pairs) for (const socket of pair) socket.resume()
      for (const end of waiting.splice(0)) end()
    },
    close: () => {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
      server.close()
    }
  }
}

export interface Options {
  readonly server: Server
  readonly directory: string
  readonly schema: string
  readonly rows: number
  readonly runners: number
  readonly concurrency: number
  /** Takeover time of the processes in seconds. */
  readonly takeover: number
  readonly faults: ReadonlyArray<Fault>
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  /** Pause of the model in ms; a tool takes half of it. */
  readonly pause: number
  readonly told?: ((line: string) => void) | undefined
}

/** Counts of a run. */
export interface Report {
  /** Effects that happened more than once. */
  readonly twice: ReadonlyArray<string>
  /** Rows with a result, and rows with several. */
  readonly done: number
  readonly repeated: ReadonlyArray<string>
  /** Rows that needed a second attempt. */
  readonly attempts: ReadonlyArray<string>
  /** Calls without an effect that the model was not told of. */
  readonly lost: ReadonlyArray<string>
  readonly millis: number
  readonly output: string
}

const readLines = (path: string): ReadonlyArray<string> =>
  existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : []

/** Runs the rows of a batch through all faults, and counts their effects. */
export const runThroughFaults = async (options: Options): Promise<Report> => {
  const { concurrency, directory, pause, random, rows, schema, server, takeover, told = () => undefined } = options
  const [traces, home, cwd] = [`${directory}/traces`, `${directory}/home/.hermes`, `${directory}/client`]
  for (const folder of [home, cwd]) mkdirSync(folder, { recursive: true })
  const ids = Array.from({ length: rows }, (_, index) => `r${index}`)
  writeFileSync(`${cwd}/rows.jsonl`, ids.map((id, index) => JSON.stringify({ id, prompt: `row ${index}` })).join("\n"))
  const direct = `${server.url(schema)}&takeover=${takeover}`
  const socket = new URL(direct).searchParams.get("host") ?? ""
  const began = Date.now()
  const children = new Set<ChildProcess>()

  const startRunner = async (number: number) => {
    const folder = `${directory}/way-${number}`
    const way = await makeWay(socket, folder)
    const url = new URL(direct)
    url.searchParams.set("host", folder)
    const start = () =>
      new Promise<ChildProcess>((resolve) => {
        const [command, ...args] = commandOf("clusterWorker.ts", [
          "rows",
          url.href,
          String(concurrency),
          traces,
          String(pause),
          `${directory}/work-${number}`
        ])
        const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] })
        children.add(child)
        child.once("exit", () => children.delete(child))
        createInterface({ input: child.stderr }).on("line", (line) => told(`runner ${number}: ${line}`))
        createInterface({ input: child.stdout }).on("line", (line) => {
          if (line === "ready") resolve(child)
        })
      })
    const runner = { number, way, child: await start(), restart: async () => void (runner.child = await start()) }
    return runner
  }

  let output = ""
  let ended: Promise<number | null> = Promise.resolve(null)
  const startClient = (...more: ReadonlyArray<string>): ChildProcess => {
    const args = ["batch", "run", "--cluster", "--dataset_file=rows.jsonl", "--batch_size=1", "--run_name=all"]
    const child = spawn(
      process.execPath,
      [program, "lab", ...args, "--toolsets=terminal", "--keep-without-reasoning", "--num-workers=64", ...more],
      {
        cwd,
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          PATH: process.env["PATH"],
          NODE_COMPILE_CACHE: codeCache,
          HOME: `${directory}/home`,
          HERMES_HOME: home,
          TERM: "dumb",
          HERMES_CLUSTER__DATABASE_URL: direct,
          ...withoutSandbox,
          ...standInWhereUnset(args, { home })
        }
      }
    )
    children.add(child)
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)))
    ended = new Promise((resolve) => child.once("exit", (code) => resolve((children.delete(child), code))))
    return child
  }

  const runners = await Promise.all(Array.from({ length: options.runners }, (_, number) => startRunner(number)))
  let client = startClient()
  const choose = () => runners[Math.floor(random() * runners.length)] ?? runners[0]
  /** Lasts from less than the takeover time to three times of it. */
  const chooseAbsence = () => 1000 * takeover * (0.5 + random() * 2.5)
  const meet: Readonly<Record<Fault, () => Promise<void>>> = {
    freeze: async () => {
      const runner = choose()
      runner?.child.kill("SIGSTOP")
      await wait(chooseAbsence())
      runner?.child.kill("SIGCONT")
    },
    partition: async () => {
      const runner = choose()
      runner?.way.cut()
      await wait(chooseAbsence())
      runner?.way.open()
    },
    kill: async () => {
      const runner = choose()
      runner?.child.kill("SIGKILL")
      await wait(500)
      await runner?.restart()
    },
    restart: async () => {
      await server.stop()
      await wait(1_000)
      await server.start()
    },
    "kill and restart": async () => {
      const runner = choose()
      runner?.child.kill("SIGKILL")
      await server.stop()
      await server.start()
      await runner?.restart()
    },
    client: async () => {
      client.kill("SIGKILL")
      await ended
      client = startClient("--resume")
    }
  }
  const progress = setInterval(() => {
    const ended = readLines(traces).filter((line) => line.startsWith("end ")).length
    told(`${((Date.now() - began) / 1000).toFixed(0)} s: ${ended} of ${4 * rows} calls have ended`)
  }, 15_000)
  try {
    for (const fault of options.faults) {
      const before = readLines(traces).length
      // Each fault meets runners at work, unless the rows are over.
      while (readLines(traces).length < before + 4 * concurrency && client.exitCode === null) await wait(50)
      await wait(random() * 500)
      told(`${((Date.now() - began) / 1000).toFixed(1)} s: ${fault}`)
      await meet[fault]()
    }
    let code = await ended
    // A run that ended during a fault has rows left.
    for (let round = 0; code !== 0 && round < 3; round++) {
      told(`the client ended with ${code}`)
      client = startClient("--resume")
      code = await ended
    }
    return count({ traces, results: `${cwd}/data/all`, ids, millis: Date.now() - began, output })
  } finally {
    clearInterval(progress)
    for (const child of children) child.kill("SIGKILL")
    for (const { way } of runners) way.close()
  }
}

interface Traces {
  readonly traces: string
  readonly results: string
  readonly ids: ReadonlyArray<string>
  readonly millis: number
  readonly output: string
}

const count = ({ ids, millis, output, results, traces }: Traces): Report => {
  const effects = new Map<string, number>()
  for (const line of readLines(traces))
    if (line.startsWith("begin ")) effects.set(line.slice(6), (effects.get(line.slice(6)) ?? 0) + 1)
  const lines = readdirSync(results)
    .filter(BatchFiles.names.isBatch)
    .flatMap((name) => readLines(`${results}/${name}`))
    .map((line) => ({ line, row: /^\{"row_id":"r(\d+)"/.exec(line)?.[1] ?? line.slice(0, 40) }))
  const byRow = Map.groupBy(lines, ({ row }) => row)
  const attempts = readLines(`${results}/attempts.jsonl`).filter(
    (line) => line.includes('"event":"fail"') || !line.includes('"attempt":1')
  )
  return {
    twice: Array.from(effects).flatMap(([id, times]) =>
      times > 1 && !id.endsWith("-d") ? [`${id} ${times} times`] : []
    ),
    done: byRow.size,
    repeated: Array.from(byRow).flatMap(([row, found]) => (found.length > 1 ? [row] : [])),
    attempts,
    lost: ids.flatMap((_, row) =>
      ["a", "b", "c", "d"].flatMap((call) => {
        const id = `row-${row}-${call}`
        const text = byRow.get(String(row))?.[0]?.line ?? ""
        return effects.has(id) || text.includes("may have happened") ? [] : [id]
      })
    ),
    millis,
    output
  }
}
