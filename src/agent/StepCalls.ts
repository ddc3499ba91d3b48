/**
 * Runs the tool calls of one step: the calls of an answer after changes by middleware, and the open calls of a stored
 * session.
 *
 * Source: `ARCHITECTURE.md` §4 and §7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { EndRequest } from "../middleware/LoopControl.ts"
import type * as Normalise from "../tools/calls/Normalise.ts"
import * as Prepare from "../tools/Prepare.ts"
import * as ResultText from "../tools/ResultText.ts"
import * as ToolCalls from "../tools/ToolCalls.ts"
import type { ToolContext } from "../tools/ToolContext.ts"
import type { Snapshot } from "../tools/ToolRegistry.ts"
import { isBlank, isCall, type Outcome } from "./AnswerOutcome.ts"
import * as Budget from "./Budget.ts"
import {
  addMessages,
  makeAnswer,
  closeBatch,
  noteAnswerStored,
  openBatch,
  postponeMessages,
  postponeMessagesIn,
  removeFrom,
  storeInRegion,
  storeMessages,
  watchBatch
} from "./RunConversation.ts"
import * as RunEnding from "./RunEnding.ts"
import * as RunSuspension from "./RunSuspension.ts"
import type { ReviewedAnswer } from "./RunLifecycle.ts"
import { emit, getCurrentRouteIn, type RunState, toCallIds } from "./RunState.ts"
import { type AgentServices, Services } from "./Services.ts"
import * as StopTools from "./StopTools.ts"

/**
 * Returns the size limits of a step's tool results in characters: the agent's settings, or limits that fit the window
 * of the run's model.
 *
 * Source: `hermes-llm.md` §19.9.
 */
const getResultLimits = ({ router, settings }: AgentServices, run: RunState): Effect.Effect<ResultText.Limits> => {
  const { catalogue } = router
  if (settings.resultLimits !== undefined) return Effect.succeed(settings.resultLimits)
  if (catalogue === undefined) return Effect.succeed(ResultText.defaultLimits)
  const known = Effect.flatMapEager(getCurrentRouteIn(router, run, run.routeWanted), catalogue.known)
  // A window of unknown size does not lower the limits.
  return Effect.map(known, ({ window: { source, tokens } }) =>
    ResultText.computeLimits(source === "default" ? undefined : tokens)
  )
}

/** Notes for the model, by the call to whose result each note is added. */
type Notes = ReadonlyMap<Prompt.ToolCallPart, string>

const noNotes: Notes = new Map()

/** Outcome of a batch, and the ending of the run that one of its calls requested. */
interface CallsOutcome extends ToolCalls.BatchOutcome {
  readonly ending?: RunEnding.RunEnding | undefined
}

/** Collects the requests to end the run by stop tools and `after_tool` methods. */
const makeEndings = ({ hasUnreadMessage, stopTools }: RunState) => {
  const byCall = new Map<string, RunEnding.RunEnding>()
  return {
    succeeded:
      stopTools === undefined
        ? undefined
        : (call: Prompt.ToolCallPart, args: unknown, text: string): void => {
            // Middleware that ends the run after this call takes precedence.
            if (stopTools.has(call.name) && !byCall.has(call.id))
              byCall.set(call.id, StopTools.makeEnding(call.name, args, text))
          },
    endRun: (callId: string, { by, isNew, text }: EndRequest): void =>
      void byCall.set(callId, RunEnding.makeEnding(by, isNew ? text : StopTools.renderResult(text), isNew)),
    /** Returns the ending of the first call in the order of the answer. Calls of a tool come last. */
    choose: (calls: ReadonlyArray<Prompt.ToolCallPart>): RunEnding.RunEnding | undefined => {
      if (byCall.size === 0) return undefined
      const call = calls.find(({ id }) => byCall.has(id))
      const ending = call === undefined ? byCall.values().next().value : byCall.get(call.id)
      return ending?.exit === "stop_tool_triggered" && hasUnreadMessage?.() === true ? undefined : ending
    }
  }
}

