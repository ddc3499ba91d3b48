/** Plays a script as a model. `Scripted` loads this module with the first script. */
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../../../base/domain/ModelCall.ts"
import * as Route from "../../../base/domain/Route.ts"
import * as Request from "../chat/Request.ts"
import * as Completion from "./Completion.ts"
import type * as SdkError from "../SdkError.ts"

import type { Reply, Piece, Script, Turn } from "../Scripted.ts"

const route: Route.Route = { provider: "scripted", model: "scripted", apiMode: "chat_completions" }

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

const makeExhaustedError = (turns: number, turn: number): AiError.AiError => {
  const count = turns === 1 ? "1 turn" : `${turns} turns`
  return AiError.make({
    module: "Scripted",
    method: "execute",
    reason: new AiError.InvalidRequestError({
      description: `the script is exhausted: it has ${count} and was asked for turn ${turn}`
    })
  })
}

const playTurn = Effect.fnUntraced(function* (
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

/** Creates a script that begins at its first turn. */
export const make = (turns: ReadonlyArray<Turn>): Effect.Effect<Script> =>
  Effect.sync(() => {
    const requests: Array<ModelRequest> = []
    const calls: Array<ModelCall> = []
    let interruptions = 0
    const execute = (request: ModelRequest, options?: ExecuteOptions): Effect.Effect<ModelResponse, AiError.AiError> =>
      Effect.suspend(() => {
        requests.push(request)
        const number = requests.length
        const turn = turns[number - 1]
        if (turn === undefined) return Effect.fail(makeExhaustedError(turns.length, number))
        return Effect.onInterrupt(playTurn(turn, number, request, options?.onPart), () =>
          Effect.sync(() => void interruptions++)
        )
      })
    return {
      provider: {
        info: Route.toInfo(route),
        apiMode: route.apiMode,
        prepare: (call) =>
          Effect.sync(() => {
            // The messages are copied because a run may append to the same array later.
            calls.push({ ...call, messages: [...call.messages] })
            return Request.prepare(call, route)
          }),
        execute,
        decode: (raw) => Completion.decode(raw, makeErrorContext("decode"))
      },
      inspection: {
        requests: Effect.sync(() => [...requests]),
        calls: Effect.sync(() => [...calls]),
        remaining: Effect.sync(() => Math.max(0, turns.length - requests.length)),
        interruptions: Effect.sync(() => interruptions)
      }
    }
  })
