/**
 * Breaks lines between words so that they fit, while the text still comes in: each word is given as soon as it is
 * certain that it is whole.
 *
 * Lines break at spaces and tabs, which are dropped there, and next to wide characters, which stand without spaces;
 * punctuation that closes never begins a line. A word that fits no line begins one and goes over its edge, where the
 * terminal breaks it without harm to copying it (`longWords: "overflow"`), or is cut (`"cut"`).
 *
 * Output does not depend on the pieces in which text comes in.
 */
import type { Paint, Span, Style } from "./Paint.ts"
import * as Width from "./Width.ts"

/** Layout of a line of text. */
interface Layout {
  /** Columns of a line, its indentation too; `Infinity` never breaks. */
  readonly columns: number
  /** Painted prefix of the first line. */
  readonly first: string
  /** Painted prefix of the lines that follow. */
  readonly rest: string
  /** Columns of `first` and `rest`. */
  readonly indent: number
  readonly longWords: "overflow" | "cut"
}

/** A growing line. Each call returns the text that can be written now. */
export interface Wrap {
  readonly add: (span: Span) => string
  readonly end: () => string
}

const closing = /^[\p{Pe}\p{Pf}、。，．：；！？・ー々〜…‥％]/u

interface Unit extends Width.Grapheme {
  readonly style: Style
}

const measureUnits = (units: ReadonlyArray<Unit>): number => units.reduce((sum, { width }) => sum + width, 0)

/** Neighbours of one style are painted together. */
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

/** Tests whether a space of this style is visible: a link has no gaps. */
const isVisible = ({ attributes, link }: Style): boolean =>
  link !== undefined || attributes.includes("underline") || attributes.includes("strike")

const breaksBetween = (a: Unit, b: Unit): boolean => (a.width > 1 || b.width > 1) && !closing.test(b.text)

export const make = (layout: Layout, paint: Paint): Wrap => {
  const room = Math.max(1, layout.columns - layout.indent)
  let out = layout.first
  let column = 0
  let space = ""
  /** The style that the last word ended in. */
  let before: Style | undefined
  /** The word that is not whole yet, in pieces of one style. */
  let word: Array<{ text: string; readonly style: Style }> = []
  let wordAscii = true
  /** A word that goes over the edge is under way. */
  let overflowing = false

  const startLine = (): void => {
    out += `\n${layout.rest}`
    column = 0
    space = ""
  }

  const putUnits = (units: ReadonlyArray<Unit>, width: number): void => {
    const style = units[0]?.style
    column += measureSpace() + width
    out += style !== undefined && style === before && isVisible(style) ? paint.span(space, style) : space
    out += paintUnits(paint, units)
    before = units.at(-1)?.style
    space = ""
  }

  const placeLong = (units: ReadonlyArray<Unit>): void => {
    if (column > 0 && !overflowing) startLine()
    overflowing = true
    let line: Array<Unit> = []
    let width = 0
    for (const unit of units) {
      // A split word continues after its earlier pieces in this line.
      const begun = layout.longWords === "cut" ? column : 0
      if (begun + width + unit.width > room && begun + line.length > 0) {
        if (line.length > 0) putUnits(line, width)
        if (layout.longWords === "cut") startLine()
        line = []
        width = 0
      }
      line.push(unit)
      width += unit.width
    }
    putUnits(line, width)
  }

  const placeUnits = (units: ReadonlyArray<Unit>): void => {
    const width = measureUnits(units)
    if (overflowing || width > room) return placeLong(units)
    if (column > 0 && column + measureSpace() + width > room) startLine()
    putUnits(units, width)
  }

  const measureSpace = (): number => {
    let at = column
    for (const char of space) at += char === "\t" ? 8 - ((layout.indent + at) % 8) : 1
    return at - column
  }

  const measureWord = (): number => word.reduce((sum, piece) => sum + piece.text.length, 0)

  /** The word in parts that nothing divides: an ASCII word that fits a line is never divided. */
  const toUnits = (): Array<Unit> =>
    wordAscii && measureWord() <= room
      ? word.map(({ style, text }) => ({ text, style, width: text.length }))
      : word.flatMap(({ style, text }) =>
          Array.from(Width.splitGraphemes(text), (grapheme) => ({ ...grapheme, style }))
        )

  const storeUnits = (units: ReadonlyArray<Unit>): void => {
    word = []
    for (const { style, text } of units) append(text, style)
  }

  const append = (text: string, style: Style): void => {
    const last = word.at(-1)
    if (last?.style === style) last.text += text
    else word.push({ text, style })
  }

  /** Gives the parts of the word that no later character can change; all of it when it is whole. */
  const settleWord = (whole: boolean): void => {
    const units = toUnits()
    // A selector may still change the last character, and with it whether there is a break before it.
    const last = whole ? units.length : units.length - 1
    let from = 0
    for (let index = 1; index < last; index++) {
      const [a, b] = [units[index - 1], units[index]]
      if (!wordAscii && a !== undefined && b !== undefined && breaksBetween(a, b)) {
        placeUnits(units.slice(from, index))
        overflowing = false
        from = index
      }
    }
    if (whole) {
      if (from < units.length) placeUnits(units.slice(from))
      word = []
      wordAscii = true
      overflowing = false
      return
    }
    // A word that fits no line is given in blocks of one line's width.
    let block: Array<Unit> = []
    let width = 0
    for (let index = from; index < last; index++) {
      const unit = units[index]
      if (unit === undefined) break
      if (width + unit.width > room) {
        placeLong(block)
        from += block.length
        block = []
        width = 0
      }
      block.push(unit)
      width += unit.width
    }
    storeUnits(units.slice(from))
  }

  const addText = (text: string, style: Style): void => {
    append(text, style)
    if (wordAscii) wordAscii = /^[\x20-\x7e]*$/.test(text)
    if (!wordAscii || measureWord() > room) settleWord(false)
  }

  const addSpace = (text: string): void => {
    if (word.length > 0) settleWord(true)
    space += text
  }

  const flush = (): string => {
    const given = out
    out = ""
    return given
  }

  return {
    add: ({ style, text }) => {
      for (const [part] of text.matchAll(/[ \t]+|[^ \t]+/g)) {
        if (part.charCodeAt(0) === 32 || part.charCodeAt(0) === 9) addSpace(part)
        else addText(part, style)
      }
      return flush()
    },
    end: () => {
      if (word.length > 0) settleWord(true)
      return flush()
    }
  }
}

/** The lines of a text that is there as a whole. */
export const wrapLines = (spans: ReadonlyArray<Span>, columns: number, paint: Paint): ReadonlyArray<string> => {
  const wrap = make({ columns, first: "", rest: "", indent: 0, longWords: "cut" }, paint)
  let out = ""
  for (const span of spans) out += wrap.add(span)
  return (out + wrap.end()).split("\n")
}
