/**
 * How routing asks for a smaller conversation: whoever owns the conversation implements it.
 *
 * **Example** (A conversation that can not be made smaller)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { CompactionPort } from "hermes-effect"
 *
 * const fixed: CompactionPort.Service = {
 *   compact: () => Effect.succeed({ messagesBefore: 10, messagesAfter: 10 })
 * }
 *
 * export const program = Effect.provideService(Effect.void, CompactionPort.CompactionPort, fixed)
 * ```
 *
 * Source: `hermes-llm.md` §11.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { SessionId } from "../domain/Ids.ts"

/** Why, and into what, a conversation has to fit. */
export interface Request {
  readonly sessionId: SessionId
  /** Tokens that the model holds, as far as is known now. */
  readonly window: number
  readonly reason: "context_overflow" | "payload_too_large" | "long_context_tier"
}

/** What became of it. */
export interface Compacted {
  readonly messagesBefore: number
  readonly messagesAfter: number
}

/** See the module. A compaction that can not make it smaller answers with the same number twice. */
export interface Service<out E = never> {
  readonly compact: (request: Request) => Effect.Effect<Compacted, E>
}

/** See the module. */
export class CompactionPort extends Context.Service<CompactionPort, Service>()("hermes-effect/routing/CompactionPort") {}
