/**
 * The handlers of {@link HermesApi}. This module is loaded when a server for rollouts starts (`HermesServer`).
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as HttpRouter from "effect/http/HttpRouter"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Json from "../../base/domain/Json.ts"
import { RolloutPort, RolloutScore, RolloutWanted } from "../../base/domain/RolloutPort.ts"
import * as HttpListener from "../../base/platform/HttpListener.ts"
import * as ChatCompletionStream from "./ChatCompletionStream.ts"
import { api, rolloutHeader } from "./HermesApi.ts"
import type { Options, RunningServer } from "./HermesServer.ts"
import { makeModelList, parseWholeNumber } from "./OpenAiShapes.ts"
import {
  respondToFailure,
  type BodyReader,
  makeDecoder,
  makeJsonResponse,
  longestBody,
  makeBodyReader,
  serve as serveRoutes
} from "./ServedRoutes.ts"

const wanted = makeDecoder(RolloutWanted)
const score = makeDecoder(RolloutScore)

const makeChatHandler = (readBody: BodyReader) =>
  Effect.fnUntraced(function* (request: HttpServerRequest, named: string | undefined) {
    const rollouts = yield* RolloutPort
    const body = yield* readBody(request)
    const wantsStream = body["stream"] === true
    const given = named ?? request.headers[rolloutHeader]
    // The rollout is opened before the response begins, so that the header of a streamed response can contain its id.
    const id = given ?? (wantsStream ? (yield* rollouts.open({})).rollout_id : undefined)
    if (!wantsStream) {
      const answer = yield* rollouts.chat(id, body)
      return makeJsonResponse(answer.body, 200, { [rolloutHeader]: answer.rolloutId })
    }
    return yield* ChatCompletionStream.respond(
      Effect.map(rollouts.chat(id, body), (answer) => answer.body),
      {
        headers: id === undefined ? {} : { [rolloutHeader]: id },
        includeUsage: Json.readFields(body["stream_options"])["include_usage"] === true
      }
    )
  })

/** Makes the handlers of the API. */
const makeHandlers = (readBody: BodyReader) => {
  const chat = makeChatHandler(readBody)
  const models = Effect.map(
    RolloutPort.use(({ model }) => model),
    (name) => makeModelList([name])
  )
  const openai = HttpApiBuilder.group(api, "openai", (group) =>
    group
      .handleRaw("health", () => Effect.succeed(makeJsonResponse({ status: "ok" })))
      .handleRaw("models", () => respondToFailure(Effect.map(models, (list) => makeJsonResponse(list))))
      .handleRaw("chat", ({ request }) => respondToFailure(chat(request, undefined)))
  )
  const rollouts = HttpApiBuilder.group(api, "rollouts", (group) =>
    group
      .handleRaw("list", ({ query: { after, limit } }) =>
        respondToFailure(
          Effect.flatMap(parseWholeNumber("limit", limit, { least: 1, most: 1_000, other: 100 }), (most) =>
            Effect.map(
              RolloutPort.use(({ list }) => list({ after, limit: most })),
              (data) => makeJsonResponse({ data })
            )
          )
        )
      )
      .handleRaw("open", ({ request }) =>
        respondToFailure(
          readBody(request).pipe(
            Effect.flatMap(wanted),
            Effect.flatMap((one) => RolloutPort.use(({ open }) => open(one))),
            Effect.map((view) => makeJsonResponse(view, 201))
          )
        )
      )
      .handleRaw("view", ({ params }) =>
        respondToFailure(
          Effect.map(
            RolloutPort.use(({ view }) => view(params.id)),
            (view) => makeJsonResponse(view)
          )
        )
      )
      .handleRaw("finish", ({ params, request }) =>
        respondToFailure(
          readBody(request).pipe(
            // An empty body ends the rollout without a score.
            Effect.flatMap((body) => (Object.keys(body).length === 0 ? Effect.undefined : score(body))),
            Effect.flatMap((given) => RolloutPort.use(({ finish }) => finish(params.id, given))),
            Effect.map((view) => makeJsonResponse(view))
          )
        )
      )
      .handleRaw("export", ({ params }) =>
        respondToFailure(
          Effect.map(
            RolloutPort.use((port) => port.export(params.id)),
            (episode) => makeJsonResponse(episode)
          )
        )
      )
      .handleRaw("rolloutModels", () => respondToFailure(Effect.map(models, (list) => makeJsonResponse(list))))
      .handleRaw("rolloutChat", ({ params, request }) => respondToFailure(chat(request, params.id)))
  )
  return Layer.mergeAll(openai, rollouts)
}

/**
 * Serves the API for the lifetime of the scope. Fails with a reason if the options are not allowed or the port cannot
 * be used.
 */
export const serve = (options: Options): Effect.Effect<RunningServer, string, RolloutPort | Scope.Scope> =>
  Effect.gen(function* () {
    const rollouts = yield* RolloutPort
    const routes = HttpApiBuilder.layer(api, { openapiPath: "/openapi.json" }).pipe(
      Layer.provide(makeHandlers(makeBodyReader(options.maxBody ?? longestBody))),
      Layer.provide(HttpListener.layerServices)
    )
    const router = yield* HttpRouter.toHttpEffect(routes)
    return yield* serveRoutes(options, { router: Effect.provideService(router, RolloutPort, rollouts) })
  })
