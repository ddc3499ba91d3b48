/**
 * One command that runs in the background: its output, its input, and how it ended.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionId, TaskId } from "../../../domain/Ids.ts"
import * as OutputBuffer from "./OutputText.ts"
import * as OutputText from "./OutputText.ts"
import type * as ProcessEvents from "./ProcessEvents.ts"
import type * as Shell from "./Shell.ts"
import * as WatchPatterns from "./WatchPatterns.ts"

/** Command to run, with its owner. */
export interface Options {
  readonly command: string
  readonly cwd: string
  readonly sessionId: SessionId
  readonly taskId: TaskId
  /** The end of the process is told to its session. */
  readonly notifyOnComplete: boolean
  /** Lines of output with one of these texts are told to its session. */
  readonly watchPatterns: ReadonlyArray<string>
}

/** End of a process. Times are milliseconds since the epoch. */
export interface Ended {
  readonly exit: Shell.Exit
  readonly reason: "exited" | "killed"
  readonly endedAt: number
}

/** The process has ended, so it takes no input. */
export class NotRunning extends Schema.TaggedError<NotRunning>("hermes-effect/terminal/NotRunning")("NotRunning", {
  message: Schema.String
}) {}

/** The lines of an output that are still kept. */
export interface Lines {
  readonly lines: ReadonlyArray<string>
  /** Index of the first of them in the whole output. */
  readonly first: number
}

/** One command that runs in the background. */
export interface BackgroundProcess {
  readonly id: string
  readonly options: Options
  readonly pid: number
  readonly startedAt: number
  /** `undefined` while it runs. */
  readonly ended: () => Ended | undefined
  readonly exit: Effect.Effect<Ended>
  /** Takes its process tree down; a process that has ended already stays as it is. */
  readonly kill: Effect.Effect<Ended>
  readonly write: (text: string) => Effect.Effect<void, NotRunning>
  readonly closeInput: Effect.Effect<void, NotRunning>
  /** The end of its output; redacted where `redact` says so, as its lines are. */
  readonly tail: (chars: number, redact: boolean) => string
  readonly lines: (redact: boolean) => Lines
}

const keptBytes = 256 * 1024
const eventOutputChars = 2000
const newline = 0x0a

const count = (bytes: Uint8Array): number => {
  let lines = 0
  for (const byte of bytes) {
    if (byte === newline) lines++
  }
  return lines
}

const watcher = (
  options: Options,
  tell: (event: { readonly _tag: "WatchDemoted" } | {
    readonly _tag: "WatchMatched"
    readonly suppressed: number
    readonly pattern: string
    readonly lines: ReadonlyArray<string>
  }) => Effect.Effect<void>,
  demoted: () => void
): (chunk: Uint8Array) => Effect.Effect<void> => {
  if (options.watchPatterns.length === 0) return () => Effect.void
  const match = WatchPatterns.matcher(options.watchPatterns)
  let state = WatchPatterns.initial
  return Effect.fnUntraced(function*(chunk) {
    if (state.demoted) return
    const found = match(chunk)
    if (found === undefined) return
    const [next, decision] = WatchPatterns.onMatch(state, yield* Clock.currentTimeMillis)
    state = next
    if (decision._tag === "Notify") {
      yield* tell({ _tag: "WatchMatched", suppressed: decision.suppressed, ...found })
    } else if (decision._tag === "Demote") {
      demoted()
      yield* tell({ _tag: "WatchDemoted" })
    }
  })
}

/**
 * Starts a process in a scope of its own below the given one. Closing the given scope takes it down; it needs nothing of
 * the fiber that starts it.
 */
export const start = Effect.fnUntraced(function*(
  shell: Shell.Shell,
  events: ProcessEvents.Service,
  parent: Scope.Scope,
  id: string,
  options: Options
): Effect.fn.Return<BackgroundProcess, Shell.NotStarted> {
  const output = OutputBuffer.make({ head: 0, tail: keptBytes })
  const input = yield* Queue.unbounded<Uint8Array, Cause.Done>()
  const done = yield* Deferred.make<Ended>()
  let total = 0
  let ended: Ended | undefined
  let killed = false
  let notify = options.notifyOnComplete

  const about = { processId: id, sessionId: options.sessionId, taskId: options.taskId, command: options.command }
  const watch = watcher(
    options,
    (event) => Effect.flatMap(Clock.currentTimeMillis, (at) => events.publish({ ...about, at, ...event })),
    () => {
      notify = true
    }
  )
  const scope = yield* Scope.fork(parent, "sequential")
  const running = yield* shell.start({
    command: options.command,
    cwd: options.cwd,
    stdin: Stream.fromQueue(input),
    onOutput: (chunks) =>
      Effect.forEach(chunks, (chunk) => {
        output.push(chunk)
        total += count(chunk)
        return watch(chunk)
      }, { discard: true })
  }).pipe(
    Scope.provide(scope),
    Effect.onExit((exit) => Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void)
  )
  const startedAt = yield* Clock.currentTimeMillis

  yield* Effect.gen(function*() {
    const exit = yield* running.exit
    yield* Scope.close(scope, Exit.void)
    const endedAt = yield* Clock.currentTimeMillis
    const now: Ended = { exit, reason: killed ? "killed" : "exited", endedAt }
    ended = now
    yield* Deferred.succeed(done, now)
    if (notify) {
      yield* events.publish({
        ...about,
        _tag: "ProcessCompleted",
        at: endedAt,
        exitCode: exit.code,
        reason: now.reason,
        output: OutputText.last(output.kept(), eventOutputChars, { redact: true, goesOn: false })
      })
    }
  }).pipe(Effect.forkIn(parent))

  const whileRunning = (effect: Effect.Effect<unknown>): Effect.Effect<void, NotRunning> =>
    Effect.suspend(() =>
      ended === undefined
        ? Effect.asVoid(effect)
        : Effect.fail(new NotRunning({ message: `${id} has ended with exit code ${ended.exit.code}: it takes no input` }))
    )

  return {
    id,
    options,
    pid: running.pid,
    startedAt,
    ended: () => ended,
    exit: Deferred.await(done),
    kill: Effect.suspend(() => {
      if (ended !== undefined) return Effect.succeed(ended)
      killed = true
      return Effect.andThen(running.kill, Deferred.await(done))
    }),
    write: (text) => whileRunning(Queue.offer(input, new TextEncoder().encode(text))),
    closeInput: whileRunning(Queue.end(input)),
    tail: (chars, redact) => OutputText.last(output.kept(), chars, { redact, goesOn: ended === undefined }),
    lines: (redact) => {
      const { omitted, tail } = output.kept()
      const bytes = tail.subarray(omitted === 0 ? 0 : tail.indexOf(newline) + 1)
      const reading = { redact, goesOn: ended === undefined }
      const lines = OutputText.kept({ head: new Uint8Array(0), tail: bytes, omitted: 0 }, reading).split("\n")
      if (lines.at(-1) === "") lines.pop()
      return { lines, first: total - count(bytes) }
    }
  }
})
