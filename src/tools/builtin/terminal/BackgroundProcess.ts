/** One background command with its output, its input and its exit. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionId, TaskId } from "../../../base/domain/Ids.ts"
import { HostRequests } from "../../../places/CommandEnvironment.ts"
import type { Maker } from "../../../places/PseudoTerminal.ts"
import { redactText } from "../../../base/domain/Redaction.ts"
import { getCurrentRegistry } from "../../../base/domain/Secrets.ts"
import * as TextCut from "../../../base/domain/TextCut.ts"
import * as OutputText from "./OutputText.ts"
import type * as ProcessEvents from "./ProcessEvents.ts"
import type * as Shell from "./Shell.ts"

// Decides when a match in a background process's output leads to a notification: at most one per 15 seconds, and none
// after matches were suppressed in three windows in a row. Pure.
//
// Source: `hermes-product.md` §2.3.

const windowMillis = 15_000
const maxStrikes = 3

/** State of a watch. */
interface WatchState {
  /** Time before which matches are not reported. */
  readonly quietUntil: number
  /** Number of unreported matches since the last reported match. */
  readonly suppressed: number
  /** Number of consecutive windows in which a match was suppressed. */
  readonly strikes: number
  readonly demoted: boolean
}

/** Initial state of a watch. */
export const unwatched: WatchState = { quietUntil: 0, suppressed: 0, strikes: 0, demoted: false }

/** Decision about a match. */
type WatchDecision =
  | { readonly _tag: "Notify"; readonly suppressed: number }
  | { readonly _tag: "Demote" }
  | { readonly _tag: "Nothing" }

const nothing: WatchDecision = { _tag: "Nothing" }

/** Judges a match at a given time, in milliseconds. */
export const judgeMatch = (state: WatchState, now: number): readonly [WatchState, WatchDecision] => {
  if (state.demoted) return [state, nothing]
  if (now >= state.quietUntil) {
    const strikes = state.suppressed === 0 ? 0 : state.strikes
    return [
      { quietUntil: now + windowMillis, suppressed: 0, strikes, demoted: false },
      { _tag: "Notify", suppressed: state.suppressed }
    ]
  }
  const strikes = state.suppressed === 0 ? state.strikes + 1 : state.strikes
  return strikes >= maxStrikes
    ? [{ ...state, strikes, demoted: true }, { _tag: "Demote" }]
    : [{ ...state, suppressed: state.suppressed + 1, strikes }, nothing]
}

/** Matching lines, and the first pattern that matched. */
interface Match {
  readonly pattern: string
  readonly lines: ReadonlyArray<string>
}

const maxLineChars = 8192
const maxLines = 20
const maxShownChars = 500

/** Minimum number of characters for which several lines may be the first part of an unfinished multi-line value. */
const shortestPart = 8

/**
 * Returns the end of the lines that can be examined now. A multi-line value that may have begun at `cut` waits for its
 * end.
 */
const findReadyEnd = (text: string, cut: number): number => {
  const part = text.slice(cut)
  const isPart = part.includes("\n") && part.replaceAll(/\s/g, "").length >= shortestPart
  return isPart ? text.lastIndexOf("\n", cut - 1) + 1 : text.length
}

/**
 * Splits a stream of bytes into lines and searches each for the patterns (plain text, case-sensitive). A line that has
 * not ended yet (a prompt) is examined too, and reported once.
 */
export const makeMatcher = (patterns: ReadonlyArray<string>): ((chunk: Uint8Array) => Match | undefined) => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  let rest = ""
  let restReported = false
  return (chunk) => {
    const secrets = getCurrentRegistry()
    // Secrets are masked before the text is split into lines, because a value may span several lines.
    const seen = secrets.mask(rest + decoder.decode(chunk, { stream: true }))
    const end = findReadyEnd(seen, secrets.cut(seen, seen.length))
    const lines = seen.slice(0, end).split("\n")
    let found: string | undefined
    const matched: Array<string> = []
    for (const [index, line] of lines.entries()) {
      const isRest = index === lines.length - 1
      const reported = index === 0 && restReported
      const text = OutputText.stripAnsi(line)
      const pattern = reported ? undefined : patterns.find((pattern) => text.includes(pattern))
      if (isRest) {
        rest = line
        restReported = reported || pattern !== undefined
      }
      if (pattern === undefined) continue
      found ??= pattern
      // The text is redacted before it is cut, and a possible first part of a secret is omitted.
      const whole = isRest ? text.slice(0, secrets.cut(text, text.length)) : text
      if (matched.length < maxLines) matched.push(TextCut.takeHead(redactText(whole, secrets), maxShownChars).trimEnd())
    }
    if (end < seen.length) {
      rest = seen.slice(end)
      restReported = end === 0 && restReported
    }
    // A line without an end is examined in pieces, so that its memory use is limited.
    if (rest.length > maxLineChars) {
      rest = ""
      restReported = false
    }
    return found === undefined ? undefined : { pattern: found, lines: matched }
  }
}

