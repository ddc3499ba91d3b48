/**
 * Converts messages and tools of OpenAI's two APIs to the agent's formats.
 *
 * **Details**
 *
 * Supports text, images (by data or by address), tool calls and tool results. A part of any other kind is refused with
 * an error that names it. Messages with the role `system` or `developer` are instructions from the caller.
 *
 * Source: OpenAI API reference, chat completions and responses.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"
import type { Request } from "./AgentExchange.ts"
import {
  type Item,
  joinText,
  makeClientTool,
  type Parsed,
  refuseRequest,
  requireDistinct,
  splitConversation,
  toAddressPart,
  toDataPart,
  toHistory
} from "./CallerItems.ts"
import type { ClientTool } from "./ClientTools.ts"
import * as OpenAiFields from "./OpenAiFields.ts"
import { readForm } from "./RequestedForm.ts"

const toImagePart = (url: unknown): Parsed<Prompt.FilePart> => {
  const [, mediaType, data] = /^data:(image\/[\w.+-]+);base64,(.*)$/su.exec(Json.readString(url) ?? "") ?? []
  return mediaType === undefined ? toAddressPart(url, "image/*", "image_url") : toDataPart(data, mediaType, "image_url")
}

/** Converts a file, whose data is a `data:` address, or which has an address. */
const toFilePart = ({
  file_data: given,
  file_id: id,
  file_url: url,
  filename
}: Json.Fields): Parsed<Prompt.FilePart> => {
  if (id !== undefined && id !== null)
    return Effect.fail(ApiError.refuseField("file_id", "file_id: no files are stored. Send file_data."))
  if (given === undefined || given === null) return toAddressPart(url, "application/pdf", "file_url")
  const [, mediaType = "", data] = /^data:([\w.+-]+\/[\w.+-]+);base64,(.*)$/su.exec(Json.readString(given) ?? "") ?? []
  return data === undefined
    ? Effect.fail(ApiError.refuseField("file_data", "file_data is not a data: address in base64."))
    : toDataPart(data, mediaType, "file_data", Json.readString(filename))
}

const toPart = (part: unknown): Parsed<Prompt.TextPart | Prompt.FilePart> => {
  const fields = Json.readFields(part)
  switch (fields["type"]) {
    case "text":
    case "input_text":
    case "output_text":
      return Effect.succeed(Prompt.textPart({ text: Json.readString(fields["text"]) ?? "" }))
    case "refusal":
      return Effect.succeed(Prompt.textPart({ text: Json.readString(fields["refusal"]) ?? "" }))
    case "image_url":
      return toImagePart(Json.isFields(fields["image_url"]) ? fields["image_url"]["url"] : fields["image_url"])
    case "input_image":
      return toImagePart(fields["image_url"])
    case "file":
      return toFilePart(Json.readFields(fields["file"]))
    case "input_file":
      return toFilePart(fields)
    default:
      return refuseRequest(
        `Content of the type "${Json.readWord(fields["type"])}" is not supported. Send text, images or files.`
      )
  }
}

const toParts = (content: unknown): Parsed<ReadonlyArray<Prompt.TextPart | Prompt.FilePart>> => {
  if (content === undefined || content === null) return Effect.succeed([])
  if (typeof content === "string") return Effect.succeed(content === "" ? [] : [Prompt.textPart({ text: content })])
  return Array.isArray(content)
    ? Effect.forEach(content, toPart)
    : refuseRequest("content is a text or a list of parts.")
}

const toChatItems = (message: unknown, index: number): Parsed<ReadonlyArray<Item>> =>
  Effect.gen(function* (): Effect.gen.Return<ReadonlyArray<Item>, ApiError.ApiError> {
    const fields = Json.readFields(message)
    const parts = yield* toParts(fields["content"])
    switch (fields["role"]) {
      case "system":
      case "developer":
        return [{ role: "system", text: joinText(parts) }]
      case "user":
        return [{ role: "user", parts }]
      case "assistant": {
        const text = joinText(parts)
        const calls = Json.readItems(fields["tool_calls"]).map((call): Item => {
          const { function: made, id } = Json.readFields(call)
          return {
            role: "call",
            id: Json.readWord(id),
            name: Json.readWord(Json.readFields(made)["name"]),
            arguments: Json.readString(Json.readFields(made)["arguments"]) ?? "{}"
          }
        })
        return [...(text === "" ? [] : [{ role: "assistant", text } as const]), ...calls]
      }
      case "tool":
        return parts.some(({ type }) => type === "file")
          ? yield* refuseRequest("The result of a tool is text. Send an image in a message of the user.")
          : [{ role: "result", id: Json.readWord(fields["tool_call_id"]), parts }]
      default:
        return yield* refuseRequest(
          `messages[${index}] has the role "${Json.readWord(fields["role"])}". Use system, developer, user, ` +
            "assistant or tool."
        )
    }
  })

