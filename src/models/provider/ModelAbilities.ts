/**
 * Derives the capabilities of models from their ids: reasoning efforts of OpenAI models, thinking styles of Claude
 * models, output limits.
 *
 * **Details**
 *
 * - OpenAI: `minimal` exists on GPT-5 itself, `none` from GPT-5.1 on, `xhigh` from GPT-5.2 and on the largest Codex
 *   models. An effort that a model does not support is replaced by the nearest supported one.
 * - Claude: the reference lists generations one by one (4.6, 4.7). Here the version in the id is compared, so a model
 *   newer than this file gets the capabilities of the newest known generation. Models of other vendors on this protocol
 *   use a thinking budget, regardless of the number in their names.
 * - `minimal` thinks as little as `none` on Claude (`ARCHITECTURE.md` §7, D5). Without a requested effort, and for
 *   models that never think, the fields are omitted and the API's default applies.
 * - Output limits: the Messages API requires `max_tokens` in every request, so every model needs a limit. It is taken
 *   from the table entry with the longest name that the model id contains. `ARCHITECTURE.md` §7, D11 explains the limit
 *   of Sonnet 4.6.
 *
 * Source: `hermes-llm.md` §4.2, §14.2.
 */
import * as ClaudeVersion from "../../base/domain/ClaudeVersion.ts"
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"

// OpenAI efforts

/** Tests whether a model thinks before it answers. `model` is its name without the vendor prefix. */
export const isReasoningModel = (model: string): boolean =>
  /^(o\d|gpt-5|gpt-oss|codex)/.test(model) && !model.includes("-chat")

const parseGeneration = (model: string): number => Number(/^gpt-(\d+(?:\.\d+)?)/.exec(model)?.[1] ?? 0)

/** Returns the effort to send to a model, or `undefined` if the field must not be sent. */
export const toOpenAiEffort = (model: string, effort: ReasoningEffort): ReasoningEffort | undefined => {
  if (!isReasoningModel(model)) return undefined
  const age = parseGeneration(model)
  switch (effort) {
    case "none":
      return age > 5 ? "none" : undefined
    case "minimal":
      return age === 5 && !model.includes("codex") ? "minimal" : "low"
    case "xhigh":
      return age >= 5.2 || model.includes("codex-max") ? "xhigh" : "high"
    default:
      return effort
  }
}

// Claude

/**
 * Style in which a model's thinking is configured: `adaptive` takes an effort, `budget` a number of tokens, `never`
 * nothing.
 */
type ThinkingStyle = "adaptive" | "budget" | "never"

/** Capabilities of a model of the Messages API. */
export interface ClaudeAbilities {
  readonly thinking: ThinkingStyle
  /** True if the model supports the effort `xhigh`; otherwise `max` is sent instead. */
  readonly xhigh: boolean
  /** True if `temperature` is accepted. */
  readonly sampling: boolean
  /** True if the model's answer can be constrained by a JSON Schema. */
  readonly structured: boolean
}

/** Returns the capabilities of the model with this id. */
export const findClaudeAbilities = (model: string): ClaudeAbilities => {
  const generation = ClaudeVersion.parseVersion(model)
  if (generation === undefined) return { thinking: "budget", xhigh: false, sampling: true, structured: false }
  const thinking = /haiku/i.test(model) || generation < 307 ? "never" : generation >= 406 ? "adaptive" : "budget"
  return { thinking, xhigh: generation >= 407, sampling: generation < 407, structured: generation >= 405 }
}

// Output limits

/** Output limits in tokens, keyed by a part of the model id in which dots are replaced by hyphens. */
const outputLimits: Readonly<Record<string, number>> = {
  "opus-4-8": 128_000,
  "opus-4-7": 128_000,
  "opus-4-6": 128_000,
  "sonnet-4-6": 128_000,
  "opus-4-5": 64_000,
  "sonnet-4-5": 64_000,
  "haiku-4-5": 64_000,
  "opus-4": 32_000,
  "sonnet-4": 64_000,
  "3-7-sonnet": 128_000,
  "3-5-sonnet": 8_192,
  "3-5-haiku": 8_192,
  "3-opus": 4_096,
  "3-sonnet": 4_096,
  "3-haiku": 4_096,
  minimax: 131_072
}

/** Output limit, in tokens, of a model that is not in `outputLimits`. */
const unknownOutputLimit = 128_000

const names = Object.keys(outputLimits).sort((a, b) => b.length - a.length)

/** Returns the output limit of the model with this id, which may have a vendor prefix and use dots or hyphens. */
export const findOutputLimit = (model: string): number => {
  const id = model.toLowerCase().replaceAll(".", "-")
  const name = names.find((name) => id.includes(name))
  return name === undefined ? unknownOutputLimit : (outputLimits[name] ?? unknownOutputLimit)
}

/** Limits `tokens` to one less than the size of the context window, if that size is known. */
export const fitOutput = (tokens: number, contextWindow: number | undefined): number =>
  contextWindow === undefined || tokens < contextWindow ? tokens : Math.max(1, contextWindow - 1)

// Claude thinking

/** Thinking that is configured by an effort. */
interface Adaptive {
  readonly style: "adaptive"
  readonly effort: string
}
/** Thinking that is configured by a number of tokens. */
interface Budget {
  readonly style: "budget"
  readonly tokens: number
}
/** Thinking configuration of a request. `undefined` omits the fields, so the API's default applies. */
export type Thinking = Adaptive | Budget | undefined

type ActiveEffort = Exclude<ReasoningEffort, "none" | "minimal">

/** Thinking budgets in tokens by effort, for models with the style `budget`. */
const budgets: Readonly<Record<ActiveEffort, number>> = { xhigh: 32_000, high: 16_000, medium: 8_000, low: 4_000 }

/** Minimum number of tokens reserved for the answer in addition to the thinking budget. */
const answerTokens = 4_096

/** Returns the thinking configuration for the effort that the user requests. */
export const chooseThinking = (effort: ReasoningEffort | undefined, abilities: ClaudeAbilities): Thinking => {
  if (effort === undefined || effort === "none" || effort === "minimal") return undefined
  switch (abilities.thinking) {
    case "never":
      return undefined
    case "adaptive":
      return { style: "adaptive", effort: effort === "xhigh" && !abilities.xhigh ? "max" : effort }
    case "budget":
      return { style: "budget", tokens: budgets[effort] }
  }
}

/**
 * Returns `max_tokens` and the thinking configuration that fits into it. A thinking budget raises the cap to leave room
 * for the answer. If the context window has no room for both, thinking is disabled.
 */
export const fitThinking = (
  cap: number,
  contextWindow: number | undefined,
  thinking: Thinking
): { readonly maxTokens: number; readonly thinking: Thinking } => {
  const plain = fitOutput(cap, contextWindow)
  if (thinking?.style !== "budget") return { maxTokens: plain, thinking }
  const raised = fitOutput(Math.max(cap, thinking.tokens + answerTokens), contextWindow)
  return raised > thinking.tokens ? { maxTokens: raised, thinking } : { maxTokens: plain, thinking: undefined }
}
