/** Assembles the tool calls of a streamed answer from their fragments. */
import * as Option from "effect/Option"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../../base/domain/Assembler.ts"
import * as Json from "../../../base/domain/Json.ts"
import { makeParamsDelta, type StreamPart } from "../../../base/domain/ModelCall.ts"
import type * as SdkError from "../SdkError.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Decode from "./Decode.ts"

interface Slot {
  /** Id sent by the server; empty until it arrives. */
  wireId: string
  /** Id used in the emitted parts; `undefined` until the call is announced. */
  id: string | undefined
  name: string
  text: string
  metadata: Response.ProviderMetadata
}

/** Assembles the tool calls of a stream from their fragments. */
export interface CallSlots {
  readonly read: (fragments: ReadonlyArray<unknown>, out: Array<StreamPart>) => void
  readonly end: (out: Array<StreamPart>) => void
  readonly size: () => number
}

const isComplete = ({ text }: Slot): boolean => Json.isFields(Option.getOrUndefined(Json.parse(text)))

/** Creates the slots of the tool calls of one answer. */
export const makeCallSlots = (context: SdkError.Context): CallSlots => {
  const slots: Array<Slot> = []
  const byIndex = new Map<number, Slot>()
  const taken = new Set<string>()

  /**
   * Finds the call of a fragment with a new or an unexpected index. Some servers send the arguments of a call under
   * another index: an unused one, or the index of a call whose arguments are complete.
   */
  const findByIndex = (index: number, isUnnamed: boolean): Slot | undefined => {
    const found = byIndex.get(index)
    const last = slots.at(-1)
    if (!isUnnamed || last === undefined || found === last) return found
    if (found === undefined) return isComplete(last) ? undefined : last
    return isComplete(found) && !isComplete(last) ? last : found
  }

  const findSlot = (index: unknown, wireId: string, name: string): Slot | undefined => {
    if (typeof index === "number") return findByIndex(index, wireId === "" && name === "")
    if (wireId !== "") return slots.find((slot) => slot.wireId === wireId)
    return name === "" ? slots.at(-1) : undefined
  }

  const findOrMakeSlot = (index: unknown, wireId: string, name: string): Slot => {
    const found = findSlot(index, wireId, name)
    const other = found !== undefined && name !== "" && wireId !== "" && found.wireId !== "" && found.wireId !== wireId
    if (found !== undefined && !other) return found
    const slot: Slot = { wireId, id: undefined, name, text: "", metadata: {} }
    slots.push(slot)
    if (typeof index === "number") byIndex.set(index, slot)
    return slot
  }

  const announceCall = (slot: Slot, wireId: string, out: Array<StreamPart>): string => {
    const id = ToolCallWire.makeUniqueId(taken, wireId, slots.indexOf(slot))
    slot.id = id
    out.push(Response.makePart("tool-params-start", { id, name: slot.name, providerExecuted: false }))
    if (slot.text !== "") out.push(makeParamsDelta(id, slot.text))
    return id
  }

  return {
    read: (fragments, out) => {
      for (const item of fragments) {
        const fragment = Json.readFields(item)
        const target = Json.readFields(fragment["function"])
        const wireId = Json.readWord(fragment["id"])
        const name = Json.readWord(target["name"])
        const piece = ToolCallWire.toPieceText(target["arguments"])
        const slot = findOrMakeSlot(fragment["index"], wireId, name)
        if (wireId !== "" && slot.wireId === "") slot.wireId = wireId
        if (name !== "" && slot.id === undefined) slot.name = name
        if (fragment["extra_content"] !== undefined) slot.metadata = Decode.readCallMetadata(fragment, context)
        slot.text += piece
        if (slot.id !== undefined) {
          if (piece !== "") out.push(makeParamsDelta(slot.id, piece))
        } else if (slot.wireId !== "" && slot.name !== "") announceCall(slot, slot.wireId, out)
      }
    },
    end: (out) => {
      slots.forEach((slot, index) => {
        const id = slot.id ?? announceCall(slot, slot.wireId || ToolCallWire.deriveId(slot.name, slot.text, index), out)
        out.push(
          Response.makePart("tool-params-end", { id }),
          Response.makePart("tool-call", {
            id,
            name: slot.name,
            params: Assembler.parseParams(slot.text),
            providerExecuted: false,
            metadata: slot.metadata
          })
        )
      })
    },
    size: () => slots.length
  }
}
