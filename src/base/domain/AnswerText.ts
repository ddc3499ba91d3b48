/**
 * Prepares a model's answer for the user and the conversation: limits its size, makes it well-formed, removes fences
 * that only the runtime may write, and redacts keys in displayed text.
 *
 * **Details**
 *
 * The conversation of the run holds the model's text, well-formed and without fences. In stored and displayed text,
 * including stream pieces and the text of the result, keys with a known format are also redacted. A value is not hidden
 * only because of the name next to it (see `Redaction.redactKeys`). While text streams, a possible part of a tag, key
 * or character is held back until the following text decides it.
 *
 * Each bound is several times the size of the largest answer that any model can give, so only an endless answer exceeds
 * it. Providers stop reading a stream beyond a bound ({@link Meter}). {@link boundAnswer} cuts an answer to the bounds,
 * streamed or not, so that no larger answer is stored or sent again.
 *
 * Source: `hermes-llm.md` §19.1, §19.2 and §19.11, `ARCHITECTURE.md` §7 (caps).
 */
import type * as Response from "effect/ai/Response"
import * as Json from "./Json.ts"
import {
  type ContentPart,
  type ModelResponse,
  makeParamsDelta,
  makeReasoningDelta,
  type StreamPart,
  makeTextDelta,
  withParts
} from "./ModelCall.ts"
import { redactKeys } from "./Redaction.ts"
import * as RedactionStream from "./RedactionStream.ts"
import * as TextCut from "./TextCut.ts"
import * as TextHygiene from "./TextHygiene.ts"

/** Converts a part of an answer to its stored form. Returns the same object if no change is needed. */
const cleanPart = (part: ContentPart): ContentPart => {
  const metadata = TextHygiene.toWellFormedValue(part.metadata) as typeof part.metadata // strings for strings, no more
  switch (part.type) {
    case "text": {
      const text = TextHygiene.stripOutputFences(TextHygiene.toWellFormed(part.text))
      return text === part.text && metadata === part.metadata ? part : { ...part, text, metadata }
    }
    case "reasoning": {
      const text = TextHygiene.toWellFormed(part.text)
      return text === part.text && metadata === part.metadata ? part : { ...part, text, metadata }
    }
    case "tool-call": {
      const params = TextHygiene.toWellFormedValue(part.params)
      const name = TextHygiene.toWellFormed(part.name)
      const id = TextHygiene.toWellFormed(part.id)
      const same = params === part.params && name === part.name && id === part.id && metadata === part.metadata
      return same ? part : { ...part, id, name, params, metadata }
    }
    case "file":
      return part
  }
}

/** Converts an answer to its stored form. Returns the same object if no change is needed. */
export const cleanAnswer = (response: ModelResponse): ModelResponse => {
  const parts = response.parts.map(cleanPart)
  return parts.every((part, index) => part === response.parts[index]) ? response : withParts(response, parts)
}

/** Returns text in the form in which it is displayed. If `redact` is true, keys with a known format are redacted. */
export const toDisplayText = (text: string, redact: boolean): string => (redact ? redactKeys(text) : text)

/** A filter for text that arrives in pieces. `end` returns the text that was held back. */
interface Filter {
  readonly push: (piece: string) => string
  readonly end: () => string
}

const chainFilters = (...filters: ReadonlyArray<Filter>): Filter => ({
  push: (piece) => {
    let text = piece
    for (const filter of filters) if (text !== "") text = filter.push(text)
    return text
  },
  end: () => filters.reduce((text, filter) => (text === "" ? "" : filter.push(text)) + filter.end(), "")
})

const makeSecretFilters = (redact: boolean): ReadonlyArray<Filter> => (redact ? [RedactionStream.makeKeys()] : [])

/** Converts the streamed parts of an answer to the parts that may be displayed. */
interface Watcher {
  readonly see: (parts: ReadonlyArray<StreamPart>) => ReadonlyArray<StreamPart>
  /** Ends the answer and returns the parts that were held back. */
  readonly end: () => ReadonlyArray<StreamPart>
}

/** Filters one kind of streamed text, such as the answer or the reasoning, and emits the released text as pieces. */
interface DeltaFilter {
  readonly add: (part: Delta, out: Array<StreamPart>) => void
  /** Emits the text that was held back. */
  readonly end: (out: Array<StreamPart>) => void
}

type Delta = Response.TextDeltaPart | Response.ReasoningDeltaPart

const makeDeltaFilter = (newFilter: () => Filter, make: (id: string, delta: string) => StreamPart): DeltaFilter => {
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

/** Creates the {@link Watcher} for one answer. */
export const makeWatcher = (redact: boolean): Watcher => {
  const text = makeDeltaFilter(
    () => chainFilters(TextHygiene.makeHygieneStream(), TextHygiene.makeFenceStream(), ...makeSecretFilters(redact)),
    makeTextDelta
  )
  const reasoning = makeDeltaFilter(
    () => chainFilters(TextHygiene.makeHygieneStream(), ...makeSecretFilters(redact)),
    makeReasoningDelta
  )
  /** Filters for the arguments of unfinished calls, by call id. */
  const inputs = new Map<string, Filter>()
  const endInput = (id: string, out: Array<StreamPart>): void => {
    const text = inputs.get(id)?.end() ?? ""
    inputs.delete(id)
    if (text !== "") out.push(makeParamsDelta(id, text))
  }
  const addInput = (part: Response.ToolParamsDeltaPart, out: Array<StreamPart>): void => {
    const filter = inputs.get(part.id) ?? RedactionStream.makeKeys()
    inputs.set(part.id, filter)
    const text = filter.push(part.delta)
    if (text !== "") out.push(text === part.delta ? part : makeParamsDelta(part.id, text))
  }
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
          case "tool-params-delta":
            if (redact) addInput(part, out)
            else out.push(part)
            break
          case "tool-params-end":
          case "tool-call":
            endInput(part.id, out)
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
      for (const id of inputs.keys()) endInput(id, out)
      reasoning.end(out)
      text.end(out)
      return out
    }
  }
}

