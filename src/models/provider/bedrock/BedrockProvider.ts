/** Provider of the protocol `bedrock_converse`. `BedrockConverse` loads this module with the first route. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import type {
  BedrockRuntimeClient,
  ConverseCommandInput,
  ConverseStreamCommandInput
} from "@aws-sdk/client-bedrock-runtime"
import type { ConfigError } from "../../../base/domain/AgentError.ts"
import { awsSecrets } from "../../../base/domain/CredentialNames.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse, OnPart } from "../../../base/domain/ModelCall.ts"
import * as Route from "../../../base/domain/Route.ts"
import { registerSecrets } from "../../../base/domain/Secrets.ts"
import { rethrowImport } from "../../../base/platform/OptionalPackage.ts"
import { HiddenVariables, ProcessVariables } from "../../../base/platform/ProcessVariables.ts"
import * as AwsError from "../AwsError.ts"
import * as Decode from "./Decode.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Request from "./Request.ts"
import * as Stream from "./Stream.ts"
import * as Exchange from "../Exchange.ts"
import type * as ProviderPort from "../Provider.ts"
import * as SdkError from "../SdkError.ts"
import * as SdkSetup from "../SdkSetup.ts"

/** A signed request, as the SDK passes it to its handler. */
interface HttpRequest {
  readonly protocol: string
  readonly hostname: string
  readonly port?: number | undefined
  readonly method: string
  readonly path: string
  readonly query?: Readonly<Record<string, string | ReadonlyArray<string> | null>> | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** An HTTP response in the form that the SDK expects. */
interface HttpResponse {
  readonly statusCode: number
  readonly reason: string
  readonly headers: Record<string, string>
  readonly body: unknown
}

/** The SDK's interface for sending HTTP requests. */
interface Handler {
  readonly metadata: { readonly handlerProtocol: string }
  readonly handle: (
    request: HttpRequest,
    options?: { readonly abortSignal?: unknown }
  ) => Promise<{ readonly response: HttpResponse }>
  readonly destroy: () => void
  readonly updateHttpClientConfig: () => void
  readonly httpHandlerConfigs: () => Record<string, never>
}

/** Percent-encodes everything except letters, digits, `-`, `.`, `_` and `~`, as AWS signatures require. */
const percentEncode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

const formatQuery = (query: HttpRequest["query"]): string => {
  const pairs = Object.entries(query ?? {})
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, value]) =>
      value === null
        ? [percentEncode(name)]
        : (typeof value === "string" ? [value] : value).map((one) => `${percentEncode(name)}=${percentEncode(one)}`)
    )
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`
}

const formatAddress = (request: HttpRequest): string => {
  const port = request.port === undefined ? "" : `:${request.port}`
  return `${request.protocol}//${request.hostname}${port}${request.path}${formatQuery(request.query)}`
}

const toFetchBody = (body: unknown): string | Uint8Array<ArrayBuffer> | undefined => {
  if (typeof body === "string") return body
  // The SDK's serializer produces only strings and newly allocated byte arrays.
  return body instanceof Uint8Array && body.byteLength > 0 ? (body as Uint8Array<ArrayBuffer>) : undefined
}

/**
 * Creates a handler that sends requests with `fetch`. The body of a failed response is read completely; the body of a
 * successful response is passed on as a stream.
 */
const makeHandler = (fetch: typeof globalThis.fetch): Handler => ({
  metadata: { handlerProtocol: "http/1.1" },
  handle: async (request, options) => {
    const body = toFetchBody(request.body)
    const signal = options?.abortSignal
    const response = await fetch(formatAddress(request), {
      method: request.method,
      headers: { ...request.headers },
      ...(body === undefined ? {} : { body }),
      ...(signal instanceof AbortSignal ? { signal } : {})
    })
    return {
      response: {
        statusCode: response.status,
        reason: response.statusText,
        headers: Object.fromEntries(response.headers),
        body: response.ok ? response.body : new Uint8Array(await response.arrayBuffer())
      }
    }
  },
  destroy: () => {},
  updateHttpClientConfig: () => {},
  httpHandlerConfigs: () => ({})
})

/** Reads the body of a response to its end. */
const collectBody = async (body: unknown): Promise<Uint8Array> => {
  if (body instanceof Uint8Array) return body
  const chunks: Array<Uint8Array> = []
  let size = 0
  // The body of a successful response is a stream of bytes.
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.length
  }
  const whole = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}

type Sdk = typeof import("@aws-sdk/client-bedrock-runtime")

const defaultTimeoutMillis = 1_800_000
const beforeSigning = { step: "build", priority: "low", name: "extras" } as const

