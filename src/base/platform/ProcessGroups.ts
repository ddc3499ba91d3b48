/**
 * Ends of process groups. A zombie, which is a process that has ended but whose parent has not read its exit code yet,
 * does not count as running.
 *
 * **Details**
 *
 * The processes of a killed command become children of process 1. In a container without an init, process 1 is often a
 * program that never reads the exit codes of such children, so their group exists for as long as the container runs.
 * The spawner of the platform waits for the group of a process, and gives up after seconds; {@link killGroup} and
 * {@link releaseGroup} stop waiting as soon as only zombies are left.
 *
 * **Gotchas**
 *
 * The states of processes are read from `/proc`. Without it (macOS), a group that exists counts as running.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ChildProcessHandle } from "effect/process/ChildProcessSpawner"
import { readdirSync, readFileSync } from "node:fs"

/** Time between two checks of a group, in milliseconds. It doubles after each check, up to the second value. */
const [firstCheckMillis, longestCheckMillis] = [20, 160]

/** Reads a file or a directory; returns `undefined` if it does not exist or cannot be read. */
const readOrUndefined = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    // Processes end while they are being listed.
    return undefined
  }
}

/** Tests whether a line of `/proc/<pid>/stat` describes a member of the group that has not ended. */
const isRunningMember = (stat: string, group: number): boolean => {
  // `pid (name, which may contain any character) state ppid pgrp …`: fields 3 and 5 of `proc(5)`.
  const [state, , member] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return Number(member) === group && state !== "Z" && state !== "X"
}

const doesGroupExist = (group: number): boolean => {
  try {
    process.kill(-group, 0)
    return true
  } catch (error) {
    // `EPERM` means that the group exists but belongs to another user.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Tests whether a process group exists, and all its members are zombies. */
const hasOnlyZombies = (group: number): boolean => {
  if (process.platform === "win32" || !doesGroupExist(group)) return false
  const names = readOrUndefined(() => readdirSync("/proc"))?.filter((name) => /^\d+$/u.test(name)) ?? []
  if (names.length === 0) return false
  return !names.some((name) => {
    const stat = readOrUndefined(() => readFileSync(`/proc/${name}/stat`, "utf8"))
    return stat !== undefined && isRunningMember(stat, group)
  })
}

/** Completes when a group has only zombies. Never completes for a group that disappears. Uses native timers. */
const awaitOnlyZombies = (group: number): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    let timer: NodeJS.Timeout | undefined
    const checkAfter = (millis: number): void => {
      timer = setTimeout(() => {
        if (hasOnlyZombies(group)) resume(Effect.void)
        else checkAfter(Math.min(millis * 2, longestCheckMillis))
      }, millis)
    }
    checkAfter(firstCheckMillis)
    return Effect.sync(() => clearTimeout(timer))
  })

/** Terminates a process that leads a group. Stops as soon as only zombies are left, because no signal changes that. */
export const killGroup = <E>(group: number, kill: Effect.Effect<void, E>): Effect.Effect<void, E> =>
  Effect.raceFirst(Effect.interruptible(kill), Effect.interruptible(awaitOnlyZombies(group)))

/**
 * Releases a process that leads a group. Does not wait for the rest of the release if only zombies are left: the
 * release cannot be interrupted, and waits for them.
 */
export const releaseGroup = Effect.fnUntraced(function* (
  { pid, unref }: Pick<ChildProcessHandle, "pid" | "unref">,
  release: Effect.Effect<void>
): Effect.fn.Return<void> {
  // The spawner does not wait for the group of a process that is unreferenced.
  if (hasOnlyZombies(pid)) yield* Effect.ignore(unref)
  const released = yield* Effect.forkDetach(release, { startImmediately: true })
  if (released.pollUnsafe() !== undefined) return
  yield* Effect.raceFirst(
    Effect.interruptible(Effect.asVoid(Fiber.await(released))),
    Effect.interruptible(awaitOnlyZombies(pid))
  )
})
