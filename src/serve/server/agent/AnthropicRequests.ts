/**
 * Converts requests of Anthropic's messages API to the agent's formats.
 *
 * **Details**
 *
 * Supports text, images, documents, calls and results of the caller's tools, and a form of the answer. Thinking blocks
 * of earlier answers are ignored, because the agent stores its own reasoning. Fields for anything else are refused with
 * their place: see `AnthropicFields`.
 *
 * Source: Anthropic API reference, messages.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"
import type { Request } from "./AgentExchange.ts"
import * as AnthropicFields from "./AnthropicFields.ts"
import {
  type Item,
  joinText,
  makeClientTool,
  type Parsed,
  type Part,
  requireDistinct,
  splitConversation,
  toAddressPart,
  toDataPart
} from "./CallerItems.ts"
import type { ClientTool } from "./ClientTools.ts"
import { readMessageId } from "./OpenAiAnswers.ts"
import { readForm, type RequestedForm } from "./RequestedForm.ts"

const refusePlace = (place: string, problem: string): Effect.Effect<never, ApiError.ApiError> =>
  Effect.fail(ApiError.refuseField(place, `${place}: ${problem}`))

const toText = (text: unknown, place: string): Parsed<Prompt.TextPart> =>
  typeof text === "string" ? Effect.succeed(Prompt.textPart({ text })) : refusePlace(place, "expected a text.")

const toImage = (source: Json.Fields, place: string): Parsed<Prompt.FilePart> => {
  switch (source["type"]) {
    case "base64": {
      const type = Json.readString(source["media_type"]) ?? ""
      return /^image\/[\w.+-]+$/u.test(type)
        ? toDataPart(source["data"], type, `${place}.data`)
        : refusePlace(`${place}.media_type`, "expected the type of an image, such as image/png.")
    }
    case "url":
      return toAddressPart(source["url"], "image/*", `${place}.url`)
    default:
      return refusePlace(`${place}.type`, 'no files are stored. Use "base64" or "url".')
  }
}

const toDocument = (block: Json.Fields, place: string): Parsed<ReadonlyArray<Part>> => {
  const source = Json.readFields(block["source"])
  const at = `${place}.source`
  const title = Json.readString(block["title"])
  switch (source["type"]) {
    case "base64":
      return Effect.map(
        toDataPart(source["data"], Json.readString(source["media_type"]) ?? "application/pdf", `${at}.data`, title),
        (part) => [part]
      )
    case "url":
      return Effect.map(toAddressPart(source["url"], "application/pdf", `${at}.url`), (part) => [part])
    case "text":
      return Effect.map(toText(source["data"], `${at}.data`), ({ text }) => [
        Prompt.textPart({ text: title === undefined ? text : `${title}\n\n${text}` })
      ])
    case "content":
      return toParts(source["content"], `${at}.content`)
    default:
      return refusePlace(`${at}.type`, 'no files are stored. Use "base64", "url", "text" or "content".')
  }
}

/** Converts the blocks of a user message, of a tool's result or of a document. */
const toBlockParts = (block: unknown, place: string): Parsed<ReadonlyArray<Part>> =>
  Effect.suspend(() => {
    const fields = Json.readFields(block)
    switch (fields["type"]) {
      case "text":
        return Effect.map(toText(fields["text"], `${place}.text`), (part) => [part])
      case "image":
        return Effect.map(toImage(Json.readFields(fields["source"]), `${place}.source`), (part) => [part])
      case "document":
        return Effect.andThen(
          AnthropicFields.admitFields(fields, AnthropicFields.documentFields, `${place}.`),
          toDocument(fields, place)
        )
      default:
        return refusePlace(
          `${place}.type`,
          `blocks of the type "${Json.readWord(fields["type"])}" are not supported here: send text, images, documents.`
        )
    }
  })

const toParts = (content: unknown, place: string): Parsed<ReadonlyArray<Part>> => {
  if (content === undefined || content === null) return Effect.succeed([])
  if (typeof content === "string") return Effect.succeed(content === "" ? [] : [Prompt.textPart({ text: content })])
  return Array.isArray(content)
    ? Effect.map(
        Effect.forEach(content, (block, index) => toBlockParts(block, `${place}[${index}]`)),
        (parts) => parts.flat()
      )
    : refusePlace(place, "expected a text or a list of blocks.")
}

const toUserItem = (block: unknown, place: string): Parsed<Item> => {
  const fields = Json.readFields(block)
  return fields["type"] === "tool_result"
    ? Effect.map(toParts(fields["content"], `${place}.content`), (parts) => ({
        role: "result",
        id: Json.readWord(fields["tool_use_id"]),
        parts,
        isFailure: fields["is_error"] === true
      }))
    : Effect.map(toBlockParts(block, place), (parts) => ({ role: "user", parts }))
}

