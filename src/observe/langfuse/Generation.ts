/**
 * Langfuse attributes of a model call, computed without effects.
 *
 * **Details**
 *
 * The input is the full system prompt and the last messages of the request. Arguments of tool calls are complete; the
 * limits of `Values` apply to all other text.
 *
 * Source: `hermes-contract.md` §5 ("Trace model", "Usage").
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import { redactText } from "../../base/domain/Redaction.ts"
import type { AnswerPart } from "../../base/domain/RecordEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import * as Content from "../otel/Content.ts"
import { JoinedText, makeParts, type TextPart } from "../JoinedText.ts"
import type { Outcome, Value } from "../RunSpans.ts"
import type { Attempt, SentMessages, Tree } from "../RunTree.ts"
import * as Values from "./Values.ts"

/** A tool call requested by a model. */
export interface ToolCall {
  readonly [key: string]: Schema.Json
}

const parameters = [
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "reasoning_effort",
  "stream"
]

/** Maximum number of messages of a request that are shown. They are the last ones. */
const shown = 12

/** Returns a value as the string value of an attribute: a string unchanged, any other value as JSON. */
export const toAttributeText = (value: Schema.Json): string =>
  typeof value === "string" ? value : JSON.stringify(value)

/** Cached attribute names of metadata, by the name of the fact. There are only a few different names. */
const metadataNames = new Map<string, string>()

const getMetadataName = (name: string): string => {
  const known = metadataNames.get(name)
  if (known !== undefined) return known
  const made = `langfuse.observation.metadata.${name}`
  metadataNames.set(name, made)
  return made
}

/** Attributes of an observation under construction. */
export type ObservationAttributes = Record<string, Value>

/** Adds the metadata of an observation, unless it is empty. */
export const addMetadata = (
  out: ObservationAttributes,
  facts: Readonly<Record<string, Schema.Json | undefined>>
): void => {
  const names = Object.keys(facts)
  for (let index = 0; index < names.length; index++) {
    const name = names[index] ?? ""
    const value = facts[name]
    if (value !== undefined && value !== null && value !== "") out[getMetadataName(name)] = toAttributeText(value)
  }
}

const toToolCall = (id: string, name: string, params: unknown): ToolCall => {
  const whole = Values.toWholeValue(params ?? {})
  const args = typeof whole === "string" ? Values.parseText(whole) : whole
  return { id, type: "function", name, arguments: args, function: { name, arguments: args } }
}

type AnyPart = Exclude<Prompt.Message["content"], string>[number]

const toBoundedContent = (parts: ReadonlyArray<AnyPart>, maxChars: number): Schema.Json => {
  const files = parts.flatMap((part) =>
    part.type === "file" ? [{ type: "file", media_type: part.mediaType, omitted: true }] : []
  )
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
  const said = Values.boundValue(Values.toWholeValue(text), maxChars)
  return files.length === 0 ? said : [{ type: "text", text: said }, ...files]
}

/**
 * Converts a message to the form of chat completions. Limits apply to all text except the system prompt and the
 * arguments of calls.
 */
export const serializeMessage = (message: Prompt.Message, maxChars: number): ReadonlyArray<Schema.Json> => {
  const { content, role } = message
  if (role === "system") return [{ role, content: Values.toWholeValue(content) }]
  if (typeof content === "string") return [{ role, content: Values.boundValue(Values.toWholeValue(content), maxChars) }]
  if (role === "tool") {
    return content.flatMap((part: AnyPart) => {
      if (part.type !== "tool-result") return []
      const result = Values.renderResult(part.name, Values.toWholeValue(part.result), maxChars)
      return [{ role, name: part.name, tool_call_id: part.id, content: result }]
    })
  }
  const reasoning = content.flatMap((part: AnyPart) => (part.type === "reasoning" ? [part.text] : [])).join("\n")
  const calls = content.flatMap((part: AnyPart) =>
    part.type === "tool-call" ? [toToolCall(part.id, part.name, part.params)] : []
  )
  return [
    {
      role,
      content: toBoundedContent(content, maxChars),
      ...(reasoning === "" ? {} : { reasoning_content: Values.boundValue(Values.toWholeValue(reasoning), maxChars) }),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    }
  ]
}

