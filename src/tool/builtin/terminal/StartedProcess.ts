/**
 * The environment of a command: that of this program without credentials, so that a command which prints or sends its
 * environment gives nothing away.
 *
 * **Details**
 *
 * Left out are what the runtime itself uses to reach providers, tools and messengers (`CredentialNames.isReserved`),
 * and every name of a credential family (`…_TOKEN`, `…_SECRET`, `…_PASSWORD`, `…_KEY`, …). A name of a family can be
 * let through by the settings (`terminal.env_passthrough`), a reserved one never. General `AWS_…` variables stay,
 * because command line tools need them, except the secrets that a route of this program signs with; so do names that
 * only point at a place (`…_FILE`, `…_PATH`, `SSH_AUTH_SOCK`) or count (`MAX_TOKENS`).
 *
 * **Gotchas**
 *
 * A value is never looked at: a password inside of a `DATABASE_URL` stays. The commands can still read the user's
 * files; this keeps secrets from leaking by accident, it does not confine anything.
 *
 * Source: `hermes-llm.md` §19.10.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { ChildProcessHandle } from "effect/process/ChildProcessSpawner"
import { isCredential, isReserved } from "../../../domain/CredentialNames.ts"
import { ProcessPlace } from "../../../environment/CommandEnvironment.ts"
import * as TraceContext from "../../../hooks/TraceContext.ts"
import { sendSignal } from "../../../platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../../../platform/ProcessVariables.ts"
import * as InteractiveMode from "../../approval/InteractiveMode.ts"
import * as CronContext from "../../cron/CronContext.ts"

const standardPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]

/**
 * The search path with the standard directories after the given ones, when none of the essential ones is there. An
 * entry that depends on the directory of a command is left out: `cd` would choose the program.
 */
const completeSearchPath = (path: string | undefined): string => {
  const given = path === undefined ? [] : path.split(":").filter((entry) => entry.startsWith("/"))
  return given.includes("/usr/bin") ? given.join(":") : [...new Set([...given, ...standardPath])].join(":")
}

/** Exceptions that the configuration makes, by exact name. */
export interface Exceptions {
  /** Variables of a credential family that commands may have. */
  readonly passThrough: ReadonlyArray<string>
  /** Further variables that commands never have, such as the `key_env` of a custom provider. */
  readonly reserved: ReadonlyArray<string>
}

/** Takes the credentials out of an environment. Pure. */
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
 * The environment of what a tool call starts: that of this program without credentials, with the trace and the limits
 * that the call hands on, and the mark that finds what it leaves running.
 */
export const inheritEnvironment = Effect.fnUntraced(function* (
  exceptions: Exceptions,
  mark: string | undefined
): Effect.fn.Return<Record<string, string>> {
  const environment = yield* ProcessEnvironment
  const trace = yield* TraceContext.variables
  // A state belongs to the trace that it came with.
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

// The descendants of a process that left its process group (`setsid`, a detached child of a test runner), so that
// killing a command's group is not all that is done about its tree.
//
// **Gotchas**
//
// Descendants are found through `/proc`; where there is none (macOS, Windows) only the group is killed. A daemon that
// gave up its parent is found by its mark alone, where its program was given one.

/** A process that cannot be mistaken for a later one of the same id. */
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
 * Ids of all processes of this machine; none where there is no `/proc`, or where the processes that are served are
 * elsewhere.
 */
const processIds: Work<ReadonlyArray<number>> = Effect.flatMap(ProcessPlace, (place) =>
  place === "elsewhere"
    ? Effect.succeed([])
    : FileSystem.FileSystem.use((fs) => fs.readDirectory("/proc")).pipe(
        Effect.map((names) => names.filter((name) => /^\d+$/.test(name)).map(Number)),
        Effect.orElseSucceed(() => [])
      )
)

/** All processes below `root`, nearest first. */
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

/** Kills those of the processes that are still the same ones. */
const killRemaining = (processes: ReadonlyArray<Identity>): Work<void> =>
  Effect.forEach(
    processes,
    (identity) =>
      Effect.map(readStat(identity.pid), (now) => {
        if (now?.startTime !== identity.startTime) return
        try {
          sendSignal(identity.pid, "SIGKILL")
        } catch {
          // It ended between the look and the kill, or belongs to another user: nothing more can be done.
        }
      }),
    { discard: true }
  )

/** The variable of the environment that marks what a program starts, whoever its parent is by now. */
const markVariable = "HERMES_SCRIPT_ID"

const maxRounds = 10

const isMarked = (pid: number, entry: string): Work<boolean> =>
  FileSystem.FileSystem.use((fs) => fs.readFileString(`/proc/${pid}/environ`)).pipe(
    Effect.map((environ) => environ.split("\0").includes(entry)),
    // It ended meanwhile, or belongs to another user.
    Effect.orElseSucceed(() => false)
  )

/** Kills everything that has a mark, and what that started while it was looked for. */
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

/** Time that a process may take to end after a signal that it can catch. */
export const forceKillAfter = "2 seconds"

/**
 * Takes a process down with everything below it: its group by `killSignal`, what had left the group by SIGKILL. `leave`
 * comes first, and may have the process end by itself.
 */
export const takeDown = Effect.fnUntraced(function* (
  handle: ChildProcessHandle,
  killSignal: "SIGKILL" | "SIGTERM",
  leave: Effect.Effect<unknown> = Effect.void
): Effect.fn.Return<void, never, FileSystem.FileSystem> {
  const tree = yield* findDescendants(handle.pid)
  yield* leave
  // It fails when there is nothing left to kill.
  yield* Effect.ignore(handle.kill({ killSignal, forceKillAfter }))
  yield* killRemaining(tree)
})
