/**
 * Runs steps until an outcome ends the run, within its {@link Budget}.
 *
 * **Details**
 *
 * A run that exhausted a limit without a final text ends with a summary (`Summary`). The time limit also cuts a running
 * step: its open calls are cancelled, and the summary is requested from the results so far. After four fifths of the
 * time the model is notified once, with a message that is sent and never stored. No other limit is announced, because
 * models give up early (`hermes-llm.md` §18.2).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { CompressionExhausted, InvalidOutput, SessionStoreError } from "../base/domain/AgentError.ts"
import type { RouteInfo } from "../base/domain/Route.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import type { ToolContext } from "../tools/ToolContext.ts"
import type { Outcome, SuspendedOutcome } from "./AnswerOutcome.ts"
import * as AnswerRetryPolicy from "./AnswerRetryPolicy.ts"
import * as Budget from "./Budget.ts"
import * as ContextFit from "./ContextFit.ts"
import * as RunEnd from "./RunEnd.ts"
import * as Step from "./Step.ts"
import * as StepCalls from "./StepCalls.ts"
import { addMessages, addUnstored } from "./RunConversation.ts"
import { emit, makeResult, type RunState } from "./RunState.ts"
import { beginStep, defaultOutputTokens, noteToolUse, setOutputLimit } from "./RunUsage.ts"
import { type MiddlewareFailure, Services } from "./Services.ts"
import * as Summary from "./Summary.ts"

/** Maximum output tokens of an answer that is requested again after it was cut (`hermes-llm.md` §15.2). */
const outputCap = 32_768

/** Returns a larger output limit than the request of the cut answer had, up to the cap. */
const computeLargerOutput = (run: RunState, factor: number): number => {
  const base = run.tokens.outputBase ?? defaultOutputTokens
  return Math.max(base, Math.min(base * factor, outputCap))
}

/** Number of newest messages that are checked for a tool result after an empty answer. */
const recent = 5

const isAfterTools = (run: RunState): boolean =>
  run.conversation.messages.slice(-recent).some(({ role }) => role === "tool")

const collectAnswerFacts = (run: RunState, outcome: Outcome): AnswerRetryPolicy.AnswerContext => {
  const afterTools = isAfterTools(run)
  return {
    afterTools,
    answer:
      // An answer in JSON announces nothing, whatever its texts say.
      outcome._tag !== "Finished" || run.output?.hasJson(outcome.text) === true
        ? "answer"
        : AnswerRetryPolicy.classifyAnswer({
            text: outcome.text,
            route: run.questions.route,
            asked: typeof run.userMessage === "string" ? run.userMessage : "",
            afterTools,
            anyResults: run.conversation.messages.some(({ role }) => role === "tool")
          })
  }
}

/** Switches to another route because the answers of this one are empty. Returns false if no route is left. */
const leaveRoute = Effect.fnUntraced(function* (run: RunState): Effect.fn.Return<boolean, never, Services> {
  const { router } = yield* Services
  const next = yield* router.advance({ session: run.sessionId, turn: run.turnId }, "empty_answers")
  if (next === undefined) return false
  const describeRoute = ({ model, provider }: RouteInfo) => ({ provider, model })
  yield* emit(run, {
    _tag: "RouteChanged",
    from: describeRoute(run.questions.route),
    to: describeRoute(next),
    reason: "empty_answers"
  })
  return true
})

/** Tests whether the fallback policy leaves a route after the first empty answer. */
const leavesAtOnce = Effect.map(Services, ({ router }) => router.emptyAnswers === "leave at once")

/** Notifies the model, once, that the time limit is near. */
const announceTime = (run: RunState, now: number): Effect.Effect<void> => {
  const seconds = Budget.takeWrapUpSeconds(run.budget, now)
  if (seconds === undefined) return Effect.void
  const notice = Prompt.userMessage({
    content: [
      Prompt.textPart({
        text:
          `About ${seconds} seconds are left for this request. Finish up: complete or undo what is half done, ` +
          "and give your answer."
      })
    ]
  })
  addUnstored(run, notice)
  return emit(run, {
    _tag: "Notice",
    level: "info",
    message: `About ${seconds} seconds of the run are left; the model has been told to finish`
  })
}

