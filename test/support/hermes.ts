// The real program as a child process, with a home directory and an environment of its own.
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { codeCache, program } from "./builtProgram.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

export { program, programFromSources } from "./builtProgram.ts"

/** How a program ended, and all that it wrote. */
export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Options {
  readonly home: string
  readonly cwd: string
  /** What is written to stdin, which is closed after it; nothing when absent. */
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
  /** Starts another build of the program, such as `programFromSources`. */
  readonly program?: string
  /** Sees everything that was written to stderr so far, each time something is. */
  readonly onError?: (stderr: string, child: ChildProcess) => void
  /** Gets the process as soon as it is started. */
  readonly onStart?: (child: ChildProcess) => void
  /** Sees everything that was written to stdout so far, each time something is. */
  readonly onOutput?: (stdout: string, child: ChildProcess) => void
}

/**
 * Commands run on this machine as it is, and are asked about for what they are known to do only: with the defaults,
 * tests of something else would need a machine that can build a sandbox, or be told that this one cannot.
 */
export const withoutSandbox = { HERMES_TERMINAL__BACKEND: "local", HERMES_APPROVALS__UNKNOWN_COMMANDS: "allow" }

const isModelArgument = (argument: string): boolean =>
  /^(?:-m|--(?:model|provider|base-url|base_url|agent)(?:=.*)?)$/.test(argument)

const isModelVariable = (name: string): boolean =>
  /^(?:HERMES_MODEL|HERMES_SUBMISSION|(?!HERMES_LANGFUSE)[A-Z_]*BASE_URL)/.test(name)

const textOf = (path: string): string => (existsSync(path) ? readFileSync(path, "utf8") : "")

/**
 * Asks for the built-in stand-in, as a user of it has to, where a test says nothing about a model: neither its
 * arguments, nor its variables, nor the files of its home directory. `HERMES_MODEL__PROVIDER: "auto"` leaves it as it
 * is.
 */
export const standInWhereUnset = (
  args: ReadonlyArray<string>,
  { env = {}, home }: Pick<Options, "env" | "home">
): Readonly<Record<string, string>> => {
  const isSaid =
    args.some(isModelArgument) ||
    Object.keys(env).some(isModelVariable) ||
    /(?:^|[{,])\s*"?model"?\s*:/m.test(textOf(join(home, "config.yaml"))) ||
    textOf(join(home, ".env")).split("\n").some(isModelVariable)
  return isSaid ? {} : { HERMES_MODEL__PROVIDER: "offline" }
}

/** Nothing of the environment of the tests but the search path: no key, no home directory, no address. */
const environment = (args: ReadonlyArray<string>, options: Options): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  // One for all homes of tests: each would compile the program again.
  NODE_COMPILE_CACHE: codeCache,
  HOME: dirname(options.home),
  HERMES_HOME: options.home,
  TERM: "dumb",
  ...withoutSandbox,
  ...standInWhereUnset(args, options),
  ...options.env
})

/** Runs a command line to its end. */
export const run = (command: string, args: ReadonlyArray<string>, options: Options): Effect.Effect<Ended> =>
  Effect.callback<Ended>((resume) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: environment(args, options),
      stdio: ["pipe", "pipe", "pipe"]
    })
    options.onStart?.(child)
    let stdout = ""
    let stderr = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text
      options.onOutput?.(stdout, child)
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text
      options.onError?.(stderr, child)
    })
    child.once("close", (code, signal) => resume(Effect.succeed({ code, signal, stdout, stderr })))
    child.stdin.on("error", () => undefined)
    child.stdin.end(options.stdin ?? "")
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** Runs the program to its end. */
export const hermes = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Ended> =>
  run(process.execPath, [options.program ?? program, ...args], options)

/** Acts once, when a program has written a text: a second signal would cut its ending short. */
export const onceSaid = (text: string, act: (child: ChildProcess) => void) => {
  let isSaid = false
  return (written: string, child: ChildProcess): void => {
    if (isSaid || !written.includes(text)) return
    isSaid = true
    act(child)
  }
}

/** A home directory that does not exist yet, a directory to work in, and files for both. */
export const machine = Effect.map(temporaryDirectory, (directory) => {
  const root = realpathSync(directory)
  const home = join(root, ".hermes")
  const cwd = join(root, "work")
  mkdirSync(cwd)
  const write =
    (base: string) =>
    (name: string, content: string): string => {
      const path = join(base, name)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, content)
      return path
    }
  return {
    home,
    cwd,
    at: (name: string) => join(cwd, name),
    /** Puts a file into the working directory. */
    put: write(cwd),
    /** Puts a file into the home directory. */
    keep: write(home),
    hermes: (args: ReadonlyArray<string>, options: Partial<Options> = {}) => hermes(args, { home, cwd, ...options })
  }
})

/** The key that `hermes serve` made in a home directory. */
export const serverKey = (home: string): string => readFileSync(join(home, "server.key"), "utf8").trim()

/** The id in the line that announces a session. */
export const sessionIdOf = (stderr: string): string => /^session_id: (\S+)$/m.exec(stderr)?.[1] ?? ""
