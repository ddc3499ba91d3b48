/**
 * Records the exchanges between the runtime and a provider, one line of JSON each, and replays them without a network.
 *
 * **Details**
 *
 * {@link recordProvider} wraps a provider and hands each finished exchange to a sink: the request, the streamed parts,
 * and the answer or the error. No secrets are written: secrets known to `Redaction` are replaced first, and the key of
 * a route is not part of a request. {@link makeProvider} replays a recording in the order in which its requests began.
 * Each request must equal the recorded one, compared without secrets; otherwise the error names the first difference.
 *
 * **Gotchas**
 *
 * `prompt_cache_key` is neither recorded nor compared, because it names the session. An interrupted request is not
 * recorded. A recording of concurrent requests can be replayed only if they begin in the same order again.
 *
 * **Example** (Recorded once, played again)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Offline, Provider, Runtime } from "hermes-effect"
 * import { Replay } from "hermes-effect/testing"
 *
 * const lines: Array<string> = []
 * const recording = Layer.effect(
 *   Provider.Provider,
 *   Effect.map(Offline.make(), (provider) => Replay.recordProvider(provider, (line) => Effect.sync(() => lines.push(line))))
 * )
 * const ask = Agent.run({ prompt: "Reply exactly hello" })
 *
 * await Effect.runPromise(Effect.provide(ask, Runtime.layer({ provider: recording })))
 * const played = await Effect.runPromise(Effect.provide(ask, Runtime.layer({ provider: Replay.layer(lines) })))
 *
 * console.log(played.text)
 * // => hello
 * ```
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as PlatformError from "effect/PlatformError"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Assembler from "../../base/domain/Assembler.ts"
import type {
  ExecuteOptions,
  ModelCall,
  ModelRequest,
  ModelResponse,
  OnPart,
  StreamPart
} from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Completion from "./offline/Completion.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"
import * as Recording from "./replay/Recording.ts"
import type * as SdkError from "./SdkError.ts"

/** Receives the lines of a recording. */
export type Sink = (line: string) => Effect.Effect<void, PlatformError.PlatformError>

const makeError = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Replay", method: "execute", reason })

const refuseRequest = (description: string): AiError.AiError =>
  makeError(new AiError.InvalidRequestError({ description }))

const makeWriteError = (error: unknown): AiError.AiError =>
  makeError(
    new AiError.UnknownError({
      description: `the exchange cannot be recorded: ${error instanceof Error ? error.message : String(error)}`
    })
  )

const asIs: OnPart = Effect.succeed

/**
 * Returns a provider that behaves like the given one and records its exchanges. A request fails if its line cannot be
 * written, because a recording with a gap would replay exchanges that never happened.
 */
export const recordProvider = (provider: ProviderPort.Service, sink: Sink): ProviderPort.Service => {
  let count = 0
  const { baseUrl, ...route } = provider.info
  const writeExchange = (
    request: ModelRequest,
    index: number,
    stream: ReadonlyArray<ReadonlyArray<StreamPart>>,
    outcome: Pick<Recording.Exchange, "response" | "error">
  ): Effect.Effect<void, AiError.AiError> =>
    Effect.try({
      try: () => {
        const canonical = Recording.toCanonicalRequest(request)
        return Recording.toLine({
          version: 1,
          index,
          route: baseUrl === undefined ? route : { ...route, baseUrl },
          hash: Recording.hashRequest(canonical),
          request: canonical,
          ...(stream.length === 0 ? {} : { stream }),
          ...outcome
        })
      },
      catch: makeWriteError
    }).pipe(Effect.flatMap((line) => Effect.mapError(sink(line), makeWriteError)))

  const execute = (request: ModelRequest, options?: ExecuteOptions): Effect.Effect<ModelResponse, AiError.AiError> =>
    Effect.suspend(() => {
      const index = count++
      const stream: Array<ReadonlyArray<StreamPart>> = []
      const next = options?.onPart ?? asIs
      return provider
        .execute(request, {
          onPart: (parts) => {
            stream.push(parts)
            return next(parts)
          }
        })
        .pipe(
          Effect.tapError((error) => writeExchange(request, index, stream, { error })),
          Effect.tap(({ finishReason, id, model, parts, raw, usage }) =>
            writeExchange(request, index, stream, { response: { parts, finishReason, usage, model, id, raw } })
          )
        )
    })

  return { ...provider, execute }
}

const reportDifference = (recorded: Recording.Exchange, request: unknown, number: number): AiError.AiError => {
  const found = Recording.findDifference(recorded.request, request)
  return refuseRequest(
    `request ${number} is not the recorded one${
      found === undefined ? "" : `: ${found.path} is ${found.actual}, recorded was ${found.expected}`
    }; record it again`
  )
}

const playExchange = Effect.fnUntraced(function* (
  exchange: Recording.Exchange,
  onPart: OnPart | undefined
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { error, response, stream } = exchange
  const noDelay = () => Effect.void
  if (response === undefined) {
    const nothing: ModelResponse = { ...Completion.nothing, raw: undefined }
    if (onPart !== undefined && stream !== undefined) yield* Completion.playBatches(nothing, stream, onPart, noDelay)
    return yield* error ?? refuseRequest("the recorded exchange has neither an answer nor an error")
  }
  const { finishReason, id, model, parts, raw, usage } = response
  const whole: ModelResponse = { parts, finishReason, usage, model, id, raw }
  return onPart === undefined
    ? whole
    : yield* Completion.playBatches(whole, stream ?? [Assembler.toParts(whole)], onPart, noDelay)
})

