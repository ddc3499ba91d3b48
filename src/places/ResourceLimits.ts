/**
 * Limits of one command and all its processes: processor time, memory, processes, output and temporary files
 * (`terminal.limits`). A command that exceeds a limit is killed, and its output states the limit.
 *
 * **Details**
 *
 * The processes of a command are read from `/proc` five times a second, and only if a limit is set; the wrappers of a
 * sandbox count as processes of the command. Memory does not include pages shared with files. The duration of a command
 * is limited by its timeout. Temporary files are limited in a sandbox, whose temporary directories are private
 * (`TemporarySpace`).
 *
 * **Gotchas**
 *
 * Between two readings, a fifth of a second, a command can exceed its limits. Without a sandbox, a process that left
 * its parent and its group is not counted; in a sandbox it cannot leave them.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { PlatformError } from "effect/PlatformError"
import {
  type ChildProcessHandle,
  ChildProcessSpawner,
  make as makeSpawner,
  makeHandle
} from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import { getMachineMemory, temporarySpace } from "../base/platform/CurrentProcess.ts"
import { CommandEnvironment, type Service } from "./CommandEnvironment.ts"
import * as TemporarySpace from "./TemporarySpace.ts"

const mega = 1024 * 1024

/** Limits of one command. An absent limit does not apply. */
export interface Limits {
  /** Maximum processor time of all its processes together, in seconds. */
  readonly cpuSeconds?: number | undefined
  readonly memoryMb?: number | undefined
  /** Maximum number of processes at one time. */
  readonly processes?: number | undefined
  readonly outputMb?: number | undefined
  /** Maximum size of files in the temporary directories of the sandbox, for all commands of a conversation together. */
  readonly temporaryMb?: number | undefined
}

/**
 * Returns the default limit of temporary files in MB, based on the free bytes: a tenth, at least 4 GB, but not more
 * than half (64 MB on a full disk). 4 GB if the free space is unknown.
 */
export const chooseTemporaryBound = (free = Infinity): number =>
  free === Infinity ? 4096 : Math.max(64, Math.floor(Math.max(free / 10, Math.min(4096 * mega, free / 2)) / mega))

/** Default limits of a command in a sandbox: high enough for any build, and safe for the machine. */
export const makeDefaults = (): Limits => ({
  processes: 2000,
  memoryMb: Math.max(1000, Math.floor((getMachineMemory() * 0.75) / mega)),
  temporaryMb: chooseTemporaryBound(temporarySpace())
})

/** Paths of the temporary directories inside a sandbox. */
const temporaryPlaces = "/tmp and /var/tmp"
const interval = "200 millis"
/** Clock ticks per second in which `/proc` measures processor time. */
const ticks = 100

/** Usage of a command so far. */
interface Usage {
  readonly pids: ReadonlyArray<number>
  readonly processes: number
  readonly cpuSeconds: number
  readonly memoryMb: number
}

const readField = (text: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? 0)

/**
 * Reads the memory of a process in MB. Shared memory is counted in proportion: a page shared by four processes counts a
 * quarter for each.
 */
