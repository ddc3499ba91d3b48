/**
 * Wraps lines between words while the text is still arriving. Each word is returned as soon as it is known to be
 * complete.
 *
 * Lines break at spaces and tabs, which are dropped there, and next to wide characters, which are written without
 * spaces. Closing punctuation never begins a line. A word that is too long for a line starts a new line and either
 * overflows it, so that the terminal wraps it and it can still be copied (`longWords: "overflow"`), or is divided
 * (`"cut"`).
 *
 * The output does not depend on the chunk boundaries of the text.
 */
import type { Paint, Span, Style } from "./Paint.ts"
import * as Width from "./Width.ts"

/** Layout of a line of text. */
interface Layout {
  /** Maximum width in columns, including the indentation; `Infinity` for no wrapping. */
  readonly columns: number
  /** Painted prefix of the first line. */
  readonly first: string
  /** Painted prefix of the following lines. */
  readonly rest: string
  /** Width of `first` and `rest` in columns. */
  readonly indent: number
  readonly longWords: "overflow" | "cut"
}

/** A line that is still growing. Each call returns the text that can be written now. */
export interface Wrap {
  readonly add: (span: Span) => string
  readonly end: () => string
}

const closing = /^[\p{Pe}\p{Pf}、。，．：；！？・ー々〜…‥％]/u

interface Unit extends Width.Grapheme {
  readonly style: Style
}

const measureUnits = (units: ReadonlyArray<Unit>): number => units.reduce((sum, { width }) => sum + width, 0)

/** Paints units, combining adjacent units of the same style. */
const paintUnits = (paint: Paint, units: ReadonlyArray<Unit>): string => {
  let out = ""
  let text = ""
  let style: Style | undefined
  for (const unit of units) {
    if (style !== undefined && unit.style !== style) {
      out += paint.span(text, style)
      text = ""
    }
    style = unit.style
    text += unit.text
  }
  return style === undefined ? out : out + paint.span(text, style)
}

/** Returns true if a space in this style is visible. A link has no gaps. */
const isVisible = ({ attributes, link }: Style): boolean =>
  link !== undefined || attributes.includes("underline") || attributes.includes("strike")

const breaksBetween = (a: Unit, b: Unit): boolean => (a.width > 1 || b.width > 1) && !closing.test(b.text)

/** The current line. */
interface WrittenLine {
  /** Output since the last call. */
  out: string
  column: number
  /** Space before the next word. */
  space: string
  /** Style at the end of the last word. */
  before: Style | undefined
}

/** The incomplete word. */
interface OpenWord {
  /** Pieces of one style. */
  pieces: Array<{ text: string; readonly style: Style }>
  isAscii: boolean
  /** True while a word that overflows the line is being written. */
  isOverflowing: boolean
}

interface WrapState {
  readonly layout: Layout
  readonly paint: Paint
  /** Columns for text. */
  readonly room: number
  readonly line: WrittenLine
  readonly word: OpenWord
}

const startLine = (wrap: WrapState): void => {
  wrap.line.out += `\n${wrap.layout.rest}`
  wrap.line.column = 0
  wrap.line.space = ""
}

const putUnits = (wrap: WrapState, units: ReadonlyArray<Unit>, width: number): void => {
  const { line, paint } = wrap
  const style = units[0]?.style
  line.column += measureSpace(wrap) + width
  line.out +=
    style !== undefined && style === line.before && isVisible(style) ? paint.span(line.space, style) : line.space
  line.out += paintUnits(paint, units)
  line.before = units.at(-1)?.style
  line.space = ""
}

const placeLong = (wrap: WrapState, units: ReadonlyArray<Unit>): void => {
  const { layout } = wrap
  if (wrap.line.column > 0 && !wrap.word.isOverflowing) startLine(wrap)
  wrap.word.isOverflowing = true
  let line: Array<Unit> = []
  let width = 0
  for (const unit of units) {
    // A divided word continues after its earlier pieces on this line.
    const begun = layout.longWords === "cut" ? wrap.line.column : 0
    if (begun + width + unit.width > wrap.room && begun + line.length > 0) {
      if (line.length > 0) putUnits(wrap, line, width)
      if (layout.longWords === "cut") startLine(wrap)
      line = []
      width = 0
    }
    line.push(unit)
    width += unit.width
  }
  putUnits(wrap, line, width)
}

const placeUnits = (wrap: WrapState, units: ReadonlyArray<Unit>): void => {
  const { room } = wrap
  const width = measureUnits(units)
  if (wrap.word.isOverflowing || width > room) return placeLong(wrap, units)
  if (wrap.line.column > 0 && wrap.line.column + measureSpace(wrap) + width > room) startLine(wrap)
  putUnits(wrap, units, width)
}

