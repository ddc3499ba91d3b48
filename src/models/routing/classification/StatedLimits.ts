/**
 * Reads the limits and sizes that a refusal states: the context window, the longest input, the longest answer, and the
 * parts of the refused request. Several numbers in one message are told apart by the words around them.
 *
 * **Details**
 *
 * | number | example |
 * | --- | --- |
 * | window | `maximum context length is 131072 tokens` |
 * | longest input | `Range of input length should be [1, 129024]` |
 * | longest answer | `This model supports at most 16384 completion tokens` |
 * | parts of the request | `(80733 of text input, 5600 of tool input, 128000 in the output)` |
 * | room for an answer | `available_tokens: 10000` |
 *
 * The longest answer is a lasting fact about the route. The room for an answer depends on the size of the input, so it
 * applies to one call.
 *
 * Source: `hermes-llm.md` §11.2.
 */
import * as ModelLists from "../catalogue/ModelLists.ts"
import type { CallSituation } from "./Evidence.ts"

const parseCount = (text: string | undefined): number => Number((text ?? "").replaceAll(/[,_]/g, ""))

const findFirst = (patterns: ReadonlyArray<RegExp>, text: string): number | undefined => {
  for (const pattern of patterns) {
    const found = parseCount(pattern.exec(text)?.[1])
    if (found > 0) return found
  }
  return undefined
}

/** Compiles a pattern in which `#` is a number and `@` a name of the output limit. */
const compilePattern = (pattern: string, least = 0): RegExp =>
  new RegExp(
    pattern
      .replaceAll("#", `(\\d[\\d,_]{${least},})`)
      .replaceAll("@", "(?:max_?(?:completion_?|output_?|new_?)?tokens|max (?:output )?tokens)['\"`]?")
  )

/** Names of the output limit in messages. */
const outputNames = compilePattern("@")

const outputMaxima: ReadonlyArray<RegExp> = [
  "@: [\\d,]+ > #, which is the maximum",
  "supports at most # (?:completion|output) tokens",
  "range of @ (?:is|should be|must be) \\[\\d+, ?#\\]",
  "@[^.\\d]{0,30}\\[\\d+, ?#\\]",
  "(?<!\\+ ['\"`]?)@ (?:value )?(?:must|should|has to|needs to) be " +
    "(?:less than or equal to|at most|no more than|<=) ['\"`]?#",
  "(?<!\\+ ['\"`]?)@ (?:value )?(?:can ?not|must not|should not) (?:exceed|be (?:greater|larger|more) than) ['\"`]?#",
  "@: integer above maximum value\\. expected a value <= #",
  "exceeds? the (?:model'?s? )?(?:limit|maximum) of #(?: output| completion)? tokens.*max",
  "maximum tokens you requested exceeds the model limit of #"
].map((pattern) => compilePattern(pattern))

/** Wording of Gemini, whose upper bound is not part of the range. */
const exclusiveMaximum = compilePattern(
  "@ value of [\\d,]+ but the supported range is from \\d+ \\(inclusive\\) to # \\(exclusive"
)

