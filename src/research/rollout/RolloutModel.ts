/**
 * Answers the requests in a server's rollouts with a model. Requests take the normal path of model calls (keys, waits,
 * request middleware, hooks). An answer is stored in the episode before the client receives it.
 *
 * **Details**
 *
 * Only the main route is used, because a fallback would use another model. Answers are not streamed, because the
 * continuation of a broken stream would be another sequence of tokens. The rollout's sampling parameters override the
 * parameters of a request.
 *
 * **Gotchas**
 *
 * The main route must use the chat completions API.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ModelCall, ModelRequest } from "../../base/domain/ModelCall.ts"
import {
  RolloutPort,
  RolloutRefused,
  type RolloutView,
  type RolloutWanted,
  type Service
} from "../../base/domain/RolloutPort.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Interceptors from "../../models/routing/Interceptors.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { Episode } from "./Episode.ts"
import * as EpisodeExport from "./EpisodeExport.ts"
import { Episodes, type Request } from "./Episodes.ts"
import * as TokenCapture from "./TokenCapture.ts"

/** Settings for the rollouts of a server. */
export interface Options {
  /** Kind of request fields that request tokens. By default it depends on the address of the route. */
  readonly dialect?: TokenCapture.Dialect | undefined
  /** Default values for new rollouts. */
  readonly defaults?:
    | Pick<RolloutWanted, "on_divergence" | "sampling" | "tool_call_parser" | "weights_version">
    | undefined
}

/** Names of request fields that contain sampling parameters. */
const samplingNames = [
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "max_tokens",
  "max_completion_tokens",
  "seed",
  "stop",
  "stop_token_ids",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "logit_bias",
  "reasoning_effort",
  "chat_template_kwargs"
] as const

/** Returns the sampling parameters of a request. */
export const readSampling = (body: Json.Fields): Json.Fields =>
  Object.fromEntries(
    samplingNames.flatMap((name) => (body[name] === undefined || body[name] === null ? [] : [[name, body[name]]]))
  )

/** Request fields that only the server sets. For example, a client must not choose the headers of provider requests. */
const ours = new Set([
  "model",
  "stream",
  "stream_options",
  "n",
  "extra_body",
  "extra_headers",
  "extra_query",
  "logprobs",
  "top_logprobs",
  "return_token_ids"
])

/** Builds the request to the model from a client's request. */
const buildRequest = (
  body: Json.Fields,
  sampling: Json.Fields,
  model: string,
  dialect: TokenCapture.Dialect
): ModelRequest => {
  const given = Object.fromEntries(Object.entries(body).filter(([name]) => !ours.has(name)))
  const { extra, own } = TokenCapture.listRequestFields(dialect)
  return {
    ...given,
    ...sampling,
    ...own,
    model,
    stream: false,
    ...(Object.keys(extra).length === 0 ? {} : { extra_body: extra })
  }
}

const refuseInvalid = (message: string): Effect.Effect<never, RolloutRefused> =>
  Effect.fail(new RolloutRefused({ reason: "invalid_request", message }))

/** Reads and validates the messages of a request. */
const readMessages = (body: Json.Fields): Effect.Effect<ReadonlyArray<Json.Fields>, RolloutRefused> => {
  const { messages, n, tools } = body
  if (!Array.isArray(messages) || messages.length === 0)
    return refuseInvalid("messages is missing: it is a list of at least one message.")
  const wrong = messages.findIndex((one) => typeof Json.readFields(one)["role"] !== "string")
  if (wrong !== -1) return refuseInvalid(`messages[${wrong}] has no role.`)
  if (n !== undefined && n !== null && n !== 1)
    return refuseInvalid(
      "A rollout has one answer for each request: open a rollout for each sample, with one group_id."
    )
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) return refuseInvalid("tools is not a list.")
  return Effect.succeed(messages.map(Json.readFields))
}

/** A placeholder for a model call. The middleware below replaces its request with the client's request. */
const placeholder: ModelCall = {
  messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "rollout" })] })],
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false
}

