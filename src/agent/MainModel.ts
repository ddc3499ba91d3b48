/**
 * Checks the model that a run is about to ask: an agent must be able to work with it. Gives the user's warning, if any.
 *
 * **Details**
 *
 * A model that holds too little is refused before anything is stored, unless the user named the number or the number was
 * learnt from a refusal: then the run has been working with it. Children may have smaller models.
 *
 * Source: `hermes-llm.md` §10.1.
 */
import * as Effect from "effect/Effect"
import type { ConfigError } from "../domain/AgentError.ts"
import * as ContextWindow from "../routing/ContextWindow.ts"
import type { Service as ModelRouter } from "../routing/ModelRouter.ts"
import type { RunOptions } from "./RunInput.ts"

/** Checks the model before the run begins. The line is for the user, once for each model. */
export const check = Effect.fnUntraced(function*(
  { catalogue, primary, primaryRoute }: ModelRouter,
  { onEvent, route }: RunOptions
): Effect.fn.Return<string | undefined, ConfigError> {
  if (catalogue === undefined) return undefined
  const asked = route ?? (yield* primaryRoute ?? primary)
  const { window: { source, tokens } } = yield* catalogue.known(asked)
  yield* ContextWindow.require(asked, tokens, source === "config" || source === "learnt")
  return onEvent === undefined ? undefined : yield* catalogue.notice(asked)
})
