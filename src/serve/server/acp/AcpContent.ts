/**
 * Converts text, outputs, differences and lists to the content of ACP updates. Pure. Secrets, and images that a client
 * would load from another host, are removed from text. Pieces of an answer must already be free of both.
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
import type { ToolStatus } from "../../../base/domain/RunEvent.ts"
import * as TextCut from "../../../base/domain/TextCut.ts"
import * as ToolView from "../../../base/domain/ToolView.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { CommandEnd } from "./AcpTerminals.ts"
import * as RemoteImages from "./RemoteImages.ts"

/** Maximum number of characters in an output. */
const mostOutput = 32_000
/** Maximum number of characters in a title. */
const mostTitle = 120

/** Returns a text block without secrets and remote images. */
export const makeTextBlock = (value: string): ContentBlock => ({
  type: "text",
  text: RemoteImages.replaceRemoteImages(Redaction.redactText(value))
})

/** Returns an update with a piece of the answer, which must already be free of secrets and remote images. */
export const makeMessageChunk = (value: string): SessionUpdate => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text: value }
})

/** Returns an update that shows text that is not part of the answer, as a thought of the agent. */
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

/** Returns the kind of the tool with the given name. */
export const classifyTool = (name: string): ToolKind => kinds.get(name) ?? "other"

/** Returns a one-line title for a call, consisting of its tool and its main argument. */
export const renderCallTitle = (name: string, params: unknown): string => {
  const fields = Json.readFields(params)
  const key = ToolView.findSubjectArgument(fields)
  const about =
    key === undefined
      ? ""
      : Redaction.redactText(Redaction.takeBeginning(Json.toText(fields[key]), 2_000))
          .replace(/\s+/gu, " ")
          .trim()
  if (about === "") return name
  return TextCut.shorten(name === "terminal" ? about : `${name}: ${about}`, mostTitle)
}

/** Returns the files that the arguments of a call name. `resolve` makes a path absolute. */
const listLocations = (params: unknown, resolve: (path: string) => string): Array<ToolCallLocation> => {
  const { offset, path } = Json.readFields(params)
  if (typeof path !== "string" || path === "") return []
  return [{ path: resolve(path), ...(typeof offset === "number" ? { line: offset } : {}) }]
}

/** Returns the arguments of a call without secrets, and the files that the arguments name. */
export const describeInput = (
  params: unknown,
  resolve: (path: string) => string
): { readonly rawInput: unknown; readonly locations?: Array<ToolCallLocation> } => {
  const locations = listLocations(params, resolve)
  return { rawInput: Redaction.redactValue(params), ...(locations.length === 0 ? {} : { locations }) }
}

/** Returns the hunks of a unified diff, each with its changed lines and their context lines. */
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

/**
 * Returns the entries of a `todo` list, or `undefined` if the output is not such a list. Cancelled entries are
 * excluded.
 */
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

/** Returns the total usage of a prompt turn. */
export const toAcpUsage = (usage: Usage.Usage): AcpUsage => ({
  totalTokens: Usage.countTotalTokens(usage),
  inputTokens: usage.inputTokens,
  outputTokens: usage.outputTokens,
  thoughtTokens: usage.reasoningTokens,
  cachedReadTokens: usage.cacheReadTokens,
  cachedWriteTokens: usage.cacheWriteTokens
})

/** Returns an output as content of a call. A long output is cut in the middle. */
export const makeOutputContent = (value: string): Array<ToolCallContent> =>
  value === "" ? [] : [{ type: "content", content: makeTextBlock(TextCut.cutMiddle(value, mostOutput)) }]

/**
 * Returns the raw output of a call, shortened and without secrets. JSON is parsed; other output is returned as text.
 */
export const toRawOutput = (output: string): unknown =>
  Redaction.redactValue(Json.parseOrKeep(TextCut.cutMiddle(output, mostOutput)))

/** Returns the title of a sub-agent, made from its goal. */
export const renderGoalTitle = (goal: string): string => TextCut.shorten(Redaction.redactText(goal), mostTitle)

/** Returns call content that refers to a terminal. */
export const makeTerminalContent = (callId: string): ToolCallContent => ({ type: "terminal", terminalId: callId })

/** Returns the output of a command as a terminal shows it. */
export const readCommandOutput = (result: string): string => {
  const { output } = Json.readFields(Json.parseOrKeep(result))
  return typeof output === "string" ? Redaction.redactText(TextCut.cutMiddle(output, mostOutput)) : ""
}

/** Returns the exit information of a command that ran, or `undefined` for other results. */
export const readCommandEnd = (result: string): CommandEnd | undefined => {
  const code = Json.readFields(Json.parseOrKeep(result))["exit_code"]
  return typeof code === "number" && code >= 0 ? { output: readCommandOutput(result), exitCode: code } : undefined
}

/** Name of the view of a result in `_meta` of its update. It has the names of `stream-json`. */
export const viewKey = "hermes-effect.view"

/** Returns the view of a result, without secrets. */
export const presentResult = (name: string, status: ToolStatus, output: string): ToolView.WireView =>
  ToolView.toWire(ToolView.presentResult(name, status, Json.toText(Redaction.redactValue(Json.parseOrKeep(output)))))

const escapeCell = (cell: string): string => cell.replaceAll("|", "\\|").replaceAll("\n", " ")

/**
 * Returns the text of a view that an editor shows instead of a result in JSON: a table in Markdown, the first matches.
 * Returns `undefined` for other results.
 */
export const renderView = ({
  kind,
  lines = [],
  note,
  omitted_lines: omitted = 0,
  table
}: ToolView.WireView): string | undefined => {
  const more = omitted === 0 ? [] : ["", `… ${omitted} more`]
  if (table !== undefined) {
    const renderRow = (row: ReadonlyArray<string>): string => `| ${row.map(escapeCell).join(" | ")} |`
    return [
      renderRow(table.columns),
      renderRow(table.columns.map(() => "---")),
      ...table.rows.map(renderRow),
      ...more
    ].join("\n")
  }
  if (kind !== "matches") return undefined
  return [...(note === undefined ? [] : [note]), ...lines.map((line) => `- ${line}`), ...more].join("\n")
}

/** Returns true if a tool runs commands. */
export const isCommand = (name: string): boolean => classifyTool(name) === "execute"

/**
 * Returns the text that a command wrote. Returns the whole result if the tool does not run commands or if the result
 * was cut.
 */
export const extractReadableOutput = (name: string, result: string): string => {
  const written = isCommand(name) ? Json.readFields(Json.parseOrKeep(result))["output"] : undefined
  return typeof written === "string" && written !== "" ? written : result
}
