/**
 * The pure half of each protocol, loaded when it is asked for: requests are prepared and bodies read without an SDK.
 */
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { ModelCall, ModelRequest, ModelResponse } from "../../domain/Model.ts"
import type { Route } from "../../domain/Route.ts"
import type * as SdkError from "../SdkError.ts"

/** Preparation and reading of one protocol. */
export interface Protocol {
  readonly prepare: (call: ModelCall) => ModelRequest
  readonly decode: (raw: unknown) => Effect.Effect<ModelResponse, AiError.AiError>
}

const contextOf = (route: Route): SdkError.Context => ({
  module: "Replay",
  method: "decode",
  url: route.baseUrl,
  model: route.model
})

const load = async (route: Route): Promise<Protocol> => {
  const context = contextOf(route)
  switch (route.apiMode) {
    case "chat_completions": {
      const { prepare } = await import("../chat/Request.ts")
      const { decode } = await import("../chat/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "codex_responses": {
      const { prepare } = await import("../responses/Request.ts")
      const { decode } = await import("../responses/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "bedrock_converse": {
      const { prepare } = await import("../bedrock/Request.ts")
      const { decode } = await import("../bedrock/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "anthropic_messages": {
      const { prepare } = await import("../anthropic/Request.ts")
      const { decode } = await import("../anthropic/Decode.ts")
      return { prepare: (call) => prepare(call, route), decode: (raw) => Effect.fromResult(decode(raw, context)) }
    }
    case "language_model": {
      const { prepare } = await import("../foreign/Request.ts")
      const { decode } = await import("../foreign/Decode.ts")
      return {
        prepare,
        decode: (raw) =>
          Effect.mapError(decode(raw), (reason) => AiError.make({ module: "Replay", method: "decode", reason }))
      }
    }
  }
}

/** The protocol of a route. */
export const of = (route: Route): Effect.Effect<Protocol> => Effect.promise(() => load(route))
