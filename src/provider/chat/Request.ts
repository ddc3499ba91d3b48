/**
 * The request of chat completions for a model call. Pure, and free of the SDK: the same call on the same route is the same
 * request, byte for byte.
 *
 * Source: `hermes-llm.md` §4.1.
 */
import { memoize } from "effect/Function"
import type * as Json from "../../domain/Json.ts"
import type { ModelCall, ModelRequest, PromptCache, ReasoningEffort, ResponseFormat, ToolChoice, ToolDefinition } from "../../domain/Model.ts"
import { abilities, type Route } from "../../domain/Route.ts"
import * as AnswerSchema from "../AnswerSchema.ts"
import * as CacheMarks from "../CacheMarks.ts"
import * as ModelAbilities from "../ModelAbilities.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Messages from "./Messages.ts"

// Tools

/** Tools on the wire, made once for each array of tools. */
const toolsOf = memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Json.Fields> =>
  Messages.constant(tools.map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, ...(description === "" ? {} : { description }), parameters }
  }))))

const toolChoiceOf = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", function: { name: choice.tool } }

const toolFields = ({ tools, toolChoice }: ModelCall): Json.Fields =>
  tools.length === 0
    ? {}
    : {
      tools: toolsOf(tools),
      ...(toolChoice === "auto" ? {} : { tool_choice: toolChoiceOf(toolChoice) })
    }

// Answer format

const formatOf = (format: ResponseFormat, structured: Endpoint.Endpoint["structured"]): Json.Fields => {
  if (format.type === "text") return {}
  if (structured === "json_object") return { response_format: { type: "json_object" } }
  const { name, schema } = format
  return {
    response_format: { type: "json_schema", json_schema: { name, schema, strict: AnswerSchema.isStrict(schema) } }
  }
}

const schemaMessage = (format: ResponseFormat, endpoint: Endpoint.Endpoint): ReadonlyArray<Messages.WireMessage> =>
  format.type === "text" || endpoint.structured === "json_schema" ? [] : [{
    role: endpoint.systemRole,
    content: `Answer with one JSON object that fits this JSON Schema:\n${JSON.stringify(format.schema)}`
  }]

// Limits

const aggregators: ReadonlySet<Endpoint.Family> = new Set<Endpoint.Family>(["openrouter", "nous", "gateway"])

/** Aggregators give Claude a small limit of their own unless one is named. */
const outputLimit = (call: ModelCall, endpoint: Endpoint.Endpoint): number | undefined =>
  call.maxOutputTokens ??
    (aggregators.has(endpoint.family) && endpoint.model.includes("claude")
      ? ModelAbilities.fitOutput(ModelAbilities.outputLimit(endpoint.model), call.contextWindow)
      : undefined)

const limitFields = (call: ModelCall, endpoint: Endpoint.Endpoint): Json.Fields => {
  const limit = outputLimit(call, endpoint)
  return {
    ...(limit === undefined ? {} : { [endpoint.outputLimit]: limit }),
    ...(call.temperature === undefined || !endpoint.temperature ? {} : { temperature: call.temperature }),
    ...(call.seed === undefined ? {} : { seed: call.seed })
  }
}

const streamFields = (call: ModelCall, endpoint: Endpoint.Endpoint): Json.Fields =>
  call.stream
    ? { stream: true, ...(endpoint.streamOptions ? { stream_options: { include_usage: true } } : {}) }
    : {}

// Reasoning

/** Fields of a request: those that the SDK knows, and those for `extra_body`. */
interface ReasoningFields {
  readonly body?: Json.Fields
  readonly extra?: Json.Fields
}

const nothing: ReasoningFields = {}

/** Model ids at aggregators that take the `reasoning` object. */
const reasoningFamilies = [
  "deepseek/",
  "anthropic/",
  "openai/",
  "x-ai/",
  "google/gemini-2",
  "google/gemini-3",
  "qwen/qwen3"
]

const aggregated = (effort: ReasoningEffort | undefined): Json.Fields =>
  effort === "none" ? { enabled: false } : { enabled: true, effort: effort ?? "medium" }

