/**
 * The clipboard of this machine, by the program that the system has for it: `pbcopy`, `clip.exe`, `wl-copy`, `xclip`, `xsel`. The text goes to
 * its standard input. A program that is not installed, fails or takes longer than {@link patience} counts as none.
 *
 * A terminal that knows OSC 52 needs none of them; `/copy` does both.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { Environment } from "../config/Environment.ts"

/** The clipboard. */
export interface Clipboard {
  /** Gives the text to a program; undefined where there is none. */
  readonly put: (text: string) => Effect.Effect<string | undefined>
  /** True where the terminal is one of `tmux`. */
  readonly isInTmux: boolean
}

/** Time that a program has. */
const patience = Duration.seconds(2)

interface ClipboardProgram {
  readonly name: string
  readonly args: ReadonlyArray<string>
  /** Variable without which it is of no use. */
  readonly variable?: string
}

/** Programs in the order in which they are tried. */
const programs: ReadonlyArray<ClipboardProgram> = [
  { name: "pbcopy", args: [] },
  { name: "clip.exe", args: [], variable: "WSL_DISTRO_NAME" },
  { name: "wl-copy", args: [], variable: "WAYLAND_DISPLAY" },
  { name: "xclip", args: ["-selection", "clipboard"], variable: "DISPLAY" },
  { name: "xsel", args: ["--clipboard", "--input"], variable: "DISPLAY" }
]

const isTaken = ({ args, name }: ClipboardProgram, text: string) =>
  ChildProcessSpawner.use(({ exitCode }) =>
    exitCode(ChildProcess.make(name, args, { stdin: Stream.make(new TextEncoder().encode(text)), stdout: "ignore", stderr: "ignore" }))).pipe(
      Effect.timeoutOption(patience),
      Effect.map((code) => Option.isSome(code) && code.value === 0),
      Effect.orElseSucceed(() => false)
    )

export const make: Effect.Effect<Clipboard, never, ChildProcessSpawner | Environment> = Effect.gen(function*() {
  const context = yield* Effect.context<ChildProcessSpawner>()
  const { process } = yield* Environment
  const isSet = (name: string): boolean => (process[name] ?? "") !== ""
  const useful = programs.filter(({ variable }) => variable === undefined || isSet(variable))
  const put = Effect.fnUntraced(function*(text: string) {
    for (const program of useful) if (yield* isTaken(program, text)) return program.name
    return undefined
  }, Effect.provideContext(context))
  return { put: (text) => put(text), isInTmux: isSet("TMUX") }
})
