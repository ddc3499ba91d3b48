/** Estimates the number of tokens that a call uses in a context window. */
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ModelCall } from "../../base/domain/ModelCall.ts"
import type { CallSituation } from "./classification/Evidence.ts"

const charactersPerToken = 4

const countPartCharacters = (part: Exclude<Prompt.Message["content"], string>[number]): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text.length
    case "tool-call":
      return part.name.length + Json.toText(part.params).length
    case "tool-result":
      return Json.toText(part.result).length
    default:
      return 0
  }
}

const countCharacters = ({ content }: Prompt.Message): number =>
  typeof content === "string" ? content.length : content.reduce((sum, part) => sum + countPartCharacters(part), 0)

const characters = GrowingList.fold<Prompt.Message, { count: number }>({
  begin: () => ({ count: 0 }),
  add: (state, message) => void (state.count += countCharacters(message)),
  copy: ({ count }) => ({ count })
})

/** Estimates the number of tokens in the messages. */
export const estimateTokens = ({ messages }: Pick<ModelCall, "messages">): number =>
  Math.ceil(characters(messages).count / charactersPerToken)

/** Estimates the number of tokens in the definitions of tools. */
export const estimateToolTokens = (tools: ModelCall["tools"]): number =>
  Math.ceil(JSON.stringify(tools).length / charactersPerToken)

/** Describes a failed call for its classification. `window` is the size of the model's context window in tokens. */
export const describeSituation = (call: Pick<ModelCall, "messages"> | undefined, window: number): CallSituation =>
  call === undefined ? { window } : { tokens: estimateTokens(call), window, messages: call.messages.length }
