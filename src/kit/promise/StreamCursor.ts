/** The cursor of a reader: its position in the events of a run, computed when it is read. */
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as RunCursor from "../../store/RunCursor.ts"

/** Events of a run, in order, for one reader, and the cursor with which the reader returns. */
export interface EventStream<Event> extends AsyncIterableIterator<Event> {
  /**
   * Position behind the last event that was read, for `hermes.watch` in any process that has the store. `undefined`
   * before the first event.
   */
  readonly cursor: string | undefined
}

/** Adds the cursor to an iterator. `seen` is the position at which the iterator begins. */
export const addCursor = (
  events: AsyncIterableIterator<RunEvent>,
  seen: RunCursor.RunPosition | undefined
): EventStream<RunEvent> => {
  let position = seen
  /** Events of the newest step that are not part of the position yet. */
  let pending: Array<RunEvent> = []
  const noteEvent = (event: RunEvent): void => {
    if (event._tag === "RunStarted") position = RunCursor.makeStart(event.turnId)
    else if (event._tag === "StepStarted") pending = []
    pending.push(event)
  }
  return {
    next: async () => {
      const result = await events.next()
      if (result.done !== true) noteEvent(result.value)
      return result
    },
    return: async () => (await events.return?.()) ?? { done: true, value: undefined },
    get cursor() {
      if (position === undefined) return undefined
      position = pending.reduce(RunCursor.advancePosition, position)
      pending = []
      return RunCursor.formatCursor(position)
    },
    [Symbol.asyncIterator]() {
      return this
    }
  }
}
