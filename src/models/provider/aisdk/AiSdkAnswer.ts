/** Converts complete and streamed answers of an AI SDK model to parts. */
import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata
} from "@ai-sdk/provider"
import * as Result from "effect/Result"
import * as Response from "effect/ai/Response"
import * as Base64 from "effect/encoding/Base64"
import * as Assembler from "../../../base/domain/Assembler.ts"
import {
  type ContentPart,
  type ModelResponse,
  makeReasoningDelta,
  type StreamPart,
  makeTextDelta
} from "../../../base/domain/ModelCall.ts"
import { toCount, toResponse } from "../../../base/domain/Usage.ts"
import * as AnswerSources from "../AnswerSources.ts"

/** Converts provider metadata to the type of `effect/ai`. Both are JSON objects keyed by provider name. */
const toMetadata = (
  metadata: SharedV4ProviderMetadata | undefined
): { readonly metadata?: Response.ProviderMetadata } =>
  // The AI SDK allows fields to be `undefined`; JSON omits them.
  metadata === undefined ? {} : { metadata: metadata as Response.ProviderMetadata }

const finishes: Readonly<Record<LanguageModelV4FinishReason["unified"], Response.FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content-filter",
  "tool-calls": "tool-calls",
  error: "error",
  interrupted: "unknown",
  other: "other"
}

/** Returns `true` if the stream ended without a finish reason from the provider: the answer is incomplete. */
export const isCut = ({ unified }: LanguageModelV4FinishReason): boolean => unified === "interrupted"

/** Converts the usage that a model reports. The AI SDK does not validate its counts. */
const toUsage = ({
  inputTokens: { cacheRead, cacheWrite, noCache, total },
  outputTokens
}: LanguageModelV4Usage): Response.Usage =>
  toResponse({
    input: noCache ?? toCount(total) - toCount(cacheRead) - toCount(cacheWrite),
    output: outputTokens.total ?? toCount(outputTokens.text) + toCount(outputTokens.reasoning),
    cacheRead,
    cacheWrite,
    reasoning: outputTokens.reasoning
  })

type FileData = Extract<LanguageModelV4Content, { readonly type: "file" }>["data"]

/** Returns the bytes of a file, or `undefined` if the file is a URL or invalid base64. */
const readBytes = (data: FileData): Uint8Array | undefined => {
  if (data.type === "url") return undefined
  return typeof data.data === "string" ? Result.getOrElse(Base64.decode(data.data), () => undefined) : data.data
}

const toFileParts = ({
  data,
  mediaType,
  providerMetadata
}: Extract<LanguageModelV4Content, { readonly type: "file" }>): ReadonlyArray<Response.FilePart> => {
  const bytes = readBytes(data)
  return bytes === undefined
    ? []
    : [Response.makePart("file", { mediaType, data: bytes, ...toMetadata(providerMetadata) })]
}

const toCallPart = ({
  input,
  providerMetadata,
  toolCallId,
  toolName
}: Extract<LanguageModelV4Content, { readonly type: "tool-call" }>): Response.ToolCallPart<string, unknown> =>
  Response.makePart("tool-call", {
    id: toolCallId,
    name: toolName,
    params: Assembler.parseParams(input),
    providerExecuted: false,
    ...toMetadata(providerMetadata)
  })

/** Converts the parts of an answer; the activity of the provider's own tools is omitted. */
const toContentParts = (part: LanguageModelV4Content): ReadonlyArray<ContentPart> => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return [Response.makePart(part.type, { text: part.text, ...toMetadata(part.providerMetadata) })]
    case "file":
      return toFileParts(part)
    case "tool-call":
      return part.providerExecuted === true ? [] : [toCallPart(part)]
    default:
      return []
  }
}

/** Converts a complete answer. The result does not contain the raw body. */
export const toModelAnswer = ({
  content,
  finishReason,
  response,
  usage
}: LanguageModelV4GenerateResult): Omit<ModelResponse, "raw"> => ({
  parts: content.flatMap(toContentParts),
  finishReason: finishes[finishReason.unified],
  usage: toUsage(usage),
  ...AnswerSources.readMember(content.filter(({ type }) => type === "source")),
  model: response?.modelId,
  id: response?.id
})

/** Returns a delta, unless it has neither text nor metadata. */
const toDeltas = <Delta extends StreamPart>(
  { delta, providerMetadata }: Extract<LanguageModelV4StreamPart, { readonly type: "text-delta" | "reasoning-delta" }>,
  made: Delta
): ReadonlyArray<StreamPart> =>
  delta === "" && providerMetadata === undefined ? [] : [{ ...made, ...toMetadata(providerMetadata) }]

type ParamsPart = Extract<LanguageModelV4StreamPart, { readonly type: `tool-input-${string}` }>

const toParamsPart = (part: ParamsPart): StreamPart => {
  switch (part.type) {
    case "tool-input-start":
      return Response.makePart("tool-params-start", {
        id: part.id,
        name: part.toolName,
        providerExecuted: false,
        ...toMetadata(part.providerMetadata)
      })
    case "tool-input-delta":
      return Response.makePart("tool-params-delta", { id: part.id, delta: part.delta })
    case "tool-input-end":
      return Response.makePart("tool-params-end", { id: part.id, ...toMetadata(part.providerMetadata) })
  }
}

/**
 * Creates a converter for the parts of a streamed answer. It omits the same parts as the conversion of a complete
 * answer.
 */
export const makePieces = (): ((part: LanguageModelV4StreamPart) => ReadonlyArray<StreamPart>) => {
  /** Ids of calls that the provider itself executes. */
  const theirs = new Set<string>()
  return (part) => {
    switch (part.type) {
      case "text-start":
      case "text-end":
      case "reasoning-start":
      case "reasoning-end":
        return [Response.makePart(part.type, { id: part.id, ...toMetadata(part.providerMetadata) })]
      case "text-delta":
        return toDeltas(part, makeTextDelta(part.id, part.delta))
      case "reasoning-delta":
        return toDeltas(part, makeReasoningDelta(part.id, part.delta))
      case "tool-input-start":
        if (part.providerExecuted === true) theirs.add(part.id)
        return theirs.has(part.id) ? [] : [toParamsPart(part)]
      case "tool-input-delta":
      case "tool-input-end":
        return theirs.has(part.id) ? [] : [toParamsPart(part)]
      case "tool-call":
        return part.providerExecuted === true ? [] : [toCallPart(part)]
      case "file":
        return toFileParts(part)
      case "response-metadata":
        return [
          Response.makePart("response-metadata", {
            ...(part.id === undefined ? {} : { id: part.id }),
            ...(part.modelId === undefined ? {} : { modelId: part.modelId })
          })
        ]
      case "finish":
        return [
          Response.makePart("finish", {
            reason: finishes[part.finishReason.unified],
            usage: toUsage(part.usage),
            response: undefined,
            ...toMetadata(part.providerMetadata)
          })
        ]
      default:
        return []
    }
  }
}
