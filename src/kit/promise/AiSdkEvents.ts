/** Converts the events of a run to the stream parts of the AI SDK. */
import type {
  JSONValue,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResult,
  LanguageModelV4Usage
} from "@ai-sdk/provider"
import * as Option from "effect/Option"
import * as AnswerFormat from "../../base/domain/AnswerFormat.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Question } from "../../base/domain/Question.ts"
import type { Exit, RunEvent, RunResult } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as AiSdkApprovals from "./AiSdkApprovals.ts"
import { makeStreamedText } from "../../serve/host/StreamedText.ts"

const finishes: Partial<Record<Exit, LanguageModelV4FinishReason["unified"]>> = {
  text_response: "stop",
  stop_tool_triggered: "stop",
  ended_by_middleware: "stop",
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content-filter",
  partial_stream_recovery: "interrupted",
  suspended: "tool-calls"
}

const toUsage = (usage: Usage.Usage): LanguageModelV4Usage => ({
  inputTokens: {
    total: Usage.countPromptTokens(usage),
    noCache: usage.inputTokens,
    cacheRead: usage.cacheReadTokens,
    cacheWrite: usage.cacheWriteTokens
  },
  outputTokens: {
    total: usage.outputTokens,
    text: usage.outputTokens - usage.reasoningTokens,
    reasoning: usage.reasoningTokens
  }
})

/** Returns the facts of a run for which the AI SDK has no field. */
const toMetadata = ({ cost, exit, questions, sessionId, steps, turnId }: RunResult) => ({
  hermes: {
    sessionId,
    turnId,
    exit,
    steps,
    cost: { ...cost },
    // A question is JSON.
    ...(questions === undefined ? {} : { questions: questions as ReadonlyArray<unknown> as JSONValue })
  }
})

/** A call whose arguments are being streamed, or that is running. */
interface OpenCall {
  readonly name: string
  text: string
  isInputOpen: boolean
  isTold: boolean
}

type Parts = ReadonlyArray<LanguageModelV4StreamPart>

type EventWithTag<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** State of one run on which its parts depend. */
interface StreamState {
  /** True if the text of the run is the JSON of its value, which is only known at the end. */
  readonly isValue: boolean
  readonly shown: ReturnType<typeof makeStreamedText>
  readonly calls: Map<string, OpenCall>
  /** Ids of the calls that the user denied, whose end the AI SDK shows itself. */
  readonly denied: ReadonlySet<string>
  /** Ids of the questions that were reported. */
  readonly asked: Set<string>
  /** The open block of text or reasoning. */
  open: { readonly type: "text" | "reasoning"; readonly id: string } | undefined
  /** Number of blocks so far. */
  blocks: number
}

const closeBlock = (state: StreamState): Parts => {
  if (state.open === undefined) return []
  const { id, type } = state.open
  state.open = undefined
  return [{ type: `${type}-end`, id }]
}

const appendDelta = (state: StreamState, type: "text" | "reasoning", delta: string): Parts => {
  if (delta === "") return []
  const before = state.open?.type === type ? [] : closeBlock(state)
  if (state.open !== undefined) return [{ type: `${type}-delta`, id: state.open.id, delta }]
  const id = `${type}-${state.blocks++}`
  state.open = { type, id }
  return [...before, { type: `${type}-start`, id }, { type: `${type}-delta`, id, delta }]
}

const beginCall = ({ calls }: StreamState, callId: string, name: string): OpenCall => {
  const known = calls.get(callId)
  if (known !== undefined) return known
  const made = { name, text: "", isInputOpen: false, isTold: false }
  calls.set(callId, made)
  return made
}

/** Reports the call with its arguments, once. */
const reportCall = (state: StreamState, callId: string, call: OpenCall, input: string): Parts => {
  if (call.isTold) return []
  call.isTold = true
  const ended: Parts = call.isInputOpen ? [{ type: "tool-input-end", id: callId }] : []
  call.isInputOpen = false
  return [
    ...closeBlock(state),
    ...ended,
    { type: "tool-call", toolCallId: callId, toolName: call.name, input, providerExecuted: true, dynamic: true }
  ]
}

const beginInput = (state: StreamState, { callId, name }: EventWithTag<"ToolInputStarted">): Parts => {
  const call = beginCall(state, callId, name)
  if (call.isInputOpen || call.isTold) return []
  call.isInputOpen = true
  return [
    ...closeBlock(state),
    { type: "tool-input-start", id: callId, toolName: name, providerExecuted: true, dynamic: true }
  ]
}

const appendInput = ({ calls }: StreamState, { callId, text }: EventWithTag<"ToolInputDelta">): Parts => {
  const call = calls.get(callId)
  if (call === undefined || !call.isInputOpen) return []
  call.text += text
  return [{ type: "tool-input-delta", id: callId, delta: text }]
}

