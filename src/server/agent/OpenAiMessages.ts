/**
 * Messages and tools of OpenAI's two APIs as those of the agent.
 *
 * **Details**
 *
 * Reads text, images (by data or by address), calls and results of tools. A part of another kind is refused with its name. Messages
 * of the roles `system` and `developer` are instructions of the caller.
 *
 * Source: OpenAI API reference, chat completions and responses.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Json from "../../domain/Json.ts"
import * as ApiError from "../ApiError.ts"
import type { Request } from "./AgentExchange.ts"
import type { ClientTool } from "./ClientTools.ts"
import * as OpenAiFields from "./OpenAiFields.ts"

type Parsed<A> = Effect.Effect<A, ApiError.ApiError>

const refuse = (message: string): Effect.Effect<never, ApiError.ApiError> => Effect.fail(ApiError.make(400, "invalid_request", message))

const decodeBase64 = Schema.decodeOption(Schema.Uint8ArrayFromBase64)

const imageOf = (url: unknown): Parsed<Prompt.FilePart> => {
  if (typeof url !== "string") return refuse("An image needs an address: data: or https:.")
  const [, mediaType, data] = /^data:(image\/[\w.+-]+);base64,(.*)$/su.exec(url) ?? []
  if (mediaType !== undefined && data !== undefined) {
    return Option.match(decodeBase64(data), {
      onNone: () => refuse("The data of an image is not base64."),
      onSome: (bytes) => Effect.succeed(Prompt.filePart({ mediaType, data: bytes }))
    })
  }
  return URL.canParse(url) && /^https?:/u.test(url)
    ? Effect.succeed(Prompt.filePart({ mediaType: "image/*", data: new URL(url) }))
    : refuse("An image needs an address: data: or https:.")
}

const partOf = (part: unknown): Parsed<Prompt.TextPart | Prompt.FilePart> => {
  const fields = Json.fields(part)
  switch (fields["type"]) {
    case "text":
    case "input_text":
    case "output_text":
      return Effect.succeed(Prompt.textPart({ text: Json.string(fields["text"]) ?? "" }))
    case "refusal":
      return Effect.succeed(Prompt.textPart({ text: Json.string(fields["refusal"]) ?? "" }))
    case "image_url":
      return imageOf(Json.isFields(fields["image_url"]) ? fields["image_url"]["url"] : fields["image_url"])
    case "input_image":
      return imageOf(fields["image_url"])
    default:
      return refuse(`Content of the type "${Json.word(fields["type"])}" is not supported. Send text or images.`)
  }
}

const partsOf = (content: unknown): Parsed<ReadonlyArray<Prompt.TextPart | Prompt.FilePart>> => {
  if (content === undefined || content === null) return Effect.succeed([])
  if (typeof content === "string") return Effect.succeed(content === "" ? [] : [Prompt.textPart({ text: content })])
  return Array.isArray(content) ? Effect.forEach(content, partOf) : refuse("content is a text or a list of parts.")
}

const plainText = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): string => parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("\n")

/** One thing of a conversation. */
type Item =
  | { readonly role: "system"; readonly text: string }
  | { readonly role: "user"; readonly parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart> }
  | { readonly role: "assistant"; readonly text: string }
  | { readonly role: "call"; readonly id: string; readonly name: string; readonly arguments: string }
  | { readonly role: "result"; readonly id: string; readonly output: string }

const resultOf = (id: unknown, parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): Parsed<ReadonlyArray<Item>> =>
  parts.some(({ type }) => type === "file")
    ? refuse("The result of a tool is text. Send an image in a message of the user.")
    : Effect.succeed([{ role: "result", id: Json.word(id), output: plainText(parts) }])

const chatItem = (message: unknown, index: number): Parsed<ReadonlyArray<Item>> =>
  Effect.gen(function*(): Effect.gen.Return<ReadonlyArray<Item>, ApiError.ApiError> {
    const fields = Json.fields(message)
    const parts = yield* partsOf(fields["content"])
    switch (fields["role"]) {
      case "system":
      case "developer":
        return [{ role: "system", text: plainText(parts) }]
      case "user":
        return [{ role: "user", parts }]
      case "assistant": {
        const text = plainText(parts)
        const calls = Json.items(fields["tool_calls"]).map((call): Item => {
          const { function: made, id } = Json.fields(call)
          return { role: "call", id: Json.word(id), name: Json.word(Json.fields(made)["name"]), arguments: Json.string(Json.fields(made)["arguments"]) ?? "{}" }
        })
        return [...text === "" ? [] : [{ role: "assistant", text } as const], ...calls]
      }
      case "tool":
        return yield* resultOf(fields["tool_call_id"], parts)
      default:
        return yield* refuse(`messages[${index}] has the role "${Json.word(fields["role"])}". Use system, developer, user, assistant or tool.`)
    }
  })

const responseItem = (item: unknown, index: number): Parsed<ReadonlyArray<Item>> => {
  const fields = Json.fields(item)
  switch (fields["type"] ?? "message") {
    case "message":
      return chatItem(item, index)
    case "function_call":
      return Effect.succeed([{ role: "call", id: Json.word(fields["call_id"]), name: Json.word(fields["name"]), arguments: Json.string(fields["arguments"]) ?? "{}" }])
    case "function_call_output":
      return Effect.flatMap(partsOf(fields["output"]), (parts) => resultOf(fields["call_id"], parts))
    // The agent keeps its own.
    case "reasoning":
      return Effect.succeed([])
    default:
      return refuse(`input[${index}] has the type "${Json.word(fields["type"])}". Use message, function_call or function_call_output.`)
  }
}

