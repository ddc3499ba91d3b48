/** Estimates the number of tokens that a call uses in a context window. */
import { memoize } from "effect/Function"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import type { ModelCall } from "../../base/domain/ModelCall.ts"
import type { CallSituation } from "./classification/Evidence.ts"

/** Depth below which a value is not counted, because it may contain itself. */
const mostDepth = 32

/** Counts the characters of a value's JSON text, without its escapes. */
const countJson = (value: unknown, depth = 0): number => {
  if (typeof value === "string") return value.length + 2
  if (typeof value !== "object" || value === null) return String(value).length
  if (depth >= mostDepth) return 0
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countJson(item, depth + 1) + 1, 1)
  let sum = 1
  for (const name in value)
    if (Object.hasOwn(value, name)) sum += name.length + countJson(Reflect.get(value, name), depth + 1) + 4
  return sum
}

const countValue = (value: unknown): number => (typeof value === "string" ? value.length : countJson(value))

const charactersPerToken = 4

const countPartCharacters = (part: Exclude<Prompt.Message["content"], string>[number]): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text.length
    case "tool-call":
      return part.name.length + countValue(part.params)
    case "tool-result":
      return countValue(part.result)
    default:
      return 0
  }
}

const countCharacters = ({ content }: Prompt.Message): number =>
  typeof content === "string" ? content.length : content.reduce((sum, part) => sum + countPartCharacters(part), 0)

const countMessageFiles = ({ content }: Prompt.Message): number =>
  typeof content === "string"
    ? 0
    : content.reduce((sum, part) => {
        if (part.type === "file") return sum + 1
        return part.type === "tool-result"
          ? sum + (part.modelOutput ?? []).filter(({ type }) => type === "file").length
          : sum
      }, 0)

const sizes = GrowingList.fold<Prompt.Message, { characters: number; files: number }>({
  begin: () => ({ characters: 0, files: 0 }),
  add: (state, message) => {
    state.characters += countCharacters(message)
    state.files += countMessageFiles(message)
  },
  copy: (state) => ({ ...state })
})

/** Estimates the number of tokens in the messages, without their files. */
export const estimateTokens = ({ messages }: Pick<ModelCall, "messages">): number =>
  Math.ceil(sizes(messages).characters / charactersPerToken)

/** Counts the files in the messages, such as images. Their tokens are not part of an estimate. */
export const countFiles = ({ messages }: Pick<ModelCall, "messages">): number => sizes(messages).files

/** Estimates the number of tokens in the definitions of tools. */
export const estimateTools: (tools: ModelCall["tools"]) => number = memoize((tools) =>
  tools.length === 0 ? 0 : Math.ceil(countJson(tools) / charactersPerToken)
)

/** Estimates the number of tokens in the messages and tools of a call. */
export const estimateRequest = (call: Pick<ModelCall, "messages" | "tools">): number =>
  estimateTokens(call) + estimateTools(call.tools)

/** Limits a ratio of counted to estimated tokens to the range of known tokenizers and scripts. */
export const toPlausibleRatio = (ratio: number): number => Math.min(6, Math.max(0.5, ratio))

/**
 * Describes a failed call for its classification. `window` is the size of the model's context window, and `output` the
 * output limit of the request, in tokens.
 */
export const describeSituation = (
  call: (Pick<ModelCall, "messages"> & Partial<Pick<ModelCall, "tools">>) | undefined,
  window: number,
  output?: number
): CallSituation =>
  call === undefined
    ? { window }
    : {
        tokens: call.tools === undefined ? estimateTokens(call) : estimateRequest({ ...call, tools: call.tools }),
        window,
        messages: call.messages.length,
        ...(output === undefined ? {} : { output })
      }
