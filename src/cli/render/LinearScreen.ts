/**
 * A screen for screen readers and for terminals that only write (`--plain`, `TERM=dumb`): text follows text, nothing is
 * drawn again, and there is no escape sequence at all.
 *
 * Of live lines only the one with the cursor is shown, which is what is typed: added characters are written behind it,
 * removed ones by backspaces, and another text on a new line. What a run is at is not shown; lines about tools come
 * when they end. Lines are as long as they are: the terminal, or the reader, breaks them.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Paint from "./Paint.ts"
import * as Screen from "./Screen.ts"
import * as Width from "./Width.ts"

/** Columns that no text takes, so that no line is broken here. */
const wide = 10_000

/** Makes the screen; its size is that of the lines, not of the terminal. */
export const make = (write: (text: string) => void): Screen.Screen => {
  const size = { columns: wide, rows: wide }
  let isOpen = false
  /** Text of the line that is typed, where it is the last on the terminal. */
  let typed: string | undefined
  /** The same after the line was sent, as long as nothing follows it. */
  let sent: string | undefined
  let view = Screen.renderNothing

  const leaveLine = (): void => {
    if (typed === undefined) return
    write("\n")
    sent = typed
    typed = undefined
  }

  const printText = (text: string): void => {
    if (text === "") return
    leaveLine()
    // The line that was typed stands there already.
    const rest = sent !== undefined && text.startsWith(`${sent}\n`) ? text.slice(sent.length + 1) : text
    sent = undefined
    if (rest === "") return
    write(rest)
    isOpen = !rest.endsWith("\n")
  }

  const showTyped = (next: string): void => {
    if (next === typed) return
    if (typed === undefined) {
      write(isOpen ? `\n${next}` : next)
      isOpen = false
    } else if (next.startsWith(typed)) write(next.slice(typed.length))
    else if (typed.startsWith(next)) write("\b \b".repeat(Width.measure(typed.slice(next.length))))
    else write(`\n${next}`)
    typed = next
    sent = undefined
  }

  const refresh = (): void => {
    const { cursor, lines } = view(size)
    if (cursor === undefined) leaveLine()
    else showTyped(Paint.strip(lines[cursor.row] ?? ""))
  }

  return {
    answerPaint: Paint.plain,
    asidePaint: Paint.plain,
    joined: true,
    size: () => size,
    answerColumns: () => undefined,
    asideColumns: () => undefined,
    print: printText,
    say: printText,
    mark: () => undefined,
    takeBack: () => false,
    endLine: () => {
      leaveLine()
      if (isOpen) printText("\n")
    },
    live: (next) => {
      view = next
      refresh()
    },
    draft: () => undefined,
    refresh,
    redraw: () => undefined,
    clear: () => undefined,
    rewrite: () => undefined,
    repaint: () => undefined,
    lend: () => undefined
  }
}
