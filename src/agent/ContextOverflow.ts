/**
 * Recovers a run whose conversation does not fit into the model: determines the size of the window, compacts the
 * conversation, and asks again. If that fails, the run continues with the next route, or fails if no route is left.
 *
 * **Details**
 *
 * The repeated request belongs to the refused step and costs no iteration. The router's catalogue remembers the
 * detected window: it applies to every call of this process, and is written to disk once a call has succeeded.
 *
 * Source: `hermes-llm.md` §11, §16.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import { CompressionExhausted } from "../base/domain/AgentError.ts"
import * as CompactionPort from "../models/routing/CompactionPort.ts"
import type { AttemptLog } from "../models/routing/ModelRouter.ts"
import * as WindowProbing from "../models/routing/WindowProbing.ts"
import { noteCompaction, recordRewrite, replaceMessages, takeCompactionTurn } from "./RunConversation.ts"
import { getCurrentRoute, emit, type RunState, toRouterTurn } from "./RunState.ts"
import { Services } from "./Services.ts"

/**
 * Succeeds if the request may be sent again. Fails with the refusal itself if it has another cause. `log` names the
 * requested route if the router did not choose it, and receives the decision about the refusal.
 */
export const recover = Effect.fnUntraced(function* (
  run: RunState,
  error: AiError.AiError,
  log: AttemptLog
): Effect.fn.Return<void, AiError.AiError | CompressionExhausted, Services> {
  const {
    compaction: engine,
    files,
    interceptors: { stack },
    router
  } = yield* Services
  const owners = stack.lifecycle?.entries.flatMap(({ compaction }) => compaction ?? []) ?? []
  const compaction = owners.length === 0 || owners.some(({ whenRefused }) => whenRefused) ? engine : CompactionPort.none
  const named = log.route
  const { catalogue } = router
  if (catalogue === undefined) return yield* error
  const route = yield* getCurrentRoute(run, named)
  const { tokens } = yield* catalogue.window(route)
  const outcome = yield* WindowProbing.recoverConversation(
    catalogue.probing,
    compaction,
    takeCompactionTurn(run, WindowProbing.makeTurn),
    {
      error,
      decision: log.failure?.error === error ? log.failure.decision : undefined,
      route,
      window: tokens,
      messages: run.conversation.messages,
      sessionId: run.sessionId,
      conversationId: run.conversationId,
      taskId: run.taskId,
      turnId: run.turnId,
      notify: (message) => emit(run, { _tag: "Notice", level: "warning", message })
    }
  )
  switch (outcome._tag) {
    case "NotAboutSize":
      return yield* error
    case "Restart": {
      const messages = run.conversation.messages.slice()
      const before = messages.length
      if (outcome.messages.length !== before || outcome.messages.some((message, at) => message !== messages[at]))
        noteCompaction(run)
      replaceMessages(run, outcome.messages)
      recordRewrite(run, "context_overflow", messages)
      // The contents of previously read files are no longer in the conversation.
      if (files !== undefined) yield* files.forgetContents(run.sessionId)
      yield* emit(run, {
        _tag: "Waiting",
        reason:
          `${route.model} holds ${outcome.window} tokens: ` +
          (run.conversation.messages.length === before
            ? "old messages were shortened"
            : `the conversation was compacted from ${before} messages to ${run.conversation.messages.length}`),
        millis: Duration.toMillis(WindowProbing.pause),
        attempt: outcome.attempt,
        maxAttempts: WindowProbing.maxAttempts
      })
      return yield* Effect.sleep(WindowProbing.pause)
    }
    case "Exhausted": {
      const next = named === undefined ? yield* router.advance(toRouterTurn(run), "context_overflow") : undefined
      if (next === undefined) return yield* new CompressionExhausted({ message: outcome.message, cause: error })
      return yield* emit(run, {
        _tag: "Notice",
        level: "warning",
        message: `the conversation does not fit into ${route.model}; continuing with ${next.provider} (${next.model})`
      })
    }
  }
})
