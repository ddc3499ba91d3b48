/**
 * Runs a command in a separate pseudo-terminal, which is created by a program in the environment: `script` of
 * util-linux, `script` of BSD and macOS, or `python3`.
 *
 * **Details**
 *
 * The terminal has a fixed size and ends a line of output with only a newline. Data written to the program's standard
 * input is typed on it, and the end of that input is typed as Ctrl-D. The exit code is the command's exit code, or 128
 * + the number of the signal that ended it.
 *
 * **Gotchas**
 *
 * Standard error is also the terminal. Input is echoed. Ctrl-D ends the input of one reader, and only at the beginning
 * of a line: a second reader waits forever.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { quoteWord } from "./RemoteShell.ts"

/** Size of a terminal in characters. */
interface Size {
  readonly rows: number
  readonly columns: number
}

/** Default size of a terminal. */
const defaultSize: Size = { rows: 24, columns: 80 }

const Maker = Schema.Literals(["util-linux", "bsd", "python3"])
/** Program that creates pseudo-terminals in an environment. */
export type Maker = typeof Maker.Type

const python = [
  "import os, pty, sys",
  "end = [b'\\4']",
  "def read(fd):",
  "  return os.read(fd, 1024) or (end.pop() if end else b'')",
  "status = pty.spawn(sys.argv[1:], stdin_read=read)",
  "sys.exit(128 + (status & 127) if status & 127 else status >> 8)"
].join("\n")

/** Shell commands that run a script on a terminal. The script is `$0` and is run by `/bin/sh`. */
const commands: Readonly<Record<Maker, string>> = {
  "util-linux": 'script -qec "$0" /dev/null',
  bsd: 'script -q /dev/null /bin/sh -c "$0"',
  python3: `python3 -c ${quoteWord(python)} /bin/sh -c "$0"`
}

/** `script` runs its command with the user's shell, which may have a different syntax. */
const plainShell = 'export HERMES_USER_SHELL="${SHELL-}" SHELL=/bin/sh'

/** Builds the arguments of `/bin/sh` that run a command line with a shell (an absolute path) on a terminal. Pure. */
export const buildShellArguments = (
  maker: Maker,
  shell: string,
  command: string,
  { columns, rows }: Size = defaultSize
): ReadonlyArray<string> => [
  "-c",
  `${plainShell}; exec ${commands[maker]} 2>&1`,
  [
    `stty rows ${rows} cols ${columns} -onlcr`,
    'SHELL=$HERMES_USER_SHELL; [ -n "$SHELL" ] || unset SHELL; unset HERMES_USER_SHELL LINES COLUMNS',
    'export TERM="${TERM:-xterm}"',
    `exec ${quoteWord(shell)} -c ${quoteWord(command)}`
  ].join("\n")
]

/** Script that tries each program, and prints the name of a program that passes exit codes on. */
const trial = [
  plainShell,
  ...Maker.literals.map((maker) => `(${commands[maker]}) >/dev/null 2>&1; [ $? = 7 ] && echo ${maker} && exit`)
].join("\n")

/** Time limit of a trial. */
const triedWithin = "20 seconds"

/**
 * Finds the program that creates terminals in the environment of the spawner. Returns `undefined` if there is no such
 * program. `options` are the directory and the variables of the command that needs the terminal.
 */
export const findMaker = ({
  cwd,
  env
}: Pick<ChildProcess.CommandOptions, "cwd" | "env">): Effect.Effect<Maker | undefined, never, ChildProcessSpawner> =>
  Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner
    const handle = yield* spawner.spawn(
      ChildProcess.make("/bin/sh", ["-c", trial, `stty rows ${defaultSize.rows} && exit 7`], {
        ...(cwd === undefined ? {} : { cwd }),
        ...(env === undefined ? {} : { env }),
        stdin: "ignore",
        stderr: "ignore",
        detached: true,
        killSignal: "SIGKILL"
      })
    )
    const said = (yield* Stream.mkString(Stream.decodeText(handle.stdout))).trim()
    return Schema.is(Maker)(said) ? said : undefined
  }).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({ duration: triedWithin, orElse: () => Effect.undefined }),
    // An environment that cannot start processes cannot create terminals either. The command itself reports the reason.
    Effect.orElseSucceed(() => undefined)
  )