const rooms: ReadonlyArray<RegExp> = [/available[_ ]tokens['"`]?\s*[:=]\s*([\d,]+)/, /(?<![<>])=\s*([\d,]+)\D*$/]

const inputMaxima: ReadonlyArray<RegExp> = [compilePattern("input length should be \\[\\d+, ?#\\]", 3)]

const windows: ReadonlyArray<RegExp> = [
  "maximum (?:context|prompt|model|input|sequence)(?: token)? length (?:is|of|for this model is)?:? ?(?:only )?\\(?#",
  "# maximum context length",
  "maximum number of (?:input )?tokens(?: allowed)? ?(?:is|of)? ?\\(?#",
  "context length of only #",
  "context limit: [\\d,]+ \\+ [\\d,]+ > #",
  "context_window: #",
  "cannot be greater than (?:\\w+=)+#",
  "> ?# ?(?:maximum|max|limit|tokens?|\\b)",
  "exceed(?:s|ed)?(?: the| model)*(?: available)? " +
    "(?:token limit|limit|maximum|max|context window|context size|context limit)(?: of|:)? ?\\(?#",
  "must be <= ?#",
  "(?:less|fewer|no more) than #",
  "cannot exceed #",
  "n_ctx['\"]?[ :=]+#"
].map((pattern) => compilePattern(pattern, 3))

const vagueWindows: ReadonlyArray<RegExp> = [
  "(?:max(?:imum)?|limit)[^.\\d]{0,40}(?:context|length|size|window)[^.\\d]{0,24}#",
  "context (?:length|size|window|limit)[^.\\d]{0,24}#",
  "上下文长度[^\\d]{0,12}#",
  "最大长度[^\\d]{0,12}#",
  "# tokens? (?:context|limit)",
  "# maximum"
].map((pattern) => compilePattern(pattern, 3))

const inputs: ReadonlyArray<RegExp> = [
  "context limit: # \\+ [\\d,]+ > [\\d,]+",
  "(?:has|contains)(?: at least)? # input tokens",
  "input_tokens: #",
  "messages resulted in # tokens",
  "prompt is too long: # tokens",
  "input token count \\(#\\)",
  "given: # ['\"`]?inputs",
  "prompt contains # tokens",
  "request \\(# tokens\\) exceeds"
].map((pattern) => compilePattern(pattern))

const outputs: ReadonlyArray<RegExp> = [
  "context limit: [\\d,]+ \\+ # > [\\d,]+",
  "requested # output tokens",
  "inputs['\"`]? tokens and # ['\"`]?@",
  "@ ?[:=] ?#",
  "@(?: or '@)? is too large: #"
].map((pattern) => compilePattern(pattern))

/** Parts of a request in parentheses: `(8000 in the messages, 1000 in the completion)`. */
const part = /([\d,]*\d) (?:of|in)(?: the| your)? ([a-z]+)/g

interface RequestParts {
  readonly input: number | undefined
  readonly output: number | undefined
}

const readParts = (text: string): RequestParts => {
  let input: number | undefined
  let output: number | undefined
  for (const [, inner] of text.matchAll(/\(([^()]*\d (?:of|in) [^()]*)\)/g)) {
    for (const [, count, name] of (inner ?? "").matchAll(part)) {
      if (name === "output" || name === "completion") output = parseCount(count)
      else input = (input ?? 0) + parseCount(count)
    }
  }
  return { input: input ?? findFirst(inputs, text), output: output ?? findFirst(outputs, text) }
}

/** Wording of MiniMax. The number that follows is an error code, not a limit. */
const excess = /context window exceeds limit|exceeds? (?:the )?(?:context|limit) by [\d,]+/

/** Limits and sizes in tokens that a refusal states; `undefined` if it does not state them. */
export interface StatedLimits extends RequestParts {
  /** Input and answer together. */
  readonly window: number | undefined
  /** True if the words around the window's number are not specific. */
  readonly isVague: boolean
  readonly inputMaximum: number | undefined
  readonly outputMaximum: number | undefined
  /** Room that the input leaves for an answer. */
  readonly room: number | undefined
  /** True if the stated input is only a lower bound. */
  readonly isLeast: boolean
  /** True if the refusal states only the excess. */
  readonly isExcess: boolean
}

const findWindow = (patterns: ReadonlyArray<RegExp>, text: string): number | undefined => {
  for (const pattern of patterns) {
    const found = pattern.exec(text)?.[1]
    const tokens = found === undefined ? undefined : ModelLists.parseWindow(parseCount(found))
    if (tokens !== undefined) return tokens
  }
  return undefined
}

/** Number of characters that are read at each end of a message. Some patterns take the square of its length. */
const longest = 4_000

const boundText = (text: string): string =>
  text.length <= 2 * longest ? text : `${text.slice(0, longest)}\n${text.slice(-longest)}`

/** Reads the limits from a message in lower case: from its beginning and its end if it is long. */
export const readLimits = (message: string): StatedLimits => {
  const text = boundText(message)
  const exclusive = findFirst([exclusiveMaximum], text)
  const outputMaximum = exclusive === undefined ? findFirst(outputMaxima, text) : exclusive - 1
  const inputMaximum = findFirst(inputMaxima, text)
  const isExcess = excess.test(text)
  const isWindowStated = !isExcess && inputMaximum === undefined
  const window = isWindowStated ? findWindow(windows, text) : undefined
  return {
    ...readParts(text),
    window: window ?? (isWindowStated ? findWindow(vagueWindows, text) : undefined),
    isVague: window === undefined,
    inputMaximum,
    outputMaximum,
    room: outputNames.test(text) ? findFirst(rooms, text) : undefined,
    isLeast: /at least [\d,]+ input tokens/.test(text),
    isExcess
  }
}

/** Safety margin below a limit, in tokens, because the provider's tokenizer counts differently. */
const margin = 64
/** Minimum room for an answer, in tokens. With less room, the conversation has to be compacted. */
const leastRoom = 256

/** A smaller output limit that a refusal asks for. */
export interface OutputCap {
  readonly tokens: number
  /** True for the longest answer of the model, which is the same for every call of the route. */
  readonly isMaximum: boolean
}

/**
 * Computes the room that the input leaves for an answer. If the provider counted only a part of the input, half of the
 * computed room is used, because the rest of the input is unknown.
 */
const computeRoom = (limits: StatedLimits, facts: CallSituation): number | undefined => {
  const window = limits.window ?? (limits.input === undefined ? undefined : facts.window)
  const output = limits.output ?? facts.output
  if (window === undefined || output === undefined) return undefined
  const input = limits.isLeast ? Math.max(limits.input ?? 0, facts.tokens ?? 0) : (limits.input ?? facts.tokens)
  if (input === undefined || input + output <= window) return undefined
  return limits.isLeast ? Math.floor((window - input) / 2) : window - input
}

/**
 * Finds the output limit that should be requested instead, in an error message in lower case. Returns `undefined` if
 * the message is not about the output limit, or if the input leaves no room for an answer.
 */
export const findOutputCap = (text: string, facts: CallSituation = {}): OutputCap | undefined => {
  const limits = readLimits(text)
  if (limits.outputMaximum !== undefined) return { tokens: limits.outputMaximum, isMaximum: true }
  if (limits.inputMaximum !== undefined || limits.isExcess) return undefined
  const room = computeRoom(limits, facts)
  if (room !== undefined) return room >= leastRoom ? { tokens: room - margin, isMaximum: false } : undefined
  return limits.room === undefined ? undefined : { tokens: Math.max(1, limits.room - margin), isMaximum: false }
}

/**
 * Tests whether a call is too small to fill the window in any language, so that a refusal because of a length is not
 * about the conversation. The estimate counts four characters as a token; some scripts have more tokens than
 * characters.
 */
export const isShort = ({ tokens, window }: CallSituation): boolean =>
  tokens !== undefined && window !== undefined && tokens * 5 < window

/**
 * Tests whether a refusal because of a length is not about the conversation: the conversation is short, and the message
 * states no limit of a window.
 */
export const isNotAboutInput = (text: string, facts: CallSituation): boolean => {
  if (!isShort(facts)) return false
  const { inputMaximum, isExcess, window } = readLimits(text)
  return window === undefined && inputMaximum === undefined && !isExcess
}
