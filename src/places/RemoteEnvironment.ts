/**
 * Environment on machines that are started on demand, such as containers or machines reached by a connection. There is
 * one machine for each working directory, or one for all directories. A machine is held while a command runs, released
 * after a period without use, and started again if it is lost.
 *
 * **Details**
 *
 * Only variables that the environment admits leave this machine: variables of an allow-list and variables that a call
 * itself sets. Other variables of this program are not passed on.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type PlatformError, systemError } from "effect/PlatformError"
import * as RcMap from "effect/RcMap"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import {
  type ChildProcessHandle,
  ChildProcessSpawner,
  make as makeSpawner,
  makeHandle
} from "effect/process/ChildProcessSpawner"
import { ProcessEnvironment } from "../base/platform/ProcessVariables.ts"
import type { Service } from "./CommandEnvironment.ts"
import * as PortForward from "./PortForward.ts"
import * as RemoteFiles from "./RemoteFiles.ts"
import { type Machine, spawn } from "./RemoteProcesses.ts"
import type { ShellEnded } from "./RemoteShell.ts"

/** Machine settings of an environment. */
export interface Options extends Pick<Service, "name" | "isConfined" | "description" | "explain" | "reach"> {
  /** Key of the machine that serves a call. */
  readonly key: Effect.Effect<string, PlatformError>
  /** Starts a machine, which runs until the scope closes. */
  readonly start: (key: string) => Effect.Effect<Machine, PlatformError, Scope.Scope>
  /** Period without use after which a machine is released. */
  readonly lifetime: Duration.Duration
  /**
   * Names of the variables of this program that processes on a machine receive, in addition to language and terminal
   * variables.
   */
  readonly admitted: ReadonlyArray<string>
  /** Environment variables of every command. */
  readonly variables: Readonly<Record<string, string | Redacted.Redacted<string>>>
  /** Returns the error message for a client that ended before it started a command. */
  readonly refused: (errors: string) => string
  /** Notices for a machine that was lost while a command ran, and for a machine that was started again. */
  readonly notices: { readonly lost: string; readonly again: (reason: "idle" | "lost") => string | undefined }
}

/** Variables of this program that every environment receives. */
const ordinary = /^(?:LANG|LC_[A-Z]+|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|TRACEPARENT|TRACESTATE)$/
/** Variables that describe a particular machine and are never passed to another one. */
const ofMachine =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TMPDIR|HOSTNAME|SSH_[A-Z_]+|XDG_[A-Z_]+|DISPLAY|DBUS_[A-Z_]+|DOCKER_[A-Z_]+)$/

/** Creates the error for a machine that cannot be reached. */
export const makeUnreachableError = (description: string): PlatformError =>
  systemError({ _tag: "Unknown", module: "ChildProcess", method: "spawn", description })

/** Returns the stream of a process that is the input of the next process in a pipeline. */
const selectOutput = (
  handle: ChildProcessHandle,
  from: ChildProcess.PipeFromOption | undefined
): Stream.Stream<Uint8Array, PlatformError> =>
  from === "stderr" ? handle.stderr : from === "all" ? handle.all : handle.stdout

/** The machines of an environment. */
interface MachinePool {
  readonly options: Options
  /** Spawner of this machine, which starts clients. */
  readonly outer: ChildProcessSpawner["Service"]
  readonly variables: Effect.Success<typeof ProcessEnvironment>
  readonly notices: Array<string>
  /** Machines that were started before, by key, with the reason for the end of the last one. */
  readonly known: Map<string, "idle" | "lost">
  readonly machines: RcMap.RcMap<string, Machine, PlatformError>
}

/** Logs a notice, and keeps it for the next result. */
const reportNotice = (notices: Array<string>, notice: string) =>
  Effect.suspend(() => {
    notices.push(notice)
    return Effect.logWarning(notice)
  })

/** Returns the machine of the call. It is started if it does not run, and is held until the scope closes. */
const takeMachine = Effect.fnUntraced(function* ({ options, machines, known }: MachinePool) {
  const key = yield* options.key
  const get = Effect.onError(RcMap.get(machines, key), () => RcMap.invalidate(machines, key))
  const found = yield* get
  if (found.shell.isOpen()) return found
  known.set(key, "lost")
  yield* RcMap.invalidate(machines, key)
  return yield* get
})

const isAdmitted = ({ options, variables }: MachinePool, name: string, value: string): boolean => {
  if (options.admitted.includes(name) || ordinary.test(name)) return true
  return !ofMachine.test(name) && variables()[name] !== value
}

