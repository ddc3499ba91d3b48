/**
 * The policy of a run: steps until an outcome ends it, within the iteration budget.
 *
 * **Details**
 *
 * `maxIterations` model calls with tools are allowed; when they are used up without a final text, one tool-less call asks
 * for a summary, which is not counted (`ARCHITECTURE.md` §7, `hermes-llm.md` §18.3). The request for it is sent, and never
 * stored.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../domain/AgentError.ts"
import type { RunResult } from "../domain/RunEvent.ts"
import type { ToolContext } from "../tool/ToolContext.ts"
import { result, type RunState } from "./RunState.ts"
import * as Step from "./Step.ts"

const summaryRequest = Prompt.userMessage({
  content: [
    Prompt.textPart({
      text: "The number of model calls for this request is used up, and no more tools can be called. " +
        "Say what was done, what was found, and what is left to do."
    })
  ]
})

/** How often in a row an answer that was paused is asked to go on (`hermes-llm.md` §15.3). */
const maxPauses = 3

/** The text of a run that ran out of iterations, when there is no summary either. */
const noSummary = (run: RunState, why: string): string =>
  `Stopped after ${run.maxIterations} model calls without a final answer${why}. ` +
  "Raise agent.max_turns (--max-turns) or continue the session."

const summarise = Effect.fnUntraced(function*<E>(
  services: Step.Services<E>,
  run: RunState
): Effect.fn.Return<RunResult, SessionStoreError | E> {
  const text = yield* Step.ask(services, run, {
    messages: [...run.messages, summaryRequest],
    tools: [],
    toolChoice: "none"
  }).pipe(
    Effect.flatMap(({ response }) => Step.showText(run, response.parts)),
    Effect.catch((error): Effect.Effect<AiError.AiError, Exclude<SessionStoreError | E, AiError.AiError>> =>
      AiError.isAiError(error) ? Effect.succeed(error) : Effect.fail(error as Exclude<typeof error, AiError.AiError>)
    )
  )
  if (typeof text !== "string") {
    return result(run, "max_iterations_reached", noSummary(run, `, and the summary failed (${text.reason.message})`))
  }
  if (text.trim() === "") return result(run, "max_iterations_reached", noSummary(run, ""))
  yield* Step.append(services, run, Prompt.assistantMessage({ content: [Prompt.textPart({ text })] }))
  run.textStored = true
  return result(run, "max_iterations_reached", text)
})

/** See the module. */
export const loop = Effect.fnUntraced(function*<E>(
  services: Step.Services<E>,
  run: RunState
): Effect.fn.Return<RunResult, AiError.AiError | SessionStoreError | E, ToolContext> {
  let said = ""
  let pauses = 0
  while (run.steps < run.maxIterations) {
    run.steps++
    const outcome = yield* Step.step(services, run)
    switch (outcome._tag) {
      case "Continue":
        said = ""
        pauses = 0
        break
      case "Paused":
        said += outcome.text
        if (++pauses > maxPauses) return result(run, "output_truncated", said)
        break
      case "Finished":
        return result(run, "text_response", said + outcome.text)
      case "Truncated":
        return result(run, "output_truncated", said + outcome.text)
      case "Filtered":
        return result(run, "content_filtered", said + outcome.text)
      case "Empty":
        return result(run, "empty_response_exhausted", said)
    }
  }
  return yield* summarise(services, run)
})
