/**
 * Builds the request of a Messages API route for a model call. It is pure and does not use the SDK: the same call on
 * the same route always produces the same request, byte for byte.
 *
 * **Details**
 *
 * - `max_tokens` is the limit requested by the call, otherwise the model's limit, and always less than the context
 *   window if its size is known.
 * - A thinking budget raises `max_tokens` to leave room for an answer, and requires that `temperature` is 1. If a
 *   context window has no room for both, thinking is disabled. With a thinking effort, `temperature` is omitted.
 * - Thinking is omitted if the request forces a tool call. A thinking budget is also omitted if the newest assistant
 *   message called tools without thinking (for example from another provider, after a fallback). The API refuses both.
 * - Anthropic's context management removes old tool results if the call requests it and the route supports it; its beta
 *   header is then added.
 * - `speed: fast` in the route's `extraBody` adds its beta header, and is removed if the endpoint is not Anthropic's.
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

/** A tool in the format of the API. */
interface Tool {
  readonly name: string
  readonly description: string
  readonly input_schema: JsonSchema.JsonSchema
  readonly cache_control?: CacheMarks.CacheControl
}

/**
 * Creates a converter that caches its result for each array of tools. A run uses the same array as long as its tools do
 * not change.
 */
const rememberTools = (names: Endpoint.ToolNames) =>
  memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Tool> =>
    tools.map(({ description, name, parameters }) => ({
      name: names.toWire(name),
      description,
      input_schema: parameters["type"] === "object" ? parameters : { properties: {}, ...parameters, type: "object" }
    }))
  )

/**
 * Returns the tool choice in the format of the API, or `undefined` for `none`. In that case the request contains no
 * tools.
 */
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

/** Adds a cache mark to the last tool. */
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

/**
 * Returns the system prompt as one string. If it contains a cache breakpoint or the client's identity, returns separate
 * blocks instead.
 */
const toSystemField = (
  blocks: ReadonlyArray<Messages.TextBlock>
): string | ReadonlyArray<Messages.TextBlock> | undefined => {
  if (blocks.length === 0) return undefined
  const apart = blocks.some((block) => block.cache_control !== undefined || block.text === Endpoint.identity)
  return apart ? blocks : blocks.map((block) => block.text).join("\n\n")
}

/** Adds a cache mark to the end of the system prompt. */
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

/** Default context window of Claude, in tokens. */
const claudeWindow = 200_000
/** Minimum share of the trigger's token count that an edit must clear, so that the new cache prefix is worthwhile. */
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

/** Everything about the requests of a route that does not depend on the call. */
interface RequestForm {
  readonly route: Route.Route
  readonly endpoint: Endpoint.Endpoint
  readonly names: Endpoint.ToolNames
  readonly abilities: ModelAbilities.ClaudeAbilities
  readonly dialect: BlockMessages.Dialect<Messages.Block>
  readonly toWire: (messages: ModelCall["messages"]) => ReadonlyArray<Messages.Message>
  readonly convertTools: (tools: ReadonlyArray<ToolDefinition>) => ReadonlyArray<Tool>
  /** True if the model takes the schema of an answer. */
  readonly isStructured: boolean
  readonly replaysThinking: boolean
  /** True if the API removes old tool results. */
  readonly takesEdits: boolean
  readonly opensTurn: typeof Messages.opensTurn | undefined
}

const makeForm = (route: Route.Route): RequestForm => {
  const endpoint = Endpoint.fromRoute(route)
  const abilities = ModelAbilities.findClaudeAbilities(endpoint.model)
  const names = Endpoint.makeToolNames(endpoint)
  const { compaction, thinking } = Route.abilities(route)
  const dialect = Messages.makeDialect(names, thinking === "all" ? "omitted" : "text")
  return {
    route,
    endpoint,
    names,
    abilities,
    dialect,
    toWire: BlockMessages.makeWriter(dialect),
    convertTools: rememberTools(names),
    isStructured: endpoint.native && abilities.structured,
    replaysThinking: thinking !== "none",
    takesEdits: compaction === "edits",
    opensTurn: thinking === "tool_loop" ? Messages.opensTurn : undefined
  }
}

/** Builds the blocks before the conversation: the client's identity, the system prompt and the format of the answer. */
const collectBlocks = (
  { endpoint }: RequestForm,
  { messages }: ModelCall,
  instruction: string | undefined
): ReadonlyArray<Messages.TextBlock> => {
  const isSubscribed = endpoint.auth === "subscription"
  return [
    ...(isSubscribed ? [makeTextBlock(Endpoint.identity)] : []),
    ...makeSystemBlocks(messages, isSubscribed ? Endpoint.rewriteSystemText : undefined),
    ...(instruction === undefined ? [] : [makeTextBlock(instruction)])
  ]
}

