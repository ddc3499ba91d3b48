/**
 * Encodes the messages of a conversation as input of the Responses API.
 *
 * **Details**
 *
 * The system messages at the beginning are the instructions; later ones are developer messages in the input. Each
 * message is converted once, and the result is cached by the message object, which never changes.
 *
 * Encrypted reasoning is sent back without its id, because the server stores nothing, and only once even if two
 * messages contain it. A message item is sent back with its original id and phase. Reasoning from other protocols is
 * omitted. Reasoning must be followed by another item, so an empty message item is added to a message that ends with
 * reasoning.
 *
 * A user message part that represents a compacted conversation is sent back as an encrypted item.
 *
 * Source: `hermes-llm.md` §4.3, §14.5.
 */
import { memoize } from "effect/Function"
import * as HashSet from "effect/HashSet"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../../base/domain/GrowingList.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as FileData from "../FileData.ts"
import * as Digest from "../../../base/platform/Digest.ts"
import * as ToolCallWire from "../ToolCallWire.ts"

// Parts

/** An input item of a request. */
type InputItem = Json.Fields

const readOwnOptions = (options: Prompt.ProviderOptions): Json.Fields => Json.readFields(options["codex_responses"])

const toInputText = (text: string): Json.Fields => ({ type: "input_text", text: text.toWellFormed() })

const toInputFile = (part: Prompt.FilePart): Json.Fields => {
  if (part.mediaType.startsWith("image/"))
    return { type: "input_image", detail: "auto", image_url: FileData.toUrl(part) }
  const bytes = FileData.readBase64(part)
  if (bytes === undefined) return { type: "input_file", file_url: FileData.toUrl(part) }
  return part.mediaType.startsWith("text/")
    ? toInputText(FileData.decodeText(bytes))
    : { type: "input_file", filename: part.fileName ?? "file", file_data: FileData.toUrl(part) }
}

// Reasoning

const toReasoningItems = (part: Prompt.ReasoningPart): ReadonlyArray<InputItem> => {
  const { encrypted_content, summary } = readOwnOptions(part.options)
  if (typeof encrypted_content !== "string") return []
  const texts = summary === undefined ? (part.text === "" ? [] : [part.text]) : Json.readItems(summary)
  return [{ type: "reasoning", summary: texts.map((text) => ({ type: "summary_text", text })), encrypted_content }]
}

// Messages

/** Reads the encrypted form of earlier messages from a part. */
const readCompaction = (part: Prompt.UserMessagePart): string | undefined =>
  part.type === "text" ? Json.readString(readOwnOptions(part.options)["compaction"]) : undefined

const convertUser = (message: Prompt.UserMessage): ReadonlyArray<InputItem> => {
  const at = message.content.findIndex((part) => readCompaction(part) !== undefined)
  const compacted = message.content[at]
  if (compacted === undefined) return toUserItems(message)
  const sliceMessage = (from: number, to?: number) => ({ ...message, content: message.content.slice(from, to) })
  return [
    ...toUserItems(sliceMessage(0, at)),
    { type: "compaction", encrypted_content: readCompaction(compacted) },
    ...convertUser(sliceMessage(at + 1))
  ]
}

const toUserItems = (message: Pick<Prompt.UserMessage, "content">): ReadonlyArray<InputItem> => {
  const files = message.content.some((part) => part.type === "file")
  if (message.content.length === 0) return []
  return [
    {
      role: "user",
      content: files
        ? message.content.map((part) => (part.type === "text" ? toInputText(part.text) : toInputFile(part)))
        : message.content.map((part) => (part.type === "text" ? part.text.toWellFormed() : "")).join("\n\n")
    }
  ]
}

/** Splits an id of the form `call|item` into the ids of the call and of its item. */
const splitId = (id: string): { readonly callId: string; readonly itemId: string | undefined } => {
  const at = id.indexOf("|")
  return at === -1 ? { callId: id, itemId: undefined } : { callId: id.slice(0, at), itemId: id.slice(at + 1) }
}

