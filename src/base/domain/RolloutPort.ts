/**
 * The interface between a server and the rollouts of a training run. A rollout is an episode: a client opens it,
 * requests answers in it, scores it and exports it. The runner implements this interface, and a server exposes it.
 * Field names are the names on the wire.
 *
 * **Example** (Reading the name of the model that answers rollouts)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RolloutPort } from "hermes-effect/rollouts"
 *
 * export const program = Effect.gen(function*() {
 *   const { model, open } = yield* RolloutPort.RolloutPort
 *   const { rollout_id: id } = yield* open({ group_id: "g1", sampling: { temperature: 1 } })
 *   return `${id} is answered by ${yield* model}`
 * })
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as AiError from "effect/ai/AiError"
import type { Fields } from "./Json.ts"

/**
 * Policy for a request whose history does not extend the episode. `refuse` rejects the request. `branch` starts a new
 * branch, and only the last branch counts.
 */
export const Divergence = Schema.Literals(["refuse", "branch"])

/** Id of a rollout or group; a valid file name on every system. */
export const RolloutId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/u))

/** Sampling parameters, named as in the API of the model. */
export const Sampling = Schema.Record(Schema.String, Schema.Json)

/** Request to open a rollout. */
export const RolloutWanted = Schema.Struct({
  rollout_id: Schema.optionalKey(RolloutId),
  group_id: Schema.optionalKey(RolloutId),
  /** Sampling parameters of every request of the rollout, which a request cannot change. */
  sampling: Schema.optionalKey(Sampling),
  /** Version of the model weights, as numbered by the trainer. */
  weights_version: Schema.optionalKey(Schema.String),
  on_divergence: Schema.optionalKey(Divergence),
  /** Name of a tool-call parser, for servers that return raw text. */
  tool_call_parser: Schema.optionalKey(Schema.String),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})
/** Type of {@link RolloutWanted}. */
export type RolloutWanted = typeof RolloutWanted.Type

/** Score of a rollout. */
export const RolloutScore = Schema.Struct({
  reward: Schema.Finite,
  components: Schema.optionalKey(Schema.Record(Schema.String, Schema.Finite)),
  /** Reason why a reward was not computed. */
  cause: Schema.optionalKey(Schema.String)
})
/** Type of {@link RolloutScore}. */
export type RolloutScore = typeof RolloutScore.Type

/** State of a rollout. */
export const RolloutView = Schema.Struct({
  rollout_id: Schema.String,
  group_id: Schema.String,
  status: Schema.Literals(["open", "busy", "finished"]),
  model: Schema.String,
  weights_version: Schema.NullOr(Schema.String),
  created_at: Schema.String,
  calls: Schema.Natural,
  failed_calls: Schema.Natural,
  /** Number of calls whose client disconnected, or that were active when the process ended. */
  interrupted_calls: Schema.Natural,
  /** Number of sequences (branches) in the episode; only the last one counts. */
  nodes: Schema.Natural,
  tokens: Schema.Natural,
  trained_tokens: Schema.Natural,
  /** Reason why the episode cannot be used for training; `null` if it can. */
  not_trainable: Schema.NullOr(Schema.String),
  reward: Schema.NullOr(Schema.Finite),
  components: Schema.Record(Schema.String, Schema.Finite)
})
/** Type of {@link RolloutView}. */
export type RolloutView = typeof RolloutView.Type

/** Kinds of refusals, with the names of the API. */
export const refusals = [
  "invalid_request",
  "unknown_rollout",
  "rollout_exists",
  "rollout_busy",
  "rollout_finished",
  "history_diverged",
  "not_trainable",
  "store_failed"
] as const

/** A request about a rollout was refused. Contains the kind of refusal, and the cause with its remedy. */
export class RolloutRefused extends Schema.TaggedError<RolloutRefused>("hermes-effect/domain/RolloutRefused")(
  "RolloutRefused",
  { reason: Schema.Literals(refusals), message: Schema.String }
) {}

/** An episode in the form that trainers use: lists of equal length, with −100 in `masks` for untrained tokens. */
export interface ScoredEpisode {
  readonly rollout_id: string
  readonly group_id: string
  readonly tokens: ReadonlyArray<number>
  readonly masks: ReadonlyArray<number>
  readonly score: number
  readonly messages: ReadonlyArray<Fields>
  /**
   * Log probabilities of the tokens; the value is 1 for untrained tokens; absent if the provider returned no values.
   */
  readonly inference_logprobs?: ReadonlyArray<number>
  readonly advantages?: ReadonlyArray<number>
  readonly ref_logprobs?: ReadonlyArray<number>
  readonly generation_params: Fields
  readonly overrides: Fields
}

/** An answer and the episode that it belongs to. */
export interface RolloutAnswer {
  readonly rolloutId: string
  /** Body of the chat completion. */
  readonly body: Fields
}

/** Operations on the rollouts of a server. */
export interface Service {
  /** Name of the model that answers. */
  readonly model: Effect.Effect<string>
  readonly open: (wanted: RolloutWanted) => Effect.Effect<RolloutView, RolloutRefused>
  /** Requests the next answer of a rollout from the model. Without an id, a new rollout is opened. */
  readonly chat: (
    id: string | undefined,
    body: Fields
  ) => Effect.Effect<RolloutAnswer, RolloutRefused | AiError.AiError>
  readonly view: (id: string) => Effect.Effect<RolloutView, RolloutRefused>
  /** Returns a page of rollouts in the order of their ids, starting after the id `after`. */
  readonly list: (page: {
    readonly after: string | undefined
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<RolloutView>, RolloutRefused>
  /** Ends a rollout, optionally with its score. */
  readonly finish: (id: string, score: RolloutScore | undefined) => Effect.Effect<RolloutView, RolloutRefused>
  readonly export: (id: string) => Effect.Effect<ScoredEpisode, RolloutRefused>
}

/** The rollouts of a server. */
export class RolloutPort extends Context.Service<RolloutPort, Service>()("hermes-effect/domain/RolloutPort") {}
