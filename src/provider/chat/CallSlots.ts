/**
 * Tool calls of a streamed chat completion: puts the fragments of parallel calls into their slots.
 *
 * **Details**
 *
 * A fragment belongs to the call of its index; where servers leave the index out, to the call of its id, else to the last
 * one. A new id with a name on a used index opens a new call. Names are assigned, arguments concatenated
 * (`hermes-llm.md` §15.5). A call is announced as soon as its id and name are known; a call that never gets an id has one
 * derived at the end.
 *
 * @since 0.1.0
 */
import * as Response from "effect/ai/Response"
import * as Assembler from "../../domain/Assembler.ts"
import type { StreamPart } from "../../domain/Model.ts"
import * as Arguments from "../Arguments.ts"
import * as CallIds from "../CallIds.ts"
import * as Raw from "../Raw.ts"
import * as StreamMachine from "../StreamMachine.ts"

interface Slot {
  /** The id that the server gave; empty until it does. */
  wireId: string
  /** The id of the parts; undefined until the call is announced. */
  id: string | undefined
  name: string
  text: string
  metadata: Response.ProviderMetadata
}

/** See the module. */
export interface CallSlots {
  readonly read: (fragments: ReadonlyArray<unknown>, out: Array<StreamPart>) => void
  readonly end: (out: Array<StreamPart>) => void
  readonly size: () => number
}

/** `extra_content` of a tool call, opaque: it holds Gemini's thought signatures. */
export const metadata = (call: Raw.Fields): Response.ProviderMetadata => {
  const extra = call["extra_content"]
  // It was parsed from JSON.
  return Raw.isFields(extra) ? { chat_completions: { extra_content: extra as Response.ProviderMetadata } } : {}
}

/** See the module. */
export const make = (): CallSlots => {
  const slots: Array<Slot> = []
  const byIndex = new Map<number, Slot>()
  const taken = new Set<string>()

  const find = (index: unknown, wireId: string, name: string): Slot | undefined => {
    if (typeof index === "number") return byIndex.get(index)
    if (wireId !== "") return slots.find((slot) => slot.wireId === wireId)
    return name === "" ? slots.at(-1) : undefined
  }

  const slotOf = (index: unknown, wireId: string, name: string): Slot => {
    const found = find(index, wireId, name)
    const other = found !== undefined && name !== "" && wireId !== "" && found.wireId !== "" && found.wireId !== wireId
    if (found !== undefined && !other) return found
    const slot: Slot = { wireId, id: undefined, name, text: "", metadata: {} }
    slots.push(slot)
    if (typeof index === "number") byIndex.set(index, slot)
    return slot
  }

  const announce = (slot: Slot, wireId: string, out: Array<StreamPart>): string => {
    const id = CallIds.unique(taken, wireId, slots.indexOf(slot))
    slot.id = id
    out.push(Response.makePart("tool-params-start", { id, name: slot.name, providerExecuted: false }))
    if (slot.text !== "") out.push(StreamMachine.paramsDelta(id, slot.text))
    return id
  }

  return {
    read: (fragments, out) => {
      for (const item of fragments) {
        const fragment = Raw.fields(item)
        const target = Raw.fields(fragment["function"])
        const wireId = Raw.word(fragment["id"])
        const name = Raw.word(target["name"])
        const piece = Arguments.pieceOf(target["arguments"])
        const slot = slotOf(fragment["index"], wireId, name)
        if (wireId !== "" && slot.wireId === "") slot.wireId = wireId
        if (name !== "" && slot.id === undefined) slot.name = name
        if (fragment["extra_content"] !== undefined) slot.metadata = metadata(fragment)
        slot.text += piece
        if (slot.id !== undefined) {
          if (piece !== "") out.push(StreamMachine.paramsDelta(slot.id, piece))
        } else if (slot.wireId !== "" && slot.name !== "") announce(slot, slot.wireId, out)
      }
    },
    end: (out) => {
      slots.forEach((slot, index) => {
        const id = slot.id ?? announce(slot, slot.wireId || CallIds.derive(slot.name, slot.text, index), out)
        out.push(
          Response.makePart("tool-params-end", { id }),
          Response.makePart("tool-call", {
            id,
            name: slot.name,
            params: Assembler.params(slot.text),
            providerExecuted: false,
            metadata: slot.metadata
          })
        )
      })
    },
    size: () => slots.length
  }
}