/** Description of calls that end without their tool. */
interface UnrunCalls {
  readonly status: "blocked" | "cancelled"
  readonly reason: string
  readonly describe: (callId: string) => string
}

/** Closes calls that do not run, each with an error. */
const closeUnrun = (
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  { describe, reason, status }: UnrunCalls
): Effect.Effect<void, SessionStoreError, Services> =>
  Effect.uninterruptible(
    Effect.gen(function* () {
      for (const call of calls) {
        const output = describe(call.id)
        const message = Conversation.makeToolResult(call, { output, isFailure: true })
        const ended = { callId: call.id, name: call.name, status, durationMillis: 0 }
        yield* storeMessages(run, [message], () =>
          run.recorder?.write({ _tag: "CallEnded", ...ended, ran: false, reason })
        )
        watchBatch(run).noteResult(call.id, message, { status, form: "other", length: 0 })
        yield* emit(run, { _tag: "ToolFinished", ...ended, output })
      }
    })
  )

/**
 * Ends a batch whose calls wait although the run ends after another of its calls, by middleware or a guardrail: the end
 * takes precedence, because it was requested for good and a run that continues does not know of it. The questions are
 * withdrawn. A stop tool leaves its result in the conversation and ends the run after the answers.
 */
const endWaiting = Effect.fnUntraced(function* (
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  outcome: CallsOutcome
): Effect.fn.Return<CallsOutcome, SessionStoreError, Services> {
  const { ending, halted, waiting } = outcome
  const isEnd = ending?.exit === "ended_by_middleware" || (ending === undefined && halted !== undefined)
  if (waiting.length === 0 || !isEnd || run.phase.isStopping) return outcome
  const { begun, results } = run.conversation.batch
  const stopped = new Set(waiting.filter((id) => begun.has(id) || run.book.hasQuestions(id)))
  yield* RunSuspension.withdrawQuestions(run, waiting)
  yield* closeUnrun(
    run,
    calls.filter(({ id }) => waiting.includes(id)),
    {
      status: "cancelled",
      reason: ending === undefined ? "guardrail" : "after_tool",
      describe: (id) => (stopped.has(id) ? Conversation.endedAtQuestionResult : Conversation.endedBeforeResult)
    }
  )
  return { ...outcome, waiting: [], messages: calls.flatMap(({ id }) => results.get(id) ?? []) }
}, Effect.uninterruptible)

/** Parts of an agent that run calls: its services, and the tools of the step. */
interface CallParts {
  readonly services: AgentServices
  readonly tools: Snapshot
}

const runTools = Effect.fnUntraced(function* (
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  notes: Notes,
  { services, tools }: CallParts
): Effect.fn.Return<CallsOutcome, SessionStoreError, Services | ToolContext> {
  const { approvals, interceptors, store } = services
  const { recorder } = run
  const batch = watchBatch(run)
  const { choose, endRun, succeeded } = makeEndings(run)
  // Writes the record first, because observers of a call may take a long time.
  if (recorder !== undefined && !Prepare.isUnobserved(interceptors)) {
    yield* recorder.settled
    yield* recorder.flush
  }
  const storeResult =
    (write: typeof storeInRegion): Parameters<typeof ToolCalls.run<SessionStoreError>>[0]["settled"] =>
    (call, message, told, { end }) =>
      Effect.map(write(RunSuspension.closingQuestions(store, run, call.id), run, [message], told), () =>
        batch.noteResult(call.id, message, end)
      )
  const outcome = yield* ToolCalls.run({
    calls,
    succeeded,
    endRun,
    notes,
    tools,
    interceptors,
    guard: run.guard,
    approvals,
    limits: yield* getResultLimits(services, run),
    messages: run.conversation.messages,
    ids: toCallIds(run),
    emit: run.emit,
    history: (json) => Conversation.hasResultText(run.conversation.messages, json),
    mayStart: () => !run.phase.isStopping,
    stored: recorder === undefined ? undefined : Effect.andThen(recorder.settled, recorder.flush),
    begin: (started, told) => {
      const ids = started.map(({ id }) => id)
      const noted = store.begin(run.sessionId, ids)
      return Effect.map(recorder === undefined ? noted : recorder.storing(noted, told), () => {
        batch.noteBegun(ids)
      })
    },
    settled: storeResult(storeInRegion),
    postponed: recorder === undefined ? undefined : storeResult(postponeMessagesIn),
    quota: () => Budget.takeToolCall(run.budget),
    questions: run.book
  })
  const ending = choose(calls)
  return yield* endWaiting(run, calls, ending === undefined ? outcome : { ...outcome, ending })
})

