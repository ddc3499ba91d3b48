/**
 * A model's answer on its way to the user and into the conversation: well-formed, without the fences that belong to the
 * runtime, and, where it is shown, without keys.
 *
 * **Details**
 *
 * The conversation of the run keeps what the model said, well-formed and without fences. What is stored and what is shown, in pieces or
 * as the text of the result, has no key of a known shape in it besides; names hide nothing there (see `Redaction.redactKeys`).
 * While it streams, what may become a tag, a key or the second half of a character is held back until that is clear.
 *
 * Source: `hermes-llm.md` §19.1, §19.2 and §19.11, `ARCHITECTURE.md` §7.
 */
import type * as Response from "effect/ai/Response"
import { type ContentPart, type ModelResponse, type StreamPart, withParts } from "../domain/Model.ts"
import { redactKeys } from "../domain/Redaction.ts"
import * as RedactionStream from "../domain/RedactionStream.ts"
import * as TextHygiene from "../domain/TextHygiene.ts"
import { reasoningDelta, textDelta } from "../provider/StreamMachine.ts"

/** A part of an answer as it is kept; the part itself when it is fine. */
const kept = (part: ContentPart): ContentPart => {
  const metadata = TextHygiene.wellFormedValue(part.metadata) as typeof part.metadata // strings for strings, no more
  switch (part.type) {
    case "text": {
      const text = TextHygiene.stripOutputFences(TextHygiene.wellFormed(part.text))
      return text === part.text && metadata === part.metadata ? part : { ...part, text, metadata }
    }
    case "reasoning": {
      const text = TextHygiene.wellFormed(part.text)
      return text === part.text && metadata === part.metadata ? part : { ...part, text, metadata }
    }
    case "tool-call": {
      const params = TextHygiene.wellFormedValue(part.params)
      const name = TextHygiene.wellFormed(part.name)
      const id = TextHygiene.wellFormed(part.id)
      const same = params === part.params && name === part.name && id === part.id && metadata === part.metadata
      return same ? part : { ...part, id, name, params, metadata }
    }
    case "file":
      return part
  }
}

/** An answer as it is kept; the answer itself when it is fine. */
export const keptOf = (response: ModelResponse): ModelResponse => {
  const parts = response.parts.map(kept)
  return parts.every((part, index) => part === response.parts[index]) ? response : withParts(response, parts)
}

/** A whole text as it is shown. */
export const shown = (text: string, redact: boolean): string => redact ? redactKeys(text) : text

/** Reads text in pieces. */
interface Filter {
  readonly push: (piece: string) => string
  readonly end: () => string
}

const chain = (...filters: ReadonlyArray<Filter>): Filter => ({
  push: (piece) => {
    let text = piece
    for (const filter of filters) if (text !== "") text = filter.push(text)
    return text
  },
  end: () => filters.reduce((text, filter) => (text === "" ? "" : filter.push(text)) + filter.end(), "")
})

const secrets = (redact: boolean): ReadonlyArray<Filter> => redact ? [RedactionStream.makeKeys()] : []

/** The parts that stream by, as they are shown. */
interface Watcher {
  readonly see: (parts: ReadonlyArray<StreamPart>) => ReadonlyArray<StreamPart>
  /** The answer is over: what was held back. */
  readonly end: () => ReadonlyArray<StreamPart>
}

/** Shows one kind of text of an answer: what each piece lets go of is a piece itself. */
interface Shown {
  readonly add: (part: Delta, out: Array<StreamPart>) => void
  /** Lets go of what was held back. */
  readonly end: (out: Array<StreamPart>) => void
}

type Delta = Response.TextDeltaPart | Response.ReasoningDeltaPart

const shownDeltas = (
  newFilter: () => Filter,
  make: (id: string, delta: string) => StreamPart
): Shown => {
  let filter = newFilter()
  let id = ""
  return {
    add: (part, out) => {
      id = part.id
      const text = filter.push(part.delta)
      if (text !== "") out.push(text === part.delta ? part : make(id, text))
    },
    end: (out) => {
      const text = filter.end()
      filter = newFilter()
      if (text !== "") out.push(make(id, text))
    }
  }
}

/** See {@link Watcher}; one for each answer. */
export const watcher = (redact: boolean): Watcher => {
  const text = shownDeltas(() => chain(TextHygiene.hygieneStream(), TextHygiene.fenceStream(), ...secrets(redact)), textDelta)
  const reasoning = shownDeltas(() => chain(TextHygiene.hygieneStream(), ...secrets(redact)), reasoningDelta)
  return {
    see: (parts) => {
      const out: Array<StreamPart> = []
      for (const part of parts) {
        switch (part.type) {
          case "text-delta":
            text.add(part, out)
            break
          case "reasoning-delta":
            reasoning.add(part, out)
            break
          case "text-start":
          case "text-end":
          case "tool-params-start":
            reasoning.end(out)
            text.end(out)
            out.push(part)
            break
          case "reasoning-start":
          case "reasoning-end":
            reasoning.end(out)
            out.push(part)
            break
          default:
            out.push(part)
        }
      }
      return out
    },
    end: () => {
      const out: Array<StreamPart> = []
      reasoning.end(out)
      text.end(out)
      return out
    }
  }
}
