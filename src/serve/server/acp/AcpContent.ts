/**
 * Texts, outputs, differences and lists as content of ACP updates. Data in, data out. Texts come out without secrets
 * and without images that a client would load from elsewhere, except for pieces of an answer, which have neither.
 *
 * Source: Agent Client Protocol, content and tool calls.
 */
import type {
  ContentBlock,
  PlanEntry,
  SessionUpdate,
  ToolCallContent,
  ToolCallLocation,
  ToolKind,
  Usage as AcpUsage
} from "@agentclientprotocol/sdk/unstable"
import type { FileChanged } from "../../../base/domain/FileChange.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as TextCut from "../../../base/domain/TextCut.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { CommandEnd } from "./AcpTerminals.ts"
import * as RemoteImages from "./RemoteImages.ts"

/** Characters of an output at most. */
const mostOutput = 32_000
/** Characters of a title at most. */
const mostTitle = 120

/** Returns a text without secrets and remote images. */
export const makeTextBlock = (value: string): ContentBlock => ({
  type: "text",
  text: RemoteImages.replaceRemoteImages(Redaction.redactText(value))
})

/** A piece of the answer, which has no secrets and no remote images. */
export const makeMessageChunk = (value: string): SessionUpdate => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text: value }
})

/** A text in addition to the answer, as a thought of the agent. */
export const makeThoughtChunk = (value: string): SessionUpdate => ({
  sessionUpdate: "agent_thought_chunk",
  content: makeTextBlock(value)
})

const kinds: ReadonlyMap<string, ToolKind> = new Map<string, ToolKind>([
  ["read_file", "read"],
  ["vision_analyze", "read"],
  ["skill_view", "read"],
  ["skills_list", "read"],
  ["write_file", "edit"],
  ["patch", "edit"],
  ["search_files", "search"],
  ["session_search", "search"],
  ["web_search", "search"],
  ["terminal", "execute"],
  ["process", "execute"],
  ["execute_code", "execute"],
  ["web_extract", "fetch"],
  ["delegate_task", "think"],
  ["todo", "think"]
])

/** Returns the kind of a tool, by its name. */
export const classifyTool = (name: string): ToolKind => kinds.get(name) ?? "other"

/** Arguments that name the subject of a call, the most telling first. */
const telling = [
  "command",
  "pattern",
  "query",
  "path",
  "url",
  "urls",
  "goal",
  "action",
  "name",
  "code",
  "question",
  "prompt"
]

/** Returns a call in one line: its tool and its main argument. */
export const renderCallTitle = (name: string, params: unknown): string => {
  const fields = Json.readFields(params)
  const key = telling.find((key) => fields[key] !== undefined)
  const about =
    key === undefined
      ? ""
      : Redaction.redactText(Redaction.takeBeginning(Json.toText(fields[key]), 2_000))
          .replace(/\s+/gu, " ")
          .trim()
  if (about === "") return name
  return TextCut.shorten(name === "terminal" ? about : `${name}: ${about}`, mostTitle)
}

/** Returns the files that a call is about; `resolve` makes a path absolute. */
const listLocations = (params: unknown, resolve: (path: string) => string): Array<ToolCallLocation> => {
  const { offset, path } = Json.readFields(params)
  if (typeof path !== "string" || path === "") return []
  return [{ path: resolve(path), ...(typeof offset === "number" ? { line: offset } : {}) }]
}

/** Returns the arguments of a call without secrets, and the files that they name. */
export const describeInput = (
  params: unknown,
  resolve: (path: string) => string
): { readonly rawInput: unknown; readonly locations?: Array<ToolCallLocation> } => {
  const locations = listLocations(params, resolve)
  return { rawInput: Redaction.redactValue(params), ...(locations.length === 0 ? {} : { locations }) }
}

