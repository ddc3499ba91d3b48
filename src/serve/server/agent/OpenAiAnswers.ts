/**
 * Renders answers of the agent in the formats of OpenAI's two APIs: complete, and as stream events.
 *
 * **Details**
 *
 * Reasoning is the field `reasoning_content` in chat completions, and an item of type `reasoning` in responses. Usage
 * counts all model calls of the exchange. The id of a response names its session and its turn, so that a conversation
 * can continue after it or after an earlier response.
 *
 * Source: OpenAI API reference, chat completions and responses.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Usage from "../../../base/domain/Usage.ts"
import * as ApiError from "../ApiError.ts"
import type { Exchange } from "./AgentExchange.ts"
import type { Ending, Piece } from "./AnswerPieces.ts"
import { formatAnswerId, formatCallId } from "./StoredItems.ts"

/** Values that an answer contains in every format. */
export interface Frame {
  readonly id: string
  /** Creation time in seconds since 1970. */
  readonly created: number
  readonly model: string
}

/** The text and the reasoning of an answer, collected from its pieces. */
export interface GatheredAnswer {
  readonly text: string
  readonly reasoning: string
  readonly ending: Ending
}

const gatherAnswer = ({ pieces }: Exchange): Effect.Effect<GatheredAnswer, ApiError.ApiError> =>
  Effect.flatMap(Stream.runCollect(pieces), (all) => {
    const joinTexts = (tag: "Text" | "Reasoning"): string =>
      all.map((piece) => (piece._tag === tag ? piece.text : "")).join("")
    const last = all.at(-1)
    return last?._tag === "Ended"
      ? Effect.succeed({ text: joinTexts("Text"), reasoning: joinTexts("Reasoning"), ending: last.ending })
      : Effect.fail(ApiError.make(503, "session_closed", "The session was closed. Send the request again."))
  })

const toChatUsage = (usage: Usage.Usage) => ({
  prompt_tokens: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: Usage.countTotalTokens(usage),
  prompt_tokens_details: { cached_tokens: usage.cacheReadTokens },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens }
})

const toChatCalls = ({ calls }: Ending) =>
  calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }))

/** Returns a chat completion. */
export const makeCompletion = ({ created, id, model }: Frame, exchange: Exchange) =>
  Effect.map(gatherAnswer(exchange), ({ ending, reasoning, text }) => ({
    id,
    object: "chat.completion",
    created,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text === "" && ending.calls.length > 0 ? null : text,
          ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
          ...(ending.calls.length === 0 ? {} : { tool_calls: toChatCalls(ending) })
        },
        logprobs: null,
        finish_reason: ending.finish
      }
    ],
    usage: toChatUsage(ending.usage)
  }))