/** Cached JSON texts of messages, because requests repeat them. The limit is set by the exporter. */
const texts = new WeakMap<Prompt.Message, { readonly maxChars: number; readonly made: ReadonlyArray<TextPart> }>()

const getMessageTexts = (message: Prompt.Message, maxChars: number): ReadonlyArray<TextPart> => {
  const known = texts.get(message)
  if (known?.maxChars === maxChars) return known.made
  const made = serializeMessage(message, maxChars).map((form) => ({ text: JSON.stringify(form) }))
  texts.set(message, { maxChars, made })
  return made
}

/** Lists the system prompt and the last messages of a request, each as JSON text. */
const listInputTexts = (sent: SentMessages, maxChars: number): ReadonlyArray<TextPart> => {
  const last: Array<ReadonlyArray<TextPart>> = []
  sent.newest((message) => last.push(getMessageTexts(message, maxChars)) < shown)
  return [
    ...sent.system.flatMap((message) => getMessageTexts(message, maxChars)),
    ...last.reverse().flat().slice(-shown)
  ]
}

/** Returns the system prompt and the last messages of a request as a JSON list. */
export const renderInput = (sent: SentMessages, maxChars: number): JoinedText =>
  new JoinedText("[", makeParts(listInputTexts(sent, maxChars)), "]")

/**
 * Converts a message part to the form of the GenAI conventions. The part is not text, reasoning, a call or a result.
 */
const toOtherPart = ({ type, ...rest }: Content.Part, maxChars: number): Schema.Json =>
  /image|file|document|video|audio/u.test(String(type))
    ? { type: type ?? "file", omitted: true }
    : { type: type ?? "unknown", value: Values.boundValue(Values.toWholeValue(rest), maxChars) }

const toWireForm = ({ parts, role }: Content.Message, maxChars: number): ReadonlyArray<Schema.Json> => {
  const filterParts = (wanted: string) => parts.filter(({ type }) => type === wanted)
  const joinContent = (list: ReadonlyArray<Content.Part>): string =>
    list.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content))).join("\n")
  const results = filterParts("tool_call_response").map(({ id, response }): Schema.Json => ({
    role: "tool",
    tool_call_id: id ?? "",
    content: Values.renderResult("", Values.toWholeValue(response), maxChars)
  }))
  const [calls, reasoning, texts] = [filterParts("tool_call"), filterParts("reasoning"), filterParts("text")]
  const others = parts.filter(
    (part) => ![...calls, ...reasoning, ...texts, ...filterParts("tool_call_response")].includes(part)
  )
  if (parts.length > 0 && results.length === parts.length) return results
  const said = Values.boundValue(Values.toWholeValue(joinContent(texts)), maxChars)
  return [
    ...results,
    {
      role,
      content:
        others.length === 0
          ? said
          : [{ type: "text", text: said }, ...others.map((part) => toOtherPart(part, maxChars))],
      ...(reasoning.length === 0
        ? {}
        : { reasoning_content: Values.boundValue(Values.toWholeValue(joinContent(reasoning)), maxChars) }),
      ...(calls.length === 0
        ? {}
        : { tool_calls: calls.map(({ arguments: args, id, name }) => toToolCall(String(id), String(name), args)) })
    }
  ]
}

/**
 * Returns the system prompt and the last messages of a request that middleware rewrote. The request may be in the form
 * of any provider.
 */
export const toRewrittenInput = (rewritten: unknown, maxChars: number): ReadonlyArray<Schema.Json> => {
  const { messages, system } = Content.readRequest(rewritten)
  const said = messages
    .slice(-shown)
    .flatMap((message) => toWireForm(message, maxChars))
    .slice(-shown)
  return [
    ...system.map(({ content }): Schema.Json => ({ role: "system", content: Values.toWholeValue(content) })),
    ...said
  ]
}

