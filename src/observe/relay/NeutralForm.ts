/**
 * Converts requests and answers of executed model calls to the form that the runtime's own streams use, regardless of
 * their protocol: chat completions.
 *
 * **Details**
 *
 * - A user message that also contains results becomes one message for each result, and one for the rest.
 * - Items of one answer that the protocol lists separately become one assistant message.
 * - Marks for a provider's cache and signatures of reasoning are left out. They are part of the protocol, not of the
 *   conversation.
 * - A request that already has this form is returned with the same messages.
 *
 * Source: `relay-atof-atif.md` §1.7 (rule 6) and §2.6.
 */
import type * as Schema from "effect/Schema"
import * as Answer from "../atif/Answer.ts"
import * as Message from "../atif/Message.ts"
import { type Fields, toArguments, toFields, toItems, toNonEmptyText } from "../atif/Value.ts"
import { type Facts, spoken } from "../atof/ChatCompletion.ts"

/** Converts content to JSON. Its parts are plain objects that contain only strings. */
const toContentJson = (content: ReturnType<typeof Message.readWholeContent>): Schema.Json =>
  typeof content === "string" || content === undefined
    ? (content ?? "")
    : content.map((part) => (part.type === "text" ? { ...part } : { type: part.type, source: { ...part.source } }))

const isCall = (block: Fields): boolean => block["type"] === "tool_use" || block["toolUse"] !== undefined

const isResult = (block: Fields): boolean => block["type"] === "tool_result" || block["toolResult"] !== undefined

/** Returns the note about an image whose bytes are in a message, as the runtime's own streams have it. */
const describeImage = (block: Fields): string | undefined => {
  const format = toNonEmptyText(toFields(block["image"])["format"])
  if (format !== undefined && block["type"] === undefined) return `[image/${format}]`
  const { data, media_type: mediaType, type } = toFields(block["source"])
  const address = toNonEmptyText(toFields(block["image_url"])["url"]) ?? toNonEmptyText(block["image_url"])
  const said = type === "base64" ? `data:${String(mediaType)};base64,${String(data)}` : (address ?? "")
  const [, kind, text] = /^data:([^;,]+);base64,([^]*)$/u.exec(said) ?? []
  if (kind === undefined || text === undefined) return undefined
  const bytes = Math.floor((text.replace(/=+$/u, "").length * 3) / 4)
  return `[${kind}: ${bytes} bytes that are not in this document]`
}

/** Reads the content of a message without its calls and results. */
const readSaid = (content: unknown): ReturnType<typeof Message.readWholeContent> => {
  if (!Array.isArray(content)) return Message.readWholeContent(content)
  const shown = toItems(content).flatMap((block): ReadonlyArray<Schema.Json> => {
    const fields = toFields(block)
    if (isCall(fields) || isResult(fields) || fields["type"] === "thinking") return []
    const image = describeImage(fields)
    return [image === undefined ? block : { type: "text", text: image }]
  })
  return Message.readWholeContent(shown)
}

const toToolCall = (id: unknown, name: unknown, args: unknown): Facts => ({
  id: toNonEmptyText(id) ?? "",
  type: "function",
  function: { name: toNonEmptyText(name) ?? "", arguments: JSON.stringify(toArguments(args)) }
})

/** Lists the calls of an assistant message in any protocol. */
const listCalls = (message: Fields): ReadonlyArray<Facts> => [
  ...toItems(message["tool_calls"]).map((call) => {
    const { arguments: args, id, name } = { ...toFields(call), ...toFields(toFields(call)["function"]) }
    return toToolCall(id, name, args)
  }),
  ...toItems(message["content"]).flatMap((block) => {
    const fields = toFields(block)
    const use = toFields(fields["toolUse"])
    if (fields["type"] === "tool_use") return [toToolCall(fields["id"], fields["name"], fields["input"])]
    return fields["toolUse"] === undefined ? [] : [toToolCall(use["toolUseId"], use["name"], use["input"])]
  })
]

