/**
 * Reads the events of a streamed answer into parts, all events of one network read at a time.
 *
 * **Details**
 *
 * Each content block is one part, grouped by the block's index. A call's arguments stream as they come and are parsed
 * when its block stops. `finish` comes with `message_stop`; gateways that never send it, but did say why the answer
 * stopped, are believed at the end of the stream. An `error` event, and an event that is not JSON, end the stream; what
 * stood before them has been read.
 *
 * Source: `hermes-llm.md` §4.2.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Response from "effect/ai/Response"
import type { StreamPart } from "../../domain/Model.ts"
import * as Json from "../../domain/Json.ts"
import * as Assembler from "../Assembler.ts"
import type { SseEvent } from "../internal/SseReader.ts"
import * as Answer from "./Answer.ts"
import * as Decode from "./Decode.ts"
import * as Wire from "./Wire.ts"

/** The API's last words about an answer. */
export interface Ending {
  readonly stopReason: string | null
  readonly stopSequence: string | null
  /** The counters as the API named them. */
  readonly usage: Readonly<Record<string, unknown>>
}

/** Takes events in; see {@link make}. */
export interface Machine {
  readonly step: (events: ReadonlyArray<SseEvent>) => ReadonlyArray<StreamPart>
  /** What is still to be said when the body is over: `finish`, where only that is missing. */
  readonly end: () => ReadonlyArray<StreamPart>
  /** What went wrong inside the stream. */
  readonly refused: () => Decode.Refused | undefined
  /** Whether `finish` was given out. */
  readonly finished: () => boolean
  readonly ending: () => Ending
}

interface OpenCall {
  readonly kind: "tool_use"
  readonly id: string
  readonly name: string
  /** Arguments that came with the start, whole; some gateways do so. */
  readonly input: unknown
  json: string
}

interface OpenThought {
  readonly kind: "thinking"
  signature: string
}

type Open = OpenCall | OpenThought | { readonly kind: "text" } | { readonly kind: "redacted" }

type Fields = Readonly<Record<string, unknown>>

