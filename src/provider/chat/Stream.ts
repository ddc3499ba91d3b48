/**
 * Reads the events of a streamed chat completion.
 *
 * **Details**
 *
 * Reasoning and text are parts of their own, each ended when another begins; tool calls are ended with the stream, because
 * nothing else says that a call is whole. Usage is that of the last chunk which has any. Reasoning details that come after
 * the reasoning they belong to, as signatures of tool calls do, make an empty reasoning part of their own.
 *
 * A stream is whole when it named a finish reason or ended with `[DONE]`; one that just stops was cut.
 *
 * Source: `hermes-llm.md` §4.1, §14.3, §15.5.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../domain/Assembler.ts"
import * as Json from "../../domain/Json.ts"
import type { StreamPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"
import * as SdkError from "../SdkError.ts"
import * as StreamMachine from "../StreamMachine.ts"
import * as CallSlots from "./CallSlots.ts"
import * as Details from "./Details.ts"
import * as Encode from "./Encode.ts"
import * as FinishReason from "./FinishReason.ts"
import * as Reasoning from "./Reasoning.ts"
import * as ThinkTags from "./ThinkTags.ts"
import * as Usage from "./Usage.ts"

/** Reasoning that is not ended yet, with as much of it as the endpoint called `reasoning_content`. */
interface OpenReasoning {
  readonly id: string
  text: string
  content: string | undefined
}

/** A machine at the start of a stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const calls = CallSlots.make()
  const details = Details.make()
  let out: Array<StreamPart> = []
  let failure: AiError.AiError | undefined
  let count = 0
  let text: string | undefined
  let reasoning: OpenReasoning | undefined
  /** Whether the endpoint separates reasoning itself, so that what stands in tags is a copy. */
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
    const metadata = Reasoning.metadata(reasoning.text, reasoning.content, details.take())
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
    out.push(StreamMachine.reasoningDelta(open.id, piece))
  }

  const addText = (piece: string): void => {
    if (text === undefined) {
      endReasoning()
      text = `text-${count++}`
      out.push(Response.makePart("text-start", { id: text }))
    }
    out.push(StreamMachine.textDelta(text, piece))
  }

  const tags = ThinkTags.make({
    text: addText,
    reasoning: (piece) => {
      if (!structured) addReasoning(piece)
    }
  })

  const readReasoning = (delta: Raw.Fields): void => {
    const named = Raw.string(delta["reasoning_content"]) ?? ""
    const plain = Raw.string(delta["reasoning"]) ?? ""
    const blocks = Raw.items(delta["reasoning_details"])
    if (named === "" && plain === "" && blocks.length === 0) return
    structured = true
    details.add(blocks)
    const pieces = plain === "" && named === "" ? blocks.map(Details.textOf) : plain === named ? [plain] : [plain, named]
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
    for (const item of Raw.items(content)) {
      const part = Raw.fields(item)
      const thought = part["type"] === "thinking" ? part["thinking"] : undefined
      if (thought === undefined) tags.read(Raw.string(part["text"]) ?? "")
      else {
        structured = true
        const piece = Raw.string(thought) ?? Raw.items(thought).map((one) => Raw.word(Raw.fields(one)["text"])).join("")
        if (piece !== "") addReasoning(piece)
      }
    }
  }

  const readDelta = (delta: Raw.Fields): void => {
    readReasoning(delta)
    readContent(delta["content"])
    const refusal = Raw.string(delta["refusal"]) ?? ""
    if (refusal !== "") {
      refused = true
      tags.end()
      addText(refusal)
    }
    const legacy = delta["function_call"]
    const fragments = Raw.isFields(legacy) ? [{ index: 0, function: legacy }] : Raw.items(delta["tool_calls"])
    if (fragments.length === 0) return
    tags.end()
    endReasoning()
    endText()
    calls.read(fragments, out)
  }

  const introduce = (chunk: Raw.Fields): void => {
    if (introduced) return
    introduced = true
    id = Raw.string(chunk["id"])
    model = Raw.string(chunk["model"])
    created = chunk["created"]
    out.push(
      Response.makePart("response-metadata", {
        ...(id === undefined ? {} : { id }),
        ...(model === undefined ? {} : { modelId: model })
      })
    )
  }

  const readChunk = (chunk: Raw.Fields): AiError.AiError | undefined => {
    const choice = Raw.fields(Raw.items(chunk["choices"])[0])
    const error = chunk["error"] ?? choice["error"]
    if (error !== undefined && error !== null) return SdkError.fromBody({ ...context, body: { error } })
    introduce(chunk)
    if (Raw.isFields(chunk["usage"])) usage = chunk["usage"]
    const delta = choice["delta"] ?? choice["message"]
    if (Raw.isFields(delta)) {
      answered = true
      readDelta(delta)
    }
    const reason = choice["finish_reason"]
    if (typeof reason === "string" && reason !== "") word = reason
    return undefined
  }

  const finishReason = (): Response.FinishReason =>
    refused ? "content-filter" : FinishReason.fromWire(word, calls.size() > 0)

  const flush = (): ReadonlyArray<StreamPart> => {
    const parts = out
    out = []
    return parts
  }

  return {
    step: (events) => {
      for (const event of events) {
        const chunk = Option.getOrUndefined(Json.parse(event.data))
        failure = event.event === "error"
          ? SdkError.fromBody({ ...context, body: chunk ?? event.data })
          : Raw.isFields(chunk)
          ? readChunk(chunk)
          : SdkError.invalidResponse({ ...context, description: "an event of the stream is no JSON object", body: event.data })
        if (failure !== undefined) break
      }
      return flush()
    },
    end: (finished) => {
      if (failure !== undefined) return []
      if (!answered && word === undefined) {
        failure = SdkError.invalidResponse({ ...context, description: "the stream ended without an answer" })
        return []
      }
      if (word === undefined && !finished) {
        failure = SdkError.cut(context)
        return []
      }
      tags.end()
      endReasoning()
      endText()
      const late = details.take()
      if (late !== undefined) {
        const key = `reasoning-${count++}`
        const metadata = Reasoning.metadata("", undefined, late)
        out.push(
          Response.makePart("reasoning-start", { id: key }),
          Response.makePart("reasoning-end", { id: key, metadata })
        )
      }
      calls.end(out)
      out.push(Response.makePart("finish", {
        reason: finishReason(),
        usage: Usage.fromWire(usage),
        response: undefined,
        metadata: Assembler.costMetadata(Usage.costOf(usage))
      }))
      return flush()
    },
    failure: () => failure,
    body: (parts) =>
      Encode.body(parts, { id, model, created, finishReason: word ?? FinishReason.toWire(finishReason()), usage })
  }
}
