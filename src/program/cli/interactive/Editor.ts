/**
 * The editor for typed text of one or more lines, and the effect of each key. Pure: a state and a key produce a new
 * state and an action.
 *
 * The keys follow readline's Emacs mode. Enter sends; Alt+Enter, Shift+Enter if the terminal reports it, Ctrl+J, and
 * Enter after a backslash start a new line. Up and down move through the lines and, from the first and the last line,
 * through the history. The cursor is never inside a grapheme. A long paste is folded (`Pastes`), and counts as one
 * character for movement and deletion.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as SafeText from "../render/SafeText.ts"
import type { Lines, Size } from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import type { Key } from "./Keys.ts"
import * as Pastes from "./Pastes.ts"

/** Typed text. */
export interface State {
  readonly text: string
  /** Offset of the cursor. */
  readonly cursor: number
  /** Text cut last, for Ctrl+Y. */
  readonly killed: string
  /** Index of the shown history line, counted from the newest; 0 for the typed text. */
  readonly back: number
  /** Text that was typed before the user moved through the history. */
  readonly draft: string
  /** Folded pastes, by the numbers of their marks. */
  readonly pastes: ReadonlyArray<string>
}

/** Action of a key other than editing the text. */
export type Action =
  /** `pastes` is set if the text contains paste marks. */
  | { readonly _tag: "Submit"; readonly text: string; readonly pastes?: ReadonlyArray<string> }
  /** A paste that is too large, with its length in characters. */
  | { readonly _tag: "TooLarge"; readonly characters: number }
  | { readonly _tag: Request }

/** Requests of keys that do not edit the text. */
type Request =
  | "Leave"
  | "Interrupt"
  | "Escape"
  | "Suspend"
  | "ClearScreen"
  | "Complete"
  | "OpenEditor"
  | "OpenTranscript"
  | "PastePicture"
  | "SearchHistory"
  | "None"

/** Result of pressing a key. */
export interface KeyResult {
  readonly state: State
  readonly action: Action
}

/** Editor state without text. */
export const empty: State = { text: "", cursor: 0, killed: "", back: 0, draft: "", pastes: [] }

const none: Action = { _tag: "None" }

/** Maximum number of code units that are examined to find one grapheme. */
const reach = 64

const findPreviousCursor = ({ cursor, pastes, text }: State): number => {
  const mark = Pastes.measureMark(text, cursor, "before", pastes)
  if (mark > 0) return cursor - mark
  const found = Array.from(Width.splitGraphemes(text.slice(Math.max(0, cursor - reach), cursor)))
  return cursor - (found.at(-1)?.text.length ?? 0)
}

const findNextCursor = ({ cursor, pastes, text }: State): number => {
  const mark = Pastes.measureMark(text, cursor, "after", pastes)
  if (mark > 0) return cursor + mark
  const [first] = Width.splitGraphemes(text.slice(cursor, cursor + reach))
  return cursor + (first?.text.length ?? 0)
}

/**
 * Word boundaries are also grapheme boundaries: a combining mark belongs to its letter, although it is not a letter
 * itself.
 */
const snapBackward = (state: State, wanted: number): number => {
  let cursor = state.cursor
  while (cursor > wanted) cursor = findPreviousCursor({ ...state, cursor })
  return cursor
}

const snapForward = (state: State, wanted: number): number => {
  let cursor = state.cursor
  while (cursor < wanted) cursor = findNextCursor({ ...state, cursor })
  return cursor
}

const findWordBefore = (state: State): number =>
  snapBackward(
    state,
    state.cursor -
      (/[\p{L}\p{N}\p{M}_]*[^\p{L}\p{N}\p{M}_]*$/u.exec(state.text.slice(0, state.cursor))?.[0].length ?? 0)
  )

const findWordAfter = (state: State): number =>
  snapForward(
    state,
    state.cursor + (/^[^\p{L}\p{N}\p{M}_]*[\p{L}\p{N}\p{M}_]*/u.exec(state.text.slice(state.cursor))?.[0].length ?? 0)
  )

const findBlankWordBefore = (state: State): number =>
  snapBackward(state, state.cursor - (/\S*\s*$/u.exec(state.text.slice(0, state.cursor))?.[0].length ?? 0))

const findLineStart = ({ cursor, text }: State): number => text.slice(0, cursor).lastIndexOf("\n") + 1

const findLineEnd = ({ cursor, text }: State): number => {
  const end = text.indexOf("\n", cursor)
  return end < 0 ? text.length : end
}

const moveCursor = (state: State, cursor: number): State => ({ ...state, cursor })

/** Replaces a part of the text, and places the cursor after the new part. */
const replaceText = (state: State, from: number, to: number, text: string): State => ({
  ...state,
  text: state.text.slice(0, from) + text + state.text.slice(to),
  cursor: from + text.length,
  back: 0
})

