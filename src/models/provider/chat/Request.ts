/**
 * Builds the chat completions request for a model call. It is pure and does not use the SDK: the same call on the same
 * route always produces the same request, byte for byte.
 *
 * Source: `hermes-llm.md` §4.1.
 */
import { memoize } from "effect/Function"
import type * as Json from "../../../base/domain/Json.ts"
import type {
  ModelCall,
  ModelRequest,
  PromptCache,
  ReasoningEffort,
  ResponseFormat,
  ToolChoice,
  ToolDefinition
} from "../../../base/domain/ModelCall.ts"
import type { Route } from "../../../base/domain/Route.ts"
import * as AnswerSchema from "../AnswerSchema.ts"
import * as CacheMarks from "../CacheMarks.ts"
import * as ModelAbilities from "../ModelAbilities.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Messages from "./Messages.ts"

// Tools

/** Returns the tools in the format of the API, created once for each array of tools. */
const getTools = memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Json.Fields> =>
  Messages.markConstant(
    tools.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, ...(description === "" ? {} : { description }), parameters }
    }))
  )
)

const toToolChoice = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", function: { name: choice.tool } }

const makeToolFields = ({ tools, toolChoice }: ModelCall): Json.Fields =>
  tools.length === 0
    ? {}
    : { tools: getTools(tools), ...(toolChoice === "auto" ? {} : { tool_choice: toToolChoice(toolChoice) }) }

// Answer format

const makeFormatFields = (format: ResponseFormat, structured: Endpoint.Endpoint["structured"]): Json.Fields => {
  if (format.type === "text") return {}
  if (structured === "json_object") return { response_format: { type: "json_object" } }
  const { name, schema } = format
  return {
    response_format: { type: "json_schema", json_schema: { name, schema, strict: AnswerSchema.isStrict(schema) } }
  }
}

const makeSchemaMessage = (format: ResponseFormat, endpoint: Endpoint.Endpoint): ReadonlyArray<Messages.WireMessage> =>
  format.type === "text" || endpoint.structured === "json_schema"
    ? []
    : [
        {
          role: endpoint.systemRole,
          content: `Answer with one JSON object that fits this JSON Schema:\n${JSON.stringify(format.schema)}`
        }
      ]

// Limits

const aggregators: ReadonlySet<Endpoint.Family> = new Set<Endpoint.Family>(["openrouter", "nous", "gateway"])

/**
 * Returns the output limit to send. For Claude at aggregators it defaults to the model's limit, because aggregators
 * otherwise apply a small default.
 */
const chooseOutputLimit = (call: ModelCall, endpoint: Endpoint.Endpoint): number | undefined =>
  call.maxOutputTokens ??
  (aggregators.has(endpoint.family) && endpoint.model.includes("claude")
    ? ModelAbilities.fitOutput(ModelAbilities.findOutputLimit(endpoint.model), call.contextWindow)
    : undefined)

const makeLimitFields = (call: ModelCall, endpoint: Endpoint.Endpoint): Json.Fields => {
  const limit = chooseOutputLimit(call, endpoint)
  return {
    ...(limit === undefined ? {} : { [endpoint.outputLimit]: limit }),
    ...(call.temperature === undefined || !endpoint.temperature ? {} : { temperature: call.temperature }),
    ...(call.seed === undefined ? {} : { seed: call.seed })
  }
}

const makeStreamFields = (call: ModelCall, endpoint: Endpoint.Endpoint): Json.Fields =>
  call.stream ? { stream: true, ...(endpoint.streamOptions ? { stream_options: { include_usage: true } } : {}) } : {}

// Reasoning

/** Fields of a request that the SDK supports, and additional fields for `extra_body`. */
interface ReasoningFields {
  readonly body?: Json.Fields
  readonly extra?: Json.Fields
}

const nothing: ReasoningFields = {}

/** Prefixes of model ids for which aggregators accept the `reasoning` object. */
const reasoningFamilies = [
  "deepseek/",
  "anthropic/",
  "openai/",
  "x-ai/",
  "google/gemini-2",
  "google/gemini-3",
  "qwen/qwen3"
]

const makeAggregatorReasoning = (effort: ReasoningEffort | undefined): Json.Fields =>
  effort === "none" ? { enabled: false } : { enabled: true, effort: effort ?? "medium" }

const toCopilotEffort = (effort: ReasoningEffort): string =>
  effort === "xhigh" || effort === "high" ? "high" : effort === "low" || effort === "minimal" ? "low" : "medium"

/**
 * Returns the thinking level for Gemini 3: Pro has two levels, Flash three. Returns `undefined` for older models, which
 * have no levels.
 */
const toGeminiLevel = (model: string, effort: ReasoningEffort): string | undefined => {
  if (!model.startsWith("gemini-3")) return undefined
  if (effort === "low" || effort === "minimal") return "low"
  return effort === "medium" && model.includes("flash") ? "medium" : "high"
}

