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
import * as StreamMachine from "../StreamMachine.ts"
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

const openItems = (): OpenItems => {
  const open = new Map<string, Text | Call>()
  const taken = new Set<string>()
  const parts: Array<{ readonly type: ContentPart["type"] }> = []
  const finished: Array<Json.Fields> = []
  let count = 0

  const openText = (key: string, kind: Text["kind"], channel: unknown): Text => {
    const found = open.get(key)
    if (found !== undefined && found.kind === kind) return found
    const made: Text = { kind, id: `${kind}-${count++}`, started: false, channel, part: undefined }
    open.set(key, made)
    return made
  }

  const startItem = (entry: Text, out: Array<StreamPart>): void => {
    if (entry.started) return
    entry.started = true
    parts.push({ type: entry.kind })
    out.push(Response.makePart(entry.kind === "text" ? "text-start" : "reasoning-start", { id: entry.id }))
  }

  const makeDelta = (entry: Text, text: string): StreamPart =>
    entry.kind === "text" ? makeTextDelta(entry.id, text) : makeReasoningDelta(entry.id, text)

  const openCall = (key: string, item: Json.Fields, out: Array<StreamPart>): Call => {
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

  const endText = (entry: Text, found: Decode.TextItem, out: Array<StreamPart>): void => {
    const { metadata, text } = found
    const reasoningOnly = entry.kind === "reasoning" && Object.keys(metadata).length > 0
    if (!entry.started && text === "" && !reasoningOnly) return
    if (!entry.started) {
      startItem(entry, out)
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

  return {
    added: (event, out) => {
      const item = Json.readFields(event["item"])
      // A call without a call id is announced when it is complete, because its id is derived from its arguments.
      if (item["type"] === "function_call" && Json.readWord(item["call_id"]) !== "")
        openCall(readItemKey(event), item, out)
    },
    delta: (event, kind, part, out) => {
      const text = Json.readString(event["delta"]) ?? ""
      if (text === "") return
      const entry = openText(readItemKey(event), kind, event["type"])
      if (kind === "reasoning" && entry.channel !== event["type"]) return
      startItem(entry, out)
      if (kind === "reasoning" && entry.part !== undefined && entry.part !== part) out.push(makeDelta(entry, "\n\n"))
      entry.part = part
      out.push(makeDelta(entry, text))
    },
    argumentsDelta: (event, out) => {
      const entry = open.get(readItemKey(event))
      const text = Json.readString(event["delta"]) ?? ""
      if (entry?.kind !== "call" || text === "") return
      entry.text += text
      out.push(makeParamsDelta(entry.id, text))
    },
    done: (event, out) => {
      const item = Json.readFields(event["item"])
      const key = readItemKey(event)
      finished.push(item)
      switch (item["type"]) {
        case "reasoning":
          endText(openText(key, "reasoning", undefined), Decode.decodeReasoning(item), out)
          break
        case "message":
          endText(openText(key, "text", undefined), Decode.decodeMessage(item), out)
          break
        case "function_call":
          endCall(openCall(key, item, out), item, out)
          break
      }
      open.delete(key)
    },
    end: (out) => {
      for (const entry of open.values()) {
        if (entry.kind === "call") endCall(entry, {}, out)
        else endText(entry, { text: "", metadata: {} }, out)
      }
      open.clear()
    },
    parts: () => parts,
    finished: () => finished
  }
}

// Machine

/** Creates a state machine for a new stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const items = openItems()
  let out: Array<StreamPart> = []
  let failure: AiError.AiError | undefined
  let introduced = false
  let refused = false
  /** The response of the last event. */
  let response: Json.Fields | undefined

  const emitMetadata = (body: Json.Fields): void => {
    if (introduced) return
    introduced = true
    const id = Json.readString(body["id"])
    const modelId = Json.readString(body["model"])
    out.push(
      Response.makePart("response-metadata", {
        ...(id === undefined ? {} : { id }),
        ...(modelId === undefined ? {} : { modelId })
      })
    )
  }

  const finishResponse = (body: Json.Fields): void => {
    emitMetadata(body)
    response = body
    const streamed = items.parts().length > 0 || items.finished().length > 0
    if (!streamed) {
      Json.readItems(body["output"]).forEach((item, index) => items.done({ output_index: index, item }, out))
    }
    items.end(out)
  }

  const handleEvent = (event: Json.Fields, name: string): AiError.AiError | undefined => {
    switch (name) {
      case "response.output_text.delta":
        items.delta(event, "text", event["content_index"], out)
        return
      case "response.refusal.delta":
        refused = true
        items.delta(event, "text", undefined, out)
        return
      case "response.reasoning_summary_text.delta":
        items.delta(event, "reasoning", event["summary_index"], out)
        return
      case "response.reasoning_text.delta":
        items.delta(event, "reasoning", event["content_index"], out)
        return
      case "response.function_call_arguments.delta":
        items.argumentsDelta(event, out)
        return
      case "response.output_item.added":
        items.added(event, out)
        return
      case "response.output_item.done":
        items.done(event, out)
        return
      case "response.created":
      case "response.in_progress":
        emitMetadata(Json.readFields(event["response"]))
        return
      case "response.completed":
      case "response.incomplete":
      case "response.done":
      case "response.failed":
      case "response.cancelled": {
        const body = Json.readFields(event["response"])
        const failed = Decode.findFailure(body, context)
        if (failed === undefined) finishResponse(body)
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

  const flushParts = (): ReadonlyArray<StreamPart> => {
    const parts = out
    out = []
    return parts
  }

  const selectOutput = (parts: ReadonlyArray<ContentPart>): unknown => {
    const sent = Json.readItems(response?.["output"])
    if (sent.length > 0) return sent
    return items.finished().length > 0 ? items.finished() : Decode.encode(parts)
  }

  return {
    step: (events) => {
      for (const { data, event } of events) {
        const value = Option.getOrUndefined(Json.parse(data))
        failure = Json.isFields(value)
          ? handleEvent(value, Json.readString(value["type"]) ?? event ?? "")
          : SdkError.makeInvalidResponse({
              ...context,
              description: "an event of the stream is not a JSON object",
              body: data
            })
        if (failure !== undefined || response !== undefined) break
      }
      return flushParts()
    },
    end: () => {
      if (failure !== undefined) return []
      if (response === undefined) {
        failure =
          introduced || items.parts().length > 0
            ? SdkError.makeCutStreamError(context)
            : SdkError.makeInvalidResponse({ ...context, description: "the stream ended without an answer" })
        return []
      }
      const body = { ...response, output: selectOutput([]) }
      const reason = Decode.chooseFinishReason(body, items.parts(), refused)
      out.push(
        Response.makePart("finish", { reason, usage: Decode.decodeUsage(response["usage"]), response: undefined })
      )
      return flushParts()
    },
    over: () => response !== undefined,
    sources: () => AnswerSources.readMember(AnswerSources.listAnnotations(selectOutput([]))).sources ?? [],
    failure: () => failure,
    body: (parts) => ({ ...response, output: selectOutput(parts) })
  }
}
