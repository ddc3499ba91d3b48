/**
 * Tracks the part of an answer that has arrived: for one attempt, as the router reads it, and for the answer across all
 * attempts, as a reader sees it. Only this module changes the progress; the router and the agent call its functions.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §15.5.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ExecuteOptions, StreamPart } from "../../base/domain/ModelCall.ts"

/** Progress of one attempt. */
export interface AttemptProgress {
  /**
   * Time of the last activity of the provider, in milliseconds; `undefined` while received parts are being processed.
   */
  last: number | undefined
  isStreaming: boolean
  /** Time of the first part with content, in milliseconds; `undefined` before it arrives. */
  firstPartAt: number | undefined
  /** Parts that were processed, one array for each read. */
  readonly parts: Array<ReadonlyArray<StreamPart>>
  /**
   * Parts that the wrappers of the attempt passed on, which the run record has of an attempt that failed; `undefined`
   * for an attempt without wrappers.
   */
  passed: Array<ReadonlyArray<StreamPart>> | undefined
}

/** Creates the progress of a new attempt. */
export const beginAttempt = (): AttemptProgress => ({
  last: 0,
  isStreaming: false,
  firstPartAt: undefined,
  parts: [],
  passed: undefined
})

/** Tests whether a part has content. Parts that only mark a start or an end have no content. */
const hasContent = ({ type }: StreamPart): boolean => type.endsWith("-delta") || type === "tool-call"

/** Records that parts have arrived and are being processed. */
export const noteArrival = (progress: AttemptProgress, parts: ReadonlyArray<StreamPart>, clock: Clock.Clock): void => {
  if (progress.firstPartAt === undefined && parts.some(hasContent))
    progress.firstPartAt = clock.currentTimeMillisUnsafe()
  progress.last = undefined
}

/** Records that parts have been processed. */
export const noteRead = (progress: AttemptProgress, parts: ReadonlyArray<StreamPart>, clock: Clock.Clock): void => {
  progress.last = clock.currentTimeMillisUnsafe()
  progress.parts.push(parts)
}

/** Returns options of an attempt that record the parts which its wrappers pass on. */
export const recordPassedParts = (progress: AttemptProgress, options: ExecuteOptions | undefined): ExecuteOptions => {
  const passed: Array<ReadonlyArray<StreamPart>> = []
  progress.passed = passed
  const onPart = options?.onPart
  return {
    ...options,
    onPart: (parts) => {
      passed.push(parts)
      return onPart === undefined ? Effect.succeed(parts) : onPart(parts)
    }
  }
}

/** Records whether the request of an attempt is streamed. */
export const noteRequest = (progress: AttemptProgress, isStreaming: boolean): void => {
  progress.isStreaming = isStreaming
}

/** The streamed text of an attempt, and whether any content was streamed. */
interface StreamedText {
  readonly text: string
  readonly anything: boolean
}

/** Reads the text of the streamed parts of an attempt. */
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

/** Text of incomplete attempts. */
interface BrokenText {
  /** Text as returned by the middleware. The next attempt continues it. */
  readonly received: string
  /** Text as shown to the reader. */
  readonly shown: string
}

const noText: BrokenText = { received: "", shown: "" }

/** Progress of one answer across all of its attempts, as a reader sees it. */
export interface AnswerProgress {
  /** Text shown so far. It is the previous answer's text until the new answer begins to arrive. */
  text: string
  /** Text of the current attempt as returned by the middleware. */
  received: string
  /** True if text of the current attempt was shown to a reader. */
  isRead: boolean
  broken: BrokenText
}

/**
 * Creates the progress of a new answer. The previous answer's `text` is shown until the new answer begins to arrive.
 */
export const beginAnswer = (text: string): AnswerProgress => ({ text, received: "", isRead: false, broken: noText })

const addText = (text: string, parts: ReadonlyArray<StreamPart>): string => {
  let sum = text
  for (const part of parts) if (part.type === "text-delta") sum += part.delta
  return sum
}

/** Adds the text of parts returned by the middleware. */
export const receiveParts = (progress: AnswerProgress, parts: ReadonlyArray<StreamPart>): void => {
  progress.received = addText(progress.received, parts)
}

/** Adds the text of parts that are shown. `hasReader` is true if a reader sees the text while it is streamed. */
export const showParts = (progress: AnswerProgress, parts: ReadonlyArray<StreamPart>, hasReader: boolean): void => {
  const before = progress.text
  progress.text = addText(before, parts)
  if (hasReader && progress.text !== before) progress.isRead = true
}

/** Replaces all text that was shown. */
export const showInstead = (progress: AnswerProgress, text: string): void => {
  progress.text = text
}

/** Preserves the text of an incomplete attempt, so that the next attempt can continue it. */
export const keepBroken = (progress: AnswerProgress): void => {
  progress.broken = { received: progress.broken.received + progress.received, shown: progress.text }
  progress.received = ""
  progress.isRead = false
}

/** Removes the text of a failed attempt. */
export const retractAttempt = (progress: AnswerProgress): void => {
  progress.text = progress.broken.shown
  progress.received = ""
  progress.isRead = false
}
