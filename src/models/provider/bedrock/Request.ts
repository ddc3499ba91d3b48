/**
 * Builds the Converse request of a route for a model call, without sending it. The request is the input of the AWS
 * SDK's command, plus the additional key `stream`, which selects one of the two commands.
 *
 * **Details**
 *
 * - `maxTokens` is 4 096 unless the call requests another limit, and always less than the context window if its size is
 *   known.
 * - Claude's thinking is configured in `additionalModelRequestFields`; other models use their default.
 * - Tools are omitted for models that do not support them, and for the tool choice `none`, which Converse does not
 *   support.
 * - The route's guardrail is `guardrailConfig`; its stream mode is sent only with streamed calls, as the API requires.
 * - A schema for the answer is sent in `outputConfig` if the Claude model supports it, otherwise in the system prompt.
 * - Fields that Converse does not know (for example `top_k` from `extra_body`) are passed to the underlying model:
 *   {@link toCommandInput} puts them into `additionalModelRequestFields`, which takes precedence.
 *
 * Source: `hermes-llm.md` §4.4, §14.2.
 */
import { memoize } from "effect/Function"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"
import type { ModelCall, ModelRequest, ToolChoice, ToolDefinition } from "../../../base/domain/ModelCall.ts"
import * as Route from "../../../base/domain/Route.ts"
import * as AnswerSchema from "../AnswerSchema.ts"
import * as BlockMessages from "../BlockMessages.ts"
import * as CacheMarks from "../CacheMarks.ts"
import * as ModelAbilities from "../ModelAbilities.ts"
import * as Messages from "./Messages.ts"

// Tools

const toChoice = (choice: Exclude<ToolChoice, "none">): Readonly<Record<string, unknown>> =>
  typeof choice === "object" ? { tool: { name: choice.tool } } : choice === "required" ? { any: {} } : { auto: {} }

/** Returns the tools in the format of the API, created once for each array of tools. */
const getTools = memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<unknown> =>
  tools.map(({ description, name, parameters }) => ({
    toolSpec: {
      name,
      ...(description.trim() === "" ? {} : { description }),
      inputSchema: {
        json: parameters["type"] === "object" ? parameters : { properties: {}, ...parameters, type: "object" }
      }
    }
  }))
)

/**
 * Tests whether a model caches a prefix that ends after the tools. Claude does; Amazon's own models cache only after
 * the system prompt and after messages.
 */
const marksTools = (model: string): boolean => model.toLowerCase().includes("claude")

// System prompt

const collectSystemBlocks = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Messages.TextBlock> =>
  BlockMessages.systemMessages(messages).flatMap(({ content }) =>
    content.trim() === "" ? [] : [{ text: content.toWellFormed() }]
  )

// Reasoning and limits

const defaultMaxTokens = 4_096

/** Substrings of model ids that identify models without tool support. */
const modelsWithoutTools: ReadonlyArray<string> = [
  "deepseek.r1",
  "deepseek-r1",
  "amazon.titan",
  "stability.",
  "cohere.embed"
]

/** Capabilities of a model on Converse. */
interface Model {
  readonly abilities: ModelAbilities.ClaudeAbilities
  readonly tools: boolean
}

const others: ModelAbilities.ClaudeAbilities = { thinking: "never", xhigh: false, sampling: true, structured: false }

const describeModel = (id: string): Model => {
  const name = id.toLowerCase()
  return {
    abilities: name.includes("claude") ? ModelAbilities.findClaudeAbilities(name) : others,
    tools: !modelsWithoutTools.some((part) => name.includes(part))
  }
}

const makeThinkingFields = (thinking: ModelAbilities.Thinking): Readonly<Record<string, unknown>> | undefined => {
  switch (thinking?.style) {
    case "adaptive":
      return { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: thinking.effort } }
    case "budget":
      return { thinking: { type: "enabled", budget_tokens: thinking.tokens } }
    default:
      return undefined
  }
}

const chooseTemperature = (
  call: ModelCall,
  thinking: ModelAbilities.Thinking,
  abilities: ModelAbilities.ClaudeAbilities
): { readonly temperature?: number } => {
  if (!abilities.sampling || thinking?.style === "adaptive") return {}
  if (thinking?.style === "budget") return { temperature: 1 }
  return call.temperature === undefined ? {} : { temperature: call.temperature }
}

const makeGuardrailFields = ({ guardrail }: Route.Route, stream: boolean): Readonly<Record<string, unknown>> => {
  if (guardrail === undefined) return {}
  const { guardrailIdentifier, guardrailVersion, streamProcessingMode, trace } = guardrail
  return {
    guardrailConfig: {
      guardrailIdentifier,
      guardrailVersion,
      ...(trace === undefined ? {} : { trace }),
      ...(stream && streamProcessingMode !== undefined ? { streamProcessingMode } : {})
    }
  }
}

const makeOutputFields = (format: AnswerSchema.FormatPlan["field"]): Readonly<Record<string, unknown>> =>
  format === undefined
    ? {}
    : {
        outputConfig: {
          textFormat: {
            type: "json_schema",
            structure: {
              jsonSchema: { name: format.name, schema: JSON.stringify(AnswerSchema.closeSchema(format.schema)) }
            }
          }
        }
      }

const makeExtraFields = ({ extraBody }: Route.Route): Readonly<Record<string, unknown>> =>
  extraBody === undefined || Object.keys(extraBody).length === 0 ? {} : { extra_body: extraBody }

