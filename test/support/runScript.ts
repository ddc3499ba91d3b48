import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { scriptOf } from "./builtProgram.ts"

/** What a script of this folder did before it ended. */
export interface Ended {
  readonly lines: ReadonlyArray<string>
  readonly errors: string
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** Node with a script of this folder, as a command line. */
export const commandOf = (script: string, args: ReadonlyArray<string>): readonly [string, ...Array<string>] => [
  process.execPath,
  scriptOf(script),
  ...args
]

/** Runs a command, and lets `onLine` see each line of its output when it comes. */
export const runCommand = (
  [command, ...args]: readonly [string, ...Array<string>],
  onLine?: (line: string, child: ChildProcess) => void
): Effect.Effect<Ended> =>
  Effect.callback<Ended>((resume) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] })
    const lines: Array<string> = []
    let errors = ""
    child.stderr.on("data", (chunk) => (errors += String(chunk)))
    const reader = createInterface({ input: child.stdout })
    reader.on("line", (line) => {
      lines.push(line)
      onLine?.(line, child)
    })
    const drained = new Promise<void>((resolve) => reader.once("close", () => resolve()))
    child.once("close", async (code, signal) => {
      await drained
      resume(Effect.succeed({ lines, errors, code, signal }))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** Runs a script of this folder with Node. */
export const runScript = (
  script: string,
  args: ReadonlyArray<string>,
  onLine?: (line: string, child: ChildProcess) => void
): Effect.Effect<Ended> => runCommand(commandOf(script, args), onLine)
