// A loop around a provider in a few lines: asks, runs the calls with the given functions, and asks again.
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../../src/base/domain/Conversation.ts"
import type {
  ModelCall,
  ModelRequest,
  ModelResponse,
  StreamPart,
  ToolDefinition
} from "../../../../src/base/domain/ModelCall.ts"
import type { Service } from "../../../../src/models/provider/Provider.ts"

/** A tool by what it gives back; `parameters` are the names of its arguments, all needed and all text. */
export interface FakeTool {
  readonly parameters: ReadonlyArray<string>
  readonly run: (params: Record<string, unknown>) => unknown
}

export const definition = (name: string, tool: FakeTool): ToolDefinition => ({
  name,
  description: `The tool ${name}`,
  parameters: {
    type: "object",
    properties: Object.fromEntries(tool.parameters.map((parameter) => [parameter, { type: "string" }])),
    required: tool.parameters
  }
})

export const user = (text: string): Prompt.Message => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

export const call = (messages: ReadonlyArray<Prompt.Message>, options?: Partial<ModelCall>): ModelCall => ({
  messages,
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  ...options
})

export const textOf = (response: ModelResponse): string =>
  response.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

export interface Talk {
  readonly text: string
  /** The calls of each assistant message, as `name(JSON)`. */
  readonly steps: ReadonlyArray<ReadonlyArray<string>>
  readonly ids: ReadonlyArray<string>
  readonly requests: ReadonlyArray<ModelRequest>
  readonly streamed: ReadonlyArray<StreamPart>
  readonly messages: Array<Prompt.Message>
}

export const converse = Effect.fn(function* (
  provider: Service,
  said: string,
  tools: Readonly<Record<string, FakeTool>>,
  options: Partial<ModelCall> & { readonly before?: ReadonlyArray<Prompt.Message> } = {}
): Effect.fn.Return<Talk, AiError.AiError> {
  const { before = [], ...rest } = options
  const messages: Array<Prompt.Message> = [...before, user(said)]
  const definitions = Object.entries(tools).map(([name, tool]) => definition(name, tool))
  const steps: Array<ReadonlyArray<string>> = []
  const ids: Array<string> = []
  const requests: Array<ModelRequest> = []
  const streamed: Array<StreamPart> = []
  for (let step = 0; step < 20; step++) {
    const request = yield* provider.prepare(call(messages, { tools: definitions, ...rest }))
    requests.push(request)
    const response = yield* provider.execute(request, {
      onPart: (parts) => Effect.sync(() => void streamed.push(...parts)).pipe(Effect.as(parts))
    })
    messages.push(...Prompt.fromResponseParts(response.parts).content)
    const calls = response.parts.filter((part) => part.type === "tool-call")
    if (calls.length === 0) return { text: textOf(response), steps, ids, requests, streamed, messages }
    steps.push(calls.map((part) => `${part.name}(${JSON.stringify(part.params)})`))
    for (const part of calls) {
      ids.push(part.id)
      const tool = tools[part.name]
      // The stand-in gives objects.
      const output =
        tool === undefined ? { error: `unknown tool ${part.name}` } : tool.run(part.params as Record<string, unknown>)
      messages.push(Conversation.makeToolResult(part, { output, isFailure: false }))
    }
  }
  return yield* Effect.die("the conversation does not end")
})
