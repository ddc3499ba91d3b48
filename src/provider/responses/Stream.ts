/**
 * Reads the events of a streamed response.
 *
 * **Details**
 *
 * The response is over with `response.completed`, `response.incomplete` or `response.done`, whose response has the usage and
 * the status. Where its output is empty, as ChatGPT's backend sends it, the body is filled from the items that streamed by;
 * where no item streamed by, the parts are made of its output. A stream without such an event was cut.
 *
 * Source: `hermes-llm.md` §4.3.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Json from "../../domain/Json.ts"
import type { ContentPart, StreamPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import type * as StreamMachine from "../StreamMachine.ts"
import * as Encode from "./Encode.ts"
import * as OpenItems from "./OpenItems.ts"
import * as Outcome from "./Outcome.ts"
import * as Usage from "./Usage.ts"

/** A machine at the start of a stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const items = OpenItems.make()
  let out: Array<StreamPart> = []
  let failure: AiError.AiError | undefined
  let introduced = false
  let refused = false
  /** The response of the last event. */
  let response: Raw.Fields | undefined

  const introduce = (body: Raw.Fields): void => {
    if (introduced) return
    introduced = true
    const id = Raw.string(body["id"])
    const modelId = Raw.string(body["model"])
    out.push(
      Response.makePart("response-metadata", {
        ...(id === undefined ? {} : { id }),
        ...(modelId === undefined ? {} : { modelId })
      })
    )
  }

  const finish = (body: Raw.Fields): void => {
    introduce(body)
    response = body
    const streamed = items.parts().length > 0 || items.finished().length > 0
    if (!streamed) {
      Raw.items(body["output"]).forEach((item, index) => items.done({ output_index: index, item }, out))
    }
    items.end(out)
  }

  const read = (event: Raw.Fields, name: string): AiError.AiError | undefined => {
    switch (name) {
      case "response.output_text.delta":
        items.delta(event, "text", event["content_index"], out)
        return
      case "response.refusal.delta":
        refused = true
        items.delta(event, "text", undefined, out)
        return
      case "response.reasoning_summary_text.delta":
        items.delta(event, "reasoning", event["summary_index"], out)
        return
      case "response.reasoning_text.delta":
        items.delta(event, "reasoning", event["content_index"], out)
        return
      case "response.function_call_arguments.delta":
        items.argumentsDelta(event, out)
        return
      case "response.output_item.added":
        items.added(event, out)
        return
      case "response.output_item.done":
        items.done(event, out)
        return
      case "response.created":
      case "response.in_progress":
        introduce(Raw.fields(event["response"]))
        return
      case "response.completed":
      case "response.incomplete":
      case "response.done":
      case "response.failed":
      case "response.cancelled": {
        const body = Raw.fields(event["response"])
        const failed = Outcome.failure(body, context)
        if (failed === undefined) finish(body)
        return failed
      }
      case "error":
        return SdkError.fromBody({ ...context, body: event })
      default:
        return event["error"] === undefined || event["error"] === null
          ? undefined
          : SdkError.fromBody({ ...context, body: event })
    }
  }

  const flush = (): ReadonlyArray<StreamPart> => {
    const parts = out
    out = []
    return parts
  }

  const output = (parts: ReadonlyArray<ContentPart>): unknown => {
    const sent = Raw.items(response?.["output"])
    if (sent.length > 0) return sent
    return items.finished().length > 0 ? items.finished() : Encode.output(parts)
  }

  return {
    step: (events) => {
      for (const { data, event } of events) {
        const value = Option.getOrUndefined(Json.parse(data))
        failure = Raw.isFields(value)
          ? read(value, Raw.string(value["type"]) ?? event ?? "")
          : SdkError.invalidResponse({ ...context, description: "an event of the stream is no JSON object", body: data })
        if (failure !== undefined || response !== undefined) break
      }
      return flush()
    },
    end: () => {
      if (failure !== undefined) return []
      if (response === undefined) {
        failure = introduced || items.parts().length > 0
          ? SdkError.cut(context)
          : SdkError.invalidResponse({ ...context, description: "the stream ended without an answer" })
        return []
      }
      const body = { ...response, output: output([]) }
      const reason = Outcome.finishReason(body, items.parts(), refused)
      out.push(Response.makePart("finish", { reason, usage: Usage.fromWire(response["usage"]), response: undefined }))
      return flush()
    },
    over: () => response !== undefined,
    failure: () => failure,
    body: (parts) => ({ ...response, output: output(parts) })
  }
}
