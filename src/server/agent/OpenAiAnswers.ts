/**
 * Answers of the agent in the forms of OpenAI's two APIs: whole, and as the events of a stream.
 *
 * **Details**
 *
 * Reasoning is `reasoning_content` of chat completions, and an item `reasoning` of responses. Usage counts all model calls of the exchange. The id of
 * a response names its session and its turn, so that a conversation can go on behind it, and behind an earlier one as well.
 *
 * Source: OpenAI API reference, chat completions and responses.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Usage from "../../domain/Usage.ts"
import * as ApiError from "../ApiError.ts"
import type { Exchange } from "./AgentExchange.ts"
import type { Ending, Piece } from "./AnswerPieces.ts"

/** Facts that every form of an answer has. */
export interface Frame {
  readonly id: string
  /** Seconds since 1970. */
  readonly created: number
  readonly model: string
}

/** A text and its reasoning, as they are put together. */
interface Gathered {
  readonly text: string
  readonly reasoning: string
  readonly ending: Ending
}

const gathered = ({ pieces }: Exchange): Effect.Effect<Gathered, ApiError.ApiError> =>
  Effect.flatMap(Stream.runCollect(pieces), (all) => {
    const textOf = (tag: "Text" | "Reasoning"): string => all.map((piece) => piece._tag === tag ? piece.text : "").join("")
    const last = all.at(-1)
    return last?._tag === "Ended"
      ? Effect.succeed({ text: textOf("Text"), reasoning: textOf("Reasoning"), ending: last.ending })
      : Effect.fail(ApiError.make(503, "session_closed", "The session was closed. Ask again."))
  })

const chatUsage = (usage: Usage.Usage) => ({
  prompt_tokens: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: Usage.totalTokens(usage),
  prompt_tokens_details: { cached_tokens: usage.cacheReadTokens },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens }
})

const chatCalls = ({ calls }: Ending) => calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }))

/** A chat completion. */
export const completion = ({ created, id, model }: Frame, exchange: Exchange) =>
  Effect.map(gathered(exchange), ({ ending, reasoning, text }) => ({
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{
      index: 0,
      message: {
        role: "assistant",
        content: text === "" && ending.calls.length > 0 ? null : text,
        ...reasoning === "" ? {} : { reasoning_content: reasoning },
        ...ending.calls.length === 0 ? {} : { tool_calls: chatCalls(ending) }
      },
      logprobs: null,
      finish_reason: ending.finish
    }],
    usage: chatUsage(ending.usage)
  }))

const event = (value: unknown, name?: string): string => `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`

const ended = "data: [DONE]\n\n"

/** The chunks of a chat completion, as the text of a stream of events. */
export const completionStream = ({ created, id, model }: Frame, { pieces }: Exchange, includeUsage: boolean): Stream.Stream<string> => {
  const frame = { id, object: "chat.completion.chunk", created, model }
  const chunk = (delta: unknown, finish: Ending["finish"] | null = null): string => event({ ...frame, choices: [{ index: 0, delta, finish_reason: finish }] })
  const textOf = (piece: Piece): string => {
    switch (piece._tag) {
      case "Text":
        return chunk({ content: piece.text })
      case "Reasoning":
        return chunk({ reasoning_content: piece.text })
      case "Ended": {
        const { ending } = piece
        const calls = ending.calls.length === 0 ? "" : chunk({ tool_calls: chatCalls(ending).map((call, index) => ({ index, ...call })) })
        return `${calls}${chunk({}, ending.finish)}${includeUsage ? event({ ...frame, choices: [], usage: chatUsage(ending.usage) }) : ""}`
      }
    }
  }
  return Stream.make(chunk({ role: "assistant", content: "" })).pipe(
    Stream.concat(Stream.map(pieces, textOf)),
    Stream.catch((error: ApiError.ApiError) => Stream.make(event(ApiError.body(error)))),
    Stream.concat(Stream.make(ended))
  )
}

const prefix = "resp_"

/** The id of a response: its session, and the position of its turn in it. */
export const responseId = (session: string, position: number): string => `${prefix}${session}.${position}`

/** Reads the id of a response; undefined for another text. */
export const readResponseId = (id: string): { readonly session: string; readonly position: number } | undefined => {
  const [, session, position] = /^resp_(.+)\.(\d+)$/u.exec(id) ?? []
  return session === undefined ? undefined : { session, position: Number(position) }
}

const responseUsage = (usage: Usage.Usage) => ({
  input_tokens: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: Usage.totalTokens(usage)
})

/** Fields of a request that its response repeats. */
export interface Repeated {
  readonly instructions: string | null
  readonly previous_response_id: string | null
  readonly metadata: unknown
}

const responseOf = (frame: Frame, repeated: Repeated, status: "in_progress" | "completed" | "incomplete" | "failed", output: ReadonlyArray<unknown>, more: Readonly<Record<string, unknown>> = {}) => ({
  id: frame.id,
  object: "response",
  created_at: frame.created,
  status,
  error: null,
  incomplete_details: null,
  ...repeated,
  model: frame.model,
  output,
  parallel_tool_calls: true,
  tool_choice: "auto",
  tools: [],
  temperature: null,
  top_p: null,
  max_output_tokens: null,
  text: { format: { type: "text" } },
  truncation: "disabled",
  usage: null,
  ...more
})

