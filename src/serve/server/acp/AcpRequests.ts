/**
 * Requests about the sessions of one ACP connection: create, load, resume, fork, list, delete and close.
 *
 * Source: Agent Client Protocol, session setup.
 */
import type {
  AgentContext,
  ClientCapabilities,
  ForkSessionResponse,
  ListSessionsResponse,
  LoadSessionResponse,
  McpServer,
  NewSessionResponse
} from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import * as Ids from "../../../base/domain/Ids.ts"
import type { Session } from "../../../store/SessionStore.ts"
import * as OpenSessions from "../OpenSessions.ts"
import * as AcpClient from "./AcpClient.ts"
import { type AcpFailure as Failure, makeFailure } from "./AcpFailure.ts"
import * as AcpSession from "./AcpSession.ts"

/** A request to open a session. */
export interface OpenRequest {
  readonly id: Ids.SessionId
  /** Absolute path of the working directory. */
  readonly cwd: string
  /** The stored session, or `undefined` for a new session. */
  readonly stored: Session | undefined
  readonly mcpServers: ReadonlyArray<McpServer>
  readonly files: AcpClient.ClientFiles
}

/** The program or application that provides the sessions for a connection. */
export interface AcpHost {
  readonly open: (request: OpenRequest) => Effect.Effect<AcpSession.OpenedSession, Failure, Scope.Scope>
  /** Lists the stored conversations, newest first. */
  readonly list: Effect.Effect<ReadonlyArray<Session>, Failure>
  /** Finds the newest stored session of the conversation with the given id. */
  readonly find: (id: string) => Effect.Effect<Session | undefined, Failure>
  /** Makes a conversation that begins with the messages of a stored session. */
  readonly fork: (session: Session) => Effect.Effect<Session, Failure>
  readonly remove: (id: Ids.SessionId) => Effect.Effect<void, Failure>
}

/** Number of sessions on one page of a list. */
const pageSize = 50

/** Parameters of a request that opens a session. */
interface OpenParams {
  readonly cwd: string
  readonly mcpServers?: ReadonlyArray<McpServer> | undefined
}

/** Parameters of a request that opens a stored session. */
interface ReopenParams extends OpenParams {
  readonly sessionId: string
}

/** Facts about a connection that its sessions need. */
export interface ConnectionFacts {
  readonly methods: AcpClient.Options["methods"]
  /** Returns the capabilities that the client has announced so far. */
  readonly capabilities: () => ClientCapabilities
  /** Scope of the connection, in which its sessions live. */
  readonly scope: Scope.Scope
}

/** Handlers of requests about sessions. */
export interface SessionRequests {
  /** Returns the open session with the given id. Fails with `session_not_found`. */
  readonly find: (id: string) => Effect.Effect<AcpSession.AcpSession, Failure>
  readonly begin: (client: AgentContext, params: OpenParams) => Effect.Effect<NewSessionResponse, Failure, Path.Path>
  readonly load: (client: AgentContext, params: ReopenParams) => Effect.Effect<LoadSessionResponse, Failure, Path.Path>
  readonly resume: (
    client: AgentContext,
    params: ReopenParams
  ) => Effect.Effect<LoadSessionResponse, Failure, Path.Path>
  readonly fork: (client: AgentContext, params: ReopenParams) => Effect.Effect<ForkSessionResponse, Failure, Path.Path>
  readonly list: (params: {
    readonly cursor?: string | null | undefined
    readonly cwd?: string | null | undefined
  }) => Effect.Effect<ListSessionsResponse, Failure>
  readonly remove: (id: string) => Effect.Effect<{}, Failure>
  readonly close: (id: string) => Effect.Effect<{}, Failure>
}

/** The host, the connection, and the sessions that are open on it. */
interface RequestContext {
  readonly host: AcpHost
  readonly connection: ConnectionFacts
  readonly sessions: OpenSessions.OpenSessions<AcpSession.AcpSession>
}

const requireAbsolute = Effect.fnUntraced(function* (cwd: string): Effect.fn.Return<string, Failure, Path.Path> {
  const paths = yield* Path.Path
  if (!paths.isAbsolute(cwd)) return yield* makeFailure("invalid_params", `cwd "${cwd}" is not absolute.`)
  return paths.normalize(cwd)
})

/** Closes the open session `id`, and every open session that currently uses the stored session `stored`. */
const closeAll = Effect.fnUntraced(function* (
  { sessions }: RequestContext,
  id: string,
  stored: Session["id"] | undefined
) {
  yield* sessions.close(id)
  for (const [other, session] of sessions.entries())
    if (stored !== undefined && (yield* session.stored) === stored) yield* sessions.close(other)
})

