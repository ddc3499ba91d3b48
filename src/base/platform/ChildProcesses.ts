/**
 * Starts processes that never outlive this process: they are killed when the program ends, even by a signal, by
 * `process.exit` or by `kill -9`.
 *
 * **Details**
 *
 * Every process leads its own process group, and has its own mark in the environment variable {@link markVariable},
 * which its descendants inherit. Remaining processes are ended by:
 *
 * - the scope in which a process was started, when it closes normally;
 * - the exit of this process, which first kills every remaining group ({@link killAll});
 * - a watchdog for abnormal termination: one small shell, started with the first process, that reads the marks of the
 *   live processes from a pipe. The pipe ends when this process ends for any reason. Then the watchdog kills the groups
 *   and every process with one of their marks, even outside its group.
 *
 * The watchdog receives a mark before the process is started, so that no process is missed. The cost is one write to a
 * pipe for each process, and one start of `/bin/sh` for all processes.
 *
 * **Gotchas**
 *
 * Marks are read from `/proc`. Without it (macOS), only the process groups are killed, and on Windows only a regular
 * exit of this process kills its processes. A program that clears its environment and leaves its group is not found.
 */
import * as NodeChildProcessSpawner from "@effect/platform-node-shared/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import * as NodePath from "@effect/platform-node-shared/NodePath"
import * as NodeStdio from "@effect/platform-node-shared/NodeStdio"
import * as NodeTerminal from "@effect/platform-node-shared/NodeTerminal"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type { Stdio } from "effect/Stdio"
import type { Terminal } from "effect/Terminal"
import * as ChildProcess from "effect/process/ChildProcess"
import {
  type ChildProcessHandle,
  ChildProcessSpawner,
  make as makeSpawner,
  makeHandle
} from "effect/process/ChildProcessSpawner"
import * as Scope from "effect/Scope"
import { type ChildProcess as NodeProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as InheritedDescriptors from "./InheritedDescriptors.ts"
import * as ProcessGroups from "./ProcessGroups.ts"

/** The environment variable that marks a process and its descendants. */
const markVariable = "HERMES_PROCESS_MARK"

/** If true, started processes may outlive the program. Used for example for a browser that is opened for the user. */
export const Outlives = Context.Reference<boolean>("hermes-effect/platform/Outlives", { defaultValue: () => false })

/**
 * Script of the watchdog. It reads `+ mark` (about to start), `= mark pgid` (started) and `- mark` (ended) until the
 * pipe ends. Then it kills the remaining processes, and repeats the search for processes that were started meanwhile.
 */
const watchdogScript = `
live=''
while IFS=' ' read -r sign mark group; do
  case $sign in
    +) live="$live $mark:" ;;
    *)
      kept=''
      for entry in $live; do
        case $entry in "$mark":*) ;; *) kept="$kept $entry" ;; esac
      done
      live=$kept
      if [ "$sign" = = ]; then live="$live $mark:$group"; fi
      ;;
  esac
done
[ -n "$live" ] || exit 0
patterns=''
for entry in $live; do
  group=\${entry#*:}
  [ -z "$group" ] || kill -KILL "-$group" 2>/dev/null
  patterns="$patterns -e ${markVariable}=\${entry%%:*}"
done
[ -d /proc/self ] || exit 0
round=0
while [ $round -lt 10 ]; do
  found=$(grep -lsF $patterns /proc/[0-9]*/environ 2>/dev/null)
  [ -n "$found" ] || exit 0
  for file in $found; do
    pid=\${file#/proc/}
    kill -KILL "\${pid%/environ}" 2>/dev/null
  done
  round=$((round + 1))
done
`

/** Process groups by mark; `undefined` while the process is being started. */
const live = new Map<string, number | undefined>()

/** Random prefix of the marks of this process, which makes them unique. */
let markPrefix: string | undefined
let marks = 0

/**
 * Creates a mark that is not a prefix of another mark. Marks are short, because the watchdog reads them byte by byte.
 */
const makeMark = (): string => {
  markPrefix ??= randomUUID().slice(-12)
  return `${markPrefix}${(++marks).toString(36)}.`
}

let watchdog: NodeProcess | undefined

const startWatchdog = (): NodeProcess => {
  const started = spawn("/bin/sh", ["-c", watchdogScript], {
    cwd: "/",
    // The watchdog inherits no variables from this program. With an inherited mark it would kill itself as one of the
    // marked processes.
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"]
  })
  const forgetWatchdog = (): void => {
    if (watchdog === started) watchdog = undefined
  }
  // If the shell is missing or has ended, the next process starts another watchdog.
  started.on("error", forgetWatchdog).on("exit", forgetWatchdog)
  started.stdin?.on("error", forgetWatchdog)
  started.unref()
  // In Node the pipe is a socket, which keeps the program alive unless it is unreferenced.
  if (started.stdin !== null && "unref" in started.stdin && typeof started.stdin.unref === "function")
    started.stdin.unref()
  for (const [mark, group] of live) started.stdin?.write(group === undefined ? `+ ${mark}\n` : `= ${mark} ${group}\n`)
  return started
}

/** Lines that are sent to the watchdog with a delay. */
let pending = ""
let isScheduled = false
const flushAfterMillis = 100

const writeLines = (lines: string): void => {
  pending = ""
  if (watchdog === undefined) watchdog = startWatchdog()
  else watchdog.stdin?.write(lines)
}

/** Sends a line to the watchdog immediately. */
const notifyNow = (line: string): void => {
  if (process.platform !== "win32") writeLines(pending + line)
}

/**
 * Sends a line to the watchdog after a short delay, because every write wakes the watchdog and would slow down short
 * commands.
 */
const notifySoon = (line: string): void => {
  pending += line
  if (isScheduled || process.platform === "win32") return
  isScheduled = true
  setTimeout(() => {
    isScheduled = false
    if (pending !== "" && watchdog !== undefined) writeLines(pending)
  }, flushAfterMillis).unref()
}

/** Immediately kills every process group that is still running. */
export const killAll = (): void => {
  for (const group of live.values()) {
    if (group === undefined) continue
    try {
      process.kill(process.platform === "win32" ? group : -group, "SIGKILL")
    } catch {
      // The process group has already ended.
    }
  }
}

let exitIsWatched = false

const addMark = (mark: string): void => {
  if (!exitIsWatched) process.on("exit", killAll)
  exitIsWatched = true
  live.set(mark, undefined)
  notifyNow(`+ ${mark}\n`)
}

const recordGroup = (mark: string, group: number): void => {
  live.set(mark, group)
  notifySoon(`= ${mark} ${group}\n`)
}

const removeMark = (mark: string): void => {
  live.delete(mark)
  notifySoon(`- ${mark}\n`)
}

const markCommand = (command: ChildProcess.Command, mark: string): ChildProcess.Command =>
  command._tag === "PipedCommand"
    ? ChildProcess.pipeTo(markCommand(command.left, mark), markCommand(command.right, mark), command.options)
    : ChildProcess.make(command.command, command.args, {
        ...command.options,
        ...(command.options.env === undefined ? { extendEnv: true } : {}),
        env: { ...command.options.env, [markVariable]: mark },
        detached: true
      })

/** Returns a command whose process does not receive the descriptors that this process inherited. */
const withoutInherited = (command: ChildProcess.Command): ChildProcess.Command =>
  command._tag === "PipedCommand"
    ? ChildProcess.pipeTo(withoutInherited(command.left), withoutInherited(command.right), command.options)
    : InheritedDescriptors.closeFor(command, InheritedDescriptors.listDescriptors())

/** Starts a process whose resources are released with a scope. Closes the scope if the process cannot be started. */
const startIn = (
  scope: Scope.Closeable,
  start: Effect.Effect<ChildProcessHandle, PlatformError, Scope.Scope>
): Effect.Effect<{ readonly handle: ChildProcessHandle; readonly scope: Scope.Closeable }, PlatformError> =>
  Scope.provide(start, scope).pipe(
    Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))),
    Effect.map((handle) => ({ handle, scope }))
  )