/** Keys of usage and cost in Langfuse's price list, which differ by the family of the model. */
interface UsageKeys {
  readonly cacheRead: string
  readonly cacheWrite: string
  readonly reasoning: string
  /** True if the price list has a price for reasoning, so that `output` excludes it. */
  readonly isReasoningApart: boolean
}

const generalKeys: UsageKeys = {
  cacheRead: "cache_read_input_tokens",
  cacheWrite: "cache_creation_input_tokens",
  reasoning: "reasoning_tokens",
  isReasoningApart: false
}

/** Keys by the names of models. The price list has `cache_read_input_tokens` only for Anthropic's models. */
const familyKeys: ReadonlyArray<readonly [name: RegExp, keys: UsageKeys]> = [
  [/claude|anthropic/iu, generalKeys],
  [
    /(?:^|[/.])(?:gpt|chatgpt|codex|o\d)(?=$|[-\d])|gemini/iu,
    {
      cacheRead: "input_cached_tokens",
      cacheWrite: "input_cache_creation",
      reasoning: "output_reasoning_tokens",
      isReasoningApart: true
    }
  ]
]

const getUsageKeys = (model: string): UsageKeys => familyKeys.find(([name]) => name.test(model))?.[1] ?? generalKeys

/**
 * Returns the usage counters for Langfuse. Optional counters are present only if they are not zero. `model` determines
 * their keys.
 */
export const toUsageCounters = (used: Usage.Usage, model: string): Readonly<Record<string, number>> => {
  const keys = getUsageKeys(model)
  const apart = keys.isReasoningApart ? Math.min(used.reasoningTokens, used.outputTokens) : 0
  return {
    input: used.inputTokens,
    output: used.outputTokens - apart,
    ...(used.cacheReadTokens === 0 ? {} : { [keys.cacheRead]: used.cacheReadTokens }),
    ...(used.cacheWriteTokens === 0 ? {} : { [keys.cacheWrite]: used.cacheWriteTokens }),
    ...(used.reasoningTokens === 0 ? {} : { [keys.reasoning]: keys.isReasoningApart ? apart : used.reasoningTokens }),
    // Without `total`, Langfuse would add up all counters, although reasoning may be included in the output.
    total: Usage.countTotalTokens(used)
  }
}

/**
 * Returns the cost of a call in US dollars under the names of {@link toUsageCounters}, or `undefined` if the price is
 * unknown. The cost of reasoning is part of the output.
 */
export const toCostCounters = ({ end }: Attempt, model: string): Readonly<Record<string, number>> | undefined => {
  if (end?.cost === undefined || end.cost.status === "unknown" || end.cost.usd === null) return undefined
  const { cacheRead, cacheWrite, input, output } = end.costParts ?? {}
  const keys = getUsageKeys(model)
  return {
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
    ...(cacheRead === undefined ? {} : { [keys.cacheRead]: cacheRead }),
    ...(cacheWrite === undefined ? {} : { [keys.cacheWrite]: cacheWrite }),
    total: end.cost.usd
  }
}

/** Text, reasoning and tool calls of an answer in the form of Langfuse. */
interface AnswerForm {
  readonly content: Schema.Json
  readonly reasoning: Schema.Json | undefined
  readonly calls: ReadonlyArray<ToolCall>
}

/** Cached forms of answers. A model call and its run share the same answer. */
const answers = new WeakMap<ReadonlyArray<AnswerPart>, { readonly maxChars: number; readonly made: AnswerForm }>()

/** Returns the text, reasoning and tool calls of an answer. The result is cached. */
export const getAnswerForm = (parts: ReadonlyArray<AnswerPart>, maxChars: number): AnswerForm => {
  const known = answers.get(parts)
  if (known?.maxChars === maxChars) return known.made
  const made = makeAnswerForm(parts, maxChars)
  answers.set(parts, { maxChars, made })
  return made
}

