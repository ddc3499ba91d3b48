/**
 * Converts the events of a streamed response to parts.
 *
 * **Details**
 *
 * - An item is identified by its index in the output, or by its id if a server omits the index. Its content is streamed
 *   as deltas. The event that ends an item contains the complete item, from which missing text, the metadata to send
 *   back and the arguments of a call are read.
 * - The response ends with `response.completed`, `response.incomplete` or `response.done`. The response in this event
 *   contains the usage and the status. If its output is empty, as with ChatGPT's backend, the body is filled from the
 *   streamed items; if no item was streamed, the parts are created from its output. A stream without such an event was
 *   cut off.
 *
 * Source: `hermes-llm.md` §4.3.
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../../base/domain/Assembler.ts"
import * as Json from "../../../base/domain/Json.ts"
import {
  type ContentPart,
  makeParamsDelta,
  makeReasoningDelta,
  type StreamPart,
  makeTextDelta
} from "../../../base/domain/ModelCall.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as SdkError from "../SdkError.ts"
import type { SseEvent } from "../SseReader.ts"
import type * as StreamMachine from "../StreamMachine.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Decode from "./Decode.ts"

// Output items

interface Text {
  readonly kind: "text" | "reasoning"
  readonly id: string
  started: boolean
  /**
   * Type of the events that stream the text. An item may stream both its reasoning and a summary of it; only the first
   * of these is used.
   */
  readonly channel: unknown
  /** Index of the part that is currently streamed. */
  part: unknown
}

interface Call {
  readonly kind: "call"
  readonly id: string
  readonly name: string
  text: string
}

/** Handles the output items of a stream. */
interface OpenItems {
  /** Handles the announcement of an item. */
  readonly added: (event: Json.Fields, out: Array<StreamPart>) => void
  /**
   * Handles a piece of text or reasoning. Reasoning parts of one item, identified by `part`, are separated by a blank
   * line.
   */
  readonly delta: (event: Json.Fields, kind: Text["kind"], part: unknown, out: Array<StreamPart>) => void
  /** Handles a piece of a call's arguments. */
  readonly argumentsDelta: (event: Json.Fields, out: Array<StreamPart>) => void
  /** Handles the completion of an item. */
  readonly done: (event: Json.Fields, out: Array<StreamPart>) => void
  /** Ends the items that were not completed. */
  readonly end: (out: Array<StreamPart>) => void
  /** Returns the types of the parts created so far. */
  readonly parts: () => ReadonlyArray<{ readonly type: ContentPart["type"] }>
  /** Returns the completed items in order. */
  readonly finished: () => ReadonlyArray<Json.Fields>
}

const readItemKey = (event: Json.Fields): string =>
  typeof event["output_index"] === "number"
    ? `i${event["output_index"]}`
    : Json.readWord(event["item_id"]) || Json.readWord(Json.readFields(event["item"])["id"])

/** Items of a response. */
interface ItemList {
  readonly open: Map<string, Text | Call>
  /** Ids of calls. */
  readonly taken: Set<string>
  readonly parts: Array<{ readonly type: ContentPart["type"] }>
  readonly finished: Array<Json.Fields>
  /** Number of texts so far. */
  count: number
}

const openText = (items: ItemList, key: string, kind: Text["kind"], channel: unknown): Text => {
  const { open } = items
  const found = open.get(key)
  if (found !== undefined && found.kind === kind) return found
  const made: Text = { kind, id: `${kind}-${items.count++}`, started: false, channel, part: undefined }
  open.set(key, made)
  return made
}

const startItem = ({ parts }: ItemList, entry: Text, out: Array<StreamPart>): void => {
  if (entry.started) return
  entry.started = true
  parts.push({ type: entry.kind })
  out.push(Response.makePart(entry.kind === "text" ? "text-start" : "reasoning-start", { id: entry.id }))
}

const makeDelta = (entry: Text, text: string): StreamPart =>
  entry.kind === "text" ? makeTextDelta(entry.id, text) : makeReasoningDelta(entry.id, text)

const openCall = ({ open, parts, taken }: ItemList, key: string, item: Json.Fields, out: Array<StreamPart>): Call => {
  const found = open.get(key)
  if (found?.kind === "call") return found
  const { id: callId, name } = Decode.decodeCall(item, parts.length)
  const id = ToolCallWire.makeUniqueId(taken, callId, parts.length)
  const made: Call = { kind: "call", id, name, text: "" }
  open.set(key, made)
  parts.push({ type: "tool-call" })
  out.push(Response.makePart("tool-params-start", { id, name, providerExecuted: false }))
  return made
}

