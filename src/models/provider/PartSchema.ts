/**
 * Schemas of the parts of answers, for code that stores or transmits them in encoded form. Calls to any tool are
 * accepted, with any value as their `params`.
 */
import * as Schema from "effect/Schema"
import * as Response from "effect/ai/Response"

const ToolCall = Response.ToolCallPart("", Schema.Unknown).mapFields((fields) => ({ ...fields, name: Schema.String }))

/** Schema of the content parts of a complete answer. */
export const ContentPart = Schema.Union([Response.TextPart, Response.ReasoningPart, ToolCall, Response.FilePart])

/** Schema of the parts of a complete answer, including its metadata and finish parts. */
export const AnswerPart = Schema.Union([ContentPart, Response.ResponseMetadataPart, Response.FinishPart])

/** Schema of the parts of a stream. */
export const StreamPart = Schema.Union([
  Response.TextStartPart,
  Response.TextDeltaPart,
  Response.TextEndPart,
  Response.ReasoningStartPart,
  Response.ReasoningDeltaPart,
  Response.ReasoningEndPart,
  Response.ToolParamsStartPart,
  Response.ToolParamsDeltaPart,
  Response.ToolParamsEndPart,
  ToolCall,
  Response.FilePart,
  Response.ResponseMetadataPart,
  Response.FinishPart
])
