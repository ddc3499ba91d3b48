/**
 * Messages in the form of the GenAI conventions: a role and parts, whatever the provider's own request looks like. Pure.
 *
 * Source: OpenTelemetry, "GenAI input messages", "GenAI output messages".
 */
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Json from "../../domain/Json.ts"
import { type Fields, object, text } from "../atof/Facts.ts"

type Part = Readonly<Record<string, Schema.Json>>

/** A message of the conventions. */
export interface Message {
  readonly role: string
  readonly parts: ReadonlyArray<Part>
  readonly finish_reason?: string
}

// `Array.isArray` does not narrow a readonly list.
const list = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => Array.isArray(value) ? value : []

const saying = (content: Schema.Json): Part => ({ type: "text", content })

const called = (id: Schema.Json, name: Schema.Json, args: Schema.Json): Part => ({
  type: "tool_call",
  id,
  name,
  // What comes out of JSON is JSON.
  arguments: typeof args === "string" ? Option.getOrElse(Json.parse(args), () => args) as Schema.Json : args
})

const answered = (id: Schema.Json, response: Schema.Json): Part => ({ type: "tool_call_response", id, response })

/** A part as one of the providers writes it. What nobody knows stays what it is. */
const partOf = (value: Schema.Json): Part => {
  const part = object({ value }, "value")
  if (part === undefined) return saying(value)
  const { text: said, type } = part
  // Those of Bedrock are named by their member.
  const [use, result] = [object(part, "toolUse"), object(part, "toolResult")]
  if (use !== undefined) return called(use["toolUseId"] ?? "", use["name"] ?? "", use["input"] ?? {})
  if (result !== undefined) return answered(result["toolUseId"] ?? "", result["content"] ?? "")
  switch (type) {
    case "tool_use":
      return called(part["id"] ?? "", part["name"] ?? "", part["input"] ?? {})
    case "tool_result":
      return answered(part["tool_use_id"] ?? "", part["content"] ?? "")
    case "thinking":
      return { type: "reasoning", content: part["thinking"] ?? "" }
    default:
      return said !== undefined && (type === undefined || String(type).endsWith("text")) ? saying(said) : { type: "unknown", ...part }
  }
}

const toolCalls = (value: Schema.Json | undefined): ReadonlyArray<Part> =>
  list(value).flatMap((one) => {
    const call = object({ one }, "one")
    const inner = object(call ?? {}, "function")
    return call === undefined ? [] : [called(call["id"] ?? "", inner?.["name"] ?? "", inner?.["arguments"] ?? {})]
  })

const partsOf = (content: Schema.Json | undefined): ReadonlyArray<Part> =>
  content === undefined || content === null || content === ""
    ? []
    : Array.isArray(content) ? list(content).map(partOf) : [partOf(content)]

const messageOf = (value: Schema.Json): ReadonlyArray<Message> => {
  const message = object({ value }, "value")
  if (message === undefined) return [{ role: "user", parts: partsOf(value) }]
  // The items of the Responses API.
  if (message["type"] === "function_call") {
    return [{ role: "assistant", parts: [called(message["call_id"] ?? "", message["name"] ?? "", message["arguments"] ?? {})] }]
  }
  if (message["type"] === "function_call_output") {
    return [{ role: "tool", parts: [answered(message["call_id"] ?? "", message["output"] ?? "")] }]
  }
  const role = text(message, "role") || "user"
  return role === "tool"
    ? [{ role, parts: [answered(message["tool_call_id"] ?? "", message["content"] ?? "")] }]
    : [{ role, parts: [...partsOf(message["content"]), ...toolCalls(message["tool_calls"])] }]
}

const isSystem = ({ role }: Message): boolean => role === "system" || role === "developer"

/** What a request asks. */
export const asked = (payload: Fields): { readonly system: ReadonlyArray<Part>; readonly messages: ReadonlyArray<Message> } => {
  const request = object(payload, "request") ?? {}
  const body = object(request, "body") ?? {}
  const given = body["messages"] ?? body["input"] ?? request["preview"]
  const messages = (Array.isArray(given) ? list(given) : given === undefined ? [] : [given]).flatMap(messageOf)
  const system = body["system"] ?? body["instructions"]
  return {
    system: [...partsOf(system), ...messages.filter(isSystem).flatMap(({ parts }) => parts)],
    messages: messages.filter((message) => !isSystem(message))
  }
}

/** What was answered. */
export const answer = (payload: Fields): Message => {
  const message = object(object(payload, "response") ?? {}, "assistant_message") ?? {}
  const reasoning = message["reasoning_content"]
  return {
    role: "assistant",
    parts: [
      ...(reasoning === undefined ? [] : [{ type: "reasoning", content: reasoning }]),
      ...partsOf(message["content"]),
      ...toolCalls(message["tool_calls"])
    ],
    finish_reason: text(payload, "finish_reason") || "stop"
  }
}

/** A message that is all text. */
export const plain = (role: "user" | "assistant", content: Schema.Json): Message => ({ role, parts: partsOf(content) })
