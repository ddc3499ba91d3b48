/**
 * Produces the final text of a run that exhausted a limit, with one call without tools that asks for a summary. The
 * call is repeated once if the answer is blank. The call is not counted as a step, and its request is sent and never
 * stored. If no summary is received, a fixed text explains why the run ended and suggests a remedy.
 *
 * Source: `hermes-llm.md` §18.3, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import { CompressionExhausted, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { Limit, RunResult } from "../base/domain/RunEvent.ts"
import * as ModelRequest from "./ModelRequest.ts"
import * as Budget from "./Budget.ts"
import { appendMessages, makeAnswer, noteAnswerStored } from "./RunConversation.ts"
import { makeResult, type RunState } from "./RunState.ts"
import { beginAnswer, setOutputLimit } from "./RunUsage.ts"
import type { MiddlewareFailure, Services } from "./Services.ts"

/** Maximum number of attempts, including the first. */
const tries = 2

/** Maximum time for the summary after the time limit of a run, in milliseconds. */
const afterTime = 30_000

const buildRequest = ({ output }: RunState, limit: Limit): Prompt.Message =>
  Prompt.userMessage({
    content: [
      Prompt.textPart({
        text:
          `${capitalize(Budget.getWording(limit).what)} for this request is used up, and no more tools can be called. ` +
          (output === undefined
            ? "Say what was done, what was found, and what is left to do."
            : "Give the answer in its required form now, from what is known.")
      })
    ]
  })

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const formatCallCount = (count: number): string => (count === 1 ? "1 model call" : `${count} model calls`)

/** Renders the text that is used if no summary was received. */
const renderFallback = (run: RunState, limit: Limit, why: string): string => {
  const { remedy, what } = Budget.getWording(limit)
  return (
    `Stopped after ${formatCallCount(run.steps.count)} without a final answer: ` +
    `${what} for the request is used up${why}. ${capitalize(remedy)}, or continue the session.`
  )
}

/** Failure to receive a summary. It does not end the run. */
type SummaryFailure = { readonly _tag: "Failed"; readonly why: string }

/** A summary, with a mark if its rest could not be received. */
interface SummaryAnswer {
  readonly _tag: "Summarized"
  readonly text: string
  readonly options: Prompt.ProviderOptions
}

const makeFailure = (why: string): SummaryFailure => ({ _tag: "Failed", why })

const requestSummary = (
  run: RunState,
  limit: Limit
): Effect.Effect<SummaryAnswer | SummaryFailure, SessionStoreError | MiddlewareFailure, Services> => {
  const asked = ModelRequest.requestAnswer(run, { last: buildRequest(run, limit), tools: [], toolChoice: "none" }).pipe(
    Effect.flatMap(({ brokenOff, response }) =>
      Effect.map(ModelRequest.showText(run, response.parts), (text): SummaryAnswer | SummaryFailure => ({
        _tag: "Summarized",
        text,
        options: brokenOff === undefined ? {} : Conversation.brokenOff
      }))
    ),
    Effect.catch((error): Effect.Effect<SummaryFailure, SessionStoreError | MiddlewareFailure> =>
      AiError.isAiError(error)
        ? Effect.succeed(makeFailure(`, and the summary failed (${error.reason.message})`))
        : error instanceof CompressionExhausted
          ? Effect.succeed(makeFailure(`, and the summary failed (${error.message})`))
          : Effect.fail(error)
    )
  )
  return limit === "time"
    ? Effect.map(
        Effect.timeoutOption(asked, afterTime),
        Option.getOrElse(() => makeFailure(", and the summary took too long"))
      )
    : asked
}

/** Requests the summary of a run that exhausted a limit. Returns a fixed text if no summary is received. */
export const summarise = Effect.fnUntraced(function* (
  run: RunState,
  limit: Limit
): Effect.fn.Return<RunResult, SessionStoreError | MiddlewareFailure, Services> {
  const exit = limit === "iterations" ? "max_iterations_reached" : "budget_exhausted"
  setOutputLimit(run, undefined)
  beginAnswer(run)
  for (let tried = 0; tried < tries; tried++) {
    const said = yield* requestSummary(run, limit)
    if (said._tag === "Failed") return makeResult(run, exit, renderFallback(run, limit, said.why), { limit })
    const { options, text } = said
    if (text.trim() === "") continue
    yield* appendMessages(run, makeAnswer(run, [Prompt.textPart({ text })], options))
    noteAnswerStored(run, true)
    return makeResult(run, exit, text, { limit })
  }
  return makeResult(run, exit, renderFallback(run, limit, ""), { limit })
})