const promptOf = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): RunInput["prompt"] => parts.every(({ type }) => type === "text") ? plainText(parts) : parts

const historyOf = (items: ReadonlyArray<Item>): ReadonlyArray<Prompt.Message> => {
  const names = new Map(items.flatMap((item) => item.role === "call" ? [[item.id, item.name]] : []))
  return items.flatMap((item): ReadonlyArray<Prompt.Message> => {
    switch (item.role) {
      case "system":
        return []
      case "user":
        return item.parts.length === 0 ? [] : [Prompt.userMessage({ content: item.parts })]
      case "assistant":
        return [Prompt.assistantMessage({ content: [Prompt.textPart({ text: item.text })] })]
      case "call":
        return [Prompt.assistantMessage({ content: [Prompt.toolCallPart({ id: item.id, name: item.name, params: Json.parsed(item.arguments), providerExecuted: false })] })]
      case "result":
        return names.has(item.id)
          ? [Prompt.toolMessage({ content: [Prompt.toolResultPart({ id: item.id, name: names.get(item.id) ?? "", isFailure: false, result: item.output, providerExecuted: false })] })]
          : []
    }
  })
}

const conversationOf = (items: ReadonlyArray<Item>): Parsed<Pick<Request, "history" | "prompt" | "results" | "system">> => {
  const system = items.flatMap((item) => item.role === "system" && item.text !== "" ? [item.text] : [])
  const said = items.filter(({ role }) => role !== "system")
  const start = said.findLastIndex(({ role }) => role === "assistant" || role === "call") + 1
  const last = said.slice(start)
  const results = new Map(last.flatMap((item) => item.role === "result" ? [[item.id, item.output]] : []))
  const parts = last.flatMap((item) => item.role === "user" ? item.parts : [])
  if (parts.length === 0 && results.size === 0) return refuse("The last message is neither the user's nor a result of a tool.")
  return Effect.succeed({
    system: system.length === 0 ? undefined : system.join("\n\n"),
    // Results with another message behind them belong to a conversation that went on.
    history: historyOf(parts.length === 0 ? said.slice(0, start) : [...said.slice(0, start), ...last.filter(({ role }) => role === "result")]),
    prompt: parts.length === 0 ? undefined : promptOf(parts),
    results: parts.length === 0 ? results : new Map()
  })
}

const toolOf = (tool: unknown, index: number): Parsed<ClientTool> => {
  const fields = Json.fields(tool)
  if (fields["type"] !== "function") return refuse(`tools[${index}] is of the type "${Json.word(fields["type"])}". Only functions can be brought; the agent has its own tools.`)
  const made = Json.isFields(fields["function"]) ? fields["function"] : fields
  const name = Json.string(made["name"]) ?? ""
  if (!/^[\w-]{1,64}$/u.test(name)) return refuse(`tools[${index}] has no name of letters, digits, _ and -, 64 at most.`)
  // It came as JSON.
  const parameters = (Json.isFields(made["parameters"]) ? made["parameters"] : { type: "object", properties: {} }) as ClientTool["parameters"]
  return Effect.succeed({ name, description: Json.string(made["description"]) ?? "", parameters })
}

const toolsOf = Effect.fnUntraced(function*(body: Json.Fields): Effect.fn.Return<ReadonlyArray<ClientTool>, ApiError.ApiError> {
  if (body["tool_choice"] === "none") return []
  const tools = yield* Effect.forEach(Json.items(body["tools"]), toolOf)
  const twice = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index)
  return twice === undefined ? tools : yield* refuse(`tools has "${twice.name}" twice. Give each a name of its own.`)
})

/** Reads a request for a chat completion. */
export const chatRequest = Effect.fnUntraced(function*(body: Json.Fields, session: string | undefined): Effect.fn.Return<Request, ApiError.ApiError> {
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) return yield* refuse("messages is a list of at least one message.")
  yield* OpenAiFields.admitFields(body, OpenAiFields.chatFields)
  const items = (yield* Effect.forEach(body["messages"], chatItem)).flat()
  return { ...yield* conversationOf(items), session, tools: yield* toolsOf(body), model: Json.string(body["model"]) }
})

/** Reads a request for a response; `previous` is the session and the position that `previous_response_id` means. */
export const responseRequest = Effect.fnUntraced(function*(
  body: Json.Fields,
  previous: { readonly session: string; readonly position: number } | undefined
): Effect.fn.Return<Request, ApiError.ApiError> {
  yield* OpenAiFields.admitFields(body, OpenAiFields.responseFields)
  const { input, instructions } = body
  const given = typeof input === "string" ? [{ role: "user", content: input }] : input
  if (!Array.isArray(given) || given.length === 0) return yield* refuse("input is a text, or a list of at least one item.")
  const items = (yield* Effect.forEach(given, responseItem)).flat()
  const { system, ...conversation } = yield* conversationOf(items)
  const all = [Json.string(instructions) ?? "", system ?? ""].filter((text) => text !== "")
  return {
    ...conversation,
    system: all.length === 0 ? undefined : all.join("\n\n"),
    session: previous?.session,
    // Results belong to the turn that waits for them.
    position: conversation.results.size > 0 ? undefined : previous?.position,
    tools: yield* toolsOf(body),
    model: Json.string(body["model"])
  }
})
