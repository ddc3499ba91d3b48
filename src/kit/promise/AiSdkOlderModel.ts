/**
 * Converts a language model of specification v4 to v3 (AI SDK 6) or v2 (AI SDK 5).
 *
 * **Details**
 *
 * Converts files in a prompt to v4, and parts of an answer to the older specification. v2 has one finish reason and
 * flat usage, and the AI SDK 5 fails at a call to an unknown tool, even if a provider ran it. In v2 an agent therefore
 * returns only its text and reasoning, without calls and results.
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
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4Usage,
  SharedV4Warning
} from "@ai-sdk/provider"

/** Specifications of the AI SDK, by their version. */
export interface Specifications {
  readonly v2: LanguageModelV2
  readonly v3: LanguageModelV3
  readonly v4: LanguageModelV4
}

type LanguageModelV2Metadata = Extract<LanguageModelV2StreamPart, { readonly type: "finish" }>["providerMetadata"]

type OlderOptions = LanguageModelV2CallOptions | LanguageModelV3CallOptions
type OlderMessage = OlderOptions["prompt"][number]
type OlderPart = Exclude<OlderMessage, { readonly role: "system" }>["content"][number]
type OlderOutput = Extract<OlderPart, { readonly type: "tool-result" }>["output"]
type OlderContent = Extract<OlderOutput, { readonly type: "content" }>["value"][number]
type ToolContent = Extract<LanguageModelV4ToolResultOutput, { readonly type: "content" }>["value"][number]

const toData = (data: Uint8Array | string | URL): LanguageModelV4FilePart["data"] => {
  if (data instanceof URL) return { type: "url", url: data }
  return typeof data === "string" && URL.canParse(data) ? { type: "url", url: new URL(data) } : { type: "data", data }
}

const toContent = (part: OlderContent): ToolContent => {
  switch (part.type) {
    case "text":
    case "custom":
      return part
    case "media":
    case "file-data":
    case "image-data":
      return { type: "file", mediaType: part.mediaType, data: { type: "data", data: part.data } }
    default:
      // The agent receives the type of an unsupported part as text.
      return { type: "text", text: `[${part.type}]` }
  }
}

const toOutput = (output: OlderOutput): LanguageModelV4ToolResultOutput =>
  output.type === "content" ? { type: "content", value: output.value.map(toContent) } : output

const toPart = (part: OlderPart) => {
  switch (part.type) {
    case "file":
      return { ...part, data: toData(part.data) }
    case "tool-result":
      return { ...part, output: toOutput(part.output) }
    default:
      return part
  }
}

const toOptions = ({ prompt, tools = [], ...options }: OlderOptions): LanguageModelV4CallOptions => ({
  ...options,
  // Each role preserves its kinds of parts, which the mapped type of a union does not express.
  prompt: prompt.map((message) =>
    message.role === "system" ? message : { ...message, content: message.content.map(toPart) }
  ) as LanguageModelV4CallOptions["prompt"],
  // Only the number of tools is used, because an agent runs its own tools.
  ...(tools.length === 0
    ? {}
    : {
        tools: tools.flatMap((tool) =>
          tool.type === "function" ? [{ type: tool.type, name: tool.name, inputSchema: tool.inputSchema }] : []
        )
      })
})

const toWarningV2 = (warning: SharedV4Warning): LanguageModelV2CallWarning => {
  switch (warning.type) {
    case "unsupported":
    case "compatibility":
      return {
        type: "unsupported-setting",
        setting: warning.feature,
        ...(warning.details === undefined ? {} : { details: warning.details })
      }
    default:
      return { type: "other", message: warning.message }
  }
}

const toWarningV3 = (warning: SharedV4Warning) =>
  warning.type === "deprecated" ? ({ type: "other", message: warning.message } as const) : warning

/** Converts a finish reason to v3, which has no `interrupted`; only the raw reason expresses it. */
const toFinishV3 = ({ raw, unified }: LanguageModelV4FinishReason) =>
  ({ raw, unified: unified === "interrupted" ? "other" : unified }) as const
const toFinishV2 = (reason: LanguageModelV4FinishReason) => toFinishV3(reason).unified

const toUsageV2 = ({ inputTokens, outputTokens }: LanguageModelV4Usage): LanguageModelV2Usage => ({
  inputTokens: inputTokens.total,
  outputTokens: outputTokens.total,
  totalTokens:
    inputTokens.total === undefined || outputTokens.total === undefined
      ? undefined
      : inputTokens.total + outputTokens.total,
  reasoningTokens: outputTokens.reasoning,
  cachedInputTokens: inputTokens.cacheRead
})

