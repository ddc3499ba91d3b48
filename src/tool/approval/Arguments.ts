/**
 * The arguments of a call as they were when it was approved, so that a change on the way to the handler is noticed.
 *
 * @since 0.1.0
 */
import type { ToolArguments } from "../../middleware/Kind.ts"

/** Arguments in one text, to be compared and shown; undefined when JSON can not express them. */
export const written = (args: ToolArguments): string | undefined => {
  try {
    return JSON.stringify(args)
  } catch {
    return undefined
  }
}

/** See the module. */
export interface Snapshot {
  readonly isSame: (args: ToolArguments) => boolean
}

/** Of arguments that nobody can change on the way: no middleware of tools is there. Costs nothing. */
export const fixed: Snapshot = { isSame: () => true }

/** Of arguments that middleware gets to see. Those that can not be compared count as changed. */
export const taken = (args: ToolArguments): Snapshot => {
  const before = written(args)
  return { isSame: (after) => before !== undefined && written(after) === before }
}