const makeAnswerForm = (parts: ReadonlyArray<AnswerPart>, maxChars: number): AnswerForm => {
  const joinAnswerText = (type: "reasoning" | "text") =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join("")
  const reasoning = joinAnswerText("reasoning")
  return {
    content: Values.boundValue(Values.toWholeValue(joinAnswerText("text")), maxChars),
    reasoning: reasoning === "" ? undefined : Values.boundValue(Values.toWholeValue(reasoning), maxChars),
    calls: parts.flatMap((part) => (part.type === "tool-call" ? [toToolCall(part.id, part.name, part.params)] : []))
  }
}

const toSeconds = (millis: number): number => Math.round(millis) / 1000

const addAnswer = (out: ObservationAttributes, attempt: Attempt, maxChars: number): void => {
  const { end } = attempt
  if (end === undefined) return
  const { calls, content, reasoning } = getAnswerForm(end.answer, maxChars)
  const model = end.model ?? attempt.start.route.model
  const dollars = toCostCounters(attempt, model)
  if (end.answer.length > 0 || end.status === "answered") {
    out["langfuse.observation.output"] = JSON.stringify({
      content,
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    })
  }
  if (end.usage !== undefined)
    out["langfuse.observation.usage_details"] = JSON.stringify(toUsageCounters(end.usage, model))
  if (dollars !== undefined) out["langfuse.observation.cost_details"] = JSON.stringify(dollars)
  if (end.firstPartAt !== undefined) {
    out["langfuse.observation.completion_start_time"] = new Date(
      Math.max(end.firstPartAt, attempt.startedAt)
    ).toISOString()
  }
  addMetadata(out, {
    tool_call_count: calls.length,
    api_duration_s: attempt.endedAt === undefined ? undefined : toSeconds(attempt.endedAt - attempt.startedAt),
    finish_reason: end.finishReason === undefined ? undefined : ApiPayload.formatFinishReason(end.finishReason)
  })
}

/** Describes the reason for an outcome other than `Done`. */
export const describeOutcome = (outcome: Exclude<Outcome, { readonly _tag: "Done" }>): string =>
  outcome._tag === "Cut" ? "interrupted" : redactText(outcome.failure.message)

const addFailure = (out: ObservationAttributes, { end }: Attempt, outcome: Outcome): void => {
  if (outcome._tag === "Done") return
  out["langfuse.observation.level"] = outcome._tag === "Cut" ? "WARNING" : "ERROR"
  out["langfuse.observation.status_message"] = describeOutcome(outcome)
  if (outcome._tag === "Cut") return
  addMetadata(out, {
    error_type: end?.failure?.type,
    reason: end?.failure?.reason,
    status_code: end?.failure?.status,
    retryable: end?.failure?.retryable
  })
}

/** Returns the visible parameters of a call as JSON, or `undefined` if there are no visible parameters. */
const formatParameters = (given: Attempt["start"]["parameters"]): string | undefined => {
  let chosen: Record<string, unknown> | undefined
  for (const name of parameters) {
    const value = given[name]
    if (value === undefined || value === null) continue
    chosen ??= {}
    chosen[name] = value
  }
  return chosen === undefined ? undefined : JSON.stringify(chosen)
}

/** Adds the attributes of a model call that has ended. */
export const addGeneration = (
  out: ObservationAttributes,
  attempt: Attempt,
  outcome: Outcome,
  tree: Pick<Tree, "sent" | "tools">,
  maxChars: number
): void => {
  const {
    end,
    run,
    start: { attempt: number, parameters: given, rewritten, route, task }
  } = attempt
  const sent = tree.sent(attempt)
  const chosen = formatParameters(given)
  out["langfuse.observation.model.name"] = end?.model ?? route.model
  out["langfuse.observation.input"] =
    rewritten === undefined ? renderInput(sent, maxChars) : JSON.stringify(toRewrittenInput(rewritten, maxChars))
  if (chosen !== undefined) out["langfuse.observation.model.parameters"] = chosen
  addMetadata(out, {
    provider: route.provider,
    api_mode: route.apiMode,
    platform: task === undefined ? run.start?.platform : `auxiliary:${task}`,
    retry_count: number,
    message_count: sent.count,
    tool_count: tree.tools(attempt).length
  })
  addAnswer(out, attempt, maxChars)
  addFailure(out, attempt, outcome)
}
