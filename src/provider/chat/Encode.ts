/**
 * Writes a model response as the body of a chat completion: what a streamed answer would have been in one piece, and what
 * a stand-in for a model answers with. `Decode` reads it back to the same parts.
 *
 * @since 0.1.0
 */
import type { ContentPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"

/** What no part says. */
export interface Frame {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly created?: unknown
  /** The protocol's word. */
  readonly finishReason: string
  /** As the API counts, or undefined. */
  readonly usage: unknown
}

const reasoningFields = (parts: ReadonlyArray<ContentPart>): Raw.Fields => {
  const reasoning = parts.filter((part) => part.type === "reasoning")
  if (reasoning.length === 0) return {}
  const own = reasoning.map((part) => ({ text: part.text, ...Raw.fields(part.metadata["chat_completions"]) }))
  const contents = own.flatMap(({ text, reasoning_content: content }: Raw.Fields) =>
    content === true ? [Raw.word(text)] : typeof content === "string" ? [content] : []
  )
  const details = own.flatMap((fields: Raw.Fields) => Raw.items(fields["reasoning_details"]))
  const text = own.map((fields) => fields.text).filter((text) => text !== "").join("\n\n")
  const content = contents.join("")
  return {
    ...(text === "" || (contents.length > 0 && text === content) ? {} : { reasoning: text }),
    ...(contents.length === 0 ? {} : { reasoning_content: content }),
    ...(details.length === 0 ? {} : { reasoning_details: details })
  }
}

const toolCalls = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<Raw.Fields> =>
  parts.flatMap((part) => {
    if (part.type !== "tool-call") return []
    const { extra_content } = Raw.fields(part.metadata["chat_completions"])
    return [{
      id: part.id,
      type: "function",
      function: {
        name: part.name,
        arguments: typeof part.params === "string" ? part.params : JSON.stringify(part.params)
      },
      ...(extra_content === undefined ? {} : { extra_content })
    }]
  })

/** See the module. */
export const body = (parts: ReadonlyArray<ContentPart>, frame: Frame): Raw.Fields => {
  const texts = parts.flatMap((part) => part.type === "text" ? [part.text] : [])
  const calls = toolCalls(parts)
  return {
    ...(frame.id === undefined ? {} : { id: frame.id }),
    object: "chat.completion",
    ...(typeof frame.created === "number" ? { created: frame.created } : {}),
    ...(frame.model === undefined ? {} : { model: frame.model }),
    choices: [{
      index: 0,
      message: {
        role: "assistant",
        content: texts.length === 0 ? null : texts.join(""),
        ...reasoningFields(parts),
        ...(calls.length === 0 ? {} : { tool_calls: calls })
      },
      finish_reason: frame.finishReason
    }],
    ...(frame.usage === undefined ? {} : { usage: frame.usage })
  }
}
