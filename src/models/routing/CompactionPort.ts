/**
 * Interface through which a run requests compaction of its conversation. A higher layer provides it. The default
 * implementation never compacts, so a run fails without a useless request.
 *
 * **Gotchas**
 *
 * The compacted conversation is used for the rest of the run. The stored session is not changed.
 *
 * **Example** (Keeping the newest messages)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { CompactionPort } from "hermes-effect/routing"
 *
 * const newest: CompactionPort.Service = {
 *   compact: ({ messages: [system, ...rest] }) =>
 *     Effect.succeed(system === undefined ? [] : [system, ...rest.slice(rest.findLastIndex(({ role }) => role === "user"))])
 * }
 *
 * Runtime.layer().pipe(Layer.provide(Layer.succeed(CompactionPort.CompactionPort, newest)))
 * ```
 *
 * Source: `hermes-llm.md` §10.5, §11.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { CompactionPlan } from "../../base/domain/CompactionPlan.ts"
import type { SessionId, TaskId, TurnId } from "../../base/domain/Ids.ts"
import type { ContextEdits } from "../../base/domain/ModelCall.ts"
import type { WarmPrefix } from "./WarmPrefix.ts"

/** Request for a compaction: its reason, and the size to which the conversation has to be reduced. */
export interface Request {
  readonly sessionId: SessionId
  /** First session of the conversation, if the conversation was compacted before. */
  readonly conversationId?: SessionId | undefined
  readonly taskId: TaskId
  readonly turnId: TurnId
  /** The system message, followed by the conversation. The last user message is the request of the run. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Size of the model's context window in tokens, as far as known. */
  readonly window: number
  /**
   * Reason for the compaction: the provider refused the size, the number of tokens returned by {@link Service.trigger}
   * was exceeded, or the user requested it.
   */
  readonly reason: "context_overflow" | "payload_too_large" | "long_context_tier" | "threshold" | "manual"
  /** Number of tokens in the last request, as counted by the provider; `undefined` before the first answer. */
  readonly tokens?: number | undefined
  /**
   * Number of newest exchanges that are preserved verbatim; defaults to the engine's choice. An exchange begins with a
   * user message.
   */
  readonly keepExchanges?: number | undefined
  /** Subject, described by the user, whose details should be preserved. */
  readonly focus?: string | undefined
  /**
   * Plan set by middleware: the part to preserve, and the method of compacting the rest. Defaults to the engine's own
   * plan.
   */
  readonly plan?: CompactionPlan | undefined
  /** The conversation as its provider has cached it, if it may be continued with a request for a note. */
  readonly prefix?: WarmPrefix | undefined
  /** Shows a message to the user. */
  readonly notify?: ((message: string) => Effect.Effect<void>) | undefined
}

/** Compacts conversations. If a conversation cannot be reduced, the same messages are returned. */
export interface Service {
  readonly compact: (request: Request) => Effect.Effect<ReadonlyArray<Prompt.Message>>
  /**
   * Returns the number of tokens at which a conversation is compacted, before a provider refuses it. Without this
   * function, conversations are compacted only after a refusal.
   */
  readonly trigger?: ((window: number) => number) | undefined
  /** Settings with which the provider itself removes old tool results from long prompts, if the route supports it. */
  readonly edits?: ContextEdits | undefined
  /**
   * Number of messages up to which a conversation is not compacted before its first call. Defaults to no such limit.
   */
  readonly leastMessages?: number | undefined
}

/** Implementation that never reduces a conversation. */
export const none: Service = { compact: ({ messages }) => Effect.succeed(messages) }

/** Reference to the compaction service. Defaults to {@link none}. */
export const CompactionPort = Context.Reference<Service>("hermes-effect/routing/CompactionPort", {
  defaultValue: () => none
})
