/**
 * The handlers of {@link AgentApi}. This module is loaded when a server for an agent starts (`AgentServer`).
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Ids from "../../../base/domain/Ids.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as HttpListener from "../../../base/platform/HttpListener.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import { CurrentTenant } from "../../../store/TenantScope.ts"
import * as McpHost from "../../../tools/mcp/McpHost.ts"
import * as ApiError from "../ApiError.ts"
import {
  respondToFailure,
  type BodyReader,
  type Endpoints,
  grace,
  makeEventStream,
  makeJsonResponse,
  longestBody,
  makeBodyReader,
  serve as serveRoutes
} from "../ServedRoutes.ts"
import type { Options, RunningServer } from "../HermesServer.ts"
import * as ServerKeys from "../ServerKeys.ts"
import { makeModelList } from "../OpenAiShapes.ts"
import { api, sessionHeader } from "./AgentApi.ts"
import type { Exchange } from "./AgentExchange.ts"
import { AgentSessions } from "./AgentSessions.ts"
import * as AnthropicAnswers from "./AnthropicAnswers.ts"
import * as ConversationHandlers from "./ConversationHandlers.ts"
import * as MessagesHandlers from "./MessagesHandlers.ts"
import * as OpenAiAnswers from "./OpenAiAnswers.ts"
import * as OpenAiMessages from "./OpenAiMessages.ts"
import * as ResponseHandlers from "./ResponseHandlers.ts"
import * as SessionQuestions from "./SessionQuestions.ts"
import * as SessionHandlers from "./SessionHandlers.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** Service for the client that sent a request: the counts of its requests by status, and its MCP handler. */
class RequestClient extends Context.Service<
  RequestClient,
  { readonly requests: Map<string, number>; readonly mcp: (request: Request) => Effect.Effect<Response> }
>()("hermes-effect/server/RequestClient") {}

const secondsNow = Effect.map(Clock.currentTimeMillis, (now) => Math.floor(now / 1000))

const readModel = (body: Json.Fields): string => Json.readString(body["model"]) ?? "hermes"

const makeHeaders = ({ sessionId }: Exchange) => ({ [sessionHeader]: sessionId })

const makeChatHandler = (readBody: BodyReader) =>
  Effect.fnUntraced(function* (request: Request) {
    const body = yield* readBody(request)
    const asked = yield* OpenAiMessages.readChatRequest(body, request.headers[sessionHeader])
    const unanswered = yield* SessionQuestions.readUnanswered(request)
    const exchange = yield* (yield* AgentSessions).exchange({ ...asked, unanswered })
    const frame = { id: `chatcmpl-${yield* Ids.makeHex(24)}`, created: yield* secondsNow, model: readModel(body) }
    if (body["stream"] !== true)
      return makeJsonResponse(yield* OpenAiAnswers.makeCompletion(frame, exchange), 200, makeHeaders(exchange))
    return makeEventStream(
      OpenAiAnswers.streamCompletion(
        frame,
        exchange,
        Json.readFields(body["stream_options"])["include_usage"] === true
      ),
      makeHeaders(exchange)
    )
  })

