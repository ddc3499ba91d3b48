/**
 * The handlers of {@link HermesApi} and the server around them, loaded when one starts. `HermesServer` starts it.
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Json from "../domain/Json.ts"
import { RolloutPort, RolloutScore, RolloutWanted } from "../domain/RolloutPort.ts"
import * as HttpListener from "../platform/HttpListener.ts"
import * as ApiError from "./ApiError.ts"
import * as ChatCompletionStream from "./ChatCompletionStream.ts"
import { api, rolloutHeader } from "./HermesApi.ts"
import type { Options, Running } from "./HermesServer.ts"
import * as ServerGuard from "./ServerGuard.ts"

const longestBody = 32 * 1024 * 1024

/** Time that requests under way have when the server ends. */
const graceful = "10 seconds"

/** Reads a body as a JSON object. */
const objectOf = (maxBody: number) => (request: HttpServerRequest): Effect.Effect<Json.Fields, ApiError.ApiError> => {
  const type = request.headers["content-type"] ?? ""
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/iu.test(type)) {
    return Effect.fail(ApiError.make(415, "unsupported_media_type", "Send the body as JSON, with content-type: application/json."))
  }
  return request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBody)),
    Effect.mapError(() => ApiError.make(413, "body_too_large", `The body cannot be read, or has more than ${maxBody} bytes.`)),
    Effect.flatMap((text) => {
      const value = Option.getOrUndefined(Json.parse(text === "" ? "{}" : text))
      return Json.isFields(value)
        ? Effect.succeed(value)
        : Effect.fail(ApiError.make(400, "invalid_json", value === undefined ? "The body is not JSON." : "The body is JSON, but no object."))
    })
  )
}

const decoded = <S extends Schema.Codec<unknown, unknown, never, never>>(schema: S) => {
  const decode = Schema.decodeUnknownEffect(schema)
  return (value: unknown): Effect.Effect<S["Type"], ApiError.ApiError> =>
    Effect.mapError(decode(value, { onExcessProperty: "error" }), (error) =>
      ApiError.make(400, "invalid_request", `The body does not fit: ${error.message.replace(/\s+/gu, " ")}`))
}

const wanted = decoded(RolloutWanted)
const score = decoded(RolloutScore)