const readExchanges = (lines: Iterable<string>): Result.Result<ReadonlyArray<Recording.Exchange>, ConfigError> =>
  Result.gen(function* () {
    const exchanges: Array<Recording.Exchange> = []
    let number = 0
    for (const line of lines) {
      number++
      if (line.trim() !== "") exchanges.push(yield* Recording.fromLine(line, number))
    }
    return exchanges.sort((a, b) => a.index - b.index)
  })

/** The functions of one protocol that prepare requests and decode bodies. */
interface Protocol {
  readonly prepare: (call: ModelCall) => ModelRequest
  readonly decode: (raw: unknown) => Effect.Effect<ModelResponse, AiError.AiError>
}

const makeErrorContext = (route: Route.Route): SdkError.Context => ({
  module: "Replay",
  method: "decode",
  url: route.baseUrl,
  model: route.model
})

const loadProtocol = async (route: Route.Route): Promise<Protocol> => {
  const context = makeErrorContext(route)
  switch (route.apiMode) {
    case "chat_completions": {
      const { prepare } = await import("./chat/Request.ts")
      const { decode } = await import("./chat/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "codex_responses": {
      const { prepare } = await import("./responses/Request.ts")
      const { decode } = await import("./responses/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "bedrock_converse": {
      const { prepare } = await import("./bedrock/Request.ts")
      const { decode } = await import("./bedrock/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "anthropic_messages": {
      const { prepare } = await import("./anthropic/Request.ts")
      const { decode } = await import("./anthropic/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "language_model": {
      const { decode, prepare } = await import("./LanguageModelWire.ts")
      return {
        prepare,
        decode: (raw) =>
          Effect.mapError(decode(raw), (reason) => AiError.make({ module: "Replay", method: "decode", reason }))
      }
    }
  }
}

/** Loads the part of a route's protocol that prepares requests and decodes bodies without an SDK. */
export const openProtocol = (route: Route.Route): Effect.Effect<Protocol> => Effect.promise(() => loadProtocol(route))

/** Creates a provider that replays a recording from its first exchange. */
export const makeProvider = Effect.fn("Replay.makeProvider")(function* (
  lines: Iterable<string>
): Effect.fn.Return<ProviderPort.Service, ConfigError> {
  const exchanges = yield* Effect.fromResult(readExchanges(lines))
  const [first] = exchanges
  if (first === undefined) {
    return yield* new ConfigError({
      path: "recording",
      message: "the recording is empty: record at least one exchange"
    })
  }
  const route: Route.Route = first.route
  const { decode, prepare } = yield* openProtocol(route)
  let played = 0
  return {
    info: Route.toInfo(route),
    apiMode: route.apiMode,
    prepare: (call) => Effect.sync(() => prepare(call)),
    execute: (request, options) =>
      Effect.suspend(() => {
        const number = played + 1
        const exchange = exchanges[played]
        if (exchange === undefined) {
          const many = exchanges.length === 1 ? "1 exchange" : `${exchanges.length} exchanges`
          return Effect.fail(
            refuseRequest(`the recording is exhausted: it has ${many} and was asked for request ${number}`)
          )
        }
        const canonical = Recording.toCanonicalRequest(request)
        if (Recording.hashRequest(canonical) !== exchange.hash)
          return Effect.fail(reportDifference(exchange, canonical, number))
        played = number
        return playExchange(
          exchange,
          request["stream"] === true || exchange.stream !== undefined ? options?.onPart : undefined
        )
      }),
    decode
  }
})

/** Provides the result of {@link makeProvider} as the run's `Provider`. */
export const layer = (lines: Iterable<string>): Layer.Layer<Provider, ConfigError> =>
  Layer.effect(Provider, makeProvider(lines))

/**
 * Creates a sink that appends lines to a file that only its owner can read, like the session database. Fails
 * immediately, before any request is sent, if the file cannot be written.
 */
export const toFile = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<Sink, ConfigError, FileSystem.FileSystem> {
  const files = yield* FileSystem.FileSystem
  const appendText = (text: string) => files.writeFileString(path, text, { flag: "a", mode: 0o600 })
  yield* appendText("").pipe(
    // The mode given at opening applies only to a new file, so the mode of an existing file is changed here.
    Effect.andThen(files.chmod(path, 0o600)),
    Effect.mapError(
      (error) =>
        new ConfigError({ path, message: `the recording cannot be written to ${path}: ${describeReason(error)}` })
    )
  )
  return (line) => appendText(`${line}\n`)
})

/** Reads the lines of a recording from a file. */
export const fromFile = (path: string): Effect.Effect<ReadonlyArray<string>, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (files) => files.readFileString(path)).pipe(
    Effect.mapBoth({
      onFailure: (error) => new ConfigError({ path, message: `the recording cannot be read: ${error.message}` }),
      onSuccess: (text) => text.split("\n")
    })
  )
