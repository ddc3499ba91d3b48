/**
 * Output items of a streamed response that are not done yet, as parts.
 *
 * **Details**
 *
 * An item is known by its index in the output, or by its id where a server leaves the index out. What streams of it comes as
 * deltas; when it is done, the item itself says everything: text of which nothing streamed by, the metadata to send it back
 * with, the arguments of a call.
 *
 * @since 0.1.0
 */
import * as Response from "effect/ai/Response"
import * as Assembler from "../../domain/Assembler.ts"
import type { ContentPart, StreamPart } from "../../domain/Model.ts"
import * as Arguments from "../Arguments.ts"
import * as CallIds from "../CallIds.ts"
import * as Raw from "../Raw.ts"
import * as StreamMachine from "../StreamMachine.ts"
import * as Items from "./Items.ts"

interface Text {
  readonly kind: "text" | "reasoning"
  readonly id: string
  started: boolean
  /** The event that its pieces come with: an item may show both its reasoning and a summary of it; the first counts. */
  readonly channel: unknown
  /** Index of the part of the item that streams now. */
  part: unknown
}

interface Call {
  readonly kind: "call"
  readonly id: string
  readonly name: string
  text: string
}

/** See the module. */
export interface OpenItems {
  /** An item was announced. */
  readonly added: (event: Raw.Fields, out: Array<StreamPart>) => void
  /** A piece of text or of reasoning; parts of one item, counted by `part`, are set apart. */
  readonly delta: (event: Raw.Fields, kind: Text["kind"], part: unknown, out: Array<StreamPart>) => void
  /** A piece of the arguments of a call. */
  readonly argumentsDelta: (event: Raw.Fields, out: Array<StreamPart>) => void
  /** An item is whole. */
  readonly done: (event: Raw.Fields, out: Array<StreamPart>) => void
  /** Ends what was never done. */
  readonly end: (out: Array<StreamPart>) => void
  /** The kinds of parts so far. */
  readonly parts: () => ReadonlyArray<{ readonly type: ContentPart["type"] }>
  /** The items that were done, in their order. */
  readonly finished: () => ReadonlyArray<Raw.Fields>
}

const keyOf = (event: Raw.Fields): string =>
  typeof event["output_index"] === "number"
    ? `i${event["output_index"]}`
    : Raw.word(event["item_id"]) || Raw.word(Raw.fields(event["item"])["id"])

/** See the module. */
export const make = (): OpenItems => {
  const open = new Map<string, Text | Call>()
  const taken = new Set<string>()
  const parts: Array<{ readonly type: ContentPart["type"] }> = []
  const finished: Array<Raw.Fields> = []
  let count = 0

  const openText = (key: string, kind: Text["kind"], channel: unknown): Text => {
    const found = open.get(key)
    if (found !== undefined && found.kind === kind) return found
    const made: Text = { kind, id: `${kind}-${count++}`, started: false, channel, part: undefined }
    open.set(key, made)
    return made
  }

  const start = (entry: Text, out: Array<StreamPart>): void => {
    if (entry.started) return
    entry.started = true
    parts.push({ type: entry.kind })
    out.push(Response.makePart(entry.kind === "text" ? "text-start" : "reasoning-start", { id: entry.id }))
  }

  const piece = (entry: Text, text: string): StreamPart =>
    entry.kind === "text" ? StreamMachine.textDelta(entry.id, text) : StreamMachine.reasoningDelta(entry.id, text)

  const openCall = (key: string, item: Raw.Fields, out: Array<StreamPart>): Call => {
    const found = open.get(key)
    if (found?.kind === "call") return found
    const { id: callId, name } = Items.call(item, parts.length)
    const id = CallIds.unique(taken, callId, parts.length)
    const made: Call = { kind: "call", id, name, text: "" }
    open.set(key, made)
    parts.push({ type: "tool-call" })
    out.push(Response.makePart("tool-params-start", { id, name, providerExecuted: false }))
    return made
  }

  const endText = (entry: Text, found: Items.TextItem, out: Array<StreamPart>): void => {
    const { metadata, text } = found
    const reasoningOnly = entry.kind === "reasoning" && Object.keys(metadata).length > 0
    if (!entry.started && text === "" && !reasoningOnly) return
    if (!entry.started) {
      start(entry, out)
      if (text !== "") out.push(piece(entry, text))
    }
    out.push(Response.makePart(entry.kind === "text" ? "text-end" : "reasoning-end", { id: entry.id, metadata }))
  }

  const endCall = (entry: Call, item: Raw.Fields, out: Array<StreamPart>): void => {
    const whole = Arguments.pieceOf(item["arguments"])
    if (entry.text === "" && whole !== "") out.push(StreamMachine.paramsDelta(entry.id, whole))
    out.push(
      Response.makePart("tool-params-end", { id: entry.id }),
      Response.makePart("tool-call", {
        id: entry.id,
        name: entry.name,
        params: Assembler.params(whole === "" ? entry.text : whole),
        providerExecuted: false,
        metadata: Items.callMetadata(item)
      })
    )
  }

  return {
    added: (event, out) => {
      const item = Raw.fields(event["item"])
      // A call without a call id is announced when it is done, because its id is derived from its arguments.
      if (item["type"] === "function_call" && Raw.word(item["call_id"]) !== "") openCall(keyOf(event), item, out)
    },
    delta: (event, kind, part, out) => {
      const text = Raw.string(event["delta"]) ?? ""
      if (text === "") return
      const entry = openText(keyOf(event), kind, event["type"])
      if (kind === "reasoning" && entry.channel !== event["type"]) return
      start(entry, out)
      if (kind === "reasoning" && entry.part !== undefined && entry.part !== part) out.push(piece(entry, "\n\n"))
      entry.part = part
      out.push(piece(entry, text))
    },
    argumentsDelta: (event, out) => {
      const entry = open.get(keyOf(event))
      const text = Raw.string(event["delta"]) ?? ""
      if (entry?.kind !== "call" || text === "") return
      entry.text += text
      out.push(StreamMachine.paramsDelta(entry.id, text))
    },
    done: (event, out) => {
      const item = Raw.fields(event["item"])
      const key = keyOf(event)
      finished.push(item)
      switch (item["type"]) {
        case "reasoning":
          endText(openText(key, "reasoning", undefined), Items.reasoning(item), out)
          break
        case "message":
          endText(openText(key, "text", undefined), Items.message(item), out)
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
