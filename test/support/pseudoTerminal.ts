// A program on a terminal of its own, where this machine has a tool that makes one.
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import { withoutSandbox } from "./hermes.ts"
import * as Virtual from "./virtualTerminal.ts"
import { longestWaitMillis } from "./waiting.ts"

type Launch = (command: string) => readonly [string, ...ReadonlyArray<string>]

const works = (command: string, ...args: ReadonlyArray<string>): boolean =>
  spawnSync(command, args, { stdio: "ignore" }).status === 0

const candidates: ReadonlyArray<readonly [() => boolean, Launch]> = [
  [() => works("script", "-qec", "true", "/dev/null"), (command) => ["script", "-qec", command, "/dev/null"]],
  [
    () => works("python3", "-c", "import pty"),
    (command) => ["python3", "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", "sh", "-c", command]
  ]
]

/** How a program gets a terminal here; undefined where none can be made. */
export const launcher: Launch | undefined = candidates.find(([works]) => works())?.[1]

export interface PseudoTerminal {
  readonly type: (text: string) => Effect.Effect<void>
  readonly until: (text: string) => Effect.Effect<void>
  readonly screen: () => string
  /** What it wrote, escape sequences and all. */
  readonly written: () => string
  readonly exited: Effect.Effect<number | null>
}

const breathe = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 10)))

/** Runs a line of the shell on a terminal of so many columns. */
export const open = (launch: Launch, line: string, env: Readonly<Record<string, string>> = {}, columns = 80) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const [command, ...args] = launch(`stty cols ${columns} rows 24; ${line}`)
        const child = spawn(command, args, { env: { ...process.env, TERM: "xterm", ...withoutSandbox, ...env } })
        const terminal = Virtual.make(columns)
        child.stdout.setEncoding("utf8")
        child.stdout.on("data", (text: string) => terminal.write(text))
        const exited = new Promise<number | null>((resolve) => child.once("close", resolve))
        return { child, terminal, exited }
      }),
      ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
    ),
    ({ child, exited, terminal }): PseudoTerminal => {
      const screen = () => terminal.lines().join("\n")
      return {
        screen,
        written: terminal.written,
        type: (text) => Effect.sync(() => void child.stdin.write(text)),
        until: Effect.fnUntraced(function* (text) {
          const deadline = performance.now() + longestWaitMillis
          while (!screen().includes(text)) {
            if (performance.now() > deadline)
              throw new Error(`${JSON.stringify(text)} did not come; the screen shows:\n${screen()}`)
            yield* breathe
          }
        }),
        exited: Effect.promise(() => exited)
      }
    }
  )
