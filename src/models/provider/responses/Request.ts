/**
 * Builds the Responses API request for a model call. It is pure and does not use the SDK: the same call on the same
 * route always produces the same request, byte for byte.
 *
 * **Details**
 *
 * The server stores nothing: every request contains the whole conversation, with the encrypted reasoning of earlier
 * turns. A request with a field unknown to the Responses API fails before it is sent, with an error that names the
 * field.
 *
 * Source: `hermes-llm.md` §4.3, §14.2.
 */
import { memoize } from "effect/Function"
import * as AiError from "effect/ai/AiError"
import type * as Json from "../../../base/domain/Json.ts"
import type {
  ModelCall,
  ModelRequest,
  ReasoningEffort,
  ResponseFormat,
  ToolChoice,
  ToolDefinition
} from "../../../base/domain/ModelCall.ts"
import type { Route } from "../../../base/domain/Route.ts"
import * as AnswerSchema from "../AnswerSchema.ts"
import * as CacheMarks from "../CacheMarks.ts"
import * as ModelAbilities from "../ModelAbilities.ts"
import type * as SdkError from "../SdkError.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Messages from "./Messages.ts"

// Tools

/** Returns the tools in the format of the API, created once for each array of tools. */
const getTools = memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Json.Fields> =>
  tools.map(({ name, description, parameters }) => ({ type: "function", name, description, strict: false, parameters }))
)

const toToolChoice = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", name: choice.tool }

const makeToolFields = ({ tools, toolChoice }: ModelCall): Json.Fields =>
  tools.length === 0 ? {} : { tools: getTools(tools), tool_choice: toToolChoice(toolChoice), parallel_tool_calls: true }

// Answer format

const makeTextFields = (format: ResponseFormat): Json.Fields =>
  format.type === "text"
    ? {}
    : {
        text: {
          format: {
            type: "json_schema",
            name: format.name,
            schema: format.schema,
            strict: AnswerSchema.isStrict(format.schema)
          }
        }
      }

// Limits and cache

const makeCacheFields = (backend: Endpoint.Backend, call: ModelCall, { model }: Route): Json.Fields => {
  const key = CacheMarks.makeCacheKey(call)
  if (key === undefined || backend === "github") return {}
  const retention =
    backend === "chatgpt"
      ? {}
      : CacheMarks.makeRetentionFields(call.cache, { model: toModelName(model), isOpenAi: backend === "openai" })
  return { prompt_cache_key: key, ...retention }
}

const makeLimitFields = (backend: Endpoint.Backend, thinks: boolean, call: ModelCall): Json.Fields =>
  backend === "chatgpt"
    ? {}
    : {
        ...(call.maxOutputTokens === undefined ? {} : { max_output_tokens: call.maxOutputTokens }),
        ...(call.temperature === undefined || thinks ? {} : { temperature: call.temperature })
      }

const makeExtraFields = (backend: Endpoint.Backend, call: ModelCall, route: Route): Json.Fields => ({
  ...(backend === "xai" && call.conversationId !== undefined
    ? { extra_headers: { "x-grok-conv-id": CacheMarks.makeCacheKey(call) } }
    : {}),
  ...(route.extraBody === undefined ? {} : { extra_body: { ...route.extraBody } })
})

// Reasoning

/** Returns a model id without its vendor prefix, in lower case. */
const toModelName = (model: string): string => {
  const name = model.trim().toLowerCase()
  return name.slice(name.lastIndexOf("/") + 1)
}

/** Returns `true` for Grok models that choose their own reasoning effort and reject a requested one. */
const refusesEffort = (model: string): boolean => /^grok-(4$|4-|4\.1|code)/.test(model)

/** Reasoning settings of a request: the `reasoning` field, and whether encrypted reasoning is requested. */
interface ReasoningFields {
  readonly reasoning: Json.Fields | undefined
  readonly encrypted: boolean
}

const silent: ReasoningFields = { reasoning: undefined, encrypted: false }