/** Tools that a model may repeat without progress. A call of any other tool counts as progress. */
const looking: ReadonlySet<string> = new Set(["read_file", "search_files"])

/** Collects the notes of the calls, in the order of the parts of the answer. */
const collectNotes = (
  { notes, parts }: Normalise.NormalisedCalls,
  content: ReadonlyArray<Prompt.AssistantMessagePart>
): Notes =>
  notes.size === 0
    ? noNotes
    : new Map(
        content.flatMap((stored, index) => {
          const part = parts[index]
          const note = part === undefined ? undefined : notes.get(part)
          return note !== undefined && isCall(stored) ? [[stored, note]] : []
        })
      )

/**
 * Returns the calls to run with their notes: without the calls removed by middleware, and with the parameters it
 * changed.
 */
const selectWantedCalls = (
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  notes: Notes,
  { edited, removed }: ReviewedAnswer
): { readonly notes: Notes; readonly wanted: ReadonlyArray<Prompt.ToolCallPart> } => {
  if (removed.size === 0 && edited.size === 0) return { notes, wanted: calls }
  const changed = new Map(notes)
  const wanted = calls.flatMap((call) => {
    if (removed.has(call.id)) return []
    const other = edited.has(call.id) ? Prompt.toolCallPart({ ...call, params: edited.get(call.id) }) : call
    const note = notes.get(call)
    if (note !== undefined) changed.set(other, note)
    return [other]
  })
  return { notes: changed, wanted }
}

/** Stores an answer with calls, together with the start of the first calls if no other write happens in between. */
const storeToolCalls = (
  run: RunState,
  { calls, content, writer }: Pick<AnswerCalls, "calls" | "content" | "writer">
): Effect.Effect<void, SessionStoreError, Services> =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      noteAnswerStored(run, true)
      const message = makeAnswer(run, content)
      addMessages(run, [message])
      // Stored calls are closed even if the run is interrupted at any later point.
      return Effect.map(postponeMessages(run, [message], writer), () => openBatch(run, calls))
    })
  )

const describeRemoval = (by: string): string =>
  `Not executed: the middleware "${by}" removed this call. Do it another way, or answer without it.`

/** Suspends the run, whose calls wait. Until their questions are stored, the calls are closed like any other. */
const suspendCalls = (
  run: RunState,
  waiting: ReadonlyArray<string>,
  text: string
): Effect.Effect<Outcome, SessionStoreError, Services> =>
  Effect.uninterruptible(
    Effect.tap(RunSuspension.suspendRun(run, waiting, text), () => Effect.sync(() => closeBatch(run)))
  )

/** Calls of an answer, and the stored parts of the answer. */
interface AnswerCalls {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly content: ReadonlyArray<Prompt.AssistantMessagePart>
  readonly normalised: Normalise.NormalisedCalls
  /** Text of the answer that the user sees. */
  readonly text: string
  /** Writer of the answer if it is not the model. */
  readonly writer?: "runtime" | undefined
}

/**
 * Returns true if the calls include a tool whose calls always count as progress. The record of file reads is then
 * notified.
 */
const hasOtherTool = (calls: ReadonlyArray<Prompt.ToolCallPart>): boolean =>
  calls.some(({ name }) => !looking.has(name))

/**
 * Stores an answer with calls and runs them. It is a plain generator to which the step delegates, so that it does not
 * add interpreter steps.
 */
