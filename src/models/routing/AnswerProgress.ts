/**
 * The part of an answer that has arrived so far: of one attempt, as the router reads it, and of the answer over all of
 * its attempts, as a reader sees it. This module alone changes either; the router and the agent call its functions.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §15.5.
 */
import type * as Clock from "effect/Clock"
import type { StreamPart } from "../../base/domain/ModelCall.ts"

/** One attempt as its parts stream in. */
export interface AttemptProgress {
  /** Time of the last sign of life in milliseconds; undefined while a piece is being read on this side. */
  last: number | undefined
  isStreaming: boolean
  /** Time of the first piece with content; undefined before it. */
  firstPartAt: number | undefined
  /** Parts that were read, read by read. */
  readonly parts: Array<ReadonlyArray<StreamPart>>
}

/** Makes the progress of an attempt that begins. */
export const beginAttempt = (): AttemptProgress => ({ last: 0, isStreaming: false, firstPartAt: undefined, parts: [] })

/** Returns whether a part has content; parts that only open or close others have no content. */
const hasContent = ({ type }: StreamPart): boolean => type.endsWith("-delta") || type === "tool-call"

/** Notes that parts have arrived and are being read on this side. */
export const noteArrival = (progress: AttemptProgress, parts: ReadonlyArray<StreamPart>, clock: Clock.Clock): void => {
  if (progress.firstPartAt === undefined && parts.some(hasContent))
    progress.firstPartAt = clock.currentTimeMillisUnsafe()
  progress.last = undefined
}

/** Notes that parts were read. */
export const noteRead = (progress: AttemptProgress, parts: ReadonlyArray<StreamPart>, clock: Clock.Clock): void => {
  progress.last = clock.currentTimeMillisUnsafe()
  progress.parts.push(parts)
}

/** Notes whether the request of an attempt asks for a stream. */
export const noteRequest = (progress: AttemptProgress, isStreaming: boolean): void => {
  progress.isStreaming = isStreaming
}

/** The text that streamed by, and whether anything did. */
interface StreamedText {
  readonly text: string
  readonly anything: boolean
}

/** Reads the text of the parts that streamed by in an attempt. */
export const readStreamedText = (reads: ReadonlyArray<ReadonlyArray<StreamPart>>): StreamedText => {
  let text = ""
  let anything = false
  for (const parts of reads) {
    for (const part of parts) {
      switch (part.type) {
        case "text-delta":
          text += part.delta
          anything = true
          break
        case "reasoning-delta":
        case "tool-params-start":
        case "tool-call":
          anything = true
          break
        default:
          break
      }
    }
  }
  return { text, anything }
}

/** Text of the attempts that broke off. */
interface BrokenText {
  /** As it left the middleware: the next attempt continues it. */
  readonly received: string
  /** As it was shown. */
  readonly shown: string
}

const noText: BrokenText = { received: "", shown: "" }

/** One answer over all attempts that it takes, as a reader sees it. */
export interface AnswerProgress {
  /** Text that was shown so far. Until a new answer begins to arrive, the text of the answer before it. */
  text: string
  /** Text of the attempt under way as it left the middleware. */
  received: string
  /** True if text of the attempt under way was shown to a reader. */
  isRead: boolean
  broken: BrokenText
}

/** Makes the progress of an answer of which nothing has arrived; `text` of the answer before it is shown until then. */
export const beginAnswer = (text: string): AnswerProgress => ({ text, received: "", isRead: false, broken: noText })

const addText = (text: string, parts: ReadonlyArray<StreamPart>): string => {
  let sum = text
  for (const part of parts) if (part.type === "text-delta") sum += part.delta
  return sum
}

/** Adds the text of parts that left the middleware. */
export const receiveParts = (progress: AnswerProgress, parts: ReadonlyArray<StreamPart>): void => {
  progress.received = addText(progress.received, parts)
}

/** Adds the text of parts that are shown. `hasReader` is true if text is read while it streams in. */
export const showParts = (progress: AnswerProgress, parts: ReadonlyArray<StreamPart>, hasReader: boolean): void => {
  const before = progress.text
  progress.text = addText(before, parts)
  if (hasReader && progress.text !== before) progress.isRead = true
}

/** Replaces all text that was shown. */
export const showInstead = (progress: AnswerProgress, text: string): void => {
  progress.text = text
}

/** Keeps the text of an attempt that broke off: the next attempt is asked for the rest. */
export const keepBroken = (progress: AnswerProgress): void => {
  progress.broken = { received: progress.broken.received + progress.received, shown: progress.text }
  progress.received = ""
  progress.isRead = false
}

/** Takes back the text of an attempt that came to nothing. */
export const retractAttempt = (progress: AnswerProgress): void => {
  progress.text = progress.broken.shown
  progress.received = ""
  progress.isRead = false
}
