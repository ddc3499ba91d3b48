/**
 * The current activity of a run, derived from its events: waiting for the model, writing, or thinking. It is shown on a
 * live line if the run has not written text for {@link pauseMillis}.
 */
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import type * as Paint from "./Paint.ts"
import * as ToolText from "./ToolText.ts"
import * as Width from "./Width.ts"

/** State of a run between its events. */
export interface RunActivity {
  readonly current: { readonly label: string; readonly since: number } | undefined
  /** Time of the last piece of the answer. */
  readonly lastText: number
  readonly isOver: boolean
}

/** Time without text after which the activity is shown, in milliseconds. */
const pauseMillis = 1500

/** Activity of a run without events. */
export const empty: RunActivity = { current: undefined, lastText: 0, isOver: false }

const startActivity = (activity: RunActivity, label: string, now: number): RunActivity =>
  activity.current?.label === label ? activity : { ...activity, current: { label, since: now } }

/** Returns the activity after an event, or the same object if it does not change. */
export const reduceActivity = (activity: RunActivity, event: RunEvent, now: number): RunActivity => {
  switch (event._tag) {
    case "RunStarted":
    case "StepStarted":
      return startActivity(activity, "waiting for the model", now)
    case "TextDelta":
      return startActivity(activity.lastText === now ? activity : { ...activity, lastText: now }, "writing", now)
    case "ToolInputStarted":
      return startActivity(activity, "writing", now)
    case "ReasoningDelta":
      return startActivity(activity, "thinking", now)
    case "Waiting":
      return startActivity(activity, "waiting to try again", now)
    case "RunFinished":
      return { ...activity, isOver: true }
    default:
      return activity
  }
}

/** Available width and appearance of the live line. */
export interface Look {
  readonly paint: Paint.Paint
  readonly columns: number
  /** Current frame of the spinner. */
  readonly frame: string
  /** Hint next to the time; not shown if empty. */
  readonly hint: string
}

/** Renders the live line of an activity; returns no lines while text is being written. */
export const renderLines = (
  { current, lastText }: RunActivity,
  now: number,
  { columns, frame, hint, paint }: Look
): ReadonlyArray<string> => {
  if (current === undefined || now - lastText < pauseMillis) return []
  const time = ToolText.formatElapsed(now - current.since)
  const line = `${current.label} · ${time}${hint === "" ? "" : ` · ${hint}`}`
  return [`${paint.text("┊", "dim")} ${paint.text(frame, "cyan")} ${paint.text(Width.cut(line, columns - 5), "dim")}`]
}
