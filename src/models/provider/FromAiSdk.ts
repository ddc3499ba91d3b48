/**
 * Creates a provider from a language model of the AI SDK, for example `openai("gpt-5.2")`, a gateway's model or a
 * wrapped model. Supports the specifications v2, v3 and v4 (`ai` 5, 6 and 7).
 *
 * **Details**
 *
 * The request has the same form as in `FromLanguageModel`: the encoded `{ prompt, tools, tool_choice }`, with
 * `max_output_tokens`, `temperature`, `seed`, `reasoning_effort` and `response_format` if requested. Middleware reads
 * and rewrites it like any other request. Messages with images and files, tool calls and results, reasoning with the
 * provider's signatures, and streaming are supported in both directions. Usage is reported by the model.
 *
 * Failures are typed. HTTP failures are classified by status and body as in every other protocol, including
 * `retry-after`, so retries, fallback routes and the circuit breaker apply to them. A missing key, an unknown model and
 * an unreadable answer are classified by the AI SDK's error name. The model itself does not retry; only the AI SDK's
 * `generateText` would, and it is not used. Interruption aborts the call.
 *
 * **Gotchas**
 *
 * Only v4 has a setting for the reasoning effort: models with specification v2 or v3 are called without it, and a
 * warning is logged. With a model of another specification, every call fails with an `InvalidRequestError` that names
 * the model's specification and the supported ones.
 *
 * Files that the model cannot load from their address must be given as bytes. Sources, and the activity of the
 * provider's own tools, are not passed on. Each warning from the model, for example about an unknown setting, is logged
 * once.
 *
 * **Example** (An agent on a model of the AI SDK)
 *
 * ```ts
 * import { MockLanguageModelV4 } from "ai/test"
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { FromAiSdk } from "hermes-effect/ai-sdk"
 *
 * // In an application: openai("gpt-5.2") of @ai-sdk/openai.
 * const model = new MockLanguageModelV4({
 *   doGenerate: {
 *     content: [{ type: "text", text: "hello" }],
 *     finishReason: { unified: "stop", raw: "stop" },
 *     usage: { inputTokens: { total: 9, noCache: 9, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } },
 *     warnings: []
 *   }
 * })
 *
 * const program = Agent.run({ prompt: "Say hello" }).pipe(Effect.provide(Runtime.layer({ provider: FromAiSdk.layer(model) })))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §2.
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  SharedV4Headers,
  SharedV4Warning
} from "@ai-sdk/provider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import * as Json from "../../base/domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import * as AnswerSources from "./AnswerSources.ts"
import * as AiSdkAnswer from "./aisdk/AiSdkAnswer.ts"
import * as AiSdkFailure from "./aisdk/AiSdkFailure.ts"
import * as AiSdkPrompt from "./aisdk/AiSdkPrompt.ts"
import * as AiSdkVersions from "./aisdk/AiSdkVersions.ts"
import * as Exchange from "./Exchange.ts"
import * as LanguageModelWire from "./LanguageModelWire.ts"
import { Provider, type Service } from "./Provider.ts"
import * as SdkError from "./SdkError.ts"

/** An AI SDK model that implements specification v2, v3 or v4. */
export type AiSdkModel = AiSdkVersions.AnyModel

type ModelEffect<A> = Effect.Effect<A, AiError.AiError>

const makeInvalidRequest = (context: SdkError.Context, description: string): AiError.AiError =>
  AiError.make({
    module: context.module,
    method: context.method,
    reason: new AiError.InvalidRequestError({ description })
  })

/** Reads the call options from a request. */
const readCallOptions = (request: ModelRequest, context: SdkError.Context) =>
  Effect.mapBoth(LanguageModelWire.readMembers(request), {
    onFailure: (error) => makeInvalidRequest(context, `the request does not fit: ${error.message}`),
    onSuccess: ({ found, messages }) => ({
      isStreamed: found.stream === true,
      options: AiSdkPrompt.makeCallOptions({
        messages,
        tools: found.tools,
        toolChoice: found.tool_choice,
        responseFormat: found.response_format,
        maxOutputTokens: found.max_output_tokens,
        temperature: found.temperature,
        seed: found.seed,
        reasoning: found.reasoning_effort
      })
    })
  })

const failCall = (thrown: unknown, context: SdkError.Context): ModelEffect<never> =>
  Effect.clockWith((clock) => Effect.fail(AiSdkFailure.fromAiSdk(thrown, { ...context, clock })))

/** Calls the model and converts its errors. */
const callModel = <A>(ask: () => PromiseLike<A>, context: SdkError.Context): ModelEffect<A> =>
  // Errors are converted here because the runtime's secrets, which are redacted, are not accessible in the promise's
  // callbacks.
  Effect.catch(Effect.tryPromise({ try: async () => await ask(), catch: (error) => error }), (error) =>
    failCall(error, context)
  )

const reportHeaders = (headers: SharedV4Headers | undefined, { onHeaders }: ExecuteOptions): Effect.Effect<void> => {
  if (onHeaders === undefined || headers === undefined) return Effect.void
  const known = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  return onHeaders((name) => known.get(name))
}

