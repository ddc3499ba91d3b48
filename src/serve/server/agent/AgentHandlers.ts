/**
 * The handlers of {@link AgentApi}, loaded when a server of an agent starts. `AgentServer` starts it.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Conversation from "../../../base/domain/Conversation.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { Answer } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import * as HttpListener from "../../../base/platform/HttpListener.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import * as McpHost from "../../../tools/mcp/McpHost.ts"
import * as ApiError from "../ApiError.ts"
import {
  respondToFailure,
  type BodyReader,
  makeDecoder,
  type Endpoints,
  grace,
  makeJsonResponse,
  longestBody,
  makeBodyReader,
  serve as serveRoutes
} from "../ServedRoutes.ts"
import type { Options, RunningServer } from "../HermesServer.ts"
import * as ServerKeys from "../ServerKeys.ts"
import * as SessionAudience from "../../../store/SessionAudience.ts"
import { makeModelList, parseWholeNumber } from "../OpenAiShapes.ts"
import { api, NewAnswer, NewMessage, NewSettings, sessionHeader } from "./AgentApi.ts"
import type { Exchange } from "./AgentExchange.ts"
import { AgentSessions } from "./AgentSessions.ts"
import * as OpenAiAnswers from "./OpenAiAnswers.ts"
import * as OpenAiMessages from "./OpenAiMessages.ts"
import type { ServedSession } from "./ServedSessions.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** The client of a request: the counts of its requests, and its MCP handler. */
class RequestClient extends Context.Service<
  RequestClient,
  { readonly requests: Map<string, number>; readonly mcp: (request: Request) => Effect.Effect<Response> }
>()("hermes-effect/server/RequestClient") {}

/** Time between two signs of life of a stream. */
const alive = "15 seconds"

/** A stream of events, kept alive by comments. */
const makeEventStream = <E>(
  text: Stream.Stream<string, E>,
  headers: Readonly<Record<string, string>> = {}
): Response => {
  const signs = Stream.map(Stream.fromSchedule(Schedule.spaced(alive)), () => ": alive\n\n")
  return HttpServerResponse.stream(Stream.encodeText(Stream.merge(text, signs, { haltStrategy: "left" })), {
    contentType: "text/event-stream; charset=utf-8",
    headers: { ...headers, "cache-control": "no-store", "x-accel-buffering": "no" }
  })
}

const secondsNow = Effect.map(Clock.currentTimeMillis, (now) => Math.floor(now / 1000))

const readModel = (body: Json.Fields): string => Json.readString(body["model"]) ?? "hermes"

const makeHeaders = ({ sessionId }: Exchange) => ({ [sessionHeader]: sessionId })

