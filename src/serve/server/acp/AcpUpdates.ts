/**
 * Converts events of a run to updates of an ACP session. Pure. Pieces of an answer must already be free of secrets
 * (`StreamSecrets`) and of images that a client would load from another host (`RemoteImages`). `AcpContent` removes
 * both from other text.
 *
 * **Details**
 *
 * | event | update |
 * | --- | --- |
 * | text, reasoning | `agent_message_chunk`, `agent_thought_chunk` |
 * | a call | `tool_call` when the model begins it, then `tool_call_update` with status, places, output, differences |
 * | a command, if the client displays terminals | the same, with its output in a terminal (`AcpTerminals`) |
 * | a list of `todo` | `plan` |
 * | a sub-agent | a `tool_call` of the kind `think` with its goal |
 * | usage | `usage_update` |
 * | a warning, another route, a wait | `agent_thought_chunk` |
 *
 * The protocol cannot retract text that was shown, so a replacement is shown after the text that it replaces. A
 * difference contains the changed lines and their context lines, not the whole file.
 *
 * Source: Agent Client Protocol, `session/update`.
 */
import type { SessionUpdate, ToolCall, ToolCallUpdate } from "@agentclientprotocol/sdk/unstable"
import * as Predicate from "effect/Predicate"
import * as Cost from "../../../base/domain/Cost.ts"
import type { FileChanged } from "../../../base/domain/FileChange.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { RunEvent, UsageReported } from "../../../base/domain/RunEvent.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import { makeStreamedText } from "../../host/StreamedText.ts"
import * as AcpContent from "./AcpContent.ts"
import * as AcpTerminals from "./AcpTerminals.ts"

/** Facts about the session that are needed to make updates. */
export interface UpdateContext {
  /** Converts a path to an absolute path. */
  readonly resolve: (path: string) => string
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: () => number | undefined
  /** True if the client displays terminals of the agent. */
  readonly hasTerminals: boolean
}

/** Converts the events of one turn to updates. */
export interface TurnUpdates {
  readonly of: (event: RunEvent) => ReadonlyArray<SessionUpdate>
  /** Returns updates that end calls without a result, for an interrupted answer or an abandoned turn. */
  readonly end: () => ReadonlyArray<SessionUpdate>
}

type CallUpdate = (ToolCall & { sessionUpdate: "tool_call" }) | (ToolCallUpdate & { sessionUpdate: "tool_call_update" })

type EventWithTag<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

type CallEvent = EventWithTag<
  "FileChanged" | "ToolFinished" | "ToolInputDelta" | "ToolInputStarted" | "ToolProgress" | "ToolStarted"
>

type SubagentEvent = EventWithTag<"SubagentFinished" | "SubagentProgress" | "SubagentStarted">

type TextEvent = EventWithTag<"ReasoningDelta" | "RunFinished" | "StepStarted" | "TextDelta" | "TextReplaced">

/** State of a turn for the conversion of its events to updates. */
interface TurnState {
  readonly context: UpdateContext
  readonly shown: ReturnType<typeof makeStreamedText>
  /** Ids of calls that were announced to the client. */
  readonly announced: Set<string>
  /** Ids of calls that have no result yet. */
  readonly open: Set<string>
  /** Arguments of calls that have not started, as written by the model so far. */
  readonly written: Map<string, string>
  readonly changes: Map<string, ReadonlyArray<FileChanged>>
  readonly terminals: Map<string, AcpTerminals.AcpTerminal>
  cost: ReturnType<typeof Cost.addCall>
}

const toMessageChunks = (piece: string): ReadonlyArray<SessionUpdate> =>
  piece === "" ? [] : [AcpContent.makeMessageChunk(piece)]

/** Returns the update that announces a call, or an update with changes if the call was already announced. */
const announceCall = (
  { announced, context, terminals }: TurnState,
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
    kind: AcpContent.classifyTool(name),
    ...update
  }
  if (!context.hasTerminals || name !== "terminal") return call
  terminals.set(callId, AcpTerminals.make(callId))
  return {
    ...call,
    content: [AcpContent.makeTerminalContent(callId)],
    _meta: AcpTerminals.makeTerminalInfo(callId, context.resolve("."))
  }
}

