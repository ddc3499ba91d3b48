/**
 * The identity of a process, and temporary directories that name their process, so that a later process can remove the
 * directories of killed processes.
 *
 * **Details**
 *
 * A directory contains a file `owner` with the identity of its process. The directory is removed when that process has
 * certainly ended: the host was restarted, or the process no longer exists in the same process namespace. A directory
 * from another host or of another user is not removed, nor is a directory without a readable `owner` file or a symbolic
 * link.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFileSync, readlinkSync } from "node:fs"
import { lstat, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"

/**
 * Identifies a process among all others. `machine` identifies the host, its current boot and the process namespace,
 * because a process id is valid only within them. `startTime` is the process's start in clock ticks (field 22 of
 * `proc(5)`), which distinguishes a process from a later one with the same id; it is empty without `/proc`.
 */
interface ProcessIdentity {
  readonly machine: string
  readonly pid: number
  readonly startTime: string
}

const readOrEmpty = (read: () => string): string => {
  try {
    return read().trim()
  } catch {
    // Without `/proc`, only the host name identifies the machine.
    return ""
  }
}

interface Stat {
  readonly state: string
  readonly startTime: string
}

/**
 * Reads `pid (name, which may contain any character) state ppid … starttime`; `undefined` if there is no such process
 * or no `/proc`.
 */
const readStat = (pid: number): Stat | undefined => {
  const text = readOrEmpty(() => readFileSync(`/proc/${pid}/stat`, "utf8"))
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const [state, startTime] = [fields[0], fields[19]]
  return state === undefined || startTime === undefined ? undefined : { state, startTime }
}

let own: ProcessIdentity | undefined

/** Returns the identity of this process, which is read once. */
export const getCurrentProcess = (): ProcessIdentity =>
  (own ??= {
    machine: [
      hostname(),
      readOrEmpty(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
      readOrEmpty(() => readlinkSync("/proc/self/ns/pid"))
    ].join(" "),
    pid: process.pid,
    startTime: readStat(process.pid)?.startTime ?? ""
  })

const hasProcess = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // `EPERM` means that the process exists but belongs to another user.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/**
 * Tests whether a process has certainly ended. Returns `false` for a process on another machine, whose state is
 * unknown.
 */
export const isDead = ({ machine, pid, startTime }: ProcessIdentity): boolean => {
  if (machine !== getCurrentProcess().machine) return false
  if (!hasProcess(pid)) return true
  const stat = readStat(pid)
  if (stat === undefined || startTime === "") return false
  return stat.startTime !== startTime || stat.state === "Z" || stat.state === "X"
}

const ownerFile = "owner"

const Owner = Schema.fromJsonString(
  Schema.Struct({ machine: Schema.String, pid: Schema.Int, startTime: Schema.String })
)

/** Error raised when a directory could not be marked as belonging to this process. */
export class NotMarked extends Schema.TaggedError<NotMarked>()("NotMarked", { message: Schema.String }) {}

/** Marks a new directory as belonging to this process. */
export const markAsOwn = (directory: string): Effect.Effect<void, NotMarked> =>
  Effect.tryPromise({
    try: () => writeFile(join(directory, ownerFile), JSON.stringify(getCurrentProcess()), { mode: 0o600, flag: "wx" }),
    catch: (cause) => new NotMarked({ message: cause instanceof Error ? cause.message : String(cause) })
  })

/** Returns `true` if the owner has certainly ended. */
const isGone = (owner: typeof Owner.Type): boolean => {
  const [host, boot] = owner.machine.split(" ")
  const [here, now] = getCurrentProcess().machine.split(" ")
  const isEarlierStart = host === here && boot !== now && boot !== "" && now !== ""
  return isEarlierStart || isDead(owner)
}

const removeOne = Effect.fnUntraced(function* (directory: string) {
  const stat = yield* Effect.tryPromise(() => lstat(directory))
  if (!stat.isDirectory() || stat.uid !== process.getuid?.()) return
  const text = yield* Effect.tryPromise(() => readFile(join(directory, ownerFile), "utf8"))
  if (isGone(yield* Schema.decodeEffect(Owner)(text)))
    yield* Effect.tryPromise(() => rm(directory, { recursive: true, force: true }))
})

/**
 * Removes the directories in `parent` that belong to killed processes and whose names begin with `prefix`. Directories
 * that cannot be checked or removed remain.
 */
export const removeAbandoned = (parent: string, prefix: string): Effect.Effect<void> =>
  Effect.tryPromise(() => readdir(parent)).pipe(
    Effect.flatMap((names) =>
      Effect.forEach(
        names.filter((name) => name.startsWith(prefix)),
        (name) => Effect.ignore(removeOne(join(parent, name))),
        { discard: true }
      )
    ),
    // The next start of the program tries again.
    Effect.ignore
  )
