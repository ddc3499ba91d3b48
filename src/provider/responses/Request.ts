/**
 * The request of the Responses API for a model call. Pure, and free of the SDK: the same call on the same route is the same
 * request, byte for byte.
 *
 * **Details**
 *
 * Nothing is stored at the server: every request carries the whole conversation, with the encrypted reasoning of earlier
 * turns.
 *
 * Source: `hermes-llm.md` §4.3, §14.2.
 *
 * @since 0.1.0
 */
import type { ModelCall, ModelRequest, ResponseFormat, ToolChoice, ToolDefinition } from "../../domain/Model.ts"
import type { Route } from "../../domain/Route.ts"
import * as Digest from "../internal/Digest.ts"
import type * as Raw from "../Raw.ts"
import * as Strict from "../Strict.ts"
import * as Backend from "./Backend.ts"
import * as Input from "./Input.ts"

const wireTools = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<Raw.Fields>>()

/** Tools on the wire, made once for each array of tools. */
const toolsOf = (tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<Raw.Fields> => {
  const found = wireTools.get(tools)
  if (found !== undefined) return found
  const made = tools.map(({ name, description, parameters }) => ({
    type: "function",
    name,
    description,
    strict: false,
    parameters
  }))
  wireTools.set(tools, made)
  return made
}

const toolChoiceOf = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", name: choice.tool }

const toolFields = ({ tools, toolChoice }: ModelCall): Raw.Fields =>
  tools.length === 0
    ? {}
    : { tools: toolsOf(tools), tool_choice: toolChoiceOf(toolChoice), parallel_tool_calls: true }

const textFields = (format: ResponseFormat): Raw.Fields =>
  format.type === "text" ? {} : {
    text: {
      format: { type: "json_schema", name: format.name, schema: format.schema, strict: Strict.holds(format.schema) }
    }
  }

/** The longest key that the API takes. */
const maxCacheKey = 64

const cacheKey = (sessionId: string): string =>
  sessionId.length <= maxCacheKey ? sessionId : Digest.hex(sessionId, maxCacheKey)

const cacheFields = (backend: Backend.Backend, { sessionId }: ModelCall): Raw.Fields =>
  sessionId === undefined || backend === "github" ? {} : { prompt_cache_key: cacheKey(sessionId) }

const limitFields = (backend: Backend.Backend, thinks: boolean, call: ModelCall): Raw.Fields =>
  backend === "chatgpt" ? {} : {
    ...(call.maxOutputTokens === undefined ? {} : { max_output_tokens: call.maxOutputTokens }),
    ...(call.temperature === undefined || thinks ? {} : { temperature: call.temperature })
  }

const extraFields = (backend: Backend.Backend, call: ModelCall, route: Route): Raw.Fields => ({
  ...(backend === "xai" && call.sessionId !== undefined
    ? { extra_headers: { "x-grok-conv-id": cacheKey(call.sessionId) } }
    : {}),
  ...(route.extraBody === undefined ? {} : { extra_body: { ...route.extraBody } })
})

/** ChatGPT's backend refuses a request without instructions. */
const standIn = "You are a helpful assistant."

/** See the module. */
export const prepare = (call: ModelCall, route: Route): ModelRequest => {
  const backend = Backend.of(route)
  const { instructions = backend === "chatgpt" ? standIn : undefined, items } = Input.toWire(call.messages)
  const { encrypted, reasoning } = Backend.thinking(backend, route.model, call.reasoningEffort)
  return {
    model: route.model,
    ...(instructions === undefined ? {} : { instructions }),
    input: items,
    ...toolFields(call),
    store: false,
    ...(reasoning === undefined ? {} : { reasoning }),
    include: encrypted ? ["reasoning.encrypted_content"] : [],
    ...cacheFields(backend, call),
    ...textFields(call.responseFormat),
    ...limitFields(backend, reasoning !== undefined, call),
    ...(call.stream || backend === "chatgpt" ? { stream: true } : {}),
    ...extraFields(backend, call, route)
  }
}