const endText = (items: ItemList, entry: Text, found: Decode.TextItem, out: Array<StreamPart>): void => {
  const { metadata, text } = found
  const reasoningOnly = entry.kind === "reasoning" && Object.keys(metadata).length > 0
  if (!entry.started && text === "" && !reasoningOnly) return
  if (!entry.started) {
    startItem(items, entry, out)
    if (text !== "") out.push(makeDelta(entry, text))
  }
  out.push(Response.makePart(entry.kind === "text" ? "text-end" : "reasoning-end", { id: entry.id, metadata }))
}

const endCall = (entry: Call, item: Json.Fields, out: Array<StreamPart>): void => {
  const whole = ToolCallWire.toPieceText(item["arguments"])
  if (entry.text === "" && whole !== "") out.push(makeParamsDelta(entry.id, whole))
  out.push(
    Response.makePart("tool-params-end", { id: entry.id }),
    Response.makePart("tool-call", {
      id: entry.id,
      name: entry.name,
      params: Assembler.parseParams(whole === "" ? entry.text : whole),
      providerExecuted: false,
      metadata: Decode.readCallMetadata(item)
    })
  )
}

/** Adds a piece of text or reasoning, and separates the parts of reasoning. */
const addDelta = (
  items: ItemList,
  event: Json.Fields,
  { kind, part }: { readonly kind: Text["kind"]; readonly part: unknown },
  out: Array<StreamPart>
): void => {
  const text = Json.readString(event["delta"]) ?? ""
  if (text === "") return
  const entry = openText(items, readItemKey(event), kind, event["type"])
  if (kind === "reasoning" && entry.channel !== event["type"]) return
  startItem(items, entry, out)
  if (kind === "reasoning" && entry.part !== undefined && entry.part !== part) out.push(makeDelta(entry, "\n\n"))
  entry.part = part
  out.push(makeDelta(entry, text))
}

/** Ends an item that is complete. */
const endItem = (items: ItemList, key: string, item: Json.Fields, out: Array<StreamPart>): void => {
  items.finished.push(item)
  switch (item["type"]) {
    case "reasoning":
      endText(items, openText(items, key, "reasoning", undefined), Decode.decodeReasoning(item), out)
      break
    case "message":
      endText(items, openText(items, key, "text", undefined), Decode.decodeMessage(item), out)
      break
    case "function_call":
      endCall(openCall(items, key, item, out), item, out)
      break
  }
  items.open.delete(key)
}

const openItems = (): OpenItems => {
  const items: ItemList = { open: new Map(), taken: new Set(), parts: [], finished: [], count: 0 }
  const { finished, open, parts } = items
  return {
    added: (event, out) => {
      const item = Json.readFields(event["item"])
      // A call without a call id is announced when it is complete, because its id is derived from its arguments.
      if (item["type"] === "function_call" && Json.readWord(item["call_id"]) !== "")
        openCall(items, readItemKey(event), item, out)
    },
    delta: (event, kind, part, out) => addDelta(items, event, { kind, part }, out),
    argumentsDelta: (event, out) => {
      const entry = open.get(readItemKey(event))
      const text = Json.readString(event["delta"]) ?? ""
      if (entry?.kind !== "call" || text === "") return
      entry.text += text
      out.push(makeParamsDelta(entry.id, text))
    },
    done: (event, out) => endItem(items, readItemKey(event), Json.readFields(event["item"]), out),
    end: (out) => {
      for (const entry of open.values()) {
        if (entry.kind === "call") endCall(entry, {}, out)
        else endText(items, entry, { text: "", metadata: {} }, out)
      }
      open.clear()
    },
    parts: () => parts,
    finished: () => finished
  }
}

// Machine

interface StreamState {
  readonly context: SdkError.Context
  readonly items: OpenItems
  out: Array<StreamPart>
  /** True if the metadata of the response were emitted. */
  isIntroduced: boolean
  isRefused: boolean
  /** The response of the last event. */
  response: Json.Fields | undefined
}

const emitMetadata = (stream: StreamState, body: Json.Fields): void => {
  if (stream.isIntroduced) return
  stream.isIntroduced = true
  const id = Json.readString(body["id"])
  const modelId = Json.readString(body["model"])
  stream.out.push(
    Response.makePart("response-metadata", {
      ...(id === undefined ? {} : { id }),
      ...(modelId === undefined ? {} : { modelId })
    })
  )
}

