/**
 * Events of a run, and stored messages, as updates of an ACP session. Data in, data out. Pieces of an answer come in
 * without secrets (`StreamSecrets`) and without images that a client would load from elsewhere (`RemoteImages`); other
 * texts come out without.
 *
 * **Details**
 *
 * | event | update |
 * | --- | --- |
 * | text, reasoning | `agent_message_chunk`, `agent_thought_chunk` |
 * | a call | `tool_call` when the model begins it, then `tool_call_update` with its status, places, output and differences |
 * | a command, where the client shows terminals | the same, with its output in a terminal (`AcpTerminals`) |
 * | a list of `todo` | `plan` |
 * | a child agent | a `tool_call` of the kind `think` with its goal |
 * | usage | `usage_update` |
 * | a warning, another route, a wait | `agent_thought_chunk` |
 *
 * This protocol cannot retract shown text: a replacement follows the text that it replaces. A difference has the
 * changed lines with their surroundings, not the whole file.
 *
 * Source: Agent Client Protocol, `session/update`.
 */
import type {
  ContentBlock,
  PlanEntry,
  SessionUpdate,
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolCallUpdate,
  ToolKind,
  Usage as AcpUsage
} from "@agentclientprotocol/sdk/unstable"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as Cost from "../../../base/domain/Cost.ts"
import type { FileChanged } from "../../../base/domain/FileChange.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunEvent, UsageReported } from "../../../base/domain/RunEvent.ts"
import * as TextCut from "../../../base/domain/TextCut.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import { makeStreamedText } from "../../host/StreamedText.ts"
import type { ChangeSet } from "../../../store/ChangeSets.ts"
import * as AcpTerminals from "./AcpTerminals.ts"
import * as RemoteImages from "./RemoteImages.ts"

/** Characters of an output, and of a title. */
const mostOutput = 32_000
const mostTitle = 120

const makeTextBlock = (value: string): ContentBlock => ({
  type: "text",
  text: RemoteImages.replaceRemoteImages(Redaction.redactText(value))
})

/** A piece of the answer, which has no secrets and no remote images. */
export const makeMessageChunk = (value: string): SessionUpdate => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text: value }
})

