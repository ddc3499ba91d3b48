/**
 * Stored messages as items of OpenAI's APIs, and the ids of items. Pure.
 *
 * **Details**
 *
 * The id of an item names its session and its message, so that it can be resolved in any process that has the sessions.
 * The text of a response has the id of the response. The id of a call of the caller's tools also has the id that the
 * caller knows. Secrets are masked.
 *
 * Source: OpenAI API reference, responses and conversations.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../base/domain/Conversation.ts"
import * as Json from "../../../base/domain/Json.ts"
import { redactValue } from "../../../base/domain/Redaction.ts"
import type { ClientCall } from "./ClientTools.ts"

/** Place of an item: a message of a session, the answer of a response, or a call of the caller's tools. */
export type ItemPlace =
  | { readonly _tag: "Message"; readonly session: string; readonly position: number }
  | { readonly _tag: "Response"; readonly response: string }
  | { readonly _tag: "Call"; readonly call: string; readonly session: string; readonly runCall: string }
  | { readonly _tag: "Reasoning" }

/** Returns the id of the call item of a caller's tool. */
export const formatCallId = (session: string, { callId, id }: ClientCall): string =>
  `fc_${id}.${Buffer.from(JSON.stringify([session, callId])).toString("base64url")}`

/** Returns the id of the message item of a response. */
export const formatAnswerId = (response: string): string => `msg_${response}`

const readCall = (call: string, encoded: string): ItemPlace | undefined => {
  const [session, runCall] = Json.readItems(Json.parseOrKeep(Buffer.from(encoded, "base64url").toString("utf8")))
  return typeof session === "string" && typeof runCall === "string"
    ? { _tag: "Call", call, session, runCall }
    : undefined
}

/** Reads the id of an item. Returns `undefined` for other text. */
export const readItemId = (id: string): ItemPlace | undefined => {
  if (id.startsWith("rs_")) return { _tag: "Reasoning" }
  if (id.startsWith("msg_resp_")) return { _tag: "Response", response: id.slice("msg_".length) }
  const [, call, encoded] = /^fc_(call_[\da-f]+)\.([\w-]+)$/u.exec(id) ?? []
  if (call !== undefined && encoded !== undefined) return readCall(call, encoded)
  const [, session, position] = /^item_(.+)\.(\d+)(?:\.\d+)?$/u.exec(id) ?? []
  return session === undefined ? undefined : { _tag: "Message", session, position: Number(position) }
}

const toUrl = ({ data, mediaType }: Prompt.FilePart): string => {
  if (data instanceof URL) return data.href
  if (typeof data === "string" && /^(?:https?|data):/iu.test(data)) return data
  return `data:${mediaType};base64,${typeof data === "string" ? data : Buffer.from(data).toString("base64")}`
}

const toInputPart = (part: Prompt.UserMessage["content"][number]): unknown => {
  if (part.type === "text") return { type: "input_text", text: part.text }
  const url = toUrl(part)
  return part.mediaType.startsWith("image/")
    ? { type: "input_image", image_url: url, file_id: null, detail: "auto" }
    : { type: "input_file", filename: part.fileName ?? "file", file_data: url }
}

/** Converts a stored message to items, whose ids begin with `id`. */
const toItems = (message: Prompt.Message, id: string): ReadonlyArray<Json.Fields> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [{ id, type: "message", role: "user", status: "completed", content: message.content.map(toInputPart) }]
    case "assistant": {
      const text = Conversation.readText(message)
      const content = [{ type: "output_text", text, annotations: [], logprobs: [] }]
      const said = text === "" ? [] : [{ id, type: "message", role: "assistant", status: "completed", content }]
      const calls = Conversation.listToolCalls(message).map((call, index) => ({
        id: `${id}.${index}`,
        type: "function_call",
        call_id: call.id,
        name: call.name,
        arguments: JSON.stringify(call.params),
        status: "completed"
      }))
      return [...said, ...calls]
    }
    case "tool":
      return message.content.flatMap((part, index) =>
        part.type === "tool-result"
          ? [
              {
                id: `${id}.${index}`,
                type: "function_call_output",
                call_id: part.id,
                output: Json.toText(part.result),
                status: "completed"
              }
            ]
          : []
      )
  }
}

/** Lists the items of a session from its stored messages, the oldest first. `from` is the position of the first one. */
export const listItems = (
  session: string,
  messages: ReadonlyArray<Prompt.Message>,
  from = 0
): ReadonlyArray<Json.Fields> =>
  messages.flatMap((message, index) =>
    toItems(message, `item_${session}.${from + index}`).map((item) => Json.readFields(redactValue(item)))
  )

/** Joins the texts of the agent, as a response has them. */
export const joinAnswer = (messages: ReadonlyArray<Prompt.Message>): string =>
  messages
    .flatMap((message) => (message.role === "assistant" ? [Conversation.readText(message).trim()] : []))
    .filter((text) => text !== "")
    .join("\n\n")
