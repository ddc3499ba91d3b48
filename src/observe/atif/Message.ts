/**
 * Converts messages of requests and answers, in any protocol, to the form of a trajectory.
 *
 * **Details**
 *
 * Text parts are joined; a message with images preserves its parts. An image whose bytes were in the request, and which
 * has neither a file nor an address, is replaced by the name of its type, because trajectories contain only paths. Text
 * that a runtime adds to a user's message for one request only (`<memory-context>`, `<plugin-context>`) is left out.
 *
 * Source: `relay-atof-atif.md` §2.3 and §2.7.
 */
import type * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import type * as Atif from "../Atif.ts"
import { toArguments, type Fields, toFields, toItems, toNonEmptyText } from "./Value.ts"

/** A message of a request. */
export interface RequestMessage {
  readonly role: "system" | "user" | "assistant" | "tool"
  readonly content: Atif.Content
}

const mediaTypes: Readonly<Record<string, "image/jpeg" | "image/png" | "image/gif" | "image/webp">> = {
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  png: "image/png",
  gif: "image/gif",
  webp: "image/webp",
  "image/jpeg": "image/jpeg",
  "image/png": "image/png",
  "image/gif": "image/gif",
  "image/webp": "image/webp"
}

/** Tests whether a document can contain images of a media type. */
export const isPicture = (mediaType: string): boolean =>
  mediaType.startsWith("image/") && Object.hasOwn(mediaTypes, mediaType)

