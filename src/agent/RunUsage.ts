/**
 * The steps of a run, its questions to the model, and the tokens and money that they use. Only this module changes
 * them.
 */
import * as Effect from "effect/Effect"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Cost from "../base/domain/Cost.ts"
import type { AnswerSource, ModelCall, ModelResponse } from "../base/domain/ModelCall.ts"
import type { RouteInfo } from "../base/domain/Route.ts"
import type { StepUsage } from "../base/domain/RunDetails.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { RunSpending } from "../middleware/Kind.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import * as AnswerProgress from "../models/routing/AnswerProgress.ts"
import * as CallTokens from "../models/routing/CallTokens.ts"
import * as Budget from "./Budget.ts"
import { emit, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Model calls with tools, and the tools that they used. */
export interface RunSteps {
  /** Number of steps so far. */
  count: number
  /** Step in which the text of the result begins. */
  answerStart: number
  /** Text of the result from earlier steps, which the newest step continues. */
  answerText: string
  /** Number of consecutive times that middleware continued after an answer without calls. */
  forced: number
  /** Step in which each tool was last used, by tool name. */
  readonly lastUse: Map<string, number>
  /** Usage of each answer. */
  readonly usage: Array<StepUsage>
  /** Sources that the answers cite. */
  readonly sources: Array<AnswerSource>
}

/** Questions to the model: one for each step, and one for each request for a summary. */
export interface RunQuestions {
  /** Number of questions so far. It is part of the ids of their attempts. */
  count: number
  /** Index, from 0, of the attempt that answered the newest question or was interrupted. */
  attempt: number
  /** Route that answered last, or before the first answer the route that will be asked. */
  route: RouteInfo
  /** Shown part of the answer to the newest question. */
  answer: AnswerProgress.AnswerProgress
}

/** Sizes of prompts and answers in tokens. */
export interface RunTokens {
  /**
   * Size of the newest prompt as counted by its provider. `undefined` before the first answer, after a compaction, and
   * if the provider does not count prompts.
   */
  prompt: number | undefined
  /** Estimated size of the conversation in the newest answered request; 0 if it was small. */
  estimated: number
  /** Number of files in the newest answered request, which the estimate does not include. */
  files: number
  /** Estimated size of the tools in the newest answered request. */
  tools: number
  /** Tokens of the provider per estimated token; 1 until the provider has counted two prompts. */
  ratio: number
  /** Output limit of the next model call, if it differs from the agent's limit. */
  outputLimit: number | undefined
  /**
   * Output limit of the newest model call without a raised limit: the limit in its prepared request, or the number of
   * tokens in the answer if it was larger.
   */
  outputBase: number | undefined
}

/** Creates the step counts of a run before its first step. */
export const makeSteps = (): RunSteps => ({
  count: 0,
  answerStart: 0,
  answerText: "",
  forced: 0,
  lastUse: new Map(),
  usage: [],
  sources: []
})

/** Creates the question state of a run that asks this route first. */
export const makeQuestions = (route: RouteInfo): RunQuestions => ({
  count: 0,
  attempt: 0,
  route,
  answer: AnswerProgress.beginAnswer("")
})

/** Creates the token sizes of a run before its first question. */
export const makeTokens = (): RunTokens => ({
  prompt: undefined,
  estimated: 0,
  files: 0,
  tools: 0,
  ratio: 1,
  outputLimit: undefined,
  outputBase: undefined
})

/** Begins a step. `answerText` is the text of the result from earlier steps, empty if the result begins here. */
export const beginStep = ({ budget, steps }: RunState, answerText: string): void => {
  const changed: RunSteps = steps
  changed.count++
  changed.answerText = answerText
  if (answerText === "") changed.answerStart = changed.count
  Budget.takeIteration(budget)
}

/** Begins the answer anew, as a text that no earlier step began. */
export const beginAnswer = ({ steps }: RunState): void => {
  const changed: RunSteps = steps
  changed.answerText = ""
}

/** Records the tools that the newest step used. */
export const noteToolUse = ({ steps: { count, lastUse } }: RunState, tools: ReadonlyArray<string>): void => {
  for (const name of tools) lastUse.set(name, count)
}

/**
 * Counts a step that middleware forces after a final answer. Returns false if middleware has already forced `most`
 * consecutive steps.
 */
export const takeForcedStep = ({ steps }: RunState, most: number): boolean => {
  if (steps.forced >= most) return false
  const changed: RunSteps = steps
  changed.forced++
  return true
}

/** Resets the count of forced steps after an answer that calls tools. */
export const forgetForcedSteps = ({ steps }: RunState): void => {
  const changed: RunSteps = steps
  changed.forced = 0
}

/** Begins a question to the model. The text of the previous answer stays until the question is sent. */
export const beginQuestion = ({ questions }: RunState): void => {
  const changed: RunQuestions = questions
  changed.count++
  changed.attempt = 0
  changed.answer = AnswerProgress.beginAnswer(questions.answer.text)
}

/** Records the current attempt of the newest question, from 0. */
export const noteAttempt = ({ questions }: RunState, attempt: number): void => {
  const changed: RunQuestions = questions
  changed.attempt = Math.max(0, attempt)
}

/** Records the route that answered the newest question. */
export const noteAnsweringRoute = (
  { questions }: RunState,
  { attempt, route }: Pick<ModelAnswer, "attempt" | "route">
): void => {
  const changed: RunQuestions = questions
  changed.route = route
  changed.attempt = attempt
}

/** Sets the output limit of the next model calls. `undefined` selects the agent's limit. */
export const setOutputLimit = ({ tokens }: RunState, limit: number | undefined): void => {
  const changed: RunTokens = tokens
  changed.outputLimit = limit
}

/** Records that the size of the next prompt is unknown. */
export const forgetPromptSize = ({ tokens }: RunState): void => {
  const changed: RunTokens = tokens
  changed.prompt = undefined
  changed.estimated = 0
}

/** Tests whether the newest answered request is the beginning of the next one. Its provider may not count prompts. */
export const isPromptKnown = ({ tokens }: RunState): boolean => tokens.prompt !== undefined || tokens.estimated > 0

/** Counted prompts below this size, in tokens, fit into every window, so they are not measured. */
const smallPrompt = 4_000

/** Least estimated tokens from which the ratio of the provider's count to the estimate is computed. */
const leastMeasured = 500

/** Measures the newest answered prompt, so that the next one can be estimated. */
const measurePrompt = ({ conversation, tokens }: RunState, counted: number, definitions: ModelCall["tools"]): void => {
  const changed: RunTokens = tokens
  if (counted > 0 && counted < smallPrompt) {
    changed.prompt = counted
    changed.estimated = 0
    changed.files = 0
    return
  }
  const files = CallTokens.countFiles(conversation)
  const estimated = CallTokens.estimateTokens(conversation)
  const tools = CallTokens.estimateTools(definitions)
  const before = tokens.prompt === undefined ? { counted: tools, estimated: 0 } : { ...tokens, counted: tokens.prompt }
  const added = estimated - before.estimated
  if (counted > before.counted && added >= leastMeasured && files === tokens.files)
    changed.ratio = CallTokens.toPlausibleRatio((counted - before.counted) / added)
  changed.prompt = counted > 0 ? counted : undefined
  changed.estimated = estimated
  changed.files = files
  changed.tools = tools
}

/**
 * Estimates the size of the next prompt: the provider's count of the newest one and the messages added since then,
 * otherwise the conversation and the tools.
 */
export const estimateNextPrompt = ({ conversation, tokens }: RunState): number => {
  const { estimated, prompt, ratio, tools } = tokens
  const now = CallTokens.estimateTokens(conversation)
  return Math.ceil(prompt === undefined ? tools + now * ratio : prompt + Math.max(0, now - estimated) * ratio)
}

/** Assumed number of output tokens if no limit is stated (`hermes-llm.md` §15.2). */
export const defaultOutputTokens = 4_096

/**
 * Records the output limit from which a raised limit is computed: the requested limit, or `undefined` if no limit was
 * set and the answer was short.
 */
export const noteOutputBase = (
  { tokens }: RunState,
  asked: number | undefined,
  { usage }: Pick<ModelResponse, "usage">
): void => {
  if (tokens.outputLimit !== undefined) return
  const { outputTokens } = Usage.fromResponse(usage)
  const changed: RunTokens = tokens
  // Without a requested limit, the endpoint applies a default limit, which is at least the number of tokens that it
  // returned.
  changed.outputBase = asked ?? (outputTokens > defaultOutputTokens ? outputTokens : undefined)
}

const noPrice = Cost.makeUnknown("the provider has no prices")

const makeUnpricedNotice = (model: string): RunEvent => ({
  _tag: "Notice",
  level: "warning",
  message: `The price of ${model} is unknown: its calls do not count towards the money limit of this run`
})

/** Usage and cost of the run itself or of the named side task. */
interface Payment {
  readonly route: RouteInfo
  readonly usage: Usage.Usage
  readonly cost: Cost.Cost
  readonly task?: string
}

/**
 * Adds the usage to the run's budget, session and events, and to the sessions of its ancestor runs, without being
 * interrupted. The totals are stored in one transaction with the record of the call and the answer.
 */
export const recordPayment = (
  run: RunState,
  { cost, route: { model, provider }, task, usage }: Payment
): Effect.Effect<void, SessionStoreError, Services> => {
  Budget.charge(run.budget, usage, cost)
  const paid = { provider, model, usage, cost: Cost.toSpent(cost) }
  return Effect.uninterruptible(
    Services.use(({ store }) => {
      const { lineage, recorder } = run
      const own = store.recordUsage(run.sessionId, paid)
      const stored =
        lineage === undefined
          ? own
          : Effect.andThen(
              own,
              Effect.forEach(
                lineage.above,
                (id) =>
                  store.recordUsage(id, { ...paid, cost: { ...paid.cost, source: "subagent" } }).pipe(
                    // The session may have been removed while its child was running.
                    Effect.catch((error) =>
                      Effect.logWarning(
                        `what a child agent used is missing in the sums of session ${id}: ${error.message}`
                      )
                    )
                  ),
                { discard: true }
              )
            )
      const recorded = recorder === undefined ? stored : recorder.deferred(stored)
      const priced = Budget.isUnpriced(run.budget, cost)
        ? Effect.andThen(emit(run, makeUnpricedNotice(model)), recorded)
        : recorded
      return run.emit === undefined
        ? priced
        : Effect.andThen(
            priced,
            emit(run, {
              _tag: "UsageReported",
              step: run.steps.count,
              ...paid,
              ...(task === undefined ? {} : { origin: task })
            })
          )
    })
  )
}

/** Returns the usage and cost of a run so far, for the contexts of middleware. */
export const getSpending = ({ budget }: RunState): RunSpending => ({
  usage: budget.usage,
  cost: Cost.toSpent(budget.cost)
})

/** Records the usage of an answer that was received. `tools` are the tools of its request. */
export const recordAnswer = (
  run: RunState,
  { cost = noPrice, response, route }: ModelAnswer,
  tools: ModelCall["tools"]
): Effect.Effect<void, SessionStoreError, Services> => {
  const usage = Usage.fromResponse(response.usage)
  measurePrompt(run, Usage.countPromptTokens(usage), tools)
  const { model, provider } = route
  const { finishReason } = response
  run.steps.usage.push({ step: run.steps.count, provider, model, usage, cost: Cost.toSpent(cost), finishReason })
  if (response.sources !== undefined) run.steps.sources.push(...response.sources)
  return recordPayment(run, { route, usage, cost })
}
