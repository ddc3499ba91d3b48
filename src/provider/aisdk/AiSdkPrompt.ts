/** Options of a call of an AI SDK model, made of a request: messages, tools, limits. */
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
import * as Json from "../../domain/Json.ts"
import type { ReasoningEffort, ToolChoice } from "../../domain/Model.ts"

/** Question to a model, as the request has it. */
export interface Asked {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools: ReadonlyArray<{ readonly name: string; readonly description: string; readonly parameters: Json.Fields }>
  readonly toolChoice: ToolChoice
  readonly responseFormat: { readonly name: string; readonly schema: unknown } | undefined
  readonly maxOutputTokens: number | undefined
  readonly temperature: number | undefined
  readonly seed: number | undefined
  readonly reasoning: ReasoningEffort | undefined
}

type Content<Role extends "user" | "assistant" | "tool"> = Extract<LanguageModelV4Message, { readonly role: Role }>["content"][number]

/** Metadata of a part of an earlier answer, which its provider wants back (signatures of reasoning, ids). */
const own = (options: Prompt.ProviderOptions): { readonly providerOptions?: SharedV4ProviderOptions } => {
  const given = Object.entries(options).filter(([, value]) => Json.isFields(value))
  // They came as JSON, from a model of the same kind, or from the settings of an application.
  return given.length === 0 ? {} : { providerOptions: Object.fromEntries(given) as SharedV4ProviderOptions }
}

const dataOf = (data: Prompt.FilePart["data"]): LanguageModelV4FilePart["data"] => {
  if (data instanceof URL) return { type: "url", url: data }
  if (typeof data !== "string" || !/^(?:https?|data):/iu.test(data)) return { type: "data", data }
  const [, inline] = /^data:[^,]*;base64,(.*)$/isu.exec(data) ?? []
  return inline === undefined ? { type: "url", url: new URL(data) } : { type: "data", data: inline }
}

const fileOf = ({ data, fileName, mediaType, options }: Prompt.FilePart): LanguageModelV4FilePart => ({
  type: "file",
  mediaType,
  data: dataOf(data),
  ...(fileName === undefined ? {} : { filename: fileName }),
  ...own(options)
})

const textOf = ({ options, text }: Prompt.TextPart) => ({ type: "text" as const, text: text.toWellFormed(), ...own(options) })

/** A value as JSON keeps it. */
const jsonOf = (value: unknown): JSONValue => JSON.parse(JSON.stringify(value) ?? "null")

const outputOf = ({ isFailure, modelOutput, result }: Prompt.ToolResultPart): LanguageModelV4ToolResultOutput => {
  if (modelOutput !== undefined && !isFailure) {
    return {
      type: "content",
      value: modelOutput.map((part) => part.type === "text" ? { type: "text", text: part.text.toWellFormed() } : fileOf(part))
    }
  }
  if (typeof result === "string") return { type: isFailure ? "error-text" : "text", value: result.toWellFormed() }
  return { type: isFailure ? "error-json" : "json", value: jsonOf(result) }
}

const ofAssistant = (part: Prompt.AssistantMessagePart): ReadonlyArray<Content<"assistant">> => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [textOf(part)]
    case "reasoning":
      return [{ type: "reasoning", text: part.text.toWellFormed(), ...own(part.options) }]
    case "file":
      return [fileOf(part)]
    case "tool-call":
      // Arguments that were no JSON were answered with an error that shows them.
      return [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input: jsonOf(Json.fields(part.params)), ...own(part.options) }]
    default:
      return []
  }
}

const messageOf = (message: Prompt.Message): ReadonlyArray<LanguageModelV4Message> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content.toWellFormed(), ...own(message.options) }]
    case "user": {
      const content = message.content.map((part): Content<"user"> => part.type === "text" ? textOf(part) : fileOf(part))
      return content.length === 0 ? [] : [{ role: "user", content, ...own(message.options) }]
    }
    case "assistant": {
      const content = message.content.flatMap(ofAssistant)
      return content.length === 0 ? [] : [{ role: "assistant", content, ...own(message.options) }]
    }
    case "tool": {
      const content = message.content.flatMap((part): ReadonlyArray<Content<"tool">> =>
        part.type === "tool-result" ? [{ type: "tool-result", toolCallId: part.id, toolName: part.name, output: outputOf(part), ...own(part.options) }] : [])
      return content.length === 0 ? [] : [{ role: "tool", content, ...own(message.options) }]
    }
  }
}

const toolOf = ({ description, name, parameters }: Asked["tools"][number]): LanguageModelV4FunctionTool => ({
  type: "function",
  name,
  ...(description === "" ? {} : { description }),
  inputSchema: { ...parameters }
})

const choiceOf = (choice: ToolChoice): NonNullable<LanguageModelV4CallOptions["toolChoice"]> =>
  typeof choice === "string" ? { type: choice } : { type: "tool", toolName: choice.tool }

/** Options of the call, without its signal. */
export const callOptions = (asked: Asked): LanguageModelV4CallOptions => {
  const { maxOutputTokens, messages, reasoning, responseFormat, seed, temperature, toolChoice, tools } = asked
  return {
    prompt: messages.flatMap(messageOf),
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf), toolChoice: choiceOf(toolChoice) }),
    ...(responseFormat === undefined ? {} : {
      // A JSON Schema, which nothing here reads.
      responseFormat: { type: "json", name: responseFormat.name, schema: Json.fields(responseFormat.schema) }
    }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(seed === undefined ? {} : { seed }),
    ...(reasoning === undefined ? {} : { reasoning })
  }
}