const readShare = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, pid: number) {
  const text = yield* Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/smaps_rollup`), () => "")
  return text === "" ? undefined : (readField(text, "Pss_Anon") + readField(text, "Pss_Shmem")) / 1024
})

/** Measures a process and its descendants, and stops after more than `most` processes. */
const measureUsage = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  root: number,
  most: number,
  countsShares = false
) {
  // A process that has ended has no data.
  const readOrEmpty = (path: string) => Effect.orElseSucceed(fs.readFileString(path), () => "")
  const queue = [root]
  const pids: Array<number> = []
  let [processes, cpu, memory] = [0, 0, 0]
  for (let pid = queue.shift(); pid !== undefined && processes <= most; pid = queue.shift()) {
    const at = `/proc/${pid}`
    const tasks = yield* Effect.orElseSucceed(fs.readDirectory(`${at}/task`), () => [])
    if (tasks.length === 0) continue
    const [stat, status, ...children] = yield* Effect.all(
      [
        readOrEmpty(`${at}/stat`),
        readOrEmpty(`${at}/status`),
        ...tasks.map((task) => readOrEmpty(`${at}/task/${task}/children`))
      ],
      { concurrency: 8 }
    )
    processes++
    pids.push(pid)
    // Processor time of the process and of its ended children. The fields follow the name, which may contain any
    // character.
    cpu += stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 15)
      .reduce((sum, text) => sum + Number(text), 0)
    const own = (readField(status, "RssAnon") + readField(status, "RssShmem")) / 1024
    memory += countsShares ? ((yield* readShare(fs, pid)) ?? own) : own
    queue.push(
      ...children.flatMap((text) =>
        text
          .trim()
          .split(" ")
          .filter((text) => text !== "")
          .map(Number)
      )
    )
  }
  return { pids, processes, cpuSeconds: cpu / ticks, memoryMb: memory } satisfies Usage
})

/** Returns the name of the exceeded limit, or `undefined` if no limit is exceeded. */
export const describeExceeded = (
  usage: Omit<Usage, "pids">,
  { cpuSeconds, memoryMb, processes }: Limits
): string | undefined => {
  if (processes !== undefined && usage.processes > processes)
    return `more than ${processes} processes (terminal.limits.processes)`
  if (memoryMb !== undefined && usage.memoryMb > memoryMb)
    return `more than ${memoryMb} MB of memory (terminal.limits.memory_mb)`
  if (cpuSeconds !== undefined && usage.cpuSeconds > cpuSeconds)
    return `more than ${cpuSeconds} s of processor time (terminal.limits.cpu_seconds)`
  return undefined
}

/**
 * Waits until killed processes no longer write, for at most two seconds: some processes end later than the first one.
 */
const waitForEnd = (fs: FileSystem.FileSystem, pids: ReadonlyArray<number>) =>
  Effect.forEach(pids, (pid) =>
    Effect.map(
      Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/stat`), () => ""),
      (stat) => stat !== "" && !/\) [ZX] /.test(stat)
    )
  ).pipe(
    Effect.repeat({ while: (running) => running.includes(true), schedule: Schedule.spaced("20 millis"), times: 100 })
  )

/** Ends a command whose temporary directories exceed the limit, and removes the files that it wrote there. */
const watchSpace = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  handle: ChildProcessHandle,
  {
    bound,
    findSpace,
    startedAt,
    end
  }: {
    readonly bound: number
    readonly findSpace: FindSpace
    readonly startedAt: number
    readonly end: (reason: string) => Effect.Effect<void>
  }
) {
  const space = yield* findSpace
  const writer: TemporarySpace.Writer = {
    startedAt,
    processes: Effect.map(measureUsage(fs, handle.pid, Infinity), ({ pids }) => pids)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => void space.writers.add(writer)),
    () => Effect.sync(() => void space.writers.delete(writer))
  )
  const bytes = bound * mega
  const once = Effect.gen(function* () {
    if (!(yield* TemporarySpace.isOverBound(space, bytes))) return
    if ((yield* TemporarySpace.findMainWriter(fs, space)) !== writer) return
    const reason =
      `more than ${bound} MB in ${temporaryPlaces} (terminal.limits.temporary_mb), and what it ` +
      "wrote there was removed"
    // Read first, because the end of the command would interrupt the removal.
    const pids = yield* writer.processes
    yield* Effect.uninterruptible(
      end(reason).pipe(
        Effect.andThen(waitForEnd(fs, pids)),
        Effect.andThen(TemporarySpace.clearSpace(space, bytes, writer.startedAt))
      )
    )
  })
  yield* Effect.repeat(space.lock.withPermit(once), Schedule.spaced(interval))
}, Effect.scoped)

/**
 * Watches a process under limits. If it exceeds a limit, it is killed and the end of its output names the limit.
 * `startedAt` is a time before the process started, in milliseconds.
 */
