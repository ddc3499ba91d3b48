/**
 * Runs requests to the agent, each in the session that it continues or in a new session.
 *
 * **Details**
 *
 * A request names its session, or the session is recognized by the messages. If a client stores the messages itself and
 * sends all of them, it continues the session that ends with the same messages. A new session starts if the messages
 * are unknown, if several sessions have them, or if their session has continued since.
 *
 * A request that follows a response continues its session if nothing follows that response and the session is not
 * answering another request. Otherwise it continues in a fork, so that several requests after one response are answered
 * independently of each other. If two concurrent requests name the same session, one is refused, because both would
 * write to the same conversation.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../../agent/Agent.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import type { SessionStoreError } from "../../../base/domain/AgentError.ts"
import type { Route } from "../../../base/domain/Route.ts"
import * as SystemPrompt from "../../../tools/prompt/SystemPrompt.ts"
import { ModelRouter } from "../../../models/routing/ModelRouter.ts"
import * as SessionFork from "../../../store/SessionFork.ts"
import { type Session, SessionStore } from "../../../store/SessionStore.ts"
import { ToolRegistry } from "../../../tools/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as AgentExchange from "./AgentExchange.ts"
import * as ClientTools from "./ClientTools.ts"
import type { NumberedEvent } from "./EventFeed.ts"
import type { EventId } from "./EventPlace.ts"
import * as KnownConversations from "./KnownConversations.ts"
import * as ResumedEvents from "./ResumedEvents.ts"
import * as ServedSessions from "./ServedSessions.ts"
import * as StoredConversations from "./StoredConversations.ts"

/** A model that requests may name. */
export interface ServedModel {
  readonly id: string
  /** The model route. `undefined` leaves the choice to the router. */
  readonly route: Route | undefined
}

/** Options that all sessions share. */
export interface Options extends ServedSessions.Options {
  readonly models: Effect.Effect<ReadonlyArray<ServedModel>>
}

/** Service for the sessions of a server. */
export interface Service {
  readonly exchange: (
    request: AgentExchange.Request
  ) => Effect.Effect<AgentExchange.Exchange, ApiError.ApiError, Scope.Scope>
  /** Opens a session, or returns the open one. Without an id, begins a new session. */
  readonly open: (id?: string) => Effect.Effect<ServedSessions.ServedSession, ApiError.ApiError>
  readonly close: ServedSessions.ServedSessions["close"]
  /** Returns the events of a session that a reader has not seen. See `ResumedEvents`. */
  readonly resume: (
    session: ServedSessions.ServedSession,
    from: EventId
  ) => Stream.Stream<NumberedEvent, SessionStoreError>
  /** Operations on stored conversations of the client. */
  readonly conversations: StoredConversations.StoredConversations
  /** Name of the key to which the sessions belong, or `undefined` for the server's own key. */
  readonly client: string | undefined
  readonly models: Options["models"]
  readonly counts: ServedSessions.ServedSessions["counts"]
  readonly drain: ServedSessions.ServedSessions["drain"]
  readonly closeAll: ServedSessions.ServedSessions["closeAll"]
}

/** Service for the sessions of a server. */
export class AgentSessions extends Context.Service<AgentSessions, Service>()("hermes-effect/server/AgentSessions") {}

type Needs = ServedSessions.Needs | ModelRouter | ToolRegistry
type ExchangeSession = ServedSessions.ExchangeSession

/** Returns true if the request may use a new session when its session is busy. */
const canFork = ({ position, results, session }: AgentExchange.Request): boolean =>
  results.size === 0 && (session === undefined || position !== undefined)

/** Converts a prompt to messages. */
export const toUserMessages = (prompt: AgentExchange.Request["prompt"]): ReadonlyArray<Prompt.Message> =>
  prompt === undefined
    ? []
    : [Prompt.userMessage({ content: typeof prompt === "string" ? [Prompt.textPart({ text: prompt })] : prompt })]

/** Values needed to choose a session. */
interface SessionContext {
  readonly options: Options
  readonly agent: Agent["Service"]
  readonly router: ModelRouter["Service"]
  readonly store: SessionStore["Service"]
  readonly served: ServedSessions.ServedSessions
  readonly known: ReturnType<typeof KnownConversations.make>
}

