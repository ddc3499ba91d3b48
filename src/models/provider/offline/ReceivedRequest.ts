/** Reads a chat completions request: the user messages, the offered tools, and the tool calls with their results. */
import * as Json from "../../../base/domain/Json.ts"
import type { ModelRequest } from "../../../base/domain/ModelCall.ts"
import * as ToolCallWire from "../ToolCallWire.ts"

/** A tool call that was made, with its result if available. */
export interface MadeCall {
  readonly name: string
  readonly arguments: unknown
  readonly result: string | undefined
}

/**
 * A user message and the tool calls made in response: one list of calls for each assistant message that contains calls.
 */
export interface Exchange {
  readonly text: string
  readonly steps: ReadonlyArray<ReadonlyArray<MadeCall>>
}

/** A request in the form that the offline model needs. */
interface Conversation {
  /** The user's messages with their calls; the last message is to be answered. */
  readonly exchanges: ReadonlyArray<Exchange>
  /** Names of the tools that may be called. */
  readonly offered: ReadonlyArray<string>
  /** A number that no call id uses as its suffix yet. */
  readonly nextId: number
}

/** Prefix of the ids of the offline model's tool calls. */
export const idPrefix = "call_offline_"

const readText = (content: unknown): string =>
  typeof content === "string"
    ? content
    : Json.readItems(content)
        .flatMap((part) => Json.readString(Json.readFields(part)["text"]) || [])
        .join("\n\n")

/** Matches the context and headings that the runtime adds to a user's text. */
const injected =
  /<(memory-context|plugin-context|skill|script-output|job-output)\b[^>]*>[^]*?<\/\1>\s*|^\[This is the scheduled job [^]*?\]\s*(?:\n|$)/g

/** Returns a user's text without the context that the runtime adds. */
const readUserText = (content: unknown): string => readText(content).replace(injected, "").trim()

/** Tests for a user message that only carries the files of tool results and is not a message written by the user. */
const carriesFiles = (content: unknown): boolean =>
  Array.isArray(content) &&
  (Json.readString(Json.readFields(content[0])["text"]) ?? "").startsWith("Files from the result of ")

const listOfferedTools = (request: ModelRequest): ReadonlyArray<string> => {
  const choice = request["tool_choice"]
  if (choice === "none") return []
  const named = Json.readString(Json.readFields(Json.readFields(choice)["function"])["name"])
  return Json.readItems(request["tools"])
    .map((tool) => Json.readWord(Json.readFields(Json.readFields(tool)["function"])["name"]))
    .filter((name) => name !== "" && (named === undefined || name === named))
}

/** Reads a request of chat completions. */
export const readRequest = (request: ModelRequest): Conversation => {
  const exchanges: Array<{ text: string; steps: Array<Array<MadeCall>> }> = []
  const results = new Map<string, string>()
  const messages = Json.readItems(request["messages"]).map(Json.readFields)
  // Messages are read from the end, so that each call is matched with its own result even if a later call reuses its
  // id.
  let steps: Array<Array<MadeCall>> = []
  let nextId = 1
  for (const message of messages.toReversed()) {
    switch (message["role"]) {
      case "tool":
        results.set(Json.readWord(message["tool_call_id"]), readText(message["content"]))
        break
      case "assistant": {
        const calls = Json.readItems(message["tool_calls"]).map(Json.readFields)
        if (calls.length === 0) break
        steps.unshift(
          calls.map((call) => {
            const id = Json.readWord(call["id"])
            const target = Json.readFields(call["function"])
            const result = results.get(id)
            results.delete(id)
            if (id.startsWith(idPrefix)) nextId = Math.max(nextId, Number(id.slice(idPrefix.length)) + 1 || 1)
            return {
              name: Json.readWord(target["name"]),
              arguments: ToolCallWire.fromWire(target["arguments"]),
              result
            }
          })
        )
        break
      }
      case "user":
        if (carriesFiles(message["content"])) break
        exchanges.unshift({ text: readUserText(message["content"]), steps })
        steps = []
        break
    }
  }
  return { exchanges, offered: listOfferedTools(request), nextId }
}
