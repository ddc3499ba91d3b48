/**
 * Answers of this runtime as a `LanguageModel` of `effect/ai`: its options as a `ModelCall`, and the answer as encoded
 * parts, whole or streamed. The caller sends the call: to one provider (`ToLanguageModel`) or over the routes of a
 * router (`RoutedLanguageModel`).
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { memoize } from "effect/Function"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Assembler from "../../base/domain/Assembler.ts"
import type {
  ModelCall,
  ModelResponse,
  OnPart,
  StreamPart,
  ToolChoice,
  ToolDefinition
} from "../../base/domain/ModelCall.ts"
import * as LanguageModelWire from "./LanguageModelWire.ts"
import * as PartSchema from "./PartSchema.ts"

/** Reader of a streamed answer. Parts that it was given cannot be taken back once they have content. */
export interface Reader {
  readonly onPart: OnPart
  /** Returns whether parts with content were passed on. */
  readonly hasContent: () => boolean
  /** Forgets the parts of an attempt that failed before content came. */
  readonly restart: () => void
}

/** Sends a call. A call with a reader is streamed. */
export type Send = (call: ModelCall, reader: Reader | undefined) => Effect.Effect<ModelResponse, AiError.AiError>

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

type PartQueue = Queue.Queue<Response.StreamPartEncoded, AiError.AiError | Cause.Done>

/**
 * Parts that a repeated attempt would only send again: they open others or describe the answer. They are held back
 * until content follows.
 */
const isOpening = ({ type }: StreamPart): boolean => type === "response-metadata" || type.endsWith("-start")

/** Makes the reader that passes parts on to a queue. */
const makeReader = (queue: PartQueue): Reader => {
  let held: ReadonlyArray<StreamPart> = []
  let isRead = false
  return {
    onPart: (parts) => {
      if (!isRead && parts.every(isOpening)) {
        held = [...held, ...parts]
        return Effect.succeed(parts)
      }
      isRead = true
      const all = held.length === 0 ? parts : [...held, ...parts]
      held = []
      return all.length === 0 ? Effect.succeed(parts) : Effect.as(Queue.offerAll(queue, encodeStream(all)), parts)
    },
    hasContent: () => isRead,
    restart: () => {
      held = []
    }
  }
}

const makeWithModule = (module: typeof LanguageModel, send: Send): Effect.Effect<LanguageModel.LanguageModel> => {
  const getDefinitions = makeDefinitions()
  const toModelCall = Effect.fnUntraced(function* (
    { prompt, responseFormat, toolChoice, tools }: LanguageModel.ProviderOptions,
    stream: boolean
  ): Effect.fn.Return<ModelCall, AiError.AiError> {
    const vendors = tools.find(Tool.isProviderDefined)
    if (vendors !== undefined) {
      return yield* makeError(
        "prepare",
        new AiError.ToolConfigurationError({
          toolName: vendors.name,
          description: "a tool that a vendor defines cannot be used through a provider: use a tool of your own"
        })
      )
    }
    return {
      messages: prompt.content,
      tools: getDefinitions(tools),
      toolChoice: toToolChoice(toolChoice),
      responseFormat: yield* toResponseFormat(responseFormat, module),
      stream
    }
  })
  const streamAnswer = Effect.fnUntraced(function* (options: LanguageModel.ProviderOptions, queue: PartQueue) {
    const reader = makeReader(queue)
    const response = yield* send(yield* toModelCall(options, true), reader)
    if (!reader.hasContent()) {
      reader.restart()
      yield* reader.onPart(Assembler.toParts(response))
    }
    yield* Queue.end(queue)
  })
  return module.make({
    generateText: (options) =>
      Effect.map(
        Effect.flatMap(toModelCall(options, false), (call) => send(call, undefined)),
        LanguageModelWire.encodeAnswer
      ),
    streamText: (options) =>
      Stream.callback<Response.StreamPartEncoded, AiError.AiError>((queue) =>
        Effect.catchCause(streamAnswer(options, queue), (cause) => Queue.failCause(queue, cause))
      )
  })
}

/** Makes a `LanguageModel` that sends its calls so. Loads the module of `effect/ai`. */
export const make = (send: Send): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.flatMap(
    Effect.promise(() => import("effect/ai/LanguageModel")),
    (module) => makeWithModule(module, send)
  )
