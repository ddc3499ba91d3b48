/**
 * Assembles the pieces of a streamed answer. All providers share one assembler: their parsers emit the same stream
 * parts, so the run, the middleware and the user receive the same pieces.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Response from "effect/ai/Response"
import * as AnswerText from "./AnswerText.ts"
import * as Json from "./Json.ts"
import {
  type ContentPart,
  type ModelResponse,
  makeReasoningDelta,
  type StreamPart,
  makeTextDelta
} from "./ModelCall.ts"
import { toResponse } from "./Usage.ts"

interface OpenText {
  readonly type: "text" | "reasoning"
  text: string
  metadata: Response.ProviderMetadata
}

interface OpenCall {
  readonly type: "tool-params"
  readonly id: string
  readonly name: string
  text: string
  metadata: Response.ProviderMetadata
}

type WholePart = Extract<ContentPart, { readonly type: "tool-call" | "file" }>

/** The parts of an answer so far. */
interface AssembledAnswer {
  readonly parts: ReadonlyArray<ContentPart>
  readonly finishReason: Response.FinishReason
  readonly usage: Response.Usage
  /** Cost of the answer in US dollars, as in `ModelResponse`. */
  readonly reportedCost?: number
  readonly model: string | undefined
  readonly id: string | undefined
  /** True after a `finish` part was received. A stream that ends without a `finish` part was cut off. */
  readonly finished: boolean
}

/** Collects the pieces of an answer; see {@link make}. */
export interface Assembler {
  readonly add: (parts: ReadonlyArray<StreamPart>) => void
  readonly result: () => AssembledAnswer
  /**
   * Returns the bound that the answer exceeded; no more pieces need to be read then. Returns `undefined` while the
   * answer is within the bounds.
   */
  readonly overflow: () => AnswerText.Overflow | undefined
}

/** Creates the metadata of a `finish` part with the cost of the answer as reported by the provider, in US dollars. */
export const makeCostMetadata = (cost: number | undefined): Response.ProviderMetadata =>
  cost === undefined ? {} : { hermes: { reported_cost: cost } }

const readCost = ({ metadata }: Response.FinishPart): number | undefined => {
  const own = metadata["hermes"]
  return Predicate.hasProperty(own, "reported_cost") && typeof own.reported_cost === "number"
    ? own.reported_cost
    : undefined
}

const noMetadata: Response.ProviderMetadata = {}

const isEmpty = (metadata: Response.ProviderMetadata): boolean => {
  for (const _ in metadata) return false
  return true
}

const mergeMetadata = (a: Response.ProviderMetadata, b: Response.ProviderMetadata): Response.ProviderMetadata => {
  if (b === a || isEmpty(b)) return a
  return isEmpty(a) ? b : { ...a, ...b }
}

/**
 * Parses the arguments of a call for a {@link ContentPart}. Returns the parsed JSON, or the raw text if it is not JSON.
 * Empty text becomes `{}`.
 */
export const parseParams = (text: string): unknown =>
  text.trim() === "" ? {} : Option.getOrElse(Json.parse(text), () => text)

/**
 * Creates an empty assembler.
 *
 * **Details**
 *
 * Text without an end part is retained. If the arguments of a call were cut off, so that neither their end nor a
 * `tool-call` part arrived, they are retained as a call with raw text. A truncated call is therefore recognizable. A
 * `tool-call` part replaces the `tool-params-*` parts of the same id.
 */