/** Reads the reasoning of an assistant message in any protocol. */
const readReasoning = (message: Fields): string =>
  toNonEmptyText(message["reasoning_content"]) ??
  toItems(message["content"])
    .flatMap((block) => {
      const fields = toFields(block)
      const nested = toFields(toFields(fields["reasoningContent"])["reasoningText"])
      return toNonEmptyText(fields["thinking"]) ?? toNonEmptyText(nested["text"]) ?? []
    })
    .join("\n")

const toResult = (id: unknown, name: unknown, content: unknown): Facts => {
  const said = readSaid(content)
  return {
    role: "tool",
    tool_call_id: toNonEmptyText(id) ?? "",
    ...(toNonEmptyText(name) === undefined ? {} : { name: toNonEmptyText(name) ?? "" }),
    content: said === undefined ? Message.renderOutput(content) : Message.toPlainText(said)
  }
}

/** Reads the content of a result in a Bedrock message: text, or JSON for each part. */
const readBedrockResult = (result: Fields): Schema.Json =>
  toItems(result["content"]).map((part) => {
    const { json } = toFields(part)
    return json === undefined ? part : { type: "text", text: Message.renderOutput(json) }
  })

/** Lists the results in a message. */
const listResults = (message: Fields): ReadonlyArray<Facts> =>
  toItems(message["content"]).flatMap((block) => {
    const fields = toFields(block)
    if (fields["type"] === "tool_result") return [toResult(fields["tool_use_id"], undefined, fields["content"])]
    const result = toFields(fields["toolResult"])
    return fields["toolResult"] === undefined
      ? []
      : [toResult(result["toolUseId"], undefined, readBedrockResult(result))]
  })

