/**
 * Delays of a run in words, the same in every view.
 */
import type { RunEvent } from "../../domain/RunEvent.ts"

type Of<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

const seconds = (millis: number): string => `${Math.max(1, Math.round(millis / 1000))} s`

/** A wait before another attempt. */
export const waiting = ({ attempt, maxAttempts, millis, reason }: Of<"Waiting">): string =>
  `┊ ${reason}: retrying in ${seconds(millis)}, attempt ${attempt} of ${maxAttempts}`

/** A model that says nothing. */
export const silent = ({ waitedMillis }: Of<"Heartbeat">): string =>
  `┊ no output from the model, ${seconds(waitedMillis)} into its answer; still waiting`