/** A machine at the start of a stream. `toolName` gives a tool's own name from the one on the wire. */
export const make = (toolName: (wireName: string) => string): Machine => {
  const open = new Map<number, Open>()
  let usage: Fields = {}
  let stopReason: string | null = null
  let stopSequence: string | null = null
  let refused: Decode.Refused | undefined
  let finished = false

  const finish = (out: Array<StreamPart>): void => {
    if (finished) return
    finished = true
    const reason = Answer.finishReason(stopReason)
    out.push(Response.makePart("finish", { reason, usage: Answer.usage(usage), response: undefined }))
  }

  const start = (index: number, block: Fields, out: Array<StreamPart>): void => {
    const id = String(index)
    switch (block["type"]) {
      case "text": {
        open.set(index, { kind: "text" })
        out.push(Response.makePart("text-start", { id }))
        const text = Answer.text(block["text"])
        if (text !== "") out.push(Response.makePart("text-delta", { id, delta: text }))
        break
      }
      case "thinking": {
        open.set(index, { kind: "thinking", signature: Answer.text(block["signature"]) })
        out.push(Response.makePart("reasoning-start", { id }))
        const text = Answer.text(block["thinking"])
        if (text !== "") out.push(Response.makePart("reasoning-delta", { id, delta: text }))
        break
      }
      case "redacted_thinking": {
        open.set(index, { kind: "redacted" })
        const metadata = Wire.metadata({ redacted: Answer.text(block["data"]) })
        out.push(Response.makePart("reasoning-start", { id, metadata }))
        break
      }
      case "tool_use": {
        const call: OpenCall = {
          kind: "tool_use",
          id: Decode.callId(block["id"], index),
          name: toolName(Answer.text(block["name"])),
          input: block["input"],
          json: ""
        }
        open.set(index, call)
        out.push(Response.makePart("tool-params-start", { id: call.id, name: call.name, providerExecuted: false }))
        break
      }
      default:
        break
    }
  }

  const delta = (index: number, change: Fields, out: Array<StreamPart>): void => {
    const block = open.get(index)
    if (block === undefined) return
    const id = String(index)
    switch (change["type"]) {
      case "text_delta":
        if (block.kind === "text") out.push(Response.makePart("text-delta", { id, delta: Answer.text(change["text"]) }))
        break
      case "thinking_delta":
        if (block.kind === "thinking") {
          out.push(Response.makePart("reasoning-delta", { id, delta: Answer.text(change["thinking"]) }))
        }
        break
      case "signature_delta":
        if (block.kind === "thinking") block.signature += Answer.text(change["signature"])
        break
      case "input_json_delta": {
        const json = Answer.text(change["partial_json"])
        if (block.kind !== "tool_use" || json === "") break
        block.json += json
        out.push(Response.makePart("tool-params-delta", { id: block.id, delta: json }))
        break
      }
      default:
        break
    }
  }

  const stop = (index: number, out: Array<StreamPart>): void => {
    const block = open.get(index)
    if (block === undefined) return
    open.delete(index)
    const id = String(index)
    switch (block.kind) {
      case "text":
        out.push(Response.makePart("text-end", { id }))
        break
      case "thinking": {
        const { signature } = block
        out.push(Response.makePart("reasoning-end", { id, metadata: signature === "" ? {} : Wire.metadata({ signature }) }))
        break
      }
      case "redacted":
        out.push(Response.makePart("reasoning-end", { id }))
        break
      case "tool_use":
        out.push(Response.makePart("tool-params-end", { id: block.id }))
        out.push(Response.makePart("tool-call", {
          id: block.id,
          name: block.name,
          params: block.json === "" ? Answer.record(block.input) : Assembler.params(block.json),
          providerExecuted: false
        }))
        break
    }
  }

  const event = (fields: Fields, out: Array<StreamPart>): void => {
    const index = typeof fields["index"] === "number" ? fields["index"] : 0
    switch (fields["type"]) {
      case "message_start": {
        const message = Answer.record(fields["message"])
        usage = Answer.record(message["usage"])
        const id = Answer.text(message["id"]) || undefined
        const modelId = Answer.text(message["model"]) || undefined
        out.push(Response.makePart("response-metadata", { id, modelId, timestamp: undefined }))
        break
      }
      case "content_block_start":
        start(index, Answer.record(fields["content_block"]), out)
        break
      case "content_block_delta":
        delta(index, Answer.record(fields["delta"]), out)
        break
      case "content_block_stop":
        stop(index, out)
        break
      case "message_delta": {
        const change = Answer.record(fields["delta"])
        stopReason = Answer.text(change["stop_reason"]) || stopReason
        stopSequence = Answer.text(change["stop_sequence"]) || stopSequence
        usage = Answer.laterUsage(usage, Answer.record(fields["usage"]))
        break
      }
      case "message_stop":
        finish(out)
        break
      case "error":
        refused = { type: "error", body: fields }
        break
      default:
        break
    }
  }

  const step = (events: ReadonlyArray<SseEvent>): ReadonlyArray<StreamPart> => {
    const out: Array<StreamPart> = []
    for (const { data } of events) {
      if (refused !== undefined || finished) break
      const parsed = Json.parse(data)
      if (Option.isNone(parsed)) refused = { type: "invalid", description: "an event of the stream is not JSON", body: data }
      else event(Answer.record(parsed.value), out)
    }
    return out
  }

  const end = (): ReadonlyArray<StreamPart> => {
    const out: Array<StreamPart> = []
    if (refused === undefined && stopReason !== null) finish(out)
    return out
  }

  return {
    step,
    end,
    refused: () => refused,
    finished: () => finished,
    ending: () => ({ stopReason, stopSequence, usage })
  }
}
