/**
 * The state of one run, owned by the run's fiber: only the loop and its steps see and change it. Data that must outlive
 * the run is written to the session store as it arises.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Prompt from "effect/ai/Prompt"
import * as Cost from "../base/domain/Cost.ts"
import * as RunDetails from "../base/domain/RunDetails.ts"
import type { ApiRequestId, SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"
import type { PromptCache, ReasoningEffort } from "../base/domain/ModelCall.ts"
import type { Route } from "../base/domain/Route.ts"
import type { Exit, Limit, RunEvent, RunResult, UsageReported } from "../base/domain/RunEvent.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import type { CallIds } from "../middleware/Kind.ts"
import type { RouteIdentity } from "../models/routing/CataloguePort.ts"
import type { LoopGuard } from "../tools/calls/LoopGuard.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import type { RunAnswer } from "./AnswerValue.ts"
import type * as Budget from "./Budget.ts"
import type { ChildAsking } from "./ChildQuestions.ts"
import type { RunBook } from "./RunSuspension.ts"
import type { RunOptions } from "./RunInput.ts"
import type { RunConversation } from "./RunConversation.ts"
import type { RunQuestions, RunSteps, RunTokens } from "./RunUsage.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Parent session, turn and budget of a child run. */
export interface Lineage {
  readonly parentSessionId: SessionId
  /** Sessions of the runs above, the parent's first. The child's usage is included in their totals. */
  readonly above: ReadonlyArray<SessionId>
  readonly parentTurnId: TurnId
  /** Id of the parent as a child, empty if the parent is not a child itself. */
  readonly parentSubagentId: string
  /** Id of the child, which is also its task id. */
  readonly subagentId: string
  /** Id of the tool call that requested the child, if any. */
  readonly callId: string | undefined
  readonly goal: string
  /** Name of the sub-agent that the child is or works for. Absent for a child like its parent. */
  readonly agent: string | undefined
  /** Delegation depth: 1 for a child of a top-level run. */
  readonly depth: number
  /** Id that the children of a conversation with the same tools and settings share, for the provider's prompt cache. */
  readonly kind: string
  /** Budget of the parent, to which the child's usage is charged. */
  readonly budget: Budget.Budget
  /** Questions of the child. Absent for a child whose run cannot be suspended. */
  readonly asking?: ChildAsking | undefined
}

/** Data of one run that never changes. */
export interface RunFacts {
  readonly sessionId: SessionId
  /**
   * Id of the first session in this chain of compactions, or the session's own id if it was not continued from another.
   */
  readonly conversationId: SessionId
  /** Prompt cache that the calls of the run ask for; `undefined` if they ask for none. */
  readonly promptCache: PromptCache | undefined
  /** True if the provider still has the requests of the session's last run when this run starts. */
  readonly hasWarmStart: boolean
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform: string
  /** Lineage of a child run, `undefined` for a top-level run. */
  readonly lineage: Lineage | undefined
  /** Route that the caller requested for the run. */
  readonly routeWanted: Route | undefined
  readonly reasoningEffort: ReasoningEffort | undefined
  /** Seed of the run's model calls. */
  readonly seed: number | undefined
  readonly streaming: boolean
  /** True if text is read while it streams. If false, no part of an answer is shown until the answer is complete. */
  readonly readsText: boolean
  readonly tools: Selection
  /** Names of the tools whose successful call ends the run, or `undefined` without stop tools. */
  readonly stopTools: ReadonlySet<string> | undefined
  /** Form of the value in which the run ends, or `undefined` for a run that ends in text. */
  readonly output: RunAnswer | undefined
  readonly hasUnreadMessage: RunOptions["hasUnreadMessage"]
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  readonly onUsageAfter: RunOptions["onUsageAfter"]
  readonly recorder: Recorder | undefined
  /** The user's message as received: text or parts. */
  readonly userMessage: unknown
  /** Questions of the calls of the run. */
  readonly book: RunBook
  /** Open calls of the last stored answer, which are run before the model is asked. */
  readonly unfinished: ReadonlyArray<Prompt.ToolCallPart>
}

/**
 * State of one run: its facts, and a part for each subject. Only the module that defines a part's type changes that
 * part.
 */
export interface RunState extends RunFacts {
  readonly conversation: RunConversation
  readonly steps: Readonly<RunSteps>
  readonly questions: Readonly<RunQuestions>
  readonly tokens: Readonly<RunTokens>
  readonly phase: Readonly<RunPhase>
  /** Usage of the run so far, including its children, and its limits. */
  readonly budget: Budget.Budget
  readonly guard: LoopGuard
}

/** Progress of a run towards its end. */
export interface RunPhase {
  /** True if a stop was requested: running work may end, and nothing new starts. */
  isStopping: boolean
  /** True after the run ended: its listeners were notified and receive no further events. */
  isOver: boolean
  /** Fiber that ends the record of the interrupted run if the run does not. */
  cut: Fiber.Fiber<void> | undefined
}