/** Renders the metrics of the server in the Prometheus text format. */
const renderMetrics = (counts: AgentSessions["Service"]["counts"], requests: ReadonlyMap<string, number>): string => {
  const { open, readers, turns, usage } = counts()
  const renderMetric = (
    name: string,
    type: "counter" | "gauge",
    help: string,
    rows: ReadonlyArray<readonly [labels: string, value: number]>
  ): string => {
    const values = rows.map(([labels, value]) => `${name}${labels} ${value}\n`).join("")
    return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${values}`
  }
  return (
    renderMetric(
      "hermes_requests_total",
      "counter",
      "Requests that were answered, by status.",
      Array.from(requests, ([status, count]) => [`{status="${status}"}`, count])
    ) +
    renderMetric("hermes_sessions_open", "gauge", "Sessions that are open.", [["", open]]) +
    renderMetric("hermes_event_readers", "gauge", "Readers of the events of sessions.", [["", readers]]) +
    renderMetric("hermes_turns_total", "counter", "Turns that were begun.", [["", turns]]) +
    renderMetric("hermes_tokens_total", "counter", "Model tokens, by kind.", [
      [`{kind="input"}`, usage.inputTokens],
      [`{kind="cache_read"}`, usage.cacheReadTokens],
      [`{kind="cache_write"}`, usage.cacheWriteTokens],
      [`{kind="output"}`, usage.outputTokens]
    ])
  )
}

/** Lists the models in the form of the API that the client speaks. */
const describeModels = Effect.fnUntraced(function* ({ headers }: Request) {
  const models = yield* AgentSessions.use(({ models }) => models)
  const list = makeModelList(["hermes", ...models.map(({ id }) => id)])
  return headers["anthropic-version"] === undefined ? list : AnthropicAnswers.listModels(list.data.map(({ id }) => id))
})

const listModels = (request: Request) => Effect.map(describeModels(request), (list) => makeJsonResponse(list))

const findModel = Effect.fnUntraced(function* (request: Request, id: string) {
  const { data } = yield* describeModels(request)
  const found = data.find((one) => one.id === id)
  return found === undefined
    ? yield* ApiError.make(404, "model_not_found", `There is no model "${id}".`)
    : makeJsonResponse(found)
})

const makeHandlers = (readBody: BodyReader) => {
  const life = HttpApiBuilder.group(api, "life", (group) =>
    group
      .handleRaw("health", () => Effect.succeed(makeJsonResponse({ status: "ok" })))
      .handleRaw("metrics", () =>
        Effect.gen(function* () {
          const { counts } = yield* AgentSessions
          const { requests } = yield* RequestClient
          return HttpServerResponse.text(renderMetrics(counts, requests), {
            contentType: "text/plain; version=0.0.4; charset=utf-8"
          })
        })
      )
  )
  const openai = HttpApiBuilder.group(api, "openai", (group) =>
    group
      .handleRaw("models", ({ request }) => respondToFailure(listModels(request)))
      .handleRaw("model", ({ params, request }) => respondToFailure(findModel(request, params.id)))
      .handleRaw("chat", ({ request }) => respondToFailure(makeChatHandler(readBody)(request)))
  )
  return Layer.mergeAll(
    life,
    openai,
    ResponseHandlers.makeResponseHandlers(readBody),
    ConversationHandlers.makeConversationHandlers(readBody),
    MessagesHandlers.makeMessageHandlers(readBody),
    SessionHandlers.layer(readBody)
  )
}

/** Values that are needed to answer the requests of a client. */
export interface ServedClient {
  readonly sessions: AgentSessions["Service"]
  readonly mcpTools: ReadonlyArray<McpHost.OfferedTool>
  /** Tenant of the client, to whose sessions its requests are limited. */
  readonly tenant: string | undefined
}

const noTools = ApiError.make(404, "not_found", "This server offers no tools over MCP.")

/** Makes the MCP handler with the tools of a client. */
const makeMcpHandler = Effect.fnUntraced(function* (
  tools: ReadonlyArray<McpHost.OfferedTool>
): Effect.fn.Return<RequestClient["Service"]["mcp"], string, Scope.Scope> {
  if (tools.length === 0) return () => Effect.succeed(ApiError.toResponse(noTools))
  const handle = yield* Effect.mapError(McpHost.makeHandler(tools), ({ message }) => message)
  return (request) =>
    Effect.gen(function* () {
      const web = yield* HttpServerRequest.toWeb(request)
      const answer = HttpServerResponse.fromWeb(
        yield* Effect.promise((signal) => handle(new globalThis.Request(web, { signal })))
      )
      // The server manages the connection. The header set by the MCP handler would keep a connection open although the
      // client asked to close it.
      return HttpServerResponse.removeHeader(answer, "connection")
    }).pipe(
      Effect.catch(() =>
        Effect.succeed(ApiError.toResponse(ApiError.make(400, "invalid_request", "The request cannot be read.")))
      )
    )
})

/**
 * Serves the API for the lifetime of the scope. Clients with the server's own key use `own`; clients with a named key
 * use its entry in `named`.
 */
export const serve = (
  options: Options,
  own: ServedClient,
  named: ReadonlyArray<ServedClient & { readonly key: ServerKeys.NamedKey }>
): Effect.Effect<RunningServer, string, Scope.Scope | SessionStore> =>
  Effect.gen(function* () {
    const store = yield* SessionStore
    const routes = Layer.mergeAll(
      HttpApiBuilder.layer(api, { openapiPath: "/openapi.json" }),
      HttpRouter.add("*", "/mcp", (request) => RequestClient.use(({ mcp }) => mcp(request)))
    ).pipe(
      Layer.provide(makeHandlers(makeBodyReader(options.maxBody ?? longestBody))),
      Layer.provide(HttpListener.layerServices)
    )
    const router = yield* HttpRouter.toHttpEffect(routes)
    const makeEndpoints = ({ mcpTools, sessions, tenant }: ServedClient) =>
      Effect.map(makeMcpHandler(mcpTools), (mcp): Endpoints => {
        const requests = new Map<string, number>()
        // Does not include the server's scope, so that resources opened by a request are closed when the request ends.
        const services = Context.make(SessionStore, store).pipe(
          Context.add(AgentSessions, sessions),
          Context.add(CurrentTenant, tenant),
          Context.add(RequestClient, { requests, mcp })
        )
        return {
          router: Effect.provideContext(router, services),
          onAnswered: (status) => void requests.set(`${status}`, (requests.get(`${status}`) ?? 0) + 1)
        }
      })
    const ofKeys = yield* Effect.forEach(named, (one) =>
      Effect.map(makeEndpoints(one), (endpoints) => ({ ...one.key, ...endpoints }))
    )
    const useAllSessions = (use: (sessions: AgentSessions["Service"]) => Effect.Effect<void>) =>
      Effect.forEach([own, ...named], ({ sessions }) => use(sessions), { concurrency: "unbounded", discard: true })
    const ending = yield* Deferred.make<void>()
    // Clients whose requests were not answered in time receive the reason before their connections are closed.
    const giveUp = Effect.andThen(
      Effect.sleep(options.maxGrace ?? grace),
      useAllSessions(({ closeAll }) => closeAll)
    )
    yield* Effect.forkScoped(Effect.andThen(Deferred.await(ending), giveUp))
    const running = yield* serveRoutes(options, yield* makeEndpoints(own), ofKeys)
    // Runs before the server waits for open requests, because event streams would never end.
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        useAllSessions(({ drain }) => drain),
        Deferred.succeed(ending, undefined)
      )
    )
    return running
  })
