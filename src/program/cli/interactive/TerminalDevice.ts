/**
 * The terminal that a session uses for input and output, and the keys typed there, one at a time, regardless of what
 * the session is doing.
 *
 * Input is the undecoded data from the terminal in arbitrary chunks; the queue ends when the input is closed. While the
 * session owns the terminal, it receives every key: keys are not echoed and do not raise signals.
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type { Paint } from "../render/Paint.ts"
import type { Size } from "../render/Screen.ts"
import * as Keys from "./Keys.ts"

/** Event of a terminal. `Resumed` means that the program was suspended and the screen content is unknown. */
export type TerminalEvent =
  | { readonly _tag: "Input"; readonly text: string }
  | { readonly _tag: "Resized" }
  | { readonly _tag: "Resumed" }

/** A terminal in raw mode. */
export interface Terminal {
  readonly write: (text: string) => void
  readonly size: () => Size
  readonly paint: Paint
  readonly events: Queue.Dequeue<TerminalEvent, Cause.Done>
  /** Releases the terminal and stops the program until the shell continues it. */
  readonly suspend: Effect.Effect<void>
  /** True if drawing is not allowed: output is plain sequential text, without escape sequences. */
  readonly isLinear: boolean
  /** Switches to the alternate screen and back. */
  readonly alternate: (isOn: boolean) => void
  /** Lends the terminal to another program while some work runs; `undefined` if it cannot be lent. */
  readonly lend?: (<A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) | undefined
}

/** Time after which an escape counts as the Escape key, if no input follows. */
const escapeTime = Duration.millis(50)

/** A key, or a change of the terminal. */
type Event = Keys.Key | Exclude<TerminalEvent, { readonly _tag: "Input" }>

/** The keys that are typed, and the other events that end a wait for a key. */
export interface Keyboard {
  /** Returns the next event; fails when the input is closed. */
  readonly next: Effect.Effect<Event, Cause.Done>
  /** Returns true if an event is pending, so that drawing can wait for it. */
  readonly pending: () => boolean
}

/**
 * Creates a keyboard that returns the keys typed at a terminal. `told` is called with the terminal's reports about
 * itself.
 */
export const makeKeyboard = ({ events }: Pick<Terminal, "events">, told?: (report: string) => void): Keyboard => {
  const decoder = Keys.make(told)
  const keys: Array<Keys.Key> = []
  const next: Effect.Effect<Event, Cause.Done> = Effect.suspend(() => {
    const key = keys.shift()
    if (key !== undefined) return Effect.succeed(key)
    const arrived: Effect.Effect<TerminalEvent | undefined, Cause.Done> = decoder.isEscape()
      ? Effect.map(Effect.timeoutOption(Queue.take(events), escapeTime), Option.getOrUndefined)
      : Queue.take(events)
    return Effect.flatMap(arrived, (event): Effect.Effect<Event, Cause.Done> => {
      if (event !== undefined && event._tag !== "Input") return Effect.succeed(event)
      keys.push(...(event === undefined ? decoder.flush() : decoder.push(event.text)))
      return next
    })
  })
  return { next, pending: () => keys.length > 0 || Queue.sizeUnsafe(events) > 0 }
}