const makeGeminiFields = (model: string, effort: ReasoningEffort | undefined): Json.Fields => {
  const level = effort === undefined || effort === "none" ? undefined : toGeminiLevel(model, effort)
  return {
    extra_body: {
      google: {
        thinking_config: {
          include_thoughts: effort !== "none",
          ...(level === undefined ? {} : { thinking_level: level })
        }
      }
    }
  }
}

/** Creates the fields of reasoning for the endpoints of a family. */
type ReasoningWriter = (effort: ReasoningEffort | undefined, endpoint: Endpoint.Endpoint) => ReasoningFields

const makeAggregatorFields: ReasoningWriter = (effort, { fullModel }) =>
  reasoningFamilies.some((family) => fullModel.startsWith(family))
    ? { extra: { reasoning: makeAggregatorReasoning(effort) } }
    : nothing

const makeOpenAiFields: ReasoningWriter = (effort, { model }) => {
  const own = effort === undefined ? undefined : ModelAbilities.toOpenAiEffort(model, effort)
  return own === undefined ? nothing : { body: { reasoning_effort: own } }
}

/** Creates a writer that only disables reasoning. */
const makeSwitch =
  (off: Json.Fields): ReasoningWriter =>
  (effort) =>
    effort === "none" ? { extra: off } : nothing

const disableThinking = makeSwitch({ thinking: { type: "disabled" } })
const stopThinking = makeSwitch({ think: false })

/** Fields of reasoning by family. Other families have no such field. */
const reasoningWriters: Partial<Record<Endpoint.Endpoint["family"], ReasoningWriter>> = {
  nous: (effort) => (effort === "none" ? nothing : { extra: { reasoning: makeAggregatorReasoning(effort) } }),
  openrouter: makeAggregatorFields,
  gateway: makeAggregatorFields,
  copilot: (effort, { model }) =>
    effort === undefined || effort === "none" || !ModelAbilities.isReasoningModel(model)
      ? nothing
      : { extra: { reasoning: { effort: toCopilotEffort(effort) } } },
  gemini: (effort, { model }) =>
    /^gemini-(2\.5|[3-9])/.test(model) ? { extra: makeGeminiFields(model, effort) } : nothing,
  openai: makeOpenAiFields,
  azure: makeOpenAiFields,
  deepseek: disableThinking,
  moonshot: disableThinking,
  zai: disableThinking,
  alibaba: makeSwitch({ enable_thinking: false }),
  ollama: stopThinking,
  other: stopThinking
}

/** Creates the fields that request a reasoning effort or disable reasoning. */
const makeReasoningFields: ReasoningWriter = (effort, endpoint) =>
  reasoningWriters[endpoint.family]?.(effort, endpoint) ?? nothing

// Prompt cache

const carriesMarks = CacheMarks.makeMarkTest("chat_completions")

/** Returns the prompt cache that a call asks for, on routes that take marks. */
const findCache = ({ cache }: ModelCall, route: Route): PromptCache | undefined =>
  CacheMarks.findForm(cache, route) === "envelope" ? cache : undefined

/**
 * Returns the cache mark for a model. Alibaba's models cache a prefix for five minutes and refuse a lifetime of one
 * hour.
 */
const chooseMark = (cache: PromptCache, { model }: Endpoint.Endpoint): CacheMarks.CacheControl =>
  CacheMarks.toCacheControl(model.includes("qwen") ? { ttl: "5m" } : cache)

// Request

/** Creates OpenAI's fields of the prompt cache. */
const makeCacheFields = (call: ModelCall, { family, model }: Endpoint.Endpoint): Json.Fields => {
  const own = { model, isOpenAi: family === "openai" }
  if (!CacheMarks.hasOpenAiFields(call.cache, own)) return {}
  const key = CacheMarks.makeCacheKey(call)
  return key === undefined ? {} : { prompt_cache_key: key, ...CacheMarks.makeRetentionFields(call.cache, own) }
}

/** Creates the request for a call. */
export const prepare = (call: ModelCall, route: Route): ModelRequest => {
  const endpoint = Endpoint.of(route)
  const reasoning = makeReasoningFields(call.reasoningEffort, endpoint)
  const schema = makeSchemaMessage(call.responseFormat, endpoint)
  const cache = findCache(call, route)
  const conversation = Messages.toWire(call.messages, endpoint, cache === undefined ? "string" : "part")
  const messages = schema.length === 0 ? conversation : conversation.concat(schema)
  return {
    model: route.model,
    messages:
      cache === undefined || carriesMarks(call.messages)
        ? messages
        : Messages.markForCache(messages, chooseMark(cache, endpoint), call.tools.length > 0),
    ...makeToolFields(call),
    ...makeFormatFields(call.responseFormat, endpoint.structured),
    ...makeLimitFields(call, endpoint),
    ...reasoning.body,
    ...makeCacheFields(call, endpoint),
    ...makeStreamFields(call, endpoint),
    ...(reasoning.extra === undefined && route.extraBody === undefined
      ? {}
      : { extra_body: { ...reasoning.extra, ...route.extraBody } })
  }
}
