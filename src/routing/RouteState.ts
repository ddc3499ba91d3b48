/**
 * Positions of sessions in the chain of routes.
 *
 * **Details**
 *
 * A session starts on the primary. When it has to leave a route it stays on the next one for the rest of the turn; its next
 * turn starts on the primary again, unless the primary refused it for its rate or for money less than a minute ago. Only
 * sessions that are away from the primary are remembered.
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 */
import type { TurnId } from "../domain/Ids.ts"
import type { Reason } from "./Recovery.ts"
import type { Turn } from "./ModelRouter.ts"

/** Milliseconds that a primary that refused a session is left alone. */
export const cooldownMillis = 60_000

/** Sessions that were left on a fallback and never came back are forgotten beyond this number, oldest first. */
const mostSessions = 4_096

interface Place {
  readonly turn: TurnId
  readonly position: number
  /** Time at which the primary may be asked again. */
  readonly coolUntil: number
}

/** Positions of sessions; they count from 0, the primary. */
export interface RouteState {
  /** Returns the route of the turn's next call. A turn that is new may bring the session back. */
  readonly position: (turn: Turn, now: number) => number
  /** Puts the session on another route; `reason` is why it left the one that it was on, `now` in milliseconds. */
  readonly move: (turn: Turn, to: number, reason: Reason | undefined, now: number) => void
}

/** A state in which every session is on the primary. */
export const make = (): RouteState => {
  const places = new Map<string, Place>()
  return {
    position: ({ session, turn }, now) => {
      const place = places.get(session)
      if (place === undefined) return 0
      if (place.turn === turn) return place.position
      if (now >= place.coolUntil) {
        places.delete(session)
        return 0
      }
      places.set(session, { ...place, turn })
      return place.position
    },
    move: ({ session, turn }, position, reason, now) => {
      const place = places.get(session)
      const leftPrimary = (place?.position ?? 0) === 0
      const cools = leftPrimary && (reason === "rate_limit" || reason === "billing")
      const coolUntil = cools ? now + cooldownMillis : place?.coolUntil ?? 0
      places.delete(session)
      if (position > 0) places.set(session, { turn, position, coolUntil })
      if (places.size <= mostSessions) return
      const oldest = places.keys().next()
      if (oldest.done !== true) places.delete(oldest.value)
    }
  }
}