/** Wraps a spawner so that its processes never outlive this process. */
const guardSpawner = (inner: ChildProcessSpawner["Service"]): ChildProcessSpawner["Service"] =>
  makeSpawner(
    Effect.fnUntraced(function* (command) {
      if (yield* Outlives) return yield* inner.spawn(withoutInherited(command))
      const mark = makeMark()
      // The mark is released after the process has ended, because the finalizer of the process runs first.
      yield* Effect.acquireRelease(
        Effect.sync(() => addMark(mark)),
        () => Effect.sync(() => removeMark(mark))
      )
      const { handle } = yield* Effect.acquireRelease(
        startIn(yield* Scope.make(), inner.spawn(withoutInherited(markCommand(command, mark)))),
        ({ handle, scope }, exit) => ProcessGroups.releaseGroup(handle, Scope.close(scope, exit))
      )
      recordGroup(mark, handle.pid)
      return makeHandle({ ...handle, kill: (options) => ProcessGroups.killGroup(handle.pid, handle.kill(options)) })
    })
  )

/** Layer that wraps the spawner in the context so that its processes never outlive this process. */
const guarding = Layer.effect(ChildProcessSpawner, Effect.map(ChildProcessSpawner, guardSpawner))

/** Provides Node's services. Their processes never outlive this process. */
export const layer: Layer.Layer<ChildProcessSpawner | FileSystem.FileSystem | Path.Path | Stdio | Terminal> =
  guarding.pipe(
    Layer.provideMerge(NodeChildProcessSpawner.layer),
    Layer.provideMerge(Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, NodeStdio.layer, NodeTerminal.layer))
  )

/**
 * The services of a platform that an agent uses: processes, files and paths. Standard streams and the terminal belong
 * to the application.
 */
export type Platform = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

const ofNode: Layer.Layer<Platform> = guarding.pipe(
  Layer.provideMerge(NodeChildProcessSpawner.layer),
  Layer.provideMerge(Layer.mergeAll(NodeFileSystem.layer, NodePath.layer))
)

/** Provides a platform service. Uses the service of the application if there is one, and Node's service otherwise. */
const layerGivenOrNode = <Self extends Platform, Shape>(key: Context.Key<Self, Shape>): Layer.Layer<Self> =>
  Layer.effect(
    key,
    Effect.flatMap(Effect.serviceOption(key), (given) =>
      Option.isSome(given)
        ? Effect.succeed(given.value)
        : Effect.map(Layer.build(ofNode), (node) => Context.get(node, key))
    )
  )

/** Provides the platform services of the application, and uses {@link layer} for missing ones. */
export const layerDefault = (): Layer.Layer<Platform> =>
  Layer.mergeAll(
    layerGivenOrNode(ChildProcessSpawner),
    layerGivenOrNode(FileSystem.FileSystem),
    layerGivenOrNode(Path.Path)
  )
