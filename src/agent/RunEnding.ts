/**
 * Ends a run with a text that is not the model's final answer: the result of a stop tool, or an answer of lifecycle
 * middleware.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as AnswerText from "../base/domain/AnswerText.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { EndedOutcome } from "./AnswerOutcome.ts"
import { appendOwnAnswer, makeAnswer } from "./RunConversation.ts"
import { emit, type RunState } from "./RunState.ts"
import type { Services } from "./Services.ts"

/** Ending of a run. */
export interface RunEnding extends Omit<EndedOutcome, "_tag"> {
  /** True if the conversation does not contain the text, which is then stored as an answer. */
  readonly isNew: boolean
}

/** Returns the ending of a run by lifecycle middleware. */
export const makeEnding = (by: string, text: string, isNew: boolean): RunEnding => ({
  exit: "ended_by_middleware",
  by,
  text,
  isNew
})

/** Shows the text of an ending, after the text that the current step has shown, and stores it if it is new. */
export const endRun = (
  run: RunState,
  { by, exit, isNew, text: given }: RunEnding,
  shown: string
): Effect.Effect<EndedOutcome, SessionStoreError, Services> =>
  RedactSecrets.use((redact) => {
    const text = AnswerText.toDisplayText(given, redact)
    const outcome: EndedOutcome = { _tag: "Ended", exit, by, text }
    if (text.trim() === "") return Effect.succeed(outcome)
    const stored = isNew ? appendOwnAnswer(run, makeAnswer(run, [Prompt.textPart({ text })])) : Effect.void
    const separator = shown === "" ? "" : "\n\n"
    return Effect.as(Effect.andThen(stored, emit(run, { _tag: "TextDelta", text: separator + text })), outcome)
  })
