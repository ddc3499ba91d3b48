/**
 * A shell on a remote machine that stays open and runs one script after another, through the client program that
 * connects to the machine (`docker exec`, `ssh`). It also holds the machine: the shell ends when the machine is lost.
 *
 * **Details**
 *
 * A script is sent as lines, followed by a line with a random mark. The shell evaluates it in a subshell without input
 * and answers with its unchanged output, then its exit code and its standard error between two marks. Scripts are
 * answered in order.
 *
 * **Gotchas**
 *
 * A program of the same user on that machine can read the mark and forge answers. Answers are therefore untrusted data
 * of that machine.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type { PlatformError } from "effect/PlatformError"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Schema from "effect/Schema"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Ids from "../base/domain/Ids.ts"

/**
 * Command on this machine that runs a script in a POSIX shell on the remote machine, with `words` as its parameters.
 */
export type Client = (script: string, words: ReadonlyArray<string>) => ChildProcess.StandardCommand

/** Answer of a shell to a script. */
export interface Answer {
  readonly output: Uint8Array
  readonly code: number
  /** Standard error of the script. */
  readonly errors: string
}

/** Reports that the client ended, and the shell with it. */
export class ShellEnded extends Schema.TaggedError<ShellEnded>("hermes-effect/environment/ShellEnded")("ShellEnded", {
  /** Last part of the client's standard error. */
  errors: Schema.String,
  code: Schema.optional(Schema.Int)
}) {}

/** A shell that stays open. */
export interface RemoteShell {
  /** Prefix of the marks of commands that are killed when the shell ends. */
  readonly mark: string
  readonly run: (script: string) => Effect.Effect<Answer, ShellEnded>
  /** Returns false after the client has ended. */
  readonly isOpen: () => boolean
  /** Waits for the end of the client. */
  readonly ended: Effect.Effect<ShellEnded>
}

/** Quotes a string as one word of a shell command. */
export const quoteWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * Name of the variable that marks the processes of a command. Its value begins with the mark of the machine's shell.
 */
export const commandMark = "HERMES_COMMAND_ID"

/**
 * Shell loop that reads and answers scripts. `$1` is the mark. It contains neither newlines nor single quotes, so that
 * every login shell passes it on. Its first answer reports that it runs. When its input ends, because this program has
 * ended for any reason, it kills the processes that commands left running.
 */
const loop = [
  `n=$(printf "\\n."); n=\${n%.}; m=$1; LC_ALL=C; export LC_ALL; unset CDPATH; exec 3>&1`,
  `printf "\\001%s 0 \\001%s.\\n" "$m" "$m"`,
  `while IFS= read -r l; do s=; until [ "$l" = "$m" ]; do s="$s$l$n"; IFS= read -r l || break 2; done`,
  `e=$( ( eval "$s" ) 2>&1 >&3 3>&- </dev/null ); c=$?; printf "\\001%s %s %s\\001%s.\\n" "$m" "$c" "$e" "$m"; done`,
  `for e in $(grep -lsF ${commandMark}=$m /proc/[0-9]*/environ); do e=\${e#/proc/}; kill -KILL \${e%/environ}; ` +
    "done 2>/dev/null"
].join("; ")

const maxErrorBytes = 4096
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Returns the position of a byte sequence that begins with a rare byte, or -1 if it is not found. */
export const findBytes = (bytes: Uint8Array, sought: Uint8Array, from: number): number => {
  const [first = 0] = sought
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    if (sought.every((byte, index) => bytes[at + index] === byte)) return at
  }
  return -1
}

/** Joins chunks of bytes. */
export const joinBytes = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [only] = pieces
  if (only !== undefined && pieces.length === 1) return only
  const bytes = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}

/** Standard error of a client. */
interface ClientErrors {
  /** Last part of the output, available after the client has ended. */
  readonly text: Effect.Effect<string>
  /** Waits for the end of the output. */
  readonly ended: Effect.Effect<unknown>
}