const makeClient = (
  sdk: Sdk,
  endpoint: Endpoint.Endpoint,
  credentials: ReturnType<typeof Endpoint.readCredentials>,
  fetch: typeof globalThis.fetch
): BedrockRuntimeClient =>
  new sdk.BedrockRuntimeClient({
    region: endpoint.region,
    ...(endpoint.address === undefined ? {} : { endpoint: endpoint.address }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(endpoint.token === undefined ? {} : { token: { token: endpoint.token } }),
    ...(endpoint.scheme === undefined ? {} : { authSchemePreference: [endpoint.scheme] }),
    maxAttempts: 1,
    requestHandler: makeHandler(fetch),
    streamCollector: collectBody
  })

/** Fields of an SDK request that a middleware step may change. */
interface Outgoing {
  readonly headers: Record<string, string>
  readonly query: Record<string, unknown>
}

const isOutgoing = (request: unknown): request is Outgoing =>
  Json.isFields(request) && Json.isFields(request["headers"]) && Json.isFields(request["query"])

/** Adds the headers and query parameters of a route and of a request. A `null` value removes the header. */
const addExtras = (request: unknown, route: Route.Route, extras: Exchange.Extras): void => {
  if (!isOutgoing(request)) return
  for (const [name, value] of [...Object.entries(route.headers ?? {}), ...Object.entries(extras.headers ?? {})]) {
    if (value === null) delete request.headers[name.toLowerCase()]
    else request.headers[name.toLowerCase()] = value
  }
  for (const [name, value] of Object.entries({ ...route.query, ...extras.query }))
    request.query[name] = Json.readWord(value)
}

/** Creates an SDK middleware step that runs after a request is serialized and before it is signed. */
const makeExtrasStep =
  (route: Route.Route, extras: Exchange.Extras) =>
  <Args extends { readonly request: unknown }, A>(next: (args: Args) => Promise<A>) =>
  (args: Args): Promise<A> => {
    addExtras(args.request, route, extras)
    return next(args)
  }

/** Creates the provider for a route. Its connections are closed when the scope closes. */
export const make = Effect.fn("BedrockConverse.make")(function* (
  route: Route.Route
): Effect.fn.Return<ProviderPort.Service, AiError.AiError | ConfigError, Scope.Scope> {
  yield* registerSecrets(route)
  const variables = yield* ProcessVariables
  const endpoint = Endpoint.fromRoute(route, variables)
  if (Endpoint.needsEnvironment(variables)) yield* (yield* HiddenVariables).lend(awsSecrets)
  const [sdk, fetch] = yield* SdkSetup.loadSdk(route, "@aws-sdk/client-bedrock-runtime", () =>
    import("@aws-sdk/client-bedrock-runtime").catch(rethrowImport)
  )
  const client = makeClient(sdk, endpoint, Endpoint.readCredentials(variables), fetch)
  const makeErrorContext = (method: string): SdkError.Context => ({
    module: "BedrockConverse",
    method,
    url: endpoint.address ?? `https://bedrock-runtime.${endpoint.region}.amazonaws.com`,
    model: route.model
  })
  const executing = makeErrorContext("execute")
  const failCall = (error: unknown): Effect.Effect<never, AiError.AiError> =>
    Effect.clockWith((clock) => Effect.fail(AwsError.fromSdk(error, { ...executing, region: endpoint.region, clock })))

  const sendCommand = <A>(evaluate: () => PromiseLike<A>): Effect.Effect<A, AiError.AiError> =>
    Effect.tryPromise({ try: evaluate, catch: (error) => error }).pipe(Effect.catch(failCall))

  const limitTime = <A>(effect: Effect.Effect<A, AiError.AiError>): Effect.Effect<A, AiError.AiError> =>
    Effect.timeoutOrElse(effect, {
      duration: SdkSetup.computeTimeout(route, defaultTimeoutMillis),
      orElse: () => failCall(Object.assign(new Error("timed out"), { name: "TimeoutError" }))
    })

  const requestWhole = (input: ConverseCommandInput, extras: Exchange.Extras, abortSignal: AbortSignal) => {
    const command = new sdk.ConverseCommand(input)
    command.middlewareStack.add(makeExtrasStep(route, extras), beforeSigning)
    return Effect.flatMap(limitTime(sendCommand(() => client.send(command, { abortSignal }))), (raw) =>
      Effect.fromResult(Decode.decode(raw, executing))
    )
  }

  const requestStream = Effect.fnUntraced(function* (
    input: ConverseStreamCommandInput,
    extras: Exchange.Extras,
    abort: AbortController,
    onPart: OnPart | undefined
  ) {
    const command = new sdk.ConverseStreamCommand(input)
    command.middlewareStack.add(makeExtrasStep(route, extras), beforeSigning)
    const { $metadata, stream } = yield* limitTime(
      sendCommand(() => client.send(command, { abortSignal: abort.signal }))
    )
    if (stream === undefined) return yield* SdkError.makeCutStreamError(executing)
    const batches = Stream.batchEvents(stream)
    const machine = Stream.make(executing, $metadata.requestId)
    const heard = Exchange.collectParts(onPart)
    const isOver = (): boolean => heard.sent.overflow() !== undefined
    for (let over = false; !over && !isOver();) {
      const events = yield* sendCommand(batches.next)
      over = events === undefined
      const parts = events === undefined ? machine.end() : machine.step(events)
      if (parts.length > 0) yield* heard.add(parts)
    }
    // Closes the connection of an answer that exceeded its size limit.
    if (isOver()) abort.abort()
    return yield* Exchange.makeStreamedResponse(machine, heard)
  })

  const execute = (request: ModelRequest, options?: ExecuteOptions): Effect.Effect<ModelResponse, AiError.AiError> =>
    Effect.suspend(() => {
      const extras = Exchange.splitExtras(request)
      const abort = new AbortController()
      const input: unknown = Request.toCommandInput(extras.body)
      // Middleware may have changed the request, so the service validates it and reports errors.
      const answer =
        extras.body["stream"] === true
          ? requestStream(input as ConverseStreamCommandInput, extras, abort, options?.onPart)
          : requestWhole(input as ConverseCommandInput, extras, abort.signal)
      return Effect.onError(answer, () => Effect.sync(() => abort.abort()))
    })

  const prepare = Request.make(route)
  return {
    info: Route.toInfo(route),
    apiMode: "bedrock_converse",
    prepare: (call) => Effect.sync(() => prepare(call)),
    execute,
    decode: (raw) => Effect.fromResult(Decode.decode(raw, makeErrorContext("decode")))
  }
})
