/**
 * Converts the events of a streamed chat completion to parts.
 *
 * **Details**
 *
 * Reasoning and text are separate parts. Each ends when another part begins. Tool calls end with the stream, because
 * the protocol does not signal that a call is complete. Usage is taken from the last chunk that contains it.
 *
 * - A fragment belongs to the call with the same index. If the server omits the index, it belongs to the call with the
 *   same id, otherwise to the last call. A new id with a name on a used index starts a new call. Names are assigned,
 *   arguments concatenated. A call is announced as soon as its id and name are known; if a call never gets an id, one
 *   is derived at the end of the stream.
 * - Pieces of `reasoning_details` are joined if their type and index are the same, or if they follow each other without
 *   an index. Text, summary and data are concatenated; of every other field the last value is used, so that a signature
 *   that arrives at the end is attached to its text. Blocks that arrive after their reasoning, such as signatures of
 *   tool calls, create a separate empty reasoning part.
 * - A stream is complete if it contained a finish reason or ended with `[DONE]`; otherwise the answer was cut off.
 *
 * Source: `hermes-llm.md` §4.1, §14.3, §15.5.
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type * as Schema from "effect/Schema"
import * as Assembler from "../../../base/domain/Assembler.ts"
import * as Json from "../../../base/domain/Json.ts"
import { makeParamsDelta, makeReasoningDelta, type StreamPart, makeTextDelta } from "../../../base/domain/ModelCall.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as SdkError from "../SdkError.ts"
import * as StreamMachine from "../StreamMachine.ts"
import * as ThinkTags from "../ThinkTags.ts"
import * as ToolCallWire from "../ToolCallWire.ts"
import * as Decode from "./Decode.ts"

// Tool calls

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
interface CallSlots {
  readonly read: (fragments: ReadonlyArray<unknown>, out: Array<StreamPart>) => void
  readonly end: (out: Array<StreamPart>) => void
  readonly size: () => number
}

const isComplete = ({ text }: Slot): boolean => Json.isFields(Option.getOrUndefined(Json.parse(text)))

const makeCallSlots = (context: SdkError.Context): CallSlots => {
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

// Reasoning details

const grows = new Set(["text", "summary", "data"])

const mergePiece = (block: Json.Fields, piece: Json.Fields): Json.Fields => {
  const out: Record<string, unknown> = { ...block }
  for (const [name, value] of Object.entries(piece)) {
    const before = out[name]
    if (value === null || value === undefined) continue
    out[name] = grows.has(name) && typeof value === "string" && typeof before === "string" ? before + value : value
  }
  return out
}

const isSameBlock = (block: Json.Fields, piece: Json.Fields): boolean =>
  block["type"] === piece["type"] &&
  block["index"] === piece["index"] &&
  (block["id"] === undefined ||
    block["id"] === null ||
    piece["id"] === undefined ||
    piece["id"] === null ||
    block["id"] === piece["id"])

/** Assembles the blocks of `reasoning_details` from their pieces. */
interface DetailBlocks {
  readonly add: (pieces: ReadonlyArray<unknown>) => void
  /**
   * Removes and returns the blocks added since the previous call, or returns `undefined` if there are no new blocks.
   */
  readonly take: () => Schema.Json | undefined
}

const makeDetailBlocks = (): DetailBlocks => {
  let blocks: Array<Json.Fields> = []
  return {
    add: (pieces) => {
      for (const piece of pieces) {
        if (!Json.isFields(piece)) continue
        const at =
          piece["index"] === undefined ? blocks.length - 1 : blocks.findLastIndex((block) => isSameBlock(block, piece))
        const block = blocks[at]
        if (block !== undefined && isSameBlock(block, piece)) blocks[at] = mergePiece(block, piece)
        else blocks.push(piece)
      }
    },
    take: () => {
      const taken = Decode.toBlockMetadata(blocks)
      blocks = []
      return taken
    }
  }
}

// Machine

/** Reasoning that has not ended yet, and the part of its text that the endpoint sent as `reasoning_content`. */
interface OpenReasoning {
  readonly id: string
  text: string
  content: string | undefined
}