const toTextItem = (part: Prompt.TextPart): InputItem => {
  const { id, phase, status } = readOwnOptions(part.options)
  const text = part.text.toWellFormed()
  return typeof id !== "string"
    ? { role: "assistant", content: text }
    : {
        type: "message",
        role: "assistant",
        id,
        status: status ?? "completed",
        ...(phase === undefined ? {} : { phase }),
        content: [{ type: "output_text", text, annotations: [] }]
      }
}

const toCallItem = (part: Prompt.ToolCallPart): InputItem => {
  const { callId, itemId } = splitId(part.id)
  const id = readOwnOptions(part.options)["id"] ?? itemId
  return {
    type: "function_call",
    id: typeof id === "string" && id.startsWith("fc_") ? id : `fc_${Digest.toHex(callId, 32)}`,
    call_id: callId,
    name: part.name,
    arguments: ToolCallWire.toText(part.params)
  }
}

const convertAssistant = (message: Prompt.AssistantMessage): ReadonlyArray<InputItem> => {
  const items = message.content.flatMap((part): ReadonlyArray<InputItem> => {
    switch (part.type) {
      case "reasoning":
        return toReasoningItems(part)
      case "text":
        return part.text === "" ? [] : [toTextItem(part)]
      case "tool-call":
        return part.providerExecuted ? [] : [toCallItem(part)]
      default:
        return []
    }
  })
  return items.at(-1)?.["type"] === "reasoning" ? [...items, { role: "assistant", content: "" }] : items
}

const toOutput = (part: Prompt.ToolResultPart): string | ReadonlyArray<Json.Fields> => {
  const parts = part.modelOutput
  if (parts === undefined) return Json.toText(part.result).toWellFormed()
  return parts.some((item) => item.type === "file")
    ? parts.map((item) => (item.type === "text" ? toInputText(item.text) : toInputFile(item)))
    : parts.map((item) => (item.type === "text" ? item.text.toWellFormed() : "")).join("\n")
}

const convertToolMessage = (message: Prompt.ToolMessage): ReadonlyArray<InputItem> =>
  message.content.flatMap((part) =>
    part.type === "tool-result"
      ? [{ type: "function_call_output", call_id: splitId(part.id).callId, output: toOutput(part) }]
      : []
  )

const convertMessage = (message: Prompt.Message): ReadonlyArray<InputItem> => {
  switch (message.role) {
    case "system":
      return [{ role: "developer", content: message.content.toWellFormed() }]
    case "user":
      return convertUser(message)
    case "assistant":
      return convertAssistant(message)
    case "tool":
      return convertToolMessage(message)
  }
}

const getItems = memoize(convertMessage)

/** A conversation in the format of the API. */
interface Input {
  /**
   * Leading system messages of the conversation; `undefined` if the conversation does not begin with a system message.
   */
  readonly instructions: string | undefined
  readonly items: Array<InputItem>
}

/** State of the conversion of a conversation. */
interface State {
  readonly instructions: Array<string>
  readonly items: Array<InputItem>
  /** Encrypted reasoning that the items already contain. */
  thoughts: HashSet.HashSet<unknown>
}

const read = GrowingList.fold<Prompt.Message, State>({
  begin: () => ({ instructions: [], items: [], thoughts: HashSet.empty() }),
  add: (state, message) => {
    const { instructions, items } = state
    if (message.role === "system" && items.length === 0) {
      instructions.push(message.content.toWellFormed())
      return
    }
    for (const item of getItems(message)) {
      if (item["type"] === "reasoning") {
        const thought = item["encrypted_content"]
        if (HashSet.has(state.thoughts, thought)) continue
        state.thoughts = HashSet.add(state.thoughts, thought)
      }
      items.push(item)
    }
  },
  copy: ({ instructions, items, thoughts }) => ({ instructions: instructions.slice(), items: items.slice(), thoughts })
})

/** Encodes a conversation as input. */
export const toWire = (messages: ReadonlyArray<Prompt.Message>): Input => {
  const { instructions, items } = read(messages)
  return { instructions: instructions.length === 0 ? undefined : instructions.join("\n\n"), items }
}
