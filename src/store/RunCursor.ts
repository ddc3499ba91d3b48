/**
 * Positions in the events of a run, as cursors that a reader returns with: from then on it receives the rest, from a
 * live run or from the run record.
 *
 * **Details**
 *
 * A cursor names a run, its newest step, and the seen part of that step: the length and a checksum of its text, and the
 * calls that began and ended. It therefore means the same in each process that has the store of the run. These
 * events are repeated from the record: `RunStarted`, `StepStarted`, `ReasoningDelta`, `TextDelta`, `ToolStarted`,
 * `ToolFinished`, `FileChanged`, `QuestionAsked` and `RunFinished`. All others describe a moment, such as
 * `ToolProgress`, and reach only readers of that moment. If the stored text is not the text that the reader has seen,
 * because it was retracted or redacted, the reader receives it as `TextReplaced`.
 *
 * **Example** (The cursor of a reader)
 *
 * ```ts
 * import { RunCursor } from "hermes-effect/sessions"
 *
 * const events = [{ _tag: "StepStarted", step: 1 } as const, { _tag: "TextDelta", text: "hel" } as const]
 * const position = events.reduce(RunCursor.advancePosition, RunCursor.makeStart("run-1"))
 *
 * console.log(RunCursor.parseCursor(RunCursor.formatCursor(position))?.text.length)
 * // => 3
 * ```
 */
import type { RunEvent } from "../base/domain/RunEvent.ts"

/** Text that a reader has seen: its length in code units, and a checksum. */
interface SeenText {
  readonly length: number
  readonly sum: number
}

/** Position of a reader in the events of a run. */
export interface RunPosition {
  readonly turnId: string
  /** Number of the newest step; 0 before the first step, and -1 before the start of the run. */
  readonly step: number
  /** Text of the step. */
  readonly text: SeenText
  readonly reasoning: SeenText
  /** Number of changed files in the step. */
  readonly files: number
  /** Calls of the step that are running, and calls that ended: their short ids or checksums. */
  readonly begun: ReadonlyArray<string>
  readonly ended: ReadonlyArray<string>
  /** Questions, likewise. */
  readonly asked: ReadonlyArray<string>
  /** True after the last event. */
  readonly isOver: boolean
}

const unseen: SeenText = { length: 0, sum: 0x811c9dc5 }

/** Adds text by the hash FNV-1a, over code units. */
const addText = ({ length, sum }: SeenText, text: string): SeenText => {
  let next = sum
  for (let index = 0; index < text.length; index++) next = Math.imul(next ^ text.charCodeAt(index), 16_777_619) >>> 0
  return { length: length + text.length, sum: next }
}

/**
 * Returns a short id as it is, and a checksum of any other. A model may write ids of any length and characters, and
 * servers accept headers of only a few thousand characters.
 */
const shortenId = (id: string): string => {
  if (/^[\w-]{1,12}$/u.test(id)) return id
  const high = addText(unseen, `+${id}`).sum & 0xf_ffff
  return `~${(high * 2 ** 32 + addText(unseen, id).sum).toString(36)}`
}

const isSame = (a: SeenText, b: SeenText): boolean => a.length === b.length && a.sum === b.sum

const stepStart = { text: unseen, reasoning: unseen, files: 0, begun: [], ended: [], asked: [] }

/** Position before the first event of a run. */
export const makeStart = (turnId: string): RunPosition => ({ turnId, step: -1, ...stepStart, isOver: false })

/** Returns the position after an event. */
export const advancePosition = (position: RunPosition, event: RunEvent): RunPosition => {
  switch (event._tag) {
    case "RunStarted":
      return { ...makeStart(event.turnId), step: 0 }
    case "StepStarted":
      return { ...position, ...stepStart, step: event.step }
    case "TextDelta":
      return { ...position, text: addText(position.text, event.text) }
    case "TextReplaced":
      return { ...position, text: addText(unseen, event.text) }
    case "ReasoningDelta":
      return { ...position, reasoning: addText(position.reasoning, event.text) }
    case "ToolStarted":
      return { ...position, begun: [...position.begun, shortenId(event.callId)] }
    case "ToolFinished": {
      const id = shortenId(event.callId)
      return { ...position, begun: position.begun.filter((one) => one !== id), ended: [...position.ended, id] }
    }
    case "FileChanged":
      return { ...position, files: position.files + 1 }
    case "QuestionAsked":
      return { ...position, asked: [...position.asked, shortenId(event.question.id)] }
    case "RunFinished":
      return { ...position, isOver: true }
    default:
      return position
  }
}

