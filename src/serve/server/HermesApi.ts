/**
 * The HTTP API of `hermes serve --rollouts`: chat completions in OpenAI's format, and the rollouts in which their
 * answers are stored.
 *
 * **Details**
 *
 * A request names its rollout in the header `x-hermes-rollout-id` or in its URL: `/v1/rollouts/ID` is a base URL for
 * clients that cannot set headers. A request that names no rollout opens one and receives its id in the same header of
 * the response. `/openapi.json` describes the whole API.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Schema from "effect/Schema"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { RolloutScore, RolloutView, RolloutWanted } from "../../base/domain/RolloutPort.ts"
import { ChatRequest, describeKeys, errors, EventStream, Fields, health, id, ModelList } from "./OpenAiShapes.ts"

/** Header that names a rollout, in requests and responses. */
export const rolloutHeader = "x-hermes-rollout-id"

const ScoredEpisode = Schema.Struct({
  rollout_id: Schema.String,
  group_id: Schema.String,
  tokens: Schema.Array(Schema.Int),
  masks: Schema.Array(Schema.Int),
  score: Schema.Finite,
  messages: Schema.Array(Fields),
  inference_logprobs: Schema.optionalKey(Schema.Array(Schema.Finite)),
  advantages: Schema.optionalKey(Schema.Array(Schema.Finite)),
  ref_logprobs: Schema.optionalKey(Schema.Array(Schema.Finite)),
  generation_params: Fields,
  overrides: Fields
})

const chat = HttpApiEndpoint.post("chat", "/v1/chat/completions", {
  payload: ChatRequest,
  success: [Fields, EventStream],
  error: errors
})

/** Endpoints for chat completions, models and health checks. */
const openai = HttpApiGroup.make("openai").add(
  health,
  HttpApiEndpoint.get("models", "/v1/models", { success: ModelList, error: errors }),
  chat
)

/** Endpoints that open, query, score and export rollouts. */
const rollouts = HttpApiGroup.make("rollouts").add(
  HttpApiEndpoint.get("list", "/v1/rollouts", {
    query: { after: Schema.optionalKey(Schema.String), limit: Schema.optionalKey(Schema.String) },
    success: Schema.Struct({ data: Schema.Array(RolloutView) }),
    error: errors
  }),
  HttpApiEndpoint.post("open", "/v1/rollouts", {
    payload: RolloutWanted,
    success: RolloutView.pipe(HttpApiSchema.status(201)),
    error: errors
  }),
  HttpApiEndpoint.get("view", "/v1/rollouts/:id", { params: id, success: RolloutView, error: errors }),
  HttpApiEndpoint.post("finish", "/v1/rollouts/:id/finish", {
    params: id,
    payload: Schema.Struct({ ...RolloutScore.fields, reward: Schema.optionalKey(Schema.Finite) }),
    success: RolloutView,
    error: errors
  }),
  HttpApiEndpoint.get("export", "/v1/rollouts/:id/export", { params: id, success: ScoredEpisode, error: errors }),
  HttpApiEndpoint.get("rolloutModels", "/v1/rollouts/:id/models", { params: id, success: ModelList, error: errors }),
  HttpApiEndpoint.post("rolloutChat", "/v1/rollouts/:id/chat/completions", {
    params: id,
    payload: ChatRequest,
    success: [Fields, EventStream],
    error: errors
  })
)

/** Definition of the whole API. */
export const api = HttpApi.make("hermes").add(openai, rollouts).annotate(OpenApi.Transform, describeKeys)
