/**
 * Contents of the run record in the forms that exported documents have: messages, answers, arguments and usage as JSON, whole.
 *
 * Source: `relay-atof-atif.md` §2.3 and §2.9.
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import type { AnswerPart } from "../../domain/RecordEvent.ts"
import * as Usage from "../../domain/Usage.ts"
import { copyOf } from "../../hooks/Sanitizer.ts"
import type * as Atif from "../Atif.ts"
import type { Attempt } from "../RunTree.ts"
import * as MessageText from "./Message.ts"

/** A JSON form of a value of the record, which is JSON but for what middleware may have put into it. */
export const json = (value: unknown): Schema.Json => {
  try {
    const text: string | undefined = JSON.stringify(value)
    // Text that was written as JSON is read as JSON.
    return text === undefined ? null : JSON.parse(text) as Schema.Json
  } catch {
    // A cycle, a bigint, thousands of levels: named for what they are.
    return copyOf(value)
  }
}

/** Text of a tool's output: as it is, or as JSON. */
export const textOf = (value: unknown): string => typeof value === "string" ? value : value === undefined || value === null ? "" : Json.toText(value)

/** Content of a message, whole. Files are images where they have an address, else named by their type. */
export const contentOf = (content: Prompt.Message["content"]): Atif.Content =>
  typeof content === "string" ? content : MessageText.whole(json(content.map((part) =>
    part.type === "file" && !(part.data instanceof URL) ? { ...part, data: undefined } : part))) ?? ""

/** Text, reasoning and calls of an answer. */
export interface Answer {
  readonly text: Atif.Content
  readonly reasoning: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly params: unknown }>
}

/** The answer that a stored message of the model is. */
export const answerOfMessage = (message: Prompt.AssistantMessage): Answer => ({
  text: message.content.some(({ type }) => type === "file")
    ? contentOf(message.content.filter(({ type }) => type === "text" || type === "file"))
    : message.content.map((part) => part.type === "text" ? part.text : "").join(""),
  reasoning: message.content.flatMap((part) => part.type === "reasoning" ? [part.text] : []).join("\n"),
  calls: message.content.flatMap((part) => part.type === "tool-call" ? [part] : [])
})

/** Calls of an answer under the ids that they are stored under: those without one, and a second call with the same one, get another. */
const callsOf = (parts: ReadonlyArray<AnswerPart>, step: number): Answer["calls"] => {
  const taken = new Set<string>()
  const made = new Set<string>()
  return parts.flatMap((part, index) => {
    if (part.type !== "tool-call") return []
    const { name, params } = part
    const given = part.id === "" ? `call_${step}_${index}` : part.id
    const content = `${name}\n${Json.toText(params)}`
    // A call that is made twice in one answer is stored once.
    if (made.has(content)) return [{ id: given, name, params }]
    made.add(content)
    let id = given
    for (let n = 2; taken.has(id); n++) id = `${given}_${n}`
    taken.add(id)
    return [{ id, name, params }]
  })
}

/** The answer that an attempt got. */
export const answerOfParts = (parts: ReadonlyArray<AnswerPart>, step: number): Answer => ({
  text: parts.flatMap((part) => part.type === "text" ? [part.text] : part.type === "file" ? [`[${part.mediaType}]`] : []).join(""),
  reasoning: parts.flatMap((part) => part.type === "reasoning" ? [part.text] : []).join("\n"),
  calls: callsOf(parts, step)
})

/** Usage and cost of an attempt, where it was told. */
export const metricsOf = ({ end }: Attempt): Atif.Metrics | undefined => {
  if (end?.usage === undefined) return undefined
  const { cost, usage } = end
  const extra = {
    ...(usage.reasoningTokens === 0 ? {} : { reasoning_tokens: usage.reasoningTokens }),
    ...(usage.cacheWriteTokens === 0 ? {} : { cache_creation_input_tokens: usage.cacheWriteTokens })
  }
  return {
    prompt_tokens: Usage.promptTokens(usage),
    completion_tokens: usage.outputTokens,
    ...(usage.cacheReadTokens === 0 ? {} : { cached_tokens: usage.cacheReadTokens }),
    ...(cost === undefined || cost.status === "unknown" || cost.usd === null ? {} : { cost_usd: cost.usd }),
    ...(Object.keys(extra).length === 0 ? {} : { extra })
  }
}

/** The result of a call as the model gets it; that of a call which a tool made as the tool got it. */
export const resultOf = ({ end, result }: { readonly end: { readonly output?: string } | undefined; readonly result: Prompt.ToolResultPart | undefined }) =>
  result === undefined ? end?.output : textOf(result.result)

/** Thinking effort that a request asks for. */
export const effortOf = ({ start: { parameters } }: Attempt): string | undefined => {
  const named = parameters["reasoning_effort"]
  const nested: unknown = parameters["reasoning"]
  const inside = typeof nested === "object" && nested !== null && "effort" in nested ? nested.effort : undefined
  return typeof named === "string" ? named : typeof inside === "string" ? inside : undefined
}

/** Contexts that memory and plugins put before a user's words, for one request. */
export const fences = /^(?:<(memory|plugin)-context>[\s\S]*?<\/\1-context>\n?)+/u
