/**
 * Parts around a run in a test: recorders of its events and of its hooks, and a clock and ids that are the same each
 * time.
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
import { fromPlain, type Hook } from "../../hooks/Hook.ts"
import { type HookName, names } from "../../hooks/Payloads.ts"

/** Events of runs, in their order. */
export interface EventRecorder {
  /** For `onEvent` of a run. */
  readonly onEvent: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  /** The events of a kind so far. */
  readonly events: <Tag extends RunEvent["_tag"]>(tag: Tag) => ReadonlyArray<Extract<RunEvent, { readonly _tag: Tag }>>
  /** All events so far. */
  readonly all: () => ReadonlyArray<RunEvent>
  /** The text that was shown so far. */
  readonly text: () => string
}

/** A recorder without events. */
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

/** One call of a hook. */
export interface RecordedHook {
  readonly name: HookName
  readonly payload: Readonly<Record<string, unknown>>
}

/** Hooks of a runtime that record the events they receive. */
export interface HookRecorder {
  /** For `hooks` of a runtime. */
  readonly hooks: ReadonlyArray<Hook>
  readonly told: () => ReadonlyArray<RecordedHook>
  /** The payloads of one hook. */
  readonly payloads: (name: HookName) => ReadonlyArray<RecordedHook["payload"]>
}

/** A recorder of these hooks; of all that there are when absent. Those that may answer say nothing. */
export const makeHookRecorder = (only: ReadonlyArray<HookName> = names): HookRecorder => {
  const seen: Array<RecordedHook> = []
  const hooks = only.map((name) =>
    fromPlain(name, (event): void => void seen.push({ name, payload: { ...event } }), { label: `recorder of ${name}` })
  )
  return {
    hooks,
    told: () => [...seen],
    payloads: (name) => seen.filter((one) => one.name === name).map(({ payload }) => payload)
  }
}

/** Time and chance of a run. */
export interface Surroundings {
  /** Instant at which time stands still until `TestClock` moves it, in milliseconds; 0 when absent. */
  readonly at?: number | undefined
  /** Seed of ids and of everything else that takes chance from the fiber. */
  readonly seed?: string | number | undefined
}

/**
 * Runs an effect at a fixed instant with fixed chance. Ids of turns, calls and attempts are the same each time; the id
 * of a session too, unless this process has given it to another session, so name the session where its id matters.
 */
export const runRepeatably = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  { at = 0, seed = "hermes" }: Surroundings = {}
): Effect.Effect<A, E, R> =>
  Effect.provide(Effect.andThen(TestClock.setTime(at), Random.withSeed(effect, seed)), TestClock.layer())
