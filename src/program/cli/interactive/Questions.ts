/**
 * Questions that a tool asks the user while the agent works, one at a time.
 *
 * A question is a block of the session, shown in full regardless of its length; its choices are shown below it until it
 * is answered. An answer is the number of a choice, several numbers if several choices are allowed, or free text. Text
 * that was being typed when the question appeared is restored afterwards. A question whose run is stopped no longer
 * needs an answer.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { redactText } from "../../../base/domain/Redaction.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import type { Answer, HostEvent } from "../../../serve/host/HostEvent.ts"
import type { Question } from "../../../tools/builtin/Clarifier.ts"
import * as SafeText from "../render/SafeText.ts"
import { type Paint, plainStyle } from "../render/Paint.ts"
import * as Wrap from "../render/Wrap.ts"
import * as ApprovalQuestion from "./ApprovalQuestion.ts"
import * as Dialog from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import type * as Keys from "./Keys.ts"

/** An open question. */
export interface Pending {
  readonly id: string
  /** The question and its choices without secrets, as shown. */
  readonly shown: Question
  /** Line below the choices that describes the possible input. */
  readonly hint: string
  /** Command or call in question, without secrets. */
  readonly subject: string | undefined
  /** Position of the choice that the arrow keys marked; `undefined` before an arrow key is pressed. */
  marked: number | undefined
  /** Time at which the question was first shown. */
  readonly shownAt: number
  /** Text typed as its answer. */
  editor: Editor.State
  /** Converts choices or free text to an answer. */
  readonly parseAnswer: (answers: ReadonlyArray<string>) => Answer
}

/** Writes the file of a standing approval with `~` for the user's home directory. */
const abbreviateFile = (label: string, home: string | undefined): string =>
  home === undefined ? label : label.replace(`(permissions.allow in ${home}/`, "(permissions.allow in ~/")

/** Creates the open question that is shown from now on. */
const makePending = Effect.fnUntraced(function* (
  open: Dialog.TurnQuestion,
  { about, terminal }: Pick<Dialog.InteractiveOptions, "about" | "terminal">
): Effect.fn.Return<Pending> {
  // A linear terminal reads lines, without a mark to move.
  const arrows = terminal.isLinear ? "" : "↑↓ and Enter, "
  const secrets = yield* Secrets
  const shownAt = yield* Clock.currentTimeMillis
  if (open._tag === "Clarification") {
    const toAnswer = (answers: ReadonlyArray<string>): Answer => ({ _tag: "Clarification", answers })
    return {
      id: open.id,
      shown: open.question,
      hint: formatHint(open.question, arrows),
      subject: undefined,
      marked: undefined,
      shownAt,
      editor: Editor.empty,
      parseAnswer: toAnswer
    }
  }
  const { choices, read, subject, title } = ApprovalQuestion.toApprovalText(open.question)
  const shownChoices = choices.map((choice) => abbreviateFile(redactText(choice, secrets), about.userHome))
  return {
    id: open.id,
    shown: { question: redactText(title, secrets), choices: shownChoices, multiple: false },
    hint: `${arrows}${formatNumbers(choices.length)}, y, n, or type a reason to refuse`,
    subject: redactText(subject, secrets),
    marked: undefined,
    shownAt,
    editor: Editor.empty,
    parseAnswer: ([answer = ""]) => ({ _tag: "Approval", reply: read(choices[shownChoices.indexOf(answer)] ?? answer) })
  }
})

