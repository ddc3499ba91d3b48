/**
 * The request of chat completions for a model call. Pure, and free of the SDK: the same call on the same route is the same
 * request, byte for byte.
 *
 * Source: `hermes-llm.md` §4.1.
 *
 * @since 0.1.0
 */
import type { ModelCall, ModelRequest, ResponseFormat, ToolChoice, ToolDefinition } from "../../domain/Model.ts"
import type { Route } from "../../domain/Route.ts"
import * as OutputLimits from "../anthropic/OutputLimits.ts"
import type * as Raw from "../Raw.ts"
import * as Strict from "../Strict.ts"
import * as Dialect from "./Dialect.ts"
import * as Messages from "./Messages.ts"
import * as Reasoning from "./Reasoning.ts"

const wireTools = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<Raw.Fields>>()

/** Tools on the wire, made once for each array of tools. */
const toolsOf = (tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Raw.Fields> => {
  const found = wireTools.get(tools)
  if (found !== undefined) return found
  const made = tools.map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, ...(description === "" ? {} : { description }), parameters }
  }))
  wireTools.set(tools, made)
  return made
}

const toolChoiceOf = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", function: { name: choice.tool } }

const toolFields = ({ tools, toolChoice }: ModelCall): Raw.Fields =>
  tools.length === 0
    ? {}
    : {
      tools: toolsOf(tools),
      ...(toolChoice === "auto" ? {} : { tool_choice: toolChoiceOf(toolChoice) })
    }

const formatOf = (format: ResponseFormat, structured: Dialect.Dialect["structured"]): Raw.Fields => {
  if (format.type === "text") return {}
  if (structured === "json_object") return { response_format: { type: "json_object" } }
  const { name, schema } = format
  return {
    response_format: { type: "json_schema", json_schema: { name, schema, strict: Strict.holds(schema) } }
  }
}

const schemaMessage = (format: ResponseFormat, dialect: Dialect.Dialect): ReadonlyArray<Messages.WireMessage> =>
  format.type === "text" || dialect.structured === "json_schema" ? [] : [{
    role: dialect.systemRole,
    content: `Answer with one JSON object that fits this JSON Schema:\n${JSON.stringify(format.schema)}`
  }]

const aggregators: ReadonlySet<Dialect.Family> = new Set<Dialect.Family>(["openrouter", "nous", "gateway"])

/** Aggregators give Claude a small limit of their own unless one is named. */
const outputLimit = (call: ModelCall, dialect: Dialect.Dialect): number | undefined =>
  call.maxOutputTokens ??
    (aggregators.has(dialect.family) && dialect.model.includes("claude")
      ? OutputLimits.fit(OutputLimits.of(dialect.model), call.contextWindow)
      : undefined)

const limitFields = (call: ModelCall, dialect: Dialect.Dialect): Raw.Fields => {
  const limit = outputLimit(call, dialect)
  return {
    ...(limit === undefined ? {} : { [dialect.outputLimit]: limit }),
    ...(call.temperature === undefined || !dialect.temperature ? {} : { temperature: call.temperature })
  }
}

const streamFields = (call: ModelCall, dialect: Dialect.Dialect): Raw.Fields =>
  call.stream
    ? { stream: true, ...(dialect.streamOptions ? { stream_options: { include_usage: true } } : {}) }
    : {}

/** See the module. */
export const prepare = (call: ModelCall, route: Route): ModelRequest => {
  const dialect = Dialect.of(route)
  const reasoning = Reasoning.ask(call.reasoningEffort, dialect)
  const keyed = dialect.family === "openai" && call.sessionId !== undefined
  return {
    model: route.model,
    messages: [...Messages.toWire(call.messages, dialect), ...schemaMessage(call.responseFormat, dialect)],
    ...toolFields(call),
    ...formatOf(call.responseFormat, dialect.structured),
    ...limitFields(call, dialect),
    ...reasoning.body,
    ...(keyed ? { prompt_cache_key: call.sessionId } : {}),
    ...streamFields(call, dialect),
    ...(reasoning.extra === undefined && route.extraBody === undefined
      ? {}
      : { extra_body: { ...reasoning.extra, ...route.extraBody } })
  }
}