/** Command to run, with its owner. */
export interface Options {
  readonly command: string
  readonly cwd: string
  /** Maker of the terminal in which the process runs. */
  readonly terminal?: Maker | undefined
  readonly sessionId: SessionId
  readonly taskId: TaskId
  /** True to notify the session of the end of the process. */
  readonly notifyOnComplete: boolean
  /** Texts to watch for. The session is notified of output lines that contain one of them. */
  readonly watchPatterns: ReadonlyArray<string>
}

/** End of a process. Times are in milliseconds since the epoch. */
interface ProcessEnd {
  readonly exit: Shell.Exit
  readonly reason: "exited" | "killed"
  readonly endedAt: number
}

/** Error raised when the process has ended and accepts no input. */
class NotRunning extends Schema.TaggedError<NotRunning>("hermes-effect/terminal/NotRunning")("NotRunning", {
  message: Schema.String
}) {}

/** The retained lines of an output. */
interface KeptLines {
  readonly lines: ReadonlyArray<string>
  /** Index of the first retained line in the whole output. */
  readonly first: number
}

/** One command that runs in the background. */
export interface BackgroundProcess {
  readonly id: string
  readonly options: Options
  readonly pid: number
  readonly startedAt: number
  /** Returns the end of the process; `undefined` while it runs. */
  readonly ended: () => ProcessEnd | undefined
  readonly exit: Effect.Effect<ProcessEnd>
  /** Terminates the process tree; has no effect on a process that has already ended. */
  readonly kill: Effect.Effect<ProcessEnd>
  readonly write: (text: string) => Effect.Effect<void, NotRunning>
  readonly closeInput: Effect.Effect<void, NotRunning>
  /** Returns the last characters of the output, redacted if `redact` is true. */
  readonly tail: (chars: number, redact: boolean) => string
  readonly lines: (redact: boolean) => KeptLines
  /** Hosts that the sandbox of the process refused. */
  readonly refused: Iterable<string>
}

const keptBytes = 256 * 1024
const eventOutputChars = 2000
const newline = 0x0a

const countLines = (bytes: Uint8Array): number => {
  let lines = 0
  for (const byte of bytes) {
    if (byte === newline) lines++
  }
  return lines
}

const makeWatcher = (
  options: Options,
  tell: (
    event:
      | { readonly _tag: "WatchDemoted" }
      | {
          readonly _tag: "WatchMatched"
          readonly suppressed: number
          readonly pattern: string
          readonly lines: ReadonlyArray<string>
        }
  ) => Effect.Effect<void>,
  demoted: () => void
): ((chunk: Uint8Array) => Effect.Effect<void>) => {
  if (options.watchPatterns.length === 0) return () => Effect.void
  const match = makeMatcher(options.watchPatterns)
  let state = unwatched
  return Effect.fnUntraced(function* (chunk) {
    if (state.demoted) return
    const found = match(chunk)
    if (found === undefined) return
    const [next, decision] = judgeMatch(state, yield* Clock.currentTimeMillis)
    state = next
    if (decision._tag === "Notify") {
      yield* tell({ _tag: "WatchMatched", suppressed: decision.suppressed, ...found })
    } else if (decision._tag === "Demote") {
      demoted()
      yield* tell({ _tag: "WatchDemoted" })
    }
  })
}

/** A process that runs, and its output so far. */
interface RunningProcess {
  readonly id: string
  readonly options: Options
  readonly output: OutputText.OutputBuffer
  readonly done: Deferred.Deferred<ProcessEnd>
  readonly publish: ProcessEvents.Service["publish"]
  readonly about: ReturnType<typeof describeProcess>
  /** Number of lines of the whole output. */
  lineCount: number
  ended: ProcessEnd | undefined
  isKilled: boolean
  /** True if the end of the process is reported. */
  isReported: boolean
}

const describeProcess = (id: string, { command, sessionId, taskId }: Options) => ({
  processId: id,
  sessionId,
  taskId,
  command
})

