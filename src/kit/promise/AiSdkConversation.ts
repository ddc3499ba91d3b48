/** Converts a prompt of the AI SDK to a run: instructions, previous conversation, and the current user message. */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultPart
} from "@ai-sdk/provider"
import * as Prompt from "effect/ai/Prompt"
import { HermesError } from "./HermesError.ts"

/** A question to an agent, with the previous conversation. */
export interface Conversation {
  readonly history: ReadonlyArray<Prompt.Message>
  readonly prompt: string | ReadonlyArray<Prompt.UserMessagePart>
}

const toFileData = ({
  data,
  filename
}: Pick<LanguageModelV4FilePart, "data" | "filename">): Prompt.FilePart["data"] => {
  switch (data.type) {
    case "data":
      return data.data
    case "url":
      return data.url
    case "text":
      return new TextEncoder().encode(data.text)
    case "reference":
      throw new HermesError(
        "InvalidInput",
        `the file ${filename ?? ""} is kept by a provider, and an agent cannot read it: give its bytes or its address`
      )
  }
}

const toFilePart = (part: Pick<LanguageModelV4FilePart, "data" | "filename" | "mediaType">): Prompt.FilePart =>
  Prompt.filePart({
    // A top-level media type without a subtype includes all its subtypes.
    mediaType: part.mediaType.includes("/") ? part.mediaType : `${part.mediaType}/*`,
    data: toFileData(part),
    ...(part.filename === undefined ? {} : { fileName: part.filename })
  })

const toUserPart = (part: LanguageModelV4TextPart | LanguageModelV4FilePart): Prompt.UserMessagePart =>
  part.type === "text" ? Prompt.textPart({ text: part.text }) : toFilePart(part)

const toToolMessage = ({ output, toolCallId, toolName }: LanguageModelV4ToolResultPart): Prompt.ToolMessage => {
  const makeMessage = (result: unknown, isFailure: boolean) =>
    Prompt.toolMessage({
      content: [Prompt.toolResultPart({ id: toolCallId, name: toolName, isFailure, result, providerExecuted: false })]
    })
  switch (output.type) {
    case "text":
    case "json":
      return makeMessage(output.value, false)
    case "error-text":
    case "error-json":
      return makeMessage(output.value, true)
    case "execution-denied":
      return makeMessage(`denied${output.reason === undefined ? "" : `: ${output.reason}`}`, true)
    case "content":
      return makeMessage(
        output.value.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n"),
        false
      )
  }
}

type AssistantContent = Extract<LanguageModelV4Message, { readonly role: "assistant" }>["content"]

/**
 * Converts an answer to messages. The answer contains the agent's calls together with their results, which become
 * separate messages.
 */
const toAnswerMessages = (content: AssistantContent): ReadonlyArray<Prompt.Message> => {
  const messages: Array<Prompt.Message> = []
  let own: Array<Prompt.AssistantMessagePart> = []
  const closeAnswer = (): void => {
    if (own.length > 0) messages.push(Prompt.assistantMessage({ content: own }))
    own = []
  }
  for (const part of content) {
    switch (part.type) {
      case "text":
        // Blank lines separate the text of one step of a run from the text of the next.
        if (part.text.trim() !== "") own.push(Prompt.textPart({ text: part.text.replace(/^\n+/u, "") }))
        break
      case "tool-call":
        own.push(
          Prompt.toolCallPart({ id: part.toolCallId, name: part.toolName, params: part.input, providerExecuted: false })
        )
        break
      case "tool-result":
        closeAnswer()
        messages.push(toToolMessage(part))
        break
      default:
        // Reasoning and files of an earlier answer belong to the model that produced them, and are dropped.
        break
    }
  }
  closeAnswer()
  return messages
}

const toMessages = (message: LanguageModelV4Message): ReadonlyArray<Prompt.Message> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [Prompt.userMessage({ content: message.content.map(toUserPart) })]
    case "assistant":
      return toAnswerMessages(message.content)
    case "tool":
      return message.content.flatMap((part) => (part.type === "tool-result" ? [toToolMessage(part)] : []))
  }
}

const isText = (part: Prompt.UserMessagePart): part is Prompt.TextPart => part.type === "text"

/** Returns the instructions of a prompt. */
export const readSystem = (prompt: LanguageModelV4Prompt): ReadonlyArray<string> =>
  prompt.flatMap((message) => (message.role === "system" && message.content.trim() !== "" ? [message.content] : []))

/** Converts a prompt to a conversation. Its last message must be a user message. */
export const toConversation = (prompt: LanguageModelV4Prompt): Conversation => {
  const said = prompt.filter(({ role }) => role !== "system")
  const start = said.findLastIndex(({ role }) => role !== "user") + 1
  const parts = said.slice(start).flatMap((message) => (message.role === "user" ? message.content.map(toUserPart) : []))
  if (parts.length === 0)
    throw new HermesError(
      "InvalidInput",
      "the last message of the prompt has to be the user's, or answers to approvals: an agent runs its own tools"
    )
  return {
    history: said.slice(0, start).flatMap(toMessages),
    prompt: parts.every(isText) ? parts.map(({ text }) => text).join("\n\n") : parts
  }
}