const finishResponse = (stream: StreamState, body: Json.Fields): void => {
  const { items } = stream
  emitMetadata(stream, body)
  stream.response = body
  const streamed = items.parts().length > 0 || items.finished().length > 0
  if (!streamed) {
    Json.readItems(body["output"]).forEach((item, index) => items.done({ output_index: index, item }, stream.out))
  }
  items.end(stream.out)
}

const handleEvent = (stream: StreamState, event: Json.Fields, name: string): AiError.AiError | undefined => {
  const { items, context } = stream
  switch (name) {
    case "response.output_text.delta":
      items.delta(event, "text", event["content_index"], stream.out)
      return
    case "response.refusal.delta":
      stream.isRefused = true
      items.delta(event, "text", undefined, stream.out)
      return
    case "response.reasoning_summary_text.delta":
      items.delta(event, "reasoning", event["summary_index"], stream.out)
      return
    case "response.reasoning_text.delta":
      items.delta(event, "reasoning", event["content_index"], stream.out)
      return
    case "response.function_call_arguments.delta":
      items.argumentsDelta(event, stream.out)
      return
    case "response.output_item.added":
      items.added(event, stream.out)
      return
    case "response.output_item.done":
      items.done(event, stream.out)
      return
    case "response.created":
    case "response.in_progress":
      emitMetadata(stream, Json.readFields(event["response"]))
      return
    case "response.completed":
    case "response.incomplete":
    case "response.done":
    case "response.failed":
    case "response.cancelled": {
      const body = Json.readFields(event["response"])
      const failed = Decode.findFailure(body, context)
      if (failed === undefined) finishResponse(stream, body)
      return failed
    }
    case "error":
      return SdkError.fromBody({ ...context, body: event })
    default:
      return event["error"] === undefined || event["error"] === null
        ? undefined
        : SdkError.fromBody({ ...context, body: event })
  }
}

const flushParts = (stream: StreamState): ReadonlyArray<StreamPart> => {
  const parts = stream.out
  stream.out = []
  return parts
}

const selectOutput = (stream: StreamState, parts: ReadonlyArray<ContentPart>): unknown => {
  const { items } = stream
  const sent = Json.readItems(stream.response?.["output"])
  if (sent.length > 0) return sent
  return items.finished().length > 0 ? items.finished() : Decode.encode(parts)
}

/** Reads an event of the stream. Returns an error if it is one, or if it cannot be read. */
const readEvent = (stream: StreamState, { data, event }: SseEvent): AiError.AiError | undefined => {
  const value = Option.getOrUndefined(Json.parse(data))
  return Json.isFields(value)
    ? handleEvent(stream, value, Json.readString(value["type"]) ?? event ?? "")
    : SdkError.makeInvalidResponse({
        ...stream.context,
        description: "an event of the stream is not a JSON object",
        body: data
      })
}

/** Returns the error of a stream without a final event. */
const makeMissingError = ({ context, isIntroduced, items }: StreamState): AiError.AiError =>
  isIntroduced || items.parts().length > 0
    ? SdkError.makeCutStreamError(context)
    : SdkError.makeInvalidResponse({ ...context, description: "the stream ended without an answer" })

const endStream = (stream: StreamState, response: Json.Fields): ReadonlyArray<StreamPart> => {
  const body = { ...response, output: selectOutput(stream, []) }
  const reason = Decode.chooseFinishReason(body, stream.items.parts(), stream.isRefused)
  stream.out.push(
    Response.makePart("finish", { reason, usage: Decode.decodeUsage(response["usage"]), response: undefined })
  )
  return flushParts(stream)
}

/** Creates a state machine for a new stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const stream: StreamState = {
    context,
    items: openItems(),
    out: [],
    isIntroduced: false,
    isRefused: false,
    response: undefined
  }
  let failure: AiError.AiError | undefined
  return {
    step: (events) => {
      for (const event of events) {
        failure = readEvent(stream, event)
        if (failure !== undefined || stream.response !== undefined) break
      }
      return flushParts(stream)
    },
    end: () => {
      if (failure !== undefined) return []
      if (stream.response !== undefined) return endStream(stream, stream.response)
      failure = makeMissingError(stream)
      return []
    },
    over: () => stream.response !== undefined,
    sources: () => AnswerSources.readMember(AnswerSources.listAnnotations(selectOutput(stream, []))).sources ?? [],
    failure: () => failure,
    body: (parts) => ({ ...stream.response, output: selectOutput(stream, parts) })
  }
}
