/**
 * Adapts models of the specifications v2 (AI SDK 5) and v3 (AI SDK 6) to v4, so that all other modules handle a single
 * specification.
 *
 * **Details**
 *
 * | | v2 | v3 |
 * | --- | --- | --- |
 * | files of a prompt and of an answer | bare data | bare data |
 * | files in a tool result | `media`; a URL is sent as text | `file-data`, `file-url` |
 * | finish reason | a string; `unknown` becomes `other` | as in v4 |
 * | usage | flat; tokens read from a cache are included in the input, except for providers that count them separately | as in v4 |
 * | `reasoning` | omitted with a warning | omitted with a warning |
 */
import type {
  LanguageModelV2,
  LanguageModelV2CallOptions,
  LanguageModelV2CallWarning,
  LanguageModelV2Content,
  LanguageModelV2StreamPart,
  LanguageModelV2Usage,
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3StreamPart,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  LanguageModelV4Usage,
  SharedV4Warning
} from "@ai-sdk/provider"
import * as Base64 from "effect/encoding/Base64"
import * as Json from "../../../base/domain/Json.ts"

/** A model of any supported specification. */
export type AnyModel = LanguageModelV2 | LanguageModelV3 | LanguageModelV4

type Message = LanguageModelV4Message
type FileData = LanguageModelV4FilePart["data"]
type ToolContent = Extract<LanguageModelV4ToolResultOutput, { readonly type: "content" }>["value"][number]
type V2Output = Extract<
  Extract<LanguageModelV2CallOptions["prompt"][number], { readonly role: "tool" }>["content"][number],
  { readonly type: "tool-result" }
>["output"]
type V3Output = Extract<
  Extract<LanguageModelV3CallOptions["prompt"][number], { readonly role: "tool" }>["content"][number],
  { readonly type: "tool-result" }
>["output"]

/** Returns the bytes of a file, their base64 text, or its URL. */
const toBareData = (data: FileData): Uint8Array | string | URL => {
  switch (data.type) {
    case "data":
      return data.data
    case "url":
      return data.url
    case "text":
      return new TextEncoder().encode(data.text)
    case "reference":
      throw new TypeError(
        "a file that is kept by a provider cannot be named to a model of this specification: give its bytes or " +
          "its address"
      )
  }
}

const toBase64 = (data: Uint8Array | string): string => (typeof data === "string" ? data : Base64.encode(data))

const toV2Content = (part: ToolContent): Extract<V2Output, { readonly type: "content" }>["value"][number] => {
  if (part.type !== "file") return { type: "text", text: part.type === "text" ? part.text : `[${part.type}]` }
  const data = toBareData(part.data)
  return data instanceof URL
    ? { type: "text", text: String(data) }
    : { type: "media", data: toBase64(data), mediaType: part.mediaType }
}

const toV2Output = (output: LanguageModelV4ToolResultOutput): V2Output => {
  switch (output.type) {
    case "content":
      return { type: "content", value: output.value.map(toV2Content) }
    case "execution-denied":
      return { type: "error-text", value: output.reason ?? "denied" }
    default:
      return output
  }
}

const toV3Content = (part: ToolContent): Extract<V3Output, { readonly type: "content" }>["value"][number] => {
  if (part.type === "custom") return part
  if (part.type === "text") return part
  const data = toBareData(part.data)
  return data instanceof URL
    ? { type: "file-url", url: String(data) }
    : {
        type: "file-data",
        data: toBase64(data),
        mediaType: part.mediaType,
        ...(part.filename === undefined ? {} : { filename: part.filename })
      }
}

const toV3Output = (output: LanguageModelV4ToolResultOutput): V3Output =>
  output.type === "content" ? { ...output, value: output.value.map(toV3Content) } : output

interface BareFile extends Omit<LanguageModelV4FilePart, "data"> {
  readonly data: Uint8Array | string | URL
}

interface BareResult<Output> extends Omit<LanguageModelV4ToolResultPart, "output"> {
  readonly output: Output
}

/** Parts of an answer that exist in every specification. */
type Shared = Extract<
  Extract<Message, { readonly role: "assistant" }>["content"][number],
  { readonly type: "text" | "reasoning" | "tool-call" }
>

const toBareFile = (part: LanguageModelV4FilePart): BareFile => ({ ...part, data: toBareData(part.data) })

