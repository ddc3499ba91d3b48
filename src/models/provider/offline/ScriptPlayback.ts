/** Plays a script as a model. `Scripted` loads this module with the first request. */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../../../base/domain/ModelCall.ts"
import * as Request from "../chat/Request.ts"
import * as Completion from "./Completion.ts"
import { route } from "./ScriptRoute.ts"
import type { Piece, Reply, Turn } from "../Scripted.ts"
import type * as SdkError from "../SdkError.ts"

const makeErrorContext = (method: string): SdkError.Context => ({
  module: "Scripted",
  method,
  url: undefined,
  model: route.model
})

const readPieceText = (piece: string | Piece): string => (typeof piece === "string" ? piece : piece.text)

const toCompletionAnswer = (said: Reply, turn: number): Completion.Answer => ({
  text: said.text ?? said.pieces?.map(readPieceText).join(""),
  reasoning: said.reasoning,
  calls: said.toolCalls?.map((call, index) => ({
    id: call.id ?? `call_${turn}_${index + 1}`,
    name: call.name,
    arguments: call.params ?? {}
  })),
  usage: said.usage,
  finishReason: said.finishReason?.replace("-", "_")
})

/** Plays a turn as the answer to a request. `number` is its position in the script, from 1. */
export const playTurn = Effect.fnUntraced(function* (
  turn: Turn,
  number: number,
  request: ModelRequest,
  onPart: ExecuteOptions["onPart"]
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { said } = turn
  if (said.delay !== undefined) yield* Effect.sleep(said.delay)
  const body = Completion.makeBody(request, toCompletionAnswer(said, number), {
    id: `scripted-${number}`,
    model: route.model
  })
  const response = yield* Completion.decode(body, makeErrorContext("execute"))
  let answer = response
  if (onPart !== undefined && request["stream"] === true) {
    const { pieces = [] } = said
    const delays = pieces.map((piece) => (typeof piece === "string" ? undefined : piece.delay))
    const parts = Completion.streamResponse(
      response,
      pieces.length === 0 ? Completion.splitIntoWords : () => pieces.map(readPieceText)
    )
    const whole = turn.type === "complete"
    const sent = whole ? parts : parts.filter((part) => part.type !== "finish" && part.type !== "text-end")
    let spoken = 0
    answer = yield* Completion.playBatches(
      response,
      sent.map((part) => [part]),
      onPart,
      (index) => {
        const delay = sent[index]?.type === "text-delta" ? delays[spoken++] : undefined
        return delay === undefined ? Effect.void : Effect.sleep(delay)
      }
    )
  }
  switch (turn.type) {
    case "complete":
      return answer
    case "fail":
      return yield* turn.error
    case "hang":
      return yield* Effect.never
  }
})

/** Prepares the request of a model call. */
export const prepareRequest = (call: ModelCall): ModelRequest => Request.prepare(call, route)

/** Reads a body of the chat completions protocol. */
export const decodeBody = (raw: unknown): Effect.Effect<ModelResponse, AiError.AiError> =>
  Completion.decode(raw, makeErrorContext("decode"))
