/**
 * Ends a run: with a result that listeners may rewrite, or by interruption, with a session that another run can
 * continue. Both ends emit exactly one `on_session_end`.
 *
 * Source: `ARCHITECTURE.md` §4 and §7, `hermes-contract.md` §2.3.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import { CompressionExhausted, ConfigError, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { Failure } from "../base/domain/RecordEvent.ts"
import { isCompleted, type RunEvent, type RunResult } from "../base/domain/RunEvent.ts"
import * as CallTokens from "../models/routing/CallTokens.ts"
import * as RunCut from "./RunCut.ts"
import { addMessages, closeBatch, makeAnswer, noteAnswerStored, storeMessages, watchBatch } from "./RunConversation.ts"
import { withdrawQuestions } from "./RunSuspension.ts"
import { getApiRequestId, emit, replaceText, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/**
 * Completes the conversation of an interrupted step: closes its open calls according to their known state, or stores
 * the received text of its answer.
 */
export const cutStep = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<void, SessionStoreError, Services> {
  const { begun, calls: batch, results, salvaged } = run.conversation.batch
  const { text } = run.questions.answer
  const calls = batch.filter(({ id }) => !results.has(id))
  const getCallOutput = ({ id }: Prompt.ToolCallPart): string =>
    salvaged.get(id) ?? Conversation.describeUnknownResult(begun.has(id))
  const cut = calls.map((call) => Conversation.makeToolResult(call, { output: getCallOutput(call), isFailure: true }))
  const { noteResult } = watchBatch(run)
  calls.forEach(({ id }, index) => {
    const message = cut[index]
    if (message !== undefined) noteResult(id, message, { status: "cancelled", form: "other", length: 0 })
  })
  closeBatch(run)
  addMessages(
    run,
    batch.map((call) => results.get(call.id) ?? cut[calls.indexOf(call)] ?? Conversation.makeCancelledResult(call))
  )
  if (calls.length > 0) {
    yield* storeMessages(run, cut)
    yield* withdrawQuestions(
      run,
      calls.map(({ id }) => id)
    )
  } else if (batch.length === 0 && text !== "" && !run.conversation.isAnswerStored) {
    const answer = makeAnswer(run, [Prompt.textPart({ text })])
    addMessages(run, [answer])
    noteAnswerStored(run, true)
    yield* storeMessages(run, [answer])
  }
  for (const { id, name } of calls) {
    run.recorder?.write({
      _tag: "CallEnded",
      callId: id,
      name,
      status: "cancelled",
      ran: begun.has(id),
      durationMillis: 0
    })
  }
  yield* emit(
    run,
    ...calls.map((call): RunEvent => ({
      _tag: "ToolFinished",
      callId: call.id,
      name: call.name,
      status: "cancelled",
      output: getCallOutput(call),
      durationMillis: 0
    }))
  )
}, Effect.uninterruptible)

/** Stores everything that was received in an interrupted run, so that the session can be continued. */
export const settleSession = (run: RunState, reason: string): Effect.Effect<void, SessionStoreError, Services> =>
  Effect.andThen(
    cutStep(run),
    Effect.flatMap(Services, ({ store }) => store.end(run.sessionId, reason))
  )

/**
 * Returns the result for the user after listeners could rewrite its final text, and notifies the listeners of the final
 * text.
 */
export const presentResult = Effect.fnUntraced(function* (run: RunState, result: RunResult) {
  if (result.text === "") return result
  const {
    interceptors: { hooks }
  } = yield* Services
  const where = { model: run.questions.route.model, platform: run.platform }
  const replacement = yield* hooks.ask("transform_llm_output", () => ({
    response_text: result.text,
    session_id: run.sessionId,
    ...where
  }))
  const isTransformed = replacement !== undefined && replacement !== result.text
  const presented = isTransformed ? { ...result, text: replacement, responseTransformed: true } : result
  if (isTransformed) yield* replaceText(run, run.steps.answerStart, presented.text)
  yield* hooks.emit("post_llm_call", () => ({
    session_id: run.sessionId,
    task_id: run.taskId,
    turn_id: run.turnId,
    user_message: run.userMessage,
    assistant_response: presented.text,
    ...(isTransformed ? { response_transformed: true } : {}),
    conversation_history: run.conversation.messages.slice(1),
    ...where
  }))
  return presented
})

/** Returns the reason for the end of a run in one word: the `exit` of its result, if it has one. */
export const getEndReason = <E>(exit: Exit.Exit<RunResult | void, E>): string => {
  if (Exit.isSuccess(exit)) return exit.value?.exit ?? "interrupted_by_user"
  if (Exit.hasInterrupts(exit)) return "interrupted"
  return Cause.squash(exit.cause) instanceof CompressionExhausted ? "compression_exhausted" : "failed"
}

/**
 * Describes an interrupted run for listeners: the reason, in the form that the hook specification defines, and the
 * current request.
 */
const describeCut = (run: RunState) => ({
  reason: run.lineage === undefined ? "keyboard_interrupt" : "interrupted",
  ...(run.questions.count === 0 ? {} : { api_request_id: getApiRequestId(run) })
})