/** Records the fiber that ends the record of the interrupted run. */
export const noteCut = ({ phase }: RunState, fiber: Fiber.Fiber<void>): void => {
  const changed: RunPhase = phase
  changed.cut = fiber
}

/** Records that the run was asked to stop. */
export const noteStopRequest = ({ phase }: RunState): void => {
  const changed: RunPhase = phase
  changed.isStopping = true
}

/** Records that the run ended. */
export const noteEnd = ({ phase }: RunState): void => {
  const changed: RunPhase = phase
  changed.isOver = true
}

/** Returns the id of the attempt that answered the newest question, or that was interrupted. */
export const getApiRequestId = ({ questions, turnId }: RunState): ApiRequestId =>
  makeApiRequestId(turnId, questions.count, questions.attempt)

/** Returns the ids that identify the calls of the newest answer in hooks and middleware. */
export const toCallIds = (run: RunState): CallIds => ({
  sessionId: run.sessionId,
  taskId: run.taskId,
  turnId: run.turnId,
  apiRequestId: getApiRequestId(run)
})

/** Returns the ids by which the router identifies the run. */
export const toRouterTurn = ({ sessionId, turnId }: RunState) => ({ session: sessionId, turn: turnId })

/** Returns the current route of a run: the requested route, or the position of its turn in the chain. */
export const getCurrentRoute = (
  run: RunState,
  named: Route | undefined
): Effect.Effect<RouteIdentity, never, Services> => Services.use(({ router }) => getCurrentRouteIn(router, run, named))

/** Like {@link getCurrentRoute}, but uses the router of the run's agent. */
export const getCurrentRouteIn = (
  router: AgentServices["router"],
  run: RunState,
  named: Route | undefined
): Effect.Effect<RouteIdentity> =>
  named === undefined ? (router.current?.(toRouterTurn(run)) ?? router.primary) : Effect.succeed(named)

/** Sends events to the listener, if any. Waits, route changes and notices are also recorded. */
export const emit = (run: RunState, ...events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
  const { recorder } = run
  let isWaiting = false
  if (recorder !== undefined) {
    for (const event of events) {
      if (event._tag !== "Waiting" && event._tag !== "RouteChanged" && event._tag !== "Notice") continue
      recorder.write(event)
      isWaiting ||= event._tag === "Waiting"
    }
  }
  const told = run.emit === undefined ? Effect.void : run.emit(events)
  return recorder !== undefined && isWaiting && recorder.isHeard() ? Effect.andThen(recorder.flush, told) : told
}

/** Reports the usage of background work that is charged to a run, also after the end of the run. */
export const reportUsage = (run: RunState, events: ReadonlyArray<UsageReported>): Effect.Effect<void> =>
  run.phase.isOver ? (run.onUsageAfter?.(events) ?? Effect.void) : emit(run, ...events)

/** Notifies readers of streamed text that `text` replaces all text shown since a step began. */
export const replaceText = (run: RunState, stepId: number, text: string): Effect.Effect<void> =>
  run.readsText ? emit(run, { _tag: "TextReplaced", stepId, text }) : Effect.void

/** Cause of the end of a run, besides its exit. */
interface EndCause {
  readonly limit?: Limit | undefined
  /** Time at which the tenant's allowance is free again, in milliseconds since 1970. */
  readonly freeAt?: number | undefined
  /** Name of the stop tool or of the middleware that ended the run. */
  readonly endedBy?: string | undefined
  /** Questions that the run waits for. */
  readonly questions?: RunResult["questions"] | undefined
}

/** Creates the result of a run that ends now. */
export const makeResult = (
  run: RunState,
  exit: Exit,
  text: string,
  { endedBy, freeAt, limit, questions }: EndCause = {}
): RunResult => ({
  _tag: "RunFinished",
  sessionId: run.sessionId,
  turnId: run.turnId,
  exit,
  ...(limit === undefined ? {} : { limit }),
  ...(freeAt === undefined ? {} : { freeAt }),
  ...(endedBy === undefined ? {} : { endedBy }),
  ...(questions === undefined ? {} : { questions }),
  text,
  steps: run.steps.count,
  provider: run.questions.route.provider,
  model: run.questions.route.model,
  usage: run.budget.usage,
  cost: Cost.toSpent(run.budget.cost)
})

/** Adds the details of a run that has ended to its result. The result holds no other part of the run. */
export const addRunDetails = (
  { conversation: { ends, messages, start, unstored }, steps }: RunState,
  result: RunResult
): RunResult & RunDetails.RunDetails =>
  RunDetails.addDetails(result, {
    messages: messages.slice(start),
    ends,
    unstored,
    stepUsage: steps.usage,
    sources: steps.sources
  })
