/**
 * Converts requests and answers of an external `LanguageModel`. A request is the encoded
 * `{ prompt, tools, tool_choice }` and can be converted back to the model's options. The parts of an answer are
 * converted to the types that the runtime uses. Sources, and the activity of the vendor's own tools, are omitted.
 */
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Json from "../../base/domain/Json.ts"
import type { ContentPart, ModelCall, ModelRequest, ModelResponse, StreamPart } from "../../base/domain/ModelCall.ts"
import { toResponse } from "../../base/domain/Usage.ts"
import * as PartSchema from "./PartSchema.ts"

const Request = Schema.Struct({
  prompt: Schema.Struct({ content: Schema.Array(Schema.Unknown) }),
  tools: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      description: Schema.String,
      parameters: Schema.Record(Schema.String, Schema.Unknown)
    })
  ),
  tool_choice: Schema.Union([Schema.Literals(["auto", "none", "required"]), Schema.Struct({ tool: Schema.String })]),
  stream: Schema.optional(Schema.Boolean),
  response_format: Schema.optional(Schema.Struct({ name: Schema.String, schema: Schema.Unknown })),
  max_output_tokens: Schema.optional(Schema.Int),
  temperature: Schema.optional(Schema.Finite),
  seed: Schema.optional(Schema.Int),
  reasoning_effort: Schema.optional(Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh"]))
})
type Request = typeof Request.Type

const decodeRequest = Schema.decodeUnknownEffect(Request)
const encodeMessage = Schema.encodeSync(Prompt.Message)
const decodeMessage = Schema.decodeUnknownEffect(Prompt.Message)

const toWireForm = new WeakMap<Prompt.Message, object>()
const getMessage = new WeakMap<object, Prompt.Message>()

/** Encodes a message once and remembers the original for decoding. */
const toWire = (message: Prompt.Message): object => {
  const known = toWireForm.get(message)
  if (known !== undefined) return known
  const made = encodeMessage(message)
  toWireForm.set(message, made)
  getMessage.set(made, message)
  return made
}

const fromWire = (value: unknown): Effect.Effect<Prompt.Message, Schema.SchemaError> => {
  const known = typeof value === "object" && value !== null ? getMessage.get(value) : undefined
  return known === undefined ? decodeMessage(value) : Effect.succeed(known)
}

/** Creates the request for a call. */
export const prepare = (call: ModelCall): ModelRequest => ({
  prompt: { content: call.messages.map(toWire) },
  tools: call.tools,
  tool_choice: call.toolChoice,
  ...(call.stream ? { stream: true } : {}),
  ...(call.responseFormat.type === "text"
    ? {}
    : { response_format: { name: call.responseFormat.name, schema: call.responseFormat.schema } })
})

/** A tool declaration without a handler. */
type DeclaredTool = Tool.Dynamic<
  string,
  {
    readonly parameters: JsonSchema.JsonSchema
    readonly success: typeof Schema.Unknown
    readonly failure: typeof Schema.Never
    readonly failureMode: "error"
  }
>

const declareTool = ({ name, description, parameters }: Request["tools"][number]): DeclaredTool =>
  Tool.dynamic(name, { parameters, ...(description === "" ? {} : { description }) })

type Declarations = Toolkit.WithHandler<Record<string, DeclaredTool>>

const toolkits = new WeakMap<object, Declarations>()

/**
 * Returns the toolkit of a request, created once for each array of tools. It has no handlers, because the model never
 * resolves tool calls.
 */
const getToolkit = (request: ModelRequest, tools: Request["tools"]): Declarations => {
  const { tools: array } = request
  const key = typeof array === "object" && array !== null ? array : request
  const known = toolkits.get(key)
  if (known !== undefined) return known
  const made: Declarations = {
    tools: Object.fromEntries(tools.map((tool) => [tool.name, declareTool(tool)])),
    handle: (name) => Effect.die(`the tool ${name} was resolved by its model`)
  }
  toolkits.set(key, made)
  return made
}

/** Returns the messages with the answer's schema appended to the system prompt. */
const addSchema = (
  messages: ReadonlyArray<Prompt.Message>,
  format: NonNullable<Request["response_format"]>
): ReadonlyArray<Prompt.Message> => {
  const text =
    "Answer with one JSON object that fits this JSON Schema, and nothing else:\n" + Json.toText(format.schema)
  const [first, ...rest] = messages
  return first?.role === "system"
    ? [Prompt.systemMessage({ content: `${first.content}\n\n${text}`, options: first.options }), ...rest]
    : [Prompt.systemMessage({ content: text }), ...messages]
}

/** Creates a request that also includes the call's settings: output limit, temperature, seed and reasoning effort. */
export const prepareWithSettings = (call: ModelCall): ModelRequest => ({
  ...prepare(call),
  ...(call.maxOutputTokens === undefined ? {} : { max_output_tokens: call.maxOutputTokens }),
  ...(call.temperature === undefined ? {} : { temperature: call.temperature }),
  ...(call.seed === undefined ? {} : { seed: call.seed }),
  ...(call.reasoningEffort === undefined ? {} : { reasoning_effort: call.reasoningEffort })
})

