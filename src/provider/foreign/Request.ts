/**
 * The request of a foreign `LanguageModel`: `{ prompt, tools, tool_choice }`, encoded, and the way back to its options.
 */
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Json from "../../domain/Json.ts"
import type { ModelCall, ModelRequest } from "../../domain/Model.ts"

const Request = Schema.Struct({
  prompt: Schema.Struct({ content: Schema.Array(Schema.Unknown) }),
  tools: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      description: Schema.String,
      parameters: Schema.Record(Schema.String, Schema.Unknown)
    })
  ),
  tool_choice: Schema.Union([
    Schema.Literals(["auto", "none", "required"]),
    Schema.Struct({ tool: Schema.String })
  ]),
  stream: Schema.optional(Schema.Boolean),
  response_format: Schema.optional(Schema.Struct({ name: Schema.String, schema: Schema.Unknown }))
})
type Request = typeof Request.Type

const decodeRequest = Schema.decodeUnknownEffect(Request)
const encodeMessage = Schema.encodeSync(Prompt.Message)
const decodeMessage = Schema.decodeUnknownEffect(Prompt.Message)

const encoded = new WeakMap<Prompt.Message, object>()
const decoded = new WeakMap<object, Prompt.Message>()

/** A message encoded, once; what it was made of is remembered for the way back. */
const toWire = (message: Prompt.Message): object => {
  const known = encoded.get(message)
  if (known !== undefined) return known
  const made = encodeMessage(message)
  encoded.set(message, made)
  decoded.set(made, message)
  return made
}

const fromWire = (value: unknown): Effect.Effect<Prompt.Message, Schema.SchemaError> => {
  const known = typeof value === "object" && value !== null ? decoded.get(value) : undefined
  return known === undefined ? decodeMessage(value) : Effect.succeed(known)
}

/** The request for a call. */
export const prepare = (call: ModelCall): ModelRequest => ({
  prompt: { content: call.messages.map(toWire) },
  tools: call.tools,
  tool_choice: call.toolChoice,
  ...(call.stream ? { stream: true } : {}),
  ...(call.responseFormat.type === "text"
    ? {}
    : { response_format: { name: call.responseFormat.name, schema: call.responseFormat.schema } })
})

/** A tool that is only declared. */
type Declared = Tool.Dynamic<string, {
  readonly parameters: JsonSchema.JsonSchema
  readonly success: typeof Schema.Unknown
  readonly failure: typeof Schema.Never
  readonly failureMode: "error"
}>

const declare = ({ name, description, parameters }: Request["tools"][number]): Declared =>
  Tool.dynamic(name, { parameters, ...(description === "" ? {} : { description }) })

type Declarations = Toolkit.WithHandler<Record<string, Declared>>

const toolkits = new WeakMap<object, Declarations>()

/** The toolkit of a request, made once for each array of tools. Tool calls are never resolved, so it handles none. */
const toolkitOf = (request: ModelRequest, tools: Request["tools"]): Declarations => {
  const { tools: array } = request
  const key = typeof array === "object" && array !== null ? array : request
  const known = toolkits.get(key)
  if (known !== undefined) return known
  const made: Declarations = {
    tools: Object.fromEntries(tools.map((tool) => [tool.name, declare(tool)])),
    handle: (name) => Effect.die(`the tool ${name} was resolved by its model`)
  }
  toolkits.set(key, made)
  return made
}

/** The messages, with the schema of the answer at the end of the system prompt. */
const withSchema = (
  messages: ReadonlyArray<Prompt.Message>,
  format: NonNullable<Request["response_format"]>
): ReadonlyArray<Prompt.Message> => {
  const text = `Answer with one JSON object that fits this JSON Schema, and nothing else:\n${Json.toText(format.schema)}`
  const [first, ...rest] = messages
  return first?.role === "system"
    ? [Prompt.systemMessage({ content: `${first.content}\n\n${text}`, options: first.options }), ...rest]
    : [Prompt.systemMessage({ content: text }), ...messages]
}

/** The options that a request stands for, with what makes a model leave its tool calls alone. */
export const read = Effect.fnUntraced(function*(request: ModelRequest) {
  const found = yield* decodeRequest(request)
  const messages = yield* Effect.forEach(found.prompt.content, fromWire)
  const format = found.response_format
  return {
    stream: found.stream === true,
    options: {
      prompt: Prompt.fromMessages(format === undefined ? messages : withSchema(messages, format)),
      toolkit: toolkitOf(request, found.tools),
      toolChoice: found.tool_choice,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    } as const
  }
})

/** See {@link read}. */
export type Options = Effect.Success<ReturnType<typeof read>>["options"]