const toAssistantItems = (block: unknown, place: string): Parsed<ReadonlyArray<Item>> => {
  const fields = Json.readFields(block)
  switch (fields["type"]) {
    case "text":
      return Effect.map(toText(fields["text"], `${place}.text`), ({ text }) =>
        text === "" ? [] : [{ role: "assistant", text }]
      )
    case "tool_use":
      return Effect.succeed([
        {
          role: "call",
          id: Json.readWord(fields["id"]),
          name: Json.readWord(fields["name"]),
          arguments: JSON.stringify(fields["input"] ?? {})
        }
      ])
    case "thinking":
    case "redacted_thinking":
      return Effect.succeed([])
    default:
      return refusePlace(
        `${place}.type`,
        `blocks of the type "${Json.readWord(fields["type"])}" are not supported in an answer.`
      )
  }
}

const toItems = (message: unknown, index: number): Parsed<ReadonlyArray<Item>> => {
  const { content, role } = Json.readFields(message)
  const place = `messages[${index}].content`
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content
  if (!Array.isArray(blocks)) return refusePlace(place, "expected a text or a list of blocks.")
  switch (role) {
    case "user":
      return Effect.forEach(blocks, (block, at) => toUserItem(block, `${place}[${at}]`))
    case "assistant":
      return Effect.map(
        Effect.forEach(blocks, (block, at) => toAssistantItems(block, `${place}[${at}]`)),
        (items) => items.flat()
      )
    case "system":
      return Effect.map(toParts(blocks, place), (parts) => [{ role: "system", text: joinText(parts) }])
    default:
      return refusePlace(`messages[${index}].role`, "use user or assistant.")
  }
}

const toTool = (tool: unknown, index: number): Parsed<ClientTool> => {
  const fields = Json.readFields(tool)
  const place = `tools[${index}]`
  return Effect.andThen(
    AnthropicFields.admitFields(fields, AnthropicFields.toolFields, `${place}.`),
    makeClientTool(
      { name: fields["name"], description: fields["description"], parameters: fields["input_schema"] },
      place
    )
  )
}

/** Reads the form of the answer, in the current field or in the field that earlier clients send. */
const readAnswerForm = (body: Json.Fields): Parsed<RequestedForm | undefined> => {
  const { format } = Json.readFields(body["output_config"])
  const [field, given] =
    format === undefined || format === null
      ? ["output_format", body["output_format"]]
      : ["output_config.format", format]
  return readForm(field, given, Json.readFields(given)["schema"], `${field}.schema`)
}

/** Finds the message that a request continues, whose id names a session and a turn. */
const readThread = ({ thread }: Json.Fields): Parsed<Pick<Request, "position" | "session"> | undefined> => {
  const { previous_message_id: given, type } = Json.readFields(thread)
  if (type !== "continue") return Effect.undefined
  const previous = readMessageId(Json.readString(given) ?? "")
  return previous === undefined
    ? refusePlace("thread.previous_message_id", "there is no such message.")
    : Effect.succeed(previous)
}

/** A request, with the parts of the answer that it asks for. */
export interface MessagesRequest extends Request {
  /** True if the caller reads the agent's reasoning. */
  readonly showsThinking: boolean
}

/** Reads a request for a message. `session` is the session that it names. */
export const readMessagesRequest = Effect.fnUntraced(function* (
  body: Json.Fields,
  session: string | undefined
): Effect.fn.Return<MessagesRequest, ApiError.ApiError> {
  yield* AnthropicFields.admitFields(body, AnthropicFields.requestFields)
  const { messages } = body
  if (!Array.isArray(messages) || messages.length === 0)
    return yield* refusePlace("messages", "expected a list of at least one message.")
  const said = (yield* Effect.forEach(messages, toItems)).flat()
  const instructions = joinText(yield* toParts(body["system"], "system"))
  const thinking = Json.readFields(body["thinking"])
  const tools =
    Json.readFields(body["tool_choice"])["type"] === "none"
      ? []
      : yield* requireDistinct(yield* Effect.forEach(Json.readItems(body["tools"]), toTool))
  return {
    ...(yield* splitConversation([{ role: "system", text: instructions }, ...said])),
    session,
    ...(yield* readThread(body)),
    tools,
    form: yield* readAnswerForm(body),
    isStored: true,
    model: Json.readString(body["model"]),
    showsThinking:
      (thinking["type"] === "enabled" || thinking["type"] === "adaptive") && thinking["display"] !== "omitted"
  }
})
