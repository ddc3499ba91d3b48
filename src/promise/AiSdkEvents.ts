/** Events of a run as the parts that the AI SDK streams. */
import type { LanguageModelV4FinishReason, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider"
import type { Exit, RunEvent, RunResult } from "../domain/RunEvent.ts"
import * as Usage from "../domain/Usage.ts"
import { streamedText } from "../host/StreamedText.ts"

const finishes: Partial<Record<Exit, LanguageModelV4FinishReason["unified"]>> = {
  text_response: "stop",
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content-filter",
  partial_stream_recovery: "interrupted"
}

const usageOf = (usage: Usage.Usage): LanguageModelV4Usage => ({
  inputTokens: {
    total: Usage.promptTokens(usage),
    noCache: usage.inputTokens,
    cacheRead: usage.cacheReadTokens,
    cacheWrite: usage.cacheWriteTokens
  },
  outputTokens: { total: usage.outputTokens, text: usage.outputTokens - usage.reasoningTokens, reasoning: usage.reasoningTokens }
})

/** The facts of a run that the AI SDK has no place for. */
const metadataOf = ({ cost, exit, sessionId, steps, turnId }: RunResult) => ({ hermes: { sessionId, turnId, exit, steps, cost: { ...cost } } })

/** A call whose arguments stream by, or that runs. */
interface OpenCall {
  readonly name: string
  text: string
  isInputOpen: boolean
  isTold: boolean
}

/** Takes the events of one run and gives the parts that they make. */
export const make = (): (event: RunEvent) => ReadonlyArray<LanguageModelV4StreamPart> => {
  const shown = streamedText(true)
  const calls = new Map<string, OpenCall>()
  let open: { readonly type: "text" | "reasoning"; readonly id: string } | undefined
  let blocks = 0

  const closed = (): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (open === undefined) return []
    const { id, type } = open
    open = undefined
    return [{ type: `${type}-end`, id }]
  }

  const piece = (type: "text" | "reasoning", delta: string): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (delta === "") return []
    const before = open?.type === type ? [] : closed()
    if (open !== undefined) return [{ type: `${type}-delta`, id: open.id, delta }]
    const id = `${type}-${blocks++}`
    open = { type, id }
    return [...before, { type: `${type}-start`, id }, { type: `${type}-delta`, id, delta }]
  }

  const begun = (callId: string, name: string): OpenCall => {
    const known = calls.get(callId)
    if (known !== undefined) return known
    const made = { name, text: "", isInputOpen: false, isTold: false }
    calls.set(callId, made)
    return made
  }

  /** The call with its arguments, once. */
  const told = (callId: string, call: OpenCall, input: string): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (call.isTold) return []
    call.isTold = true
    const ended: ReadonlyArray<LanguageModelV4StreamPart> = call.isInputOpen ? [{ type: "tool-input-end", id: callId }] : []
    call.isInputOpen = false
    return [...closed(), ...ended, { type: "tool-call", toolCallId: callId, toolName: call.name, input, providerExecuted: true, dynamic: true }]
  }

  return (event) => {
    switch (event._tag) {
      case "RunStarted":
        return [{ type: "response-metadata", id: event.turnId, modelId: event.model }]
      case "StepStarted":
        shown.step(event.step)
        return closed()
      case "TextDelta":
        return piece("text", shown.delta(event.text))
      case "TextReplaced":
        // The text in its place follows: a piece that was streamed cannot be taken back.
        return shown.replace(event.stepId, event.text) === undefined || event.text === "" ? [] : [...closed(), ...piece("text", `\n\n${event.text}`)]
      case "ReasoningDelta":
        return piece("reasoning", event.text)
      case "ToolInputStarted": {
        const call = begun(event.callId, event.name)
        if (call.isInputOpen || call.isTold) return []
        call.isInputOpen = true
        return [...closed(), { type: "tool-input-start", id: event.callId, toolName: event.name, providerExecuted: true, dynamic: true }]
      }
      case "ToolInputDelta": {
        const call = calls.get(event.callId)
        if (call === undefined || !call.isInputOpen) return []
        call.text += event.text
        return [{ type: "tool-input-delta", id: event.callId, delta: event.text }]
      }
      case "ToolStarted":
        return told(event.callId, begun(event.callId, event.name), JSON.stringify(event.params) ?? "{}")
      case "ToolProgress":
        return [{ type: "tool-result", toolCallId: event.callId, toolName: event.name, result: event.text, preliminary: true, dynamic: true }]
      case "ToolFinished": {
        const call = begun(event.callId, event.name)
        // One that was refused never began; its arguments may be no JSON.
        const known = told(event.callId, call, JSON.stringify(call.text))
        return [...known, {
          type: "tool-result",
          toolCallId: event.callId,
          toolName: event.name,
          result: event.output,
          ...(event.status === "ok" ? {} : { isError: true }),
          dynamic: true
        }]
      }
      case "RunFinished":
        return [...piece("text", shown.rest(event.text)), ...closed(), {
          type: "finish",
          finishReason: { unified: finishes[event.exit] ?? "other", raw: event.exit },
          usage: usageOf(event.usage),
          providerMetadata: metadataOf(event)
        }]
      default:
        return []
    }
  }
}