const formatText = ({ length, sum }: SeenText): string => (length === 0 ? "" : `${length}.${sum.toString(36)}`)

/** Returns the cursor of a position: visible ASCII characters without spaces. */
export const formatCursor = ({
  asked,
  begun,
  ended,
  files,
  isOver,
  reasoning,
  step,
  text,
  turnId
}: RunPosition): string =>
  [
    encodeURIComponent(turnId.toWellFormed()).replaceAll("%3A", ":"),
    `${step}`,
    formatText(text),
    formatText(reasoning),
    files === 0 ? "" : `${files}`,
    isOver ? "over" : "",
    begun.join(","),
    ended.join(","),
    asked.join(",")
  ]
    .join(";")
    .replace(/;+$/u, "")

/** Maximum number of characters of a cursor that is read. */
const longestCursor = 64_000

const parseNumber = (text: string): number | undefined =>
  /^-?\d{1,15}$/u.test(text) ? Number(text) : text === "" ? 0 : undefined

const parseText = (text: string): SeenText | undefined => {
  if (text === "") return unseen
  const [, length, sum] = /^(\d{1,15})\.([\da-z]{1,7})$/u.exec(text) ?? []
  return length === undefined || sum === undefined
    ? undefined
    : { length: Number(length), sum: Number.parseInt(sum, 36) }
}

const parseIds = (text: string): ReadonlyArray<string> => (text === "" ? [] : text.split(","))

/** Reads a cursor. Returns `undefined` for other text. */
export const parseCursor = (cursor: string): RunPosition | undefined => {
  if (cursor.length > longestCursor) return undefined
  const [
    turnId = "",
    steps = "",
    said = "",
    thought = "",
    changed = "",
    over = "",
    begun = "",
    ended = "",
    asked = "",
    more
  ] = cursor.split(";")
  const [step, text, reasoning, files] = [parseNumber(steps), parseText(said), parseText(thought), parseNumber(changed)]
  if (turnId === "" || steps === "" || more !== undefined || !(over === "" || over === "over")) return undefined
  if (step === undefined || step < -1 || text === undefined || reasoning === undefined || files === undefined)
    return undefined
  try {
    return {
      turnId: decodeURIComponent(turnId),
      step,
      text,
      reasoning,
      files,
      begun: parseIds(begun),
      ended: parseIds(ended),
      asked: parseIds(asked),
      isOver: over === "over"
    }
  } catch {
    // The text has an invalid escape.
    return undefined
  }
}

/** Events that are repeated from the record. */
const repeated: ReadonlySet<RunEvent["_tag"]> = new Set([
  "RunStarted",
  "StepStarted",
  "ReasoningDelta",
  "TextDelta",
  "TextReplaced",
  "ToolStarted",
  "ToolFinished",
  "FileChanged",
  "QuestionAsked",
  "RunFinished"
])

/** Tests whether an event describes only a moment, and is not repeated from the record. */
export const isMomentary = ({ _tag }: RunEvent): boolean => !repeated.has(_tag)

/** Removes the events before a position from the events of a run. */
export interface RestOfRun {
  /** Takes the next event, in order, and returns the events that the reader has not seen. */
  readonly take: (event: RunEvent) => ReadonlyArray<RunEvent>
  /** Returns the position of the reader. */
  readonly position: () => RunPosition
}

type TextEvent = Extract<RunEvent, { readonly _tag: "ReasoningDelta" | "TextDelta" }>
type ReplacedText = Extract<RunEvent, { readonly _tag: "TextReplaced" }>

/** Returns the part of a text that follows the seen one; `undefined` if it begins differently or is shorter. */
const cutSeen = (text: string, seen: SeenText): string | undefined =>
  text.length >= seen.length && isSame(addText(unseen, text.slice(0, seen.length)), seen)
    ? text.slice(seen.length)
    : undefined

