/**
 * A screen for screen readers and for terminals without cursor control (`--plain`, `TERM=dumb`). Text is printed in
 * sequence, nothing is redrawn, and no escape sequences are written.
 *
 * The only live line shown is the one with the cursor, which contains the typed text: added characters are appended,
 * removed characters are erased with backspaces, and different text starts a new line. The activity of a run is not
 * shown; lines about tools are written when they end. Lines are not wrapped; the terminal or the screen reader wraps
 * them.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Paint from "./Paint.ts"
import * as Screen from "./Screen.ts"
import * as Width from "./Width.ts"

/** Width in columns that no text reaches, so that lines are not wrapped here. */
const wide = 10_000

/** Creates the screen. Its fixed, large size does not depend on the terminal. */
export const make = (write: (text: string) => void): Screen.Screen => {
  const size = { columns: wide, rows: wide }
  let isOpen = false
  /** Text of the line being typed, if it is the last line on the terminal. */
  let typed: string | undefined
  /** Text of the line after it was sent, until other output follows it. */
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
    // The typed part of the line is already on the terminal.
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
