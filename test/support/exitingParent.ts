// Starts a process that ignores every signal but the last one, kills the watchdog beside it, and ends by itself:
// nothing but its own end is left to kill what it started. Prints the id of that process.
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { readdirSync, readFileSync, writeSync } from "node:fs"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"

/** Ids of the processes that this one started, those that are no group's or command's of its own asking included. */
const children = (): ReadonlyArray<number> =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
        return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === process.pid
      } catch {
        return false
      }
    })

const stubborn = ChildProcess.make("sh", ["-c", "trap '' INT TERM HUP; echo up; while :; do sleep 0.1; done"])

const program = Effect.scoped(
  Effect.gen(function* () {
    const handle = yield* stubborn
    yield* Stream.runHead(handle.stdout)
    for (const pid of children()) if (pid !== Number(handle.pid)) process.kill(pid, "SIGKILL")
    writeSync(1, `${handle.pid}\n`)
    process.exit(0)
  })
)

await Effect.runPromise(Effect.provide(program, ChildProcesses.layer))
