/**
 * The state of one run, owned by the run's fiber: only the loop and its steps see and change it. Data that must outlive
 * the run is written to the session store as it arises.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Cost from "../base/domain/Cost.ts"
import type { ApiRequestId, SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"
import type { ReasoningEffort } from "../base/domain/ModelCall.ts"
import type { Origin } from "../base/domain/RecordEvent.ts"
import type { Route, RouteInfo } from "../base/domain/Route.ts"
import type { Exit, Limit, RunEvent, RunResult, UsageReported } from "../base/domain/RunEvent.ts"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import type { RouteIdentity } from "../models/routing/CataloguePort.ts"
import type * as WindowProbing from "../models/routing/WindowProbing.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import type { LoopGuard } from "../tools/calls/LoopGuard.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import type * as Budget from "./Budget.ts"
import type { RunOptions } from "./RunInput.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Parent session, turn and budget of a child run. */
export interface Lineage {
  readonly parentSessionId: SessionId
  /** Sessions of the runs above, the parent's first. Use by the child is included in their sums. */
  readonly above: ReadonlyArray<SessionId>
  readonly parentTurnId: TurnId
  /** Empty when the parent is no child itself. */
  readonly parentSubagentId: string
  /** Also the child's task id. */
  readonly subagentId: string
  /** The tool call that requested it; absent if no call did. */
  readonly callId: string | undefined
  readonly goal: string
  /** Name of the sub-agent that it is, or that it works for; absent for a child like its parent. */
  readonly agent: string | undefined
  /** 1 for a child of a top-level run. */
  readonly depth: number
  /** The parent's, which what the child uses counts for. */
  readonly budget: Budget.Budget
}

/** Mutable state of one run. */
export interface RunState {
  readonly sessionId: SessionId
  /** The first session that this one continues across compactions, or its own id if it continues none. */
  readonly conversationId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform: string
  /** Of a child run. */
  readonly lineage: Lineage | undefined
  /** The route that the run was asked to take. */
  readonly routeWanted: Route | undefined
  readonly reasoningEffort: ReasoningEffort | undefined
  readonly streaming: boolean
  /** True if text is read while it streams. If false, no part of an answer is shown until it is complete. */
  readonly readsText: boolean
  readonly tools: Selection
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  readonly onUsageAfter: RunOptions["onUsageAfter"]
  readonly recorder: Recorder | undefined
  /** System message first, then the conversation; grows, and its messages never change. */
  readonly messages: Array<Prompt.Message>
  /** Sent messages that the session does not have, with the stored message that each one replaces. */
  readonly unstored: Map<Prompt.Message, Prompt.Message | undefined>
  /** Use of the run so far, including its children, and its limits. */
  readonly budget: Budget.Budget
  readonly guard: LoopGuard
  /** Question of the user, as it came: text or parts. */
  readonly userMessage: unknown
  /** The calls that are being run. */
  batch: Batch
  /** Calls of the last stored answer that are run before the model is asked. */
  readonly unfinished: ReadonlyArray<Prompt.ToolCallPart>
  /** Model calls with tools so far. */
  steps: number
  /** The step that used a tool last, by the tool's name. */
  readonly lastUse: Map<string, number>
  /** The step in which the text of the result begins. */
  answerStep: number
  /** Questions to the model so far: the steps, and each request for a summary. Their attempts are named after it. */
  questions: number
  /** Attempt that answered the newest question, or that it was cut in, from 0. */
  attempt: number
  /** The route that answered last; before that, the one that will be asked. */
  route: RouteInfo
  /** True when the conversation is no longer the one that the session has: the session goes on in another one. */
  isCompacted: boolean
  /** Number of times it was made smaller because it did not fit. */
  compactions: WindowProbing.CompactionTurn | undefined
  /**
   * Tokens of the newest prompt, as its provider counted them; undefined before the first answer and after a
   * compaction.
   */
  promptTokens: number | undefined
  /** Seed of its model calls. */
  readonly seed: number | undefined
  /** Output limit of the next model call, if it differs from the agent's limit. */
  outputTokens: number | undefined
  /**
   * Output limit in tokens of the newest model call without a raised limit: the limit in its prepared request, or the
   * use of the answer if that was larger.
   */
  outputBase: number | undefined
  /** Text of the answer that is streaming in, or of the last one. */
  text: string
  /** True when `text` is in `messages` already. */
  textStored: boolean
  /** Times in a row that middleware went on after an answer that asked for nothing. */
  forced: number
  /** True if a stop was requested: running work may end, and nothing new starts. */
  isStopping: boolean
  /** True when it ended: its listeners were told, and hear no more. */
  isOver: boolean
}

/** Calls of the newest assistant message, and the results that are stored already, by call id. */
interface Batch {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly results: Map<string, Prompt.ToolMessage>
  /** Calls that started, by id; only of tools that can change something. */
  readonly begun: Set<string>
  /** Work that calls had done until they were cut, by call id: their result, instead of the one that says nothing. */
  readonly salvaged: Map<string, string>
}

