/**
 * Converts events of a live session to the pieces of an answer. Secrets are removed from the text.
 *
 * **Details**
 *
 * A turn of another client may run first. It produces no pieces, and its usage is not counted.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import { findJson } from "../../../base/domain/AnswerFormat.ts"
import type { Registry } from "../../../base/domain/Secrets.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import type { HostEvent, Message, Turn } from "../../host/HostEvent.ts"
import { makeStreamedText } from "../../host/StreamedText.ts"
import * as StreamSecrets from "../StreamSecrets.ts"
import type { ClientCall } from "./ClientTools.ts"

/** Result of an answer that has ended. */
export interface Ending {
  readonly finish: "stop" | "length" | "tool_calls" | "content_filter"
  /** Calls of the caller's tools that the answer ends with. */
  readonly calls: ReadonlyArray<ClientCall>
  readonly usage: Usage.Usage
  readonly model: string
  /** The stored session at the end of the answer, and the number of its messages. */
  readonly stored: { readonly id: string; readonly messages: number } | undefined
}

/** A part of an answer. `Ended` is always the last part. */
export type Piece =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Reasoning"; readonly text: string }
  | { readonly _tag: "Ended"; readonly ending: Ending }

/** Converts the events of one answer, and collects its text, usage and model. */
export interface AnswerPieces {
  readonly of: (event: HostEvent) => ReadonlyArray<Piece>
  /** Returns the text that was held back. Called when the answer ends or waits for its caller. */
  readonly end: () => ReadonlyArray<Piece>
  /** Adds a text behind the text so far, as a new paragraph. */
  readonly append: (text: string) => ReadonlyArray<Piece>
  readonly said: () => string
  readonly usage: () => Usage.Usage
  /** Returns the name of the model that answered last. */
  readonly model: () => string
  /** Returns true if every running call is one of the given calls. */
  readonly waitsFor: (calls: ReadonlyArray<ClientCall>) => boolean
}

/** Values that a converter starts from. */
interface AnswerSource {
  /** Turn that is running. */
  readonly turn: Turn | undefined
  readonly model: string
  /** True for an answer in JSON: an attempt that is corrected later cannot be taken back, so only the last one is sent. */
  readonly isHeld: boolean
  readonly secrets: Registry
}

/**
 * Makes the converter for the answer to `message`, or for the answer of the current turn if `message` is `undefined`.
 * `turn` is the current turn.
 */
export const make = (
  message: Message["id"] | undefined,
  { isHeld, model: first, secrets, turn }: AnswerSource
): AnswerPieces => {
  const hidden = StreamSecrets.make(secrets)
  const running = new Set<string>()
  let isOwn = message === undefined || turn?.message.id === message
  let shown = makeStreamedText(turn?.isRewritten !== true)
  let said = ""
  let usage = Usage.zero
  let model = first

  const appendText = (text: string): ReadonlyArray<Piece> => {
    said += text
    return text === "" ? [] : [{ _tag: "Text", text }]
  }

  const toPieces = (event: RunEvent): ReadonlyArray<Piece> => {
    switch (event._tag) {
      case "StepStarted":
        shown.step(event.step)
        return []
      case "TextDelta":
        return isHeld ? [] : appendText(shown.delta(event.text))
      case "TextReplaced":
        return isHeld
          ? []
          : shown.replace(event.stepId, event.text) === undefined || event.text === ""
            ? []
            : appendText(`\n\n${event.text}`)
      case "ReasoningDelta":
        return [{ _tag: "Reasoning", text: event.text }]
      case "ToolStarted":
        running.add(event.callId)
        return []
      case "ToolFinished":
        running.delete(event.callId)
        return []
      case "UsageReported":
        usage = Usage.add(usage, event.usage)
        if (event.origin === undefined) model = event.model
        return []
      case "RunFinished":
        // The exchange fails with the text of this result.
        if (event.limit === "allowance" && said === "") return []
        return appendText(isHeld ? (findJson(event.text) ?? event.text) : shown.rest(event.text))
      default:
        return []
    }
  }

  return {
    of: (event) => {
      if (event._tag === "TurnStarted") {
        shown = makeStreamedText(!event.turn.isRewritten)
        isOwn = message === undefined || event.turn.message.id === message
      }
      return event._tag === "RunEvents" && isOwn ? hidden.of(event.events).flatMap(toPieces) : []
    },
    end: () => hidden.end().flatMap(toPieces),
    append: (text) => appendText(said === "" || text === "" ? text : `\n\n${text}`),
    said: () => said,
    usage: () => usage,
    model: () => model,
    waitsFor: (calls) =>
      calls.length > 0 && Array.from(running).every((id) => calls.some(({ callId }) => callId === id))
  }
}
