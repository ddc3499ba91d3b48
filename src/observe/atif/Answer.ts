/**
 * Readers for the answer of a model in any protocol: text, reasoning, calls and usage.
 *
 * Source: `relay-atof-atif.md` §2.7 and §2.9.
 */
import type * as Schema from "effect/Schema"
import type * as Atif from "../Atif.ts"
import { toPlainText, readWholeContent } from "./Message.ts"
import { toArguments, type Fields, toFields, toItems, toFiniteNumber, toNonEmptyText } from "./Value.ts"

/** A tool call as the model made it. The id is absent if the provider does not send ids. */
export interface Call {
  readonly id: string | undefined
  readonly name: string
  readonly args: { readonly [key: string]: Schema.Json }
}

/** A model's answer, independent of the protocol. */
export interface Answer {
  readonly message: Atif.Content
  readonly reasoning: string | undefined
  readonly calls: ReadonlyArray<Call>
  readonly metrics: Atif.Metrics | undefined
  readonly model: string | undefined
  readonly finishReason: string | undefined
}

const readCall = (value: unknown): Call => {
  const one = toFields(value)
  const named = { ...one, ...toFields(one["function"]) }
  return {
    id: toNonEmptyText(one["id"]) ?? toNonEmptyText(one["call_id"]) ?? toNonEmptyText(one["tool_call_id"]),
    name: toNonEmptyText(named["name"]) ?? "",
    args: toArguments(named["arguments"] ?? named["input"] ?? named["args"])
  }
}

const isOfType =
  (...types: ReadonlyArray<string>) =>
  (value: unknown): boolean =>
    types.includes(toNonEmptyText(toFields(value)["type"]) ?? "")

const isCall = isOfType("tool_use", "function_call")
const isThought = (value: unknown): boolean =>
  isOfType("thinking", "reasoning")(value) || toFields(value)["thought"] === true

/**
 * Reads the calls of a Gemini answer. A call without an id gets one from its name and the index of its part, as in the
 * reference converter.
 */
const readGeminiCalls = (blocks: ReadonlyArray<unknown>): ReadonlyArray<Call> =>
  blocks.flatMap((block, index) => {
    const part = toFields(block)
    const one = toFields(part["functionCall"] ?? part["function_call"])
    const name = toNonEmptyText(one["name"])
    if (name === undefined) return []
    const id = toNonEmptyText(part["tool_call_id"]) ?? toNonEmptyText(one["id"]) ?? `${name}__${index}`
    return [{ ...readCall(one), id }]
  })

const readThought = (value: unknown): string => {
  const one = toFields(value)
  return (
    toNonEmptyText(one["thinking"]) ??
    toNonEmptyText(one["text"]) ??
    toItems(one["summary"])
      .map((part) => toNonEmptyText(toFields(part)["text"]) ?? "")
      .join("\n")
  )
}

/** Returns the message inside an answer, merged with the fields next to it. */
const unwrapAnswer = (data: Fields): Fields => {
  const choice = toFields(toItems(data["choices"])[0])
  if (data["choices"] !== undefined) return { ...toFields(choice["message"]), finish_reason: choice["finish_reason"] }
  const candidate = toFields(toItems(data["candidates"])[0])
  if (data["candidates"] !== undefined) {
    return {
      content: toFields(candidate["content"])["parts"] ?? "",
      finish_reason: toNonEmptyText(candidate["finishReason"] ?? candidate["finish_reason"])?.toLowerCase() ?? null
    }
  }
  const assistant = toFields(data["assistant_message"])
  return Array.isArray(data["output"])
    ? {
        ...data,
        content: toItems(data["output"]).flatMap((one) =>
          isOfType("message")(one) ? toItems(toFields(one)["content"]) : [one]
        )
      }
    : { ...assistant, ...data }
}

