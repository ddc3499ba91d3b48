/**
 * Output of one run on a screen: the text of its answer, its reasoning, and lines between them, separated by blank
 * lines. The state is a value. Each function writes output and updates the state.
 *
 * Answer text may be replaced. Text that is still on the terminal, with no other output below it, is erased. Otherwise
 * a line reports the change and the new text follows. In a pipe, text is written when its step is final.
 */
import * as Redaction from "../../../base/domain/Redaction.ts"
import type * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import * as RunText from "./RunText.ts"
import * as SafeText from "./SafeText.ts"
import type * as Screen from "./Screen.ts"
import * as Width from "./Width.ts"

/** Display options of the output. */
export interface Look {
  readonly markdown: Markdown.Mode
  readonly showReasoning: boolean
}

/** Kind of the last output. */
type Kind = "nothing" | "text" | "reasoning" | "feed"

/** Position at which the text of a step begins, and the kind of output before it. */
interface StepPlace {
  readonly mark: Screen.Mark
  readonly kind: Kind
}

/** The answer, divided into steps. */
interface AnswerText {
  /** Text shown so far, as written by the model. */
  shown: string
  /** Text of the current step, held until it is final if written text cannot be erased. */
  pending: string
  step: number
  /** Length of the answer at the start of each step. */
  readonly starts: Map<number, number>
  /** Position of each step; `undefined` if other output was written since. */
  readonly places: Map<number, StepPlace | undefined>
}

/** Text or reasoning that may still grow. */
interface OpenOutput {
  kind: Kind
  text: Markdown.Renderer | undefined
  reasoning: RunText.ReasoningText | undefined
  /** Lines from the program that are held because they would interrupt text that is being written. */
  notes: ReadonlyArray<string>
}

/** Output of one run. */
export interface AnswerOutput {
  readonly screen: Screen.Screen
  readonly look: Look
  readonly answer: AnswerText
  readonly open: OpenOutput
  /** Factory of Markdown renderers, loaded before the first text. */
  makeRenderer: Markdown.Make | undefined
}

/** Creates an output without text. */
export const makeOutput = (screen: Screen.Screen, look: Look): AnswerOutput => ({
  screen,
  look,
  answer: { shown: "", pending: "", step: 0, starts: new Map(), places: new Map() },
  open: { kind: "nothing", text: undefined, reasoning: undefined, notes: [] },
  makeRenderer: undefined
})

/** Returns true if text is being written or held. */
const hasOpenText = ({ answer, open }: AnswerOutput): boolean => open.text !== undefined || answer.pending !== ""

/** Writes a blank line between output of different kinds, if both are visible. */
const beginKind = ({ answer, open, screen }: AnswerOutput, next: Kind): void => {
  if (open.kind === next) return
  const before = open.kind
  open.kind = next
  if (before === "nothing") return
  if (next === "text") screen.print(screen.joined || answer.shown.trim() !== "" ? "\n" : "")
  else if (screen.joined) screen.say("\n")
}

const printText = (output: AnswerOutput, piece: string): void => {
  if (piece === "") return
  beginKind(output, "text")
  output.screen.print(piece)
}

/** Ends the open text, and writes the lines held until its end. */
export const closeText = (output: AnswerOutput): void => {
  const { notes, text } = output.open
  output.open.text = undefined
  output.open.notes = []
  if (text !== undefined) printText(output, text.end())
  printLines(output, notes)
}

const closeReasoning = ({ open, screen }: AnswerOutput): void => {
  const { reasoning } = open
  open.reasoning = undefined
  if (reasoning !== undefined) screen.say(reasoning.end())
}

/** Adds a piece to the answer. */
const printDelta = (output: AnswerOutput, delta: string): void => {
  if (delta === "") return
  const { answer, look, open, screen } = output
  closeReasoning(output)
  if (!answer.places.has(answer.step)) {
    const mark = screen.mark()
    answer.places.set(answer.step, mark === undefined ? undefined : { mark, kind: open.kind })
  }
  if (open.text === undefined) {
    if (output.makeRenderer === undefined) return
    open.text = output.makeRenderer({ mode: look.markdown, paint: screen.answerPaint, columns: screen.answerColumns })
    if (answer.shown !== "" && open.kind === "text") open.kind = "feed"
  }
  printText(output, open.text.push(delta))
  answer.shown += delta
}

/** Adds a piece to the answer; in a pipe, it is held until the step is final. */
export const addText = (output: AnswerOutput, piece: string): void => {
  if (output.screen.answerColumns() === undefined) output.answer.pending += piece
  else printDelta(output, piece)
}

/** Writes the text that was held until it was final. */
export const printPending = (output: AnswerOutput): void => {
  const { pending } = output.answer
  output.answer.pending = ""
  printDelta(output, pending)
}

/** Begins the text of a step. */
export const beginStep = (output: AnswerOutput, step: number): void => {
  printPending(output)
  closeText(output)
  output.answer.step = step
  output.answer.starts.set(step, output.answer.shown.length)
}

