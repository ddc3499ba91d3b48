/**
 * The events of a run, from the entries of its record. Texts of an answer are whole, and events that describe only a
 * moment are absent (see `RunCursor`).
 */
import type * as Prompt from "effect/ai/Prompt"
import * as AnswerText from "../base/domain/AnswerText.ts"
import * as Json from "../base/domain/Json.ts"
import type { Entry, RecordEvent } from "../base/domain/RecordEvent.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"

type EventWithTag<Tag extends RecordEvent["_tag"]> = Extract<RecordEvent, { readonly _tag: Tag }>

/** Reads the entries of one run, in order. */
export interface RecordedRun {
  /** Returns the events of the next entries. */
  readonly read: (entries: ReadonlyArray<Entry>) => ReadonlyArray<RunEvent>
  /** Returns the last entry of the run, if it was read. */
  readonly end: () => EventWithTag<"RunEnded"> | undefined
}

/** Parts of a run that are known so far. */
interface RunReading {
  step: number
  /** Text of the step. */
  text: string
  /** Provider and model that answered last. */
  route: { readonly provider: string; readonly model: string }
  /** Results of calls, by id. */
  readonly outputs: Map<string, string>
  end: EventWithTag<"RunEnded"> | undefined
}

const noteOutputs = ({ outputs }: RunReading, message: Prompt.Message | undefined): void => {
  if (message?.role !== "tool") return
  for (const part of message.content) if (part.type === "tool-result") outputs.set(part.id, Json.toText(part.result))
}

/** Returns the reasoning and the text of an answer. */
const readAnswer = (reading: RunReading, message: Prompt.AssistantMessage): ReadonlyArray<RunEvent> => {
  const joinParts = (type: "reasoning" | "text"): string =>
    message.content.map((part) => (part.type === type ? part.text : "")).join("")
  const [reasoning, said] = [joinParts("reasoning"), AnswerText.toDisplayText(joinParts("text"), true)]
  // A second answer of a step is shown as another paragraph.
  const text = reading.text === "" || said === "" ? said : `\n\n${said}`
  reading.text += text
  return [
    ...(reasoning === "" ? [] : [{ _tag: "ReasoningDelta", text: reasoning } as const]),
    ...(text === "" ? [] : [{ _tag: "TextDelta", text } as const])
  ]
}

const finishCall = (
  { outputs }: RunReading,
  { callId, durationMillis, name, parentCallId, reason, status }: EventWithTag<"CallEnded">
): ReadonlyArray<RunEvent> =>
  // A suspended call has not ended, and a call that a tool made is not shown.
  parentCallId !== undefined || reason === "suspended"
    ? []
    : [{ _tag: "ToolFinished", callId, name, status, output: outputs.get(callId) ?? "", durationMillis }]

const finishRun = ({ route }: RunReading, entry: Entry, ended: EventWithTag<"RunEnded">): ReadonlyArray<RunEvent> => {
  const { cost, endedBy, exit, limit, responseTransformed, steps, text = "", usage } = ended
  if (exit === "interrupted" || exit === "failed") return []
  return [
    {
      _tag: "RunFinished",
      sessionId: entry.sessionId,
      turnId: entry.turnId,
      exit,
      ...(limit === undefined ? {} : { limit }),
      ...(endedBy === undefined ? {} : { endedBy }),
      ...(responseTransformed === undefined ? {} : { responseTransformed }),
      text,
      steps,
      ...route,
      usage,
      cost
    }
  ]
}

const readEntry = (reading: RunReading, entry: Entry): ReadonlyArray<RunEvent> => {
  const { event, sessionId, turnId } = entry
  switch (event._tag) {
    case "RunStarted": {
      const { model, provider, resumed } = event
      reading.route = { provider, model }
      return [{ _tag: "RunStarted", version: 1, sessionId, turnId, provider, model, resumed }]
    }
    case "AttemptStarted": {
      if (event.task !== undefined) return []
      reading.route = { provider: event.route.provider, model: event.route.model }
      if (event.step <= reading.step) return []
      reading.step = event.step
      reading.text = ""
      return [{ _tag: "StepStarted", step: event.step }]
    }
    case "MessageAppended": {
      const { copyOf, message, origin, position } = event
      const isAnswer = origin === "model" && position !== undefined && copyOf === undefined
      return isAnswer && message?.role === "assistant" ? readAnswer(reading, message) : []
    }
    case "CallStarted":
      return event.parentCallId === undefined
        ? [{ _tag: "ToolStarted", callId: event.callId, name: event.name, params: event.args }]
        : []
    case "CallEnded":
      return finishCall(reading, event)
    case "FileChanged":
      return [event]
    case "RunEnded":
      reading.end = event
      return finishRun(reading, entry, event)
    default:
      return []
  }
}

/** Makes the reader of a run. */
export const makeReader = (): RecordedRun => {
  const reading: RunReading = {
    step: 0,
    text: "",
    route: { provider: "", model: "" },
    outputs: new Map(),
    end: undefined
  }
  return {
    read: (entries) => {
      // The result of a call may follow its end, in the same transaction.
      for (const { event } of entries) if (event._tag === "MessageAppended") noteOutputs(reading, event.message)
      return entries.flatMap((entry) => readEntry(reading, entry))
    },
    end: () => reading.end
  }
}