/** Decodes the fields of a request and its messages. */
export const readMembers = Effect.fnUntraced(function* (request: ModelRequest) {
  const found = yield* decodeRequest(request)
  return { found, messages: yield* Effect.forEach(found.prompt.content, fromWire) }
})

/** Reads the model's options from a request, and disables the model's own resolution of tool calls. */
export const readRequest = Effect.fnUntraced(function* (request: ModelRequest) {
  const { found, messages } = yield* readMembers(request)
  const format = found.response_format
  return {
    stream: found.stream === true,
    options: {
      prompt: Prompt.fromMessages(format === undefined ? messages : addSchema(messages, format)),
      toolkit: getToolkit(request, found.tools),
      toolChoice: found.tool_choice,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    } as const
  }
})

/** Options of a model call, as read by {@link readRequest}. */
export type Options = Effect.Success<ReturnType<typeof readRequest>>["options"]

/** An answer without its raw body. */
type BareAnswer = Omit<ModelResponse, "raw">

const isContent = (part: Response.AnyPart): part is ContentPart => {
  switch (part.type) {
    case "text":
    case "reasoning":
    case "file":
      return true
    case "tool-call":
      return !part.providerExecuted
    default:
      return false
  }
}

const isStreamed = (part: Response.AnyPart): part is StreamPart => {
  switch (part.type) {
    case "text-start":
    case "text-delta":
    case "text-end":
    case "reasoning-start":
    case "reasoning-delta":
    case "reasoning-end":
    case "tool-params-delta":
    case "tool-params-end":
    case "file":
    case "response-metadata":
    case "finish":
      return true
    case "tool-params-start":
    case "tool-call":
      return !part.providerExecuted
    default:
      return false
  }
}

/** Creates a filter that takes the parts of a stream as they arrive and returns the parts that the runtime supports. */
export const makeFilter = (): ((parts: ReadonlyArray<Response.AnyPart>) => ReadonlyArray<StreamPart>) => {
  const theirs = new Set<string>()
  return (parts) => {
    const out: Array<StreamPart> = []
    for (const part of parts) {
      if (part.type === "tool-params-start" && part.providerExecuted) theirs.add(part.id)
      const isTheirs = (part.type === "tool-params-delta" || part.type === "tool-params-end") && theirs.has(part.id)
      if (!isTheirs && isStreamed(part)) out.push(part)
    }
    return out
  }
}

/** Returns the error that a stream reports in one of these parts, or `undefined`. */
export const findError = (parts: ReadonlyArray<Response.AnyPart>): AiError.AiErrorReason | undefined => {
  const part = parts.find((part) => part.type === "error")
  if (part === undefined) return undefined
  return AiError.isAiError(part.error)
    ? part.error.reason
    : new AiError.UnknownError({ description: Json.toText(part.error) })
}

/** Assembles a complete answer from its parts. */
export const fromParts = (parts: ReadonlyArray<Response.AnyPart>): BareAnswer => {
  const finish = parts.find((part) => part.type === "finish")
  const metadata = parts.find((part) => part.type === "response-metadata")
  return {
    parts: parts.filter(isContent),
    finishReason: finish?.reason ?? "unknown",
    usage: finish?.usage ?? toResponse({ input: 0, output: 0 }),
    model: metadata?.modelId,
    id: metadata?.id
  }
}

/** Returns the parts of a complete answer, with its metadata part first and its finish part last. */
const toParts = ({
  finishReason,
  id,
  model,
  parts,
  usage
}: BareAnswer): ReadonlyArray<typeof PartSchema.AnswerPart.Type> => [
  Response.makePart("response-metadata", {
    ...(id === undefined ? {} : { id }),
    ...(model === undefined ? {} : { modelId: model })
  }),
  ...parts,
  Response.makePart("finish", { reason: finishReason, usage, response: undefined })
]

const encode = Schema.encodeSync(Schema.mutable(Schema.Array(PartSchema.AnswerPart)))

/** Encodes the parts of a complete answer. */
export const encodeAnswer = (answer: BareAnswer): Array<Response.PartEncoded> => encode([...toParts(answer)])

/**
 * Creates the response for an answer by adding the raw body, `{ content }`. The body is built on first use from the
 * original parts, `sent`.
 */
export const makeResponse = (seen: BareAnswer, sent: BareAnswer = seen): ModelResponse => {
  const { finishReason, id, model, parts, sources, usage } = seen
  let raw: unknown
  return {
    parts,
    finishReason,
    usage,
    ...(sources === undefined ? {} : { sources }),
    model,
    id,
    get raw() {
      raw ??= { content: encodeAnswer(sent) }
      return raw
    }
  }
}

const Raw = Schema.Struct({ content: Schema.Array(PartSchema.AnswerPart) })

/** Decodes the raw body of an answer. */
export const decode = (raw: unknown): Effect.Effect<ModelResponse, AiError.InvalidOutputError> =>
  Effect.mapBoth(Schema.decodeUnknownEffect(Raw)(raw), {
    onFailure: AiError.InvalidOutputError.fromSchemaError,
    onSuccess: ({ content }) => ({ ...fromParts(content), raw })
  })