export const make = (): Assembler => {
  const order: Array<OpenText | OpenCall | WholePart> = []
  const open = new Map<string, OpenText | OpenCall>()
  const calls = new Map<string, number>()
  let finishReason: Response.FinishReason = "unknown"
  let usage: Response.Usage | undefined
  let reportedCost: number | undefined
  let model: string | undefined
  let id: string | undefined
  let finished = false

  const startEntry = (key: string, entry: OpenText | OpenCall): void => {
    open.set(key, entry)
    if (entry.type === "tool-params") calls.set(entry.id, order.length)
    order.push(entry)
  }

  const appendDelta = (
    key: string,
    type: OpenText["type"],
    delta: string,
    metadata: Response.ProviderMetadata
  ): void => {
    let entry = open.get(key)
    if (entry === undefined) {
      entry = { type, text: "", metadata: noMetadata }
      startEntry(key, entry)
    }
    entry.text += delta
    entry.metadata = mergeMetadata(entry.metadata, metadata)
  }

  const endEntry = (key: string, metadata: Response.ProviderMetadata): void => {
    const entry = open.get(key)
    if (entry === undefined) return
    entry.metadata = mergeMetadata(entry.metadata, metadata)
    open.delete(key)
  }

  const meter = AnswerText.makeMeter()

  const add = (parts: ReadonlyArray<StreamPart>): void => {
    if (meter.overflow() !== undefined) return
    meter.add(parts)
    for (const part of parts) {
      switch (part.type) {
        case "text-start":
          startEntry(`t${part.id}`, { type: "text", text: "", metadata: part.metadata })
          break
        case "text-delta":
          appendDelta(`t${part.id}`, "text", part.delta, part.metadata)
          break
        case "text-end":
          endEntry(`t${part.id}`, part.metadata)
          break
        case "reasoning-start":
          startEntry(`r${part.id}`, { type: "reasoning", text: "", metadata: part.metadata })
          break
        case "reasoning-delta":
          appendDelta(`r${part.id}`, "reasoning", part.delta, part.metadata)
          break
        case "reasoning-end":
          endEntry(`r${part.id}`, part.metadata)
          break
        case "tool-params-start":
          startEntry(`c${part.id}`, {
            type: "tool-params",
            id: part.id,
            name: part.name,
            text: "",
            metadata: part.metadata
          })
          break
        case "tool-params-delta": {
          const entry = open.get(`c${part.id}`)
          if (entry !== undefined) entry.text += part.delta
          break
        }
        case "tool-params-end":
          endEntry(`c${part.id}`, part.metadata)
          break
        case "tool-call": {
          const at = calls.get(part.id)
          if (at === undefined) order.push(part)
          else order[at] = part
          open.delete(`c${part.id}`)
          break
        }
        case "file":
          order.push(part)
          break
        case "response-metadata":
          model = part.modelId ?? model
          id = part.id ?? id
          break
        case "finish":
          finishReason = part.reason
          usage = part.usage
          reportedCost = readCost(part)
          finished = true
          break
      }
    }
  }

  const closeEntry = (entry: OpenText | OpenCall | WholePart): ContentPart | undefined => {
    if (entry.type === "tool-call" || entry.type === "file") return entry
    if (entry.type === "tool-params") {
      return Response.makePart("tool-call", {
        id: entry.id,
        name: entry.name,
        params: parseParams(entry.text),
        providerExecuted: false,
        metadata: entry.metadata
      })
    }
    if (entry.text === "" && Object.keys(entry.metadata).length === 0) return undefined
    return Response.makePart(entry.type, { text: entry.text, metadata: entry.metadata })
  }

  const result = (): AssembledAnswer => ({
    parts: order.flatMap((entry) => closeEntry(entry) ?? []),
    finishReason,
    usage: usage ?? toResponse({ input: 0, output: 0 }),
    ...(reportedCost === undefined ? {} : { reportedCost }),
    model,
    id,
    finished
  })

  return { add, result, overflow: meter.overflow }
}

/** Splits a whole answer into the parts of an equivalent stream. */
export const toParts = (answer: ModelResponse): ReadonlyArray<StreamPart> => {
  const out: Array<StreamPart> = []
  answer.parts.forEach((part, index) => {
    const id = `${part.type}-${index}`
    switch (part.type) {
      case "text":
        out.push(
          Response.makePart("text-start", { id }),
          ...(part.text === "" ? [] : [makeTextDelta(id, part.text)]),
          Response.makePart("text-end", { id, metadata: part.metadata })
        )
        break
      case "reasoning":
        out.push(
          Response.makePart("reasoning-start", { id }),
          ...(part.text === "" ? [] : [makeReasoningDelta(id, part.text)]),
          Response.makePart("reasoning-end", { id, metadata: part.metadata })
        )
        break
      default:
        out.push(part)
    }
  })
  out.push(
    Response.makePart("response-metadata", {
      ...(answer.id === undefined ? {} : { id: answer.id }),
      ...(answer.model === undefined ? {} : { modelId: answer.model })
    }),
    Response.makePart("finish", { reason: answer.finishReason, usage: answer.usage, response: undefined })
  )
  return out
}