/** Returns the cache mark of a call, unless its messages carry their own marks. */
const chooseMarker = ({ route }: RequestForm, { cache, messages }: ModelCall): CacheMarks.CacheControl | undefined =>
  cache !== undefined && CacheMarks.findForm(cache, route) === "native" && !carriesMarks(messages)
    ? CacheMarks.toCacheControl(cache)
    : undefined

/** The parts of a request that the model reads. */
interface RequestContent {
  readonly messages: ReadonlyArray<Messages.Message>
  readonly system: ReturnType<typeof toSystemField>
  readonly toolFields: ModelRequest
}

/** Converts the messages and the tools of a call, with cache marks if it asks for a cache. */
const convertContent = (
  form: RequestForm,
  call: ModelCall,
  blocks: ReadonlyArray<Messages.TextBlock>,
  choice: ReturnType<typeof toChoice>
): RequestContent => {
  const { opensTurn } = form
  const written = form.toWire(call.messages)
  const tools = form.convertTools(call.tools)
  const toToolFields = (tools: ReadonlyArray<Tool>): ModelRequest =>
    choice === undefined ? {} : { tools, tool_choice: choice }
  const marker = chooseMarker(form, call)
  if (marker === undefined) return { messages: written, system: toSystemField(blocks), toolFields: toToolFields(tools) }
  // The prefix up to the system prompt includes the tools, so the message that opened the turn gets their mark.
  const marksTools = choice !== undefined && (opensTurn === undefined || blocks.length === 0)
  const before = (blocks.length > 0 ? 1 : 0) + (marksTools ? 1 : 0)
  return {
    messages: CacheMarks.markConversation(written, { before, hasTools: choice !== undefined, opensTurn }, (message) =>
      Messages.addCacheControl(message, marker)
    ),
    system: toSystemField(addSystemMark(blocks, marker)),
    toolFields: toToolFields(marksTools ? withToolMark(tools)(marker) : tools)
  }
}

/** Chooses the limit of output and the thinking of a call. */
const chooseThinking = (
  { abilities, dialect, endpoint, replaysThinking }: RequestForm,
  call: ModelCall,
  choice: ReturnType<typeof toChoice>,
  messages: ReadonlyArray<Messages.Message>
): ReturnType<typeof ModelAbilities.fitThinking> => {
  const isForced = choice !== undefined && choice["type"] !== "auto"
  const wanted = isForced ? undefined : ModelAbilities.chooseThinking(call.reasoningEffort, abilities)
  const isRefused =
    wanted?.style === "budget" && replaysThinking && BlockMessages.calledWithoutThinking(messages, dialect)
  return ModelAbilities.fitThinking(
    call.maxOutputTokens ?? ModelAbilities.findOutputLimit(endpoint.model),
    call.contextWindow,
    isRefused ? undefined : wanted
  )
}

/**
 * Creates a function that converts the calls of one route to requests. It caches the messages that it has converted.
 */
export const make = (route: Route.Route): ((call: ModelCall) => ModelRequest) => {
  const form = makeForm(route)
  const { abilities, endpoint, names, takesEdits } = form
  const fixed = collectExtras(route, endpoint, [])
  const fixedWithEdits = takesEdits ? collectExtras(route, endpoint, [Endpoint.editsBeta]) : fixed
  return (call) => {
    const { field, instruction } = AnswerSchema.planFormat(call, form.isStructured)
    const choice = call.tools.length === 0 ? undefined : toChoice(call.toolChoice, names)
    const { messages, system, toolFields } = convertContent(form, call, collectBlocks(form, call, instruction), choice)
    const { maxTokens, thinking } = chooseThinking(form, call, choice, messages)
    const edits = takesEdits && choice !== undefined ? call.contextEdits : undefined
    return {
      model: endpoint.model,
      max_tokens: maxTokens,
      ...(system === undefined ? {} : { system }),
      messages,
      ...toolFields,
      ...makeThinkingFields(thinking),
      ...makeOutputConfig(thinking, field === undefined ? undefined : AnswerSchema.closeSchema(field.schema)),
      ...chooseTemperature(call, thinking, abilities),
      ...(call.stream ? { stream: true } : {}),
      ...(edits === undefined ? fixed : { ...makeContextManagement(edits, call.contextWindow), ...fixedWithEdits })
    }
  }
}

/** Like {@link make}, but converts a single call and caches nothing. */
export const prepare = (call: ModelCall, route: Route.Route): ModelRequest => make(route)(call)
