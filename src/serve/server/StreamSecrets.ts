/**
 * Removes secrets from the events of a turn, including secrets that are split over several pieces.
 *
 * **Details**
 *
 * The end of a piece of text, reasoning or arguments is held back as long as it may be the beginning of a known secret
 * or of a key with a known format (see `RedactionStream`). Held text is released when its text ends. This applies
 * regardless of `security.redact_secrets`, because a protocol sends data to other programs. As in every answer of a
 * model, a value is not hidden only because of the name next to it.
 *
 * **Gotchas**
 *
 * Events that are not pieces pass unchanged, except for the complete text of an answer. Code that shows outputs and
 * arguments of calls must redact them itself.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import { redactKeys } from "../../base/domain/Redaction.ts"
import * as RedactionStream from "../../base/domain/RedactionStream.ts"
import * as Json from "../../base/domain/Json.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import type { Registry } from "../../base/domain/Secrets.ts"

/** Filters the events of consecutive turns. */
export interface StreamSecrets {
  readonly of: (events: ReadonlyArray<RunEvent>) => ReadonlyArray<RunEvent>
  /** Ends the turn, and returns events with the text that was held back. */
  readonly end: () => ReadonlyArray<RunEvent>
}

/** Makes the filter for one reader. */
export const make = (secrets: Registry): StreamSecrets => {
  const text = RedactionStream.makeKeys(secrets)
  const reasoning = RedactionStream.makeKeys(secrets)
  const inputs = new Map<string, typeof text>()

  const pieces = {
    text: (piece: string): ReadonlyArray<RunEvent> => (piece === "" ? [] : [{ _tag: "TextDelta", text: piece }]),
    reasoning: (piece: string): ReadonlyArray<RunEvent> =>
      piece === "" ? [] : [{ _tag: "ReasoningDelta", text: piece }],
    input: (callId: string, piece: string): ReadonlyArray<RunEvent> =>
      piece === "" ? [] : [{ _tag: "ToolInputDelta", callId, text: piece }]
  }

  const end = (): ReadonlyArray<RunEvent> => {
    const rest = [
      ...pieces.reasoning(reasoning.end()),
      ...pieces.text(text.end()),
      ...Array.from(inputs).flatMap(([callId, input]) => pieces.input(callId, input.end()))
    ]
    inputs.clear()
    return rest
  }

  const getInputRedactor = (callId: string): typeof text => {
    const found = inputs.get(callId) ?? RedactionStream.makeKeys(secrets)
    inputs.set(callId, found)
    return found
  }

  const redactEvent = (event: RunEvent): ReadonlyArray<RunEvent> => {
    switch (event._tag) {
      case "TextDelta":
        return [...pieces.reasoning(reasoning.end()), ...pieces.text(text.push(event.text))]
      case "ReasoningDelta":
        return pieces.reasoning(reasoning.push(event.text))
      case "ToolInputDelta":
        return pieces.input(event.callId, getInputRedactor(event.callId).push(event.text))
      case "TextReplaced":
        // Held characters belong to the text that is being replaced.
        text.end()
        return [...pieces.reasoning(reasoning.end()), { ...event, text: redactKeys(event.text, secrets) }]
      case "ValueDelta":
        // A key may still be incomplete in an arriving value. The final value is redacted as a whole.
        return []
      case "RunFinished":
        return [
          ...end(),
          {
            ...event,
            text: redactKeys(event.text, secrets),
            ...("value" in event ? { value: Json.toPlainData(event.value, (text) => redactKeys(text, secrets)) } : {})
          }
        ]
      case "StepStarted":
      case "StepFinished":
      case "ToolStarted":
      case "ToolsScheduled":
      case "ToolFinished":
        return [...end(), event]
      case "ToolInputStarted":
        return [...pieces.reasoning(reasoning.end()), ...pieces.text(text.end()), event]
      default:
        return [event]
    }
  }

  return { of: (events) => events.flatMap(redactEvent), end }
}