/** Converts a prompt: files become bare data, and parts that exist only in v4 are omitted. */
const convertPrompt = <Output>(
  prompt: ReadonlyArray<Message>,
  outputFor: (output: LanguageModelV4ToolResultOutput) => Output
) => {
  const toBareResult = (part: LanguageModelV4ToolResultPart): BareResult<Output> => ({
    ...part,
    output: outputFor(part.output)
  })
  return prompt.map((message) => {
    switch (message.role) {
      case "system":
        return message
      case "user":
        return { ...message, content: message.content.map((part) => (part.type === "file" ? toBareFile(part) : part)) }
      case "assistant":
        return {
          ...message,
          content: message.content.flatMap((part): Array<BareFile | BareResult<Output> | Shared> => {
            switch (part.type) {
              case "file":
                return [toBareFile(part)]
              case "tool-result":
                return [toBareResult(part)]
              case "text":
              case "reasoning":
              case "tool-call":
                return [part]
              default:
                return []
            }
          })
        }
      case "tool":
        return {
          ...message,
          content: message.content.flatMap((part) => (part.type === "tool-result" ? [toBareResult(part)] : []))
        }
    }
  })
}

const toV2Options = ({ prompt, reasoning: _, ...options }: LanguageModelV4CallOptions): LanguageModelV2CallOptions =>
  // In v4, fields of provider options may be `undefined`; JSON omits them.
  ({ ...options, prompt: convertPrompt(prompt, toV2Output) }) as LanguageModelV2CallOptions

const toV3Options = ({ prompt, reasoning: _, ...options }: LanguageModelV4CallOptions): LanguageModelV3CallOptions => ({
  ...options,
  prompt: convertPrompt(prompt, toV3Output)
})

/** Returns warnings about settings that the specification does not support. */
const listUnsupportedSettings = (
  { reasoning }: LanguageModelV4CallOptions,
  version: string
): ReadonlyArray<SharedV4Warning> =>
  reasoning === undefined || reasoning === "provider-default"
    ? []
    : [
        {
          type: "unsupported",
          feature: "reasoning",
          details:
            `specification ${version} has no setting for it: set it where the model is made, or take a ` +
            "model of the AI SDK 7"
        }
      ]

const fromV2Warning = (warning: LanguageModelV2CallWarning): SharedV4Warning => {
  switch (warning.type) {
    case "unsupported-setting":
      return {
        type: "unsupported",
        feature: String(warning.setting),
        ...(warning.details === undefined ? {} : { details: warning.details })
      }
    case "unsupported-tool":
      return {
        type: "unsupported",
        feature: `tool ${warning.tool.name}`,
        ...(warning.details === undefined ? {} : { details: warning.details })
      }
    case "other":
      return warning
  }
}

const fromV2FinishReason = (
  reason: Extract<LanguageModelV2StreamPart, { readonly type: "finish" }>["finishReason"]
): LanguageModelV4FinishReason => ({ unified: reason === "unknown" ? "other" : reason, raw: undefined })

/** Providers whose input count excludes tokens read from the cache. All other providers include them. */
const countsApart = /^(?:anthropic|amazon-bedrock|bedrock|vertex\.anthropic|google\.vertex\.anthropic)/u

const fromV2Usage = (
  { cachedInputTokens, inputTokens, outputTokens, reasoningTokens }: LanguageModelV2Usage,
  provider: string
): LanguageModelV4Usage => {
  const cached = cachedInputTokens ?? 0
  const isApart = inputTokens !== undefined && (countsApart.test(provider) || cached > inputTokens)
  return {
    inputTokens: {
      total: isApart ? inputTokens + cached : inputTokens,
      noCache: isApart ? inputTokens : inputTokens === undefined ? undefined : inputTokens - cached,
      cacheRead: cachedInputTokens,
      cacheWrite: undefined
    },
    outputTokens: { total: outputTokens, text: undefined, reasoning: reasoningTokens }
  }
}

const toV4Content = (part: LanguageModelV2Content | LanguageModelV3Content): LanguageModelV4Content =>
  // Results of provider-executed tools, whose form v2 does not specify, are removed in a later step.
  (part.type === "file" ? { ...part, data: { type: "data", data: part.data } } : part) as LanguageModelV4Content

