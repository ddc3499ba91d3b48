/**
 * Serves an agent to editors (Zed, JetBrains, Neovim, …) with the Agent Client Protocol, over two streams of lines.
 *
 * **Details**
 *
 * An `AcpHost` opens the sessions. This module implements the protocol: versions and capabilities, and requests about
 * sessions, prompts, modes and options. Several sessions can be active, each with one prompt at a time. A failed
 * request is answered with a protocol error and does not affect other requests. When the client disconnects, every
 * session is closed.
 *
 * **Gotchas**
 *
 * The output stream is reserved for the protocol. Nothing else may be written to it.
 *
 * **Example** (A host that uses one runtime for all sessions)
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
import type { AuthMethod, ClientCapabilities, InitializeResponse } from "@agentclientprotocol/sdk/unstable"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ConfigError } from "../../../base/domain/AgentError.ts"
import { version } from "../../../base/domain/Version.ts"
import * as OptionalPackage from "../../../base/platform/OptionalPackage.ts"
import { type AcpFailure as Failure, codes, makeFailure } from "./AcpFailure.ts"
import * as AcpRequests from "./AcpRequests.ts"

export { type ClientFiles, ClientRefused } from "./AcpClient.ts"
export type { AcpHost, OpenRequest } from "./AcpRequests.ts"

/** The two directions of a connection. `write` is called with whole lines. */
export interface Connection {
  readonly input: Stream.Stream<Uint8Array, unknown>
  readonly write: (line: string) => void
}

type Sdk = typeof import("@agentclientprotocol/sdk/unstable")

const terminalLogin: AuthMethod = {
  type: "terminal",
  id: "model",
  name: "Set up a model",
  description: "Choose a provider, its key and a model",
  args: ["model"]
}

const describeAgent = (protocolVersion: number, { auth }: ClientCapabilities): InitializeResponse => ({
  protocolVersion,
  agentInfo: { name: "hermes", title: "Hermes", version },
  agentCapabilities: {
    loadSession: true,
    promptCapabilities: { image: true, embeddedContext: true },
    mcpCapabilities: { http: true, sse: true },
    sessionCapabilities: { list: {}, fork: {}, resume: {}, close: {}, delete: {} }
  },
  authMethods: auth?.terminal === true ? [terminalLogin] : []
})

const authenticate = (methodId: string): Effect.Effect<{}, Failure> =>
  methodId === "model"
    ? Effect.succeed({})
    : Effect.fail(makeFailure("invalid_params", `Unknown method "${methodId}". Set up a model with \`hermes model\`.`))

/** Converts a failure of a request to a protocol error. */
const toRequestError = ({ RequestError }: Sdk, cause: Cause.Cause<Failure>): unknown => {
  const found = cause.reasons.find(Cause.isFailReason)
  if (found === undefined) {
    return Cause.hasInterrupts(cause)
      ? RequestError.requestCancelled()
      : RequestError.internalError(undefined, "an error of the program; see stderr")
  }
  const { message, reason } = found.error
  return new RequestError(codes[reason], message)
}

/** Makes the function that answers requests. If a request is cancelled, its work is interrupted. */
const makeAnswer = Effect.fnUntraced(function* (sdk: Sdk) {
  const context = yield* Effect.context<Path.Path>()
  return <A>(work: Effect.Effect<A, Failure, Path.Path>, signal: AbortSignal): Promise<A> =>
    Effect.runPromiseExitWith(context)(
      Effect.tapCause(work, (cause) =>
        Cause.hasDies(cause) ? Effect.logError("a request failed", cause) : Effect.void
      ),
      { signal }
    ).then((exit) => {
      if (Exit.isSuccess(exit)) return exit.value
      throw toRequestError(sdk, exit.cause)
    })
})

/** Makes the agent of the SDK, with a handler for each method of the protocol. */
const makeAgent = Effect.fnUntraced(function* (host: AcpRequests.AcpHost, sdk: Sdk, scope: Scope.Scope) {
  const { AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION } = sdk
  let capabilities: ClientCapabilities = {}
  const requests = yield* AcpRequests.make(host, { methods: CLIENT_METHODS, capabilities: () => capabilities, scope })
  const answer = yield* makeAnswer(sdk)
  return sdk
    .agent({ name: "hermes" })
    .onRequest(AGENT_METHODS.initialize, ({ params }) => {
      capabilities = params.clientCapabilities ?? {}
      return describeAgent(PROTOCOL_VERSION, capabilities)
    })
    .onRequest(AGENT_METHODS.authenticate, ({ params, signal }) => answer(authenticate(params.methodId), signal))
    .onRequest(AGENT_METHODS.session_new, ({ client, params, signal }) =>
      answer(requests.begin(client, params), signal)
    )
    .onRequest(AGENT_METHODS.session_load, ({ client, params, signal }) =>
      answer(requests.load(client, params), signal)
    )
    .onRequest(AGENT_METHODS.session_resume, ({ client, params, signal }) =>
      answer(requests.resume(client, params), signal)
    )
    .onRequest(AGENT_METHODS.session_fork, ({ client, params, signal }) =>
      answer(requests.fork(client, params), signal)
    )
    .onRequest(AGENT_METHODS.session_list, ({ params, signal }) => answer(requests.list(params), signal))
    .onRequest(AGENT_METHODS.session_delete, ({ params, signal }) => answer(requests.remove(params.sessionId), signal))
    .onRequest(AGENT_METHODS.session_close, ({ params, signal }) => answer(requests.close(params.sessionId), signal))
    .onRequest(AGENT_METHODS.session_set_mode, ({ params, signal }) =>
      answer(
        Effect.flatMap(requests.find(params.sessionId), ({ setMode }) => Effect.as(setMode(params.modeId), {})),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_set_config_option, ({ params, signal }) =>
      answer(
        Effect.flatMap(requests.find(params.sessionId), ({ setOption }) =>
          Effect.map(setOption(params.configId, String(params.value)), (configOptions) => ({ configOptions }))
        ),
        signal
      )
    )
    .onRequest(AGENT_METHODS.session_prompt, ({ params, signal }) =>
      answer(
        Effect.flatMap(requests.find(params.sessionId), ({ prompt }) => prompt(params.prompt)),
        signal
      )
    )
    .onNotification(AGENT_METHODS.session_cancel, ({ params, signal }) =>
      answer(Effect.ignore(Effect.flatMap(requests.find(params.sessionId), ({ cancel }) => cancel)), signal)
    )
})

/** Serves the protocol until the client disconnects. */
export const serve = Effect.fnUntraced(function* (
  host: AcpRequests.AcpHost,
  { input, write }: Connection
): Effect.fn.Return<void, ConfigError, Path.Path> {
  const sdk = yield* OptionalPackage.load(
    "the Agent Client Protocol needs the package",
    ["@agentclientprotocol/sdk"],
    () => import("@agentclientprotocol/sdk/unstable").catch(OptionalPackage.rethrowImport)
  )
  const scope = yield* Scope.make()
  const agent = yield* makeAgent(host, sdk, scope)
  const decoder = new TextDecoder()
  const output = new WritableStream<Uint8Array>({ write: (bytes) => write(decoder.decode(bytes, { stream: true })) })
  const connection = agent.connect(sdk.ndJsonStream(output, yield* Stream.toReadableStreamEffect(input)))
  yield* Effect.promise(() => connection.closed).pipe(
    Effect.onInterrupt(() => Effect.sync(() => connection.close())),
    Effect.ensuring(Scope.close(scope, Exit.void))
  )
})
