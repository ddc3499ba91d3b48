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

export const make = (layout: Layout, paint: Paint): Wrap => {
  const room = Math.max(1, layout.columns - layout.indent)
  let out = layout.first
  let column = 0
  let space = ""
  /** Style at the end of the last word. */
  let before: Style | undefined
  /** The incomplete word, in pieces of one style. */
  let word: Array<{ text: string; readonly style: Style }> = []
  let wordAscii = true
  /** True while a word that overflows the line is being written. */
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
      // A divided word continues after its earlier pieces on this line.
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

  /** Splits the word into indivisible units. An ASCII word that fits on a line is one unit. */
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

  /** Writes the parts of the word that no later character can change, or the whole word if it is complete. */
  const settleWord = (whole: boolean): void => {
    const units = toUnits()
    // A selector may still change the last character, and whether a break is allowed before it.
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
    // A word that is too long for a line is written in blocks of one line's width.
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

/** Wraps complete text into lines. */
export const wrapLines = (spans: ReadonlyArray<Span>, columns: number, paint: Paint): ReadonlyArray<string> => {
  const wrap = make({ columns, first: "", rest: "", indent: 0, longWords: "cut" }, paint)
  let out = ""
  for (const span of spans) out += wrap.add(span)
  return (out + wrap.end()).split("\n")
}