export function* runAnswerCalls(
  run: RunState,
  { calls, content, normalised, text, writer }: AnswerCalls,
  reviewed: ReviewedAnswer,
  parts: CallParts
): Effect.fn.Return<Outcome, SessionStoreError, Services | ToolContext> {
  const { by, removed } = reviewed
  yield* storeToolCalls(run, { calls, content, writer })
  if (removed.size > 0)
    yield* closeUnrun(
      run,
      calls.filter(({ id }) => removed.has(id)),
      { status: "blocked", reason: "after_model", describe: () => describeRemoval(by) }
    )
  const { notes, wanted } = selectWantedCalls(calls, collectNotes(normalised, content), reviewed)
  const { ending, invalid, halted, messages, waiting }: CallsOutcome =
    wanted.length === 0
      ? { invalid: false, halted: undefined, messages: [], waiting: [] }
      : yield* runTools(run, wanted, notes, parts)
  // The run is about to be interrupted.
  if (run.phase.isStopping) return yield* Effect.never
  const { results } = run.conversation.batch
  addMessages(run, removed.size === 0 ? messages : calls.flatMap(({ id }) => results.get(id) ?? []))
  if (waiting.length > 0) return yield* suspendCalls(run, waiting, text)
  closeBatch(run)
  if (wanted.length === 0)
    return isBlank(text) ? { _tag: "Finished", text: describeRemoval(by) } : { _tag: "Finished", text }
  const { files } = parts.services
  if (files !== undefined && hasOtherTool(wanted)) yield* files.otherToolRan(run.sessionId)
  if (ending !== undefined) return yield* RunEnding.endRun(run, ending, text)
  if (halted !== undefined) return { _tag: "Halted", message: halted }
  return { _tag: "Continue", text, tools: wanted.map(({ name }) => name), invalid }
}

/** Ends a run that continues after a call that ends it. `ending` is the request of a call that has just run. */
const endAfterStopTool = (
  run: RunState,
  ending: RunEnding.RunEnding | undefined
): Effect.Effect<Outcome | undefined, SessionStoreError, Services> => {
  const { messages } = run.conversation
  const stored = run.stopTools === undefined ? undefined : StopTools.findStoredEnding(run.stopTools, messages)
  // A stop tool does not end a run whose prompt the model has not received.
  const found = ending?.exit === "ended_by_middleware" ? ending : stored
  return found === undefined ? Effect.succeed(undefined) : RunEnding.endRun(run, found, "")
}

/**
 * Runs the calls that the last answer of the stored session left open. If a guardrail, a stop tool or middleware ends
 * the run, the outcome is returned.
 */
export const finishCalls = (
  run: RunState
): Effect.Effect<Outcome | undefined, SessionStoreError, Services | ToolContext> => {
  if (run.unfinished.length > 0) return runUnfinishedCalls(run)
  return run.stopTools === undefined ? Effect.undefined : endAfterStopTool(run, undefined)
}

const runUnfinishedCalls = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<Outcome | undefined, SessionStoreError, Services | ToolContext> {
  const { unfinished } = run
  const services = yield* Services
  const { files, registry } = services
  const tools = yield* registry.snapshot(run.tools)
  const now = yield* Clock.currentTimeMillis
  // A call that still waits stays open if the run is interrupted.
  openBatch(
    run,
    unfinished.filter(({ id }) => !run.book.isWaiting(id, now))
  )
  const { ending, halted, messages, waiting } = yield* runTools(run, unfinished, noNotes, { services, tools })
  if (run.phase.isStopping) return yield* Effect.never
  const answer = run.conversation.messages.findLastIndex(({ role }) => role === "assistant")
  const tail = removeFrom(run, answer)
  if (waiting.length > 0) {
    addMessages(run, [...tail, ...messages])
    return yield* suspendCalls(run, waiting, "")
  }
  // Adds results in the order of their calls.
  addMessages(run, Conversation.closeOpenCalls([...tail, ...messages]))
  closeBatch(run)
  if (files !== undefined && hasOtherTool(unfinished)) yield* files.otherToolRan(run.sessionId)
  const ended = yield* endAfterStopTool(run, ending)
  return ended ?? (halted === undefined ? undefined : { _tag: "Halted", message: halted })
})
