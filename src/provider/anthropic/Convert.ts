/**
 * One message of a prompt as blocks of a Messages request.
 *
 * **Details**
 *
 * Signed and redacted thinking goes back as it came, unsigned thinking as text; none of it is in the plain form of an
 * assistant message. A message that has nothing to show gets a short placeholder, because the API refuses empty ones. A
 * cache breakpoint of a message stands on its last block that can carry one, which thinking can not.
 *
 * Source: `hermes-llm.md` §4.2.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../domain/Json.ts"
import * as Turns from "../Turns.ts"
import * as Content from "./Content.ts"
import * as Wire from "./Wire.ts"

/** What stands for content that can not be sent. */
export const placeholder = { user: "(empty message)", assistant: "(empty)", thinking: "(thinking elided)" }

type Converted = Turns.Converted<Wire.Block>

const noIds: ReadonlyArray<string> = []

const orPlaceholder = (blocks: ReadonlyArray<Wire.Block>, text: string): ReadonlyArray<Wire.Block> =>
  blocks.length === 0 ? [{ type: "text", text }] : blocks

/** An id of letters, digits, `_` and `-`, the only ones that the API takes. */
export const wireId = (id: string): string => {
  const clean = id.replaceAll(/[^\w-]/g, "_")
  return clean === "" ? "tool_0" : clean
}

/** Arguments as an object; text that is none, and values that are none, become an empty one. */
const input = (params: unknown): Readonly<Record<string, unknown>> => {
  const value = typeof params === "string" ? Option.getOrUndefined(Json.parse(params)) : params
  return Predicate.isReadonlyObject(value) ? value : {}
}

const thought = (part: Prompt.ReasoningPart): ReadonlyArray<Wire.Block> => {
  const data = Wire.redacted(part.options)
  if (data !== undefined) return [{ type: "redacted_thinking", data }]
  const signature = Wire.signature(part.options)
  if (signature !== undefined) return [{ type: "thinking", thinking: part.text, signature }]
  return part.text.trim() === "" ? [] : [{ type: "text", text: part.text.toWellFormed() }]
}

const withMarker = <B extends Wire.ToolUseBlock | Wire.ToolResultBlock>(block: B, options: Prompt.ProviderOptions): B => {
  const marker = Wire.cacheControl(options)
  return marker === undefined ? block : { ...block, cache_control: marker }
}

const user = (message: Prompt.UserMessage): Converted => {
  const blocks = orPlaceholder(message.content.flatMap(Content.of), placeholder.user)
  return { role: "user", plain: blocks, replay: blocks, calls: noIds, results: noIds }
}

const tool = (message: Prompt.ToolMessage): Converted => {
  const blocks = message.content.flatMap((part): ReadonlyArray<Wire.ToolResultBlock> =>
    part.type !== "tool-result" || part.providerExecuted
      ? []
      : [withMarker({
        type: "tool_result",
        tool_use_id: wireId(part.id),
        content: Content.toolResult(part),
        ...(part.isFailure ? { is_error: true } : {})
      }, part.options)]
  )
  return {
    role: "user",
    plain: blocks,
    replay: blocks,
    calls: noIds,
    results: blocks.map((block) => block.tool_use_id)
  }
}

const assistant = (message: Prompt.AssistantMessage, toolName: (name: string) => string): Converted => {
  const plain: Array<Wire.Block> = []
  const replay: Array<Wire.Block> = []
  const calls: Array<string> = []
  let thinks = false
  const both = (blocks: ReadonlyArray<Wire.Block>): void => {
    plain.push(...blocks)
    replay.push(...blocks)
  }
  for (const part of message.content) {
    switch (part.type) {
      case "reasoning":
        thinks = true
        replay.push(...thought(part))
        break
      case "text":
        both(Content.of(part))
        break
      case "file":
        both([{ type: "text", text: `[${part.mediaType} omitted]` }])
        break
      case "tool-call": {
        if (part.providerExecuted) break
        const id = wireId(part.id)
        calls.push(id)
        both([withMarker({ type: "tool_use", id, name: toolName(part.name), input: input(part.params) }, part.options)])
        break
      }
      default:
        break
    }
  }
  const empty = thinks ? placeholder.thinking : placeholder.assistant
  return {
    role: "assistant",
    plain: orPlaceholder(plain, empty),
    replay: thinks ? orPlaceholder(replay, empty) : plain.length === 0 ? orPlaceholder(plain, empty) : plain,
    calls,
    results: noIds
  }
}

const isThinking = (block: Wire.Block): block is Wire.ThinkingBlock | Wire.RedactedBlock =>
  block.type === "thinking" || block.type === "redacted_thinking"

const mark = (blocks: ReadonlyArray<Wire.Block>, message: Turns.Turn): ReadonlyArray<Wire.Block> => {
  const marker = Wire.cacheControl(message.options)
  if (marker === undefined) return blocks
  const at = blocks.findLastIndex((block) => !isThinking(block))
  const block = blocks[at]
  return block !== undefined && !isThinking(block) ? blocks.with(at, { ...block, cache_control: marker }) : blocks
}

/** The blocks of this protocol; `toolName` gives a tool's name on the wire. */
export const dialect = (toolName: (name: string) => string): Turns.Dialect<Wire.Block> => ({
  convert: Turns.remembering((message) => {
    switch (message.role) {
      case "user":
        return user(message)
      case "tool":
        return tool(message)
      case "assistant":
        return assistant(message, toolName)
    }
  }),
  callId: (block) => block.type === "tool_use" ? block.id : undefined,
  resultId: (block) => block.type === "tool_result" ? block.tool_use_id : undefined,
  isThinking,
  text: (text) => ({ type: "text", text }),
  mark
})
