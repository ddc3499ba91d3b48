/** Access to this process: its properties, standard streams, events and exit. Also sends signals to other processes. */
import { AsyncLocalStorage } from "node:async_hooks"
import { statfsSync, writeFileSync } from "node:fs"
import { tmpdir, totalmem } from "node:os"
import * as Context from "effect/Context"

/** Path of the Node executable that runs this program. */
export const nodePath = process.execPath

/** Version of Node that runs this program. */
export const nodeVersion = process.versions.node

/** Returns the user and group ids of this process; `undefined` if the system does not have them (Windows). */
export const getProcessOwner = (): { readonly uid: number; readonly gid: number } | undefined =>
  process.getuid === undefined || process.getgid === undefined
    ? undefined
    : { uid: process.getuid(), gid: process.getgid() }

/** Name of the operating system: `linux`, `darwin`, `win32`. */
export const operatingSystem: string = process.platform

/** Returns the working directory of this process. */
export const getWorkingDirectory = (): string => {
  try {
    return process.cwd()
  } catch {
    throw new Error("the working directory no longer exists: change to another folder and try again")
  }
}

/** Returns the total memory for all processes, in bytes: the memory of the machine, or the limit of the container. */
export const getMachineMemory = (): number => {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

/** Returns the directory for temporary files. */
export const getTemporaryDirectory = (): string => tmpdir()

/** Returns the free space for temporary files, in bytes; `undefined` if the system does not report it. */
export const temporarySpace = (): number | undefined => {
  try {
    const { bavail, bsize } = statfsSync(tmpdir())
    return bavail * bsize
  } catch {
    // The directory is missing; creating the first temporary file reports this.
    return undefined
  }
}

/**
 * Returns the directory whose project files a runtime uses. It is the working directory of this process, except in a
 * server with several directories.
 */
export const StartDirectory = Context.Reference<() => string>("hermes-effect/platform/StartDirectory", {
  defaultValue: () => getWorkingDirectory
})

/** Returns the variables of this process at the time of the call, without the variables hidden by `HiddenVariables`. */
export const getProcessVariables = (): Readonly<Record<string, string | undefined>> => process.env

/** Returns an object with the standard streams of this process. A stream is opened when its property is first read. */
export const getStandardStreams = (): Pick<NodeJS.Process, "stderr" | "stdin" | "stdout"> => process

/** Events of this process, with the arguments that their listeners receive. */
interface ProcessEvents extends Record<NodeJS.Signals, [signal: NodeJS.Signals]> {
  /** Event before the process exits, with the exit code. */
  readonly exit: [code: number]
  /** The event loop is empty. Work that is added now keeps the process alive. */
  readonly beforeExit: [code: number]
  readonly unhandledRejection: [reason: unknown]
  readonly uncaughtException: [error: unknown]
}

/**
 * Calls `listener` for each event until the returned function is called. A signal with a listener does not end the
 * process.
 */
export const listen = <Name extends keyof ProcessEvents & string>(
  name: Name,
  listener: (...event: ProcessEvents[Name]) => void
): (() => void) => {
  const emitter: NodeJS.EventEmitter = process
  emitter.on(name, listener)
  return () => void emitter.off(name, listener)
}

/** Ends this process at once; listeners of `exit` still run. */
export const exit = (code: number): never => process.exit(code)

/** Sets the code that this process ends with. */
export const setExitCode = (code: number): void => {
  process.exitCode = code
}

/**
 * Sends a signal to a process, or to a process group if `pid` is its negative id; 0 is the group of this process.
 * Throws if the process does not exist or may not be signalled.
 */
export const sendSignal = (pid: number, name: NodeJS.Signals): void => {
  process.kill(pid, name)
}

/**
 * Synchronously writes a file that only its owner can read, for output at the end of the process. Throws the system
 * error if the file cannot be written.
 */
export const writeFileNow = (path: string, text: string): void => writeFileSync(path, text, { mode: 0o600 })

/** A value that asynchronous JavaScript inherits from the call that started it, as fibers inherit their services. */
export interface AsyncScope<A> {
  /** Calls a function. Its asynchronous calls have the value. */
  readonly run: <B>(value: A, body: () => B) => B
  /** Calls a function without a value. */
  readonly leave: <B>(body: () => B) => B
  /** Returns the value of the calling code, or `undefined` if it has no value. */
  readonly get: () => A | undefined
}

/** Creates a holder of such values. */
export const makeAsyncScope = <A>(): AsyncScope<A> => {
  const storage = new AsyncLocalStorage<A>()
  return {
    run: (value, body) => storage.run(value, body),
    leave: (body) => storage.exit(body),
    get: () => storage.getStore()
  }
}
