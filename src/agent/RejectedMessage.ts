/**
 * Keeps a conversation that a provider refused from growing: the message that was refused is taken back.
 *
 * **Details**
 *
 * That is done when the first call of a run was refused as a bad request (400) and the conversation is large, or when it
 * does not fit and nothing makes it smaller. What a run has done before it was refused stays as it is.
 *
 * Source: `hermes-llm.md` §16.5 (15).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import { CompressionExhausted, type SessionStoreError } from "../domain/AgentError.ts"
import * as Refused from "../domain/Refused.ts"
import * as CallSize from "../routing/CallSize.ts"
import * as Evidence from "../routing/classification/Evidence.ts"
import { type RunState, storeMessages } from "./RunState.ts"
import type { Services } from "./Services.ts"

const large = { tokens: 50_000, messages: 80 }

/** Why the message is taken back; undefined where it is not. */
const whyOf = ({ messages }: RunState, error: unknown): string | undefined => {
  if (error instanceof CompressionExhausted) return "the conversation does not fit into the model"
  if (!AiError.isAiError(error) || Evidence.of(error).status !== 400) return undefined
  return messages.length > large.messages || CallSize.tokens({ messages }) > large.tokens ? "bad request" : undefined
}

/** Takes back what was refused, if that is what ended the run. */
export const takeBack = <E>(
  services: Pick<Services, "store">,
  run: RunState,
  exit: Exit.Exit<unknown, E>
): Effect.Effect<void, SessionStoreError> => {
  const why = run.steps === 1 && Exit.isFailure(exit) && !Exit.hasInterrupts(exit) ? whyOf(run, Cause.squash(exit.cause)) : undefined
  return why === undefined ? Effect.void : storeMessages(services, run, [Refused.note(why)])
}
