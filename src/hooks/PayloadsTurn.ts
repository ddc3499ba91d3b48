/**
 * Payloads that frame a run (a user turn), not the single requests in it.
 *
 * Source: the observer document ("Turn-Scoped LLM Hooks"), `hermes-contract.md` §2.3.
 */
import * as Schema from "effect/Schema"
import { SessionId } from "../domain/Ids.ts"
import { Messages, model, run, version } from "./PayloadFields.ts"

/** Before the first step of a run. A listener may answer with context for this user message. */
export const PreLlmCall = Schema.Struct({
  ...version,
  ...run,
  /** The message as the user gave it: text, or a list of parts. */
  user_message: Schema.Json,
  /** Legacy; read lazily. Holds the new user message already. */
  conversation_history: Messages,
  is_first_turn: Schema.Boolean,
  ...model,
  /** Empty when nobody in particular speaks. */
  sender_id: Schema.String
})
/** See {@link PreLlmCall}. */
export type PreLlmCall = typeof PreLlmCall.Type

/** After the last step of a run that has a final answer and was not interrupted. */
export const PostLlmCall = Schema.Struct({
  ...version,
  ...run,
  user_message: Schema.Json,
  /** The final text, after `transform_llm_output`. */
  assistant_response: Schema.String,
  /** Legacy; read lazily. */
  conversation_history: Messages,
  ...model
})
/** See {@link PostLlmCall}. */
export type PostLlmCall = typeof PostLlmCall.Type

/** The final text of a run, before anybody sees it. A listener may answer with another text. */
export const TransformLlmOutput = Schema.Struct({
  ...version,
  response_text: Schema.String,
  session_id: SessionId,
  ...model
})
/** See {@link TransformLlmOutput}. */
export type TransformLlmOutput = typeof TransformLlmOutput.Type
