/**
 * Reads a body of the Responses API. Whatever a server or a middleware answers is either a model response or an `AiError`
 * that says what is wrong with it; free of the SDK.
 *
 * Source: `hermes-llm.md` §4.3, §12.2, §15.1.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type { ContentPart, ModelResponse } from "../../domain/Model.ts"
import * as Body from "../Body.ts"
import * as CallIds from "../CallIds.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as Items from "./Items.ts"
import * as Outcome from "./Outcome.ts"
import * as Usage from "./Usage.ts"

/** Whether a part says nothing at all. */
const isEmpty = ({ metadata, text }: Items.TextItem): boolean => text === "" && Object.keys(metadata).length === 0

/** The part of an output item; undefined for items of other kinds, and for empty ones. */
const partOf = (item: Raw.Fields, index: number, taken: Set<string>): ContentPart | undefined => {
  switch (item["type"]) {
    case "reasoning": {
      const found = Items.reasoning(item)
      return isEmpty(found) ? undefined : Response.makePart("reasoning", found)
    }
    case "message": {
      const found = Items.message(item)
      return found.text === "" ? undefined : Response.makePart("text", found)
    }
    case "function_call": {
      const call = Items.call(item, index)
      const id = CallIds.unique(taken, call.id, index)
      return Response.makePart("tool-call", { ...call, id, providerExecuted: false })
    }
    default:
      return undefined
  }
}

const partsOf = (body: Raw.Fields): ReadonlyArray<ContentPart> => {
  const taken = new Set<string>()
  const parts = Raw.items(body["output"]).flatMap((item, index) => partOf(Raw.fields(item), index, taken) ?? [])
  const text = Raw.string(body["output_text"]) ?? ""
  return parts.length === 0 && text !== "" ? [Response.makePart("text", { text })] : parts
}

/** See the module. */
export const decode = (raw: unknown, context: SdkError.Context): Result.Result<ModelResponse, AiError.AiError> => {
  const invalid = (description: string): Result.Result<ModelResponse, AiError.AiError> =>
    Result.fail(SdkError.invalidResponse({ ...context, description, body: raw }))
  const body = Body.read(raw)
  if (typeof body === "string") return invalid(body)
  const failed = Outcome.failure(body, context)
  if (failed !== undefined) return Result.fail(failed)
  const { output } = body
  if (output !== undefined && output !== null && !Array.isArray(output)) return invalid("output is no list")
  const parts = partsOf(body)
  if (Raw.items(output).length === 0 && parts.length === 0 && body["status"] !== "incomplete") {
    return invalid("the answer has no output")
  }
  return Result.succeed({
    parts,
    finishReason: Outcome.finishReason(body, parts, false),
    usage: Usage.fromWire(body["usage"]),
    model: Raw.string(body["model"]),
    id: Raw.string(body["id"]),
    raw: body
  })
}