const formatEvent = (value: unknown, name?: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`

const ended = "data: [DONE]\n\n"

/** Returns the chunks of a chat completion, encoded as an event stream. */
export const streamCompletion = (
  { created, id, model }: Frame,
  { pieces }: Exchange,
  includeUsage: boolean
): Stream.Stream<string> => {
  const frame = { id, object: "chat.completion.chunk", created, model }
  const formatChunk = (delta: unknown, finish: Ending["finish"] | null = null): string =>
    formatEvent({ ...frame, choices: [{ index: 0, delta, finish_reason: finish }] })
  const renderChunk = (piece: Piece): string => {
    switch (piece._tag) {
      case "Text":
        return formatChunk({ content: piece.text })
      case "Reasoning":
        return formatChunk({ reasoning_content: piece.text })
      case "Ended": {
        const { ending } = piece
        const calls =
          ending.calls.length === 0
            ? ""
            : formatChunk({ tool_calls: toChatCalls(ending).map((call, index) => ({ index, ...call })) })
        const usage = includeUsage ? formatEvent({ ...frame, choices: [], usage: toChatUsage(ending.usage) }) : ""
        return `${calls}${formatChunk({}, ending.finish)}${usage}`
      }
    }
  }
  return Stream.make(formatChunk({ role: "assistant", content: "" })).pipe(
    Stream.concat(Stream.map(pieces, renderChunk)),
    Stream.catch((error: ApiError.ApiError) => Stream.make(formatEvent(ApiError.toBody(error)))),
    Stream.concat(Stream.make(ended))
  )
}

const prefix = "resp_"

/**
 * Returns the id of a response, made from its session and the position of its turn. Responses that continue a turn with
 * results of tools are numbered.
 */
export const formatResponseId = (session: string, { continuations, position }: Exchange["turn"]): string =>
  `${prefix}${session}.${position}${continuations === 0 ? "" : `-${continuations}`}`

/** Reads the id of a response. Returns `undefined` for other text. */
export const readResponseId = (id: string): { readonly session: string; readonly position: number } | undefined => {
  const [, session, position] = /^resp_(.+)\.(\d+)(?:-\d+)?$/u.exec(id) ?? []
  return session === undefined ? undefined : { session, position: Number(position) }
}

/** Returns the id of a message of Anthropic's API, which continues as a response does. */
export const formatMessageId = (session: string, turn: Exchange["turn"]): string =>
  `msg_${formatResponseId(session, turn)}`

/** Reads the id of a message of Anthropic's API. Returns `undefined` for other text. */
export const readMessageId = (id: string): ReturnType<typeof readResponseId> =>
  id.startsWith("msg_") ? readResponseId(id.slice("msg_".length)) : undefined

const toResponseUsage = (usage: Usage.Usage) => ({
  input_tokens: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: Usage.countTotalTokens(usage)
})

/** Values that a response contains. */
export interface ResponseFrame extends Frame {
  readonly session: string
}

/** Request fields whose values are repeated in the response. */
export interface RepeatedFields {
  readonly conversation: { readonly id: string } | null
  readonly store: boolean
  readonly instructions: string | null
  readonly previous_response_id: string | null
  readonly metadata: unknown
}

const makeResponseBody = (
  frame: Frame,
  repeated: RepeatedFields,
  status: "in_progress" | "completed" | "incomplete" | "failed",
  output: ReadonlyArray<unknown>,
  more: Readonly<Record<string, unknown>> = {}
) => ({
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

const makeReasoningItem = ({ id }: Frame, text: string) => ({
  type: "reasoning",
  id: `rs_${id}`,
  summary: [{ type: "summary_text", text: text }]
})
const makeMessageItem = (
  { id }: Frame,
  text: string,
  status: "in_progress" | "completed",
  content: ReadonlyArray<unknown> = [{ type: "output_text", text: text, annotations: [] }]
) => ({ type: "message", id: formatAnswerId(id), status, role: "assistant", content })
const makeCallItem = (
  { session }: ResponseFrame,
  call: Ending["calls"][number],
  status: "in_progress" | "completed"
) => ({
  type: "function_call",
  id: formatCallId(session, call),
  call_id: call.id,
  name: call.name,
  arguments: status === "completed" ? call.arguments : "",
  status
})

const listItems = (frame: ResponseFrame, { ending, reasoning, text }: GatheredAnswer): ReadonlyArray<unknown> => [
  ...(reasoning === "" ? [] : [makeReasoningItem(frame, reasoning)]),
  ...(text === "" && ending.calls.length > 0 ? [] : [makeMessageItem(frame, text, "completed")]),
  ...ending.calls.map((call) => makeCallItem(frame, call, "completed"))
]

/** Returns the body of a response that has ended. */
export const makeFinalResponse = (frame: ResponseFrame, repeated: RepeatedFields, done: GatheredAnswer) => {
  const { finish, usage } = done.ending
  const isWhole = finish === "stop" || finish === "tool_calls"
  return makeResponseBody(frame, repeated, isWhole ? "completed" : "incomplete", listItems(frame, done), {
    usage: toResponseUsage(usage),
    ...(isWhole ? {} : { incomplete_details: { reason: finish === "length" ? "max_output_tokens" : "content_filter" } })
  })
}

/** Returns a complete response. */
export const makeResponse = (frame: ResponseFrame, repeated: RepeatedFields, exchange: Exchange) =>
  Effect.map(gatherAnswer(exchange), (done) => makeFinalResponse(frame, repeated, done))

/** State of a stream of response events. */
interface ResponseStream {
  readonly frame: ResponseFrame
  readonly repeated: RepeatedFields
  /** Sequence number of the next event. */
  sequence: number
  text: string
  reasoning: string
  /** Index of the message in the output, or `undefined` before it begins. */
  textIndex: number | undefined
}

const formatNextEvent = (state: ResponseStream, type: string, fields: Readonly<Record<string, unknown>>): string =>
  formatEvent({ type, sequence_number: state.sequence++, ...fields }, type)

const beginText = (state: ResponseStream): string => {
  const output_index = state.reasoning === "" ? 0 : 1
  const item = makeMessageItem(state.frame, "", "in_progress", [])
  return (
    formatNextEvent(state, "response.output_item.added", { output_index, item }) +
    formatNextEvent(state, "response.content_part.added", {
      item_id: formatAnswerId(state.frame.id),
      output_index,
      content_index: 0,
      part: { type: "output_text", text: "", annotations: [] }
    })
  )
}

const endReasoning = (state: ResponseStream): string =>
  state.reasoning === ""
    ? ""
    : formatNextEvent(state, "response.output_item.done", {
        output_index: 0,
        item: makeReasoningItem(state.frame, state.reasoning)
      })

const endText = (state: ResponseStream, output_index: number): string => {
  const { text } = state
  return (
    formatNextEvent(state, "response.output_text.done", {
      item_id: formatAnswerId(state.frame.id),
      output_index,
      content_index: 0,
      text,
      logprobs: []
    }) +
    formatNextEvent(state, "response.content_part.done", {
      item_id: formatAnswerId(state.frame.id),
      output_index,
      content_index: 0,
      part: { type: "output_text", text, annotations: [] }
    }) +
    formatNextEvent(state, "response.output_item.done", {
      output_index,
      item: makeMessageItem(state.frame, text, "completed")
    })
  )
}

const renderReasoning = (state: ResponseStream, delta: string): string => {
  // A response contains one reasoning item, before the text. Later reasoning is dropped.
  if (state.textIndex !== undefined) return ""
  const begin =
    state.reasoning === ""
      ? formatNextEvent(state, "response.output_item.added", {
          output_index: 0,
          item: { type: "reasoning", id: `rs_${state.frame.id}`, summary: [] }
        })
      : ""
  state.reasoning += delta
  return (
    begin +
    formatNextEvent(state, "response.reasoning_summary_text.delta", {
      item_id: `rs_${state.frame.id}`,
      output_index: 0,
      summary_index: 0,
      delta
    })
  )
}

const renderText = (state: ResponseStream, delta: string): string => {
  const begin = state.textIndex === undefined ? endReasoning(state) + beginText(state) : ""
  state.textIndex ??= state.reasoning === "" ? 0 : 1
  state.text += delta
  return (
    begin +
    formatNextEvent(state, "response.output_text.delta", {
      item_id: formatAnswerId(state.frame.id),
      output_index: state.textIndex,
      content_index: 0,
      delta,
      logprobs: []
    })
  )
}

const renderCall = (state: ResponseStream, call: Ending["calls"][number], output_index: number): string => {
  const item_id = formatCallId(state.frame.session, call)
  return (
    formatNextEvent(state, "response.output_item.added", {
      output_index,
      item: makeCallItem(state.frame, call, "in_progress")
    }) +
    formatNextEvent(state, "response.function_call_arguments.delta", { item_id, output_index, delta: call.arguments }) +
    formatNextEvent(state, "response.function_call_arguments.done", {
      item_id,
      output_index,
      name: call.name,
      arguments: call.arguments
    }) +
    formatNextEvent(state, "response.output_item.done", {
      output_index,
      item: makeCallItem(state.frame, call, "completed")
    })
  )
}

const renderResponseEnd = (state: ResponseStream, ending: Ending): string => {
  const hasCalls = ending.calls.length > 0
  const first = state.textIndex === undefined ? endReasoning(state) + (hasCalls ? "" : beginText(state)) : ""
  if (state.textIndex === undefined && !hasCalls) state.textIndex = state.reasoning === "" ? 0 : 1
  const end = state.textIndex === undefined ? "" : endText(state, state.textIndex)
  const from = (state.textIndex ?? (state.reasoning === "" ? -1 : 0)) + 1
  const calls = ending.calls.map((call, index) => renderCall(state, call, from + index)).join("")
  const { frame, reasoning, repeated, text } = state
  const response = makeFinalResponse(frame, repeated, { text, reasoning, ending })
  const type = response.status === "completed" ? "response.completed" : "response.incomplete"
  return first + end + calls + formatNextEvent(state, type, { response })
}

const renderPiece = (state: ResponseStream, piece: Piece): string => {
  switch (piece._tag) {
    case "Reasoning":
      return renderReasoning(state, piece.text)
    case "Text":
      return renderText(state, piece.text)
    case "Ended":
      return renderResponseEnd(state, piece.ending)
  }
}

/** Returns the events of a response, encoded as an event stream. */
export const streamResponse = (
  frame: ResponseFrame,
  repeated: RepeatedFields,
  { pieces }: Exchange
): Stream.Stream<string> => {
  const state: ResponseStream = { frame, repeated, sequence: 0, text: "", reasoning: "", textIndex: undefined }
  const started = makeResponseBody(frame, repeated, "in_progress", [])
  return Stream.fromIterable([started]).pipe(
    Stream.map(
      (response) =>
        formatNextEvent(state, "response.created", { response }) +
        formatNextEvent(state, "response.in_progress", { response })
    ),
    Stream.concat(Stream.map(pieces, (piece) => renderPiece(state, piece))),
    Stream.catch((error: ApiError.ApiError) =>
      Stream.sync(() =>
        formatNextEvent(state, "response.failed", {
          response: makeResponseBody(frame, repeated, "failed", [], {
            error: { code: error.code, message: error.message }
          })
        })
      )
    )
  )
}