const makeDelta = (_tag: TextEvent["_tag"], text: string): ReadonlyArray<RunEvent> =>
  text === "" ? [] : [{ _tag, text }]

/** Compares the texts of the step in which a reader left with the seen ones. */
interface TextComparison {
  readonly take: (event: TextEvent) => ReadonlyArray<RunEvent>
  readonly replace: (event: ReplacedText) => ReadonlyArray<RunEvent>
  /** Handles a text that is shorter than the seen one, when the text of the step is over. */
  readonly end: () => ReadonlyArray<RunEvent>
}

const compareTexts = (seen: RunPosition): TextComparison => {
  const texts = {
    TextDelta: { text: "", isMatched: seen.text.length === 0 },
    ReasoningDelta: { text: "", isMatched: seen.reasoning.length === 0 }
  }
  const { TextDelta: shown } = texts
  const replaceWhole = (): ReadonlyArray<RunEvent> => [{ _tag: "TextReplaced", stepId: seen.step, text: shown.text }]
  const takeText: TextComparison["take"] = ({ _tag, text }) => {
    const compared = texts[_tag]
    if (compared.isMatched) return makeDelta(_tag, text)
    compared.text += text
    const before = _tag === "TextDelta" ? seen.text : seen.reasoning
    if (compared.text.length < before.length) return []
    compared.isMatched = true
    const rest = cutSeen(compared.text, before)
    if (rest !== undefined) return makeDelta(_tag, rest)
    return _tag === "TextDelta" ? replaceWhole() : makeDelta(_tag, compared.text.slice(before.length))
  }
  return {
    take: takeText,
    replace: (event) => {
      if (shown.isMatched && !isSame(addText(unseen, event.text), seen.text)) return [event]
      shown.text = ""
      shown.isMatched = false
      const rest = takeText({ _tag: "TextDelta", text: event.text })
      return rest[0]?._tag === "TextReplaced" ? [event] : rest
    },
    end: () => {
      if (shown.isMatched || shown.text === "") return []
      shown.isMatched = true
      return replaceWhole()
    }
  }
}

/**
 * Makes the filter for a reader that has seen the events up to `seen`. The events come from the start of the run, or
 * from the start of the step `from`.
 */
export const makeRest = (seen: RunPosition, from: number = -1): RestOfRun => {
  let step = from
  let files = 0
  let isCaughtUp = seen.step < 0
  let position = seen
  const texts = compareTexts(seen)
  const ended = new Set(seen.ended)
  const begun = new Set([...seen.begun, ...seen.ended])
  const hasBegun = (callId: string): boolean => begun.has(shortenId(callId))

  /** Takes an event of the step in which the reader left. */
  const takeSameStep = (event: RunEvent): ReadonlyArray<RunEvent> => {
    switch (event._tag) {
      case "TextDelta":
      case "ReasoningDelta":
        return texts.take(event)
      case "TextReplaced":
        return texts.replace(event)
      case "ToolStarted":
        return [...texts.end(), ...(hasBegun(event.callId) ? [] : [event])]
      case "ToolFinished":
        return ended.has(shortenId(event.callId)) ? [] : [event]
      case "FileChanged":
        return ++files > seen.files ? [event] : []
      case "QuestionAsked":
        return seen.asked.includes(shortenId(event.question.id)) ? [] : [event]
      case "RunFinished":
        return [...texts.end(), ...(seen.isOver ? [] : [event])]
      case "RunStarted":
      case "StepStarted":
        return []
      default:
        return isCaughtUp ? [event] : []
    }
  }

  const selectRest = (event: RunEvent): ReadonlyArray<RunEvent> => {
    const left = event._tag === "StepStarted" && step === seen.step ? texts.end() : []
    if (event._tag === "RunStarted") step = 0
    if (event._tag === "StepStarted") step = event.step
    if (step < seen.step) return []
    return [...left, ...(step > seen.step ? [event] : takeSameStep(event))]
  }

  return {
    take: (event) => {
      const events = selectRest(event)
      if (events.length > 0) isCaughtUp = true
      for (const one of events) position = advancePosition(position, one)
      return events
    },
    position: () => position
  }
}
