/**
 * Identifies a process across the processes of one machine, so that a record it left behind can be told from one of a
 * process that still runs.
 *
 * **Details**
 *
 * `machine` names the host, its boot and its process namespace: a process id means something there only. `startTime` is the
 * process's start in clock ticks (field 22 of `proc(5)`), which tells a process from a later one of the same id; it is empty
 * where there is no `/proc`.
 */
import { readFileSync, readlinkSync } from "node:fs"
import { hostname } from "node:os"

/** A process, as it is told from every other one. */
export interface ProcessIdentity {
  readonly machine: string
  readonly pid: number
  readonly startTime: string
}

const readable = (read: () => string): string => {
  try {
    return read().trim()
  } catch {
    // No `/proc`: the host name has to do.
    return ""
  }
}

interface Stat {
  readonly state: string
  readonly startTime: string
}

/** `pid (name, which may hold anything) state ppid … starttime`; undefined where there is no such process or no `/proc`. */
const statOf = (pid: number): Stat | undefined => {
  const text = readable(() => readFileSync(`/proc/${pid}/stat`, "utf8"))
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const [state, startTime] = [fields[0], fields[19]]
  return state === undefined || startTime === undefined ? undefined : { state, startTime }
}

let own: ProcessIdentity | undefined

/** Identifies this process; read once. */
export const current = (): ProcessIdentity =>
  own ??= {
    machine: [
      hostname(),
      readable(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
      readable(() => readlinkSync("/proc/self/ns/pid"))
    ].join(" "),
    pid: process.pid,
    startTime: statOf(process.pid)?.startTime ?? ""
  }

const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // A process of another user may not be signalled, and is there.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Tests whether a process is certainly gone. A process of another machine never is: nothing is known of it. */
export const isDead = ({ machine, pid, startTime }: ProcessIdentity): boolean => {
  if (machine !== current().machine) return false
  if (!exists(pid)) return true
  const stat = statOf(pid)
  if (stat === undefined || startTime === "") return false
  return stat.startTime !== startTime || stat.state === "Z" || stat.state === "X"
}