const startCall = (
  state: TurnState,
  { callId, name, params }: EventWithTag<"ToolStarted">
): ReadonlyArray<SessionUpdate> => {
  state.open.add(callId)
  const title = AcpContent.renderCallTitle(name, params)
  const began = announceCall(state, callId, name, { title, status: "in_progress" })
  state.written.delete(callId)
  return [
    {
      ...began,
      // A permission request may have replaced the content.
      ...(state.terminals.has(callId) ? { content: [AcpContent.makeTerminalContent(callId)] } : {}),
      ...AcpContent.describeInput(params, state.context.resolve)
    }
  ]
}

const continueCall = (
  { terminals }: TurnState,
  { callId, name, text }: EventWithTag<"ToolProgress">
): ReadonlyArray<SessionUpdate> => {
  const terminal = terminals.get(callId)
  if (terminal === undefined) {
    const content = AcpContent.makeOutputContent(AcpContent.extractReadableOutput(name, text))
    return [{ sessionUpdate: "tool_call_update", toolCallId: callId, content }]
  }
  const _meta = terminal.goesOn(AcpContent.readCommandOutput(text))
  return _meta === undefined ? [] : [{ sessionUpdate: "tool_call_update", toolCallId: callId, _meta }]
}

const finishCall = (
  state: TurnState,
  { callId, name, output: said, status }: EventWithTag<"ToolFinished">
): ReadonlyArray<SessionUpdate> => {
  const { announced, changes, context, open, terminals, written } = state
  const differences = (changes.get(callId) ?? []).flatMap((change) =>
    AcpContent.parseDifferences(change).map((found) => ({ ...found, path: change.path }))
  )
  changes.delete(callId)
  open.delete(callId)
  // If a call was refused before it started, only the arguments written by the model are known.
  const asked = Json.parseOrKeep(written.get(callId) ?? "")
  written.delete(callId)
  const first = announced.has(callId) ? [] : [announceCall(state, callId, name, { title: name, status: "pending" })]
  const plan = name === "todo" && status === "ok" ? AcpContent.parsePlan(said) : undefined
  const view = AcpContent.presentResult(name, status, said)
  const terminal = terminals.get(callId)
  terminals.delete(callId)
  const end = terminal === undefined ? undefined : AcpContent.readCommandEnd(said)
  const shownOutput =
    end === undefined
      ? AcpContent.makeOutputContent(AcpContent.renderView(view) ?? AcpContent.extractReadableOutput(name, said))
      : [AcpContent.makeTerminalContent(callId)]
  return [
    ...first,
    {
      sessionUpdate: "tool_call_update",
      toolCallId: callId,
      status: view.outcome === "done" ? "completed" : "failed",
      ...(Predicate.isObject(asked)
        ? { title: AcpContent.renderCallTitle(name, asked), ...AcpContent.describeInput(asked, context.resolve) }
        : {}),
      content: [
        ...differences.map(({ content }) => content),
        ...(differences.length > 0 && status === "ok" && !AcpContent.isCommand(name) ? [] : shownOutput)
      ],
      _meta: {
        ...terminal?.ended(end),
        [AcpContent.viewKey]: differences.length === 0 ? view : { ...view, diff: undefined }
      },
      ...(differences.length === 0 ? {} : { locations: differences.map(({ line, path }) => ({ path, line })) }),
      rawOutput: AcpContent.toRawOutput(said)
    },
    ...(plan === undefined ? [] : [{ sessionUpdate: "plan" as const, entries: plan }])
  ]
}

const toCallUpdates = (state: TurnState, event: CallEvent): ReadonlyArray<SessionUpdate> => {
  const { changes, open, written } = state
  switch (event._tag) {
    case "ToolInputStarted":
      open.add(event.callId)
      written.set(event.callId, "")
      return [announceCall(state, event.callId, event.name, { title: event.name, status: "pending" })]
    case "ToolInputDelta": {
      const before = written.get(event.callId)
      if (before !== undefined) written.set(event.callId, before + event.text)
      return []
    }
    case "ToolStarted":
      return startCall(state, event)
    case "ToolProgress":
      return continueCall(state, event)
    case "FileChanged":
      changes.set(event.callId, [...(changes.get(event.callId) ?? []), event])
      return []
    case "ToolFinished":
      return finishCall(state, event)
  }
}

