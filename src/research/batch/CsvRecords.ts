/**
 * Reads the records of a CSV file, each with its starting line, and continues after a malformed record.
 *
 * **Details**
 *
 * Supports RFC 4180 with any delimiter: quoted cells may contain delimiters, line breaks and doubled quotes. Blank
 * lines are skipped. A record is malformed if text follows a closing quote, if an unquoted cell contains a quote, or if
 * a quoted cell is never closed. The reader then continues with the next line.
 *
 * Source: `hermes-product.md` §5.1 (malformed lines are skipped).
 */

/** A record, or a description of the problem in a malformed record. `line` counts from 1. */
export type CsvRecord =
  | { readonly line: number; readonly cells: ReadonlyArray<string> }
  | { readonly line: number; readonly problem: string }

const countLineBreaks = (text: string): number => text.split(/\r\n|\n|\r/).length - 1

const findLineEnd = (text: string, from: number): number => {
  const found = /[\r\n]/g
  found.lastIndex = from
  return found.exec(text)?.index ?? text.length
}

const findClosingQuote = (text: string, from: number): number => {
  let at = text.indexOf('"', from)
  while (at !== -1 && text[at + 1] === '"') at = text.indexOf('"', at + 2)
  return at
}

interface ScannedRecord {
  readonly cells: ReadonlyArray<string>
  readonly problem: string | undefined
  /** Position of the line break after the record, or the end of the text. */
  readonly end: number
}

const scanRecord = (text: string, start: number, delimiter: string): ScannedRecord => {
  const cells: Array<string> = []
  const makeProblem = (problem: string): ScannedRecord => ({ cells, problem, end: findLineEnd(text, start) })
  let at = start
  while (true) {
    const isQuoted = text[at] === '"'
    const close = isQuoted ? findClosingQuote(text, at + 1) : -1
    if (isQuoted && close === -1) return makeProblem("a quoted cell is never closed")
    const end = findLineEnd(text, isQuoted ? close : at)
    const next = text.indexOf(delimiter, isQuoted ? close : at)
    const stop = next === -1 || next > end ? end : next
    if (isQuoted && stop !== close + 1) return makeProblem("text follows a closing quote")
    const cell = isQuoted ? text.slice(at + 1, close).replaceAll('""', '"') : text.slice(at, stop)
    if (!isQuoted && cell.includes('"')) return makeProblem("a quote stands inside of a cell that is not quoted")
    cells.push(cell)
    if (stop === end) return { cells, problem: undefined, end }
    at = stop + delimiter.length
  }
}

/** Reads the records in CSV text. */
export const read = (text: string, delimiter = ","): ReadonlyArray<CsvRecord> => {
  const records: Array<CsvRecord> = []
  let at = text.startsWith("\uFEFF") ? 1 : 0
  let line = 1
  while (at < text.length) {
    const { cells, end, problem } = scanRecord(text, at, delimiter)
    const isBlank = cells.length === 1 && cells[0] === "" && problem === undefined
    if (problem !== undefined) records.push({ line, problem })
    else if (!isBlank) records.push({ line, cells })
    const next = text.startsWith("\r\n", end) ? end + 2 : end + 1
    line += countLineBreaks(text.slice(at, Math.min(next, text.length)))
    at = next
  }
  return records
}
