// A model whose answers are functions of the call, for tests of what lies above providers.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type {
  ContentPart,
  ExecuteOptions,
  ModelCall,
  ModelRequest,
  ModelResponse,
  StreamPart
} from "../../src/base/domain/ModelCall.ts"
import { toResponse } from "../../src/base/domain/Usage.ts"
import { Provider, type Service } from "../../src/models/provider/Provider.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"

export type Turn = (
  request: ModelRequest,
  options: ExecuteOptions | undefined
) => Effect.Effect<ModelResponse, AiError.AiError>

export const answer = (parts: ReadonlyArray<ContentPart>, finishReason: Response.FinishReason): ModelResponse => ({
  parts,
  finishReason,
  usage: toResponse({ input: 10, output: 5 }),
  model: "fake-1",
  id: "answer-1",
  raw: { parts }
})

export const textAnswer = (text: string): ModelResponse => answer([Response.makePart("text", { text })], "stop")

export const call = (id: string, name: string, params: unknown): ContentPart =>
  Response.makePart("tool-call", { id, name, params, providerExecuted: false })

export const callsAnswer = (...calls: ReadonlyArray<ContentPart>): ModelResponse => answer(calls, "tool-calls")

export const text =
  (value: string): Turn =>
  () =>
    Effect.succeed(textAnswer(value))

export const calls =
  (...parts: ReadonlyArray<ContentPart>): Turn =>
  () =>
    Effect.succeed(callsAnswer(...parts))

/** Streams the pieces one by one, then answers with their whole. */
export const pieces =
  (...texts: ReadonlyArray<string>): Turn =>
  (_, options) =>
    Effect.gen(function* () {
      const show = (part: StreamPart) => (options?.onPart === undefined ? Effect.void : options.onPart([part]))
      yield* show(Response.makePart("text-start", { id: "1" }))
      for (const delta of texts) yield* show(Response.makePart("text-delta", { id: "1", delta }))
      return textAnswer(texts.join(""))
    })

export const failure = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Fake", method: "execute", reason })

export interface Fake {
  /** The calls as they were prepared, their messages as they were then. */
  readonly asked: Array<ModelCall>
  /** The requests as they were executed. */
  readonly executed: Array<ModelRequest>
  readonly provider: Service
  readonly router: Layer.Layer<ModelRouter.ModelRouter>
}

/** Plays the turns in order; the last one again and again. */
export const make = (...turns: ReadonlyArray<Turn>): Fake => {
  const asked: Array<ModelCall> = []
  const executed: Array<ModelRequest> = []
  const provider: Service = {
    info: { provider: "fake", model: "fake-1", apiMode: "chat_completions", baseUrl: undefined },
    apiMode: "chat_completions",
    prepare: (modelCall) =>
      Effect.sync(() => {
        asked.push({ ...modelCall, messages: [...modelCall.messages] })
        return { model: "fake-1", messages: modelCall.messages.map(({ role }) => ({ role })), stream: modelCall.stream }
      }),
    execute: (request, options) =>
      Effect.suspend(() => {
        const turn = turns[Math.min(executed.length, turns.length - 1)]
        executed.push(request)
        return turn === undefined ? Effect.die("a fake model without turns") : turn(request, options)
      }),
    decode: (raw) => Effect.succeed(textAnswer(`decoded ${JSON.stringify(raw)}`))
  }
  return { asked, executed, provider, router: ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, provider))) }
}