const makeChatHandler = (bodyOf: BodyReader) =>
  Effect.fnUntraced(function* (request: Request) {
    const body = yield* bodyOf(request)
    const exchange = yield* (yield* AgentSessions).exchange(
      yield* OpenAiMessages.readChatRequest(body, request.headers[sessionHeader])
    )
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

const makeResponseHandler = (bodyOf: BodyReader) =>
  Effect.fnUntraced(function* (request: Request) {
    const body = yield* bodyOf(request)
    const given = Json.readString(body["previous_response_id"])
    const previous = given === undefined ? undefined : OpenAiAnswers.readResponseId(given)
    if (given !== undefined && previous === undefined)
      return yield* ApiError.make(404, "response_not_found", `There is no response "${given}".`)
    const exchange = yield* (yield* AgentSessions).exchange(yield* OpenAiMessages.readResponseRequest(body, previous))
    const frame = {
      id: OpenAiAnswers.formatResponseId(exchange.sessionId, exchange.position),
      created: yield* secondsNow,
      model: readModel(body)
    }
    const repeated = {
      instructions: Json.readString(body["instructions"]) ?? null,
      previous_response_id: given ?? null,
      metadata: body["metadata"] ?? {}
    }
    if (body["stream"] !== true)
      return makeJsonResponse(yield* OpenAiAnswers.makeResponse(frame, repeated, exchange), 200, makeHeaders(exchange))
    return makeEventStream(OpenAiAnswers.streamResponse(frame, repeated, exchange), makeHeaders(exchange))
  })

const describeSession = Effect.fnUntraced(function* ({ id, live }: ServedSession) {
  const { mode, questions, queue, route, turn } = yield* live.state
  return {
    id,
    mode,
    model: route?.model ?? null,
    turn: turn === undefined ? null : { id: turn.id, message_id: turn.message.id, started_at: turn.startedAt },
    queue: queue.map((message) => ({ message_id: message.id, prompt: Redaction.redactText(message.shown) })),
    questions: questions.map((question) => question.id)
  }
})

/** Changes all that is asked for, or nothing. */
const changeSettings = Effect.fnUntraced(function* ({ live }: ServedSession, { mode, model }: typeof NewSettings.Type) {
  const models = model === undefined ? [] : yield* (yield* AgentSessions).models
  const found = models.find(({ id }) => id === model)
  if (model !== undefined && found === undefined && model !== "hermes")
    return yield* ApiError.make(404, "model_not_found", `There is no model "${model}". GET /v1/models lists them.`)
  if (mode !== undefined)
    yield* Effect.mapError(live.setMode(mode), ({ message }) => ApiError.make(403, "mode_unavailable", message))
  if (model !== undefined) yield* live.setRoute(found?.route)
})

const toAnswer = (given: typeof NewAnswer.Type): Answer => {
  if ("answers" in given) return { _tag: "Clarification", answers: given.answers }
  return "mode" in given ? { _tag: "Plan", ...given } : { _tag: "Approval", reply: given }
}

const submitAnswer = (
  live: LiveSession,
  question: string,
  given: typeof NewAnswer.Type
): Effect.Effect<void, ApiError.ApiError> =>
  Effect.mapError(live.answer(question, toAnswer(given)), ({ message, reason }) =>
    reason === "closed"
      ? ApiError.make(404, "question_not_open", message)
      : ApiError.make(400, "invalid_request", message)
  )

const onlyOnce = ApiError.make(
  403,
  "choice_unavailable",
  "Approvals by a named key hold for one call, longer ones are for the owner of the server: answer with once or deny."
)

/** Tests an answer that approves more than the call that is asked about. */
const isLasting = (given: typeof NewAnswer.Type): boolean =>
  "choice" in given && (given.choice === "session" || given.choice === "always")

/** The events of a session, from the one behind `Last-Event-ID` (or `after`) on. */
const streamFeed = Effect.fnUntraced(function* (request: Request, session: ServedSession, after: string | undefined) {
  const from = yield* parseWholeNumber("Last-Event-ID", request.headers["last-event-id"] ?? after, {
    most: Number.MAX_SAFE_INTEGER,
    other: 0
  })
  const text = Stream.map(session.feed.after(from), ({ data, id }) => `id: ${id}\ndata: ${data}\n\n`)
  return makeEventStream(Stream.concat(Stream.make(": connected\n\n"), text))
})

const listMessages = ({ live }: ServedSession): Effect.Effect<Response, ApiError.ApiError> =>
  live.messages.pipe(
    Effect.mapError(({ message }) => ApiError.make(500, "store_failed", message)),
    Effect.map((messages) =>
      makeJsonResponse({
        data: messages.flatMap((message) => {
          const content = Conversation.readText(message)
          const calls = Conversation.listToolCalls(message).map(({ id, name, params }) => ({
            id,
            name,
            arguments: params
          }))
          return message.role === "system" || (content === "" && calls.length === 0 && message.role !== "tool")
            ? []
            : [Redaction.redactValue({ role: message.role, content, ...(calls.length === 0 ? {} : { calls }) })]
        })
      })
    )
  )

const listSessions = Effect.fnUntraced(function* (limit: number) {
  const store = yield* SessionStore
  const { client } = yield* AgentSessions
  const all = yield* Effect.mapError(
    store.list({ source: SessionAudience.formatSource("api-server", client), limit }),
    ({ message }) => ApiError.make(500, "store_failed", message)
  )
  return {
    data: all.map(({ endedAt, id, messageCount, model, source, startedAt, title }) => ({
      id,
      title: title ?? null,
      source,
      model,
      messages: messageCount,
      started_at: startedAt,
      ended_at: endedAt ?? null
    }))
  }
})

const makeRequestDecoder = <S extends Schema.Codec<unknown, unknown, never, never>>(bodyOf: BodyReader, schema: S) => {
  const decode = makeDecoder(schema)
  return (request: Request): Effect.Effect<S["Type"], ApiError.ApiError> => Effect.flatMap(bodyOf(request), decode)
}

const nothing = HttpServerResponse.empty({ status: 204 })

/** Numbers of the server in the text form of Prometheus. */
const renderMetrics = (counts: AgentSessions["Service"]["counts"], requests: ReadonlyMap<string, number>): string => {
  const { open, readers, turns, usage } = counts()
  const renderMetric = (
    name: string,
    type: "counter" | "gauge",
    help: string,
    rows: ReadonlyArray<readonly [labels: string, value: number]>
  ): string =>
    `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${rows.map(([labels, value]) => `${name}${labels} ${value}\n`).join("")}`
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
    renderMetric("hermes_tokens_total", "counter", "Tokens of models, by kind.", [
      [`{kind="input"}`, usage.inputTokens],
      [`{kind="cache_read"}`, usage.cacheReadTokens],
      [`{kind="cache_write"}`, usage.cacheWriteTokens],
      [`{kind="output"}`, usage.outputTokens]
    ])
  )
}

const makeHandlers = (bodyOf: BodyReader) => {
  const settings = makeRequestDecoder(bodyOf, NewSettings)
  const message = makeRequestDecoder(bodyOf, NewMessage)
  const reply = makeRequestDecoder(bodyOf, NewAnswer)
  const openSession = (id: string) => AgentSessions.use(({ open }) => open(id))
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
      .handleRaw("models", () =>
        respondToFailure(
          Effect.map(
            AgentSessions.use(({ models }) => models),
            (all) => makeJsonResponse(makeModelList(["hermes", ...all.map(({ id }) => id)]))
          )
        )
      )
      .handleRaw("chat", ({ request }) => respondToFailure(makeChatHandler(bodyOf)(request)))
      .handleRaw("respond", ({ request }) => respondToFailure(makeResponseHandler(bodyOf)(request)))
  )
  const sessions = HttpApiBuilder.group(api, "sessions", (group) =>
    group
      .handleRaw("list", ({ query }) =>
        respondToFailure(
          Effect.flatMap(parseWholeNumber("limit", query.limit, { least: 1, most: 1_000, other: 100 }), (limit) =>
            Effect.map(listSessions(limit), (list) => makeJsonResponse(list))
          )
        )
      )
      .handleRaw("open", ({ request }) =>
        respondToFailure(
          Effect.gen(function* () {
            const given = yield* settings(request)
            const { close, open } = yield* AgentSessions
            const made = yield* open()
            yield* Effect.onError(changeSettings(made, given), () => close(made.id))
            return makeJsonResponse(yield* describeSession(made), 201, { [sessionHeader]: made.id })
          })
        )
      )
      .handleRaw("view", ({ params }) =>
        respondToFailure(
          Effect.map(Effect.flatMap(openSession(params.id), describeSession), (view) => makeJsonResponse(view))
        )
      )
      .handleRaw("change", ({ params, request }) =>
        respondToFailure(
          Effect.gen(function* () {
            const given = yield* settings(request)
            const found = yield* openSession(params.id)
            yield* changeSettings(found, given)
            return makeJsonResponse(yield* describeSession(found))
          })
        )
      )
      .handleRaw("close", ({ params }) =>
        respondToFailure(
          Effect.flatMap(
            AgentSessions.use(({ close }) => close(params.id)),
            (isClosed) =>
              isClosed
                ? Effect.succeed(nothing)
                : Effect.fail(ApiError.make(404, "session_not_open", `Session "${params.id}" is not open.`))
          )
        )
      )
      .handleRaw("messages", ({ params }) => respondToFailure(Effect.flatMap(openSession(params.id), listMessages)))
      .handleRaw("send", ({ params, request }) =>
        respondToFailure(
          Effect.gen(function* () {
            const given = yield* message(request)
            const { live } = yield* openSession(params.id)
            const sent = yield* live.send(given)
            return makeJsonResponse({ status: sent._tag.toLowerCase(), message_id: sent.message.id }, 202)
          })
        )
      )
      .handleRaw("events", ({ params, query, request }) =>
        respondToFailure(Effect.flatMap(openSession(params.id), (found) => streamFeed(request, found, query.after)))
      )
      .handleRaw("answer", ({ params, request }) =>
        respondToFailure(
          Effect.gen(function* () {
            const given = yield* reply(request)
            const { live } = yield* openSession(params.id)
            const { client } = yield* AgentSessions
            if (client !== undefined && isLasting(given)) return yield* onlyOnce
            yield* submitAnswer(live, params.question, given)
            return nothing
          })
        )
      )
      .handleRaw("stop", ({ params }) =>
        respondToFailure(
          Effect.gen(function* () {
            const { live } = yield* openSession(params.id)
            // Before the turn ends, which would begin what is next.
            const messages = yield* live.takeBack
            const stopped = yield* live.stop
            const returned = messages.map((message) => ({
              message_id: message.id,
              prompt: Redaction.redactText(message.shown)
            }))
            return makeJsonResponse({ stopped, returned })
          })
        )
      )
  )
  return Layer.mergeAll(life, openai, sessions)
}

