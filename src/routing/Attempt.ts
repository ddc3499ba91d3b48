/**
 * One attempt to get an answer: the request is prepared for the route that is really called, then executed. Auxiliary
 * calls go through the same attempt.
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ModelCall, ModelResponse, OnPart } from "../domain/Model.ts"
import type { Try } from "./ModelRouter.ts"

/** See the module. */
export const run = (
  at: Try,
  call: ModelCall,
  onPart: OnPart | undefined
): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.flatMap(
    at.provider.prepare(call),
    (request) => at.provider.execute(request, onPart === undefined ? undefined : { onPart })
  )