const measureSpace = (wrap: WrapState): number => {
  let at = wrap.line.column
  for (const char of wrap.line.space) at += char === "\t" ? 8 - ((wrap.layout.indent + at) % 8) : 1
  return at - wrap.line.column
}

const measureWord = (wrap: WrapState): number => wrap.word.pieces.reduce((sum, piece) => sum + piece.text.length, 0)

/** Splits the word into indivisible units. An ASCII word that fits on a line is one unit. */
const toUnits = (wrap: WrapState): Array<Unit> =>
  wrap.word.isAscii && measureWord(wrap) <= wrap.room
    ? wrap.word.pieces.map(({ style, text }) => ({ text, style, width: text.length }))
    : wrap.word.pieces.flatMap(({ style, text }) =>
        Array.from(Width.splitGraphemes(text), (grapheme) => ({ ...grapheme, style }))
      )

const storeUnits = (wrap: WrapState, units: ReadonlyArray<Unit>): void => {
  wrap.word.pieces = []
  for (const { style, text } of units) appendPiece(wrap, text, style)
}

const appendPiece = (wrap: WrapState, text: string, style: Style): void => {
  const last = wrap.word.pieces.at(-1)
  if (last?.style === style) last.text += text
  else wrap.word.pieces.push({ text, style })
}

/** Writes the parts of the word that no later character can change, or the whole word if it is complete. */
const settleWord = (wrap: WrapState, whole: boolean): void => {
  const units = toUnits(wrap)
  // A selector may still change the last character, and whether a break is allowed before it.
  const last = whole ? units.length : units.length - 1
  let from = 0
  for (let index = 1; index < last; index++) {
    const [a, b] = [units[index - 1], units[index]]
    if (!wrap.word.isAscii && a !== undefined && b !== undefined && breaksBetween(a, b)) {
      placeUnits(wrap, units.slice(from, index))
      wrap.word.isOverflowing = false
      from = index
    }
  }
  if (whole) {
    if (from < units.length) placeUnits(wrap, units.slice(from))
    wrap.word.pieces = []
    wrap.word.isAscii = true
    wrap.word.isOverflowing = false
    return
  }
  // A word that is too long for a line is written in blocks of one line's width.
  let block: Array<Unit> = []
  let width = 0
  for (let index = from; index < last; index++) {
    const unit = units[index]
    if (unit === undefined) break
    if (width + unit.width > wrap.room) {
      placeLong(wrap, block)
      from += block.length
      block = []
      width = 0
    }
    block.push(unit)
    width += unit.width
  }
  storeUnits(wrap, units.slice(from))
}

const addText = (wrap: WrapState, text: string, style: Style): void => {
  appendPiece(wrap, text, style)
  if (wrap.word.isAscii) wrap.word.isAscii = /^[\x20-\x7e]*$/.test(text)
  if (!wrap.word.isAscii || measureWord(wrap) > wrap.room) settleWord(wrap, false)
}

const addSpace = (wrap: WrapState, text: string): void => {
  if (wrap.word.pieces.length > 0) settleWord(wrap, true)
  wrap.line.space += text
}

const flush = (wrap: WrapState): string => {
  const given = wrap.line.out
  wrap.line.out = ""
  return given
}

export const make = (layout: Layout, paint: Paint): Wrap => {
  const wrap: WrapState = {
    layout,
    paint,
    room: Math.max(1, layout.columns - layout.indent),
    line: { out: layout.first, column: 0, space: "", before: undefined },
    word: { pieces: [], isAscii: true, isOverflowing: false }
  }
  return {
    add: ({ style, text }) => {
      for (const [part] of text.matchAll(/[ \t]+|[^ \t]+/g)) {
        if (part.charCodeAt(0) === 32 || part.charCodeAt(0) === 9) addSpace(wrap, part)
        else addText(wrap, part, style)
      }
      return flush(wrap)
    },
    end: () => {
      if (wrap.word.pieces.length > 0) settleWord(wrap, true)
      return flush(wrap)
    }
  }
}

/** Wraps complete text into lines. */
export const wrapLines = (spans: ReadonlyArray<Span>, columns: number, paint: Paint): ReadonlyArray<string> => {
  const wrap = make({ columns, first: "", rest: "", indent: 0, longWords: "cut" }, paint)
  let out = ""
  for (const span of spans) out += wrap.add(span)
  return (out + wrap.end()).split("\n")
}
