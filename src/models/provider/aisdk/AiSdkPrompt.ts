/** Builds the options of a call to an AI SDK model from a request: messages, tools and limits. */
import type {
  JSONValue,
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4ToolResultOutput,
  SharedV4ProviderOptions
} from "@ai-sdk/provider"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"
import type { ReasoningEffort, ToolChoice } from "../../../base/domain/ModelCall.ts"

/** The decoded fields of a request from which call options are built. */
export interface ModelQuestion {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools: ReadonlyArray<{
    readonly name: string
    readonly description: string
    readonly parameters: Json.Fields
  }>
  readonly toolChoice: ToolChoice
  readonly responseFormat: { readonly name: string; readonly schema: unknown } | undefined
  readonly maxOutputTokens: number | undefined
  readonly temperature: number | undefined
  readonly seed: number | undefined
  readonly reasoning: ReasoningEffort | undefined
}

type Content<Role extends "user" | "assistant" | "tool"> = Extract<
  LanguageModelV4Message,
  { readonly role: Role }
>["content"][number]

/**
 * Returns the metadata (reasoning signatures, ids) that must be sent back to the provider together with a part of an
 * earlier answer.
 */
const toProviderOptions = (options: Prompt.ProviderOptions): { readonly providerOptions?: SharedV4ProviderOptions } => {
  const given = Object.entries(options).filter(([, value]) => Json.isFields(value))
  // The options are JSON, from an earlier answer of such a model or from the application.
  return given.length === 0 ? {} : { providerOptions: Object.fromEntries(given) as SharedV4ProviderOptions }
}

const toFileData = (data: Prompt.FilePart["data"]): LanguageModelV4FilePart["data"] => {
  if (data instanceof URL) return { type: "url", url: data }
  if (typeof data !== "string" || !/^(?:https?|data):/iu.test(data)) return { type: "data", data }
  const [, inline] = /^data:[^,]*;base64,(.*)$/isu.exec(data) ?? []
  return inline === undefined ? { type: "url", url: new URL(data) } : { type: "data", data: inline }
}

const toFilePart = ({ data, fileName, mediaType, options }: Prompt.FilePart): LanguageModelV4FilePart => ({
  type: "file",
  mediaType,
  data: toFileData(data),
  ...(fileName === undefined ? {} : { filename: fileName }),
  ...toProviderOptions(options)
})

const toTextPart = ({ options, text }: Prompt.TextPart) => ({
  type: "text" as const,
  text: text.toWellFormed(),
  ...toProviderOptions(options)
})

/** Returns a value in its JSON representation. */
const toJson = (value: unknown): JSONValue => JSON.parse(JSON.stringify(value) ?? "null")

const toToolOutput = ({ isFailure, modelOutput, result }: Prompt.ToolResultPart): LanguageModelV4ToolResultOutput => {
  if (modelOutput !== undefined && !isFailure) {
    return {
      type: "content",
      value: modelOutput.map((part) =>
        part.type === "text" ? { type: "text", text: part.text.toWellFormed() } : toFilePart(part)
      )
    }
  }
  if (typeof result === "string") return { type: isFailure ? "error-text" : "text", value: result.toWellFormed() }
  return { type: isFailure ? "error-json" : "json", value: toJson(result) }
}

const toAssistantContent = (part: Prompt.AssistantMessagePart): ReadonlyArray<Content<"assistant">> => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [toTextPart(part)]
    case "reasoning":
      return [{ type: "reasoning", text: part.text.toWellFormed(), ...toProviderOptions(part.options) }]
    case "file":
      return [toFilePart(part)]
    case "tool-call":
      // Arguments that were invalid JSON become `{}`; the call's result contains an error that shows them.
      return [
        {
          type: "tool-call",
          toolCallId: part.id,
          toolName: part.name,
          input: toJson(Json.readFields(part.params)),
          ...toProviderOptions(part.options)
        }
      ]
    default:
      return []
  }
}

const toMessages = (message: Prompt.Message): ReadonlyArray<LanguageModelV4Message> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content.toWellFormed(), ...toProviderOptions(message.options) }]
    case "user": {
      const content = message.content.map((part): Content<"user"> =>
        part.type === "text" ? toTextPart(part) : toFilePart(part)
      )
      return content.length === 0 ? [] : [{ role: "user", content, ...toProviderOptions(message.options) }]
    }
    case "assistant": {
      const content = message.content.flatMap(toAssistantContent)
      return content.length === 0 ? [] : [{ role: "assistant", content, ...toProviderOptions(message.options) }]
    }
    case "tool": {
      const content = message.content.flatMap((part): ReadonlyArray<Content<"tool">> =>
        part.type === "tool-result"
          ? [
              {
                type: "tool-result",
                toolCallId: part.id,
                toolName: part.name,
                output: toToolOutput(part),
                ...toProviderOptions(part.options)
              }
            ]
          : []
      )
      return content.length === 0 ? [] : [{ role: "tool", content, ...toProviderOptions(message.options) }]
    }
  }
}

const toTool = ({ description, name, parameters }: ModelQuestion["tools"][number]): LanguageModelV4FunctionTool => ({
  type: "function",
  name,
  ...(description === "" ? {} : { description }),
  inputSchema: { ...parameters }
})

const toToolChoice = (choice: ToolChoice): NonNullable<LanguageModelV4CallOptions["toolChoice"]> =>
  typeof choice === "string" ? { type: choice } : { type: "tool", toolName: choice.tool }

/** Builds the options of a call, without its abort signal. */
export const makeCallOptions = (asked: ModelQuestion): LanguageModelV4CallOptions => {
  const { maxOutputTokens, messages, reasoning, responseFormat, seed, temperature, toolChoice, tools } = asked
  return {
    prompt: messages.flatMap(toMessages),
    ...(tools.length === 0 ? {} : { tools: tools.map(toTool), toolChoice: toToolChoice(toolChoice) }),
    ...(responseFormat === undefined
      ? {}
      : {
          // The JSON Schema is passed on unchanged.
          responseFormat: { type: "json", name: responseFormat.name, schema: Json.readFields(responseFormat.schema) }
        }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(seed === undefined ? {} : { seed }),
    ...(reasoning === undefined ? {} : { reasoning })
  }
}