/** Stores a new session with messages of the client. */
const createSession = Effect.fnUntraced(function* (
  { agent, options, router, served, store }: SessionContext,
  history: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<Session, ApiError.ApiError> {
  const { cwd, tools } = options
  const id = yield* Ids.makeSessionId
  return yield* Effect.gen(function* () {
    const { model, provider } = yield* router.primary
    const layers = yield* agent.promptLayers({ cwd, platform: "api-server", tools: ClientTools.excludeClients(tools) })
    const systemPrompt = SystemPrompt.render(layers)
    const made = yield* store.create({ id, source: served.source, provider, model, systemPrompt, cwd })
    if (history.length > 0) yield* store.append(id, history)
    return made
  }).pipe(Effect.mapError(ApiError.toStoreError))
})

/** Starts a session with messages stored by the client. */
const beginWithHistory = Effect.fnUntraced(function* (
  context: SessionContext,
  history: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<ExchangeSession, ApiError.ApiError> {
  const id = history.length > 0 ? (yield* createSession(context, history)).id : yield* Ids.makeSessionId
  return yield* context.served.begin(id)
})

/** Starts a new session with the messages of a stored session, up to the end of a turn. */
const forkSession = Effect.fnUntraced(function* (
  { served, store }: SessionContext,
  session: Session,
  position: number
): Effect.fn.Return<ExchangeSession, ApiError.ApiError, Needs> {
  const forked = Effect.gen(function* () {
    const originals = yield* store.messages(session.id)
    const end = StoredConversations.findTurnEnd(originals, position)
    const { id } = yield* SessionFork.fork(session, {
      history: originals.slice(0, end),
      originals,
      position: end,
      changed: ["prompt"],
      source: served.source
    })
    return id
  })
  return yield* served.begin(yield* Effect.mapError(forked, ApiError.toStoreError))
})

/** Continues after the turn that produced a response. */
const continueAfterTurn = Effect.fnUntraced(function* (
  context: SessionContext,
  id: string,
  position: number
): Effect.fn.Return<ExchangeSession, ApiError.ApiError, Needs> {
  const { served, store } = context
  const newest = yield* served.stored(id)
  const named = yield* Effect.map(
    Effect.mapError(store.get(Ids.SessionId.make(id)), ApiError.toStoreError),
    Option.getOrElse(() => newest)
  )
  // If the session was compacted after the response, the conversation continues from the summary.
  const history = newest.id === named.id ? yield* Effect.mapError(store.messages(named.id), ApiError.toStoreError) : []
  if (StoredConversations.findTurnEnd(history, position) < history.length)
    return yield* forkSession(context, named, position)
  const found = yield* served.find(newest.id)
  return found.isBusy ? yield* forkSession(context, named, position) : found
})

/** Finds the known session that ends with the given messages and is not answering another request. */
const recogniseSession = Effect.fnUntraced(function* (
  { known, served }: SessionContext,
  history: ReadonlyArray<Prompt.Message>
): Effect.fn.Return<ExchangeSession | undefined> {
  const left = history.length === 0 ? undefined : known.take(history)
  if (left === undefined) return undefined
  const session = Option.getOrUndefined(yield* Effect.option(served.stored(left.id)))
  if (session?.id !== left.id || session.messageCount !== left.messages) return undefined
  const found = Option.getOrUndefined(yield* Effect.option(served.find(left.id)))
  return found?.isBusy === false ? found : undefined
})

/** Finds the session that waits for the given call results. */
const findWaitingSession = Effect.fnUntraced(function* (
  { served }: SessionContext,
  { results, session }: AgentExchange.Request,
  waitsFor: string
): Effect.fn.Return<ExchangeSession, ApiError.ApiError> {
  const found = served.waitingFor(results)
  const waiting = new Set(
    session === undefined || session === found?.id ? found?.calls.waiting().map(({ id }) => id) : []
  )
  const unknown = Array.from(results.keys()).find((id) => !waiting.has(id))
  if (found !== undefined && unknown === undefined) return found
  return yield* ApiError.make(
    400,
    "unknown_tool_call",
    `No call "${unknown ?? waitsFor}" waits for a result. ` +
      "It was answered, took too long, or its conversation was closed."
  )
})

/**
 * Moves results into the history if a message follows them and no call waits for them, because the conversation has
 * continued without them.
 */
const settleResults = ({ served }: SessionContext, request: AgentExchange.Request): AgentExchange.Request => {
  const { prompt, results } = request
  if (prompt === undefined || results.size === 0) return request
  const waiting = new Set(
    served
      .waitingFor(results)
      ?.calls.waiting()
      .map(({ id }) => id)
  )
  const isWaiting = typeof prompt === "string" && Array.from(results.keys()).every((id) => waiting.has(id))
  return isWaiting ? request : { ...request, results: new Map() }
}

/**
 * Begins a session that is removed after the answer, with the messages of the request or of the response before it. A
 * stored session cannot be continued without storing.
 */
const chooseTransientSession = Effect.fnUntraced(function* (
  context: SessionContext,
  { history, position, session }: AgentExchange.Request
): Effect.fn.Return<ExchangeSession, ApiError.ApiError, Needs> {
  if (session !== undefined && position === undefined)
    return yield* ApiError.refuseField("store", "store: a named session is stored. Leave the session out, or store.")
  const made = yield* session === undefined || position === undefined
    ? beginWithHistory(context, history)
    : Effect.flatMap(context.served.stored(session), (found) => forkSession(context, found, position))
  context.served.discard(made)
  return made
})

/** Chooses the session of a request: the session that it names or continues, otherwise a new session. */
const chooseSession = Effect.fnUntraced(function* (
  context: SessionContext,
  request: AgentExchange.Request
): Effect.fn.Return<ExchangeSession, ApiError.ApiError, Needs> {
  const { history, position, results, session } = request
  const [waitsFor] = results.keys()
  if (waitsFor !== undefined) return yield* findWaitingSession(context, request, waitsFor)
  if (!request.isStored) return yield* chooseTransientSession(context, request)
  if (session !== undefined)
    return yield* position === undefined ? context.served.find(session) : continueAfterTurn(context, session, position)
  return (yield* recogniseSession(context, history)) ?? (yield* beginWithHistory(context, history))
})

/** Returns the route of the model that a request names, or `undefined` for the model in the settings. */
const chooseRoute = Effect.fnUntraced(function* (
  models: Options["models"],
  model: string | undefined
): Effect.fn.Return<Route | undefined, ApiError.ApiError> {
  if (model === undefined || model === "hermes") return undefined
  const all = yield* models
  const found = all.find(({ id }) => id === model) ?? all.find(({ id }) => id.endsWith(`/${model}`))
  if (found !== undefined) return found.route
  return yield* ApiError.make(
    404,
    "model_not_found",
    `There is no model "${model}". GET /v1/models lists them; "hermes" is the one of the settings.`
  )
})

/**
 * Makes the service for the sessions of a server. At first no session is open. All open sessions are closed with the
 * scope.
 */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<Service, never, Needs | Scope.Scope> {
  const { models, tenant, tools } = options
  const services = Context.omit(Scope.Scope)(yield* Effect.context<Needs>())
  const router = yield* ModelRouter
  const served = yield* ServedSessions.make(options)
  const known = KnownConversations.make()
  const context: SessionContext = { options, agent: yield* Agent, router, store: yield* SessionStore, served, known }
  return {
    exchange: Effect.fnUntraced(function* (given) {
      const request = settleResults(context, given)
      const route = yield* chooseRoute(models, request.model)
      const { model } = yield* router.primary
      const remember = (said: string, { id, messageCount }: Session): void => {
        const answer = Prompt.assistantMessage({ content: [Prompt.textPart({ text: said })] })
        known.remember([...request.history, ...toUserMessages(request.prompt), answer], { id, messages: messageCount })
      }
      return yield* Effect.flatMap(chooseSession(context, request), (session) =>
        AgentExchange.begin(session, request, {
          tools,
          route,
          client: options.client,
          model,
          remember,
          isBounded: tenant !== undefined
        })
      ).pipe(
        // Another request took the session first, so this one uses a fork.
        Effect.retry({ while: ({ code }) => code === "session_busy" && canFork(request) })
      )
    }, Effect.provideContext(services)),
    conversations: StoredConversations.makeStoredConversations({
      client: options.client,
      served,
      store: context.store,
      create: (history) => createSession(context, history)
    }),
    open: (id) => (id === undefined ? Effect.flatMap(Ids.makeSessionId, served.begin) : served.find(id)),
    close: served.close,
    resume: (session, from) =>
      Stream.unwrap(
        Effect.as(
          session.live.follow,
          Stream.provideContext(ResumedEvents.resumeFeed(session, options.client, from), services)
        )
      ),
    client: options.client,
    models,
    counts: served.counts,
    drain: served.drain,
    closeAll: served.closeAll
  }
})