/** Returns the changed lines of a unified difference, with their surroundings, a part for each place in the file. */
export const parseDifferences = ({
  diff,
  path
}: Pick<FileChanged, "diff" | "path">): ReadonlyArray<{ readonly content: ToolCallContent; readonly line: number }> =>
  diff.split(/^(?=@@ )/mu).flatMap((hunk) => {
    const line = /^@@ -\S+ \+(\d+)/u.exec(hunk)?.[1]
    if (line === undefined) return []
    const lines = hunk
      .split("\n")
      .slice(1)
      .filter((one) => one !== "" && !one.startsWith("\\"))
    const collectSide = (sign: "+" | "-"): string =>
      lines
        .filter((one) => one.startsWith(" ") || one.startsWith(sign))
        .map((one) => `${one.slice(1)}\n`)
        .join("")
    const [before, after] = [collectSide("-"), collectSide("+")]
    return [
      {
        line: Number(line),
        content: { type: "diff", path, ...(before === "" ? {} : { oldText: before }), newText: after }
      }
    ]
  })

const planStatus = { pending: "pending", in_progress: "in_progress", completed: "completed" } as const

/** Returns the entries of a `todo` list, or undefined for another output. A plan excludes cancelled entries. */
export const parsePlan = (output: string): Array<PlanEntry> | undefined => {
  const { todos } = Json.readFields(Json.parseOrKeep(output))
  if (!Array.isArray(todos)) return undefined
  return todos.flatMap((item): ReadonlyArray<PlanEntry> => {
    const { content, status } = Json.readFields(item)
    const found = Object.entries(planStatus).find(([name]) => name === status)?.[1]
    return typeof content === "string" && found !== undefined
      ? [{ content: Redaction.redactText(content), priority: "medium", status: found }]
      : []
  })
}

/** Returns the sums of a prompt turn. */
export const toAcpUsage = (usage: Usage.Usage): AcpUsage => ({
  totalTokens: Usage.countTotalTokens(usage),
  inputTokens: usage.inputTokens,
  outputTokens: usage.outputTokens,
  thoughtTokens: usage.reasoningTokens,
  cachedReadTokens: usage.cacheReadTokens,
  cachedWriteTokens: usage.cacheWriteTokens
})

/** Returns an output as content of a call, cut in the middle if it is long. */
export const makeOutputContent = (value: string): Array<ToolCallContent> =>
  value === "" ? [] : [{ type: "content", content: makeTextBlock(TextCut.cutMiddle(value, mostOutput)) }]

/** Returns the raw output of a call: its JSON value if it has one, cut and without secrets. */
export const toRawOutput = (output: string): unknown =>
  Redaction.redactValue(Json.parseOrKeep(TextCut.cutMiddle(output, mostOutput)))

/** Returns the title of a child agent by its goal. */
export const renderGoalTitle = (goal: string): string => TextCut.shorten(Redaction.redactText(goal), mostTitle)

/** Returns the place of a terminal in the content of a call. */
export const makeTerminalContent = (callId: string): ToolCallContent => ({ type: "terminal", terminalId: callId })

/** Returns the output of a command as a terminal shows it. */
export const readCommandOutput = (result: string): string => {
  const { output } = Json.readFields(Json.parseOrKeep(result))
  return typeof output === "string" ? Redaction.redactText(TextCut.cutMiddle(output, mostOutput)) : ""
}

/** Returns the end of a command that ran; undefined for another result. */
export const readCommandEnd = (result: string): CommandEnd | undefined => {
  const code = Json.readFields(Json.parseOrKeep(result))["exit_code"]
  return typeof code === "number" && code >= 0 ? { output: readCommandOutput(result), exitCode: code } : undefined
}

/** True for tools that run commands. */
export const isCommand = (name: string): boolean => classifyTool(name) === "execute"

/** Returns the text that a command wrote, or the whole result of another tool or of a command that was cut. */
export const extractReadableOutput = (name: string, result: string): string => {
  const written = isCommand(name) ? Json.readFields(Json.parseOrKeep(result))["output"] : undefined
  return typeof written === "string" && written !== "" ? written : result
}