const toFailure = (cause: Cause.Cause<unknown>): typeof Failure.Type => {
  const error = Cause.squash(cause)
  return {
    type: Predicate.hasProperty(error, "_tag") ? String(error._tag) : "Error",
    message: error instanceof Error ? error.message : String(error)
  }
}

/** Closes the record of the run, on every path. */
export const closeRecord =
  (run: RunState) =>
  <E>(exit: Exit.Exit<RunResult, E>): Effect.Effect<void, never, Services> =>
    Effect.flatMap(RunCut.summarizeRun(run), (sums) => {
      const { phase, recorder } = run
      if (recorder === undefined) return Effect.void
      if (Exit.isSuccess(exit)) {
        const { endedBy, exit: why, limit, responseTransformed, text } = exit.value
        recorder.write({
          _tag: "RunEnded",
          exit: why,
          ...(limit === undefined ? {} : { limit }),
          ...(endedBy === undefined ? {} : { endedBy }),
          ...(responseTransformed === undefined ? {} : { responseTransformed }),
          text,
          ...sums
        })
      } else {
        const interrupted = Exit.hasInterrupts(exit)
        recorder.write({
          _tag: "RunEnded",
          exit: interrupted ? "interrupted" : "failed",
          ...sums,
          ...(interrupted ? {} : { failure: toFailure(exit.cause) })
        })
      }
      const { cut } = phase
      // A cut that has begun passes its entries on first.
      return cut === undefined ? recorder.flush : Effect.andThen(Fiber.interrupt(cut), recorder.flush)
    })

/** Notifies the listeners that the run has ended, on every path, and waits for queued observers of plugins. */
export const announceEnd =
  (run: RunState) =>
  <E>(exit: Exit.Exit<RunResult, E>): Effect.Effect<void, never, Services> => {
    const interrupted = Exit.isSuccess(exit) ? exit.value.exit === "interrupted_by_user" : Exit.hasInterrupts(exit)
    return Services.use(({ interceptors: { hooks } }) => {
      const announced = hooks.emit("on_session_end", () => ({
        session_id: run.sessionId,
        task_id: run.taskId,
        turn_id: run.turnId,
        completed: Exit.isSuccess(exit) && isCompleted(exit.value),
        interrupted,
        ...(Exit.hasInterrupts(exit) ? describeCut(run) : { reason: getEndReason(exit) }),
        model: run.questions.route.model,
        platform: run.platform
      }))
      // An interrupted run ends at once; its events are handled later.
      return interrupted ? announced : Effect.flatMapEager(announced, () => hooks.findPending() ?? Effect.void)
    })
  }

/** Sizes above which a conversation counts as large. Exceeding one is enough. */
const large = { tokens: 50_000, messages: 80 }

/** Returns the reason for withdrawing the user's message, or `undefined` if the message remains. */
const findRejectionReason = (
  { conversation: { messages } }: RunState,
  error: unknown
): Effect.Effect<string | undefined> => {
  if (error instanceof CompressionExhausted) return Effect.succeed("the conversation does not fit into the model")
  if (!AiError.isAiError(error)) return Effect.undefined
  if (messages.length <= large.messages && CallTokens.estimateTokens({ messages }) <= large.tokens)
    return Effect.undefined
  return Effect.map(
    Effect.promise(() => import("../models/routing/classification/Evidence.ts")),
    ({ collectEvidence }) => (collectEvidence(error).status === 400 ? "bad request" : undefined)
  )
}

/**
 * Withdraws the user's message if a provider rejected it, so that the conversation does not grow. This happens if the
 * first call of a run was a bad request (400) and the conversation is large, or if the conversation does not fit and
 * cannot be made smaller. Changes that the run made before the refusal remain.
 *
 * Source: `hermes-llm.md` §16.5 (15).
 */
export const takeBackRejected = <E>(
  run: RunState,
  exit: Exit.Exit<unknown, E>
): Effect.Effect<void, SessionStoreError, Services> => {
  if (run.steps.count !== 1 || !Exit.isFailure(exit) || Exit.hasInterrupts(exit)) return Effect.void
  return Effect.flatMap(findRejectionReason(run, Cause.squash(exit.cause)), (why) => {
    if (why === undefined) return Effect.void
    const rejected = Conversation.makeRejection(why)
    addMessages(run, [rejected])
    return storeMessages(run, [rejected])
  })
}

/** Message of `OptionalPackage.load`, which is not imported because most runs never load an optional package. */
const missingLine = /(?:^|: )([^:]+, which (?:is|are) not installed: npm install (\S.*))$/u

/**
 * Replaces the failure of a provider that could not be opened because its package is not installed with the error that
 * names the package. Other failures are unchanged.
 */
export const nameMissingPackage = <E>(error: E | AiError.AiError): E | AiError.AiError | ConfigError => {
  if (!AiError.isAiError(error) || error.reason._tag !== "InvalidRequestError") return error
  const [, message, path] = missingLine.exec(error.reason.description ?? "") ?? []
  return message === undefined || path === undefined ? error : new ConfigError({ path, message })
}