const toSubagentUpdate = (state: TurnState, event: SubagentEvent): SessionUpdate => {
  const toolCallId = event.subagentId
  switch (event._tag) {
    case "SubagentStarted": {
      const title = AcpContent.renderGoalTitle(event.goal)
      return announceCall(state, toolCallId, "delegate_task", { title, status: "in_progress" })
    }
    case "SubagentProgress":
      return { sessionUpdate: "tool_call_update", toolCallId, content: AcpContent.makeOutputContent(event.text) }
    case "SubagentFinished":
      return {
        sessionUpdate: "tool_call_update",
        toolCallId,
        status: event.status === "completed" ? "completed" : "failed",
        content: AcpContent.makeOutputContent(`${event.status} after ${event.toolCount} tool calls`)
      }
  }
}

const toUsageUpdates = (state: TurnState, event: UsageReported): ReadonlyArray<SessionUpdate> => {
  state.cost = Cost.addCall(state.cost, Cost.fromSpent(event.cost))
  const size = state.context.window()
  if (event.origin !== undefined || size === undefined) return []
  const { usd } = Cost.toSpent(state.cost)
  return [
    {
      sessionUpdate: "usage_update",
      used: Usage.countTotalTokens(event.usage),
      size,
      ...(usd === null ? {} : { cost: { amount: usd, currency: "USD" } })
    }
  ]
}

const toTextUpdates = ({ shown }: TurnState, event: TextEvent): ReadonlyArray<SessionUpdate> => {
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
      return event.text === "" ? [] : [AcpContent.makeThoughtChunk(event.text)]
    case "RunFinished":
      return toMessageChunks(shown.rest(event.text))
  }
}

const renderRouteChange = ({ from, reason, to }: EventWithTag<"RouteChanged">): string =>
  `${from.model} (${from.provider}) failed: ${reason}. Continuing with ${to.model} (${to.provider}).\n`

const toUpdates = (state: TurnState, event: RunEvent): ReadonlyArray<SessionUpdate> => {
  switch (event._tag) {
    case "ToolInputStarted":
    case "ToolInputDelta":
    case "ToolStarted":
    case "ToolProgress":
    case "FileChanged":
    case "ToolFinished":
      return toCallUpdates(state, event)
    case "SubagentStarted":
    case "SubagentProgress":
    case "SubagentFinished":
      return [toSubagentUpdate(state, event)]
    case "Waiting":
      return [AcpContent.makeThoughtChunk(`${event.reason}: retrying in ${Math.ceil(event.millis / 1_000)} s\n`)]
    case "RouteChanged":
      return [AcpContent.makeThoughtChunk(renderRouteChange(event))]
    case "Notice":
      return event.level === "warning" ? [AcpContent.makeThoughtChunk(`${event.message}\n`)] : []
    case "UsageReported":
      return toUsageUpdates(state, event)
    case "RunStarted":
    case "ToolsScheduled":
    case "Heartbeat":
    case "StepFinished":
    case "ValueDelta":
    case "QuestionAsked":
      return []
    default:
      return toTextUpdates(state, event)
  }
}

/** Ends the calls that have no result. */
const endOpenCalls = ({ open, terminals, written }: TurnState): ReadonlyArray<SessionUpdate> => {
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

/** Makes the converter for a turn's events. If `live` is false, text is shown only when it is final. */
export const makeTurnUpdates = (live: boolean, context: UpdateContext): TurnUpdates => {
  const state: TurnState = {
    context,
    shown: makeStreamedText(live),
    announced: new Set(),
    open: new Set(),
    written: new Map(),
    changes: new Map(),
    terminals: new Map(),
    cost: Cost.nothing
  }
  return { of: (event) => toUpdates(state, event), end: () => endOpenCalls(state) }
}