/** Creates a state machine for a new stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const calls = makeCallSlots(context)
  const details = makeDetailBlocks()
  let out: Array<StreamPart> = []
  let failure: AiError.AiError | undefined
  let count = 0
  let text: string | undefined
  let reasoning: OpenReasoning | undefined
  /** True if the endpoint sends reasoning in a separate field, so that reasoning in tags is a duplicate. */
  let structured = false
  let introduced = false
  let answered = false
  let refused = false
  let word: string | undefined
  let usage: unknown
  let id: string | undefined
  let model: string | undefined
  let created: unknown

  const endText = (): void => {
    if (text === undefined) return
    out.push(Response.makePart("text-end", { id: text }))
    text = undefined
  }

  const endReasoning = (): void => {
    if (reasoning === undefined) return
    const metadata = Decode.makeReasoningMetadata(reasoning.text, reasoning.content, details.take())
    out.push(Response.makePart("reasoning-end", { id: reasoning.id, metadata }))
    reasoning = undefined
  }

  const openReasoning = (): OpenReasoning => {
    if (reasoning !== undefined) return reasoning
    endText()
    reasoning = { id: `reasoning-${count++}`, text: "", content: undefined }
    out.push(Response.makePart("reasoning-start", { id: reasoning.id }))
    return reasoning
  }

  const addReasoning = (piece: string): void => {
    const open = openReasoning()
    open.text += piece
    out.push(makeReasoningDelta(open.id, piece))
  }

  const addText = (piece: string): void => {
    if (text === undefined) {
      endReasoning()
      text = `text-${count++}`
      out.push(Response.makePart("text-start", { id: text }))
    }
    out.push(makeTextDelta(text, piece))
  }

  const tags = ThinkTags.make({
    text: addText,
    reasoning: (piece) => {
      if (!structured) addReasoning(piece)
    }
  })

  const readReasoning = (delta: Json.Fields): void => {
    const named = Json.readString(delta["reasoning_content"]) ?? ""
    const plain = Json.readString(delta["reasoning"]) ?? ""
    const blocks = Json.readItems(delta["reasoning_details"])
    if (named === "" && plain === "" && blocks.length === 0) return
    structured = true
    details.add(blocks)
    const pieces =
      plain === "" && named === "" ? blocks.map(Decode.readDetailText) : plain === named ? [plain] : [plain, named]
    for (const piece of pieces) {
      if (piece !== "") addReasoning(piece)
    }
    if (named !== "") {
      const open = openReasoning()
      open.content = (open.content ?? "") + named
    }
  }

  const readContent = (content: unknown): void => {
    if (typeof content === "string") {
      if (content !== "") tags.read(content)
      return
    }
    for (const item of Json.readItems(content)) {
      const part = Json.readFields(item)
      const thought = part["type"] === "thinking" ? part["thinking"] : undefined
      if (thought === undefined) tags.read(Json.readString(part["text"]) ?? "")
      else {
        structured = true
        const piece =
          Json.readString(thought) ??
          Json.readItems(thought)
            .map((one) => Json.readWord(Json.readFields(one)["text"]))
            .join("")
        if (piece !== "") addReasoning(piece)
      }
    }
  }

  const sources = AnswerSources.makeList()

  const readDelta = (delta: Json.Fields): void => {
    sources.add(delta["annotations"])
    readReasoning(delta)
    readContent(delta["content"])
    const refusal = Json.readString(delta["refusal"]) ?? ""
    if (refusal !== "") {
      refused = true
      tags.end()
      addText(refusal)
    }
    const legacy = delta["function_call"]
    const fragments = Json.isFields(legacy) ? [{ index: 0, function: legacy }] : Json.readItems(delta["tool_calls"])
    if (fragments.length === 0) return
    tags.end()
    endReasoning()
    endText()
    calls.read(fragments, out)
  }

  const emitMetadata = (chunk: Json.Fields): void => {
    if (introduced) return
    introduced = true
    id = Json.readString(chunk["id"])
    model = Json.readString(chunk["model"])
    created = chunk["created"]
    out.push(
      Response.makePart("response-metadata", {
        ...(id === undefined ? {} : { id }),
        ...(model === undefined ? {} : { modelId: model })
      })
    )
  }

  const readChunk = (chunk: Json.Fields): AiError.AiError | undefined => {
    sources.add(chunk["citations"])
    const choice = Json.readFields(Json.readItems(chunk["choices"])[0])
    const error = chunk["error"] ?? choice["error"]
    if (error !== undefined && error !== null) return SdkError.fromBody({ ...context, body: { error } })
    emitMetadata(chunk)
    if (Json.isFields(chunk["usage"])) usage = chunk["usage"]
    const delta = choice["delta"] ?? choice["message"]
    if (Json.isFields(delta)) {
      answered = true
      readDelta(delta)
    }
    const reason = choice["finish_reason"]
    if (typeof reason === "string" && reason !== "") word = reason
    return undefined
  }

  const chooseFinishReason = (): Response.FinishReason =>
    refused ? "content-filter" : Decode.toFinishReason(word, calls.size() > 0)

  const flushParts = (): ReadonlyArray<StreamPart> => {
    const parts = out
    out = []
    return parts
  }

  return {
    step: (events) => {
      for (const event of events) {
        const chunk = Option.getOrUndefined(Json.parse(event.data))
        failure =
          event.event === "error"
            ? SdkError.fromBody({ ...context, body: chunk ?? event.data })
            : Json.isFields(chunk)
              ? readChunk(chunk)
              : SdkError.makeInvalidResponse({
                  ...context,
                  description: "an event of the stream is not a JSON object",
                  body: event.data
                })
        if (failure !== undefined) break
      }
      return flushParts()
    },
    end: (finished) => {
      if (failure !== undefined) return []
      if (!answered && word === undefined) {
        failure = SdkError.makeInvalidResponse({ ...context, description: "the stream ended without an answer" })
        return []
      }
      if (word === undefined && !finished) {
        failure = SdkError.makeCutStreamError(context)
        return []
      }
      tags.end()
      endReasoning()
      endText()
      const late = details.take()
      if (late !== undefined) {
        const key = `reasoning-${count++}`
        const metadata = Decode.makeReasoningMetadata("", undefined, late)
        out.push(
          Response.makePart("reasoning-start", { id: key }),
          Response.makePart("reasoning-end", { id: key, metadata })
        )
      }
      calls.end(out)
      out.push(
        Response.makePart("finish", {
          reason: chooseFinishReason(),
          usage: Decode.decodeUsage(usage),
          response: undefined,
          metadata: Assembler.makeCostMetadata(Decode.readCost(usage))
        })
      )
      return flushParts()
    },
    sources: sources.list,
    failure: () => failure,
    body: (parts) =>
      Decode.encode(parts, {
        id,
        model,
        created,
        finishReason: word ?? Decode.toFinishWord(chooseFinishReason()),
        usage
      })
  }
}
