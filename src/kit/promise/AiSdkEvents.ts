/** Events of a run as the parts that the AI SDK streams. */
import type { LanguageModelV4FinishReason, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider"
import type { Exit, RunEvent, RunResult } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { makeStreamedText } from "../../serve/host/StreamedText.ts"

const finishes: Partial<Record<Exit, LanguageModelV4FinishReason["unified"]>> = {
  text_response: "stop",
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content-filter",
  partial_stream_recovery: "interrupted"
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

/** The facts of a run that the AI SDK has no place for. */
const toMetadata = ({ cost, exit, sessionId, steps, turnId }: RunResult) => ({
  hermes: { sessionId, turnId, exit, steps, cost: { ...cost } }
})

/** A call whose arguments stream by, or that runs. */
interface OpenCall {
  readonly name: string
  text: string
  isInputOpen: boolean
  isTold: boolean
}

/** Takes the events of one run and gives the parts that they make. */
export const make = (): ((event: RunEvent) => ReadonlyArray<LanguageModelV4StreamPart>) => {
  const shown = makeStreamedText(true)
  const calls = new Map<string, OpenCall>()
  let open: { readonly type: "text" | "reasoning"; readonly id: string } | undefined
  let blocks = 0

  const closeBlock = (): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (open === undefined) return []
    const { id, type } = open
    open = undefined
    return [{ type: `${type}-end`, id }]
  }

  const appendDelta = (type: "text" | "reasoning", delta: string): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (delta === "") return []
    const before = open?.type === type ? [] : closeBlock()
    if (open !== undefined) return [{ type: `${type}-delta`, id: open.id, delta }]
    const id = `${type}-${blocks++}`
    open = { type, id }
    return [...before, { type: `${type}-start`, id }, { type: `${type}-delta`, id, delta }]
  }

  const beginCall = (callId: string, name: string): OpenCall => {
    const known = calls.get(callId)
    if (known !== undefined) return known
    const made = { name, text: "", isInputOpen: false, isTold: false }
    calls.set(callId, made)
    return made
  }

  /** The call with its arguments, once. */
  const reportCall = (callId: string, call: OpenCall, input: string): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (call.isTold) return []
    call.isTold = true
    const ended: ReadonlyArray<LanguageModelV4StreamPart> = call.isInputOpen
      ? [{ type: "tool-input-end", id: callId }]
      : []
    call.isInputOpen = false
    return [
      ...closeBlock(),
      ...ended,
      { type: "tool-call", toolCallId: callId, toolName: call.name, input, providerExecuted: true, dynamic: true }
    ]
  }

  return (event) => {
    switch (event._tag) {
      case "RunStarted":
        return [{ type: "response-metadata", id: event.turnId, modelId: event.model }]
      case "StepStarted":
        shown.step(event.step)
        return closeBlock()
      case "TextDelta":
        return appendDelta("text", shown.delta(event.text))
      case "TextReplaced":
        // The text in its place follows: a piece that was streamed cannot be taken back.
        return shown.replace(event.stepId, event.text) === undefined || event.text === ""
          ? []
          : [...closeBlock(), ...appendDelta("text", `\n\n${event.text}`)]
      case "ReasoningDelta":
        return appendDelta("reasoning", event.text)
      case "ToolInputStarted": {
        const call = beginCall(event.callId, event.name)
        if (call.isInputOpen || call.isTold) return []
        call.isInputOpen = true
        return [
          ...closeBlock(),
          { type: "tool-input-start", id: event.callId, toolName: event.name, providerExecuted: true, dynamic: true }
        ]
      }
      case "ToolInputDelta": {
        const call = calls.get(event.callId)
        if (call === undefined || !call.isInputOpen) return []
        call.text += event.text
        return [{ type: "tool-input-delta", id: event.callId, delta: event.text }]
      }
      case "ToolStarted":
        return reportCall(event.callId, beginCall(event.callId, event.name), JSON.stringify(event.params) ?? "{}")
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
      case "ToolFinished": {
        const call = beginCall(event.callId, event.name)
        // One that was refused never began; its arguments may be no JSON.
        const known = reportCall(event.callId, call, JSON.stringify(call.text))
        return [
          ...known,
          {
            type: "tool-result",
            toolCallId: event.callId,
            toolName: event.name,
            result: event.output,
            ...(event.status === "ok" ? {} : { isError: true }),
            dynamic: true
          }
        ]
      }
      case "RunFinished":
        return [
          ...appendDelta("text", shown.rest(event.text)),
          ...closeBlock(),
          {
            type: "finish",
            finishReason: { unified: finishes[event.exit] ?? "other", raw: event.exit },
            usage: toUsage(event.usage),
            providerMetadata: toMetadata(event)
          }
        ]
      default:
        return []
    }
  }
}
