// What the tests of providers share: questions, and answers as plain data.
import { LLMock } from "@copilotkit/aimock"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ModelRequest, ModelResponse, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import type { Service } from "../../../src/models/provider/Provider.ts"

export const user = (text: string): Prompt.Message => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

export const terminal = {
  name: "terminal",
  description: "Runs a command",
  parameters: { type: "object", properties: {} }
}

export const call = (text: string, more: Partial<ModelCall> = {}): ModelCall => ({
  messages: [user(text)],
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  ...more
})

export const mock = Effect.acquireRelease(
  Effect.promise(() => LLMock.create({ port: 0, host: "127.0.0.1", chunkSize: 4 })),
  (mock) => Effect.promise(() => mock.stop())
)

/** The parts of an answer as plain data. */
export const plain = (response: ModelResponse): ReadonlyArray<unknown> =>
  response.parts.map((part) =>
    part.type === "tool-call"
      ? [
          part.type,
          part.id,
          part.name,
          part.params,
          ...(Object.keys(part.metadata).length === 0 ? [] : [part.metadata])
        ]
      : part.type === "file"
        ? [part.type, part.mediaType]
        : [part.type, part.text, ...(Object.keys(part.metadata).length === 0 ? [] : [part.metadata])]
  )

/** Prepares, sends, and keeps what streamed by. */
export const ask = Effect.fnUntraced(function* (provider: Service, question: ModelCall, more: ModelRequest = {}) {
  const request = { ...(yield* provider.prepare(question)), ...more }
  const seen: Array<ReadonlyArray<StreamPart>> = []
  const onPart = (parts: ReadonlyArray<StreamPart>) => Effect.sync(() => (seen.push(parts), parts))
  const response = yield* provider.execute(request, question.stream ? { onPart } : undefined)
  return { request, response, seen: seen.flat(), reads: seen.length }
})

/** The reason that something failed for. */
export const reasonOf = (exit: Exit.Exit<unknown, unknown>): AiError.AiErrorReason => {
  const error = Exit.findErrorOption(exit)
  assert(error._tag === "Some" && AiError.isAiError(error.value), String(exit))
  return error.value.reason
}

export const failing = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<AiError.AiErrorReason, never, R> =>
  Effect.map(Effect.exit(effect), reasonOf)
