/**
 * Reads the events of a ConverseStream into parts.
 *
 * **Details**
 *
 * Each content block is one part, grouped by the block's index; a text begins with its first piece, because Converse
 * announces calls only. `messageStop` says why the answer stopped and `metadata` what it cost: `finish` comes with the
 * latter, and at the end of the stream where it never came.
 *
 * The AWS SDK decodes one event after the other, without ever leaving the microtask queue while it has bytes. {@link batches}
 * gives all that can be had without waiting for the network as one array, so that what is done with events is done once for
 * each read of the socket: an array is full when the event loop gets its turn. Nothing is read ahead beyond one event.
 *
 * Source: `hermes-llm.md` §4.4.
 */
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../domain/Assembler.ts"
import type { StreamPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as StreamMachine from "../StreamMachine.ts"
import * as Decode from "./Decode.ts"

// Batches

/** Events in arrays, none of them empty. */
export interface Batches<A> {
  readonly next: () => Promise<ReadonlyArray<A> | undefined>
}

const turn = (): Promise<"turn"> => new Promise((resolve) => setImmediate(() => resolve("turn")))

/** The events of a stream; undefined after the last one. A stream that fails does so after its last array. */
export const batches = <A>(stream: AsyncIterable<A>): Batches<A> => {
  const iterator = stream[Symbol.asyncIterator]()
  let pending: Promise<IteratorResult<A>> | undefined
  return {
    next: async () => {
      const first = await (pending ?? iterator.next())
      pending = undefined
      if (first.done === true) return undefined
      const batch = [first.value]
      const over = turn()
      while (pending === undefined) {
        const coming = iterator.next()
        const settled = await Promise.race([coming.then((item) => item.done === true ? "done" : item, () => "failed"), over])
        if (typeof settled === "string") pending = coming
        else batch.push(settled.value)
      }
      return batch
    }
  }
}

// Open blocks

interface OpenCall {
  readonly kind: "call"
  readonly id: string
  readonly name: string
  json: string
}

interface OpenThought {
  readonly kind: "thought"
  signature: string
  redacted: Uint8Array | undefined
}

type Open = OpenCall | OpenThought | { readonly kind: "text" }

// Machine

/** A {@link StreamMachine.StreamMachine} over events that the SDK has decoded. */
export interface Machine extends Omit<StreamMachine.StreamMachine, "step" | "end"> {
  readonly step: (events: ReadonlyArray<unknown>) => ReadonlyArray<StreamPart>
  readonly end: () => ReadonlyArray<StreamPart>
}

/** A machine at the start of a stream. Neither model nor id are in a stream: they come from the request and its headers. */
export const make = (context: SdkError.Context, requestId: string | undefined): Machine => {
  const open = new Map<number, Open>()
  let stopReason = ""
  let usage: Raw.Fields = {}
  let finished = false
  let failure: AiError.AiError | undefined

  const finish = (out: Array<StreamPart>): void => {
    if (finished) return
    finished = true
    const reason = Decode.finishReason(stopReason)
    out.push(Response.makePart("finish", { reason, usage: Decode.usage(usage), response: undefined }))
  }

  const text = (index: number, delta: string, out: Array<StreamPart>): void => {
    const id = String(index)
    if (!open.has(index)) {
      open.set(index, { kind: "text" })
      out.push(Response.makePart("text-start", { id }))
    }
    if (delta !== "") out.push(StreamMachine.textDelta(id, delta))
  }

  const thought = (index: number, change: Raw.Fields, out: Array<StreamPart>): void => {
    const id = String(index)
    let block = open.get(index)
    if (block === undefined) {
      block = { kind: "thought", signature: "", redacted: undefined }
      open.set(index, block)
      out.push(Response.makePart("reasoning-start", { id }))
    }
    if (block.kind !== "thought") return
    block.signature += Raw.word(change["signature"])
    const redacted = Decode.bytes(change["redactedContent"])
    if (redacted !== undefined) {
      block.redacted = block.redacted === undefined ? redacted : Uint8Array.of(...block.redacted, ...redacted)
    }
    const delta = Raw.word(change["text"])
    if (delta !== "") out.push(StreamMachine.reasoningDelta(id, delta))
  }

  const start = (index: number, block: Raw.Fields, out: Array<StreamPart>): void => {
    if (!Raw.isFields(block["toolUse"])) return
    const { name, toolUseId } = block["toolUse"]
    const call: OpenCall = { kind: "call", id: Decode.callId(toolUseId, index), name: Raw.word(name), json: "" }
    open.set(index, call)
    out.push(Response.makePart("tool-params-start", { id: call.id, name: call.name, providerExecuted: false }))
  }

  const delta = (index: number, change: Raw.Fields, out: Array<StreamPart>): void => {
    if (typeof change["text"] === "string") text(index, change["text"], out)
    else if (Raw.isFields(change["reasoningContent"])) thought(index, change["reasoningContent"], out)
    else if (Raw.isFields(change["toolUse"])) {
      const block = open.get(index)
      const json = Raw.word(change["toolUse"]["input"])
      if (block?.kind !== "call" || json === "") return
      block.json += json
      out.push(StreamMachine.paramsDelta(block.id, json))
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
      case "thought":
        out.push(Response.makePart("reasoning-end", { id, metadata: Decode.reasoningMetadata(block) }))
        break
      case "call":
        out.push(Response.makePart("tool-params-end", { id: block.id }))
        out.push(Response.makePart("tool-call", {
          id: block.id,
          name: block.name,
          params: Assembler.params(block.json),
          providerExecuted: false
        }))
        break
    }
  }

  const event = (fields: Raw.Fields, out: Array<StreamPart>): void => {
    const { contentBlockDelta, contentBlockStart, contentBlockStop, messageStart, messageStop, metadata } = fields
    const indexOf = (block: Raw.Fields): number => Number(block["contentBlockIndex"] ?? 0)
    if (Raw.isFields(contentBlockDelta)) delta(indexOf(contentBlockDelta), Raw.fields(contentBlockDelta["delta"]), out)
    else if (Raw.isFields(contentBlockStart)) {
      start(indexOf(contentBlockStart), Raw.fields(contentBlockStart["start"]), out)
    } else if (Raw.isFields(contentBlockStop)) stop(indexOf(contentBlockStop), out)
    else if (messageStart !== undefined) {
      out.push(Response.makePart("response-metadata", { id: requestId, modelId: context.model, timestamp: undefined }))
    } else if (Raw.isFields(messageStop)) stopReason = Raw.word(messageStop["stopReason"])
    else if (Raw.isFields(metadata)) {
      usage = Raw.fields(metadata["usage"])
      if (stopReason !== "") finish(out)
    }
  }

  return {
    step: (events) => {
      const out: Array<StreamPart> = []
      for (const one of events) event(Raw.fields(one), out)
      return out
    },
    end: () => {
      const out: Array<StreamPart> = []
      if (stopReason === "") failure = SdkError.cut(context)
      else finish(out)
      return out
    },
    failure: () => failure,
    body: (parts) => Decode.encode({ parts, stopReason, usage, requestId })
  }
}
