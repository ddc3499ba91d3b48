/**
 * One message of a prompt as blocks of a Converse request.
 *
 * **Details**
 *
 * Converse refuses blocks of tools in a request that names no tools. For such a request there is a second dialect, in
 * which calls and results are told in words.
 *
 * Signed and redacted thinking goes back as it came; unsigned thinking is never sent. A message that has nothing to show
 * is a single space.
 *
 * Source: `hermes-llm.md` §4.4.
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

type Converted = Turns.Converted<Wire.Block>

/** How calls and results are written. */
interface Tooling {
  readonly call: (part: Prompt.ToolCallPart) => ReadonlyArray<Wire.Block>
  readonly result: (part: Prompt.ToolResultPart) => ReadonlyArray<Wire.Block>
}

const space: Wire.TextBlock = { text: " " }
const longestId = 64

/** An id in the characters, and of the length, that Converse takes; of one that is too long, the end. */
export const wireId = (id: string): string => {
  const clean = id.replaceAll(/[^\w.:-]/g, "_").slice(-longestId)
  return clean === "" ? "tool_0" : clean
}

/** Arguments as an object; text that is none, and values that are none, become an empty one. */
const input = (params: unknown): Readonly<Record<string, unknown>> => {
  const value = typeof params === "string" ? Option.getOrUndefined(Json.parse(params)) : params
  return Predicate.isReadonlyObject(value) ? value : {}
}

const asBlocks: Tooling = {
  call: (part) => [{ toolUse: { toolUseId: wireId(part.id), name: part.name, input: input(part.params) } }],
  result: (part) => [{
    toolResult: {
      toolUseId: wireId(part.id),
      content: Content.toolResult(part),
      ...(part.isFailure ? { status: "error" } : {})
    }
  }]
}

const inWords: Tooling = {
  call: (part) => [{ text: `[called ${part.name} with ${JSON.stringify(input(part.params))}]` }],
  result: (part) => [{ text: `[${part.isFailure ? "failure" : "result"} of ${part.name}:]` }, ...Content.toolResult(part)]
}

const orSpace = (blocks: ReadonlyArray<Wire.Block>): ReadonlyArray<Wire.Block> => blocks.length === 0 ? [space] : blocks

const thought = (part: Prompt.ReasoningPart): ReadonlyArray<Wire.Block> => {
  const redactedContent = Wire.redacted(part.options)
  if (redactedContent !== undefined) return [{ reasoningContent: { redactedContent } }]
  const signature = Wire.signature(part.options)
  return signature === undefined ? [] : [{ reasoningContent: { reasoningText: { text: part.text, signature } } }]
}

const callId = (block: Wire.Block): string | undefined => "toolUse" in block ? block.toolUse.toolUseId : undefined
const resultId = (block: Wire.Block): string | undefined =>
  "toolResult" in block ? block.toolResult.toolUseId : undefined

const idsBy = (blocks: ReadonlyArray<Wire.Block>, id: (block: Wire.Block) => string | undefined) =>
  blocks.flatMap((block) => id(block) ?? [])

const userTurn = (blocks: ReadonlyArray<Wire.Block>): Converted => ({
  role: "user",
  plain: blocks,
  replay: blocks,
  calls: [],
  results: idsBy(blocks, resultId)
})

const assistant = (message: Prompt.AssistantMessage, tooling: Tooling): Converted => {
  const plain: Array<Wire.Block> = []
  const replay: Array<Wire.Block> = []
  for (const part of message.content) {
    if (part.type === "reasoning") {
      replay.push(...thought(part))
      continue
    }
    const blocks = part.type === "text"
      ? Content.of(part)
      : part.type === "file"
      ? [{ text: `[${part.mediaType} omitted]` }]
      : part.type === "tool-call" && !part.providerExecuted
      ? tooling.call(part)
      : []
    plain.push(...blocks)
    replay.push(...blocks)
  }
  return {
    role: "assistant",
    plain: orSpace(plain),
    replay: replay.length === plain.length ? orSpace(plain) : replay,
    calls: idsBy(plain, callId),
    results: []
  }
}

const dialect = (tooling: Tooling): Turns.Dialect<Wire.Block> => ({
  convert: Turns.remembering((message) => {
    switch (message.role) {
      case "user":
        return userTurn(orSpace(message.content.flatMap(Content.of)))
      case "tool":
        return userTurn(message.content.flatMap((part) =>
          part.type === "tool-result" && !part.providerExecuted ? tooling.result(part) : []
        ))
      case "assistant":
        return assistant(message, tooling)
    }
  }),
  callId,
  resultId,
  isThinking: (block) => "reasoningContent" in block,
  text: (text) => ({ text }),
  mark: (blocks) => blocks
})

/** The blocks of a request that names tools. */
export const withTools = (): Turns.Dialect<Wire.Block> => dialect(asBlocks)

/** The blocks of one that names none. */
export const withoutTools = (): Turns.Dialect<Wire.Block> => dialect(inWords)

/** Messages that begin and end with the user's. */
export const framed = (
  messages: ReadonlyArray<Turns.Message<Wire.Block>>
): ReadonlyArray<Turns.Message<Wire.Block>> => {
  const filler: Turns.Message<Wire.Block> = { role: "user", content: [space] }
  return [
    ...(messages[0]?.role === "user" ? [] : [filler]),
    ...messages,
    ...(messages.at(-1)?.role === "assistant" ? [filler] : [])
  ]
}
