/**
 * Encodes a prepared answer as a chat completion: the body that a server would send, and the parts that it would
 * stream.
 *
 * **Details**
 *
 * The body is the only source. The stream is created from the decoded body, so a streamed answer and a whole answer are
 * the same. The same answer always has the same bytes: they do not depend on time or random numbers.
 */
import * as Effect from "effect/Effect"
import { memoize } from "effect/Function"
import * as Response from "effect/ai/Response"
import type * as AiError from "effect/ai/AiError"
import * as Assembler from "../../../base/domain/Assembler.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { ContentPart, ModelRequest, ModelResponse, OnPart, StreamPart } from "../../../base/domain/ModelCall.ts"
import { toResponse } from "../../../base/domain/Usage.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Decode from "../chat/Decode.ts"
import type * as SdkError from "../SdkError.ts"

/** A tool call. If the arguments are a string, they are sent unchanged, even if they are invalid JSON. */
export interface Call {
  readonly id: string
  readonly name: string
  readonly arguments: unknown
}

/** Token counts. Missing counts are estimated. */
export interface Tokens {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly cacheRead?: number | undefined
  readonly cacheWrite?: number | undefined
  readonly reasoning?: number | undefined
}

/** A prepared answer. */
export interface Answer {
  readonly text?: string | undefined
  readonly reasoning?: string | undefined
  readonly calls?: ReadonlyArray<Call> | undefined
  readonly usage?: Tokens | undefined
  /** Finish reason in the chat completions format. By default it depends on whether there are tool calls. */
  readonly finishReason?: string | undefined
}

const charactersPerToken = 4

const estimateTokens = (characters: number): number => Math.ceil(characters / charactersPerToken)

const lengthOfObject = memoize((value: object) => JSON.stringify(value).length)

/** Returns the length of a value's JSON in characters. The length of an object is computed only once. */
const measureLength = (value: unknown): number =>
  typeof value === "object" && value !== null ? lengthOfObject(value) : (JSON.stringify(value)?.length ?? 0)

const toArgumentsText = (value: unknown): string => (typeof value === "string" ? value : ToolCallWire.toText(value))

const estimateUsage = (request: ModelRequest, answer: Answer): Json.Fields => {
  const prompt =
    Json.readItems(request["messages"]).reduce<number>((sum, message) => sum + measureLength(message), 0) +
    (request["tools"] === undefined ? 0 : measureLength(request["tools"]))
  const written =
    (answer.text ?? "").length +
    (answer.calls ?? []).reduce((sum, call) => sum + call.name.length + toArgumentsText(call.arguments).length, 0)
  const thought = answer.usage?.reasoning ?? estimateTokens((answer.reasoning ?? "").length)
  const cacheRead = answer.usage?.cacheRead ?? 0
  const cacheWrite = answer.usage?.cacheWrite ?? 0
  const input = (answer.usage?.input ?? estimateTokens(prompt)) + cacheRead + cacheWrite
  const output = answer.usage?.output ?? estimateTokens(written) + thought
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    ...(cacheRead + cacheWrite === 0
      ? {}
      : { prompt_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite } }),
    ...(thought === 0 ? {} : { completion_tokens_details: { reasoning_tokens: thought } })
  }
}

/** Id and model name of an answer. */
export interface Origin {
  readonly id: string
  readonly model: string
}

/** Creates the body of an answer to a request. */
export const makeBody = (request: ModelRequest, answer: Answer, origin: Origin): Json.Fields => {
  const calls = answer.calls ?? []
  return {
    id: origin.id,
    object: "chat.completion",
    created: 0,
    model: origin.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: answer.text ?? null,
          ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map((call) => ({
                  id: call.id,
                  type: "function",
                  function: { name: call.name, arguments: toArgumentsText(call.arguments) }
                }))
              })
        },
        finish_reason: answer.finishReason ?? (calls.length === 0 ? "stop" : "tool_calls")
      }
    ],
    usage: estimateUsage(request, answer)
  }
}

/** An answer without content. */
export const nothing: Omit<ModelResponse, "raw"> = {
  parts: [],
  finishReason: "unknown",
  usage: toResponse({ input: 0, output: 0 }),
  model: undefined,
  id: undefined
}

/** Decodes a body with {@link Decode.decode}, as an Effect. */
export const decode = (raw: unknown, context: SdkError.Context): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.fromResult(Decode.decode(raw, context))

/** Splits text into words, each followed by its white space. */
export const splitIntoWords = (text: string): ReadonlyArray<string> =>
  text.match(/(?:^\s+)?\S+\s*/g) ?? (text === "" ? [] : [text])

/** Splits text into the pieces in which it is streamed. */
type Split = (text: string) => ReadonlyArray<string>

const toStreamParts = (part: ContentPart, index: number, split: Split): ReadonlyArray<StreamPart> => {
  const id = String(index)
  switch (part.type) {
    case "text":
      return [
        Response.makePart("text-start", { id }),
        ...split(part.text).map((delta) => Response.makePart("text-delta", { id, delta })),
        Response.makePart("text-end", { id })
      ]
    case "reasoning":
      return [
        Response.makePart("reasoning-start", { id, metadata: part.metadata }),
        ...splitIntoWords(part.text).map((delta) => Response.makePart("reasoning-delta", { id, delta })),
        Response.makePart("reasoning-end", { id })
      ]
    case "tool-call":
      return [
        Response.makePart("tool-params-start", { id: part.id, name: part.name, providerExecuted: false }),
        Response.makePart("tool-params-delta", { id: part.id, delta: toArgumentsText(part.params) }),
        Response.makePart("tool-params-end", { id: part.id }),
        part
      ]
    case "file":
      return [part]
  }
}

/** Returns the parts in which a complete answer is streamed. `split` divides its text into pieces. */
export const streamResponse = (response: ModelResponse, split: Split = splitIntoWords): ReadonlyArray<StreamPart> => [
  Response.makePart("response-metadata", {
    ...(response.id === undefined ? {} : { id: response.id }),
    ...(response.model === undefined ? {} : { modelId: response.model })
  }),
  ...response.parts.flatMap((part, index) => toStreamParts(part, index, split)),
  Response.makePart("finish", { reason: response.finishReason, usage: response.usage, response: undefined })
]

/**
 * Streams pieces through `onPart` one after the other. The answer consists of the parts that `onPart` returns; its body
 * is the original one.
 */
export const playBatches = Effect.fnUntraced(function* <E, R>(
  sent: ModelResponse,
  batches: Iterable<ReadonlyArray<StreamPart>>,
  onPart: OnPart,
  before: (index: number) => Effect.Effect<void, E, R>
): Effect.fn.Return<ModelResponse, E, R> {
  const seen = Assembler.make()
  let index = 0
  for (const batch of batches) {
    yield* before(index++)
    seen.add(yield* onPart(batch))
  }
  const { finishReason, id, model, parts, usage } = seen.result()
  return { parts, finishReason, usage, model, id, raw: sent.raw }
})
