/**
 * Test helpers for runs: recorders of events and of hooks, and a reproducible clock and ids.
 *
 * **Example** (Events of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { TestRun } from "hermes-effect/testing"
 *
 * const program = Effect.gen(function*() {
 *   const { events, onEvent } = TestRun.makeEventRecorder()
 *   yield* Agent.run({ prompt: "Reply exactly hello", onEvent })
 *   return events("RunFinished").map(({ exit }) => exit)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => [ 'text_response' ]
 * ```
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as TestClock from "effect/testing/TestClock"
import type { RunEvent } from "../../base/domain/RunEvent.ts"

/** Recorder of the events of runs, in order. */
export interface EventRecorder {
  /** Handler for the `onEvent` option of a run. */
  readonly onEvent: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  /** Returns the recorded events with a tag. */
  readonly events: <Tag extends RunEvent["_tag"]>(tag: Tag) => ReadonlyArray<Extract<RunEvent, { readonly _tag: Tag }>>
  /** Returns all recorded events. */
  readonly all: () => ReadonlyArray<RunEvent>
  /** Returns the text shown so far. */
  readonly text: () => string
}

/** Creates an empty event recorder. */
export const makeEventRecorder = (): EventRecorder => {
  const seen: Array<RunEvent> = []
  const events = <Tag extends RunEvent["_tag"]>(tag: Tag) =>
    seen.filter((event): event is Extract<RunEvent, { readonly _tag: Tag }> => event._tag === tag)
  return {
    onEvent: (more) => Effect.sync(() => void seen.push(...more)),
    events,
    all: () => [...seen],
    text: () =>
      events("TextDelta")
        .map(({ text }) => text)
        .join("")
  }
}

export { type HookRecorder, makeHookRecorder, type RecordedHook } from "../../hooks/HookRecorder.ts"

/** Clock and randomness of a run. */
export interface Surroundings {
  /** Time at which the clock stands still until `TestClock` advances it, in epoch milliseconds. Default: 0. */
  readonly at?: number | undefined
  /** Seed of ids and of all other random values of the fiber. */
  readonly seed?: string | number | undefined
}

/**
 * Runs an effect at a fixed time with fixed randomness. Ids of turns, calls and attempts are reproducible. The id of a
 * session is reproducible too, unless this process has already used it for another session, so pass a session id if it
 * matters.
 */
export const runRepeatably = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  { at = 0, seed = "hermes" }: Surroundings = {}
): Effect.Effect<A, E, R> =>
  Effect.provide(Effect.andThen(TestClock.setTime(at), Random.withSeed(effect, seed)), TestClock.layer())
