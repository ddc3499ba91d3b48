/**
 * Abilities of models, read from their ids: reasoning efforts of OpenAI's models, thinking of Claude, output limits.
 *
 * **Details**
 *
 * - OpenAI: `minimal` exists on GPT-5 itself, `none` from GPT-5.1 on, `xhigh` from GPT-5.2 and on the largest Codex
 *   models. An effort that a model does not have becomes the nearest that it has.
 * - Claude: the reference names generations one by one (4.6, 4.7); here the version in the id is compared, so that a
 *   model that is younger than this file gets the abilities of the youngest generation that it knows. Models of other
 *   vendors on this protocol think by a budget, regardless of the number in their names.
 * - `minimal` thinks as little as `none` on Claude (the seed's rule, `ARCHITECTURE.md` §7, D5). No effort asked for,
 *   and models that never think, leave the fields out: the API's default holds.
 * - Output limits: the Messages API wants `max_tokens` in every request, so that every model needs a number; the table
 *   is data, and the longest name that a model id contains wins. Sonnet 4.6 after the seed (`ARCHITECTURE.md` §7, D11).
 *
 * Source: `hermes-llm.md` §4.2, §14.2.
 */
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"

// Efforts of OpenAI

/** Tests whether a model, named without vendor, thinks before it answers. */
export const isReasoningModel = (model: string): boolean =>
  /^(o\d|gpt-5|gpt-oss|codex)/.test(model) && !model.includes("-chat")

const parseGeneration = (model: string): number => Number(/^gpt-(\d+(?:\.\d+)?)/.exec(model)?.[1] ?? 0)

/** The effort for a model, undefined where the field must not be sent. */
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

/** Ways to ask a model to think: by an effort, by a number of tokens, or not at all. */
type ThinkingStyle = "adaptive" | "budget" | "never"

/** Abilities of a model of the Messages API. */
export interface ClaudeAbilities {
  readonly thinking: ThinkingStyle
  /** True if the effort `xhigh` exists; otherwise `max` is used for it. */
  readonly xhigh: boolean
  /** True if `temperature` is accepted. */
  readonly sampling: boolean
  /** True if the answer can be bound to a JSON Schema. */
  readonly structured: boolean
}

/** Major and minor version of a Claude model as one number, `4.6` as 406; undefined where the id names none. */
const parseVersion = (id: string): number | undefined => {
  const match = /(?<!\d)(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(id.slice(id.indexOf("claude") + 6))
  return match === null ? undefined : Number(match[1]) * 100 + Number(match[2] ?? 0)
}

/** The youngest generation: ids without a version (`claude-mythos-preview`) are new. */
const newest = 9_999

/** The abilities of a model by its id. */
export const findClaudeAbilities = (model: string): ClaudeAbilities => {
  const id = model.toLowerCase()
  if (!id.includes("claude")) return { thinking: "budget", xhigh: false, sampling: true, structured: false }
  const generation = parseVersion(id) ?? newest
  const thinking = id.includes("haiku") || generation < 307 ? "never" : generation >= 406 ? "adaptive" : "budget"
  return { thinking, xhigh: generation >= 407, sampling: generation < 407, structured: generation >= 405 }
}

// Output limits

/** Tokens by a part of the model id, dots written as hyphens. */
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

/** For a model that is not in the outputLimits. */
const unknownOutputLimit = 128_000

const names = Object.keys(outputLimits).sort((a, b) => b.length - a.length)

/** The limit of a model by its id, with or without vendor, with dots or hyphens. */
export const findOutputLimit = (model: string): number => {
  const id = model.toLowerCase().replaceAll(".", "-")
  const name = names.find((name) => id.includes(name))
  return name === undefined ? unknownOutputLimit : (outputLimits[name] ?? unknownOutputLimit)
}

/** `tokens`, or what a window of known size leaves: one token less than it holds. */
export const fitOutput = (tokens: number, contextWindow: number | undefined): number =>
  contextWindow === undefined || tokens < contextWindow ? tokens : Math.max(1, contextWindow - 1)

// Thinking of Claude

/** Thinking by effort. */
interface Adaptive {
  readonly style: "adaptive"
  readonly effort: string
}
/** Thinking by a number of tokens. */
interface Budget {
  readonly style: "budget"
  readonly tokens: number
}
/** Thinking in the fields of a request; undefined leaves thinking to the API. */
export type Thinking = Adaptive | Budget | undefined

type ActiveEffort = Exclude<ReasoningEffort, "none" | "minimal">

/** Tokens to think with, where a model counts them. */
const budgets: Readonly<Record<ActiveEffort, number>> = { xhigh: 32_000, high: 16_000, medium: 8_000, low: 4_000 }

/** Tokens that the answer itself gets at least, above the budget. */
const answerTokens = 4_096

/** The thinking of a request, from the effort that a user asks for. */
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
 * `max_tokens` and the thinking that fits into it. A budget raises the cap so that an answer fits above it; where the
 * window leaves no room for both, there is no thinking.
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
