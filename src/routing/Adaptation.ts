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
import * as Images from "./Images.ts"

/** What is changed; the words follow "send it". */
export type Change =
  | "without_images"
  | "with_smaller_images"
  | "without_reasoning"
  | "without_patterns"
  | "without_stream"

const mapMessages = (call: ModelCall, change: (message: Prompt.Message) => Prompt.Message): ModelCall => ({
  ...call,
  messages: call.messages.map(change)
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
  without_images: (call) => mapMessages(call, Images.without),
  with_smaller_images: (call) => mapMessages(call, Images.smaller),
  without_reasoning: withoutReasoning,
  without_patterns: withoutPatterns,
  without_stream: (call) => ({ ...call, stream: false })
}

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
