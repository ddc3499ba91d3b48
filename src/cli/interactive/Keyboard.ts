/**
 * The keys that are typed, one by one, whatever the session is doing: at the prompt and while the agent works.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Keys from "./Keys.ts"
import type { Terminal, TerminalEvent } from "./TerminalDevice.ts"

/** A key, or a change of the terminal. */
export type Event = Keys.Key | Exclude<TerminalEvent, { readonly _tag: "Input" }>

export interface Keyboard {
  /** The next event; fails when nobody can type any more. */
  readonly next: Effect.Effect<Event, Cause.Done>
  /** Tells if an event is pending, so that drawing can wait for it. */
  readonly pending: () => boolean
}

export const make = ({ events }: Pick<Terminal, "events">): Keyboard => {
  const decoder = Keys.make()
  const keys: Array<Keys.Key> = []
  const next: Effect.Effect<Event, Cause.Done> = Effect.suspend(() => {
    const key = keys.shift()
    if (key !== undefined) return Effect.succeed(key)
    return Effect.flatMap(Queue.take(events), (event): Effect.Effect<Event, Cause.Done> => {
      if (event._tag !== "Input") return Effect.succeed(event)
      keys.push(...decoder.push(event.text))
      return next
    })
  })
  return { next, pending: () => keys.length > 0 || Queue.sizeUnsafe(events) > 0 }
}
