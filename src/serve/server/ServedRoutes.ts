/**
 * Serves the endpoints of an API. Checks keys and limits, converts errors to one format, and answers active requests
 * before the server ends.
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import type * as HttpServerError from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Json from "../../base/domain/Json.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import * as HttpListener from "../../base/platform/HttpListener.ts"
import * as AnthropicError from "./AnthropicError.ts"
import * as ApiError from "./ApiError.ts"
import type { Options, RunningServer } from "./HermesServer.ts"
import * as ServerGuard from "./ServerGuard.ts"
import type * as ServerKeys from "./ServerKeys.ts"

/** Default maximum size of a body, in bytes. */
export const longestBody = 32 * 1024 * 1024

/** Default maximum total size of the bodies of all active requests, in bytes. */
const mostBodies = 256 * 1024 * 1024

/** Default number of milliseconds that active requests may take to finish when the server ends. */
export const grace = 10_000

/**
 * Time in milliseconds, after the grace period, in which interrupted requests are notified before their connections are
 * closed.
 */
const parting = 2_000

/** Reads the body of a request as a JSON object. */
export type BodyReader = (request: HttpServerRequest) => Effect.Effect<Json.Fields, ApiError.ApiError>

/** Makes a reader of bodies up to a maximum size. */
export const makeBodyReader =
  (maxBody: number): BodyReader =>
  (request) => {
    const type = request.headers["content-type"] ?? ""
    if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/iu.test(type)) {
      return Effect.fail(
        ApiError.make(415, "unsupported_media_type", "Send the body as JSON, with content-type: application/json.")
      )
    }
    return request.text.pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBody)),
      Effect.mapError(() =>
        ApiError.make(413, "body_too_large", `The body cannot be read, or has more than ${maxBody} bytes.`)
      ),
      Effect.flatMap((text) => {
        const value = Option.getOrUndefined(Json.parse(text === "" ? "{}" : text))
        return Json.isFields(value)
          ? Effect.succeed(value)
          : Effect.fail(
              ApiError.make(
                400,
                "invalid_json",
                value === undefined ? "The body is not JSON." : "The body is JSON, but no object."
              )
            )
      })
    )
  }

/** Time between two keep-alive comments of a stream. */
const alive = "15 seconds"

/** Makes a response of server-sent events. Comments keep the connection alive. */
export const makeEventStream = <E>(
  text: Stream.Stream<string, E>,
  headers: Readonly<Record<string, string>> = {}
): HttpServerResponse.HttpServerResponse => {
  const signs = Stream.map(Stream.fromSchedule(Schedule.spaced(alive)), () => ": alive\n\n")
  return HttpServerResponse.stream(Stream.encodeText(Stream.merge(text, signs, { haltStrategy: "left" })), {
    contentType: "text/event-stream; charset=utf-8",
    headers: { ...headers, "cache-control": "no-store", "x-accel-buffering": "no" }
  })
}

/** Makes a decoder of bodies. Its error names the invalid field. */
export const makeDecoder = <S extends Schema.Codec<unknown, unknown, never, never>>(schema: S) => {
  const decode = Schema.decodeUnknownEffect(schema)
  return (value: unknown): Effect.Effect<S["Type"], ApiError.ApiError> =>
    Effect.mapError(decode(value, { onExcessProperty: "error" }), (error) =>
      ApiError.make(400, "invalid_request", `The body does not fit: ${error.message.replace(/\s+/gu, " ")}`)
    )
}

/** Responds with the error if the effect fails. */
export const respondToFailure = <E, R>(
  work: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catch(work, (error) => Effect.succeed(ApiError.toResponse(ApiError.fromError(error))))

/** Makes a JSON response that caches must not store. */
export const makeJsonResponse = (
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe(value, { status, headers: { "cache-control": "no-store", ...headers } })

const unknownPlace = ApiError.make(
  404,
  "not_found",
  "There is nothing at this address. GET /openapi.json describes the API."
)

/** An HTTP router that answers every request with a response. */
type Router = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  HttpServerError.HttpServerError,
  HttpServerRequest | Scope.Scope
>

/** Endpoints that are served only to admitted clients. */
export interface Endpoints {
  readonly router: Router
  /** Called with the status of each response. */
  readonly onAnswered?: ((status: number) => void) | undefined
}

/**
 * Serves endpoints for the lifetime of the scope. Clients with the server's own key use `own`; clients with a named key
 * use its entry in `named`. `own` is also notified of refused clients. Fails with a reason if the options are not
 * allowed or the port cannot be used.
 */
export const serve = (
  options: Options,
  own: Endpoints,
  named: ReadonlyArray<Endpoints & ServerKeys.NamedKey> = []
): Effect.Effect<RunningServer, string, Scope.Scope> =>
  Effect.gen(function* () {
    const {
      allowedHosts = [],
      allowedOrigins = [],
      host = "127.0.0.1",
      maxBody = longestBody,
      maxConnections = 1024,
      maxGrace = grace,
      maxRequests = 512,
      maxStall = 60_000,
      port
    } = options
    const refusal = ServerGuard.explainRefusal({ host, key: options.key, open: options.open }, named)
    if (refusal !== undefined) return yield* Effect.fail(refusal)
    const key = yield* ServerGuard.provideKey(options, named)
    const admission: ServerGuard.Options = { host, key, allowedHosts, allowedOrigins }
    const secrets = yield* Secrets
    for (const one of [...(key === undefined ? [] : [key]), ...named.map(({ key }) => key)]) secrets.add(one)
    const listener = yield* HttpListener.open({
      host,
      port,
      maxConnections,
      requestTimeoutMillis: 120_000,
      graceful: maxGrace + parting,
      stallMillis: maxStall
    })
    const bounds: ServerGuard.Bounds = {
      maxRequests,
      maxConnections,
      maxBody,
      maxBodies: Math.max(maxBody, options.maxBodies ?? mostBodies)
    }
    const ofAll = ServerGuard.makeLimiter(bounds)
    const keys = named.map((one) => ({
      ...one,
      bounded: ServerGuard.makeLimiter({
        ...bounds,
        maxRequests: one.maxRequests ?? maxRequests,
        maxConnections: one.maxConnections ?? maxConnections
      })
    }))
    const answer = Effect.gen(function* () {
      const request = yield* HttpServerRequest
      const admitted = ServerGuard.admit(admission, keys, request)
      const client = Result.getOrUndefined(admitted)
      const { onAnswered, router } = client ?? own
      const work = Result.isFailure(admitted)
        ? Effect.succeed(AnthropicError.respondTo(request.url, admitted.failure))
        : ofAll(request, client === undefined ? router : client.bounded(request, router))
      const response = yield* work.pipe(
        Effect.catchTag("HttpServerError", () => Effect.succeed(AnthropicError.respondTo(request.url, unknownPlace))),
        Effect.tapDefect((defect) => Effect.logError("a request failed", defect)),
        Effect.catchDefect((defect) =>
          Effect.succeed(AnthropicError.respondTo(request.url, ApiError.fromError(defect)))
        )
      )
      onAnswered?.(response.status)
      return HttpServerResponse.setHeader(response, "x-content-type-options", "nosniff")
    })
    yield* listener.serve(answer)
    return { url: `http://${host.includes(":") ? `[${host}]` : host}:${listener.port}`, key }
  })
