/**
 * Answers of a foreign `LanguageModel` in the vocabulary of the runtime. Sources, and what the vendor's own tools did, are
 * left out.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Json from "../../domain/Json.ts"
import type { ContentPart, ModelResponse, StreamPart } from "../../domain/Model.ts"
import { toResponse } from "../../domain/Usage.ts"
import * as PartSchema from "../PartSchema.ts"

/** An answer without its raw form. */
export type Bare = Omit<ModelResponse, "raw">

const isContent = (part: Response.AnyPart): part is ContentPart => {
  switch (part.type) {
    case "text":
    case "reasoning":
    case "file":
      return true
    case "tool-call":
      return !part.providerExecuted
    default:
      return false
  }
}

const isStreamed = (part: Response.AnyPart): part is StreamPart => {
  switch (part.type) {
    case "text-start":
    case "text-delta":
    case "text-end":
    case "reasoning-start":
    case "reasoning-delta":
    case "reasoning-end":
    case "tool-params-delta":
    case "tool-params-end":
    case "file":
    case "response-metadata":
    case "finish":
      return true
    case "tool-params-start":
    case "tool-call":
      return !part.providerExecuted
    default:
      return false
  }
}

/** Takes the parts of a stream as they come and gives those that pass. */
export const makeFilter = (): (parts: ReadonlyArray<Response.AnyPart>) => ReadonlyArray<StreamPart> => {
  const theirs = new Set<string>()
  return (parts) => {
    const out: Array<StreamPart> = []
    for (const part of parts) {
      if (part.type === "tool-params-start" && part.providerExecuted) theirs.add(part.id)
      const isTheirs = (part.type === "tool-params-delta" || part.type === "tool-params-end") && theirs.has(part.id)
      if (!isTheirs && isStreamed(part)) out.push(part)
    }
    return out
  }
}

/** The failure that a stream reports as a part. */
export const errorIn = (parts: ReadonlyArray<Response.AnyPart>): AiError.AiErrorReason | undefined => {
  const part = parts.find((part) => part.type === "error")
  if (part === undefined) return undefined
  return AiError.isAiError(part.error)
    ? part.error.reason
    : new AiError.UnknownError({ description: Json.toText(part.error) })
}

/** A whole answer from its parts. */
export const fromParts = (parts: ReadonlyArray<Response.AnyPart>): Bare => {
  const finish = parts.find((part) => part.type === "finish")
  const metadata = parts.find((part) => part.type === "response-metadata")
  return {
    parts: parts.filter(isContent),
    finishReason: finish?.reason ?? "unknown",
    usage: finish?.usage ?? toResponse({ input: 0, output: 0 }),
    model: metadata?.modelId,
    id: metadata?.id
  }
}

/** The parts of a whole answer, those about it first and last. */
export const toParts = (
  { finishReason, id, model, parts, usage }: Bare
): ReadonlyArray<typeof PartSchema.AnswerPart.Type> => [
  Response.makePart("response-metadata", {
    ...(id === undefined ? {} : { id }),
    ...(model === undefined ? {} : { modelId: model })
  }),
  ...parts,
  Response.makePart("finish", { reason: finishReason, usage, response: undefined })
]

const encode = Schema.encodeSync(Schema.mutable(Schema.Array(PartSchema.AnswerPart)))

/** A whole answer as encoded parts. */
export const encoded = (answer: Bare): Array<Response.PartEncoded> => encode([...toParts(answer)])

/** An answer with its raw form, `{ content }`, which is made of what was sent, on first use. */
export const make = (seen: Bare, sent: Bare = seen): ModelResponse => {
  const { finishReason, id, model, parts, usage } = seen
  let raw: unknown
  return {
    parts,
    finishReason,
    usage,
    model,
    id,
    get raw() {
      raw ??= { content: encoded(sent) }
      return raw
    }
  }
}

const Raw = Schema.Struct({ content: Schema.Array(PartSchema.AnswerPart) })

/** Reads a raw answer. */
export const decode = (raw: unknown): Effect.Effect<ModelResponse, AiError.InvalidOutputError> =>
  Effect.mapBoth(Schema.decodeUnknownEffect(Raw)(raw), {
    onFailure: AiError.InvalidOutputError.fromSchemaError,
    onSuccess: ({ content }) => ({ ...fromParts(content), raw })
  })