/** Values that the requests of a client are answered with. */
export interface ServedClient {
  readonly sessions: AgentSessions["Service"]
  readonly mcpTools: ReadonlyArray<McpHost.OfferedTool>
}

const noTools = ApiError.make(404, "not_found", "This server offers no tools over MCP.")

/** Makes the handler of MCP, with the tools of a client. */
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
      // The connection is the server's: a client that asked for its end waited for it in vain.
      return HttpServerResponse.removeHeader(answer, "connection")
    }).pipe(
      Effect.catch(() =>
        Effect.succeed(ApiError.toResponse(ApiError.make(400, "invalid_request", "The request cannot be read.")))
      )
    )
})

/** Serves the API as long as the scope lives: `own` to the key of the server, each of `named` to its key. */
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
    const makeEndpoints = ({ mcpTools, sessions }: ServedClient) =>
      Effect.map(makeMcpHandler(mcpTools), (mcp): Endpoints => {
        const requests = new Map<string, number>()
        // Excludes the server's scope: resources that a request opens close with the request.
        const services = Context.make(SessionStore, store).pipe(
          Context.add(AgentSessions, sessions),
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
    // Clients that were not answered in time get the reason before connections are closed.
    const giveUp = Effect.andThen(
      Effect.sleep(options.maxGrace ?? grace),
      useAllSessions(({ closeAll }) => closeAll)
    )
    yield* Effect.forkScoped(Effect.andThen(Deferred.await(ending), giveUp))
    const running = yield* serveRoutes(options, yield* makeEndpoints(own), ofKeys)
    // Runs before waiting for open requests, since clients that only listen would never finish.
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        useAllSessions(({ drain }) => drain),
        Deferred.succeed(ending, undefined)
      )
    )
    return running
  })