const toAssistant = (message: Fields): Facts => {
  const calls = listCalls(message)
  const reasoning = readReasoning(message)
  const content = message["content"]
  // The parts of an answer are pieces of one text.
  const texts = toItems(content).flatMap((block) => toNonEmptyText(toFields(block)["text"]) ?? [])
  return {
    role: "assistant",
    content: Array.isArray(content) ? texts.join("") : (toNonEmptyText(content) ?? ""),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

const toMessages = (value: Schema.Json): ReadonlyArray<Facts> => {
  const message = toFields(value)
  switch (message["role"]) {
    case "assistant":
      return [toAssistant(message)]
    case "tool":
      return [toResult(message["tool_call_id"], message["name"], message["content"])]
    case "system":
    case "developer":
      return [{ role: "system", content: toContentJson(Message.readWholeContent(message["content"])) }]
    default: {
      const results = listResults(message)
      const said = readSaid(message["content"])
      const isAllResults = results.length > 0 && (said === undefined || said === "")
      return isAllResults ? results : [...results, { role: "user", content: toContentJson(said) }]
    }
  }
}

/** Reads an item of a Responses request that belongs to an answer, as a part of the assistant message. */
const readAnswerItem = (item: Fields): Facts | undefined => {
  switch (item["type"]) {
    case "function_call":
      return {
        role: "assistant",
        content: "",
        tool_calls: [toToolCall(item["call_id"], item["name"], item["arguments"])]
      }
    case "reasoning": {
      const texts = toItems(item["summary"]).flatMap((part) => toNonEmptyText(toFields(part)["text"]) ?? [])
      return { role: "assistant", content: "", ...(texts.length === 0 ? {} : { reasoning_content: texts.join("\n") }) }
    }
    default:
      return item["role"] === "assistant" ? toAssistant(item) : undefined
  }
}

const joinAnswers = (first: Facts, second: Facts): Facts => {
  const calls = [...toItems(first["tool_calls"]), ...toItems(second["tool_calls"])]
  const reasoning = [first, second].flatMap((one) => toNonEmptyText(one["reasoning_content"]) ?? []).join("\n")
  return {
    role: "assistant",
    content: `${String(first["content"])}${String(second["content"])}`,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

/** Reads the items of a Responses request. Consecutive items of one answer become one message. */
const readItems = (items: ReadonlyArray<Schema.Json>): ReadonlyArray<Facts> => {
  const messages: Array<Facts> = []
  let open: Facts | undefined
  for (const value of items) {
    const item = toFields(value)
    const part = readAnswerItem(item)
    if (part !== undefined) {
      open = open === undefined ? part : joinAnswers(open, part)
      continue
    }
    if (open !== undefined) messages.push(open)
    open = undefined
    if (item["type"] === "function_call_output") messages.push(toResult(item["call_id"], undefined, item["output"]))
    else messages.push(...toMessages(value))
  }
  return open === undefined ? messages : [...messages, open]
}

/** Converts the definition of a tool in any protocol. */
const toTool = (value: Schema.Json): Facts => {
  const tool = toFields(value)
  const spec = toFields(tool["toolSpec"])
  const { description, input_schema, inputSchema, name, parameters } = {
    ...tool,
    ...toFields(tool["function"]),
    ...spec
  }
  return {
    type: "function",
    function: {
      name: name ?? "",
      description: description ?? "",
      parameters: parameters ?? input_schema ?? toFields(inputSchema)["json"] ?? {}
    }
  }
}

/** Tests whether a definition describes a function. A provider's own tools have other types, and are not converted. */
const isFunction = (value: Schema.Json): boolean => {
  const { input_schema, name, toolSpec, type } = toFields(value)
  return type === "function" || toolSpec !== undefined || (name !== undefined && input_schema !== undefined)
}

/** Converts the body of a request. A body without messages is returned as it is. */
export const toRequest = (value: Schema.Json): Schema.Json => {
  const body = toFields(value)
  const listed = body["messages"] ?? body["input"]
  const items = typeof listed === "string" ? [{ role: "user", content: listed }] : listed
  if (!Array.isArray(items)) return value
  const system = Message.readWholeContent(body["system"] ?? body["instructions"])
  const tools = toItems(body["tools"] ?? toFields(body["toolConfig"])["tools"])
  const others = Object.entries(body).flatMap(([name, item]) =>
    spoken.has(name) || item === undefined ? [] : [[name, item] as const]
  )
  return {
    ...Object.fromEntries(others),
    messages: [
      ...(system === undefined || system === "" ? [] : [{ role: "system", content: toContentJson(system) }]),
      ...(body["messages"] === undefined ? readItems(toItems(items)) : toItems(items).flatMap(toMessages))
    ],
    ...(tools.length === 0 ? {} : { tools: tools.map((tool) => (isFunction(tool) ? toTool(tool) : tool)) })
  }
}

/**
 * Converts the answer that the library received. An answer without text and calls becomes `null`, because readers reject
 * it.
 */
export const toResponse = (value: Schema.Json): Schema.Json => {
  const { calls, finishReason, message, model, reasoning } = Answer.readAnswer(value)
  const content = Message.toPlainText(message)
  if (content === "" && calls.length === 0) return null
  const said = { role: "assistant", content, ...(reasoning === undefined ? {} : { reasoning_content: reasoning }) }
  const named = calls.map(({ args, id, name }, index) => ({ id: id ?? `${name}:${index}`, name, args }))
  const finish = finishReason ?? null
  return {
    object: "chat.completion",
    ...(model === undefined ? {} : { model }),
    choices: [
      {
        index: 0,
        message: {
          ...said,
          ...(named.length === 0 ? {} : { tool_calls: named.map(({ args, id, name }) => toToolCall(id, name, args)) })
        },
        finish_reason: finish
      }
    ],
    usage: toFields(value)["usage"] ?? null,
    assistant_message: {
      ...said,
      ...(named.length === 0
        ? {}
        : { tool_calls: named.map(({ args, id, name }) => ({ id, name, arguments: JSON.stringify(args) })) })
    },
    finish_reason: finish
  }
}