/** Runs a step. Returns `undefined` if the time limit cut it. */
const runStepInTime = (
  run: RunState,
  now: number
): Effect.Effect<
  Outcome | undefined,
  AiError.AiError | CompressionExhausted | SessionStoreError | MiddlewareFailure,
  Services | ToolContext
> => {
  const left = Budget.computeMillisLeft(run.budget, now)
  return left === undefined
    ? Step.runStep(run)
    : Effect.map(Effect.timeoutOption(Step.runStep(run), left), Option.getOrUndefined)
}

/** Returns true for a step whose only tool was `execute_code`: it is not counted (`hermes-llm.md` §13.8). */
const isRefunded = (outcome: Outcome): boolean =>
  outcome._tag === "Continue" && outcome.tools.length > 0 && outcome.tools.every((name) => name === "execute_code")

/** Returns true if the run can end with this text, or false if the model was asked for a corrected answer. */
const acceptAnswer = (
  run: RunState,
  { exit, text }: Pick<RunResult, "exit" | "text">,
  corrections: number
): Effect.Effect<boolean, InvalidOutput | SessionStoreError, Services> =>
  run.output !== undefined && exit === "text_response"
    ? run.output.reviewAnswer(run, text, corrections)
    : Effect.succeed(true)

const makeSuspendedResult = (run: RunState, { questions, text }: SuspendedOutcome): RunResult =>
  makeResult(run, "suspended", text, { questions })

/** Returns the result of a run that the open calls of its session end. */
const endAfterOpenCalls = (run: RunState, outcome: Outcome | undefined): RunResult | undefined => {
  switch (outcome?._tag) {
    case "Halted":
      return makeResult(run, "guardrail_halt", outcome.message)
    case "Suspended":
      return makeSuspendedResult(run, outcome)
    case "Ended":
      return makeResult(run, outcome.exit, outcome.text, { endedBy: outcome.by })
    default:
      return undefined
  }
}

/** Runs steps until an outcome ends the run. */
export const runLoop = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<
  RunResult,
  AiError.AiError | CompressionExhausted | InvalidOutput | SessionStoreError | MiddlewareFailure,
  Services | ToolContext
> {
  let state = AnswerRetryPolicy.initial
  let corrections = 0
  const halted = yield* StepCalls.finishCalls(run)
  const ended = endAfterOpenCalls(run, halted)
  if (ended !== undefined) return ended
  yield* ContextFit.compactBeforeCalls(run)
  while (true) {
    const now = yield* Clock.currentTimeMillis
    const limit = Budget.findExhaustedLimit(run.budget, now)
    if (limit !== undefined) return yield* Summary.summarise(run, limit)
    yield* announceTime(run, now)
    beginStep(run, state.said)
    const outcome = yield* runStepInTime(run, now)
    if (outcome === undefined) {
      yield* RunEnd.cutStep(run)
      continue
    }
    if (outcome._tag === "Suspended") return makeSuspendedResult(run, outcome)
    if (isRefunded(outcome)) Budget.refundIteration(run.budget)
    if (outcome._tag === "Continue") {
      noteToolUse(run, outcome.tools)
      yield* ContextFit.compactAfterTools(run)
    }
    if (outcome._tag === "Empty" && (yield* leavesAtOnce) && (yield* leaveRoute(run))) {
      state = AnswerRetryPolicy.initial
      continue
    }
    const decision = AnswerRetryPolicy.decide(state, outcome, collectAnswerFacts(run, outcome))
    const { action } = decision
    if (action._tag === "End") {
      const moved = action.exit === "empty_response_exhausted" ? yield* leaveRoute(run) : false
      const isLast = !moved && (run.output === undefined || (yield* acceptAnswer(run, action, corrections)))
      if (isLast) return makeResult(run, action.exit, action.text, { endedBy: action.by })
      if (!moved) corrections += 1
      state = AnswerRetryPolicy.initial
      continue
    }
    state = decision.state
    addMessages(run, action.add)
    setOutputLimit(run, action.outputFactor === 1 ? undefined : computeLargerOutput(run, action.outputFactor))
    if (action.notice !== undefined) yield* emit(run, { _tag: "Notice", level: "info", message: action.notice })
  }
})
