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
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import * as AnswerFormat from "../../../base/domain/AnswerFormat.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as JsonSchemaFormat from "../../../base/domain/JsonSchemaFormat.ts"
import * as ApiError from "../ApiError.ts"
import type { Request } from "./AgentExchange.ts"
import type { ClientTool } from "./ClientTools.ts"
import * as OpenAiFields from "./OpenAiFields.ts"

type Parsed<A> = Effect.Effect<A, ApiError.ApiError>

const refuseRequest = (message: string): Effect.Effect<never, ApiError.ApiError> =>
  Effect.fail(ApiError.make(400, "invalid_request", message))

const decodeBase64 = Schema.decodeOption(Schema.Uint8ArrayFromBase64)

const toImagePart = (url: unknown): Parsed<Prompt.FilePart> => {
  if (typeof url !== "string") return refuseRequest("An image needs an address: data: or https:.")
  const [, mediaType, data] = /^data:(image\/[\w.+-]+);base64,(.*)$/su.exec(url) ?? []
  if (mediaType !== undefined && data !== undefined) {
    return Option.match(decodeBase64(data), {
      onNone: () => refuseRequest("The data of an image is not base64."),
      onSome: (bytes) => Effect.succeed(Prompt.filePart({ mediaType, data: bytes }))
    })
  }
  return URL.canParse(url) && /^https?:/u.test(url)
    ? Effect.succeed(Prompt.filePart({ mediaType: "image/*", data: new URL(url) }))
    : refuseRequest("An image needs an address: data: or https:.")
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
    default:
      return refuseRequest(
        `Content of the type "${Json.readWord(fields["type"])}" is not supported. Send text or images.`
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

const joinText = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

/** An item of a conversation. */
type Item =
  | { readonly role: "system"; readonly text: string }
  | { readonly role: "user"; readonly parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart> }
  | { readonly role: "assistant"; readonly text: string }
  | { readonly role: "call"; readonly id: string; readonly name: string; readonly arguments: string }
  | { readonly role: "result"; readonly id: string; readonly output: string }

const toResultItems = (
  id: unknown,
  parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>
): Parsed<ReadonlyArray<Item>> =>
  parts.some(({ type }) => type === "file")
    ? refuseRequest("The result of a tool is text. Send an image in a message of the user.")
    : Effect.succeed([{ role: "result", id: Json.readWord(id), output: joinText(parts) }])

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
        return yield* toResultItems(fields["tool_call_id"], parts)
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
      return Effect.flatMap(toParts(fields["output"]), (parts) => toResultItems(fields["call_id"], parts))
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

const toPrompt = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): RunInput["prompt"] =>
  parts.every(({ type }) => type === "text") ? joinText(parts) : parts

const toHistory = (items: ReadonlyArray<Item>): ReadonlyArray<Prompt.Message> => {
  const names = new Map(items.flatMap((item) => (item.role === "call" ? [[item.id, item.name]] : [])))
  return items.flatMap((item): ReadonlyArray<Prompt.Message> => {
    switch (item.role) {
      case "system":
        return []
      case "user":
        return item.parts.length === 0 ? [] : [Prompt.userMessage({ content: item.parts })]
      case "assistant":
        return [Prompt.assistantMessage({ content: [Prompt.textPart({ text: item.text })] })]
      case "call":
        return [
          Prompt.assistantMessage({
            content: [
              Prompt.toolCallPart({
                id: item.id,
                name: item.name,
                params: Json.parseOrKeep(item.arguments),
                providerExecuted: false
              })
            ]
          })
        ]
      case "result":
        return names.has(item.id)
          ? [
              Prompt.toolMessage({
                content: [
                  Prompt.toolResultPart({
                    id: item.id,
                    name: names.get(item.id) ?? "",
                    isFailure: false,
                    result: item.output,
                    providerExecuted: false
                  })
                ]
              })
            ]
          : []
    }
  })
}

const splitConversation = (
  items: ReadonlyArray<Item>
): Parsed<Pick<Request, "history" | "prompt" | "results" | "system">> => {
  const system = items.flatMap((item) => (item.role === "system" && item.text !== "" ? [item.text] : []))
  const said = items.filter(({ role }) => role !== "system")
  const start = said.findLastIndex(({ role }) => role === "assistant" || role === "call") + 1
  const last = said.slice(start)
  const results = new Map(last.flatMap((item) => (item.role === "result" ? [[item.id, item.output]] : [])))
  const parts = last.flatMap((item) => (item.role === "user" ? item.parts : []))
  if (parts.length === 0 && results.size === 0)
    return refuseRequest("The last message is neither the user's nor a result of a tool.")
  return Effect.succeed({
    system: system.length === 0 ? undefined : system.join("\n\n"),
    // Tool results that are followed by another message belong to the history, because the conversation has continued.
    history: toHistory(
      parts.length === 0
        ? said.slice(0, start)
        : [...said.slice(0, start), ...last.filter(({ role }) => role === "result")]
    ),
    prompt: parts.length === 0 ? undefined : toPrompt(parts),
    results: parts.length === 0 ? results : new Map()
  })
}

const toClientTool = (tool: unknown, index: number): Parsed<ClientTool> => {
  const fields = Json.readFields(tool)
  if (fields["type"] !== "function")
    return refuseRequest(
      `tools[${index}] is of the type "${Json.readWord(fields["type"])}". Only functions can be brought; ` +
        "the agent has its own tools."
    )
  const made = Json.isFields(fields["function"]) ? fields["function"] : fields
  const name = Json.readString(made["name"]) ?? ""
  if (!/^[\w-]{1,64}$/u.test(name))
    return refuseRequest(`tools[${index}] has no name of letters, digits, _ and -, 64 at most.`)
  // The value was parsed from JSON.
  const parameters = (
    Json.isFields(made["parameters"]) ? made["parameters"] : { type: "object", properties: {} }
  ) as ClientTool["parameters"]
  return Effect.succeed({ name, description: Json.readString(made["description"]) ?? "", parameters })
}

const readTools = Effect.fnUntraced(function* (
  body: Json.Fields
): Effect.fn.Return<ReadonlyArray<ClientTool>, ApiError.ApiError> {
  if (body["tool_choice"] === "none") return []
  const tools = yield* Effect.forEach(Json.readItems(body["tools"]), toClientTool)
  const twice = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index)
  return twice === undefined
    ? tools
    : yield* refuseRequest(`tools has "${twice.name}" twice. Give each a name of its own.`)
})