const makeThoughtChunk = (value: string): SessionUpdate => ({
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

/** Arguments that name what a call is about, the most telling first. */
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
const renderCallTitle = (name: string, params: unknown): string => {
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

/** Returns the files that a call is about; `cwd` is the directory of the session. */
const listLocations = (params: unknown, resolve: (path: string) => string): Array<ToolCallLocation> => {
  const { offset, path } = Json.readFields(params)
  if (typeof path !== "string" || path === "") return []
  return [{ path: resolve(path), ...(typeof offset === "number" ? { line: offset } : {}) }]
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
const parsePlan = (output: string): Array<PlanEntry> | undefined => {
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

const makeOutputContent = (value: string): Array<ToolCallContent> =>
  value === "" ? [] : [{ type: "content", content: makeTextBlock(TextCut.cutMiddle(value, mostOutput)) }]

const makeTerminalContent = (callId: string): ToolCallContent => ({ type: "terminal", terminalId: callId })

/** Returns the output of a command as a terminal shows it. */
const readCommandOutput = (result: string): string => {
  const { output } = Json.readFields(Json.parseOrKeep(result))
  return typeof output === "string" ? Redaction.redactText(TextCut.cutMiddle(output, mostOutput)) : ""
}

/** Returns the end of a command that ran; undefined for another result. */
const readCommandEnd = (result: string): AcpTerminals.CommandEnd | undefined => {
  const code = Json.readFields(Json.parseOrKeep(result))["exit_code"]
  return typeof code === "number" && code >= 0 ? { output: readCommandOutput(result), exitCode: code } : undefined
}

type CallUpdate = (ToolCall & { sessionUpdate: "tool_call" }) | (ToolCallUpdate & { sessionUpdate: "tool_call_update" })

const isCommand = (name: string): boolean => classifyTool(name) === "execute"

/** Returns what a command wrote; of another result, and of one that was cut, all of it. */
const extractReadableOutput = (name: string, result: string): string => {
  const written = isCommand(name) ? Json.readFields(Json.parseOrKeep(result))["output"] : undefined
  return typeof written === "string" && written !== "" ? written : result
}

/** Facts of the session that updates name. */
export interface UpdateContext {
  /** Makes a path absolute. */
  readonly resolve: (path: string) => string
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: () => number | undefined
  /** The client shows terminals of the agent. */
  readonly hasTerminals: boolean
}

/** Updates of one turn. */
export interface TurnUpdates {
  readonly of: (event: RunEvent) => ReadonlyArray<SessionUpdate>
  /** Ends what nothing told the end of: a call of an answer that broke off, or of a turn that was given up. */
  readonly end: () => ReadonlyArray<SessionUpdate>
}

/** Makes the updates of a turn from its events; without `live`, text is shown when it is final. */
export const makeTurnUpdates = (live: boolean, context: UpdateContext): TurnUpdates => {
  const shown = makeStreamedText(live)
  const announced = new Set<string>()
  const open = new Set<string>()
  /** Arguments of calls that have not started, as the model writes them. */
  const written = new Map<string, string>()
  const changes = new Map<string, ReadonlyArray<FileChanged>>()
  const terminals = new Map<string, AcpTerminals.AcpTerminal>()
  let cost = Cost.nothing

  const toMessageChunks = (piece: string): ReadonlyArray<SessionUpdate> =>
    piece === "" ? [] : [makeMessageChunk(piece)]

  const announceCall = (
    callId: string,
    name: string,
    update: { readonly title: string; readonly status: "pending" | "in_progress" }
  ): CallUpdate => {
    if (announced.has(callId)) return { sessionUpdate: "tool_call_update", toolCallId: callId, ...update }
    announced.add(callId)
    const call: CallUpdate = {
      sessionUpdate: "tool_call",
      toolCallId: callId,
      name,
      kind: classifyTool(name),
      ...update
    }
    if (!context.hasTerminals || name !== "terminal") return call
    terminals.set(callId, AcpTerminals.make(callId))
    return {
      ...call,
      content: [makeTerminalContent(callId)],
      _meta: AcpTerminals.makeTerminalInfo(callId, context.resolve("."))
    }
  }

  const describeInput = (
    params: unknown
  ): { readonly rawInput: unknown; readonly locations?: Array<ToolCallLocation> } => {
    const locations = listLocations(params, context.resolve)
    return { rawInput: Redaction.redactValue(params), ...(locations.length === 0 ? {} : { locations }) }
  }

  const finishCall = ({
    callId,
    name,
    output: said,
    status
  }: Extract<RunEvent, { readonly _tag: "ToolFinished" }>): ReadonlyArray<SessionUpdate> => {
    const differences = (changes.get(callId) ?? []).flatMap((change) =>
      parseDifferences(change).map((found) => ({ ...found, path: change.path }))
    )
    changes.delete(callId)
    open.delete(callId)
    // Of a call that was refused before it started.
    const asked = Json.parseOrKeep(written.get(callId) ?? "")
    written.delete(callId)
    const first = announced.has(callId) ? [] : [announceCall(callId, name, { title: name, status: "pending" })]
    const plan = name === "todo" && status === "ok" ? parsePlan(said) : undefined
    const terminal = terminals.get(callId)
    terminals.delete(callId)
    const end = terminal === undefined ? undefined : readCommandEnd(said)
    const shownOutput =
      end === undefined ? makeOutputContent(extractReadableOutput(name, said)) : [makeTerminalContent(callId)]
    return [
      ...first,
      {
        sessionUpdate: "tool_call_update",
        toolCallId: callId,
        status: status === "ok" ? "completed" : "failed",
        ...(Predicate.isObject(asked) ? { title: renderCallTitle(name, asked), ...describeInput(asked) } : {}),
        content: [
          ...differences.map(({ content }) => content),
          ...(differences.length > 0 && status === "ok" && !isCommand(name) ? [] : shownOutput)
        ],
        ...(terminal === undefined ? {} : { _meta: terminal.ended(end) }),
        ...(differences.length === 0 ? {} : { locations: differences.map(({ line, path }) => ({ path, line })) }),
        rawOutput: Redaction.redactValue(Json.parseOrKeep(TextCut.cutMiddle(said, mostOutput)))
      },
      ...(plan === undefined ? [] : [{ sessionUpdate: "plan" as const, entries: plan }])
    ]
  }

  const reportUsage = (event: UsageReported): ReadonlyArray<SessionUpdate> => {
    cost = Cost.addCall(cost, Cost.fromSpent(event.cost))
    const size = context.window()
    if (event.origin !== undefined || size === undefined) return []
    const { usd } = Cost.toSpent(cost)
    return [
      {
        sessionUpdate: "usage_update",
        used: Usage.countTotalTokens(event.usage),
        size,
        ...(usd === null ? {} : { cost: { amount: usd, currency: "USD" } })
      }
    ]
  }

  const toUpdates = (event: RunEvent): ReadonlyArray<SessionUpdate> => {
    switch (event._tag) {
      case "StepStarted":
        shown.step(event.step)
        return []
      case "TextDelta":
        return toMessageChunks(shown.delta(event.text))
      case "TextReplaced":
        return shown.replace(event.stepId, event.text) === undefined
          ? []
          : toMessageChunks(event.text === "" ? "" : `\n\n${event.text}`)
      case "ReasoningDelta":
        return event.text === "" ? [] : [makeThoughtChunk(event.text)]
      case "ToolInputStarted":
        open.add(event.callId)
        written.set(event.callId, "")
        return [announceCall(event.callId, event.name, { title: event.name, status: "pending" })]
      case "ToolStarted": {
        open.add(event.callId)
        const began = announceCall(event.callId, event.name, {
          title: renderCallTitle(event.name, event.params),
          status: "in_progress"
        })
        written.delete(event.callId)
        return [
          {
            ...began,
            // A question for a permission may have put its own in the place.
            ...(terminals.has(event.callId) ? { content: [makeTerminalContent(event.callId)] } : {}),
            ...describeInput(event.params)
          }
        ]
      }
      case "ToolProgress": {
        const terminal = terminals.get(event.callId)
        if (terminal === undefined)
          return [
            {
              sessionUpdate: "tool_call_update",
              toolCallId: event.callId,
              content: makeOutputContent(extractReadableOutput(event.name, event.text))
            }
          ]
        const _meta = terminal.goesOn(readCommandOutput(event.text))
        return _meta === undefined ? [] : [{ sessionUpdate: "tool_call_update", toolCallId: event.callId, _meta }]
      }
      case "FileChanged":
        changes.set(event.callId, [...(changes.get(event.callId) ?? []), event])
        return []
      case "ToolFinished":
        return finishCall(event)
      case "SubagentStarted":
        return [
          announceCall(event.subagentId, "delegate_task", {
            title: TextCut.shorten(Redaction.redactText(event.goal), mostTitle),
            status: "in_progress"
          })
        ]
      case "SubagentProgress":
        return [
          { sessionUpdate: "tool_call_update", toolCallId: event.subagentId, content: makeOutputContent(event.text) }
        ]
      case "SubagentFinished":
        return [
          {
            sessionUpdate: "tool_call_update",
            toolCallId: event.subagentId,
            status: event.status === "completed" ? "completed" : "failed",
            content: makeOutputContent(`${event.status} after ${event.toolCount} tool calls`)
          }
        ]
      case "Waiting":
        return [makeThoughtChunk(`${event.reason}: retrying in ${Math.ceil(event.millis / 1_000)} s\n`)]
      case "RouteChanged":
        return [
          makeThoughtChunk(
            `${event.from.model} (${event.from.provider}) failed: ${event.reason}. Going on with ${event.to.model} (${event.to.provider}).\n`
          )
        ]
      case "Notice":
        return event.level === "warning" ? [makeThoughtChunk(`${event.message}\n`)] : []
      case "UsageReported":
        return reportUsage(event)
      case "RunFinished":
        return toMessageChunks(shown.rest(event.text))
      case "ToolInputDelta": {
        const before = written.get(event.callId)
        if (before !== undefined) written.set(event.callId, before + event.text)
        return []
      }
      case "RunStarted":
      case "ToolsScheduled":
      case "Heartbeat":
      case "StepFinished":
        return []
    }
  }
  const end = (): ReadonlyArray<SessionUpdate> => {
    const left = Array.from(open, (toolCallId): SessionUpdate => {
      const terminal = terminals.get(toolCallId)
      return {
        sessionUpdate: "tool_call_update",
        toolCallId,
        status: "failed",
        ...(terminal === undefined ? {} : { _meta: terminal.ended(undefined) })
      }
    })
    open.clear()
    written.clear()
    terminals.clear()
    return left
  }
  return { of: toUpdates, end }
}

/** Facts of a stored conversation that its updates name. */
export interface ReplayContext extends Pick<UpdateContext, "resolve" | "hasTerminals"> {
  /** The session of the messages. */
  readonly sessionId: string
  /** Files that the runs of the conversation changed, in the order of the runs. */
  readonly changes: ReadonlyArray<Pick<ChangeSet, "changes" | "position" | "sessionId">>
}

/**
 * Returns the changes of a call whose result is at a position. If several runs have a call with this id, uses the run
 * at that position.
 */
const findChanges = (callId: string, at: number, { changes, sessionId }: ReplayContext): ReadonlyArray<FileChanged> => {
  const runs = changes.filter((run) => run.changes.some((one) => one.callId === callId))
  const here = runs.findLast((run) => run.sessionId === sessionId && run.position !== undefined && run.position <= at)
  return ((runs.length === 1 ? undefined : here) ?? runs.at(-1))?.changes.filter((one) => one.callId === callId) ?? []
}

const replayPart = (
  part: Prompt.Part,
  turn: TurnUpdates,
  changed: (callId: string) => ReadonlyArray<FileChanged>
): ReadonlyArray<SessionUpdate> => {
  switch (part.type) {
    case "text":
      return part.text === ""
        ? []
        : [makeMessageChunk(RemoteImages.replaceRemoteImages(Redaction.redactKeys(part.text)))]
    case "reasoning":
      return part.text === "" ? [] : [makeThoughtChunk(part.text)]
    case "tool-call":
      return turn.of({ _tag: "ToolStarted", callId: part.id, name: part.name, params: part.params })
    case "tool-result":
      return [
        ...changed(part.id),
        {
          _tag: "ToolFinished" as const,
          callId: part.id,
          name: part.name,
          status: part.isFailure ? ("error" as const) : ("ok" as const),
          output: Json.toText(part.result),
          durationMillis: 0
        }
      ].flatMap(turn.of)
    default:
      return []
  }
}

const toUserBlock = (part: Prompt.UserMessagePart): ContentBlock =>
  part.type === "text" ? makeTextBlock(part.text) : makeTextBlock(`[${part.mediaType}]`)

/**
 * Returns a stored conversation as the updates of a client that opens it: its calls as they were shown when they ended.
 */
export const replayMessages = (
  messages: ReadonlyArray<Prompt.Message>,
  context: ReplayContext
): ReadonlyArray<SessionUpdate> => {
  const startTurnUpdates = () => makeTurnUpdates(true, { ...context, window: () => undefined })
  let turn = startTurnUpdates()
  const updates = messages.flatMap((one, at): ReadonlyArray<SessionUpdate> => {
    if (one.role === "system") return []
    if (one.role !== "user")
      return one.content.flatMap((part) => replayPart(part, turn, (callId) => findChanges(callId, at, context)))
    const left = turn.end()
    turn = startTurnUpdates()
    return [
      ...left,
      ...one.content.map((part): SessionUpdate => ({ sessionUpdate: "user_message_chunk", content: toUserBlock(part) }))
    ]
  })
  return [...updates, ...turn.end()]
}
