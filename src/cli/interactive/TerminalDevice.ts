/**
 * The port to the terminal that a session talks through.
 *
 * Input is what the terminal sends, undecoded, in pieces of any cut; the queue ends when nobody can type any more. As long as
 * the session has the terminal, it gets every key: nothing is echoed, and no key is a signal.
 */
import type * as Cause from "effect/Cause"
import type * as Effect from "effect/Effect"
import type * as Queue from "effect/Queue"
import type { Paint } from "../render/Paint.ts"
import type { Size } from "../render/Screen.ts"

/** Event of a terminal. `Resumed`: the program was suspended, and the terminal may show anything now. */
export type TerminalEvent =
  | { readonly _tag: "Input"; readonly text: string }
  | { readonly _tag: "Resized" }
  | { readonly _tag: "Resumed" }

export interface Terminal {
  readonly write: (text: string) => void
  readonly size: () => Size
  readonly paint: Paint
  readonly events: Queue.Dequeue<TerminalEvent, Cause.Done>
  /** Gives the terminal back and stops the program, until the shell lets it go on. */
  readonly suspend: Effect.Effect<void>
}
