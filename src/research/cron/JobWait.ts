/**
 * Runs of jobs that wait for answers: reads from the session of a run if it still waits.
 *
 * **Example** (Testing if the run of a job can continue)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { JobWait } from "hermes-effect/jobs"
 *
 * export const canContinue = (sessionId: string) =>
 *   Effect.map(JobWait.readWaitState(sessionId), ({ _tag }) => _tag === "Ready")
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Question from "../../base/domain/Question.ts"
import { SessionStore } from "../../store/SessionStore.ts"

/** State of a run that no longer waits. */
export type ReadyState =
  /** Every question is answered or expired, and the run can continue in the session. */
  | { readonly _tag: "Ready"; readonly sessionId: SessionId }
  /** The run was continued elsewhere and ended with a text. */
  | { readonly _tag: "Ended"; readonly sessionId: SessionId; readonly text: string }
  /** The session was deleted. */
  | { readonly _tag: "Gone" }

/** State of a run that waited for answers. `Open` means that it still does. */
export type WaitState = ReadyState | { readonly _tag: "Open" }

/** Reads the state of the run that waited in a session. */
export const readWaitState = Effect.fnUntraced(function* (
  waited: string
): Effect.fn.Return<WaitState, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const sessionId = yield* store.newest(SessionId.make(waited))
  if (Option.isNone(yield* store.get(sessionId))) return { _tag: "Gone" }
  const limit = Number.MAX_SAFE_INTEGER
  const questions = yield* store.listQuestions({ sessionId, states: ["open", "answered"], limit })
  const now = yield* Clock.currentTimeMillis
  if (questions.some((stored) => Question.isWaiting(stored, now))) return { _tag: "Open" }
  if (questions.length > 0) return { _tag: "Ready", sessionId }
  const messages = yield* store.messages(sessionId)
  const last = messages.at(-1)
  const isEnded = last?.role === "assistant" && Conversation.listOpenCalls(messages).length === 0
  return isEnded ? { _tag: "Ended", sessionId, text: Conversation.readText(last) } : { _tag: "Ready", sessionId }
})