const filterVariables = (
  pool: MachinePool,
  { env = {} }: ChildProcess.CommandOptions
): ChildProcess.CommandOptions["env"] => ({
  ...pool.options.variables,
  ...Object.fromEntries(
    Object.entries(env).filter(
      ([name, value]) =>
        value !== undefined && isAdmitted(pool, name, Redacted.isRedacted(value) ? Redacted.value(value) : value)
    )
  )
})

const startCommand = Effect.fnUntraced(function* (
  pool: MachinePool,
  command: ChildProcess.StandardCommand,
  input: Stream.Stream<Uint8Array, PlatformError> | undefined
) {
  const { options } = pool
  const settled = ChildProcess.make(command.command, command.args, {
    ...command.options,
    env: filterVariables(pool, command.options),
    ...(input === undefined ? {} : { stdin: input })
  })
  return yield* spawn(
    {
      outer: pool.outer,
      machine: yield* takeMachine(pool),
      refused: (errors) => makeUnreachableError(options.refused(errors)),
      onLost: reportNotice(pool.notices, options.notices.lost)
    },
    settled
  )
})

const startAny = (
  pool: MachinePool,
  command: ChildProcess.Command,
  input?: Stream.Stream<Uint8Array, PlatformError>
): Effect.Effect<ChildProcessHandle, PlatformError, Scope.Scope> =>
  command._tag === "StandardCommand"
    ? startCommand(pool, command, input)
    : Effect.gen(function* () {
        const left = yield* startAny(pool, command.left, input)
        const right = yield* startAny(pool, command.right, selectOutput(left, command.options.from))
        return makeHandle({
          ...right,
          stdin: left.stdin,
          kill: (how) => Effect.forEach([right, left], (handle) => Effect.ignore(handle.kill(how)), { discard: true })
        })
      })

/** Connects to a port of the machine: through its client, or through a process for the connection. */
const connectPort = (
  pool: MachinePool,
  spawner: ChildProcessSpawner["Service"],
  port: number
): Effect.Effect<ChildProcessHandle, PlatformError, Scope.Scope> =>
  Effect.flatMap(takeMachine(pool), ({ tunnel }) =>
    tunnel === undefined
      ? spawner.spawn(ChildProcess.make("/bin/sh", ["-c", PortForward.carrierScript, "hermes", String(port)]))
      : pool.outer.spawn(tunnel(port))
  )

/** Runs a short script on the machine of the call. */
const askMachine = (pool: MachinePool, script: string) =>
  Effect.scoped(
    Effect.flatMap(takeMachine(pool), ({ shell }) =>
      Effect.mapError(shell.run(script), ({ errors }: ShellEnded) => makeUnreachableError(pool.options.refused(errors)))
    )
  )

/** Creates the pool of machines, which are started on demand. Idle machines are released. */
const makePool = Effect.fnUntraced(function* (options: Options) {
  const notices: Array<string> = []
  const known: MachinePool["known"] = new Map()
  const machines = yield* RcMap.make({
    lookup: (key: string) =>
      Effect.gen(function* () {
        const machine = yield* options.start(key)
        const before = known.get(key)
        known.set(key, "idle")
        const notice = before === undefined ? undefined : options.notices.again(before)
        if (notice !== undefined) yield* reportNotice(notices, notice)
        return machine
      }),
    idleTimeToLive: options.lifetime
  })
  const pool: MachinePool = {
    options,
    outer: yield* ChildProcessSpawner,
    variables: yield* ProcessEnvironment,
    notices,
    known,
    machines
  }
  return pool
})

/** Creates an environment that runs on machines. The machines are released when the scope closes. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const pool = yield* makePool(options)
  const { notices } = pool
  const machine = takeMachine(pool)
  const spawner = makeSpawner((command) => startAny(pool, command))
  const files = RemoteFiles.make({ ask: (script) => askMachine(pool, script), spawner })
  return {
    name: options.name,
    isConfined: options.isConfined,
    description: options.description,
    explain: options.explain,
    reach: options.reach,
    outside: undefined,
    directory: Effect.succeed<string>,
    notice: Effect.sync(() => (notices.length === 0 ? undefined : notices.splice(0).join(" "))),
    home: Effect.scoped(Effect.flatMap(machine, ({ shell }) => shell.run('printf %s "$HOME"'))).pipe(
      Effect.map(({ output }) => new TextDecoder().decode(output)),
      // The command that needs the machine fails with the reason.
      Effect.orElseSucceed(() => undefined)
    ),
    forward: (port: number) => PortForward.carryConnections(port, connectPort(pool, spawner, port)),
    trees: { place: "elsewhere" as const, spawner, files },
    node: "node",
    processes: "elsewhere" as const,
    spawner,
    files,
    /** Machine of the call, held until the scope closes. */
    machine
  }
})
