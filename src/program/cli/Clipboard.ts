/**
 * The clipboard on this machine, accessed through an installed program: `pbcopy`, `clip.exe`, `wl-copy`, `xclip` or
 * `xsel` receives text on its standard input; `pngpaste`, `wl-paste` or `xclip` writes a picture to its standard
 * output. A program that is not installed, fails or takes longer than {@link patience} is skipped.
 *
 * A terminal that supports OSC 52 copies text without a program; `/copy` uses both. No terminal transfers pictures.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { Environment } from "../../base/config/Environment.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"

/** Access to the clipboard. */
export interface Clipboard {
  /**
   * Copies text with a clipboard program and returns the name of the program; `undefined` if no program is available.
   */
  readonly put: (text: string) => Effect.Effect<string | undefined>
  /**
   * Writes the picture on the clipboard to a file that is deleted when the scope of the clipboard closes, and returns
   * the path of the file; `undefined` if the clipboard does not contain a picture.
   */
  readonly picture: Effect.Effect<string | undefined>
  /** True if the terminal runs inside `tmux`. */
  readonly isInTmux: boolean
}

/** Time limit of a clipboard program. */
const patience = Duration.seconds(2)

interface ClipboardProgram {
  readonly name: string
  readonly args: ReadonlyArray<string>
  /** Environment variable that the program requires. */
  readonly variable?: string
}

/** Clipboard programs in the order in which they are tried. */
const programs: ReadonlyArray<ClipboardProgram> = [
  { name: "pbcopy", args: [] },
  { name: "clip.exe", args: [], variable: "WSL_DISTRO_NAME" },
  { name: "wl-copy", args: [], variable: "WAYLAND_DISPLAY" },
  { name: "xclip", args: ["-selection", "clipboard"], variable: "DISPLAY" },
  { name: "xsel", args: ["--clipboard", "--input"], variable: "DISPLAY" }
]

/** Programs that write the picture on the clipboard to stdout, as PNG. */
const picturePrograms: ReadonlyArray<ClipboardProgram> = [
  { name: "pngpaste", args: ["-"] },
  { name: "wl-paste", args: ["--no-newline", "--type", "image/png"], variable: "WAYLAND_DISPLAY" },
  { name: "xclip", args: ["-selection", "clipboard", "-t", "image/png", "-o"], variable: "DISPLAY" }
]

/** Maximum size of a picture, in bytes. */
const mostBytes = 20 * 1024 * 1024

const signature = [0x89, 0x50, 0x4e, 0x47]

/** Returns the PNG that a program writes, or `undefined` if its output is not a PNG. */
const readPicture = ({ args, name }: ClipboardProgram) =>
  Effect.gen(function* () {
    const { spawn } = yield* ChildProcessSpawner
    const { exitCode, stdout } = yield* spawn(
      ChildProcess.make(yield* TrustedPrograms.find(name), args, { stdin: "ignore", stderr: "ignore" })
    )
    let size = 0
    const pieces = yield* Stream.runCollect(Stream.takeWhile(stdout, (piece) => (size += piece.length) <= mostBytes))
    if (size > mostBytes || (yield* exitCode) !== 0) return undefined
    const bytes = new Uint8Array(size)
    pieces.reduce((at, piece) => {
      bytes.set(piece, at)
      return at + piece.length
    }, 0)
    return signature.every((byte, at) => bytes[at] === byte) ? bytes : undefined
  }).pipe(
    Effect.scoped,
    Effect.timeoutOption(patience),
    Effect.map(Option.getOrUndefined),
    Effect.orElseSucceed(() => undefined)
  )

const copyWithProgram = ({ args, name }: ClipboardProgram, text: string) =>
  Effect.all([ChildProcessSpawner, TrustedPrograms.find(name)]).pipe(
    Effect.flatMap(([{ exitCode }, program]) =>
      exitCode(
        ChildProcess.make(program, args, {
          stdin: Stream.make(new TextEncoder().encode(text)),
          stdout: "ignore",
          stderr: "ignore"
        })
      )
    ),
    Effect.timeoutOption(patience),
    Effect.map((code) => Option.isSome(code) && code.value === 0),
    Effect.orElseSucceed(() => false)
  )

/** Creates the clipboard. Picture files are deleted when the scope closes. */
export const make: Effect.Effect<
  Clipboard,
  never,
  ChildProcessSpawner | Environment | FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.gen(function* () {
  const context = yield* Effect.context<ChildProcessSpawner | FileSystem.FileSystem | Path.Path | Scope.Scope>()
  const { process } = yield* Environment
  const isSet = (name: string): boolean => (process[name] ?? "") !== ""
  const isUseful = ({ variable }: ClipboardProgram): boolean => variable === undefined || isSet(variable)
  const useful = programs.filter(isUseful)
  const copyText = Effect.fnUntraced(function* (text: string) {
    for (const program of useful) if (yield* copyWithProgram(program, text)) return program.name
    return undefined
  }, Effect.provideContext(context))
  let pictures = 0
  const folder = yield* Effect.cached(
    FileSystem.FileSystem.use((files) => files.makeTempDirectoryScoped({ prefix: "hermes-picture-" }))
  )
  const picture = Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    for (const program of picturePrograms.filter(isUseful)) {
      const bytes = yield* readPicture(program)
      if (bytes === undefined) continue
      const file = paths.join(yield* folder, `picture-${++pictures}.png`)
      yield* files.writeFile(file, bytes, { mode: 0o600 })
      return file
    }
    return undefined
  }).pipe(
    Effect.catch((error) =>
      Effect.as(Effect.logWarning(`the picture on the clipboard cannot be saved: ${error.message}`), undefined)
    ),
    Effect.provideContext(context)
  )
  return { put: (text) => copyText(text), picture, isInTmux: isSet("TMUX") }
})
