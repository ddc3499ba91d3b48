/**
 * Creates the session in which a compacted conversation continues.
 *
 * **Details**
 *
 * A run that was compacted stores all its messages in its own session until it ends. Then, in one transaction, the
 * session is ended and replaced by a session that holds the compacted conversation: the next run begins with the last
 * conversation that this run sent, and with a system prompt built from the current memory. Without this, each run would
 * compact the whole session again.
 *
 * If the store cannot save the new session, no data is lost: the old session is complete, and the next run compacts it.
 *
 * Source: `hermes-llm.md` §7.1 (2) and §10.6.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import * as History from "../base/domain/History.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as SystemPrompt from "../tools/prompt/SystemPrompt.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import type { Service as RunRecord } from "../store/RunRecord.ts"
import type { RunOptions } from "./RunInput.ts"
import * as RunStart from "./RunStart.ts"
import { emit, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"
import * as SessionOpening from "./SessionOpening.ts"

/** Run options that the prompt of the new session depends on. */
type Input = Pick<RunOptions, "route" | "systemPrompt" | "tools">

/** Returns the conversation in the form that a session stores. */
const toStoredMessages = ({ conversation: { messages, unstored } }: RunState): ReadonlyArray<Prompt.Message> =>
  Conversation.withoutRejected(messages.slice(1)).flatMap((message) => {
    if (History.isOnce(message)) return []
    if (!unstored.has(message)) return [message]
    return unstored.get(message) ?? []
  })

/** Builds the prompt of the new session, unless the caller provided one for the run or the session. */
const buildSystemPrompt = Effect.fnUntraced(function* (
  { cwd, run }: RunStart.OpenedRun,
  { route, systemPrompt, tools }: Input,
  id: Ids.SessionId,
  session: { readonly hasOwnPrompt: boolean; readonly source: string; readonly systemPrompt: string }
) {
  if (systemPrompt !== undefined || session.hasOwnPrompt) return systemPrompt ?? session.systemPrompt
  return yield* SessionOpening.buildPromptLayers(
    { cwd, platform: run.platform, route, source: session.source, tools },
    id
  ).pipe(
    Effect.map(SystemPrompt.render),
    Effect.catch((error) =>
      Effect.as(
        emit(run, { _tag: "Notice", level: "warning", message: `the system prompt stays as it is: ${error.message}` }),
        session.systemPrompt
      )
    )
  )
})

/**
 * Builds the entries that describe how the new session begins: copies of messages, the summary, and the removed
 * messages.
 */
const buildRecordEntries = (
  record: RunRecord,
  { recorder, sessionId: source }: RunState,
  {
    at,
    count,
    messages,
    sessionId
  }: {
    readonly sessionId: Ids.SessionId
    readonly at: number
    /** Number of messages in the compacted session. */
    readonly count: number
    readonly messages: ReadonlyArray<Prompt.Message>
  }
) => {
  const copies = ContextCopy.findCopies(messages, recorder?.stored ?? [])
  return ContextCopy.makeEntries(
    record,
    {
      sessionId,
      turnId: ContextCopy.makeCompressionTurnId(sessionId),
      at,
      link: { _tag: "ReplayBegun", source, position: count, changed: ["compression"] },
      rewritten: {
        _tag: "ContextRewritten",
        reason: "compression",
        before: count,
        after: messages.length,
        source,
        removed: ContextCopy.listRemoved(copies, count)
      }
    },
    copies
  )
}

/** Tests whether another session continues the session of a run: the run compacted its conversation. */
export const isContinued = ({ conversation, lineage }: RunState): boolean =>
  conversation.isCompacted && lineage === undefined

/**
 * Creates the session that continues a run's session (see {@link isContinued}). Returns its id, or `undefined` if the
 * run's own session continues to be used. `reason` is the reason for the end of the run.
 */
export const make = Effect.fnUntraced(function* (opened: RunStart.OpenedRun, input: Input, reason: string) {
  const { run } = opened
  const { files, record, store } = yield* Services
  return yield* Effect.gen(function* () {
    const session = Option.getOrUndefined(yield* store.get(run.sessionId))
    if (session === undefined) return undefined
    const id = yield* Ids.makeSessionId
    yield* store.acquire(id)
    const systemPrompt = yield* buildSystemPrompt(opened, input, id, session)
    const { model, provider } = run.questions.route
    const at = yield* Clock.currentTimeMillis
    const messages = toStoredMessages(run)
    const made = store.continueIn(run.sessionId, { id, provider, model, systemPrompt, messages, endReason: reason })
    const entries =
      record === undefined
        ? []
        : yield* buildRecordEntries(record, run, { sessionId: id, at, count: session.messageCount, messages })
    const written = record === undefined ? made : Effect.tap(made, () => record.append(entries))
    yield* store.together === undefined || record?.together !== store.together ? written : store.together(written)
    if (files !== undefined) yield* files.moved(run.sessionId, id)
    return id
  }).pipe(
    Effect.catch((error) =>
      Effect.as(
        emit(run, {
          _tag: "Notice",
          level: "warning",
          message: `the session stays as it is, so its next run compacts it again: ${error.message}`
        }),
        undefined
      )
    )
  )
})

/** Returns the result of a run whose conversation continues in another session. Its questions have moved there. */
export const moveResult = ({ questions, ...result }: RunResult, sessionId: Ids.SessionId): RunResult => ({
  ...result,
  sessionId,
  ...(questions === undefined ? {} : { questions: questions.map((question) => ({ ...question, sessionId })) })
})
