/** Mutable values of the turns of a live session. They change on the owner's fiber only. */
import type * as Fiber from "effect/Fiber"
import type { Turn } from "./HostEvent.ts"

/** Conditions under which a turn may start. */
export interface TurnAdmission {
  /** Number of clients that hold the session. */
  held: number
  /** True after the user stopped the work, until new work arrives. */
  isPaused: boolean
}

/** Counters of the turns so far. */
export interface TurnCount {
  started: number
  /** Id of the newest turn if it began in the mode `plan`. */
  planned: Turn["id"] | undefined
}

/** Active fibers: the fiber of the current turn, and the fiber that waits for background work. */
export interface TurnFibers {
  running: Fiber.Fiber<unknown, unknown> | undefined
  watching: Fiber.Fiber<unknown, unknown> | undefined
}
