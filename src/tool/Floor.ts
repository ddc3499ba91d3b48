/**
 * What never runs, whatever flag, mode or approval allowed it. It is asked last, at the handler, of the arguments that
 * really reach the tool.
 *
 * Source: `ARCHITECTURE.md` §4 and §7, `hermes-llm.md` §19.7.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type { ToolArguments } from "../middleware/Kind.ts"
import * as Subject from "./approval/Subject.ts"

/** A call that the floor stopped. */
export class BelowFloor extends Schema.TaggedError<BelowFloor>("hermes-effect/BelowFloor")("BelowFloor", {
  message: Schema.String
}) {}

/** Why a call never runs; undefined when nothing stands against it. */
export const judge = (tool: string, facts: Subject.Runs, args: ToolArguments): BelowFloor | undefined => {
  if (facts.commandArguments.length + facts.inputArguments.length === 0) return undefined
  const { floor } = Subject.of(tool, args, facts).verdict
  return floor === undefined
    ? undefined
    : new BelowFloor({
      message: `Blocked: ${floor.key}. No approval or setting allows this; find another way, or ask the user to do it.`
    })
}