const fromV3StreamPart = (part: LanguageModelV3StreamPart): LanguageModelV4StreamPart =>
  part.type === "file" ? { ...part, data: { type: "data", data: part.data } } : part

const fromV2StreamPart = (part: LanguageModelV2StreamPart, provider: string): LanguageModelV4StreamPart => {
  switch (part.type) {
    case "finish":
      return { ...part, finishReason: fromV2FinishReason(part.finishReason), usage: fromV2Usage(part.usage, provider) }
    case "stream-start":
      return { ...part, warnings: part.warnings.map(fromV2Warning) }
    case "file":
      return { ...part, data: { type: "data", data: part.data } }
    case "tool-result":
      // Provider-executed tool results are removed in a later step.
      return part as LanguageModelV4StreamPart
    default:
      return part
  }
}

/** Maps the parts of a stream and adds warnings to its start part. */
const mapStream = <Part>(
  stream: ReadableStream<Part>,
  map: (part: Part) => LanguageModelV4StreamPart,
  warnings: ReadonlyArray<SharedV4Warning>
): ReadableStream<LanguageModelV4StreamPart> =>
  stream.pipeThrough(
    new TransformStream<Part, LanguageModelV4StreamPart>({
      start: (controller) => {
        if (warnings.length > 0) controller.enqueue({ type: "stream-start", warnings: [...warnings] })
      },
      transform: (part, controller) => controller.enqueue(map(part))
    })
  )

const fromV2Model = (model: LanguageModelV2): LanguageModelV4 => ({
  specificationVersion: "v4",
  provider: model.provider,
  modelId: model.modelId,
  supportedUrls: model.supportedUrls,
  doGenerate: async (options) => {
    const { content, finishReason, usage, warnings, ...rest } = await model.doGenerate(toV2Options(options))
    return {
      ...rest,
      content: content.map(toV4Content),
      finishReason: fromV2FinishReason(finishReason),
      usage: fromV2Usage(usage, model.provider),
      warnings: [...listUnsupportedSettings(options, "v2"), ...warnings.map(fromV2Warning)]
    }
  },
  doStream: async (options) => {
    const { stream, ...rest } = await model.doStream(toV2Options(options))
    return {
      ...rest,
      stream: mapStream(
        stream,
        (part) => fromV2StreamPart(part, model.provider),
        listUnsupportedSettings(options, "v2")
      )
    }
  }
})

const fromV3Model = (model: LanguageModelV3): LanguageModelV4 => ({
  specificationVersion: "v4",
  provider: model.provider,
  modelId: model.modelId,
  supportedUrls: model.supportedUrls,
  doGenerate: async (options) => {
    const { content, warnings, ...rest } = await model.doGenerate(toV3Options(options))
    return {
      ...rest,
      content: content.map(toV4Content),
      warnings: [...listUnsupportedSettings(options, "v3"), ...warnings]
    }
  },
  doStream: async (options) => {
    const { stream, ...rest } = await model.doStream(toV3Options(options))
    return { ...rest, stream: mapStream(stream, fromV3StreamPart, listUnsupportedSettings(options, "v3")) }
  }
})

/** Adapts a model to v4, or returns a description of the value if it is not a supported model. */
export const upgradeModel = (model: AnyModel): LanguageModelV4 | string => {
  switch (model.specificationVersion) {
    case "v4":
      return model
    case "v3":
      return fromV3Model(model)
    case "v2":
      return fromV2Model(model)
    default:
      return describeUnreadableModel(model)
  }
}

/** Describes a value that is not a supported model, and how to correct it. */
const describeUnreadableModel = (given: unknown): string => {
  if (typeof given === "string")
    return (
      `"${given}" is a model name, not a model: give what a provider of the AI SDK makes of it, ` +
      `such as openai("${given}")`
    )
  const { modelId, specificationVersion } = Json.readFields(given)
  if (specificationVersion === undefined) return "this is no model of the AI SDK: it names no specificationVersion"
  const advice =
    specificationVersion === "v1"
      ? "install a provider for the AI SDK 5 or later"
      : "install a provider for the AI SDK 5, 6 or 7, or a newer hermes-effect"
  return (
    `the model ${String(modelId)} has specification ${String(specificationVersion)} of the AI SDK, and v2, ` +
    `v3 and v4 can be read: ${advice}`
  )
}
