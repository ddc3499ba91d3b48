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
import * as Ask from "./Ask.ts"
import * as Recovery from "./Recovery.ts"
import { emit, result, type RunState } from "./RunState.ts"
import type { Services } from "./Services.ts"
import * as Step from "./Step.ts"

const summaryRequest = Prompt.userMessage({
  content: [
    Prompt.textPart({
      text: "The number of model calls for this request is used up, and no more tools can be called. " +
        "Say what was done, what was found, and what is left to do."
    })
  ]
})

/** The text of a run that ran out of iterations, when there is no summary either. */
const noSummary = (run: RunState, why: string): string =>
  `Stopped after ${run.maxIterations} model calls without a final answer${why}. ` +
  "Raise agent.max_turns (--max-turns) or continue the session."

const summarise = Effect.fnUntraced(function*<E>(
  services: Services<E>,
  run: RunState
): Effect.fn.Return<RunResult, SessionStoreError | E> {
  const text = yield* Ask.ask(services, run, {
    messages: [...run.messages, summaryRequest],
    tools: [],
    toolChoice: "none"
  }).pipe(
    Effect.flatMap(({ response }) => Ask.showText(run, response.parts)),
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

/** Output limits of answers that are asked for again after they were cut (`hermes-llm.md` §15.2). */
const outputBase = 4_096
const outputCap = 32_768

const largerOutput = <E>({ settings }: Services<E>, factor: number): number => {
  const base = settings.maxOutputTokens ?? outputBase
  return Math.max(base, Math.min(base * factor, outputCap))
}

/** How far back a tool's result still counts as what an empty answer was about. */
const recent = 5

const isAfterTools = (run: RunState): boolean => run.messages.slice(-recent).some(({ role }) => role === "tool")

/** Turns to another route because this one's answers are empty; false when there is none. */
const leaveRoute = <E>({ router }: Services<E>, run: RunState): Effect.Effect<boolean> =>
  Effect.map(
    router.advance({ session: run.sessionId, turn: run.turnId }, "its answers were empty"),
    (next) => next !== undefined
  )

/** See the module. */
export const loop = Effect.fnUntraced(function*<E>(
  services: Services<E>,
  run: RunState
): Effect.fn.Return<RunResult, AiError.AiError | SessionStoreError | E, ToolContext> {
  let state = Recovery.initial
  while (run.steps < run.maxIterations) {
    run.steps++
    const outcome = yield* Step.step(services, run)
    const decision = Recovery.decide(state, outcome, { afterTools: isAfterTools(run) })
    const { action } = decision
    if (action._tag === "End") {
      const moved = action.exit === "empty_response_exhausted" ? yield* leaveRoute(services, run) : false
      if (!moved) return result(run, action.exit, action.text)
      state = Recovery.initial
      continue
    }
    state = decision.state
    run.messages.push(...action.add)
    run.outputTokens = action.outputFactor === 1 ? undefined : largerOutput(services, action.outputFactor)
    if (action.notice !== undefined) yield* emit(run, { _tag: "Notice", level: "info", message: action.notice })
  }
  return yield* summarise(services, run)
})
