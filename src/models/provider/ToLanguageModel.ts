/**
 * Adapts a provider to the `LanguageModel` of `effect/ai`, so that `generateText`, `streamText`, `generateObject` and
 * toolkits work with it.
 *
 * **Gotchas**
 *
 * Tools that only a vendor's own API can run (`Tool.providerDefined`) are refused. Every streamed part is decoded with
 * `Schema`; to avoid this cost, the loop of a run uses the provider directly.
 *
 * **Example** (Asking a provider without an agent)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { Offline, ToLanguageModel } from "hermes-effect"
 *
 * const model = ToLanguageModel.layer.pipe(Layer.provide(Offline.layer()))
 *
 * const program = LanguageModel.generateText({ prompt: "Reply exactly hello" }).pipe(Effect.provide(model))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §2.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { memoize } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Assembler from "../../base/domain/Assembler.ts"
import * as History from "../../base/domain/History.ts"
import type { ModelCall, StreamPart, ToolChoice, ToolDefinition } from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import * as LanguageModelWire from "./LanguageModelWire.ts"
import * as PartSchema from "./PartSchema.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

const getDefinition = memoize((tool: Tool.Any): ToolDefinition => ({
  name: tool.name,
  description: Tool.getDescription(tool) ?? "",
  parameters: Tool.getJsonSchema(tool)
}))

/** Creates a function that returns the same array for the same tools, so that providers encode them only once. */
const makeDefinitions = (): ((tools: ReadonlyArray<Tool.Any>) => ReadonlyArray<ToolDefinition>) => {
  let last: ReadonlyArray<ToolDefinition> = []
  return (tools) => {
    const found = tools.map(getDefinition)
    if (found.length !== last.length || found.some((definition, index) => definition !== last[index])) last = found
    return last
  }
}

const toToolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): ToolChoice =>
  typeof choice === "string" ? choice : "tool" in choice ? { tool: choice.tool } : (choice.mode ?? "auto")

const makeError = (method: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "ToLanguageModel", method, reason })

const toResponseFormat = (
  format: LanguageModel.ProviderOptions["responseFormat"],
  { defaultCodecTransformer }: typeof LanguageModel
): Effect.Effect<ModelCall["responseFormat"], AiError.AiError> =>
  format.type === "text"
    ? Effect.succeed(format)
    : Effect.try({
        try: () => ({
          type: "json" as const,
          name: format.objectName,
          schema: defaultCodecTransformer(format.schema).jsonSchema
        }),
        catch: (error) =>
          makeError(
            "generateObject",
            new AiError.UnsupportedSchemaError({ description: error instanceof Error ? error.message : String(error) })
          )
      })

const encodeStream = Schema.encodeSync(Schema.Array(PartSchema.StreamPart))

const makeWithModule = (
  module: typeof LanguageModel,
  provider: ProviderPort.Service
): Effect.Effect<LanguageModel.LanguageModel> => {
  const getDefinitions = makeDefinitions()
  const prepareRequest = Effect.fnUntraced(function* (options: LanguageModel.ProviderOptions, stream: boolean) {
    const vendors = options.tools.find(Tool.isProviderDefined)
    if (vendors !== undefined) {
      return yield* makeError(
        "prepare",
        new AiError.ToolConfigurationError({
          toolName: vendors.name,
          description: "a tool that a vendor defines cannot be used through a provider: use a tool of your own"
        })
      )
    }
    return yield* provider.prepare({
      messages: History.toSendableMessages(options.prompt.content, Route.abilities(provider.info)),
      tools: getDefinitions(options.tools),
      toolChoice: toToolChoice(options.toolChoice),
      responseFormat: yield* toResponseFormat(options.responseFormat, module),
      stream
    })
  })
  return module.make({
    generateText: (options) =>
      Effect.map(
        Effect.flatMap(prepareRequest(options, false), (request) => provider.execute(request)),
        LanguageModelWire.encodeAnswer
      ),
    streamText: (options) =>
      Stream.callback<Response.StreamPartEncoded, AiError.AiError>((queue) =>
        Effect.gen(function* () {
          let streamed = false
          const offerParts = (parts: ReadonlyArray<StreamPart>) => Queue.offerAll(queue, encodeStream(parts))
          const response = yield* provider.execute(yield* prepareRequest(options, true), {
            onPart: (parts) => {
              streamed = true
              return Effect.as(offerParts(parts), parts)
            }
          })
          if (!streamed) yield* offerParts(Assembler.toParts(response))
          yield* Queue.end(queue)
        }).pipe(Effect.catchCause((cause) => Queue.failCause(queue, cause)))
      )
  })
}

/** Creates a `LanguageModel` from a provider. */
export const make = (provider: ProviderPort.Service): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.flatMap(
    Effect.promise(() => import("effect/ai/LanguageModel")),
    (module) => makeWithModule(module, provider)
  )

/**
 * The `LanguageModel` service, declared by its key, so that its module is loaded only when the first model is created.
 */
const Model: Context.Service<LanguageModel.LanguageModel, LanguageModel.LanguageModel> =
  Context.Service<LanguageModel.LanguageModel>("effect/ai/LanguageModel")

/** Provides the run's `Provider` as a `LanguageModel`. */
export const layer: Layer.Layer<LanguageModel.LanguageModel, never, Provider> = Layer.effect(
  Model,
  Effect.flatMap(Provider, make)
)