/** Creates a provider for a value that is not a supported model. Each call fails with an explanation. */
const makeUnreadableProvider = (given: AiSdkModel, description: string): Service => {
  const failCall = (method: string) =>
    Effect.fail(
      AiError.make({
        module: "FromAiSdk",
        method,
        reason: new AiError.InvalidRequestError({ parameter: "model", description })
      })
    )
  const { modelId, provider } = Json.readFields(given)
  return {
    info: {
      provider: typeof provider === "string" ? provider : "ai-sdk",
      model: typeof modelId === "string" ? modelId : "unknown",
      apiMode: "language_model",
      baseUrl: undefined
    },
    apiMode: "language_model",
    prepare: () => failCall("prepare"),
    execute: () => failCall("execute"),
    decode: () => failCall("decode")
  }
}

/** Creates a provider from a model. */
export const make = (given: AiSdkModel): Service => {
  const model = AiSdkVersions.upgradeModel(given)
  return typeof model === "string" ? makeUnreadableProvider(given, model) : makeProvider(model)
}

/** A model, and the warnings that it has sent. */
interface ModelCalls {
  readonly model: LanguageModelV4
  /** Context of errors. */
  readonly executing: SdkError.Context
  readonly warned: Set<string>
}

const warnOnce = ({ warned, model }: ModelCalls, warnings: ReadonlyArray<SharedV4Warning>): Effect.Effect<void> =>
  Effect.forEach(
    warnings.map(Json.toText).filter((text) => !warned.has(text)),
    (text) => {
      warned.add(text)
      return Effect.logWarning(`${model.provider} (${model.modelId}) warns: ${text}`)
    },
    { discard: true }
  )

const generateWhole = Effect.fnUntraced(function* (
  calls: ModelCalls,
  options: LanguageModelV4CallOptions,
  execution: ExecuteOptions
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { executing } = calls
  const result = yield* callModel(() => calls.model.doGenerate(options), executing)
  yield* reportHeaders(result.response?.headers, execution)
  yield* warnOnce(calls, result.warnings)
  if (AiSdkAnswer.isCut(result.finishReason)) return yield* SdkError.makeCutStreamError(executing)
  return LanguageModelWire.makeResponse(AiSdkAnswer.toModelAnswer(result))
})

const generateStream = Effect.fnUntraced(function* (
  calls: ModelCalls,
  options: LanguageModelV4CallOptions,
  execution: ExecuteOptions
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { executing } = calls
  const { response, stream } = yield* callModel(() => calls.model.doStream(options), executing)
  yield* reportHeaders(response?.headers, execution)
  const heard = Exchange.collectParts(execution.onPart)
  const getPieces = AiSdkAnswer.makePieces()
  const sources = AnswerSources.makeList()
  const reader = stream.getReader()
  const takePart = Effect.fnUntraced(function* (
    part: LanguageModelV4StreamPart
  ): Effect.fn.Return<void, AiError.AiError> {
    if (part.type === "stream-start") return yield* warnOnce(calls, part.warnings)
    if (part.type === "error") return yield* failCall(part.error, executing)
    if (part.type === "finish" && AiSdkAnswer.isCut(part.finishReason))
      return yield* SdkError.makeCutStreamError(executing)
    if (part.type === "source") sources.add([part])
    const pieces = getPieces(part)
    if (pieces.length > 0) yield* heard.add(pieces)
  })
  const all = Effect.gen(function* () {
    while (heard.sent.overflow() === undefined) {
      const { done, value } = yield* callModel(() => reader.read(), executing)
      if (done) return
      yield* takePart(value)
      if (value.type === "finish") return
    }
  })
  // Cancelling the reader closes the connection if the stream was not read to its end.
  yield* Effect.ensuring(
    all,
    Effect.sync(() => void reader.cancel().catch(() => {}))
  )
  const answer = heard.sent.result()
  if (!answer.finished && heard.sent.overflow() === undefined) return yield* SdkError.makeCutStreamError(executing)
  const seen = { ...heard.seen().result(), ...AnswerSources.toMember(sources.list()) }
  return LanguageModelWire.makeResponse(seen, answer)
})

const makeProvider = (model: LanguageModelV4): Service => {
  const executing = { module: "FromAiSdk", method: "execute", url: undefined, model: model.modelId }
  const calls: ModelCalls = { model, executing, warned: new Set() }
  return {
    info: { provider: model.provider, model: model.modelId, apiMode: "language_model", baseUrl: undefined },
    apiMode: "language_model",
    prepare: (call) => Effect.sync(() => LanguageModelWire.prepareWithSettings(call)),
    execute: (request, execution = {}) =>
      Effect.flatMap(readCallOptions(request, executing), ({ isStreamed, options }) =>
        Effect.suspend(() => {
          const abort = new AbortController()
          const signalled = { ...options, abortSignal: abort.signal }
          return Effect.onError(
            isStreamed ? generateStream(calls, signalled, execution) : generateWhole(calls, signalled, execution),
            () => Effect.sync(() => abort.abort())
          )
        })
      ),
    decode: (raw) =>
      Effect.mapError(LanguageModelWire.decode(raw), (reason) =>
        AiError.make({ module: "FromAiSdk", method: "decode", reason })
      )
  }
}

/** Provides the result of {@link make} as the run's `Provider`. */
export const layer = (model: AiSdkModel): Layer.Layer<Provider> => Layer.succeed(Provider, make(model))
