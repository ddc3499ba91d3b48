/**
 * An upper bound for the tokens of a prompt, for budgets that no call may overrun.
 *
 * **Details**
 *
 * A tokenizer that works on bytes makes at most one token of each byte. The bound is therefore the number of bytes of
 * the messages and tools in UTF-8, as JSON, with an addition for the marks that a provider puts around them. If the
 * route has counted a prompt with the same beginning, its count replaces the bytes of that beginning. Each message is
 * measured once: the bound of a longer prompt extends the bound of the shorter one by the new messages.
 *
 * Files are not text: each counts as its bytes, and at least as {@link tokensPerFile} tokens.
 */
import { memoize } from "effect/Function"
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import type { ModelCall } from "../../base/domain/ModelCall.ts"

/** Tokens that are assumed for a file, such as an image, if it is not larger. */
export const tokensPerFile = 6_000

/** Tokens that a provider adds to a request, to each message, and to a request with tools and each of its tools. */
const perRequest = 32
const perMessage = 16
const forTools = 600
const perTool = 16

/** Depth below which a value is measured as a whole. */
const mostDepth = 32

/** Matches text with characters that have more than one byte as JSON in UTF-8. */
const longCharacter = /[^\x20\x21\x23-\x5b\x5d-\x7f]/u

/** Counts the bytes of a text as JSON in UTF-8. A half of a surrogate pair counts as two bytes, its pair as four. */
const countTextBytes = (text: string): number => {
  if (!longCharacter.test(text)) return text.length + 2
  let bytes = text.length + 2
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x20) bytes += 5
    else if (code === 0x22 || code === 0x5c) bytes++
    else if (code >= 0x80) bytes += code >= 0x800 && (code < 0xd800 || code > 0xdfff) ? 2 : 1
  }
  return bytes
}

/** Returns the largest number of tokens of a text. */
export const boundText = (text: string): number => countTextBytes(text)

const isFile = (value: object): boolean => "type" in value && value.type === "file"

/** Counts the bytes of a file: base64 text of its content, or its address. */
const countFile = (file: object): number => {
  const data = "data" in file ? file.data : undefined
  const bytes = data instanceof Uint8Array ? Math.ceil(data.length / 3) * 4 : typeof data === "string" ? data.length : 0
  return Math.max(tokensPerFile, bytes)
}

/** Counts the bytes of a value as JSON. */
const countBytes = (value: unknown, depth = 0): number => {
  if (typeof value === "string") return countTextBytes(value)
  if (typeof value !== "object" || value === null) return String(value).length
  if (depth >= mostDepth) return countTextBytes(JSON.stringify(value))
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countBytes(item, depth + 1) + 1, 2)
  if (isFile(value)) return countFile(value)
  let sum = 2
  for (const name of Object.keys(value)) {
    const item: unknown = Reflect.get(value, name)
    if (item !== undefined) sum += countTextBytes(name) + countBytes(item, depth + 1) + 2
  }
  return sum
}

const boundMessage = memoize((message: Prompt.Message): number => countBytes(message) + perMessage)

const boundMessages = GrowingList.fold<Prompt.Message, { tokens: number }>({
  begin: () => ({ tokens: 0 }),
  add: (state, message) => {
    state.tokens += boundMessage(message)
  },
  copy: ({ tokens }) => ({ tokens })
})

const boundSchema = memoize((schema: object): number => countBytes(schema) + perMessage)

const boundTools = memoize((tools: ModelCall["tools"]): number =>
  tools.length === 0 ? 0 : countBytes(tools) + forTools + tools.length * perTool
)

/** Count of a prompt that ended with a message. */
interface CountedPrompt {
  readonly route: string
  readonly tools: ModelCall["tools"]
  readonly first: Prompt.Message
  /** Number of its messages. */
  readonly length: number
  readonly tokens: number
}

/** Newest count of a prompt, by its last message. */
const counted = new WeakMap<Prompt.Message, CountedPrompt>()

/** First messages of the counted prompts. */
const countedBeginnings = new WeakSet<Prompt.Message>()

type BoundedCall = Pick<ModelCall, "contextEdits" | "messages" | "responseFormat" | "tools">

/** Stores the number of tokens that a route has counted for a prompt. */
export const noteCounted = (route: string, { contextEdits, messages, tools }: BoundedCall, tokens: number): void => {
  const [first] = messages
  const last = messages.at(-1)
  // A provider that omits old results has not counted the whole prompt.
  if (first === undefined || last === undefined || contextEdits !== undefined || tokens <= 0) return
  countedBeginnings.add(first)
  counted.set(last, { route, tools, first, length: messages.length, tokens })
}

const findCounted = (route: string, { contextEdits, messages, tools }: BoundedCall): CountedPrompt | undefined => {
  const [first] = messages
  if (first === undefined || contextEdits !== undefined || !countedBeginnings.has(first)) return undefined
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at]
    const found = message === undefined ? undefined : counted.get(message)
    if (found?.route === route && found.tools === tools && found.first === first && found.length === at + 1)
      return found
  }
  return undefined
}

const sumMessages = (messages: ReadonlyArray<Prompt.Message>): number =>
  messages.reduce((sum, message) => sum + boundMessage(message), 0)

/** Returns the largest number of tokens of a call's prompt on a route. */
export const boundPrompt = (route: string, call: BoundedCall): number => {
  const format = call.responseFormat.type === "json" ? boundSchema(call.responseFormat.schema) : 0
  const before = findCounted(route, call)
  const rest =
    before === undefined
      ? boundMessages(call.messages).tokens + boundTools(call.tools)
      : before.tokens + sumMessages(call.messages.slice(before.length))
  return perRequest + format + rest
}