/** Opens a session. An already open session is closed first, because the client loads it again. */
const openSession = Effect.fnUntraced(function* (
  context: RequestContext,
  client: AgentContext,
  id: Ids.SessionId,
  given: OpenParams,
  stored: Session | undefined
) {
  const { connection, host, sessions } = context
  const cwd = yield* requireAbsolute(given.cwd)
  yield* closeAll(context, id, stored?.id)
  const seen: AcpClient.Options = {
    client,
    methods: connection.methods,
    capabilities: connection.capabilities(),
    sessionId: id
  }
  const request: OpenRequest = {
    id: stored?.id ?? id,
    cwd,
    stored,
    mcpServers: given.mcpServers ?? [],
    files: AcpClient.makeFiles(seen)
  }
  return yield* sessions.open(
    id,
    Effect.flatMap(host.open(request), (session) => AcpSession.make(session, AcpClient.make(seen)))
  )
})

const findOpenSession = ({ sessions }: RequestContext, id: string): Effect.Effect<AcpSession.AcpSession, Failure> => {
  const found = sessions.get(id)
  return found === undefined
    ? Effect.fail(
        makeFailure(
          "session_not_found",
          `Session "${id}" is not open. Open it with session/new, session/load or session/resume.`
        )
      )
    : Effect.succeed(found)
}

const findStoredSession = Effect.fnUntraced(function* ({ host }: RequestContext, id: string) {
  const found = yield* host.find(id)
  return found ?? (yield* makeFailure("session_not_found", `There is no session "${id}". List them with session/list.`))
})

const reopenSession = Effect.fnUntraced(function* (
  context: RequestContext,
  client: AgentContext,
  params: ReopenParams
): Effect.fn.Return<[AcpSession.AcpSession, LoadSessionResponse], Failure, Path.Path> {
  const found = yield* findStoredSession(context, params.sessionId)
  const session = yield* openSession(context, client, Ids.SessionId.make(params.sessionId), params, found)
  return [session, yield* session.state]
})

/**
 * Announces the commands of a session after the response was sent, because the client does not know the session before
 * that.
 */
const announceLater = ({ connection }: RequestContext, session: AcpSession.AcpSession) =>
  Effect.forkIn(Effect.andThen(Effect.yieldNow, session.announce), connection.scope)

/** Asks the questions of a suspended run after the response was sent. */
const askLater = ({ connection }: RequestContext, session: AcpSession.AcpSession) =>
  Effect.forkIn(Effect.andThen(Effect.yieldNow, session.askWaiting), connection.scope)

const listSessions = Effect.fnUntraced(function* (
  { host }: RequestContext,
  params: Parameters<SessionRequests["list"]>[0]
): Effect.fn.Return<ListSessionsResponse, Failure> {
  const from = Number(params.cursor ?? 0)
  if (!Number.isSafeInteger(from) || from < 0)
    return yield* makeFailure("invalid_params", `Unknown cursor "${params.cursor}". Leave it out to begin anew.`)
  const all = (yield* host.list).filter(({ cwd }) => params.cwd == null || cwd === params.cwd)
  return {
    sessions: all
      .slice(from, from + pageSize)
      .map(({ cwd, endedAt, id, startedAt, title }) => ({
        sessionId: id,
        cwd: cwd ?? "/",
        ...(title === undefined ? {} : { title }),
        updatedAt: new Date(endedAt ?? startedAt).toISOString()
      })),
    ...(all.length > from + pageSize ? { nextCursor: `${from + pageSize}` } : {})
  }
})

/** Makes the request handlers of a connection. The sessions are closed when the scope of the connection closes. */
export const make = Effect.fnUntraced(function* (
  host: AcpHost,
  connection: ConnectionFacts
): Effect.fn.Return<SessionRequests> {
  const sessions = yield* Scope.provide(OpenSessions.make<AcpSession.AcpSession>(), connection.scope)
  const context: RequestContext = { host, connection, sessions }
  return {
    find: (id) => findOpenSession(context, id),
    begin: Effect.fnUntraced(function* (client, params) {
      const sessionId = yield* Ids.makeSessionId
      const session = yield* openSession(context, client, sessionId, params, undefined)
      yield* announceLater(context, session)
      return { sessionId, ...(yield* session.state) }
    }),
    load: Effect.fnUntraced(function* (client, params) {
      const [session, state] = yield* reopenSession(context, client, params)
      yield* session.replay
      yield* session.announce
      yield* session.follow
      yield* askLater(context, session)
      return state
    }),
    resume: Effect.fnUntraced(function* (client, params) {
      const [session, state] = yield* reopenSession(context, client, params)
      yield* announceLater(context, session)
      yield* session.follow
      return state
    }),
    fork: Effect.fnUntraced(function* (client, params) {
      const made = yield* host.fork(yield* findStoredSession(context, params.sessionId))
      const session = yield* openSession(context, client, made.id, params, made)
      yield* announceLater(context, session)
      return { sessionId: made.id, ...(yield* session.state) }
    }),
    list: (params) => listSessions(context, params),
    remove: Effect.fnUntraced(function* (sessionId) {
      const { id } = yield* findStoredSession(context, sessionId)
      yield* closeAll(context, sessionId, id)
      yield* host.remove(id)
      return {}
    }),
    close: (id) => Effect.flatMap(findOpenSession(context, id), () => Effect.as(sessions.close(id), {}))
  }
})