const answered = <E, R>(work: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catch(work, (error) => Effect.succeed(ApiError.respond(ApiError.of(error))))

const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe(value, { status, headers: { "cache-control": "no-store", ...headers } })

const chatOf = (bodyOf: ReturnType<typeof objectOf>) => Effect.fnUntraced(function*(request: HttpServerRequest, named: string | undefined) {
  const rollouts = yield* RolloutPort
  const body = yield* bodyOf(request)
  const wantsStream = body["stream"] === true
  const given = named ?? request.headers[rolloutHeader]
  // Opened before the answer begins, so that the header of a stream can name it.
  const id = given ?? (wantsStream ? (yield* rollouts.open({})).rollout_id : undefined)
  if (!wantsStream) {
    const answer = yield* rollouts.chat(id, body)
    return json(answer.body, 200, { [rolloutHeader]: answer.rolloutId })
  }
  return yield* ChatCompletionStream.respond(Effect.map(rollouts.chat(id, body), (answer) => answer.body), {
    headers: id === undefined ? {} : { [rolloutHeader]: id },
    includeUsage: Json.fields(body["stream_options"])["include_usage"] === true
  })
})

const mostListed = 1000

/** The length of a list: 100 when it is not given. */
const limitOf = (given: string | undefined): Effect.Effect<number, ApiError.ApiError> => {
  const limit = Number(given ?? 100)
  return Number.isInteger(limit) && limit >= 1 && limit <= mostListed
    ? Effect.succeed(limit)
    : Effect.fail(ApiError.make(400, "invalid_request", `limit is a whole number from 1 to ${mostListed}.`))
}

/** The handlers of the API. */
const handlers = (bodyOf: ReturnType<typeof objectOf>) => {
  const chat = chatOf(bodyOf)
  const models = Effect.map(RolloutPort.use(({ model }) => model), (name) => ({ object: "list", data: [{ id: name, object: "model", created: 0, owned_by: "hermes" }] }))
  const openai = HttpApiBuilder.group(api, "openai", (group) =>
    group
      .handleRaw("health", () => Effect.succeed(json({ status: "ok" })))
      .handleRaw("models", () => answered(Effect.map(models, (list) => json(list))))
      .handleRaw("chat", ({ request }) => answered(chat(request, undefined))))
  const rollouts = HttpApiBuilder.group(api, "rollouts", (group) =>
    group
      .handleRaw("list", ({ query: { after, limit } }) =>
        answered(Effect.flatMap(limitOf(limit), (most) => Effect.map(RolloutPort.use(({ list }) => list({ after, limit: most })), (data) => json({ data })))))
      .handleRaw("open", ({ request }) =>
        answered(bodyOf(request).pipe(
          Effect.flatMap(wanted),
          Effect.flatMap((one) => RolloutPort.use(({ open }) => open(one))),
          Effect.map((view) => json(view, 201))
        )))
      .handleRaw("view", ({ params }) => answered(Effect.map(RolloutPort.use(({ view }) => view(params.id)), (view) => json(view))))
      .handleRaw("finish", ({ params, request }) =>
        answered(bodyOf(request).pipe(
          // A rollout may end without a score: it was given up.
          Effect.flatMap((body) => Object.keys(body).length === 0 ? Effect.undefined : score(body)),
          Effect.flatMap((given) => RolloutPort.use(({ finish }) => finish(params.id, given))),
          Effect.map((view) => json(view))
        )))
      .handleRaw("export", ({ params }) => answered(Effect.map(RolloutPort.use((port) => port.export(params.id)), (episode) => json(episode))))
      .handleRaw("rolloutModels", () => answered(Effect.map(models, (list) => json(list))))
      .handleRaw("rolloutChat", ({ params, request }) => answered(chat(request, params.id))))
  return Layer.mergeAll(openai, rollouts)
}

const unknownPlace = ApiError.make(404, "not_found", "There is nothing at this address. GET /openapi.json describes the API.")

/** Serves the API as long as the scope lives. Fails with the reason when it may not be started so, or the port cannot be used. */
export const serve = (options: Options): Effect.Effect<Running, string, RolloutPort | Scope.Scope> =>
  Effect.gen(function*() {
    const { allowedHosts = [], allowedOrigins = [], host = "127.0.0.1", key, maxBody = longestBody, maxConnections = 1024, maxRequests = 256, port } = options
    const admission: ServerGuard.Options = { host, key, allowedHosts, allowedOrigins, maxRequests }
    const refusal = ServerGuard.refusal(admission)
    if (refusal !== undefined) return yield* Effect.fail(refusal)
    const rollouts = yield* RolloutPort
    const routes = HttpApiBuilder.layer(api, { openapiPath: "/openapi.json" }).pipe(
      Layer.provide(handlers(objectOf(maxBody))),
      Layer.provide(HttpListener.layerServices)
    )
    const router = yield* HttpRouter.toHttpEffect(routes)
    const listener = yield* HttpListener.open({ host, port, maxConnections, requestTimeoutMillis: 120_000, graceful })
    const bounded = ServerGuard.bounded(maxRequests)
    const answer = Effect.gen(function*() {
      const request = yield* HttpServerRequest
      const problem = ServerGuard.problem(admission, request)
      return problem === undefined ? yield* bounded(router) : ApiError.respond(problem)
    }).pipe(
      Effect.catchTag("HttpServerError", () => Effect.succeed(ApiError.respond(unknownPlace))),
      Effect.provideService(RolloutPort, rollouts),
      Effect.tapDefect((defect) => Effect.logError("a request failed", defect)),
      Effect.catchDefect((defect) => Effect.succeed(ApiError.respond(ApiError.of(defect)))),
      Effect.map(HttpServerResponse.setHeader("x-content-type-options", "nosniff"))
    )
    yield* listener.serve(answer)
    return { url: `http://${host.includes(":") ? `[${host}]` : host}:${listener.port}` }
  })
