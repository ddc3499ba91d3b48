/**
 * Reasoning on chat completions: how it is asked for, found in answers, and given back.
 *
 * **Details**
 *
 * A reasoning part carries what its text does not say in `metadata.chat_completions` (in a prompt
 * `options.chat_completions`): `reasoning_content` is `true` where the endpoint named the part's text so, or a string
 * where the text is another one; `reasoning_details` are the opaque blocks.
 *
 * Source: `hermes-llm.md` §14.2, §14.3, §14.5.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Schema from "effect/Schema"
import type { ReasoningEffort } from "../../domain/Model.ts"
import * as Effort from "../Effort.ts"
import * as Raw from "../Raw.ts"
import * as Details from "./Details.ts"
import type { Dialect, Replay } from "./Dialect.ts"

/** Fields of a request: those that the SDK knows, and those for `extra_body`. */
export interface Asked {
  readonly body?: Raw.Fields
  readonly extra?: Raw.Fields
}

const nothing: Asked = {}

/** Model ids at aggregators that take the `reasoning` object. */
const reasoningFamilies = [
  "deepseek/",
  "anthropic/",
  "openai/",
  "x-ai/",
  "google/gemini-2",
  "google/gemini-3",
  "qwen/qwen3"
]

const aggregated = (effort: ReasoningEffort | undefined): Raw.Fields =>
  effort === "none" ? { enabled: false } : { enabled: true, effort: effort ?? "medium" }

const copilotEffort = (effort: ReasoningEffort): string =>
  effort === "xhigh" || effort === "high" ? "high" : effort === "low" || effort === "minimal" ? "low" : "medium"

/** Thinking levels of Gemini 3: Pro has two of them, Flash three; older models have none. */
const geminiLevel = (model: string, effort: ReasoningEffort): string | undefined => {
  if (!model.startsWith("gemini-3")) return undefined
  if (effort === "low" || effort === "minimal") return "low"
  return effort === "medium" && model.includes("flash") ? "medium" : "high"
}

const gemini = (model: string, effort: ReasoningEffort | undefined): Raw.Fields => {
  const level = effort === undefined || effort === "none" ? undefined : geminiLevel(model, effort)
  return {
    extra_body: {
      google: {
        thinking_config: {
          include_thoughts: effort !== "none",
          ...(level === undefined ? {} : { thinking_level: level })
        }
      }
    }
  }
}

/** The fields that ask for a reasoning effort, or for none. */
export const ask = (effort: ReasoningEffort | undefined, dialect: Dialect): Asked => {
  switch (dialect.family) {
    case "nous":
      return effort === "none" ? nothing : { extra: { reasoning: aggregated(effort) } }
    case "openrouter":
    case "gateway":
      return reasoningFamilies.some((family) => dialect.fullModel.startsWith(family))
        ? { extra: { reasoning: aggregated(effort) } }
        : nothing
    case "copilot":
      return effort === undefined || effort === "none" || !Effort.reasons(dialect.model)
        ? nothing
        : { extra: { reasoning: { effort: copilotEffort(effort) } } }
    case "gemini":
      return /^gemini-(2\.5|[3-9])/.test(dialect.model) ? { extra: gemini(dialect.model, effort) } : nothing
    case "openai":
    case "azure": {
      const own = effort === undefined ? undefined : Effort.openAi(dialect.model, effort)
      return own === undefined ? nothing : { body: { reasoning_effort: own } }
    }
    case "deepseek":
    case "moonshot":
    case "zai":
      return effort === "none" ? { extra: { thinking: { type: "disabled" } } } : nothing
    case "alibaba":
      return effort === "none" ? { extra: { enable_thinking: false } } : nothing
    case "ollama":
    case "other":
      return effort === "none" ? { extra: { think: false } } : nothing
    default:
      return nothing
  }
}

/** Reasoning of an answer: what a user may read, and what must go back with it. */
export interface Found {
  readonly text: string
  readonly metadata: Response.ProviderMetadata
}

/** The metadata of a reasoning part; see the module. */
export const metadata = (
  text: string,
  content: string | undefined,
  details: Schema.Json | undefined
): Response.ProviderMetadata =>
  content === undefined && details === undefined
    ? {}
    : {
      chat_completions: {
        ...(content === undefined ? {} : { reasoning_content: content === text ? true : content }),
        ...(details === undefined ? {} : { reasoning_details: details })
      }
    }

/** The structured reasoning of an assistant message of a body; undefined when there is none. */
export const find = (message: Raw.Fields): Found | undefined => {
  const content = Raw.string(message["reasoning_content"])
  const blocks = Raw.items(message["reasoning_details"])
  const texts: Array<string> = []
  for (const text of [Raw.string(message["reasoning"]), content, ...blocks.map(Details.textOf)]) {
    if (text !== undefined && text !== "" && !texts.some((known) => known.includes(text))) texts.push(text)
  }
  const text = texts.join("\n\n")
  if (text === "" && content === undefined && blocks.length === 0) return undefined
  return { text, metadata: metadata(text, content, Details.toJson(blocks)) }
}

const own = (part: Prompt.ReasoningPart): Raw.Fields => Raw.fields(part.options["chat_completions"])

/** `reasoning_content` as the endpoint gave it; undefined when the reasoning came another way. */
const explicit = (parts: ReadonlyArray<Prompt.ReasoningPart>): string | undefined => {
  let found: string | undefined
  for (const part of parts) {
    const content = own(part)["reasoning_content"]
    const text = content === true ? part.text : Raw.string(content)
    if (text !== undefined) found = (found ?? "") + text
  }
  return found
}

const contentOf = (
  parts: ReadonlyArray<Prompt.ReasoningPart>,
  hasCalls: boolean,
  required: boolean
): string | undefined => {
  const content = explicit(parts)
  if (content !== undefined) return content === "" && required ? " " : content
  // What another provider thought before a call is no reasoning of this one.
  if (required && hasCalls) return " "
  const text = parts.map((part) => part.text).filter((text) => text !== "").join("\n\n")
  return text !== "" ? text : required ? " " : undefined
}

/** The fields of an assistant message that give its reasoning back. */
export const replay = (
  parts: ReadonlyArray<Prompt.ReasoningPart>,
  hasCalls: boolean,
  rule: Replay
): Raw.Fields => {
  if (rule.content !== "required" && parts.length === 0) return {}
  const details = rule.details ? parts.flatMap((part) => Raw.items(own(part)["reasoning_details"])) : []
  const required = rule.content === "required"
  const content = rule.content === "never" || (details.length > 0 && !required)
    ? undefined
    : contentOf(parts, hasCalls, required)
  return {
    ...(content === undefined ? {} : { reasoning_content: content.toWellFormed() }),
    ...(details.length === 0 ? {} : { reasoning_details: details })
  }
}