/** Converts the facts of a run, which have no `undefined` members. */
const toMetadataV2 = (metadata: LanguageModelV4GenerateResult["providerMetadata"]) =>
  metadata === undefined ? {} : { providerMetadata: metadata as NonNullable<LanguageModelV2Metadata> }

/**
 * Kinds of parts that the AI SDK 5 accepts. It fails at a call to a tool that it was not given, even if the provider
 * ran it.
 */
const textual = new Set<string>(["text", "reasoning"])
const withCalls = new Set<string>([...textual, "tool-call", "tool-result", "tool-approval-request"])

const toOlderContent = <Content extends LanguageModelV2Content | LanguageModelV3Content>(
  content: ReadonlyArray<LanguageModelV4Content>,
  kinds: ReadonlySet<string>
): Array<Content> =>
  // These kinds of parts are the same in all specifications.
  content.filter(({ type }) => kinds.has(type)) as ReadonlyArray<unknown> as Array<Content>

const toStreamPartV3 = (part: LanguageModelV4StreamPart): LanguageModelV3StreamPart => {
  switch (part.type) {
    case "stream-start":
      return { ...part, warnings: part.warnings.map(toWarningV3) }
    case "finish":
      return { ...part, finishReason: toFinishV3(part.finishReason) }
    default:
      // Only file parts differ between the versions, and an agent returns no file parts.
      return part as LanguageModelV3StreamPart
  }
}

const toStreamPartsV2 = (part: LanguageModelV4StreamPart): ReadonlyArray<LanguageModelV2StreamPart> => {
  switch (part.type) {
    case "stream-start":
      return [{ ...part, warnings: part.warnings.map(toWarningV2) }]
    case "finish":
      return [
        {
          type: "finish",
          finishReason: toFinishV2(part.finishReason),
          usage: toUsageV2(part.usage),
          ...toMetadataV2(part.providerMetadata)
        }
      ]
    case "tool-input-start":
    case "tool-input-delta":
    case "tool-input-end":
    case "tool-call":
    case "tool-result":
    case "tool-approval-request":
      return []
    default:
      // As above.
      return [part as LanguageModelV2StreamPart]
  }
}

const mapStream = <Part>(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  map: (part: LanguageModelV4StreamPart) => ReadonlyArray<Part>
): ReadableStream<Part> =>
  stream.pipeThrough(
    new TransformStream<LanguageModelV4StreamPart, Part>({
      transform: (part, controller) => {
        for (const one of map(part)) controller.enqueue(one)
      }
    })
  )

/** Converts an agent's model to specification v3. */
export const toV3 = (model: LanguageModelV4): LanguageModelV3 => ({
  specificationVersion: "v3",
  provider: model.provider,
  modelId: model.modelId,
  supportedUrls: {},
  doGenerate: async (options) => {
    const { content, finishReason, warnings, ...rest } = await model.doGenerate(toOptions(options))
    return {
      ...rest,
      content: toOlderContent<LanguageModelV3Content>(content, withCalls),
      finishReason: toFinishV3(finishReason),
      warnings: warnings.map(toWarningV3)
    }
  },
  doStream: async (options) => {
    const { stream } = await model.doStream(toOptions(options))
    return { stream: mapStream(stream, (part) => [toStreamPartV3(part)]) }
  }
})

/** Converts an agent's model to specification v2. */
export const toV2 = (model: LanguageModelV4): LanguageModelV2 => ({
  specificationVersion: "v2",
  provider: model.provider,
  modelId: model.modelId,
  supportedUrls: {},
  doGenerate: async (options) => {
    const { content, finishReason, providerMetadata, response, usage, warnings } = await model.doGenerate(
      toOptions(options)
    )
    return {
      content: toOlderContent<LanguageModelV2Content>(content, textual),
      finishReason: toFinishV2(finishReason),
      usage: toUsageV2(usage),
      warnings: warnings.map(toWarningV2),
      ...(response === undefined ? {} : { response }),
      ...toMetadataV2(providerMetadata)
    }
  },
  doStream: async (options) => {
    const { stream } = await model.doStream(toOptions(options))
    return { stream: mapStream(stream, toStreamPartsV2) }
  }
})