/** Adds output, and reports lines that are watched. */
const makeOutputReader = (background: RunningProcess) => {
  const { about, options, output, publish } = background
  const watch = makeWatcher(
    options,
    (event) => Effect.flatMap(Clock.currentTimeMillis, (at) => publish({ ...about, at, ...event })),
    () => {
      background.isReported = true
    }
  )
  return (chunks: ReadonlyArray<Uint8Array>) =>
    Effect.forEach(
      chunks,
      (chunk) => {
        output.push(chunk)
        background.lineCount += countLines(chunk)
        return watch(chunk)
      },
      { discard: true }
    )
}

/** Notes the end of a background, and reports it if that was requested. */
const noteEnd = Effect.fnUntraced(function* (background: RunningProcess, exit: ProcessEnd["exit"]) {
  const endedAt = yield* Clock.currentTimeMillis
  const ended: ProcessEnd = { exit, reason: background.isKilled ? "killed" : "exited", endedAt }
  background.ended = ended
  yield* Deferred.succeed(background.done, ended)
  if (!background.isReported) return
  yield* background.publish({
    ...background.about,
    _tag: "ProcessCompleted",
    at: endedAt,
    exitCode: exit.code,
    reason: ended.reason,
    output: OutputText.renderEnd(background.output.kept(), eventOutputChars, { redact: true, goesOn: false })
  })
})

/** Runs an effect on the input of a process, unless the process has ended. */
const whileRunning = (background: RunningProcess, effect: Effect.Effect<unknown>): Effect.Effect<void, NotRunning> =>
  Effect.suspend(() => {
    const { ended, id } = background
    if (ended === undefined) return Effect.asVoid(effect)
    const message = `${id} has ended with exit code ${ended.exit.code}: it takes no input`
    return Effect.fail(new NotRunning({ message }))
  })

/** Returns the lines of the stored output, and the number of lines before them. */
const readLines = ({ ended, lineCount, output }: RunningProcess, redact: boolean) => {
  const { omitted, tail } = output.kept()
  const bytes = tail.subarray(omitted === 0 ? 0 : tail.indexOf(newline) + 1)
  const reading = { redact, goesOn: ended === undefined }
  const lines = OutputText.renderKept({ head: new Uint8Array(0), tail: bytes, omitted: 0 }, reading).split("\n")
  if (lines.at(-1) === "") lines.pop()
  return { lines, first: lineCount - countLines(bytes) }
}

/**
 * Starts a process in a child scope of the given scope. Closing the given scope terminates the process; the process
 * does not depend on the fiber that starts it.
 */
export const start = Effect.fnUntraced(function* (
  shell: Shell.Shell,
  publish: ProcessEvents.Service["publish"],
  parent: Scope.Scope,
  id: string,
  options: Options
): Effect.fn.Return<BackgroundProcess, Shell.NotStarted> {
  const background: RunningProcess = {
    id,
    options,
    output: OutputText.make({ head: 0, tail: keptBytes }),
    done: yield* Deferred.make<ProcessEnd>(),
    publish,
    about: describeProcess(id, options),
    lineCount: 0,
    ended: undefined,
    isKilled: false,
    isReported: options.notifyOnComplete
  }
  const { done, output } = background
  const input = yield* Queue.unbounded<Uint8Array, Cause.Done>()
  const scope = yield* Scope.fork(parent, "sequential")
  const running = yield* shell
    .start({
      command: options.command,
      cwd: options.cwd,
      terminal: options.terminal,
      stdin: Stream.fromQueue(input),
      onOutput: makeOutputReader(background)
    })
    .pipe(
      Scope.provide(scope),
      Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
    )
  const startedAt = yield* Clock.currentTimeMillis
  yield* Effect.tap(running.exit, Scope.close(scope, Exit.void)).pipe(
    Effect.flatMap((exit) => noteEnd(background, exit)),
    Effect.forkIn(parent)
  )
  return {
    id,
    options,
    pid: running.pid,
    startedAt,
    refused: (yield* HostRequests)?.refused ?? [],
    ended: () => background.ended,
    exit: Deferred.await(done),
    kill: Effect.suspend(() => {
      if (background.ended !== undefined) return Effect.succeed(background.ended)
      background.isKilled = true
      return Effect.andThen(running.kill, Deferred.await(done))
    }),
    write: (text) => whileRunning(background, Queue.offer(input, new TextEncoder().encode(text))),
    closeInput: whileRunning(background, Queue.end(input)),
    tail: (chars, redact) =>
      OutputText.renderEnd(output.kept(), chars, { redact, goesOn: background.ended === undefined }),
    lines: (redact) => readLines(background, redact)
  }
})