const makeProtocolError = (mode: string): AiError.AiError =>
  new AiError.AiError({
    module: "RolloutModel",
    method: "chat",
    reason: new AiError.InvalidRequestError({
      description:
        `rollouts need a model behind chat completions, and this one speaks ${mode}: ` +
        "set model.api_mode or another model"
    })
  })

/** Makes middleware that sends another request instead of the prepared one. */
const replaceRequest = (make: (model: string, baseUrl: string | undefined) => ModelRequest) =>
  Middleware.llmExecution({
    name: "rollout",
    onFailure: "closed",
    wrap:
      (next, { apiMode, baseUrl, model }) =>
      () =>
        apiMode === "chat_completions" ? next(make(model, baseUrl)) : Effect.fail(makeProtocolError(apiMode))
  })

const make = Effect.fnUntraced(function* ({ defaults = {}, dialect }: Options) {
  const episodes = yield* Episodes
  const router = yield* ModelRouter
  // The hooks come from the context in which the service is built, not from the context of each request.
  const services = yield* Effect.context<never>()

  const requestAnswer = Effect.fnUntraced(function* (
    id: string,
    calls: number,
    body: Json.Fields,
    sampling: Json.Fields
  ) {
    const sessionId = Ids.SessionId.make(id)
    const taskId = Ids.TaskId.make(id)
    const turnId = yield* Ids.makeTurnId(sessionId, taskId)
    const route = router.primaryRoute === undefined ? undefined : yield* router.primaryRoute
    const interceptors = yield* Interceptors.make([
      replaceRequest((model, baseUrl) =>
        buildRequest(body, sampling, model, dialect ?? TokenCapture.chooseDialect(baseUrl))
      )
    ]).pipe(Effect.provideContext(services))
    const answer = yield* router.call(interceptors, {
      call: placeholder,
      route,
      context: { sessionId, taskId, turnId, platform: "api-server", apiCallCount: calls + 1 },
      userMessage: Json.readFields(Json.readItems(body["messages"]).at(-1))["content"],
      options: undefined
    })
    return answer.response.raw
  })

  const open: Service["open"] = Effect.fnUntraced(function* (wanted) {
    const { model } = yield* router.primary
    return EpisodeExport.toView(
      yield* episodes.open({ ...defaults, ...wanted, sampling: { ...defaults.sampling, ...wanted.sampling } }, model)
    )
  })

  const describeEpisode = (episode: Episode): Effect.Effect<RolloutView> =>
    Effect.map(episodes.isBusy(episode.rollout_id), (isBusy) => {
      const view = EpisodeExport.toView(episode)
      return view.status === "busy" && !isBusy ? { ...view, status: "open" } : view
    })

  const service: Service = {
    model: Effect.map(router.primary, ({ model }) => model),
    open,
    chat: Effect.fnUntraced(function* (named, body) {
      const messages = yield* readMessages(body)
      const id = named ?? (yield* open({})).rollout_id
      const { calls, sampling } = yield* episodes.get(id)
      const request: Request = {
        messages,
        tools: Array.isArray(body["tools"]) ? body["tools"] : undefined,
        sampling: { ...readSampling(body), ...sampling }
      }
      const answer = yield* episodes.call(id, request, (sent) =>
        requestAnswer(id, calls, { ...body, messages: sent }, sampling)
      )
      return { rolloutId: id, body: TokenCapture.hideTokens(answer, body) }
    }),
    view: (id) => Effect.flatMap(episodes.get(id), describeEpisode),
    list: ({ after = "", limit }) =>
      Effect.flatMap(episodes.ids, (ids) =>
        Effect.forEach(ids.filter((id) => id > after).slice(0, limit), (id) =>
          Effect.flatMap(episodes.get(id), describeEpisode)
        )
      ),
    finish: (id, score) => Effect.map(episodes.finish(id, score ?? {}), EpisodeExport.toView),
    export: (id) =>
      Effect.flatMap(episodes.get(id), (episode) => Effect.fromResult(EpisodeExport.toScoredEpisode(episode)))
  }
  return service
})

/** Provides rollouts whose requests are answered by the router in the context. */
export const layer = (options: Options = {}): Layer.Layer<RolloutPort, never, Episodes | ModelRouter> =>
  Layer.effect(RolloutPort, make(options))
