/**
 * The Agent Client Protocol: an agent for editors (Zed, JetBrains, Neovim, …) over two streams of lines.
 *
 * **Details**
 *
 * The host opens the sessions; this module speaks the protocol: versions and capabilities, new, loaded, resumed,
 * listed, deleted and closed sessions, prompts, modes and options. Several sessions work at once, each with one prompt
 * at a time. A request that cannot be answered has the protocol's own error, and leaves the others as they are. When
 * the client hangs up every session is closed.
 *
 * **Gotchas**
 *
 * The output belongs to the protocol: nothing else may be written to it.
 *
 * **Example** (A session of a host that has one runtime for all)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { LiveSession } from "hermes-effect/host"
 * import type { AcpAgent, AcpSession } from "hermes-effect/server"
 *
 * export const open = ({ cwd, id }: AcpAgent.OpenRequest) =>
 *   Effect.map(LiveSession.make({ session: { id, cwd }, cwd }), (live): AcpSession.OpenedSession => ({
 *     live,
 *     cwd,
 *     models: Effect.succeed([]),
 *     commands: [],
 *     notices: [],
 *     window: Effect.undefined
 *   }))
 * ```
 *
 * Source: Agent Client Protocol, version 1.
 */
import type {
  AgentContext,
  ClientCapabilities,
  LoadSessionResponse,
  McpServer
} from "@agentclientprotocol/sdk/unstable"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ConfigError } from "../../../base/domain/AgentError.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import { version } from "../../../base/domain/Version.ts"
import * as OptionalPackage from "../../../base/platform/OptionalPackage.ts"
import type { Session } from "../../../store/SessionStore.ts"
import * as OpenSessions from "../OpenSessions.ts"
import * as AcpClient from "./AcpClient.ts"
import { type AcpFailure as Failure, codes, makeFailure } from "./AcpFailure.ts"
import * as AcpSession from "./AcpSession.ts"

export { type ClientFiles, ClientRefused } from "./AcpClient.ts"

/** A session to open. */
export interface OpenRequest {
  readonly id: Ids.SessionId
  /** Absolute. */
  readonly cwd: string
  /** The session as it is stored; undefined for a new one. */
  readonly stored: Session | undefined
  readonly mcpServers: ReadonlyArray<McpServer>
  readonly files: AcpClient.ClientFiles
}

/** Sessions of the program or the application that serves the protocol. */
export interface AcpHost {
  readonly open: (request: OpenRequest) => Effect.Effect<AcpSession.OpenedSession, Failure, Scope.Scope>
  /** Stored conversations, newest first. */
  readonly list: Effect.Effect<ReadonlyArray<Session>, Failure>
  /** The newest stored session of the conversation of an id. */
  readonly find: (id: string) => Effect.Effect<Session | undefined, Failure>
  /** Makes a conversation that begins with the messages of a stored one. */
  readonly fork: (session: Session) => Effect.Effect<Session, Failure>
  readonly remove: (id: Ids.SessionId) => Effect.Effect<void, Failure>
}

/** The two directions of a connection; `write` is called with whole lines. */
export interface Connection {
  readonly input: Stream.Stream<Uint8Array, unknown>
  readonly write: (line: string) => void
}

/** Sessions of one page of a list. */
const pageSize = 50

