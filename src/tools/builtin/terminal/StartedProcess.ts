/**
 * The environment of a command: this program's environment without credentials, so that a command that prints or sends
 * its environment leaks no secrets.
 *
 * **Details**
 *
 * Variables that the runtime itself uses to reach providers, tools and messengers (`CredentialNames.isReserved`) are
 * removed, and so is every name of a credential family (`…_TOKEN`, `…_SECRET`, `…_PASSWORD`, `…_KEY`, …). The settings
 * can pass a family name through (`terminal.env_passthrough`), but never a reserved name. General `AWS_…` variables
 * remain, because command-line tools need them, except the secrets that sign requests of this program. Variables for
 * locations (`…_FILE`, `…_PATH`, `SSH_AUTH_SOCK`) and counts (`MAX_TOKENS`) remain too.
 *
 * **Gotchas**
 *
 * Values are not inspected: a password inside a `DATABASE_URL` remains. The commands can still read the user's files.
 * This prevents accidental leaks of secrets; it does not confine commands.
 *
 * Source: `hermes-llm.md` §19.10.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { ChildProcessHandle } from "effect/process/ChildProcessSpawner"
import { isCredential, isReserved } from "../../../base/domain/CredentialNames.ts"
import { ProcessPlace } from "../../../places/CommandEnvironment.ts"
import * as TraceContext from "../../../hooks/TraceContext.ts"
import { sendSignal } from "../../../base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../../../base/platform/ProcessVariables.ts"
import * as InteractiveMode from "../../approval/InteractiveMode.ts"
import * as CronContext from "../../cron/CronContext.ts"

const standardPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]

/**
 * Appends the standard directories to the given search path if it contains none of the essential directories. A
 * relative entry is removed, because its meaning would change with `cd`.
 */
const completeSearchPath = (path: string | undefined): string => {
  const given = path === undefined ? [] : path.split(":").filter((entry) => entry.startsWith("/"))
  return given.includes("/usr/bin") ? given.join(":") : [...new Set([...given, ...standardPath])].join(":")
}

/** Exceptions from the configuration, by exact name. */
export interface Exceptions {
  /** Variables of a credential family that commands may have. */
  readonly passThrough: ReadonlyArray<string>
  /** Further variables that commands never have, such as the `key_env` of a custom provider. */
  readonly reserved: ReadonlyArray<string>
}

/** Removes the credentials from an environment. Pure. */
export const scrub = (
  environment: Readonly<Record<string, string | undefined>>,
  { passThrough, reserved }: Exceptions
): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || reserved.includes(name)) continue
    if (isCredential(name) && (isReserved(name) || !passThrough.includes(name))) continue
    out[name] = value
  }
  out["PATH"] = completeSearchPath(environment["PATH"])
  return out
}

/**
 * Returns the environment of processes started by a tool call: this program's environment without credentials, with the
 * trace and limits of the call, and the mark that identifies processes left running.
 */
export const inheritEnvironment = Effect.fnUntraced(function* (
  exceptions: Exceptions,
  mark: string | undefined
): Effect.fn.Return<Record<string, string>> {
  const environment = yield* ProcessEnvironment
  const trace = yield* TraceContext.variables
  // A trace state is valid only with the trace that it came with.
  const { TRACESTATE, ...own } = scrub(environment(), exceptions)
  return {
    ...own,
    ...(TRACESTATE === undefined || "TRACEPARENT" in trace ? {} : { TRACESTATE }),
    ...trace,
    ...(yield* CronContext.variables),
    ...(yield* InteractiveMode.variables),
    ...(mark === undefined ? {} : { [markVariable]: mark })
  }
})

// Descendants of a process that left its process group (`setsid`, a detached child of a test runner). They must be
// killed in addition to the command's group.
//
// **Gotchas**
//
// Descendants are found through `/proc`; without it (macOS, Windows) only the group is killed. A daemon that detached
// from its parent is found only by its mark, if its program was given one.

/** Identity of a process that distinguishes it from a later process with the same id. */
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

/**
 * Returns the ids of all processes of this machine; empty without `/proc`, or if the processes run on another machine.
 */
const processIds: Work<ReadonlyArray<number>> = Effect.flatMap(ProcessPlace, (place) =>
  place === "elsewhere"
    ? Effect.succeed([])
    : FileSystem.FileSystem.use((fs) => fs.readDirectory("/proc")).pipe(
        Effect.map((names) => names.filter((name) => /^\d+$/.test(name)).map(Number)),
        Effect.orElseSucceed(() => [])
      )
)

/** Returns all processes below `root`, nearest first. */
const findDescendants = Effect.fnUntraced(function* (
  root: number
): Effect.fn.Return<ReadonlyArray<Identity>, never, FileSystem.FileSystem> {
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

/** Kills the processes whose ids have not been reused. */
const killRemaining = (processes: ReadonlyArray<Identity>): Work<void> =>
  Effect.forEach(
    processes,
    (identity) =>
      Effect.map(readStat(identity.pid), (now) => {
        if (now?.startTime !== identity.startTime) return
        try {
          sendSignal(identity.pid, "SIGKILL")
        } catch {
          // The process ended before the kill, or belongs to another user. Both cases are ignored.
        }
      }),
    { discard: true }
  )

/** The environment variable that marks all processes started by a program, even after they change parent. */
const markVariable = "HERMES_SCRIPT_ID"

const maxRounds = 10

const isMarked = (pid: number, entry: string): Work<boolean> =>
  FileSystem.FileSystem.use((fs) => fs.readFileString(`/proc/${pid}/environ`)).pipe(
    Effect.map((environ) => environ.split("\0").includes(entry)),
    // The process ended in the meantime, or belongs to another user.
    Effect.orElseSucceed(() => false)
  )

/** Kills all processes with a mark, including processes that start during the search. */
export const killMarked = Effect.fnUntraced(function* (
  mark: string
): Effect.fn.Return<void, never, FileSystem.FileSystem> {
  const entry = `${markVariable}=${mark}`
  for (let round = 0; round < maxRounds; round++) {
    const marked = yield* Effect.filter(yield* processIds, (pid) => isMarked(pid, entry), { concurrency: 16 })
    const alive = (yield* Effect.forEach(marked, readStat)).filter((stat) => stat !== undefined)
    if (alive.length === 0) return
    yield* killRemaining(alive)
  }
})

/** Time for a process to end after a signal that it can catch. */
export const forceKillAfter = "2 seconds"

/**
 * Terminates a process and its descendants: its group with `killSignal`, descendants outside the group with SIGKILL.
 * `leave` runs first and may let the process end by itself.
 */
export const takeDown = Effect.fnUntraced(function* (
  handle: ChildProcessHandle,
  killSignal: "SIGKILL" | "SIGTERM",
  leave: Effect.Effect<unknown> = Effect.void
): Effect.fn.Return<void, never, FileSystem.FileSystem> {
  const tree = yield* findDescendants(handle.pid)
  yield* leave
  // The kill fails if no process is left.
  yield* Effect.ignore(handle.kill({ killSignal, forceKillAfter }))
  yield* killRemaining(tree)
})
