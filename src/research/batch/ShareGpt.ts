/**
 * Converts conversations to the ShareGPT format that training scripts read: turns of `system`, `human`, `gpt` and
 * `tool`. Pure.
 *
 * **Details**
 *
 * - `system` is generated here. It describes how functions are called, and contains the tool definitions. It is not the
 *   system prompt of the agent.
 * - `gpt` begins with a think block, which is empty if the model returned no reasoning. Scratchpad tags become think
 *   tags. Each call is a block with its name and parsed arguments. An answer of several messages, because it was
 *   continued, or because its first part was empty or contained only reasoning, is one turn.
 * - Consecutive results form one `tool` turn with a block for each result, matched by call id.
 * - Images are replaced with `[screenshot]`.
 * - JSON has the form of Python's `json.dumps`, with a space after commas and colons, as in datasets of the original.
 *
 * Source: `hermes-product.md` §5.2, `hermes-llm.md` §20.2.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import type { ToolDefinition } from "../../base/domain/ModelCall.ts"

/** A turn. */
export interface Turn {
  readonly from: "system" | "human" | "gpt" | "tool"
  readonly value: string
}

/** A tool call in the form in which a turn contains it. */
export interface CallBlock {
  readonly name: string
  readonly arguments: Json.Fields
}

const wrapBlock = (tag: string, content: string): string => `<${tag}>\n${content}\n</${tag}>`

/** Encodes a JSON value in the form of Python's `json.dumps(value, ensure_ascii=False)`. */
const encodeJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(encodeJson).join(", ")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return `{${entries.map(([key, one]) => `${JSON.stringify(key)}: ${encodeJson(one)}`).join(", ")}}`
}

/** Makes the `system` turn that describes the tools. */
const makeSystemTurn = (tools: ReadonlyArray<ToolDefinition>): Turn => {
  const listed = tools.map(({ description, name, parameters }) => ({ name, description, parameters, required: null }))
  return {
    from: "system",
    value: [
      "You can call functions. Their signatures are between <tools> and </tools>. " +
        "Call one or more of them where they help, with values that the",
      "conversation gives and not with guesses. Results come back between <tool_response> and </tool_response>.",
      wrapBlock("tools", encodeJson(listed)),
      'Write each call as one JSON object with the keys "name" and "arguments":',
      wrapBlock("tool_call", '{"name": <name of the function>, "arguments": <object of arguments>}')
    ].join("\n")
  }
}

const picture = "[screenshot]"

const renderPart = (part: { readonly type: string; readonly text?: string }): string =>
  part.type === "text" ? (part.text ?? "") : part.type === "file" ? picture : ""

const replaceScratchpadTags = (text: string): string => text.replaceAll(/<(\/?)REASONING_SCRATCHPAD>/gi, "<$1think>")

const parseArguments = (params: unknown): Json.Fields => {
  const value = typeof params === "string" ? Json.parseOrKeep(params) : params
  return Json.isFields(value) && !Array.isArray(value) ? value : {}
}

const hasCalls = ({ content }: Prompt.AssistantMessage): boolean => content.some(({ type }) => type === "tool-call")

/** Joins answers that are one turn. A continued text has no separator; an announcement before calls is a line. */
const joinAnswers = (first: Prompt.AssistantMessage, next: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  const isAnnouncement = hasCalls(next) && first.content.some((part) => part.type === "text" && part.text.trim() !== "")
  const between = isAnnouncement ? [Prompt.textPart({ text: "\n" })] : []
  return Prompt.assistantMessage({ content: [...first.content, ...between, ...next.content] })
}

const toGptTurn = ({ content }: Prompt.AssistantMessage): Turn => {
  const reasoning = content.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("\n")
  const text = replaceScratchpadTags(content.map(renderPart).join(""))
  const calls = content.flatMap((part) =>
    part.type === "tool-call"
      ? [wrapBlock("tool_call", encodeJson({ name: part.name, arguments: parseArguments(part.params) }))]
      : []
  )
  const thoughts = reasoning.trim() === "" ? "" : `${wrapBlock("think", replaceScratchpadTags(reasoning))}\n`
  const think = thoughts === "" && !text.trimStart().startsWith("<think>") ? "<think>\n</think>\n" : thoughts
  const value =
    calls.length === 0
      ? `${think}${text}`.trim()
      : `${think}${text.trim() === "" ? "" : `${text}\n`}${calls.join("\n")}`.trimEnd()
  return { from: "gpt", value }
}

/** Parses a result that is an object or a list. */
const parseResult = (text: string): unknown => (/^\s*[[{]/.test(text) ? Json.parseOrKeep(text) : text)

const renderResult = ({ modelOutput = [], result }: Prompt.ToolResultPart): unknown => {
  const pictures = modelOutput.filter(({ type }) => type === "file").map(() => picture)
  const text = result === undefined || result === null ? "" : Json.toText(result)
  return pictures.length === 0 ? parseResult(text) : [text, ...pictures].filter((one) => one !== "").join("\n")
}

const renderResponses = ({ content }: Prompt.ToolMessage): ReadonlyArray<string> =>
  content.flatMap((part) =>
    part.type === "tool-result"
      ? [
          wrapBlock(
            "tool_response",
            encodeJson({ tool_call_id: part.id, name: part.name, content: renderResult(part) })
          )
        ]
      : []
  )

/** Converts a conversation without its system prompt to turns. */
export const toTurns = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Turn> => {
  const found: Array<Turn> = []
  /** The last answer, while no other message follows it. */
  let answer: Prompt.AssistantMessage | undefined
  for (const message of messages) {
    const before = answer
    answer = undefined
    switch (message.role) {
      case "user":
        found.push({
          from: "human",
          value: message.content
            .map(renderPart)
            .filter((text) => text !== "")
            .join("\n")
        })
        break
      case "assistant":
        if (before !== undefined) found.pop()
        answer = before === undefined ? message : joinAnswers(before, message)
        found.push(toGptTurn(answer))
        break
      case "tool": {
        const value = renderResponses(message).join("\n")
        const last = found.at(-1)
        if (last?.from === "tool") found[found.length - 1] = { from: "tool", value: `${last.value}\n${value}` }
        else found.push({ from: "tool", value })
        break
      }
      case "system":
        break
    }
  }
  return found
}

/** Converts a whole trajectory, including its `system` turn. */
export const toConversations = (
  messages: ReadonlyArray<Prompt.Message>,
  tools: ReadonlyArray<ToolDefinition>
): ReadonlyArray<Turn> => [makeSystemTurn(tools), ...toTurns(messages)]

/** Parses the calls of a `gpt` turn. */
export const parseCalls = ({ value }: Turn): ReadonlyArray<CallBlock> =>
  Array.from(value.matchAll(/<tool_call>\n([\s\S]*?)\n<\/tool_call>/g), ([, text = ""]) =>
    Json.readFields(Json.parseOrKeep(text))
  ).flatMap((fields) =>
    typeof fields["name"] === "string"
      ? [{ name: fields["name"], arguments: Json.readFields(fields["arguments"]) }]
      : []
  )

/** Returns the turns of a stored row, or `undefined` if they cannot be read. */
export const read = (value: unknown): ReadonlyArray<Turn> | undefined => {
  if (!Array.isArray(value)) return undefined
  const found = value.flatMap((one): ReadonlyArray<Turn> => {
    const { from, value: text } = Json.readFields(one)
    return typeof text === "string" && (from === "system" || from === "human" || from === "gpt" || from === "tool")
      ? [{ from, value: text }]
      : []
  })
  return found.length === value.length ? found : undefined
}
