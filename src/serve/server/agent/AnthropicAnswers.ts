/**
 * Renders answers of the agent as messages of Anthropic's API: complete, and as stream events.
 *
 * **Details**
 *
 * Reasoning is sent as thinking blocks to callers that ask for thinking. Their signature has no meaning; clients send a
 * block back only if it has one. Usage counts all model calls of the exchange, and is known at the end of a stream.
 *
 * Source: Anthropic API reference, messages and streaming.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Json from "../../../base/domain/Json.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import * as AnthropicError from "../AnthropicError.ts"
import * as ApiError from "../ApiError.ts"
import type { Exchange } from "./AgentExchange.ts"
import type { Ending, Piece } from "./AnswerPieces.ts"
import type { ClientCall } from "./ClientTools.ts"

/** Values that an answer contains besides its pieces. */
export interface MessageFrame {
  readonly id: string
  readonly model: string
  readonly showsThinking: boolean
}

const signature = "hermes"

const stopReasons: Readonly<Record<Ending["finish"], string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal"
}

const toUsage = (usage: Usage.Usage) => ({
  input_tokens: usage.inputTokens,
  output_tokens: usage.outputTokens,
  cache_read_input_tokens: usage.cacheReadTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens
})

const makeMessage = ({ id, model }: MessageFrame, content: ReadonlyArray<unknown>, ending: Ending | undefined) => ({
  id,
  type: "message",
  role: "assistant",
  model,
  content,
  stop_reason: ending === undefined ? null : stopReasons[ending.finish],
  stop_sequence: null,
  usage: toUsage(ending?.usage ?? Usage.zero)
})

const toCallBlock = ({ arguments: input, id, name }: ClientCall) => ({
  type: "tool_use",
  id,
  name,
  input: Json.parseOrKeep(input)
})

/** Joins adjacent pieces of one kind to blocks. */
const toBlocks = (pieces: ReadonlyArray<Piece>, { showsThinking }: MessageFrame): ReadonlyArray<unknown> => {
  const blocks: Array<{ readonly kind: "Text" | "Reasoning"; readonly text: string }> = []
  for (const piece of pieces) {
    if (piece._tag === "Ended" || (piece._tag === "Reasoning" && !showsThinking)) continue
    const last = blocks.at(-1)
    if (last?.kind === piece._tag) blocks[blocks.length - 1] = { ...last, text: last.text + piece.text }
    else blocks.push({ kind: piece._tag, text: piece.text })
  }
  return blocks.map(({ kind, text }) =>
    kind === "Text" ? { type: "text", text } : { type: "thinking", thinking: text, signature }
  )
}

/** Returns a whole message. */
export const completeMessage = (frame: MessageFrame, { pieces }: Exchange) =>
  Effect.flatMap(Stream.runCollect(pieces), (all) => {
    const last = all.at(-1)
    return last?._tag === "Ended"
      ? Effect.succeed(
          makeMessage(frame, [...toBlocks(all, frame), ...last.ending.calls.map(toCallBlock)], last.ending)
        )
      : Effect.fail(ApiError.make(503, "session_closed", "The session was closed. Send the request again."))
  })

/** Returns the list of models. */
export const listModels = (ids: ReadonlyArray<string>) => ({
  data: ids.map((id) => ({ type: "model", id, display_name: id, created_at: "1970-01-01T00:00:00Z" })),
  has_more: false,
  first_id: ids[0] ?? null,
  last_id: ids.at(-1) ?? null
})

const formatEvent = (type: string, fields: Json.Fields = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`

/** State of a stream: the number of blocks that ended, and the open block. */
interface MessageStream {
  readonly index: number
  readonly open: "Text" | "Reasoning" | undefined
}

type Rendered = readonly [state: MessageStream, text: string]

const closeBlock = ({ index, open }: MessageStream): Rendered => {
  if (open === undefined) return [{ index, open }, ""]
  const signed =
    open === "Reasoning"
      ? formatEvent("content_block_delta", { index, delta: { type: "signature_delta", signature } })
      : ""
  return [{ index: index + 1, open: undefined }, `${signed}${formatEvent("content_block_stop", { index })}`]
}

const renderDelta = (before: MessageStream, { _tag: kind, text }: Exclude<Piece, { _tag: "Ended" }>): Rendered => {
  const [{ index }, end] = before.open === kind ? [before, ""] : closeBlock(before)
  const content_block = kind === "Text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" }
  const begin = before.open === kind ? "" : formatEvent("content_block_start", { index, content_block })
  const delta = kind === "Text" ? { type: "text_delta", text } : { type: "thinking_delta", thinking: text }
  return [{ index, open: kind }, `${end}${begin}${formatEvent("content_block_delta", { index, delta })}`]
}

const renderCall = (call: ClientCall, index: number): string =>
  formatEvent("content_block_start", { index, content_block: { ...toCallBlock(call), input: {} } }) +
  formatEvent("content_block_delta", { index, delta: { type: "input_json_delta", partial_json: call.arguments } }) +
  formatEvent("content_block_stop", { index })

const renderEnd = (before: MessageStream, ending: Ending): Rendered => {
  const [state, end] = closeBlock(before)
  const calls = ending.calls.map((call, at) => renderCall(call, state.index + at)).join("")
  const delta = { stop_reason: stopReasons[ending.finish], stop_sequence: null }
  const rest = formatEvent("message_delta", { delta, usage: toUsage(ending.usage) }) + formatEvent("message_stop")
  return [state, `${end}${calls}${rest}`]
}

/** Returns the events of a message, encoded as an event stream. */
export const streamMessage = (frame: MessageFrame, { pieces }: Exchange): Stream.Stream<string> =>
  Stream.make(formatEvent("message_start", { message: makeMessage(frame, [], undefined) }) + formatEvent("ping")).pipe(
    Stream.concat(
      pieces.pipe(
        Stream.filter((piece) => piece._tag !== "Reasoning" || frame.showsThinking),
        Stream.mapAccum(
          (): MessageStream => ({ index: 0, open: undefined }),
          (state, piece) => {
            const [next, text] = piece._tag === "Ended" ? renderEnd(state, piece.ending) : renderDelta(state, piece)
            return [next, [text]] as const
          }
        )
      )
    ),
    Stream.catch((error: ApiError.ApiError) =>
      Stream.make(`event: error\ndata: ${JSON.stringify(AnthropicError.toBody(error))}\n\n`)
    )
  )
