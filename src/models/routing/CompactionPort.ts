/**
 * Port by which a run has its conversation made smaller. A layer above provides it; the default cannot make anything
 * smaller, and a run that uses it learns so at once, without a useless request.
 *
 * **Gotchas**
 *
 * The smaller conversation is sent for the rest of the run. The stored session stays whole.
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

/** Reason of a compaction, and the size that the conversation has to fit into. */
export interface Request {
  readonly sessionId: SessionId
  /** The first session of the conversation, if it was compacted before. */
  readonly conversationId?: SessionId | undefined
  readonly taskId: TaskId
  readonly turnId: TurnId
  /** The system message first, then the conversation; the last user message is what the run is about. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Tokens that the model holds, as far as is known now. */
  readonly window: number
  /** Refused by the provider for its size, over the trigger of {@link Service.trigger}, or asked for by the user. */
  readonly reason: "context_overflow" | "payload_too_large" | "long_context_tier" | "threshold" | "manual"
  /** Tokens that the provider counted last; absent before the first answer. */
  readonly tokens?: number | undefined
  /**
   * Newest exchanges that stay word for word, in place of the engine's own choice; an exchange begins with a message of
   * the user.
   */
  readonly keepExchanges?: number | undefined
  /** Subject whose detail is to stay, in the user's words. */
  readonly focus?: string | undefined
  /** Plan of middleware: the part to preserve and how to compact the rest; defaults to the engine's own plan. */
  readonly plan?: CompactionPlan | undefined
  /** Tells the user something. */
  readonly notify?: ((message: string) => Effect.Effect<void>) | undefined
}

/** Compaction of a conversation. One that cannot make it smaller answers with the same messages. */
export interface Service {
  readonly compact: (request: Request) => Effect.Effect<ReadonlyArray<Prompt.Message>>
  /** Tokens from which on a conversation is compacted before anybody refuses it; absent: it never is. */
  readonly trigger?: ((window: number) => number) | undefined
  /** Old results that the provider leaves out of long prompts by itself, where the route can. */
  readonly edits?: ContextEdits | undefined
  /** Messages up to which a conversation is not compacted before its first call; none when absent. */
  readonly leastMessages?: number | undefined
}

/** Makes nothing smaller. */
export const none: Service = { compact: ({ messages }) => Effect.succeed(messages) }

/** The port; {@link none} by default. */
export const CompactionPort = Context.Reference<Service>("hermes-effect/routing/CompactionPort", {
  defaultValue: () => none
})