/** Serves the protocol until the client hangs up. */
export const serve = Effect.fnUntraced(function* (
  host: AcpHost,
  { input, write }: Connection
): Effect.fn.Return<void, ConfigError, Path.Path> {
  const sdk = yield* OptionalPackage.load(
    "the Agent Client Protocol needs the package",
    ["@agentclientprotocol/sdk"],
    () => import("@agentclientprotocol/sdk/unstable").catch(OptionalPackage.rethrowImport)
  )
  const { AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION, RequestError } = sdk
  const paths = yield* Path.Path
  const context = yield* Effect.context<Path.Path>()
  const whole = yield* Scope.make()
  const sessions = yield* Scope.provide(OpenSessions.make<AcpSession.AcpSession>(), whole)
  let capabilities: ClientCapabilities = {}

  const toRequestError = (cause: Cause.Cause<Failure>): unknown => {
    const found = cause.reasons.find(Cause.isFailReason)
    if (found === undefined) {
      return Cause.hasInterrupts(cause)
        ? RequestError.requestCancelled()
        : RequestError.internalError(undefined, "an error of the program; see stderr")
    }
    const { message, reason } = found.error
    return new RequestError(codes[reason], message)
  }

  /** Answers a request: its failure is the protocol's error, and taking it back interrupts the work. */
  const answerRequest = <A>(work: Effect.Effect<A, Failure, Path.Path>, signal: AbortSignal): Promise<A> =>
    Effect.runPromiseExitWith(context)(
      Effect.tapCause(work, (cause) =>
        Cause.hasDies(cause) ? Effect.logError("a request failed", cause) : Effect.void
      ),
      { signal }
    ).then((exit) => {
      if (Exit.isSuccess(exit)) return exit.value
      throw toRequestError(exit.cause)
    })

  const requireAbsolute = (cwd: string): Effect.Effect<string, Failure> =>
    paths.isAbsolute(cwd)
      ? Effect.succeed(paths.normalize(cwd))
      : Effect.fail(makeFailure("invalid_params", `cwd "${cwd}" is not absolute.`))

  /** Closes what is open of a conversation, by whichever of its ids. */
  const closeAll = Effect.fnUntraced(function* (id: string, stored: Session["id"] | undefined) {
    yield* sessions.close(id)
    for (const [other, session] of sessions.entries())
      if (stored !== undefined && (yield* session.stored) === stored) yield* sessions.close(other)
  })

  /** Opens a session; one that is open already is closed first, as the client begins anew with it. */
  const openSession = Effect.fnUntraced(function* (
    client: AgentContext,
    id: Ids.SessionId,
    given: { readonly cwd: string; readonly mcpServers?: ReadonlyArray<McpServer> | undefined },
    stored: Session | undefined
  ) {
    const cwd = yield* requireAbsolute(given.cwd)
    yield* closeAll(id, stored?.id)
    const seen: AcpClient.Options = { client, methods: CLIENT_METHODS, capabilities, sessionId: id }
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

  const findOpenSession = (id: string): Effect.Effect<AcpSession.AcpSession, Failure> => {
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

  const findStoredSession = Effect.fnUntraced(function* (id: string) {
    const found = yield* host.find(id)
    return (
      found ?? (yield* makeFailure("session_not_found", `There is no session "${id}". List them with session/list.`))
    )
  })

  const reopenSession = Effect.fnUntraced(function* (
    client: AgentContext,
    params: {
      readonly sessionId: string
      readonly cwd: string
      readonly mcpServers?: ReadonlyArray<McpServer> | undefined
    }
  ): Effect.fn.Return<[AcpSession.AcpSession, LoadSessionResponse], Failure, Path.Path> {
    const found = yield* findStoredSession(params.sessionId)
    const session = yield* openSession(client, Ids.SessionId.make(params.sessionId), params, found)
    return [session, yield* session.state]
  })

  const agent = sdk
    .agent({ name: "hermes" })
    .onRequest(AGENT_METHODS.initialize, ({ params }) => {
      capabilities = params.clientCapabilities ?? {}
      return {
        protocolVersion: PROTOCOL_VERSION,
        agentInfo: { name: "hermes", title: "Hermes", version },
        agentCapabilities: {
          loadSession: true,
          promptCapabilities: { image: true, embeddedContext: true },
          mcpCapabilities: { http: true, sse: true },
          sessionCapabilities: { list: {}, fork: {}, resume: {}, close: {}, delete: {} }
        },
        authMethods:
          capabilities.auth?.terminal === true
            ? [
                {
                  type: "terminal",
                  id: "model",
                  name: "Set up a model",
                  description: "Choose a provider, its key and a model",
                  args: ["model"]
                }
              ]
            : []
      }
    })
    .onRequest(AGENT_METHODS.authenticate, ({ params, signal }) =>
      answerRequest(
        params.methodId === "model"
          ? Effect.succeed({})
          : Effect.fail(
              makeFailure(
                "invalid_params",
                `Unknown method "${params.methodId}". Set up a model with \`hermes model\`.`
              )
            ),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_new, ({ client, params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const sessionId = yield* Ids.makeSessionId
          const session = yield* openSession(client, sessionId, params, undefined)
          // The client knows of the session when it has the answer.
          yield* Effect.forkIn(Effect.andThen(Effect.yieldNow, session.announce), whole)
          return { sessionId, ...(yield* session.state) }
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_load, ({ client, params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const [session, state] = yield* reopenSession(client, params)
          yield* session.replay
          yield* session.announce
          return state
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_resume, ({ client, params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const [session, state] = yield* reopenSession(client, params)
          yield* Effect.forkIn(Effect.andThen(Effect.yieldNow, session.announce), whole)
          return state
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_fork, ({ client, params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const made = yield* host.fork(yield* findStoredSession(params.sessionId))
          const session = yield* openSession(client, made.id, params, made)
          yield* Effect.forkIn(Effect.andThen(Effect.yieldNow, session.announce), whole)
          return { sessionId: made.id, ...(yield* session.state) }
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_list, ({ params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const from = Number(params.cursor ?? 0)
          if (!Number.isSafeInteger(from) || from < 0)
            return yield* makeFailure(
              "invalid_params",
              `Unknown cursor "${params.cursor}". Leave it out to begin anew.`
            )
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
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_delete, ({ params, signal }) =>
      answerRequest(
        Effect.gen(function* () {
          const { id } = yield* findStoredSession(params.sessionId)
          yield* closeAll(params.sessionId, id)
          yield* host.remove(id)
          return {}
        }),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_close, ({ params, signal }) =>
      answerRequest(
        Effect.flatMap(findOpenSession(params.sessionId), () => Effect.as(sessions.close(params.sessionId), {})),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_set_mode, ({ params, signal }) =>
      answerRequest(
        Effect.flatMap(findOpenSession(params.sessionId), ({ setMode }) => Effect.as(setMode(params.modeId), {})),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_set_config_option, ({ params, signal }) =>
      answerRequest(
        Effect.flatMap(findOpenSession(params.sessionId), ({ setOption }) =>
          Effect.map(setOption(params.configId, String(params.value)), (configOptions) => ({ configOptions }))
        ),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_prompt, ({ params, signal }) =>
      answerRequest(
        Effect.flatMap(findOpenSession(params.sessionId), ({ prompt }) => prompt(params.prompt)),
        signal
      )
    )
    .onNotification(AGENT_METHODS.session_cancel, ({ params, signal }) =>
      answerRequest(Effect.ignore(Effect.flatMap(findOpenSession(params.sessionId), ({ cancel }) => cancel)), signal)
    )

  const decoder = new TextDecoder()
  const output = new WritableStream<Uint8Array>({ write: (bytes) => write(decoder.decode(bytes, { stream: true })) })
  const connection = agent.connect(sdk.ndJsonStream(output, yield* Stream.toReadableStreamEffect(input)))
  yield* Effect.promise(() => connection.closed).pipe(
    Effect.onInterrupt(() => Effect.sync(() => connection.close())),
    Effect.ensuring(Scope.close(whole, Exit.void))
  )
})
