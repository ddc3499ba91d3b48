/**
 * A model's answer as the library is told it, in the form that a stream of events has it; and as the library hands it back
 * when one of its components changed it.
 *
 * Source: `hermes-contract.md` §4.8, `relay-atof-atif.md` §1.7.
 */
import * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { type ContentPart, type ModelResponse, withParts } from "../../domain/Model.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import { copyOf } from "../../hooks/Sanitizer.ts"
import type { LlmContext } from "../../middleware/Kind.ts"
import * as Reading from "../atif/Answer.ts"
import { plain } from "../atif/Message.ts"
import { fields } from "../atif/Value.ts"
import * as Writing from "../atof/Answer.ts"

/** The answer as JSON. */
export const told = (response: ModelResponse): Schema.Json => {
  const { finish_reason, response: answer, response_model, usage } = ApiPayload.answer(response)
  return Writing.answer(fields(copyOf({ finish_reason, response: answer, response_model, usage })))
}

const partsOf = (value: unknown): ReadonlyArray<ContentPart> => {
  const { calls, message, reasoning } = Reading.read(value)
  const text = plain(message)
  return [
    ...(reasoning === undefined ? [] : [Response.makePart("reasoning", { text: reasoning })]),
    ...(text === "" ? [] : [Response.makePart("text", { text })]),
    ...calls.map(({ args, id, name }, index) =>
      Response.makePart("tool-call", { id: id ?? `${name}:${index}`, name, params: args, providerExecuted: false }))
  ]
}

/**
 * The answer that the library handed back in the place of `own`. Without one of our own the library answered by itself: then
 * its answer is a body of the provider's protocol.
 */
export const given = (
  value: unknown,
  own: ModelResponse | undefined,
  context: LlmContext
): Effect.Effect<ModelResponse, unknown> => {
  if (own === undefined) return context.decode(value)
  const parts = partsOf(value)
  const hasCalls = parts.some(({ type }) => type === "tool-call")
  return Effect.succeed(withParts(own, parts, hasCalls ? "tool-calls" : own.finishReason === "tool-calls" ? "stop" : own.finishReason))
}
