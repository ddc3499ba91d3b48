/**
 * The client of an ACP connection for one session: updates, permissions, forms, and files with unsaved changes.
 *
 * **Details**
 *
 * If the client refuses a question or does not support it, the answer is empty and the reason is logged. Interrupting a
 * question cancels its request. The client has ten seconds to return a file.
 *
 * Terminals of the client are never used, even if the client offers them, because a process started by the editor would
 * bypass the agent's sandbox and credential proxy. Commands run in the agent's environment, and the client receives
 * their output. If the client can display terminals of the agent, the output is shown in them (`AcpTerminals`).
 *
 * Source: Agent Client Protocol, methods of the client.
 */
import type {
  AgentContext,
  CLIENT_METHODS,
  ClientCapabilities,
  ReadTextFileRequest,
  RequestPermissionRequest,
  SessionUpdate,
  WriteTextFileRequest
} from "@agentclientprotocol/sdk/unstable"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Json from "../../../base/domain/Json.ts"

/** Error raised when the client refuses or cannot carry out a request. */
export class ClientRefused extends Schema.TaggedError<ClientRefused>("hermes-effect/server/ClientRefused")(
  "ClientRefused",
  { method: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `The client refused ${this.method}: ${this.cause instanceof Error ? this.cause.message : String(this.cause)}`
  }
}

/** Access to the client's files, including unsaved changes. A member is absent if the client does not support it. */
export interface ClientFiles {
  readonly read: ((path: string) => Effect.Effect<string, ClientRefused>) | undefined
  readonly write: ((path: string, content: string) => Effect.Effect<void, ClientRefused>) | undefined
}

/** The client of a connection, as used by one session. */
export interface SessionClient {
  readonly capabilities: ClientCapabilities
  readonly update: (update: SessionUpdate) => Effect.Effect<void>
  /** Asks for a permission. Interruption cancels the request. Returns `undefined` if the client chose no option. */
  readonly permission: (request: Omit<RequestPermissionRequest, "sessionId">) => Effect.Effect<string | undefined>
  /** Asks for text or choices. Returns `undefined` if the client does not answer. */
  readonly elicit: (
    message: string,
    schema: Readonly<Record<string, unknown>>
  ) => Effect.Effect<Readonly<Record<string, unknown>> | undefined>
}

/** Connection and client of a session. */
export interface Options {
  readonly client: AgentContext
  readonly methods: typeof CLIENT_METHODS
  readonly capabilities: ClientCapabilities
  readonly sessionId: string
}

const sendRequest = <A>(method: string, send: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, ClientRefused> =>
  Effect.tryPromise({ try: send, catch: (cause) => new ClientRefused({ method, cause }) })

/** Sends a request to the client. Returns `undefined` if the client does not answer. */
const requestAnswer = <A>(
  method: string,
  send: (options: { readonly cancellationSignal: AbortSignal; readonly stopWaitingOnCancel: true }) => Promise<A>
): Effect.Effect<A | undefined> =>
  Effect.catch(
    sendRequest(method, (cancellationSignal) => send({ cancellationSignal, stopWaitingOnCancel: true })),
    (refused) => Effect.as(Effect.logWarning(refused.message), undefined)
  )

/** Makes the client of a session. */
export const make = ({ capabilities, client, methods, sessionId }: Options): SessionClient => ({
  capabilities,
  // A lost connection closes every session. Updates sent after the loss are discarded.
  update: (update) =>
    Effect.ignore(
      sendRequest(methods.session_update, () => client.notify(methods.session_update, { sessionId, update }))
    ),
  permission: (request) =>
    Effect.map(
      requestAnswer(methods.session_request_permission, (options) =>
        client.request(methods.session_request_permission, { sessionId, ...request }, options)
      ),
      (answer) => (answer?.outcome.outcome === "selected" ? answer.outcome.optionId : undefined)
    ),
  elicit: (message, requestedSchema) =>
    Effect.map(
      requestAnswer(methods.elicitation_create, (options) =>
        client.request<{ readonly action?: unknown; readonly content?: unknown }>(
          methods.elicitation_create,
          { sessionId, mode: "form", message, requestedSchema },
          options
        )
      ),
      (answer) => (answer?.action === "accept" && Json.isFields(answer.content) ? answer.content : undefined)
    )
})

/** Maximum time to wait for a file from the client. After that time, the file on this machine is used. */
const fileWait = Duration.seconds(10)

/**
 * Time during which no more files are requested from a client that did not answer. A turn therefore waits only once,
 * not for each file.
 */
const silenceMillis = 60_000

/** Makes the access to the client's files for a session. */
export const makeFiles = ({ capabilities, client, methods, sessionId }: Options): ClientFiles => {
  let silentUntil = 0

  /** Requests a file from the client. Interruption cancels the request. */
  const requestFile = <A>(
    method: string,
    send: (options: { readonly cancellationSignal: AbortSignal; readonly stopWaitingOnCancel: true }) => Promise<A>
  ): Effect.Effect<A, ClientRefused> => {
    const silent = new ClientRefused({
      method,
      cause: new Error(`it did not answer within ${Duration.toSeconds(fileWait)} s`)
    })
    return Effect.clockWith((clock) =>
      clock.currentTimeMillisUnsafe() < silentUntil
        ? Effect.fail(silent)
        : sendRequest(method, (cancellationSignal) => send({ cancellationSignal, stopWaitingOnCancel: true })).pipe(
            Effect.timeoutOrElse({
              duration: fileWait,
              orElse: () => {
                silentUntil = clock.currentTimeMillisUnsafe() + silenceMillis
                return Effect.andThen(
                  Effect.logWarning(`${silent.message}. For a minute files are those of the disk.`),
                  Effect.fail(silent)
                )
              }
            })
          )
    )
  }

  return {
    read:
      capabilities.fs?.readTextFile !== true
        ? undefined
        : (path) =>
            Effect.map(
              requestFile(methods.fs_read_text_file, (options) =>
                client.request(methods.fs_read_text_file, { sessionId, path } satisfies ReadTextFileRequest, options)
              ),
              ({ content }) => content
            ),
    write:
      capabilities.fs?.writeTextFile !== true
        ? undefined
        : (path, content) =>
            Effect.asVoid(
              requestFile(methods.fs_write_text_file, (options) =>
                client.request(
                  methods.fs_write_text_file,
                  { sessionId, path, content } satisfies WriteTextFileRequest,
                  options
                )
              )
            )
  }
}
