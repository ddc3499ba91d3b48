/**
 * Describes the cached requests of a run for side tasks that may continue them: notes of compactions and background
 * reviews.
 */
import * as Effect from "effect/Effect"
import * as WarmPrefix from "../models/routing/WarmPrefix.ts"
import { insertPrefill } from "../tools/prompt/Prefill.ts"
import type { AgentSettings } from "./RunInput.ts"
import type { RunState } from "./RunState.ts"
import { isPromptKnown } from "./RunUsage.ts"
import { Services } from "./Services.ts"

/**
 * Tests whether the provider still has the last request of the run, or of the session before the first request. Context
 * of one turn that is not kept changes the requests of the next turn.
 */
const isWarm = (run: RunState, { keepTurnContext }: AgentSettings): boolean => {
  const {
    conversation: { isCompacted, unstored },
    hasWarmStart,
    questions
  } = run
  return questions.count === 0
    ? hasWarmStart && !isCompacted && (keepTurnContext === true || unstored.size === 0)
    : isPromptKnown(run)
}

/**
 * Returns the requests of a run in the form that a side task continues. Returns `undefined` if the provider has not
 * cached them, or if the route that answered them cannot be asked by name.
 */
export const describePrefix = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<WarmPrefix.WarmPrefix | undefined, never, Services> {
  const { compaction, registry, router, settings } = yield* Services
  const {
    conversation,
    conversationId,
    lineage,
    promptCache: cache,
    questions,
    reasoningEffort,
    routeWanted: named,
    tokens
  } = run
  const { route } = questions
  // A note is text, and the format of an answer is part of the prefix.
  if (run.output !== undefined) return undefined
  if (!isWarm(run, settings) || !WarmPrefix.isCached({ cache, route })) return undefined
  if (named === undefined && !WarmPrefix.isSameRoute(route, yield* router.primary)) return undefined
  const { definitions } = yield* registry.snapshot(run.tools)
  return {
    route,
    named,
    messages: insertPrefill(conversation.messages, settings.prefill),
    tools: definitions,
    cache,
    conversationId,
    sharedCacheId: lineage?.kind,
    reasoningEffort,
    contextEdits: compaction.edits,
    maxOutputTokens: tokens.outputLimit ?? settings.maxOutputTokens,
    temperature: settings.temperature,
    cachedTokens: tokens.prompt
  }
})
