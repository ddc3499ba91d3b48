/**
 * The descendants of a process that left its process group (`setsid`, a detached child of a test runner), so that killing
 * a command's group is not all that is done about its tree.
 *
 * **Gotchas**
 *
 * Descendants are found through `/proc`; where there is none (macOS, Windows) only the group is killed. A daemon that gave
 * up its parent is found by its mark alone, where its program was given one.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { ChildProcessHandle } from "effect/process/ChildProcessSpawner"

/** A process that can not be mistaken for a later one of the same id. */
interface Identity {
  readonly pid: number
  readonly startTime: string
}

interface Stat extends Identity {
  readonly parent: number
}

/** `pid (name, which may hold anything) state ppid … starttime`: fields 1, 4 and 22 of `proc(5)`. */
const parseStat = (text: string): Stat | undefined => {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const [, parent] = fields
  const startTime = fields[19]
  return parent === undefined || startTime === undefined
    ? undefined
    : { pid: Number.parseInt(text, 10), parent: Number(parent), startTime }
}

type Work<A> = Effect.Effect<A, never, FileSystem.FileSystem>

const readStat = (pid: number): Work<Stat | undefined> =>
  FileSystem.FileSystem.use((fs) => fs.readFileString(`/proc/${pid}/stat`)).pipe(
    Effect.map(parseStat),
    // Processes end while they are being listed.
    Effect.orElseSucceed(() => undefined)
  )

/** Ids of all processes; none where there is no `/proc`. */
const processIds: Work<ReadonlyArray<number>> = FileSystem.FileSystem.use((fs) => fs.readDirectory("/proc")).pipe(
  Effect.map((names) => names.filter((name) => /^\d+$/.test(name)).map(Number)),
  Effect.orElseSucceed(() => [])
)

/** All processes below `root`, nearest first. */
const descendants = Effect.fnUntraced(function*(root: number): Effect.fn.Return<ReadonlyArray<Identity>, never, FileSystem.FileSystem> {
  const stats = yield* Effect.forEach(yield* processIds, readStat, { concurrency: 16 })
  const children = new Map<number, Array<Stat>>()
  for (const stat of stats) {
    if (stat === undefined) continue
    const siblings = children.get(stat.parent)
    if (siblings === undefined) children.set(stat.parent, [stat])
    else siblings.push(stat)
  }
  const found: Array<Identity> = []
  for (const pending = [root]; pending.length > 0;) {
    const next = children.get(pending.shift() ?? 0) ?? []
    found.push(...next)
    pending.push(...next.map(({ pid }) => pid))
  }
  return found
})

/** Kills those of the processes that are still the same ones. */
const killRemaining = (processes: ReadonlyArray<Identity>): Work<void> =>
  Effect.forEach(
    processes,
    (identity) =>
      Effect.map(readStat(identity.pid), (now) => {
        if (now?.startTime !== identity.startTime) return
        try {
          process.kill(identity.pid, "SIGKILL")
        } catch {
          // It ended between the look and the kill, or belongs to another user: nothing more can be done.
        }
      }),
    { discard: true }
  )

/** The variable of the environment that marks what a program starts, whoever its parent is by now. */
export const markVariable = "HERMES_SCRIPT_ID"

const maxRounds = 10

const isMarked = (pid: number, entry: string): Work<boolean> =>
  FileSystem.FileSystem.use((fs) => fs.readFileString(`/proc/${pid}/environ`)).pipe(
    Effect.map((environ) => environ.split("\0").includes(entry)),
    // It ended meanwhile, or belongs to another user.
    Effect.orElseSucceed(() => false)
  )

/** Kills everything that has a mark, and what that started while it was looked for. */
export const killMarked = Effect.fnUntraced(function*(mark: string): Effect.fn.Return<void, never, FileSystem.FileSystem> {
  const entry = `${markVariable}=${mark}`
  for (let round = 0; round < maxRounds; round++) {
    const marked = yield* Effect.filter(yield* processIds, (pid) => isMarked(pid, entry), { concurrency: 16 })
    const alive = (yield* Effect.forEach(marked, readStat)).filter((stat) => stat !== undefined)
    if (alive.length === 0) return
    yield* killRemaining(alive)
  }
})

/** Time that a process may take to end after a signal that it can catch. */
export const forceKillAfter = "2 seconds"

/**
 * Takes a process down with everything below it: its group by `killSignal`, what had left the group by SIGKILL. `leave` comes
 * first, and may have the process end by itself.
 */
export const takeDown = Effect.fnUntraced(function*(
  handle: ChildProcessHandle,
  killSignal: "SIGKILL" | "SIGTERM",
  leave: Effect.Effect<unknown> = Effect.void
): Effect.fn.Return<void, never, FileSystem.FileSystem> {
  const tree = yield* descendants(handle.pid)
  yield* leave
  // It fails when there is nothing left to kill.
  yield* Effect.ignore(handle.kill({ killSignal, forceKillAfter }))
  yield* killRemaining(tree)
})