const toResponseItems = (item: unknown, index: number): Parsed<ReadonlyArray<Item>> => {
  const fields = Json.readFields(item)
  switch (fields["type"] ?? "message") {
    case "message":
      return toChatItems(item, index)
    case "function_call":
      return Effect.succeed([
        {
          role: "call",
          id: Json.readWord(fields["call_id"]),
          name: Json.readWord(fields["name"]),
          arguments: Json.readString(fields["arguments"]) ?? "{}"
        }
      ])
    case "function_call_output":
      return Effect.map(toParts(fields["output"]), (parts) => [
        { role: "result", id: Json.readWord(fields["call_id"]), parts }
      ])
    // Reasoning items are ignored, because the agent stores its own reasoning.
    case "reasoning":
      return Effect.succeed([])
    default:
      return refuseRequest(
        `input[${index}] has the type "${Json.readWord(fields["type"])}". Use message, ` +
          "function_call or function_call_output."
      )
  }
}

const toClientTool = (tool: unknown, index: number): Parsed<ClientTool> => {
  const fields = Json.readFields(tool)
  if (fields["type"] !== "function")
    return refuseRequest(
      `tools[${index}] is of the type "${Json.readWord(fields["type"])}". Only functions can be brought; ` +
        "the agent has its own tools."
    )
  const made = Json.isFields(fields["function"]) ? fields["function"] : fields
  const { description, name, parameters } = made
  return makeClientTool({ name, description, parameters }, `tools[${index}]`)
}

const readTools = Effect.fnUntraced(function* (
  body: Json.Fields
): Effect.fn.Return<ReadonlyArray<ClientTool>, ApiError.ApiError> {
  if (body["tool_choice"] === "none") return []
  return yield* requireDistinct(yield* Effect.forEach(Json.readItems(body["tools"]), toClientTool))
})

/** Reads a request for a chat completion. */
export const readChatRequest = Effect.fnUntraced(function* (
  body: Json.Fields,
  session: string | undefined
): Effect.fn.Return<Request, ApiError.ApiError> {
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0)
    return yield* refuseRequest("messages is a list of at least one message.")
  yield* OpenAiFields.admitFields(body, OpenAiFields.chatFields)
  const items = (yield* Effect.forEach(body["messages"], toChatItems)).flat()
  return {
    ...(yield* splitConversation(items)),
    session,
    tools: yield* readTools(body),
    form: yield* readForm(
      "response_format",
      body["response_format"],
      Json.readFields(Json.readFields(body["response_format"])["json_schema"])["schema"],
      "response_format.json_schema.schema"
    ),
    isStored: body["store"] !== false,
    model: Json.readString(body["model"])
  }
})

/** Reads items of a conversation as messages. */
export const readItems = (given: ReadonlyArray<unknown>): Parsed<ReadonlyArray<Prompt.Message>> =>
  Effect.map(Effect.forEach(given, toResponseItems), (items) => toHistory(items.flat()))

/**
 * Reads a request for a response. `previous` contains the session and the position to which `previous_response_id`
 * refers, or the session of `conversation`. References to items are already resolved.
 */
export const readResponseRequest = Effect.fnUntraced(function* (
  body: Json.Fields,
  previous: { readonly session: string; readonly position?: number } | undefined
): Effect.fn.Return<Request, ApiError.ApiError> {
  yield* OpenAiFields.admitFields(body, OpenAiFields.responseFields)
  const { input, instructions } = body
  const { format } = Json.readFields(body["text"])
  const given = typeof input === "string" ? [{ role: "user", content: input }] : input
  if (!Array.isArray(given) || given.length === 0)
    return yield* refuseRequest("input is a text, or a list of at least one item.")
  const items = (yield* Effect.forEach(given, toResponseItems)).flat()
  const { system, ...conversation } = yield* splitConversation(items)
  const all = [Json.readString(instructions) ?? "", system ?? ""].filter((text) => text !== "")
  return {
    ...conversation,
    system: all.length === 0 ? undefined : all.join("\n\n"),
    session: previous?.session,
    position: previous?.position,
    tools: yield* readTools(body),
    isStored: body["store"] !== false,
    form: yield* readForm("text.format", format, Json.readFields(format)["schema"], "text.format.schema"),
    model: Json.readString(body["model"])
  }
})
