/**
 * Other forms of a call, for endpoints that can not take it as it is. What an endpoint can not take is remembered with its
 * route, so it is found out once.
 *
 * Source: `hermes-llm.md` §15.5 and §16.5.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ToolDefinition } from "../domain/Model.ts"
import type { Service as Provider } from "../provider/Provider.ts"

/** What is changed; the words follow "send it". */
export type Change =
  | "without_images"
  | "without_large_images"
  | "without_reasoning"
  | "without_patterns"
  | "without_stream"

/** Bytes of an image that every known provider takes (`hermes-llm.md` §16.5). */
const largeImage = 4 * 1024 * 1024

const bytesOf = (data: Prompt.FilePart["data"]): number => {
  if (data instanceof URL) return 0
  if (typeof data !== "string") return data.byteLength
  return /^https?:/i.test(data) ? 0 : (data.length * 3) / 4
}

const isImage = (part: { readonly type: string }): part is Prompt.FilePart =>
  part.type === "file" && "mediaType" in part && typeof part.mediaType === "string" && part.mediaType.startsWith("image/")

const mapMessages = (call: ModelCall, change: (message: Prompt.Message) => Prompt.Message): ModelCall => ({
  ...call,
  messages: call.messages.map(change)
})

const noteOf = (part: Prompt.FilePart): Prompt.TextPart =>
  Prompt.textPart({ text: `[${part.fileName ?? "image"}: left out, this model can not take it]` })

/** Replaces images of the user by a note; what the model itself made is not sent at all. */
const withoutImages = (least: number) => (call: ModelCall): ModelCall =>
  mapMessages(call, (message) => {
    if (message.role !== "user" && message.role !== "assistant") return message
    const isMeant = (part: { readonly type: string }): part is Prompt.FilePart =>
      isImage(part) && bytesOf(part.data) >= least
    if (!message.content.some(isMeant)) return message
    return message.role === "user"
      ? Prompt.userMessage({
        content: message.content.map((part) => isMeant(part) ? noteOf(part) : part),
        options: message.options
      })
      : Prompt.assistantMessage({ content: message.content.filter((part) => !isMeant(part)), options: message.options })
  })

const withoutReasoning = (call: ModelCall): ModelCall =>
  mapMessages(call, (message) =>
    message.role === "assistant" && message.content.some((part) => part.type === "reasoning")
      ? Prompt.assistantMessage({
        content: message.content.filter((part) => part.type !== "reasoning"),
        options: message.options
      })
      : message)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A schema without `pattern` and `format`, which stay where they are names of properties. */
const plain = (schema: unknown, isProperties: boolean): unknown => {
  if (Array.isArray(schema)) return schema.map((item) => plain(item, false))
  if (!isRecord(schema)) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (!isProperties && (key === "pattern" || key === "format") && typeof value === "string") continue
    out[key] = plain(value, !isProperties && (key === "properties" || key === "$defs" || key === "definitions"))
  }
  return out
}

const plainTools = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<ToolDefinition>>()

const withoutPatterns = (call: ModelCall): ModelCall => {
  let tools = plainTools.get(call.tools)
  if (tools === undefined) {
    // What `plain` leaves of an object schema is an object schema.
    tools = call.tools.map((tool) => ({ ...tool, parameters: plain(tool.parameters, false) as ToolDefinition["parameters"] }))
    plainTools.set(call.tools, tools)
  }
  return { ...call, tools }
}

const changes: Readonly<Record<Change, (call: ModelCall) => ModelCall>> = {
  without_images: withoutImages(0),
  without_large_images: withoutImages(largeImage),
  without_reasoning: withoutReasoning,
  without_patterns: withoutPatterns,
  without_stream: (call) => ({ ...call, stream: false })
}

/** A provider whose calls say how much the model holds. */
export const within = (provider: Provider, contextWindow: number): Provider => ({
  ...provider,
  prepare: (call) => provider.prepare({ ...call, contextWindow })
})

/** How calls have to be changed for a route. */
export interface Adaptations {
  readonly changes: ReadonlySet<Change>
  /** The longest answer to ask for. */
  readonly outputCap: number | undefined
  /** Tokens that the model holds. */
  readonly contextWindow: number
}

/** A call as a route can take it. */
export const apply = (call: ModelCall, { changes: wanted, contextWindow, outputCap }: Adaptations): ModelCall => {
  let adapted: ModelCall = { ...call, contextWindow }
  for (const change of wanted) adapted = changes[change](adapted)
  return outputCap === undefined || (call.maxOutputTokens ?? Infinity) <= outputCap
    ? adapted
    : { ...adapted, maxOutputTokens: outputCap }
}