/** Calls of an answer, of which none has begun. */
export const makeBatch = (calls: Batch["calls"]): Batch => ({
  calls,
  results: new Map(),
  begun: new Set(),
  salvaged: new Map()
})

/** No calls are being run. */
export const noBatch: Batch = makeBatch([])

/** The id of the attempt that answered the newest question, or that it was cut in. */
export const getApiRequestId = ({ attempt, questions, turnId }: RunState): ApiRequestId =>
  makeApiRequestId(turnId, questions, attempt)

/** Names the run to the router. */
export const toRouterTurn = ({ sessionId, turnId }: RunState) => ({ session: sessionId, turn: turnId })

/** The route that a run asks now: the one that was named, or where its turn is in the chain. */
export const getCurrentRoute = (
  run: RunState,
  named: Route | undefined
): Effect.Effect<RouteIdentity, never, Services> =>
  named !== undefined
    ? Effect.succeed(named)
    : Effect.flatMap(Services, ({ router }) => router.current?.(toRouterTurn(run)) ?? router.primary)

/** Tells the listener, if there is one; waits, changes of the route and notices are part of the record. */
export const emit = (run: RunState, ...events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
  if (run.recorder !== undefined) {
    for (const event of events) {
      if (event._tag === "Waiting" || event._tag === "RouteChanged" || event._tag === "Notice")
        run.recorder.write(event)
    }
  }
  return run.emit === undefined ? Effect.void : run.emit(events)
}

/** Tells what work in the background spends for a run, also when it is over. */
export const reportUsage = (run: RunState, events: ReadonlyArray<UsageReported>): Effect.Effect<void> =>
  run.isOver ? (run.onUsageAfter?.(events) ?? Effect.void) : emit(run, ...events)

/** Records that the conversation of a run is not `before` any more. */
export const recordRewrite = (
  { messages, recorder }: RunState,
  reason: string,
  before: ReadonlyArray<Prompt.Message>
): void => {
  if (recorder === undefined) return
  const removed = ContextCopy.listLeftOut(before, messages, recorder.stored)
  recorder.write({
    _tag: "ContextRewritten",
    reason,
    before: before.length,
    after: messages.length,
    ...(removed.length === 0 ? {} : { removed })
  })
}

/** Notifies readers of streamed text that `text` replaces all text shown since a step began. */
export const replaceText = (run: RunState, stepId: number, text: string): Effect.Effect<void> =>
  run.readsText ? emit(run, { _tag: "TextReplaced", stepId, text }) : Effect.void

const classifyOrigin = ({ role }: Prompt.Message): Origin =>
  role === "assistant" ? "model" : role === "tool" ? "tool" : "runtime"

/**
 * Appends messages of one writer to the session and the record, to both or to neither. `told` writes the events that
 * follow from it to the record.
 */
export const storeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => storeMessagesIn(store, run, messages, told))

/** {@link storeMessages} in the store of the run's agent. */
export const storeMessagesIn = (
  store: AgentServices["store"],
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>,
  told?: () => void
): Effect.Effect<void, SessionStoreError> =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      const { recorder } = run
      const append = store.append(run.sessionId, messages)
      if (recorder === undefined || messages.length === 0) return Effect.asVoid(append)
      const recorded = makeStoredRecorder(run, recorder, messages)
      return Effect.asVoid(
        recorder.storing(append, (position) => {
          recorded(position)
          told?.()
        })
      )
    })
  )

/** {@link storeMessages}, postponed until the next write: stores the answer with the beginning of its calls. */
export const postponeMessages = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> =>
  Services.use(({ store }) => {
    const { recorder } = run
    return recorder === undefined || messages.length === 0
      ? storeMessagesIn(store, run, messages)
      : recorder.postponed(store.append(run.sessionId, messages), makeStoredRecorder(run, recorder, messages))
  })

/** Writes messages that were stored to the record. */
const makeStoredRecorder = (
  run: RunState,
  recorder: Recorder,
  messages: ReadonlyArray<Prompt.Message>
): ((position: number) => void) => {
  const [first] = messages
  const by = first === undefined ? "runtime" : classifyOrigin(first)
  const request = by === "model" && run.questions > 0 ? getApiRequestId(run) : undefined
  return (position) => recorder.appended(by, position, messages, request)
}

/** The result of a run that ends now. */
export const makeResult = (run: RunState, exit: Exit, text: string, limit?: Limit): RunResult => ({
  _tag: "RunFinished",
  sessionId: run.sessionId,
  turnId: run.turnId,
  exit,
  ...(limit === undefined ? {} : { limit }),
  text,
  steps: run.steps,
  provider: run.route.provider,
  model: run.route.model,
  usage: run.budget.usage,
  cost: Cost.toSpent(run.budget.cost)
})
