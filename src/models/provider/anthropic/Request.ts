/**
 * The request of one route of the Messages API for a model call. Pure, and free of the SDK: the same call on the same
 * route is the same request, byte for byte.
 *
 * **Details**
 *
 * - `max_tokens` is what the call asks for, else the model's own limit, and always less than a known window.
 * - Thinking by a budget raises `max_tokens` so that an answer fits above it and fixes `temperature` at 1; where
 *   a window leaves no room for both, there is no thinking. Thinking by effort leaves `temperature` out.
 * - Thinking is left out of a request that forces a tool call, and, by a budget, of one whose newest assistant message
 *   called tools without thinking (another provider's, after a fallback): the API refuses both.
 * - Old results of tools are left out by Anthropic's context management where the call says so and the route can; its
 *   beta comes along.
 * - `speed: fast` in the route's `extraBody` brings its beta along, and is dropped where Anthropic does not answer.
 *
 * Source: `hermes-llm.md` §4.2, §14.2.
 */
import { memoize } from "effect/Function"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Prompt from "effect/ai/Prompt"
import type {
  ContextEdits,
  ModelCall,
  ModelRequest,
  ToolChoice,
  ToolDefinition
} from "../../../base/domain/ModelCall.ts"
import * as Route from "../../../base/domain/Route.ts"
import * as AnswerSchema from "../AnswerSchema.ts"
import * as BlockMessages from "../BlockMessages.ts"
import * as CacheMarks from "../CacheMarks.ts"
import * as ModelAbilities from "../ModelAbilities.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Messages from "./Messages.ts"

// Tools

/** A tool on the wire. */
interface Tool {
  readonly name: string
  readonly description: string
  readonly input_schema: JsonSchema.JsonSchema
  readonly cache_control?: CacheMarks.CacheControl
}

/** A converter with a memory: the tools of a run are one array as long as they are the same. */
const rememberTools = (names: Endpoint.ToolNames) =>
  memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Tool> =>
    tools.map(({ description, name, parameters }) => ({
      name: names.toWire(name),
      description,
      input_schema: parameters["type"] === "object" ? parameters : { properties: {}, ...parameters, type: "object" }
    }))
  )

/** The choice on the wire; undefined for `none`, which leaves the tools out. */
const toChoice = (toolChoice: ToolChoice, names: Endpoint.ToolNames): Readonly<Record<string, string>> | undefined => {
  if (typeof toolChoice === "object") return { type: "tool", name: names.toWire(toolChoice.tool) }
  switch (toolChoice) {
    case "auto":
      return { type: "auto" }
    case "required":
      return { type: "any" }
    case "none":
      return undefined
  }
}

/** Tools with a mark after the last one. */
const withToolMark = memoize((tools: ReadonlyArray<Tool>) =>
  memoize((marker: CacheMarks.CacheControl): ReadonlyArray<Tool> => {
    const last = tools.at(-1)
    return last === undefined ? tools : [...tools.slice(0, -1), { ...last, cache_control: marker }]
  })
)

// System prompt

const makeTextBlock = (text: string): Messages.TextBlock => ({ type: "text", text })

const makeSystemBlocks = (
  messages: ReadonlyArray<Prompt.Message>,
  rewrite: ((text: string) => string) | undefined
): ReadonlyArray<Messages.TextBlock> =>
  BlockMessages.systemMessages(messages).flatMap((message) => {
    if (message.content.trim() === "") return []
    const marker = Messages.readCacheControl(message.options)
    const block = makeTextBlock((rewrite === undefined ? message.content : rewrite(message.content)).toWellFormed())
    return [marker === undefined ? block : { ...block, cache_control: marker }]
  })

/** One string, or blocks where a block has to stay one: before a cache breakpoint and after the identity. */
const toSystemField = (
  blocks: ReadonlyArray<Messages.TextBlock>
): string | ReadonlyArray<Messages.TextBlock> | undefined => {
  if (blocks.length === 0) return undefined
  const apart = blocks.some((block) => block.cache_control !== undefined || block.text === Endpoint.identity)
  return apart ? blocks : blocks.map((block) => block.text).join("\n\n")
}

/** The system prompt with a mark after it. */
const addSystemMark = (
  blocks: ReadonlyArray<Messages.TextBlock>,
  marker: CacheMarks.CacheControl
): ReadonlyArray<Messages.TextBlock> => {
  const last = blocks.at(-1)
  return last === undefined ? blocks : [...blocks.slice(0, -1), { ...last, cache_control: { ...marker } }]
}

const carriesMarks = CacheMarks.makeMarkTest("anthropic_messages")

// Reasoning and limits

const makeThinkingFields = (thinking: ModelAbilities.Thinking): ModelRequest => {
  switch (thinking?.style) {
    case "adaptive":
      return { thinking: { type: "adaptive", display: "summarized" } }
    case "budget":
      return { thinking: { type: "enabled", budget_tokens: thinking.tokens } }
    default:
      return {}
  }
}

const chooseTemperature = (
  call: ModelCall,
  thinking: ModelAbilities.Thinking,
  abilities: ModelAbilities.ClaudeAbilities
): ModelRequest => {
  if (!abilities.sampling || thinking?.style === "adaptive") return {}
  if (thinking?.style === "budget") return { temperature: 1 }
  return call.temperature === undefined ? {} : { temperature: call.temperature }
}