/** A bound that an answer exceeded. */
export type Overflow = "text" | "reasoning" | "arguments" | "calls"

/**
 * Maximum numbers of characters of text, of reasoning and of the arguments of all calls together, and maximum number of
 * calls.
 */
export const limits: Readonly<Record<Overflow, number>> = {
  text: 2_000_000,
  reasoning: 2_000_000,
  arguments: 1_000_000,
  calls: 128
}

/** Number of calls that are retained, without their arguments, from an answer whose calls exceeded a bound. */
const keptCalls = 8

const units: Readonly<Record<Overflow, string>> = {
  text: "characters of text",
  reasoning: "characters of reasoning",
  arguments: "characters of arguments",
  calls: "tool calls"
}

/** Describes a bound: `2,000,000 characters of text`. */
export const describeBound = (overflow: Overflow): string =>
  `${limits[overflow].toLocaleString("en-US")} ${units[overflow]}`

/** Counts the parts of a streamed answer. */
interface Meter {
  readonly add: (parts: ReadonlyArray<StreamPart>) => void
  /** Returns the bound that was exceeded; `undefined` if the answer is within all bounds. */
  readonly overflow: () => Overflow | undefined
}

/** Creates a meter for the start of a stream. */
export const makeMeter = (): Meter => {
  const seen = { text: 0, reasoning: 0, arguments: 0, calls: 0 }
  let crossed: Overflow | undefined
  const addAmount = (what: Overflow, amount: number): void => {
    seen[what] += amount
    if (seen[what] > limits[what]) crossed ??= what
  }
  return {
    add: (parts) => {
      for (const part of parts) {
        switch (part.type) {
          case "text-delta":
            addAmount("text", part.delta.length)
            break
          case "reasoning-delta":
            addAmount("reasoning", part.delta.length)
            break
          case "tool-params-start":
            addAmount("calls", 1)
            break
          case "tool-params-delta":
            addAmount("arguments", part.delta.length)
            break
          default:
            break
        }
      }
    },
    overflow: () => crossed
  }
}

/** Length of arguments below which they are not measured exactly: escapes make no text ten times as long. */
const estimated = limits.arguments / 10

const measureParams = (params: unknown): number => {
  const length = Json.countCharacters(params, estimated)
  return typeof params === "string" || length < estimated ? length : Json.toText(params).length
}

/** An answer cut to the bounds, and the first bound that it exceeded. */
interface BoundedAnswer {
  readonly response: ModelResponse
  readonly overflow: Overflow | undefined
}

/**
 * Cuts an answer to the bounds. Returns the same object if the answer is within the bounds. If the calls exceed a
 * bound, only the first few remain, with empty arguments, and they must not run.
 */
export const boundAnswer = (response: ModelResponse): BoundedAnswer => {
  const known = boundedAnswers.get(response)
  if (known !== undefined) return known
  const bounded = measureAnswer(response)
  boundedAnswers.set(response, bounded)
  return bounded
}

/** Bounded answers by their original: an answer is recorded and then handled. */
const boundedAnswers = new WeakMap<ModelResponse, BoundedAnswer>()

const measureAnswer = (response: ModelResponse): BoundedAnswer => {
  const seen = { text: 0, reasoning: 0, arguments: 0, calls: 0 }
  for (const part of response.parts) {
    if (part.type === "text" || part.type === "reasoning") seen[part.type] += part.text.length
    else if (part.type === "tool-call") {
      seen.calls++
      seen.arguments += measureParams(part.params)
    }
  }
  const order: ReadonlyArray<Overflow> = ["text", "reasoning", "arguments", "calls"]
  const overflow = order.find((what) => seen[what] > limits[what])
  if (overflow === undefined) return { response, overflow }
  const left = { text: limits.text, reasoning: limits.reasoning, calls: keptCalls }
  const callsOver = seen.arguments > limits.arguments || seen.calls > limits.calls
  const parts = response.parts.flatMap((part): ReadonlyArray<ContentPart> => {
    switch (part.type) {
      case "text":
      case "reasoning": {
        const text = TextCut.takeHead(part.text, left[part.type])
        left[part.type] -= text.length
        // A signature is valid only for the whole text.
        return text === part.text ? [part] : text === "" ? [] : [{ ...part, text, metadata: {} }]
      }
      case "tool-call":
        return !callsOver ? [part] : left.calls-- > 0 ? [{ ...part, params: {} }] : []
      default:
        return [part]
    }
  })
  return { response: withParts(response, parts), overflow }
}