/** Returns the result of a tool as the value that its JSON text describes, or as the text that it is. */
const toResult = (output: string): LanguageModelV4ToolResult["result"] => {
  const value = /^\s*[[{]/u.test(output) ? Option.getOrUndefined(Json.parse(output)) : undefined
  // A parsed object or list is a JSON value.
  return typeof value === "object" && value !== null ? (value as LanguageModelV4ToolResult["result"]) : output
}

const finishCall = (
  state: StreamState,
  { callId, name, output, result, status }: EventWithTag<"ToolFinished">
): Parts => {
  if (state.denied.has(callId) && status === "blocked") return []
  const call = beginCall(state, callId, name)
  // A refused call never started, and its arguments may not be JSON.
  const known = reportCall(state, callId, call, JSON.stringify(call.text))
  return [
    ...known,
    {
      type: "tool-result",
      toolCallId: callId,
      toolName: name,
      // The value of a result is JSON. Without it, a hook or middleware changed the text.
      result:
        status === "ok" ? ((result as LanguageModelV4ToolResult["result"] | undefined) ?? toResult(output)) : output,
      ...(status === "ok" ? {} : { isError: true }),
      dynamic: true
    }
  ]
}

/**
 * Returns the JSON of the value of a run: as the model wrote it, so that the caller's messages have the text of the
 * session, unless the text has more than the value.
 */
const renderValue = ({ text, value }: EventWithTag<"RunFinished">): string => {
  const own = JSON.stringify(value ?? null)
  const written = AnswerFormat.findJson(text)
  return written !== undefined && JSON.stringify(JSON.parse(written)) === own ? written : own
}

/**
 * Reports a call that waits for its approval, and the request for it. Other questions are in the metadata of the run,
 * because the AI SDK has no part for them.
 */
const askApproval = (state: StreamState, question: Question): Parts => {
  const { callId, details, id, kind, tool } = question
  if (kind !== "approval" || callId === undefined || tool === undefined || state.asked.has(id)) return []
  state.asked.add(id)
  const call = beginCall(state, callId, tool)
  const input = JSON.stringify(Json.readFields(details)["params"] ?? {})
  return [
    ...reportCall(state, callId, call, input),
    { type: "tool-approval-request", approvalId: AiSdkApprovals.formatApprovalId(question), toolCallId: callId }
  ]
}

const finishRun = (state: StreamState, event: EventWithTag<"RunFinished">): Parts => [
  ...appendDelta(state, "text", state.isValue ? renderValue(event) : state.shown.rest(event.text)),
  ...closeBlock(state),
  // Questions of an earlier run that still have no answer.
  ...(event.questions ?? []).flatMap((question) => askApproval(state, question)),
  {
    type: "finish",
    finishReason: { unified: finishes[event.exit] ?? "other", raw: event.exit },
    usage: toUsage(event.usage),
    providerMetadata: toMetadata(event)
  }
]

const toParts = (state: StreamState, event: RunEvent): Parts => {
  const { shown } = state
  switch (event._tag) {
    case "RunStarted":
      return [{ type: "response-metadata", id: event.turnId, modelId: event.model }]
    case "StepStarted":
      shown.step(event.step)
      return closeBlock(state)
    case "TextDelta":
      return appendDelta(state, "text", shown.delta(event.text))
    case "TextReplaced":
      // The replacement is streamed after the old text, because streamed text cannot be retracted.
      return shown.replace(event.stepId, event.text) === undefined || event.text === ""
        ? []
        : [...closeBlock(state), ...appendDelta(state, "text", `\n\n${event.text}`)]
    case "ReasoningDelta":
      return appendDelta(state, "reasoning", event.text)
    case "ToolInputStarted":
      return beginInput(state, event)
    case "ToolInputDelta":
      return appendInput(state, event)
    case "ToolStarted": {
      const call = beginCall(state, event.callId, event.name)
      return reportCall(state, event.callId, call, JSON.stringify(event.params) ?? "{}")
    }
    case "ToolProgress":
      return [
        {
          type: "tool-result",
          toolCallId: event.callId,
          toolName: event.name,
          result: event.text,
          preliminary: true,
          dynamic: true
        }
      ]
    case "ToolFinished":
      return finishCall(state, event)
    case "QuestionAsked":
      return askApproval(state, event.question)
    case "RunFinished":
      return finishRun(state, event)
    default:
      return []
  }
}

/**
 * Returns a function that takes the events of one run in order and returns their stream parts. `isValue` is true for a
 * run with an output schema. `denied` has the ids of the calls that the prompt of the run denies.
 */
export const make = (isValue: boolean, denied: ReadonlySet<string> = new Set()): ((event: RunEvent) => Parts) => {
  const shown = makeStreamedText(!isValue)
  const state: StreamState = { isValue, shown, denied, calls: new Map(), asked: new Set(), open: undefined, blocks: 0 }
  return (event) => toParts(state, event)
}