const makeOutputConfig = (thinking: ModelAbilities.Thinking, schema: unknown): ModelRequest => {
  const fields = {
    ...(thinking?.style === "adaptive" ? { effort: thinking.effort } : {}),
    ...(schema === undefined ? {} : { format: { type: "json_schema", schema } })
  }
  return Object.keys(fields).length === 0 ? {} : { output_config: fields }
}

// Context management

/** Default window of Claude, in tokens. */
const claudeWindow = 200_000
/** Share of the trigger that is left out at least, so that a new prefix for the cache is worth it. */
const leastCleared = 0.1

const makeContextManagement = ({ keepResults, threshold }: ContextEdits, window = claudeWindow): ModelRequest => {
  const trigger = Math.max(1, Math.floor(window * threshold))
  return {
    context_management: {
      edits: [
        {
          type: "clear_tool_uses_20250919",
          trigger: { type: "input_tokens", value: trigger },
          keep: { type: "tool_uses", value: keepResults },
          clear_at_least: { type: "input_tokens", value: Math.ceil(trigger * leastCleared) }
        }
      ]
    }
  }
}

// Request

const collectExtras = (route: Route.Route, endpoint: Endpoint.Endpoint, more: ReadonlyArray<string>): ModelRequest => {
  const { speed, ...body } = route.extraBody ?? {}
  const fast = speed === "fast" && endpoint.native
  const extra = speed === undefined || (speed === "fast" && !fast) ? body : { ...body, speed }
  const wanted = [...(fast ? [Endpoint.fastBeta] : []), ...more]
  const betas =
    wanted.length === 0 ? undefined : Endpoint.joinBetas(Endpoint.listBetas(endpoint).join(","), wanted.join(","))
  return {
    ...(Object.keys(extra).length === 0 ? {} : { extra_body: extra }),
    ...(betas === undefined ? {} : { extra_headers: { "anthropic-beta": betas } })
  }
}

/** Turns the calls of one route into requests; remembers the messages that it has converted. */
export const make = (route: Route.Route): ((call: ModelCall) => ModelRequest) => {
  const endpoint = Endpoint.fromRoute(route)
  const abilities = ModelAbilities.findClaudeAbilities(endpoint.model)
  const subscribed = endpoint.auth === "subscription"
  const names = Endpoint.makeToolNames(endpoint)
  const dialect = Messages.makeDialect(names)
  const toWire = BlockMessages.makeWriter(dialect)
  const convertTools = rememberTools(names)
  const identity: ReadonlyArray<Messages.TextBlock> = subscribed ? [makeTextBlock(Endpoint.identity)] : []
  const rewrite = subscribed ? Endpoint.rewriteSystemText : undefined
  const replaysThinking = Route.abilities(route).thinking !== "none"
  const takesMarks = Route.abilities(route).cacheMarks === "native"
  const structured = endpoint.native && abilities.structured
  const takesEdits = Route.abilities(route).compaction === "edits"
  const fixed = collectExtras(route, endpoint, [])
  const fixedWithEdits = takesEdits ? collectExtras(route, endpoint, [Endpoint.editsBeta]) : fixed

  return (call) => {
    const written = toWire(call.messages)
    const format = call.responseFormat.type === "json" ? call.responseFormat : undefined
    const blocks: ReadonlyArray<Messages.TextBlock> = [
      ...identity,
      ...makeSystemBlocks(call.messages, rewrite),
      ...(format === undefined || structured ? [] : [makeTextBlock(AnswerSchema.renderInstruction(format.schema))])
    ]
    const choice = call.tools.length === 0 ? undefined : toChoice(call.toolChoice, names)
    const marker =
      takesMarks && call.cache !== undefined && !carriesMarks(call.messages)
        ? CacheMarks.toCacheControl(call.cache)
        : undefined
    const messages =
      marker === undefined
        ? written
        : CacheMarks.markConversation(written, { system: blocks.length > 0, tools: choice !== undefined }, (message) =>
            Messages.addCacheControl(message, marker)
          )
    const systemField = toSystemField(marker === undefined ? blocks : addSystemMark(blocks, marker))
    const tools = convertTools(call.tools)
    const forced = choice !== undefined && choice["type"] !== "auto"
    const wanted = forced ? undefined : ModelAbilities.chooseThinking(call.reasoningEffort, abilities)
    const refusesBudget = replaysThinking && BlockMessages.calledWithoutThinking(messages, dialect)
    const asked = wanted?.style === "budget" && refusesBudget ? undefined : wanted
    const { maxTokens, thinking } = ModelAbilities.fitThinking(
      call.maxOutputTokens ?? ModelAbilities.findOutputLimit(endpoint.model),
      call.contextWindow,
      asked
    )
    const edits = takesEdits && choice !== undefined ? call.contextEdits : undefined
    return {
      model: endpoint.model,
      max_tokens: maxTokens,
      ...(systemField === undefined ? {} : { system: systemField }),
      messages,
      ...(choice === undefined
        ? {}
        : { tools: marker === undefined ? tools : withToolMark(tools)(marker), tool_choice: choice }),
      ...makeThinkingFields(thinking),
      ...makeOutputConfig(
        thinking,
        format !== undefined && structured ? AnswerSchema.closeSchema(format.schema) : undefined
      ),
      ...chooseTemperature(call, thinking, abilities),
      ...(call.stream ? { stream: true } : {}),
      ...(edits === undefined ? fixed : { ...makeContextManagement(edits, call.contextWindow), ...fixedWithEdits })
    }
  }
}

/** One call on its own; see {@link make}. */
export const prepare = (call: ModelCall, route: Route.Route): ModelRequest => make(route)(call)