/** Reads an answer from the `data` of a model call's end event. */
export const readAnswer = (value: unknown): Answer => {
  const data = typeof value === "string" ? { content: value } : toFields(value)
  const said = unwrapAnswer(data)
  const blocks = toItems(said["content"])
  const calls = [
    ...[...toItems(said["tool_calls"]), ...blocks.filter(isCall)].map(readCall),
    ...readGeminiCalls(blocks)
  ]
  const thoughts = blocks.filter(isThought).map(readThought).join("\n")
  return {
    message: readWholeContent(said["content"] ?? data["output_text"]) ?? "",
    reasoning:
      toNonEmptyText(said["reasoning_content"]) ?? toNonEmptyText(said["reasoning"]) ?? toNonEmptyText(thoughts),
    calls,
    metrics: readMetrics(
      data["usage"] ?? data["token_usage"] ?? readGeminiUsage(data["usageMetadata"] ?? data["usage_metadata"])
    ),
    model: toNonEmptyText(data["model"]) ?? toNonEmptyText(data["modelVersion"]),
    finishReason: toNonEmptyText(said["finish_reason"]) ?? toNonEmptyText(data["stop_reason"])
  }
}

const known = new Set([
  "prompt_tokens",
  "completion_tokens",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "cache_creation_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "reasoning_tokens",
  "total_tokens",
  "request_count",
  "cost",
  "cost_usd",
  "total_cost",
  "prompt_tokens_details",
  "completion_tokens_details",
  "input_tokens_details",
  "output_tokens_details"
])

/** Returns the usage of a Gemini answer under common names. Thought tokens are not included in its candidate tokens. */
const readGeminiUsage = (value: unknown): Fields | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  const {
    cachedContentTokenCount: cached,
    candidatesTokenCount: said,
    promptTokenCount: prompt,
    thoughtsTokenCount: thought
  } = toFields(value)
  return {
    prompt_tokens: prompt,
    completion_tokens: (toFiniteNumber(said) ?? 0) + (toFiniteNumber(thought) ?? 0),
    cached_tokens: cached,
    reasoning_tokens: thought
  }
}

const readCount = (value: unknown): number | undefined => {
  const read = toFiniteNumber(value)
  return read === undefined || read < 0 ? undefined : Math.floor(read)
}

/**
 * Returns the token counts of a call from the usage of any provider. `prompt_tokens` of the result includes tokens read
 * from a cache.
 */
export const readMetrics = (usage: unknown): Atif.Metrics | undefined => {
  if (typeof usage !== "object" || usage === null) return undefined
  const one = toFields(usage)
  const apart = readCount(one["cache_read_input_tokens"])
  const written = readCount(one["cache_creation_input_tokens"])
  const cached =
    readCount(one["cache_read_tokens"]) ??
    apart ??
    readCount(one["cached_tokens"]) ??
    readCount(toFields(one["prompt_tokens_details"])["cached_tokens"]) ??
    readCount(toFields(one["input_tokens_details"])["cached_tokens"])
  const input = readCount(one["input_tokens"])
  const prompt =
    readCount(one["prompt_tokens"]) ?? (input === undefined ? undefined : input + (apart ?? 0) + (written ?? 0))
  const cost = toFiniteNumber(one["cost_usd"]) ?? toFiniteNumber(one["cost"]) ?? toFiniteNumber(one["total_cost"])
  const reasoning =
    readCount(one["reasoning_tokens"]) ??
    readCount(toFields(one["completion_tokens_details"])["reasoning_tokens"]) ??
    readCount(toFields(one["output_tokens_details"])["reasoning_tokens"])
  const creation = written ?? readCount(one["cache_write_tokens"])
  const extra: Record<string, Schema.Json> = {}
  if (reasoning) extra["reasoning_tokens"] = reasoning
  if (creation) extra["cache_creation_input_tokens"] = creation
  for (const [key, value] of Object.entries(one)) if (!known.has(key) && value !== undefined) extra[key] = value
  const completion = readCount(one["completion_tokens"]) ?? readCount(one["output_tokens"])
  return {
    ...(prompt === undefined ? {} : { prompt_tokens: prompt }),
    ...(completion === undefined ? {} : { completion_tokens: completion }),
    ...(cached ? { cached_tokens: cached } : {}),
    ...(cost === undefined ? {} : { cost_usd: cost }),
    ...(Object.keys(extra).length === 0 ? {} : { extra })
  }
}

/** Returns the text of an answer. */
export const getAnswerText = ({ message }: Answer): string => toPlainText(message)