/** Reads the standard error of a client as it arrives. */
export const readErrors = Effect.fnUntraced(function* (
  stderr: Stream.Stream<Uint8Array, PlatformError>,
  onBytes: (bytes: Uint8Array) => Effect.Effect<unknown>
): Effect.fn.Return<ClientErrors, never, Scope.Scope> {
  let kept = new Uint8Array(0)
  const reader = yield* Stream.runForEach(stderr, (bytes) => {
    kept = joinBytes([kept, bytes]).slice(-maxErrorBytes)
    return onBytes(bytes)
    // The pipe broke: the text received until then is the result.
  }).pipe(Effect.ignore, Effect.forkScoped)
  const ended = Fiber.await(reader)
  // A process that a client left behind may hold the pipe open.
  return { ended, text: Effect.map(Effect.timeoutOption(ended, "1 second"), () => decoder.decode(kept).trim()) }
})

/** Splits a stream of bytes into answers. Pure except for its buffer. */
const makeAnswerReader = (mark: string): ((bytes: Uint8Array) => ReadonlyArray<Answer>) => {
  const begin = encoder.encode(`\u0001${mark} `)
  const end = encoder.encode(`\u0001${mark}.\n`)
  let pieces: Array<Uint8Array> = []
  let length = 0
  return (bytes) => {
    pieces.push(bytes)
    length += bytes.length
    const found: Array<Answer> = []
    // Chunks are only joined where an answer may end, so that a long answer is not copied for each chunk.
    if (bytes.at(-1) !== 0x0a) return found
    let rest = joinBytes(pieces)
    for (let last = findBytes(rest, end, 0); last !== -1; last = findBytes(rest, end, 0)) {
      const first = findBytes(rest, begin, 0)
      const [code = "", ...errors] = decoder.decode(rest.subarray(first + begin.length, last)).split(" ")
      found.push({ output: rest.slice(0, Math.max(0, first)), code: Number(code), errors: errors.join(" ").trim() })
      rest = rest.slice(last + end.length)
    }
    pieces = [rest]
    length = rest.length
    return found
  }
}

/** Opens a shell, which is closed with the scope. */
export const open = Effect.fnUntraced(function* (
  spawner: ChildProcessSpawner["Service"],
  client: Client
): Effect.fn.Return<RemoteShell, ShellEnded, Scope.Scope> {
  const mark = yield* Ids.makeHex(32)
  const input = yield* Queue.unbounded<Uint8Array, Cause.Done>()
  const end = yield* Deferred.make<ShellEnded>()
  const waiting: Array<Deferred.Deferred<Answer, ShellEnded>> = []
  let isOpen = true

  const started = client(loop, [mark])
  const handle = yield* spawner
    .spawn(
      ChildProcess.make(started.command, started.args, {
        ...started.options,
        stdin: Stream.fromQueue(input),
        killSignal: "SIGKILL"
      })
    )
    .pipe(Effect.mapError(({ message }) => new ShellEnded({ errors: message })))
  // The shell ends by itself when its input ends.
  yield* Effect.addFinalizer(() => Queue.end(input))
  const errors = yield* readErrors(handle.stderr, () => Effect.void)

  const next = makeAnswerReader(mark)
  yield* Stream.runForEach(handle.stdout, (bytes) =>
    Effect.forEach(
      next(bytes),
      (answer) => {
        const first = waiting.shift()
        return first === undefined ? Effect.void : Deferred.succeed(first, answer)
      },
      { discard: true }
    )
  ).pipe(
    Effect.ignore,
    Effect.andThen(Effect.exit(handle.exitCode)),
    Effect.flatMap((exit) =>
      Effect.map(
        errors.text,
        (text) => new ShellEnded({ errors: text, ...(Exit.isSuccess(exit) ? { code: Number(exit.value) } : {}) })
      )
    ),
    Effect.flatMap((reason) => {
      isOpen = false
      return Effect.andThen(
        Deferred.succeed(end, reason),
        Effect.forEach(waiting.splice(0), (one) => Deferred.fail(one, reason), { discard: true })
      )
    }),
    Effect.forkScoped
  )

  /** Answers arrive in the order of the scripts. */
  const sendScript = (text: string) =>
    Effect.suspend(() => {
      if (!isOpen) return Effect.flatMap(Deferred.await(end), Effect.fail)
      const answer = Deferred.makeUnsafe<Answer, ShellEnded>()
      waiting.push(answer)
      Queue.offerUnsafe(input, encoder.encode(text))
      return Deferred.await(answer)
    })

  yield* sendScript("")
  return { mark, run: (script) => sendScript(`${script}\n${mark}\n`), isOpen: () => isOpen, ended: Deferred.await(end) }
})