/** Reads the form of an answer. A value of it is refused with the name of its field. */
const readOutput = (
  format: unknown,
  schema: unknown,
  name: string
): Parsed<AnswerFormat.AnswerFormat<unknown> | undefined> => {
  switch (Json.readFields(format)["type"]) {
    case "json_object":
      return Effect.map(Effect.succeed({ type: "object" }), (object) =>
        AnswerFormat.makeFormat({ schema: object, definitions: {} }, (json) =>
          Json.isFields(json) ? Effect.succeed(json) : Effect.fail("expected a JSON object")
        )
      )
    case "json_schema": {
      const read = JsonSchemaFormat.readJsonSchema(schema, "ignore")
      if (Result.isFailure(read)) return Effect.fail(ApiError.refuseField(name, `${name} ${read.failure}`))
      return read.success.unwrap === undefined
        ? Effect.succeed(read.success)
        : Effect.fail(ApiError.refuseField(name, `${name} is not the schema of an object`))
    }
    default:
      return Effect.undefined
  }
}

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
    output: yield* readOutput(
      body["response_format"],
      Json.readFields(Json.readFields(body["response_format"])["json_schema"])["schema"],
      "response_format.json_schema.schema"
    ),
    model: Json.readString(body["model"])
  }
})

/**
 * Reads a request for a response. `previous` contains the session and the position to which `previous_response_id`
 * refers.
 */
export const readResponseRequest = Effect.fnUntraced(function* (
  body: Json.Fields,
  previous: { readonly session: string; readonly position: number } | undefined
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
    // Tool results belong to the turn that waits for them, so the position is not used.
    position: conversation.results.size > 0 ? undefined : previous?.position,
    tools: yield* readTools(body),
    output: yield* readOutput(format, Json.readFields(format)["schema"], "text.format.schema"),
    model: Json.readString(body["model"])
  }
})
