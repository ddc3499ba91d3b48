/**
 * Contracts for the values that wrappers return. A value that breaks the contract of its kind is a fault of the
 * wrapper: an open wrapper is treated as if it had died, a closed one fails the call.
 *
 * **Details**
 *
 * | kind | value |
 * | --- | --- |
 * | `llm_execution` | a `ModelResponse`, or a response body of the route's `apiMode` |
 * | `wrap_model_call` | a `ModelAnswer` |
 * | `tool_execution`, `wrap_tool_call` | a `ToolOutput` whose `output` is compatible with JSON |
 * | `onPart`, `streamPart` | a list of parts of a streamed answer |
 * | `llm_request`, `tool_request` | `unchanged`, or `replacePayload` with an object |
 * | `afterModel` | `parsedResponse`: a text, and calls with an id and a name |
 *
 * A value that a wrapper passes through unchanged is never examined.
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import type * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Response from "effect/ai/Response"
import * as Json from "../base/domain/Json.ts"
import type { ModelResponse, StreamPart } from "../base/domain/ModelCall.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import type { LlmContext } from "./Kind.ts"
import type { ParsedResponse } from "./Lifecycle.ts"
import type { ModelAnswer } from "./Middleware.ts"

/** The contract of one kind of wrapper. */
export interface ResultContract<A, Info> {
  /** The expected value, in words that complete "it returned …, expected …". */
  readonly expected: string
  readonly isResult: (value: unknown) => value is A
  /** Reads a value in another form that the kind accepts, or returns `undefined`. */
  readonly read?: ((value: unknown, info: Info) => Effect.Effect<A, unknown> | undefined) | undefined
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => Predicate.isObject(value) && !Array.isArray(value)

const isText = (value: unknown): value is string => typeof value === "string"

const isNamedCall = (value: unknown): boolean => isFields(value) && isText(value["id"]) && isText(value["name"])

const isContentPart = (part: unknown): boolean => {
  if (!isFields(part)) return false
  switch (part["type"]) {
    case "text":
    case "reasoning":
      return isText(part["text"])
    case "tool-call":
      return isNamedCall(part)
    case "file":
      return isText(part["mediaType"])
    default:
      return false
  }
}

const isFinishReason = Schema.is(Response.FinishReason)

const isUsage = (usage: unknown): boolean =>
  isFields(usage) && isFields(usage["inputTokens"]) && isFields(usage["outputTokens"])

const isResponse = (value: unknown): value is ModelResponse =>
  isFields(value) &&
  Array.isArray(value["parts"]) &&
  value["parts"].every(isContentPart) &&
  isFinishReason(value["finishReason"]) &&
  isUsage(value["usage"])

const isRoute = (route: unknown): boolean =>
  isFields(route) && isText(route["provider"]) && isText(route["model"]) && isText(route["apiMode"])

/** Contract of `llm_execution`. */
export const response: ResultContract<ModelResponse, LlmContext> = {
  expected: "a ModelResponse or a response body of the route's apiMode",
  isResult: isResponse,
  read: (value, { decode }) => (isFields(value) && !("parts" in value) ? decode(value) : undefined)
}

/** Contract of `wrap_model_call`. */
export const answer: ResultContract<ModelAnswer, unknown> = {
  expected: "a ModelAnswer: a response, a route and an attempt",
  isResult: (value): value is ModelAnswer =>
    isFields(value) && isResponse(value["response"]) && isRoute(value["route"]) && typeof value["attempt"] === "number"
}

const isJson = (value: unknown): boolean => {
  try {
    return JSON.stringify(value) !== undefined
  } catch {
    return false
  }
}

/** Contract of `tool_execution` and `wrap_tool_call`. */
export const output: ResultContract<ToolOutput, unknown> = {
  expected: "a ToolOutput: an output that is compatible with JSON, and isFailure",
  isResult: (value): value is ToolOutput =>
    isFields(value) &&
    typeof value["isFailure"] === "boolean" &&
    isJson(value["output"]) &&
    (value["modelOutput"] === undefined || Array.isArray(value["modelOutput"]))
}

const streamed: Readonly<Record<StreamPart["type"], ReadonlyArray<string>>> = {
  "text-start": ["id"],
  "text-delta": ["id", "delta"],
  "text-end": ["id"],
  "reasoning-start": ["id"],
  "reasoning-delta": ["id", "delta"],
  "reasoning-end": ["id"],
  "tool-params-start": ["id", "name"],
  "tool-params-delta": ["id", "delta"],
  "tool-params-end": ["id"],
  "tool-call": ["id", "name"],
  file: ["mediaType"],
  "response-metadata": [],
  finish: ["reason"]
}

const isStreamPart = (part: unknown): boolean => {
  if (!isFields(part) || !isText(part["type"])) return false
  const texts = new Map(Object.entries(streamed)).get(part["type"])
  return texts !== undefined && texts.every((name) => isText(part[name]))
}

/** Returns whether a value is a list of parts of a streamed answer. */
export const isParts = (value: unknown): value is ReadonlyArray<StreamPart> =>
  Array.isArray(value) && value.every(isStreamPart)

/** Returns whether a value is the text and the calls of an answer. */
export const isParsedResponse = (value: unknown): value is ParsedResponse =>
  isFields(value) && isText(value["text"]) && Array.isArray(value["toolCalls"]) && value["toolCalls"].every(isNamedCall)

/** Returns whether a value is a payload of request middleware: an object, not a list or a text. */
export const isPayload = isFields

/** Creates the error of a wrapper that returned another value. */
export const makeError = (value: unknown, expected: string): TypeError =>
  new TypeError(`it returned ${Json.toText(value).slice(0, 80)}, expected ${expected}`)