const copilotEffort = (effort: ReasoningEffort): string =>
  effort === "xhigh" || effort === "high" ? "high" : effort === "low" || effort === "minimal" ? "low" : "medium"

/** Thinking levels of Gemini 3: Pro has two of them, Flash three; older models have none. */
const geminiLevel = (model: string, effort: ReasoningEffort): string | undefined => {
  if (!model.startsWith("gemini-3")) return undefined
  if (effort === "low" || effort === "minimal") return "low"
  return effort === "medium" && model.includes("flash") ? "medium" : "high"
}

const gemini = (model: string, effort: ReasoningEffort | undefined): Json.Fields => {
  const level = effort === undefined || effort === "none" ? undefined : geminiLevel(model, effort)
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

/** The fields that ask for a reasoning effort, or for none. */
const reasoningFields = (effort: ReasoningEffort | undefined, endpoint: Endpoint.Endpoint): ReasoningFields => {
  switch (endpoint.family) {
    case "nous":
      return effort === "none" ? nothing : { extra: { reasoning: aggregated(effort) } }
    case "openrouter":
    case "gateway":
      return reasoningFamilies.some((family) => endpoint.fullModel.startsWith(family))
        ? { extra: { reasoning: aggregated(effort) } }
        : nothing
    case "copilot":
      return effort === undefined || effort === "none" || !ModelAbilities.reasons(endpoint.model)
        ? nothing
        : { extra: { reasoning: { effort: copilotEffort(effort) } } }
    case "gemini":
      return /^gemini-(2\.5|[3-9])/.test(endpoint.model) ? { extra: gemini(endpoint.model, effort) } : nothing
    case "openai":
    case "azure": {
      const own = effort === undefined ? undefined : ModelAbilities.openAiEffort(endpoint.model, effort)
      return own === undefined ? nothing : { body: { reasoning_effort: own } }
    }
    case "deepseek":
    case "moonshot":
    case "zai":
      return effort === "none" ? { extra: { thinking: { type: "disabled" } } } : nothing
    case "alibaba":
      return effort === "none" ? { extra: { enable_thinking: false } } : nothing
    case "ollama":
    case "other":
      return effort === "none" ? { extra: { think: false } } : nothing
    default:
      return nothing
  }
}

// Prompt cache

const carriesMarks = CacheMarks.carried("chat_completions")

const takesMarks = (call: ModelCall, route: Route): call is ModelCall & { readonly cache: PromptCache } =>
  call.cache !== undefined && abilities(route).cacheMarks === "envelope" && !carriesMarks(call.messages)

/** Models of Alibaba keep a prefix for five minutes and refuse an hour. */
const markOf = (cache: PromptCache, { model }: Endpoint.Endpoint): CacheMarks.CacheControl =>
  CacheMarks.cacheControl(model.includes("qwen") ? { ttl: "5m" } : cache)

// Request

/** The request of a call. */
export const prepare = (call: ModelCall, route: Route): ModelRequest => {
  const endpoint = Endpoint.of(route)
  const reasoning = reasoningFields(call.reasoningEffort, endpoint)
  const schema = schemaMessage(call.responseFormat, endpoint)
  const conversation = Messages.toWire(call.messages, endpoint)
  const messages = schema.length === 0 ? conversation : conversation.concat(schema)
  return {
    model: route.model,
    messages: takesMarks(call, route) ? Messages.withMarks(messages, markOf(call.cache, endpoint)) : messages,
    ...toolFields(call),
    ...formatOf(call.responseFormat, endpoint.structured),
    ...limitFields(call, endpoint),
    ...reasoning.body,
    ...(endpoint.family === "openai" && call.conversationId !== undefined ? { prompt_cache_key: CacheMarks.key(call.conversationId) } : {}),
    ...streamFields(call, endpoint),
    ...(reasoning.extra === undefined && route.extraBody === undefined
      ? {}
      : { extra_body: { ...reasoning.extra, ...route.extraBody } })
  }
}