const reasoningItem = (text: string) => ({ type: "reasoning", id: "rs_0", summary: [{ type: "summary_text", text: text }] })
const messageItem = (text: string, status: "in_progress" | "completed", content: ReadonlyArray<unknown> = [{ type: "output_text", text: text, annotations: [] }]) =>
  ({ type: "message", id: "msg_0", status, role: "assistant", content })
const callItem = (call: Ending["calls"][number], status: "in_progress" | "completed") =>
  ({ type: "function_call", id: `fc_${call.id}`, call_id: call.id, name: call.name, arguments: status === "completed" ? call.arguments : "", status })

const itemsOf = ({ ending, reasoning, text }: Gathered): ReadonlyArray<unknown> => [
  ...reasoning === "" ? [] : [reasoningItem(reasoning)],
  ...text === "" && ending.calls.length > 0 ? [] : [messageItem(text, "completed")],
  ...ending.calls.map((call) => callItem(call, "completed"))
]

const finalOf = (frame: Frame, repeated: Repeated, done: Gathered) => {
  const { finish, usage } = done.ending
  const isWhole = finish === "stop" || finish === "tool_calls"
  return responseOf(frame, repeated, isWhole ? "completed" : "incomplete", itemsOf(done), {
    usage: responseUsage(usage),
    ...isWhole ? {} : { incomplete_details: { reason: finish === "length" ? "max_output_tokens" : "content_filter" } }
  })
}

/** A response. */
export const response = (frame: Frame, repeated: Repeated, exchange: Exchange) =>
  Effect.map(gathered(exchange), (done) => finalOf(frame, repeated, done))

/** The events of a response, as the text of a stream. */
export const responseStream = (frame: Frame, repeated: Repeated, { pieces }: Exchange): Stream.Stream<string> => {
  let sequence = 0
  let text = ""
  let reasoning = ""
  const send = (type: string, fields: Readonly<Record<string, unknown>>): string => event({ type, sequence_number: sequence++, ...fields }, type)
  const started = responseOf(frame, repeated, "in_progress", [])

  const beginText = (): string => {
    const output_index = reasoning === "" ? 0 : 1
    return send("response.output_item.added", { output_index, item: messageItem("", "in_progress", []) }) +
      send("response.content_part.added", { item_id: "msg_0", output_index, content_index: 0, part: { type: "output_text", text: "", annotations: [] } })
  }
  let textIndex: number | undefined

  const textOf = (piece: Piece): string => {
    switch (piece._tag) {
      case "Reasoning": {
        // One item of reasoning stands before the text; what is thought behind it has no place of its own.
        if (textIndex !== undefined) return ""
        const begin = reasoning === "" ? send("response.output_item.added", { output_index: 0, item: { type: "reasoning", id: "rs_0", summary: [] } }) : ""
        reasoning += piece.text
        return begin + send("response.reasoning_summary_text.delta", { item_id: "rs_0", output_index: 0, summary_index: 0, delta: piece.text })
      }
      case "Text": {
        const begin = textIndex === undefined ? endReasoning() + beginText() : ""
        textIndex ??= reasoning === "" ? 0 : 1
        text += piece.text
        return begin + send("response.output_text.delta", { item_id: "msg_0", output_index: textIndex, content_index: 0, delta: piece.text, logprobs: [] })
      }
      case "Ended": {
        const { ending } = piece
        const first = textIndex === undefined ? endReasoning() + (ending.calls.length > 0 ? "" : beginText()) : ""
        if (textIndex === undefined && ending.calls.length === 0) textIndex = reasoning === "" ? 0 : 1
        const end = textIndex === undefined ? "" : endText(textIndex)
        const from = (textIndex ?? (reasoning === "" ? -1 : 0)) + 1
        const calls = ending.calls.map((call, index) => {
          const output_index = from + index
          const item_id = `fc_${call.id}`
          return send("response.output_item.added", { output_index, item: callItem(call, "in_progress") }) +
            send("response.function_call_arguments.delta", { item_id, output_index, delta: call.arguments }) +
            send("response.function_call_arguments.done", { item_id, output_index, name: call.name, arguments: call.arguments }) +
            send("response.output_item.done", { output_index, item: callItem(call, "completed") })
        }).join("")
        const final = finalOf(frame, repeated, { text, reasoning, ending })
        return first + end + calls + send(final.status === "completed" ? "response.completed" : "response.incomplete", { response: final })
      }
    }
  }
  const endReasoning = (): string => reasoning === "" ? "" : send("response.output_item.done", { output_index: 0, item: reasoningItem(reasoning) })
  const endText = (output_index: number): string =>
    send("response.output_text.done", { item_id: "msg_0", output_index, content_index: 0, text: text, logprobs: [] }) +
    send("response.content_part.done", { item_id: "msg_0", output_index, content_index: 0, part: { type: "output_text", text: text, annotations: [] } }) +
    send("response.output_item.done", { output_index, item: messageItem(text, "completed") })

  return Stream.fromIterable([started]).pipe(
    Stream.map((response) => send("response.created", { response }) + send("response.in_progress", { response })),
    Stream.concat(Stream.map(pieces, textOf)),
    Stream.catch((error: ApiError.ApiError) =>
      Stream.sync(() => send("response.failed", { response: responseOf(frame, repeated, "failed", [], { error: { code: error.code, message: error.message } }) })))
  )
}
