/**
 * The open parts of a run while its record is written: attempts, calls and children that have begun and not ended. If
 * the record is cut before they end, they end with it.
 */
import type { Kind, RecordEvent } from "./RecordEvent.ts"

/** Kinds of events without which a record that was cut is complete. They concern a run that goes on. */
const ofGoingRuns: ReadonlySet<Kind> = new Set(["AnswerAdapted", "Notice", "RouteChanged", "RunEnded", "Waiting"])

/** Returns the key of the part of a run that an event begins or ends, or `undefined` for every other event. */
const findPart = (event: RecordEvent): string | undefined => {
  switch (event._tag) {
    case "AttemptStarted":
    case "AttemptEnded":
      return `attempt ${event.apiRequestId}`
    case "CallStarted":
    case "CallEnded":
      return `call ${event.callId}`
    case "ChildStarted":
    case "ChildEnded":
      return `child ${event.sessionId}`
    default:
      return undefined
  }
}

/** Parts of a run that have not ended. */
interface OpenParts {
  /** Tests whether an event is to be written, and updates the parts. `end` creates the event that ends a part. */
  readonly admitEvent: (event: RecordEvent, end: (() => RecordEvent) | undefined) => boolean
  readonly isOpen: (part: string) => boolean
  /** Returns true after the end of the run. */
  readonly isEnded: () => boolean
  /** Ends all parts, the most recent one first. Returns the events that end them, followed by the given events. */
  readonly endAll: (last: ReadonlyArray<RecordEvent>) => ReadonlyArray<RecordEvent>
}

/** Creates the parts of a run that begins. */
export const makeOpenParts = (): OpenParts => {
  const open = new Map<string, () => RecordEvent>()
  /** Parts that were ended by the cut; `undefined` before it. */
  let cut: Set<string> | undefined
  let isEnded = false
  return {
    admitEvent: (event, end) => {
      const part = findPart(event)
      if (cut !== undefined) return part === undefined ? !ofGoingRuns.has(event._tag) : !cut.has(part)
      if (event._tag === "RunEnded") isEnded = true
      if (part === undefined) return true
      if (end !== undefined) open.set(part, end)
      else open.delete(part)
      return true
    },
    isOpen: (part) => open.has(part),
    isEnded: () => isEnded,
    endAll: (last) => {
      const others = last.filter((event) => !open.has(findPart(event) ?? ""))
      const ends = [...Array.from(open.values(), (end) => end()).toReversed(), ...others]
      cut = new Set(ends.flatMap((event) => findPart(event) ?? []))
      isEnded = true
      open.clear()
      return ends
    }
  }
}
