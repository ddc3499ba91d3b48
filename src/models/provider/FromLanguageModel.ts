/**
 * Adapts any `LanguageModel` of `effect/ai` to a provider whose `apiMode` is `language_model`.
 *
 * **Details**
 *
 * The request is the encoded `{ prompt, tools, tool_choice }`, with `stream` and `response_format` if requested, so
 * that middleware can read and rewrite it like any other request. The model does not resolve tool calls, and it passes
 * on calls of undeclared tools. A raw answer is `{ content }`, the encoded parts of the answer with its `finish` part.
 *
 * **Gotchas**
 *
 * A `LanguageModel` takes no temperature, output limit or reasoning effort for one call: configure the model itself. It
 * takes no JSON Schema either; a structured answer is requested in the system prompt. Sources and the activity of the
 * vendor's own tools are not passed on.
 *
 * **Example** (Any model of effect/ai)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { Agent, FromLanguageModel, Offline, Provider, Runtime, ToLanguageModel } from "hermes-effect"
 *
 * const mine = ToLanguageModel.layer.pipe(Layer.provide(Offline.layer()))
 *
 * const provider = Layer.effect(
 *   Provider.Provider,
 *   Effect.map(LanguageModel.LanguageModel, (model) => FromLanguageModel.make(model, { provider: "mine", model: "mine-1" }))
 * ).pipe(Layer.provide(mine))
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provide(Runtime.layer({ provider })))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §2.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import * as LanguageModelWire from "./LanguageModelWire.ts"
import * as Exchange from "./Exchange.ts"
import type * as ProviderPort from "./Provider.ts"

/** Names of the provider and the model that answers are attributed to. */
export interface Info {
  readonly provider: string
  readonly model: string
}

const makeError = (method: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "FromLanguageModel", method, reason })

const readRequest = (request: ModelRequest) =>
  Effect.mapError(LanguageModelWire.readRequest(request), (error) =>
    makeError("execute", new AiError.InvalidRequestError({ description: `the request does not fit: ${error.message}` }))
  )

/** Creates a provider from a `LanguageModel`. */
export const make = (model: LanguageModel.LanguageModel, info: Info): ProviderPort.Service => {
  const generateStream = Effect.fnUntraced(function* (
    options: LanguageModelWire.Options,
    onPart: ExecuteOptions["onPart"]
  ): Effect.fn.Return<ModelResponse, AiError.AiError> {
    const filter = LanguageModelWire.makeFilter()
    const heard = Exchange.collectParts(onPart)
    const { sent } = heard
    const parts = Stream.takeUntil(model.streamText(options), () => sent.overflow() !== undefined)
    yield* Stream.runForEachArray(parts, (parts) => {
      const error = LanguageModelWire.findError(parts)
      if (error !== undefined) return Effect.fail(makeError("execute", error))
      const kept = filter(parts)
      return kept.length === 0 ? Effect.void : heard.add(kept)
    })
    const all = sent.result()
    if (!all.finished && sent.overflow() === undefined) {
      return yield* makeError(
        "execute",
        new AiError.InvalidResponseError({ description: "the stream ended before the answer was complete" })
      )
    }
    return LanguageModelWire.makeResponse(heard.seen().result(), all)
  })

  return {
    info: { ...info, apiMode: "language_model", baseUrl: undefined },
    apiMode: "language_model",
    prepare: (call) => Effect.sync(() => LanguageModelWire.prepare(call)),
    execute: (request, options) =>
      Effect.flatMap(readRequest(request), (found) =>
        found.stream
          ? generateStream(found.options, options?.onPart)
          : Effect.map(model.generateText(found.options), ({ content }) =>
              LanguageModelWire.makeResponse(LanguageModelWire.fromParts(content))
            )
      ),
    decode: (raw) => Effect.mapError(LanguageModelWire.decode(raw), (reason) => makeError("decode", reason))
  }
}
