/**
 * Hands the events of a run to the single reader of its stream.
 *
 * **Details**
 *
 * A waiting reader resumes within the offer itself and receives the events as they were offered, without a queue, a
 * copy or a turn of the event loop. Events for a busy reader are buffered and delivered all at once; a run that is too
 * far ahead waits until they were taken. The end of the stream follows the events that were offered before it.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"

/** Writing and reading sides of a stream. */
export interface EventHandoff<A, E> {
  /** Passes events to the reader, or buffers them. Does nothing after the stream has ended or was closed. */
  readonly offer: (events: ReadonlyArray<A>) => Effect.Effect<void>
  /** Ends the stream with the exit of the run. */
  readonly end: (exit: Exit.Exit<unknown, E>) => Effect.Effect<void>
  /** Releases all waiting writers after the reader has left. */
  readonly close: Effect.Effect<void>
  /** Pulls the next events, for a single reader. */
  readonly pull: Pull.Pull<readonly [A, ...Array<A>], E>
  /** Stream of the same events. */
  readonly stream: Stream.Stream<A, E>
}

type Events<A> = readonly [A, ...Array<A>]
type PullResult<A, E> = Effect.Effect<Events<A>, E | Cause.Done>

const isSome = <A>(events: ReadonlyArray<A>): events is Events<A> => events.length > 0

/** Creates a handoff. `limit` is the number of events buffered for a busy reader before the run waits. */
export const make = <A, E>(limit: number): EventHandoff<A, E> => {
  let kept: Array<A> = []
  let ended: Effect.Effect<never, E | Cause.Done> | undefined
  let isClosed = false
  /** Callback that resumes the waiting reader. */
  let reader: ((pulled: PullResult<A, E>) => void) | undefined
  /** Callbacks that resume writers waiting for a slow reader. */
  const writers = new Set<(done: Effect.Effect<void>) => void>()

  const releaseWriters = (): void => {
    const waiting = Array.from(writers)
    writers.clear()
    for (const resume of waiting) resume(Effect.void)
  }
  /** Resumes a waiting reader. Returns false if no reader is waiting. */
  const resumeReader = (pulled: PullResult<A, E>): boolean => {
    const waiting = reader
    reader = undefined
    waiting?.(pulled)
    return waiting !== undefined
  }

  const pull: PullResult<A, E> = Effect.suspend(() => {
    if (isSome(kept)) {
      const events = kept
      kept = []
      if (writers.size > 0) releaseWriters()
      return Effect.succeed(events)
    }
    return (
      ended ??
      Effect.callback<Events<A>, E | Cause.Done>((resume) => {
        reader = resume
        return Effect.sync(() => {
          if (reader === resume) reader = undefined
        })
      })
    )
  })

  return {
    offer: (events) =>
      Effect.suspend(() => {
        if (isClosed || ended !== undefined || !isSome(events) || resumeReader(Effect.succeed(events)))
          return Effect.void
        for (const event of events) kept.push(event)
        if (kept.length < limit) return Effect.void
        return Effect.callback<void>((resume) => {
          writers.add(resume)
          return Effect.sync(() => void writers.delete(resume))
        })
      }),
    end: (exit) =>
      Effect.sync(() => {
        ended ??= exit._tag === "Failure" ? Effect.failCause(exit.cause) : Cause.done()
        resumeReader(ended)
      }),
    close: Effect.sync(() => {
      isClosed = true
      kept = []
      releaseWriters()
    }),
    pull,
    stream: Stream.fromPull(Effect.succeed(pull))
  }
}