/** Writes lines between parts of the answer. Text above the lines can no longer be erased. */
export const printLines = (output: AnswerOutput, lines: ReadonlyArray<string>): void => {
  if (lines.length === 0) return
  closeText(output)
  closeReasoning(output)
  for (const id of output.answer.places.keys()) output.answer.places.set(id, undefined)
  beginKind(output, "feed")
  output.screen.say(lines.map((line) => `${line}\n`).join(""))
}

/** Writes a line like {@link printLines}, but waits for the end of text that is being written. */
export const printNote = (output: AnswerOutput, line: string): void => {
  if (hasOpenText(output)) output.open.notes = [...output.open.notes, line]
  else printLines(output, [line])
}

/** Writes a line about the run, sanitised, without secrets, and no wider than the terminal. */
export const printAside = (output: AnswerOutput, line: string, attribute: "dim" | "yellow"): void => {
  const { open, screen } = output
  const columns = screen.asideColumns()
  const all = Redaction.redactText(SafeText.toLine(line))
  const painted = screen.asidePaint.text(columns === undefined ? all : Width.cut(all, columns), attribute)
  // The text may continue, because a connection that is lost in the middle of it does not end it.
  if (!hasOpenText(output)) printLines(output, [painted])
  else if (screen.joined) open.notes = [...open.notes, painted]
  else screen.say(`${painted}\n`)
}

/** Writes a piece of the reasoning, if it is shown. */
export const printReasoning = (output: AnswerOutput, delta: string): void => {
  const { look, open, screen } = output
  if (!look.showReasoning) return
  closeText(output)
  open.reasoning ??= RunText.makeReasoningText(screen.asidePaint, screen.asideColumns)
  const piece = open.reasoning.push(delta)
  if (piece === "") return
  beginKind(output, "reasoning")
  screen.say(piece)
}

/** Erases the text of a step and of later steps. Returns false if that is not possible. */
const tryTakeBack = ({ open, screen }: AnswerOutput, place: StepPlace | undefined): boolean => {
  if (place === undefined) return false
  const { text } = open
  open.text = undefined
  if (!screen.takeBack(place.mark)) {
    open.text = text
    return false
  }
  open.kind = place.kind
  return true
}

/** Replaces the text of a step and of later steps. */
export const replaceText = (output: AnswerOutput, step: number, text: string): void => {
  const { answer, open, screen } = output
  const start = answer.starts.get(step) ?? 0
  if (screen.answerColumns() === undefined && start >= answer.shown.length) {
    answer.pending = text
    return
  }
  const waiting = open.notes
  open.notes = []
  const before = answer.shown
  answer.shown = before.slice(0, start)
  if (tryTakeBack(output, answer.places.get(step))) {
    for (const later of answer.places.keys()) if (later >= step) answer.places.delete(later)
  } else if (before.slice(start).trim() !== "") {
    open.text = undefined
    screen.endLine()
    printAside(output, text === "" ? "The answer above was retracted." : "The answer was changed:", "dim")
  }
  printDelta(output, text)
  open.notes = [...waiting, ...open.notes]
  if (open.text === undefined) closeText(output)
}

const removeWhitespace = (value: string): string => value.replaceAll(/\s+/g, "")

/** Writes the final text of the run, unless the answer already ends with it. */
export const finishText = (output: AnswerOutput, text: string, isLive: boolean): void => {
  printPending(output)
  closeText(output)
  if (text.trim() === "" || removeWhitespace(output.answer.shown).endsWith(removeWhitespace(text))) return
  if (output.answer.shown !== "" && isLive) printAside(output, "The answer was changed:", "dim")
  printDelta(output, text)
  closeText(output)
}

/** Writes all held output, and ends the line. */
export const closeOutput = (output: AnswerOutput): void => {
  printPending(output)
  closeText(output)
  closeReasoning(output)
}

/** Renders the lines of the block that is still being written, up to the available rows. */
export const renderDraft = (
  { answer, open, screen }: AnswerOutput,
  { columns, rows }: Screen.Size
): ReadonlyArray<string> => {
  const draft = screen.answerColumns() === undefined ? "" : (open.text?.open() ?? "")
  if (draft === "") return []
  const lines = draft
    .split("\n")
    .slice(0, -1)
    .map((line) => (Width.measure(Paint.strip(line)) < columns ? line : Width.cut(Paint.strip(line), columns - 1)))
  const isApart = open.kind !== "text" && open.kind !== "nothing" && (screen.joined || answer.shown.trim() !== "")
  return [...(isApart ? [""] : []), ...lines].slice(-rows)
}

/** Returns true if an empty line separates live lines from the output above them. */
export const isLiveApart = ({ open }: AnswerOutput): boolean =>
  (open.kind === "text" && open.text === undefined) || (open.kind === "reasoning" && open.reasoning === undefined)
