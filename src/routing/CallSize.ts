/**
 * Size of a call without a tokenizer: characters divided by four. Each message is counted once.
 *
 * Source: `hermes-llm.md` §2.5, §10.2.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../domain/Json.ts"
import type { ModelCall } from "../domain/Model.ts"
import type { CallSituation } from "./classification/Evidence.ts"

const characters = new WeakMap<Prompt.Message, number>()

const lengthOfPart = (part: Exclude<Prompt.Message["content"], string>[number]): number => {
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

const lengthOf = (message: Prompt.Message): number => {
  const known = characters.get(message)
  if (known !== undefined) return known
  let length = 0
  if (typeof message.content === "string") length = message.content.length
  else { for (const part of message.content) length += lengthOfPart(part) }
  characters.set(message, length)
  return length
}

/** Estimated tokens of the messages. */
export const tokens = ({ messages }: Pick<ModelCall, "messages">): number => {
  let length = 0
  for (const message of messages) length += lengthOf(message)
  return Math.ceil(length / 4)
}

/** Situation for the classification of a failed call to a model that holds `window` tokens. */
export const facts = (call: Pick<ModelCall, "messages"> | undefined, window: number): CallSituation =>
  call === undefined ? { window } : { tokens: tokens(call), window, messages: call.messages.length }
