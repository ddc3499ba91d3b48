/**
 * The conversation of a request, independent of the API: the words of the caller, calls and results, and their
 * split into history, prompt and results. Pure.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"
import type { Request } from "./AgentExchange.ts"
import type { ClientResult, ClientTool } from "./ClientTools.ts"

/** A part of a request, or its refusal. */
export type Parsed<A> = Effect.Effect<A, ApiError.ApiError>

/** A part of a message. */
export type Part = Prompt.TextPart | Prompt.FilePart

/** An item of a conversation. */
export type Item =
  | { readonly role: "system"; readonly text: string }
  | { readonly role: "user"; readonly parts: ReadonlyArray<Part> }
  | { readonly role: "assistant"; readonly text: string }
  | { readonly role: "call"; readonly id: string; readonly name: string; readonly arguments: string }
  | { readonly role: "result"; readonly id: string; readonly parts: ReadonlyArray<Part>; readonly isFailure?: boolean }

/** Refuses a request as a whole. */
export const refuseRequest = (message: string): Effect.Effect<never, ApiError.ApiError> =>
  Effect.fail(ApiError.make(400, "invalid_request", message))

const decodeBase64 = Schema.decodeOption(Schema.Uint8ArrayFromBase64)

/** Makes a file part of base64 text. `name` names the field in a refusal. */
export const toDataPart = (
  data: unknown,
  mediaType: string,
  name: string,
  fileName?: string
): Parsed<Prompt.FilePart> =>
  Option.match(typeof data === "string" ? decodeBase64(data) : Option.none(), {
    onNone: () => Effect.fail(ApiError.refuseField(name, `${name} is not base64.`)),
    onSome: (bytes) =>
      Effect.succeed(Prompt.filePart({ mediaType, data: bytes, ...(fileName === undefined ? {} : { fileName }) }))
  })

/** Makes a file part of an address: `http:` or `https:`. */
export const toAddressPart = (url: unknown, mediaType: string, name: string): Parsed<Prompt.FilePart> =>
  typeof url === "string" && /^https?:/u.test(url) && URL.canParse(url)
    ? Effect.succeed(Prompt.filePart({ mediaType, data: new URL(url) }))
    : Effect.fail(ApiError.refuseField(name, `${name} is not an address: use data: or https:.`))

/** Joins the texts of a message. */
export const joinText = (parts: ReadonlyArray<Part>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

const toPrompt = (parts: ReadonlyArray<Part>): RunInput["prompt"] =>
  parts.every(({ type }) => type === "text") ? joinText(parts) : parts

const toResult = ({ isFailure = false, parts }: Extract<Item, { readonly role: "result" }>): ClientResult => ({
  output: Prompt.toolModelOutputToText(parts),
  isFailure,
  ...(parts.every(({ type }) => type === "text") ? {} : { modelOutput: parts })
})

/** Converts items to messages. Results of unknown calls are omitted. */
export const toHistory = (items: ReadonlyArray<Item>): ReadonlyArray<Prompt.Message> => {
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
      case "result": {
        const name = names.get(item.id)
        if (name === undefined) return []
        const { output: result, ...more } = toResult(item)
        return [
          Prompt.toolMessage({
            content: [Prompt.toolResultPart({ id: item.id, name, result, ...more, providerExecuted: false })]
          })
        ]
      }
    }
  })
}

/** Splits a conversation into the caller's instructions, the earlier messages, and the message or results to answer. */
export const splitConversation = (
  items: ReadonlyArray<Item>
): Parsed<Pick<Request, "history" | "prompt" | "results" | "system">> => {
  const system = items.flatMap((item) => (item.role === "system" && item.text !== "" ? [item.text] : []))
  const said = items.filter(({ role }) => role !== "system")
  const start = said.findLastIndex(({ role }) => role === "assistant" || role === "call") + 1
  const last = said.slice(start)
  const results = new Map(last.flatMap((item) => (item.role === "result" ? [[item.id, toResult(item)]] : [])))
  const parts = last.flatMap((item) => (item.role === "user" ? item.parts : []))
  if (parts.length === 0 && results.size === 0)
    return refuseRequest("The last message is neither the user's nor a result of a tool.")
  return Effect.succeed({
    system: system.length === 0 ? undefined : system.join("\n\n"),
    // Results that a message follows belong to the history, unless their calls wait.
    history: toHistory(
      parts.length === 0
        ? said.slice(0, start)
        : [...said.slice(0, start), ...last.filter(({ role }) => role === "result")]
    ),
    prompt: parts.length === 0 ? undefined : toPrompt(parts),
    results
  })
}

/** Makes a tool of the caller. `at` is its place in the request. */
export const makeClientTool = (
  { description, name, parameters }: { readonly [Key in keyof ClientTool]: unknown },
  at: string
): Parsed<ClientTool> => {
  if (typeof name !== "string" || !/^[\w-]{1,64}$/u.test(name))
    return refuseRequest(`${at} has no name of letters, digits, _ and -, 64 at most.`)
  return Effect.succeed({
    name,
    description: Json.readString(description) ?? "",
    // The value was parsed from JSON.
    parameters: (Json.isFields(parameters)
      ? parameters
      : { type: "object", properties: {} }) as ClientTool["parameters"]
  })
}

/** Refuses two tools with one name. */
export const requireDistinct = (tools: ReadonlyArray<ClientTool>): Parsed<ReadonlyArray<ClientTool>> => {
  const twice = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index)
  return twice === undefined
    ? Effect.succeed(tools)
    : refuseRequest(`tools has "${twice.name}" twice. Give each a name of its own.`)
}