/** Creates the reasoning settings that request an effort from a backend, or that disable reasoning. */
const makeReasoningFields = (
  backend: Endpoint.Backend,
  model: string,
  effort: ReasoningEffort | undefined
): ReasoningFields => {
  if (effort === "none") return silent
  const name = toModelName(model)
  const wanted = effort ?? "medium"
  const level = wanted === "minimal" ? "low" : wanted
  const supported = ModelAbilities.toOpenAiEffort(name, level) ?? (level === "xhigh" ? "high" : level)
  switch (backend) {
    case "xai":
      return refusesEffort(name)
        ? { reasoning: undefined, encrypted: true }
        : { reasoning: { effort: level === "xhigh" ? "high" : level, summary: "auto" }, encrypted: true }
    case "github":
      return ModelAbilities.isReasoningModel(name)
        ? { reasoning: { effort: level === "xhigh" ? "high" : level }, encrypted: false }
        : silent
    case "chatgpt":
      return { reasoning: { effort: supported, summary: "auto" }, encrypted: true }
    case "openai":
      return ModelAbilities.isReasoningModel(name)
        ? { reasoning: { effort: supported, summary: "auto" }, encrypted: true }
        : silent
    case "other":
      return ModelAbilities.isReasoningModel(name) || effort !== undefined
        ? { reasoning: { effort: supported, summary: "auto" }, encrypted: true }
        : silent
  }
}

// Request

/** Default instructions for ChatGPT's backend, which refuses a request without instructions. */
const standIn = "You are a helpful assistant."

/**
 * Returns the path and the body of a request. A request with `compact` is sent to the endpoint that compacts
 * conversations.
 */
export const resolveRequestPath = ({
  compact,
  ...body
}: Json.Fields): { readonly path: string; readonly body: Json.Fields } => ({
  path: compact === true ? "/responses/compact" : "/responses",
  body
})

/** Creates the request for a call. */
export const prepare = (call: ModelCall, route: Route): ModelRequest => {
  const backend = Endpoint.findBackend(route)
  const { instructions = backend === "chatgpt" ? standIn : undefined, items } = Messages.toWire(call.messages)
  if (call.compact === true) {
    return {
      compact: true,
      model: route.model,
      ...(instructions === undefined ? {} : { instructions }),
      input: items,
      ...makeCacheFields(backend, call, route),
      ...(route.extraBody === undefined ? {} : { extra_body: { ...route.extraBody } })
    }
  }
  const { encrypted, reasoning } = makeReasoningFields(backend, route.model, call.reasoningEffort)
  return {
    model: route.model,
    ...(instructions === undefined ? {} : { instructions }),
    input: items,
    ...makeToolFields(call),
    store: false,
    ...(reasoning === undefined ? {} : { reasoning }),
    include: encrypted ? ["reasoning.encrypted_content"] : [],
    ...makeCacheFields(backend, call, route),
    ...makeTextFields(call.responseFormat),
    ...makeLimitFields(backend, reasoning !== undefined, call),
    ...(call.stream || backend === "chatgpt" ? { stream: true } : {}),
    ...makeExtraFields(backend, call, route)
  }
}

// Check

const requestFields = new Set([
  "background",
  "compact",
  "context_management",
  "conversation",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "metadata",
  "model",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoning",
  "safety_identifier",
  "service_tier",
  "store",
  "stream",
  "stream_options",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "truncation",
  "user",
  "extra_body",
  "extra_headers",
  "extra_query"
])

/** Returns an error if the request has a field unknown to the Responses API, otherwise `undefined`. */
export const findUnknownField = (request: ModelRequest, context: SdkError.Context): AiError.AiError | undefined => {
  const parameter = Object.keys(request).find((name) => !requestFields.has(name))
  return parameter === undefined
    ? undefined
    : AiError.make({
        module: context.module,
        method: context.method,
        reason: new AiError.InvalidRequestError({
          parameter,
          description: "the Responses API has no such field: put endpoint-specific fields in extra_body"
        })
      })
}
