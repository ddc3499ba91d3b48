/**
 * Compiles a model call into the request of one route of the Messages API, without sending it.
 *
 * **Details**
 *
 * - `max_tokens` is what the call asks for, else the model's own limit, and always less than a known window.
 * - Thinking by a budget raises `max_tokens` so that an answer fits above it and fixes `temperature` at 1; where a window
 *   leaves no room for both, there is no thinking. Thinking by effort leaves `temperature` out.
 * - Thinking is left out of a request that forces a tool call, and, by a budget, of one whose newest assistant message
 *   called tools without thinking (another provider's, after a fallback): the API refuses both.
 * - `speed: fast` in the route's `extraBody` brings its beta along, and is dropped where Anthropic does not answer.
 *
 * Source: `hermes-llm.md` §4.2, §14.2.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import type { ModelCall, ModelRequest } from "../../domain/Model.ts"
import * as Route from "../../domain/Route.ts"
import * as Turns from "../Turns.ts"
import * as AnswerSchema from "./AnswerSchema.ts"
import * as Claude from "./Claude.ts"
import * as Convert from "./Convert.ts"
import * as Endpoint from "./Endpoint.ts"
import * as OutputLimits from "./OutputLimits.ts"
import * as Subscription from "./Subscription.ts"
import * as Thinking from "./Thinking.ts"
import * as Tools from "./Tools.ts"
import * as Wire from "./Wire.ts"

const asIs = (text: string): string => text

const textBlock = (text: string): Wire.TextBlock => ({ type: "text", text })

const systemBlocks = (
  messages: ReadonlyArray<Prompt.Message>,
  rewrite: (text: string) => string
): ReadonlyArray<Wire.TextBlock> =>
  messages.flatMap((message) => {
    if (message.role !== "system" || message.content.trim() === "") return []
    const marker = Wire.cacheControl(message.options)
    const block = textBlock(rewrite(message.content).toWellFormed())
    return [marker === undefined ? block : { ...block, cache_control: marker }]
  })

/** One string, or blocks where a block has to stay one: before a cache breakpoint and after the identity. */
const system = (blocks: ReadonlyArray<Wire.TextBlock>): string | ReadonlyArray<Wire.TextBlock> | undefined => {
  if (blocks.length === 0) return undefined
  const apart = blocks.some((block) => block.cache_control !== undefined || block.text === Subscription.identity)
  return apart ? blocks : blocks.map((block) => block.text).join("\n\n")
}

const thinkingFields = (thinking: Thinking.Thinking): ModelRequest => {
  switch (thinking?.style) {
    case "adaptive":
      return { thinking: { type: "adaptive", display: "summarized" } }
    case "budget":
      return { thinking: { type: "enabled", budget_tokens: thinking.tokens } }
    default:
      return {}
  }
}

const temperature = (call: ModelCall, thinking: Thinking.Thinking, abilities: Claude.Abilities): ModelRequest => {
  if (!abilities.sampling || thinking?.style === "adaptive") return {}
  if (thinking?.style === "budget") return { temperature: 1 }
  return call.temperature === undefined ? {} : { temperature: call.temperature }
}

const outputConfig = (thinking: Thinking.Thinking, schema: unknown): ModelRequest => {
  const fields = {
    ...(thinking?.style === "adaptive" ? { effort: thinking.effort } : {}),
    ...(schema === undefined ? {} : { format: { type: "json_schema", schema } })
  }
  return Object.keys(fields).length === 0 ? {} : { output_config: fields }
}

const extras = (route: Route.Route, endpoint: Endpoint.Endpoint): ModelRequest => {
  const { speed, ...body } = route.extraBody ?? {}
  const fast = speed === "fast" && endpoint.native
  const extra = speed === undefined || (speed === "fast" && !fast) ? body : { ...body, speed }
  const betas = fast ? Endpoint.joinBetas(Endpoint.betasOf(endpoint).join(","), Endpoint.fastBeta) : undefined
  return {
    ...(Object.keys(extra).length === 0 ? {} : { extra_body: extra }),
    ...(betas === undefined ? {} : { extra_headers: { "anthropic-beta": betas } })
  }
}

/** What turns the calls of one route into requests; it remembers the messages that it has converted. */
export const make = (route: Route.Route): (call: ModelCall) => ModelRequest => {
  const endpoint = Endpoint.of(route)
  const abilities = Claude.abilities(endpoint.model)
  const subscribed = endpoint.auth === "subscription"
  const toolName = subscribed ? Subscription.toWire : asIs
  const dialect = Convert.dialect(toolName)
  const convertTools = Tools.make(toolName)
  const identity: ReadonlyArray<Wire.TextBlock> = subscribed ? [textBlock(Subscription.identity)] : []
  const rewrite = subscribed ? Subscription.systemText : asIs
  const replays = Route.abilities(route).thinking !== "none"
  const structured = endpoint.native && abilities.structured
  const fixed = extras(route, endpoint)

  return (call) => {
    const messages = Turns.alternate(call.messages, dialect, replays)
    const format = call.responseFormat.type === "json" ? call.responseFormat : undefined
    const blocks: ReadonlyArray<Wire.TextBlock> = [
      ...identity,
      ...systemBlocks(call.messages, rewrite),
      ...(format === undefined || structured ? [] : [textBlock(AnswerSchema.instruction(format.schema))])
    ]
    const systemField = system(blocks)
    const choice = call.tools.length === 0 ? undefined : Tools.choice(call.toolChoice, toolName)
    const forced = choice !== undefined && choice["type"] !== "auto"
    const wanted = forced ? undefined : Thinking.of(call.reasoningEffort, abilities)
    const refusesBudget = replays && Turns.calledWithoutThinking(messages, dialect)
    const asked = wanted?.style === "budget" && refusesBudget ? undefined : wanted
    const { maxTokens, thinking } = Thinking.fit(
      call.maxOutputTokens ?? OutputLimits.of(endpoint.model),
      call.contextWindow,
      asked
    )
    return {
      model: endpoint.model,
      max_tokens: maxTokens,
      ...(systemField === undefined ? {} : { system: systemField }),
      messages,
      ...(choice === undefined ? {} : { tools: convertTools(call.tools), tool_choice: choice }),
      ...thinkingFields(thinking),
      ...outputConfig(thinking, format !== undefined && structured ? AnswerSchema.closed(format.schema) : undefined),
      ...temperature(call, thinking, abilities),
      ...(call.stream ? { stream: true } : {}),
      ...fixed
    }
  }
}

/** One call on its own; see {@link make}. */
export const prepare = (call: ModelCall, route: Route.Route): ModelRequest => make(route)(call)