const toImagePart = (address: string | undefined, mediaType: string | undefined): Atif.ContentPart => {
  const ending = /\.(\w+)(?:[?#].*)?$/u.exec(address ?? "")?.[1]?.toLowerCase() ?? ""
  const known = mediaTypes[mediaType ?? ""] ?? mediaTypes[ending]
  if (known !== undefined && address !== undefined && !address.startsWith("data:") && !address.startsWith("<")) {
    return { type: "image", source: { media_type: known, path: address } }
  }
  const kind = mediaType ?? /^data:([\w/+.-]+)/u.exec(address ?? "")?.[1]
  return { type: "text", text: kind === undefined ? `[image ${address ?? ""}]` : `[${kind}]` }
}

const toContentPart = (value: unknown): Atif.ContentPart | undefined => {
  if (typeof value === "string") return { type: "text", text: value }
  const one = toFields(value)
  switch (one["type"]) {
    case "image_url":
      return toImagePart(
        toNonEmptyText(toFields(one["image_url"])["url"]) ?? toNonEmptyText(one["image_url"]),
        undefined
      )
    case "input_image":
      return toImagePart(toNonEmptyText(one["image_url"]), undefined)
    case "image": {
      const source = toFields(one["source"])
      return toImagePart(
        toNonEmptyText(source["path"]) ?? toNonEmptyText(source["url"]),
        toNonEmptyText(source["media_type"]) ?? toNonEmptyText(one["mediaType"])
      )
    }
    case "file":
      return toImagePart(toNonEmptyText(one["data"]), toNonEmptyText(one["mediaType"]))
    case "tool_result":
    case "tool_use":
    case "toolResult":
      return undefined
    default:
      return typeof one["text"] === "string" && one["thought"] !== true
        ? { type: "text", text: one["text"] }
        : readGeminiFile(one)
  }
}

/** Converts a file in a Gemini message to a content part. */
const readGeminiFile = (one: Fields): Atif.ContentPart | undefined => {
  const inline = toFields(one["inlineData"] ?? one["inline_data"])
  const named = toFields(one["fileData"] ?? one["file_data"])
  const mediaType = toNonEmptyText(inline["mimeType"] ?? inline["mime_type"] ?? named["mimeType"] ?? named["mime_type"])
  return mediaType === undefined
    ? undefined
    : toImagePart(toNonEmptyText(named["fileUri"] ?? named["file_uri"]), mediaType)
}

const context = /<(memory|plugin)-context>[\s\S]*?<\/\1-context>\n?/gu

/** Returns the content of a message in any form, with its full text, or `undefined` if it has no content for a step. */
export const readWholeContent = (value: unknown): Atif.Content | undefined => {
  if (typeof value === "string") return value
  if (!Array.isArray(value)) return undefined
  const parts = value.flatMap((one) => toContentPart(one) ?? [])
  if (parts.length === 0) return value.length === 0 ? "" : undefined
  return parts.every((one) => one.type === "text")
    ? parts.map((one) => (one.type === "text" ? one.text : "")).join("\n")
    : parts
}

/** Returns the content of a message without text that was added to the user's message for one request only. */
export const readContent = (value: unknown): Atif.Content | undefined => {
  const said = readWholeContent(value)
  return typeof said === "string" ? said.replace(context, "") : said
}

const roles: Readonly<Record<string, RequestMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  human: "user",
  assistant: "assistant",
  model: "assistant",
  ai: "assistant",
  tool: "tool"
}

const readMessage = (value: unknown): ReadonlyArray<RequestMessage> => {
  const one = toFields(value)
  const role = roles[toNonEmptyText(one["role"]) ?? ""]
  if (role === undefined) return []
  const said = (role === "assistant" ? readWholeContent : readContent)(one["content"] ?? one["parts"])
  // A user message that contains only tool results is not a user turn.
  return said === undefined ? (role === "assistant" ? [{ role, content: "" }] : []) : [{ role, content: said }]
}

/** Messages of a request in order. The system message comes first if the protocol stores it separately. */
export interface Request {
  readonly messages: ReadonlyArray<RequestMessage>
  readonly tools: ReadonlyArray<{ readonly [key: string]: Schema.Json }>
  readonly effort: string | undefined
  /** Results of earlier calls in the request, in order. */
  readonly results: ReadonlyArray<BroughtResult>
}

/**
 * A result of a call in a request. If the protocol has no ids, the call is identified as the nth call of its tool in
 * the previous answer.
 */
export interface BroughtResult {
  readonly callId: string | undefined
  readonly name: string | undefined
  readonly content: string
}

const listBroughtResults = (value: unknown): ReadonlyArray<BroughtResult> => {
  const one = toFields(value)
  const toResultText = (said: unknown): string => {
    const parts = readWholeContent(said)
    return parts === undefined ? renderOutput(said) : toPlainText(parts)
  }
  if (one["role"] === "tool")
    return [
      {
        callId: toNonEmptyText(one["tool_call_id"]),
        name: toNonEmptyText(one["name"]),
        content: toResultText(one["content"])
      }
    ]
  if (one["type"] === "function_call_output")
    return [{ callId: toNonEmptyText(one["call_id"]), name: undefined, content: toResultText(one["output"]) }]
  return [...toItems(one["content"]), ...toItems(one["parts"])].flatMap((part) => {
    const block = toFields(part)
    if (block["type"] === "tool_result")
      return [
        { callId: toNonEmptyText(block["tool_use_id"]), name: undefined, content: toResultText(block["content"]) }
      ]
    const response = toFields(block["functionResponse"] ?? block["function_response"])
    return response["name"] === undefined
      ? []
      : [
          {
            callId: toNonEmptyText(response["id"]),
            name: toNonEmptyText(response["name"]),
            content: renderResult(response["response"])
          }
        ]
  })
}

const listNewResults = (messages: ReadonlyArray<unknown>): ReadonlyArray<BroughtResult> => {
  const answer = messages.findLastIndex(
    (message) => roles[toNonEmptyText(toFields(message)["role"]) ?? ""] === "assistant"
  )
  return messages.flatMap((message, index) =>
    listBroughtResults(message).filter(({ callId }) => callId !== undefined || index > answer)
  )
}

/** Reads a request in any protocol. Returns `undefined` if it has no recognizable messages. */
export const readRequest = (value: unknown): Request | undefined => {
  const outer = toFields(value)
  // If Relay executes a request, it stores the body under `content`.
  const body = ["messages", "input", "contents"].some((name) => Array.isArray(outer[name]))
    ? outer
    : toFields(outer["content"])
  const listed = body["messages"] ?? body["input"] ?? body["contents"]
  const input = typeof listed === "string" ? [{ role: "user", content: listed }] : listed
  if (!Array.isArray(input)) return undefined
  const instruction = body["systemInstruction"] ?? body["system_instruction"]
  const apart = readContent(body["system"] ?? body["instructions"] ?? toFields(instruction)["parts"] ?? instruction)
  return {
    messages: [...(apart ? [{ role: "system", content: apart } as const] : []), ...input.flatMap(readMessage)],
    results: listNewResults(input),
    tools: toItems(body["tools"]).map(toArguments),
    effort: toNonEmptyText(body["reasoning_effort"]) ?? toNonEmptyText(toFields(body["reasoning"])["effort"])
  }
}

/** Returns the descriptions of images in the metadata of an event, for the `extra` of a step or a result. */
export const readImages = (metadata: unknown): { readonly images?: ReadonlyArray<Schema.Json> } => {
  const images = toItems(toFields(metadata)["images"])
  return images.length === 0 ? {} : { images }
}

/** Returns the text of content, for comparison and display. */
export const toPlainText = (said: Atif.Content): string =>
  typeof said === "string"
    ? said
    : said.map((one) => (one.type === "text" ? one.text : `[${one.source.path}]`)).join("\n")

/** Returns a tool's output as content: a string unchanged, any other value as JSON. */
export const renderOutput = (value: unknown): string =>
  value === undefined || value === null ? "" : Json.toText(value)

/**
 * Returns the output of a tool as content. An object whose only field is `result` or `output` is a wrapper, and its
 * value is the output.
 */
export const renderResult = (value: unknown): string => {
  const names = Object.keys(toFields(value))
  const [only] = names
  return names.length === 1 && (only === "result" || only === "output")
    ? renderOutput(toFields(value)[only])
    : renderOutput(value)
}