/** Processes an asked or withdrawn question, and shows the question that is now current. */
export const followQuestion = Effect.fnUntraced(function* (dialog: Dialog.Dialog, event: HostEvent) {
  if (event._tag === "QuestionAsked" && event.question._tag !== "Plan")
    dialog.questions = [...dialog.questions, event.question]
  if (event._tag === "QuestionClosed") dialog.questions = dialog.questions.filter(({ id }) => id !== event.id)
  const [first] = dialog.questions
  if (first?.id === dialog.asked?.id) return
  dialog.asked = first === undefined ? undefined : yield* makePending(first, dialog.options)
  const { screen } = dialog
  if (dialog.asked === undefined) return screen.refresh()
  const diff = first?._tag === "Approval" ? first.question.preview : undefined
  const { shown, subject } = dialog.asked
  dialog.feed.put({ _tag: "Question", text: shown.question, subject, diff })
  // Choices are live lines, which a linear terminal does not show, so they are printed.
  if (dialog.options.terminal.isLinear)
    for (const line of renderChoices(dialog.asked, screen.size().columns, screen.asidePaint))
      Dialog.showNote(dialog, line)
})

/** Formats the range of choice numbers for the hint: `1–4`. */
const formatNumbers = (count: number): string => (count === 1 ? "1" : `1–${count}`)

const formatHint = ({ choices, multiple }: Question, arrows: string): string =>
  choices.length === 0
    ? "Type your answer"
    : `${arrows}${formatNumbers(choices.length)}${multiple ? ", several separated by commas" : ""}, ` +
      "or type your own answer"

/** Parses a typed line as an answer; returns `undefined` for an empty line. */
export const readAnswer = ({ choices, multiple }: Question, line: string): ReadonlyArray<string> | undefined => {
  const words = line.trim()
  if (words === "") return undefined
  const numbers = /^\d+(?:[\s,]+\d+)*$/.test(words) ? words.split(/[\s,]+/).map(Number) : []
  const chosen = numbers.map((number) => choices[number - 1]).filter((choice) => choice !== undefined)
  const isChoice = numbers.length > 0 && chosen.length === numbers.length && (multiple || numbers.length === 1)
  return isChoice ? [...new Set(chosen)] : [words]
}

/** Prefixes each line of the text with a mark and wraps it to the width. */
const prefixLines = (
  mark: string,
  indent: number,
  text: string,
  columns: number,
  paint: Paint
): ReadonlyArray<string> => {
  const room = Math.max(20, columns - indent - 1)
  const lines = SafeText.sanitise(text)
    .trim()
    .split("\n")
    .flatMap((line) => Wrap.wrapLines([{ text: line, style: plainStyle }], room, paint))
  return lines.map((line, index) => (index === 0 ? mark : " ".repeat(indent)) + line)
}

/**
 * Moves the mark of the choices if an arrow key is pressed before anything is typed. Returns false for every other key.
 * No choice is marked before that, so that Enter alone never answers a question.
 */
export const moveMark = (pending: Pending, key: Keys.Key): boolean => {
  const name = key._tag === "Key" ? key.name : ""
  const { length } = pending.shown.choices
  if (length === 0 || pending.editor.text !== "" || (name !== "up" && name !== "down")) return false
  const from = pending.marked ?? (name === "down" ? -1 : length)
  pending.marked = (from + (name === "down" ? 1 : length - 1)) % length
  return true
}

/** Returns the line that Enter submits: the typed text, or the number of the marked choice. */
export const readSubmitted = ({ marked }: Pending, line: string): string =>
  line.trim() === "" && marked !== undefined ? String(marked + 1) : line

/** Renders the choices of a question and the hint below them. */
export const renderChoices = (
  { editor, hint, marked, shown }: Pick<Pending, "editor" | "hint" | "marked" | "shown">,
  columns: number,
  paint: Paint
): ReadonlyArray<string> => [
  ...shown.choices.flatMap((choice, index) => {
    const sign = index === marked && editor.text === "" ? paint.text("❯", "bold", "cyan") : " "
    return prefixLines(`${sign} ${paint.text(String(index + 1), "cyan")} `, 4, SafeText.toLine(choice), columns, paint)
  }),
  ...Wrap.wrapLines([{ text: hint, style: { attributes: ["dim"] } }], Math.max(8, columns - 3), paint).map(
    (line) => `  ${line}`
  )
]