const insertText = (state: State, text: string): State => replaceText(state, state.cursor, state.cursor, text)

const killText = (state: State, from: number, to: number): State =>
  from === to ? state : { ...replaceText(state, from, to, ""), killed: state.text.slice(from, to) }

/** Returns the state with another text and the cursor at its end. */
export const withText = (state: State, text: string): State => ({ ...state, text, cursor: text.length })

const showHistory = (state: State, back: number, history: ReadonlyArray<string>): State => {
  const draft = state.back === 0 ? state.text : state.draft
  const text = back === 0 ? draft : history[history.length - back]
  return text === undefined ? state : { ...withText(state, text), back, draft }
}

/** Returns the cursor position in the line above or below. */
const moveVertically = (state: State, start: number): State => {
  const column = Width.measure(state.text.slice(findLineStart(state), state.cursor))
  const line = state.text.slice(start, findLineEnd(moveCursor(state, start)))
  return moveCursor(state, start + Width.split(line, column)[0].length)
}

const moveUp = (state: State, history: ReadonlyArray<string>): State => {
  const start = findLineStart(state)
  return start === 0
    ? showHistory(state, state.back + 1, history)
    : moveVertically(state, findLineStart(moveCursor(state, start - 1)))
}

const moveDown = (state: State, history: ReadonlyArray<string>): State => {
  const end = findLineEnd(state)
  if (end < state.text.length) return moveVertically(state, end + 1)
  return state.back === 0 ? state : showHistory(state, state.back - 1, history)
}

/** Returns true if an unescaped backslash precedes the cursor. */
const isContinued = ({ cursor, text }: State): boolean => {
  const slashes = /\\*$/.exec(text.slice(0, cursor))?.[0].length ?? 0
  return cursor === text.length && slashes % 2 === 1
}

const pressEnter = (state: State): KeyResult =>
  isContinued(state)
    ? { state: replaceText(state, state.cursor - 1, state.cursor, "\n"), action: none }
    : {
        state: { ...empty, killed: state.killed },
        action: { _tag: "Submit", text: state.text, ...(state.pastes.length === 0 ? {} : { pastes: state.pastes }) }
      }

const transposeCharacters = (state: State): State => {
  const to = state.cursor === state.text.length ? state.cursor : findNextCursor(state)
  const middle = findPreviousCursor(moveCursor(state, to))
  const from = findPreviousCursor(moveCursor(state, middle))
  return from === middle || middle === to
    ? state
    : replaceText(state, from, to, state.text.slice(middle, to) + state.text.slice(from, middle))
}

type Edit = (state: State, history: ReadonlyArray<string>) => State

const edits: Readonly<Record<string, Edit>> = {
  left: (state) => moveCursor(state, findPreviousCursor(state)),
  right: (state) => moveCursor(state, findNextCursor(state)),
  "alt-b": (state) => moveCursor(state, findWordBefore(state)),
  "alt-f": (state) => moveCursor(state, findWordAfter(state)),
  home: (state) => moveCursor(state, findLineStart(state)),
  end: (state) => moveCursor(state, findLineEnd(state)),
  "ctrl-home": (state) => moveCursor(state, 0),
  "ctrl-end": (state) => moveCursor(state, state.text.length),
  up: moveUp,
  down: moveDown,
  "ctrl-p": (state, history) => showHistory(state, state.back + 1, history),
  "ctrl-n": (state, history) => (state.back === 0 ? state : showHistory(state, state.back - 1, history)),
  backspace: (state) => replaceText(state, findPreviousCursor(state), state.cursor, ""),
  delete: (state) => ({ ...replaceText(state, state.cursor, findNextCursor(state), ""), cursor: state.cursor }),
  "ctrl-w": (state) => killText(state, findBlankWordBefore(state), state.cursor),
  "alt-backspace": (state) => killText(state, findWordBefore(state), state.cursor),
  "alt-d": (state) => killText(state, state.cursor, findWordAfter(state)),
  "ctrl-u": (state) => killText(state, findLineStart(state), state.cursor),
  "ctrl-k": (state) => killText(state, state.cursor, findLineEnd(state)),
  "ctrl-y": (state) => insertText(state, state.killed),
  "ctrl-t": transposeCharacters,
  "alt-enter": (state) => insertText(state, "\n")
}