const watchProcess = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  handle: ChildProcessHandle,
  limits: Limits,
  startedAt: number,
  findSpace?: FindSpace
) {
  const over = yield* Deferred.make<string>()
  const endProcess = (reason: string) =>
    Effect.andThen(Deferred.succeed(over, reason), Effect.ignore(handle.kill({ killSignal: "SIGKILL" })))
  const most = limits.processes ?? Infinity
  const once = Effect.gen(function* () {
    const usage = yield* measureUsage(fs, handle.pid, most)
    // Shared memory was counted once for each process. It is measured again exactly, which takes longer.
    const isOverMemory = limits.memoryMb !== undefined && usage.memoryMb > limits.memoryMb && usage.processes <= most
    const reason = describeExceeded(isOverMemory ? yield* measureUsage(fs, handle.pid, most, true) : usage, limits)
    if (reason !== undefined) yield* endProcess(reason)
  })
  if (limits.cpuSeconds !== undefined || limits.memoryMb !== undefined || limits.processes !== undefined) {
    // The first check is delayed, so that a short command has no overhead.
    yield* Effect.forkScoped(Effect.delay(Effect.repeat(once, Schedule.spaced(interval)), interval))
  }
  if (limits.temporaryMb !== undefined && findSpace !== undefined) {
    const watching = watchSpace(fs, handle, { bound: limits.temporaryMb, findSpace, startedAt, end: endProcess })
    yield* Effect.forkScoped(
      Effect.catch(watching, () =>
        endProcess(`temporary files that could not be measured (terminal.limits.temporary_mb)`)
      )
    )
  }
  let written = 0
  const boundOutput = (stream: ChildProcessHandle["stdout"]): ChildProcessHandle["stdout"] =>
    limits.outputMb === undefined
      ? stream
      : Stream.tap(stream, (chunk) => {
          const before = written
          written += chunk.length
          const most = (limits.outputMb ?? 0) * mega
          return before <= most && written > most
            ? endProcess(`more than ${limits.outputMb} MB of output (terminal.limits.output_mb)`)
            : Effect.void
        })
  const note = Stream.unwrap(
    Effect.map(Deferred.poll(over), (found) =>
      found._tag === "None"
        ? Stream.empty
        : Stream.fromEffect(
            Effect.map(found.value, (reason) =>
              new TextEncoder().encode(`\n[The command was ended: it had ${reason}]\n`)
            )
          )
    )
  )
  return makeHandle({
    ...handle,
    stdout: Stream.concat(boundOutput(handle.stdout), note),
    stderr: boundOutput(handle.stderr),
    all: Stream.concat(boundOutput(handle.all), note)
  })
})

const limitSpawner = (
  fs: FileSystem.FileSystem,
  spawner: ChildProcessSpawner["Service"],
  limits: Limits,
  space?: FindSpace
): ChildProcessSpawner["Service"] =>
  makeSpawner((command) =>
    Effect.flatMap(Clock.currentTimeMillis, (startedAt) =>
      Effect.flatMap(spawner.spawn(command), (handle) => watchProcess(fs, handle, limits, startedAt, space))
    )
  )

/** Finds the temporary directories of the current call. */
type FindSpace = Effect.Effect<TemporarySpace.TemporarySpace, PlatformError>

/** Finds the temporary directories of each conversation of an environment, and caches their measurements. */
const rememberSpaces = (directories: NonNullable<Service["temporaryDirectories"]>): FindSpace => {
  const known = new Map<string, TemporarySpace.TemporarySpace>()
  return Effect.map(directories, (list) => {
    const key = list.join("\0")
    const space = known.get(key) ?? TemporarySpace.makeSpace(list)
    known.set(key, space)
    return space
  })
}

/** Layer of an environment on this machine whose commands have limits. Fails if processes cannot be examined. */
export const layer = <E, R>(
  environment: Layer.Layer<CommandEnvironment, E, R>,
  limits: Limits
): Layer.Layer<CommandEnvironment, E | ConfigError, R | FileSystem.FileSystem> =>
  Layer.effect(
    CommandEnvironment,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const given = yield* CommandEnvironment
      if (given.processes === "elsewhere")
        return yield* new ConfigError({
          path: "terminal.limits",
          message:
            "terminal.limits: they hold for commands on this machine only. Remove it; a container has " +
            "terminal.container_memory, container_cpu and container_pids."
        })
      const isSeen = yield* Effect.orElseSucceed(fs.exists("/proc/self/status"), () => false)
      if (!isSeen)
        return yield* new ConfigError({
          path: "terminal.limits",
          message: "terminal.limits: this system has no /proc, so that no limit can hold. Remove it."
        })
      const { temporaryDirectories } = given
      if (limits.temporaryMb !== undefined && temporaryDirectories === undefined) {
        return yield* new ConfigError({
          path: "terminal.limits.temporary_mb",
          message:
            "terminal.limits.temporary_mb: it holds in a sandbox only, whose temporary files are separate. " +
            "Remove it, or turn the sandbox on (terminal.backend)."
        })
      }
      const findSpace = temporaryDirectories === undefined ? undefined : rememberSpaces(temporaryDirectories)
      return {
        ...given,
        spawner: limitSpawner(fs, given.spawner, limits, findSpace),
        outside:
          given.outside === undefined
            ? undefined
            : { ...given.outside, spawner: limitSpawner(fs, given.outside.spawner, limits) }
      }
    })
  ).pipe(Layer.provide(environment))