/** Returns the thinking configuration for an effort. A tool choice other than `auto` disables thinking. */
const chooseThinking = (
  call: ModelCall,
  choice: ModelCall["toolChoice"] | undefined,
  abilities: ModelAbilities.ClaudeAbilities
): ModelAbilities.Thinking =>
  choice === undefined || choice === "auto" ? ModelAbilities.chooseThinking(call.reasoningEffort, abilities) : undefined

// Request

/** Everything about the requests of a route that does not depend on the call. */
interface RequestForm {
  readonly route: Route.Route
  readonly abilities: ModelAbilities.ClaudeAbilities
  /** True if the model takes a cache point after the tools. */
  readonly pointsTools: boolean
  readonly opensTurn: typeof Messages.opensTurn | undefined
}

/** Returns the cache point of a call, if it asks for a cache. */
const choosePoint = ({ route }: RequestForm, { cache }: ModelCall) =>
  cache !== undefined && CacheMarks.findForm(cache, route) === "cache_points"
    ? Messages.makeCachePoint(cache)
    : undefined

/** A tool choice of the API, or `undefined` for a request without tools. */
type Choice = Exclude<ModelCall["toolChoice"], "none"> | undefined

/** Adds cache points to the parts of a request that the model reads, if the call asks for a cache. */
const placePoints = (
  form: RequestForm,
  call: ModelCall,
  choice: Choice,
  written: ReadonlyArray<Messages.Message>,
  system: ReadonlyArray<Messages.TextBlock>
) => {
  const { opensTurn } = form
  const toToolFields = (tools: ReadonlyArray<unknown>) =>
    choice === undefined ? {} : { toolConfig: { tools, toolChoice: toChoice(choice) } }
  const point = choosePoint(form, call)
  const tools = choice === undefined ? [] : getTools(call.tools)
  if (point === undefined)
    return { messages: written, systemFields: system.length === 0 ? {} : { system }, toolFields: toToolFields(tools) }
  // The prefix up to the system prompt includes the tools, so the message that opened the turn gets their point.
  const pointsTools = choice !== undefined && form.pointsTools && (opensTurn === undefined || system.length === 0)
  const before = (system.length > 0 ? 1 : 0) + (pointsTools ? 1 : 0)
  return {
    messages: CacheMarks.markConversation(
      written,
      { before, hasTools: choice !== undefined, opensTurn },
      ({ content, role }) => ({ role, content: [...content, point] })
    ),
    systemFields: system.length === 0 ? {} : { system: [...system, point] },
    toolFields: toToolFields(pointsTools ? [...tools, point] : tools)
  }
}

/**
 * Creates a function that converts the calls of one route to requests. It caches the messages that it has converted.
 */
export const make = (route: Route.Route): ((call: ModelCall) => ModelRequest) => {
  const { abilities, tools } = describeModel(route.model)
  const withTools = Messages.makeToolDialect()
  const withoutTools = Messages.makePlainDialect()
  const writeWithTools = BlockMessages.makeWriter(withTools)
  const writeWithoutTools = BlockMessages.makeWriter(withoutTools)
  const form: RequestForm = {
    route,
    abilities,
    pointsTools: marksTools(route.model),
    opensTurn: Route.abilities(route).thinking === "tool_loop" ? Messages.opensTurn : undefined
  }
  return (call) => {
    const choice = !tools || call.tools.length === 0 || call.toolChoice === "none" ? undefined : call.toolChoice
    const [dialect, toWire] = choice === undefined ? [withoutTools, writeWithoutTools] : [withTools, writeWithTools]
    const { field, instruction } = AnswerSchema.planFormat(call, abilities.structured)
    const system = [
      ...collectSystemBlocks(call.messages),
      ...(instruction === undefined ? [] : [{ text: instruction }])
    ]
    const { messages, systemFields, toolFields } = placePoints(form, call, choice, toWire(call.messages), system)
    const wanted = chooseThinking(call, choice, abilities)
    const isRefused = wanted?.style === "budget" && BlockMessages.calledWithoutThinking(messages, dialect)
    const { maxTokens, thinking } = ModelAbilities.fitThinking(
      call.maxOutputTokens ?? defaultMaxTokens,
      call.contextWindow,
      isRefused ? undefined : wanted
    )
    const additional = makeThinkingFields(thinking)
    return {
      modelId: route.model,
      messages: Messages.endWithUserMessage(messages),
      ...systemFields,
      inferenceConfig: { maxTokens, ...chooseTemperature(call, thinking, abilities) },
      ...toolFields,
      ...(additional === undefined ? {} : { additionalModelRequestFields: additional }),
      ...makeGuardrailFields(route, call.stream),
      ...makeOutputFields(field),
      ...(call.stream ? { stream: true } : {}),
      ...makeExtraFields(route)
    }
  }
}

/** Like {@link make}, but converts a single call and caches nothing. */
export const prepare = (call: ModelCall, route: Route.Route): ModelRequest => make(route)(call)

// SDK input

const converseFields = new Set([
  "modelId",
  "messages",
  "system",
  "inferenceConfig",
  "toolConfig",
  "guardrailConfig",
  "additionalModelRequestFields",
  "promptVariables",
  "additionalModelResponseFieldPaths",
  "requestMetadata",
  "performanceConfig",
  "serviceTier",
  "outputConfig"
])

/** Converts a request, after middleware has processed it, to the input of the SDK's command. */
export const toCommandInput = (body: Json.Fields): Json.Fields => {
  const known: Record<string, unknown> = {}
  const additional: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body)) {
    if (name === "stream") continue
    if (converseFields.has(name)) known[name] = value
    else additional[name] = value
  }
  return Object.keys(additional).length === 0
    ? known
    : {
        ...known,
        additionalModelRequestFields: { ...Json.readFields(known["additionalModelRequestFields"]), ...additional }
      }
}
