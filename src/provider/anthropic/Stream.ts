/**
 * Reads the events of a streamed answer into parts, all events of one network read at a time.
 *
 * **Details**
 *
 * Each content block is one part, grouped by the block's index. A call's arguments stream as they come and are parsed
 * when its block stops. `finish` comes with `message_stop`; gateways that never send it, but ended every block and said why
 * the answer stopped, are believed at the end of the stream. An `error` event, and an event that is not JSON, end the stream;
 * what stood before them has been read.
 *
 * Source: `hermes-llm.md` §4.2.
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../domain/Assembler.ts"
import * as Json from "../../domain/Json.ts"
import type { StreamPart } from "../../domain/Model.ts"
import type { SseEvent } from "../internal/SseReader.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as StreamMachine from "../StreamMachine.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Decode from "./Decode.ts"
import * as Endpoint from "./Endpoint.ts"

// Open blocks

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

// Machine

/** A machine at the start of a stream. */
export const make = (context: SdkError.Context, names = Endpoint.sameNames): StreamMachine.StreamMachine => {
  const open = new Map<number, Open>()
  let usage: Raw.Fields = {}
  let id: string | undefined
  let model: string | undefined
  let stopReason: string | null = null
  let stopSequence: string | null = null
  let failure: AiError.AiError | undefined
  let finished = false

  const finish = (out: Array<StreamPart>): void => {
    if (finished) return
    finished = true
    const reason = Decode.finishReason(stopReason)
    out.push(Response.makePart("finish", { reason, usage: Decode.usage(usage), response: undefined }))
  }

  const start = (index: number, block: Raw.Fields, out: Array<StreamPart>): void => {
    const id = String(index)
    switch (block["type"]) {
      case "text": {
        open.set(index, { kind: "text" })
        out.push(Response.makePart("text-start", { id }))
        const text = Raw.word(block["text"])
        if (text !== "") out.push(StreamMachine.textDelta(id, text))
        break
      }
      case "thinking": {
        open.set(index, { kind: "thinking", signature: Raw.word(block["signature"]) })
        out.push(Response.makePart("reasoning-start", { id }))
        const text = Raw.word(block["thinking"])
        if (text !== "") out.push(StreamMachine.reasoningDelta(id, text))
        break
      }
      case "redacted_thinking": {
        open.set(index, { kind: "redacted" })
        const metadata = Decode.metadata({ redacted: Raw.word(block["data"]) })
        out.push(Response.makePart("reasoning-start", { id, metadata }))
        break
      }
      case "tool_use": {
        const call: OpenCall = {
          kind: "tool_use",
          id: Decode.callId(block["id"], index),
          name: names.fromWire(Raw.word(block["name"])),
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

  const delta = (index: number, change: Raw.Fields, out: Array<StreamPart>): void => {
    const block = open.get(index)
    if (block === undefined) return
    const id = String(index)
    switch (change["type"]) {
      case "text_delta":
        if (block.kind === "text") out.push(StreamMachine.textDelta(id, Raw.word(change["text"])))
        break
      case "thinking_delta":
        if (block.kind === "thinking") out.push(StreamMachine.reasoningDelta(id, Raw.word(change["thinking"])))
        break
      case "signature_delta":
        if (block.kind === "thinking") block.signature += Raw.word(change["signature"])
        break
      case "input_json_delta": {
        const json = Raw.word(change["partial_json"])
        if (block.kind !== "tool_use" || json === "") break
        block.json += json
        out.push(StreamMachine.paramsDelta(block.id, json))
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
        out.push(Response.makePart("reasoning-end", { id, metadata: signature === "" ? {} : Decode.metadata({ signature }) }))
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
          params: block.json === "" ? ToolCallWire.fromWire(block.input) : Assembler.params(block.json),
          providerExecuted: false
        }))
        break
    }
  }

  const event = (fields: Raw.Fields, out: Array<StreamPart>): void => {
    const index = typeof fields["index"] === "number" ? fields["index"] : 0
    switch (fields["type"]) {
      case "message_start": {
        const message = Raw.fields(fields["message"])
        usage = Raw.fields(message["usage"])
        id = Raw.word(message["id"]) || undefined
        model = Raw.word(message["model"]) || undefined
        out.push(Response.makePart("response-metadata", { id, modelId: model, timestamp: undefined }))
        break
      }
      case "content_block_start":
        start(index, Raw.fields(fields["content_block"]), out)
        break
      case "content_block_delta":
        delta(index, Raw.fields(fields["delta"]), out)
        break
      case "content_block_stop":
        stop(index, out)
        break
      case "message_delta": {
        const change = Raw.fields(fields["delta"])
        stopReason = Raw.word(change["stop_reason"]) || stopReason
        stopSequence = Raw.word(change["stop_sequence"]) || stopSequence
        usage = Decode.laterUsage(usage, Raw.fields(fields["usage"]))
        break
      }
      case "message_stop":
        finish(out)
        break
      case "error":
        failure = SdkError.fromBody({ ...context, body: fields })
        break
      default:
        break
    }
  }

  const step = (events: ReadonlyArray<SseEvent>): ReadonlyArray<StreamPart> => {
    const out: Array<StreamPart> = []
    for (const { data } of events) {
      if (failure !== undefined || finished) break
      const parsed = Json.parse(data)
      if (Option.isSome(parsed)) event(Raw.fields(parsed.value), out)
      else failure = SdkError.invalidResponse({ ...context, description: "an event of the stream is not JSON", body: data })
    }
    return out
  }

  const end = (): ReadonlyArray<StreamPart> => {
    const out: Array<StreamPart> = []
    if (failure !== undefined) return out
    if (!finished && (stopReason === null || open.size > 0)) failure = SdkError.cut(context)
    else finish(out)
    return out
  }

  return {
    step,
    end,
    failure: () => failure,
    body: (parts) => Decode.encode({ parts, id, model, stopReason, stopSequence, usage }, names)
  }
}
