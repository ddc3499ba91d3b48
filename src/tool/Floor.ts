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
import type { Facts } from "./Annotations.ts"
import * as Danger from "./danger/Danger.ts"

/** A call that the floor stopped. */
export class BelowFloor extends Schema.TaggedError<BelowFloor>("hermes-effect/BelowFloor")("BelowFloor", {
  message: Schema.String
}) {}

/** Why a call never runs; undefined when nothing stands against it. */
export const judge = (facts: Facts, args: ToolArguments): BelowFloor | undefined => {
  for (const name of facts.commandArguments) {
    const command = Object.hasOwn(args, name) ? args[name] : undefined
    const finding = typeof command === "string" ? Danger.judge(command).floor : undefined
    if (finding !== undefined) {
      return new BelowFloor({
        message: `Blocked: ${finding.key}. No approval or setting allows this; find another way, or ask the user to do it.`
      })
    }
  }
  return undefined
}