const aliases: Readonly<Record<string, string>> = {
  "ctrl-b": "left",
  "ctrl-f": "right",
  "ctrl-left": "alt-b",
  "alt-left": "alt-b",
  "ctrl-right": "alt-f",
  "alt-right": "alt-f",
  "ctrl-a": "home",
  "ctrl-e": "end",
  "alt-<": "ctrl-home",
  "alt->": "ctrl-end",
  "ctrl-h": "backspace",
  "ctrl-backspace": "ctrl-w",
  "alt-ctrl-h": "alt-backspace",
  "ctrl-delete": "alt-d",
  "alt-delete": "alt-d",
  "ctrl-j": "alt-enter",
  "alt-ctrl-j": "alt-enter",
  "shift-enter": "alt-enter",
  "ctrl-enter": "alt-enter",
  "ctrl-shift-enter": "alt-enter",
  "alt-shift-enter": "alt-enter"
}

const requests: Readonly<Record<string, Request>> = {
  "ctrl-c": "Interrupt",
  escape: "Escape",
  "ctrl-g": "OpenEditor",
  "ctrl-o": "OpenTranscript",
  "ctrl-r": "SearchHistory",
  "ctrl-v": "PastePicture",
  "ctrl-z": "Suspend",
  "ctrl-l": "ClearScreen",
  tab: "Complete"
}

const applyNamedKey = (state: State, name: string, history: ReadonlyArray<string>): KeyResult => {
  if (name === "enter") return pressEnter(state)
  if (name === "ctrl-d") {
    return state.text === "" ? { state, action: { _tag: "Leave" } } : applyNamedKey(state, "delete", history)
  }
  const edit = edits[aliases[name] ?? name]
  const request = requests[name]
  if (request !== undefined) return { state, action: { _tag: request } }
  return { state: edit === undefined ? state : edit(state, history), action: none }
}

/** Returns the state after a key that edits the text or moves the cursor. */
export const press = (state: State, name: string, history: ReadonlyArray<string> = []): State =>
  applyNamedKey(state, name, history).state

/** Converts pasted or typed input to text, with the editor's line ends and without control sequences. */
const cleanInput = (text: string): string => SafeText.sanitise(text.replaceAll("\r\n", "\n").replaceAll("\r", "\n"))

/** Applies a key. `history` contains the lines sent before, newest last. */
export const apply = (state: State, key: Key, history: ReadonlyArray<string>): KeyResult => {
  switch (key._tag) {
    case "Text":
      return { state: insertText(state, cleanInput(key.text)), action: none }
    case "Paste": {
      if (key.text.length > Pastes.mostCharacters)
        return { state, action: { _tag: "TooLarge", characters: key.text.length } }
      const { pastes, text } = Pastes.fold(state.pastes, cleanInput(key.text))
      return { state: { ...insertText(state, text), pastes }, action: none }
    }
    case "Key":
      return applyNamedKey(state, key.name, history)
  }
}

/** Appearance of the editor. */
interface Look {
  /** Painted text before the first line. */
  readonly prompt: string
  /** Width of the prompt in columns; the following lines are indented by the same width. */
  readonly indent: number
  /** Painted lines below the text, no wider than the terminal. */
  readonly below: ReadonlyArray<string>
}

const tab = "    "

interface Row {
  readonly text: string
  /** Offset of the row's start in the typed text. */
  readonly from: number
}

/** Breaks one line of the text into rows. */
const breakRows = (line: string, from: number, columns: number): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let text = ""
  let width = 0
  let begin = from
  let at = from
  for (const grapheme of Width.splitGraphemes(line)) {
    const shown = grapheme.text === "\t" ? tab : grapheme.text
    const getColumns = grapheme.text === "\t" ? tab.length : grapheme.width
    if (width + getColumns > columns) {
      rows.push({ text, from: begin })
      text = ""
      width = 0
      begin = at
    }
    text += shown
    width += getColumns
    at += grapheme.text.length
  }
  rows.push({ text, from: begin })
  // After a full row the cursor is on the next row.
  return width >= columns ? [...rows, { text: "", from: at }] : rows
}

/** Renders the text with the rows around the cursor that fit the terminal. */
export const render = (state: State, look: Look, { columns, rows }: Size): Lines => {
  const room = Math.max(4, columns - look.indent - 1)
  const all: Array<Row> = []
  let from = 0
  for (const line of state.text.split("\n")) {
    all.push(...breakRows(line, from, room))
    from += line.length + 1
  }
  const row = Math.max(
    0,
    all.findLastIndex((candidate) => candidate.from <= state.cursor)
  )
  const current = all[row]
  const typed = state.text.slice(current?.from ?? 0, state.cursor)
  const column = look.indent + Width.measure(typed.replaceAll("\t", tab))

  const most = Math.max(1, rows - 1 - look.below.length)
  const first = Math.max(0, Math.min(row - (most >> 1), all.length - most))
  const shown = all.slice(first, first + most)
  const lines = shown.map(({ text }, index) => (first + index === 0 ? look.prompt : " ".repeat(look.indent)) + text)
  return { lines: [...lines, ...look.below], cursor: { row: row - first, column } }
}
