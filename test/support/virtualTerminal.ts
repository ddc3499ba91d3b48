// As much of a terminal as the program uses: text, line ends, cursor movements, erasing. Shows what a user would see.
import * as Width from "../../src/program/cli/render/Width.ts"

export interface VirtualTerminal {
  readonly write: (text: string) => void
  /** The lines that are and were on the screen, without trailing blanks. */
  readonly lines: () => ReadonlyArray<string>
  readonly cursor: () => { readonly row: number; readonly column: number; readonly visible: boolean }
  /** Everything that was written. */
  readonly written: () => string
  columns: number
  rows: number
}

const sequence = new RegExp(
  String.raw`^\u001b(?:\[([?\d;]*)([A-Za-z])|\]8;;[^\u001b]*\u001b\\|\]2;[^\u001b\u0007]* · hermes\u0007|\]11;\?\u0007|\]52;c;[\w+/=]*\u0007)`
)

const begun = new RegExp(String.raw`^(?:\[[\d;?]*|\](?:(?:2|11|52)(?:;[^\u0007\u001b]*)?|[15])?)?$`)

export const make = (columns: number, rows = 24): VirtualTerminal => {
  let cells: Array<Array<string>> = [[]]
  let row = 0
  let column = 0
  let top = 0
  let visible = true
  let written = ""
  /** What stands behind the alternate screen. */
  let main: { cells: Array<Array<string>>; row: number; column: number; top: number } | undefined
  let saved: [row: number, column: number] = [0, 0]

  const line = (): Array<string> => {
    while (cells.length <= row) cells.push([])
    return cells[row] ?? []
  }
  const down = (): void => {
    row++
    line()
    top = Math.max(top, row - terminal.rows + 1)
  }
  const put = (text: string, width: number): void => {
    if (column + width > terminal.columns) {
      down()
      column = 0
    }
    const cell = line()
    for (let index = cell.length; index < column; index++) cell[index] = " "
    cell[column] = text
    if (width === 2) cell[column + 1] = ""
    column += width
  }
  const command = (parameters: string, final: string): void => {
    const count = Number(parameters === "" ? 1 : parameters.split(";")[0])
    switch (final) {
      case "A":
        row = Math.max(top, row - count)
        return
      case "C":
        column = Math.min(terminal.columns - 1, column + count)
        return
      case "B":
        row = Math.min(top + terminal.rows - 1, row + count)
        return
      case "D":
        column = Math.max(0, column - count)
        return
      case "G":
        column = Math.min(terminal.columns, count) - 1
        return
      case "K":
        cells[row] = parameters === "2" ? [] : line().slice(0, column)
        return
      case "s":
        saved = [row, column]
        return
      case "u":
        ;[row, column] = saved
        return
      case "H":
        row = top
        column = 0
        return
      case "J":
        if (parameters === "2") cells = [...cells.slice(0, top), []]
        else cells = [...cells.slice(0, row), line().slice(0, column)]
        return
      case "h":
      case "l":
        if (parameters === "?25") visible = final === "h"
        if (parameters === "?1049" && final === "h") {
          main = { cells, row, column, top }
          cells = [[]]
          row = column = top = 0
        } else if (parameters === "?1049" && main !== undefined) {
          ;({ cells, column, row, top } = main)
          main = undefined
        }
        return
      case "m":
      case "t":
        return
      default:
        throw new Error(`unknown sequence ${parameters}${final}`)
    }
  }

  /** A sequence whose end has not come yet. */
  let pending = ""

  const terminal: VirtualTerminal = {
    columns,
    rows,
    write: (text) => {
      written += text
      let rest = pending + text
      pending = ""
      while (rest !== "") {
        const found = sequence.exec(rest)
        if (found !== null) {
          if (found[2] !== undefined) command(found[1] ?? "", found[2])
          rest = rest.slice(found[0].length)
          continue
        }
        const char = rest.charAt(0)
        // A bell is heard, not seen.
        if (char === "\u0007") {
          rest = rest.slice(1)
          continue
        }
        // A pipe may cut a sequence in two.
        if (char === "\u001b" && begun.test(rest.slice(1))) {
          pending = rest
          return
        }
        if (char === "\u001b")
          throw new Error(`an escape that drives the terminal: ${JSON.stringify(rest.slice(0, 20))}`)
        if (char === "\n") {
          down()
          column = 0
        } else if (char === "\r") {
          column = 0
        } else if (char === "\b") {
          column = Math.max(0, column - 1)
        } else if (char === "\t") {
          column = Math.min(terminal.columns - 1, (Math.floor(column / 8) + 1) * 8)
        } else {
          const part = /^\P{Cc}+/u.exec(rest)?.[0] ?? char
          for (const grapheme of Width.splitGraphemes(part)) put(grapheme.text, grapheme.width)
          rest = rest.slice(part.length)
          continue
        }
        rest = rest.slice(1)
      }
    },
    lines: () => {
      const shown = cells.map((cell) =>
        Array.from(cell, (text) => text ?? " ")
          .join("")
          .trimEnd()
      )
      while (shown.at(-1) === "") shown.pop()
      return shown
    },
    cursor: () => ({ row, column, visible }),
    written: () => written
  }
  return terminal
}
