// What the strictest endpoints refuse in a conversation, by protocol: the reasons, none for a conversation that all of
// them take.
import type { Configurable } from "../../src/base/domain/ApiMode.ts"

type Json = Record<string, unknown>

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])
const blank = (value: unknown): boolean => typeof value !== "string" || value.trim() === ""

/** The templates of Gemma and Mistral, and the pairing of calls that all have. */
const chat = (body: Json): ReadonlyArray<string> => {
  const out: Array<string> = []
  const messages = list(body["messages"]).filter(({ role }) => role !== "system" && role !== "developer")
  if (messages[0]?.["role"] !== "user") out.push("does not begin with the user")
  if (messages.at(-1)?.["role"] === "assistant") out.push("ends with the assistant")
  let open: Array<unknown> = []
  messages.forEach((message, index) => {
    const before = messages[index - 1]?.["role"]
    const { content, role, tool_calls, tool_call_id } = message
    if (role === before && role !== "tool") out.push(`${String(role)} after ${String(role)}`)
    if (role === "user" && before === "tool") out.push("user after tool")
    if (role !== "tool" && open.length > 0) out.push(`calls without a result: ${open.join()}`)
    if (role === "user" && typeof content === "string" && blank(content)) out.push("empty user message")
    if (role === "user" && Array.isArray(content) && content.length === 0) out.push("empty user message")
    if (role === "assistant") {
      if (blank(content) && list(tool_calls).length === 0) out.push("empty assistant message")
      open = list(tool_calls).map(({ id }) => id)
    }
    if (role === "tool") {
      if (!open.includes(tool_call_id)) out.push(`a result without a call: ${String(tool_call_id)}`)
      open = open.filter((id) => id !== tool_call_id)
    }
  })
  if (open.length > 0) out.push("open calls at the end")
  return out
}

interface Blocks {
  readonly callId: (block: Json) => unknown
  readonly resultId: (block: Json) => unknown
  readonly isThinking: (block: Json) => boolean
  readonly isBlank: (block: Json) => boolean
  readonly thinks: (body: Json) => boolean
}

/** Two roles in turn, made of blocks. */
const blocks =
  ({ callId, isBlank, isThinking, resultId, thinks }: Blocks) =>
  (body: Json): ReadonlyArray<string> => {
    const out: Array<string> = []
    const messages = list(body["messages"])
    if (messages[0]?.["role"] !== "user") out.push("does not begin with the user")
    if (messages.at(-1)?.["role"] !== "user") out.push("does not end with the user")
    messages.forEach((message, index) => {
      const content = list(message["content"])
      if (message["role"] === messages[index - 1]?.["role"]) out.push(`${String(message["role"])} twice`)
      if (content.length === 0) out.push("an empty message")
      if (content.some(isBlank)) out.push("a blank text")
      const calls = content.map(callId).filter((id) => id !== undefined)
      const answers = list(messages[index + 1]?.["content"])
        .map(resultId)
        .filter((id) => id !== undefined)
      if (message["role"] === "assistant") {
        if (calls.join() !== answers.join()) out.push(`calls ${calls.join()} have results ${answers.join()}`)
        if (isThinking(content.at(-1) ?? {})) out.push("ends in thinking")
      } else {
        const results = content.map((block) => resultId(block) !== undefined)
        if (results.lastIndexOf(true) > results.indexOf(false) && results.includes(false))
          out.push("results after other blocks")
        if (index === 0 && results.includes(true)) out.push("results without calls")
      }
    })
    const newest = list(messages.findLast(({ role }) => role === "assistant")?.["content"])
    const inLoop = list(messages.at(-1)?.["content"]).some((block) => resultId(block) !== undefined)
    if (thinks(body) && inLoop && newest.some((block) => callId(block) !== undefined) && !isThinking(newest[0] ?? {})) {
      out.push("thinking is on, and the calls of the loop have none before them")
    }
    return out
  }

const fields = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})

const anthropic = blocks({
  callId: ({ id, type }) => (type === "tool_use" ? id : undefined),
  resultId: ({ tool_use_id, type }) => (type === "tool_result" ? tool_use_id : undefined),
  isThinking: ({ type }) => type === "thinking" || type === "redacted_thinking",
  isBlank: ({ text, type }) => type === "text" && blank(text),
  thinks: (body) => fields(body["thinking"])["type"] === "enabled"
})

const bedrock = blocks({
  callId: ({ toolUse }) => fields(toolUse)["toolUseId"],
  resultId: ({ toolResult }) => fields(toolResult)["toolUseId"],
  isThinking: ({ reasoningContent }) => reasoningContent !== undefined,
  isBlank: ({ text }) => text !== undefined && blank(text),
  thinks: (body) => fields(fields(body["additionalModelRequestFields"])["thinking"])["type"] === "enabled"
})

const responses = (body: Json): ReadonlyArray<string> => {
  const out: Array<string> = []
  const items = list(body["input"])
  const kind = (item: Json | undefined): unknown => item?.["type"] ?? item?.["role"]
  const calls = new Set<unknown>()
  const answered = new Set<unknown>()
  items.forEach((item, index) => {
    const before = items[index - 1]
    if (kind(item) === "user" && kind(before) === "user") out.push("user after user")
    if (
      kind(before) === "reasoning" &&
      !["message", "assistant", "function_call", "reasoning"].includes(String(kind(item)))
    ) {
      out.push("reasoning without its item")
    }
    if (typeof item["content"] === "string" && blank(item["content"])) out.push("an empty message")
    if (kind(item) === "function_call") calls.add(item["call_id"])
    if (kind(item) === "function_call_output") {
      if (!calls.has(item["call_id"]) || answered.has(item["call_id"])) out.push("a result without a call")
      answered.add(item["call_id"])
    }
  })
  if (kind(items.at(-1)) === "reasoning") out.push("ends in reasoning")
  if (calls.size !== answered.size) out.push("calls without a result")
  return out
}

/** The reasons for which a request is refused. */
export const refusals: Readonly<Record<Configurable, (body: Json) => ReadonlyArray<string>>> = {
  chat_completions: chat,
  anthropic_messages: anthropic,
  codex_responses: responses,
  bedrock_converse: bedrock
}
