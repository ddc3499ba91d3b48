/**
 * The text of a run, for clients that show it piece by piece. Each member returns the piece to show next. The shown
 * text is the concatenation of all pieces.
 *
 * A blank line separates the text of different steps. The final text is held back if a hook may still replace it, and
 * shown at the end if it differs from the streamed text.
 *
 * Source: `hermes-product.md` §1.5.
 */

/** Tracks the text shown so far, and returns the pieces to show next. */
export interface StreamedText {
  /** Accepts a delta, and returns the piece that shows it. */
  readonly delta: (text: string) => string
  /** Begins a new step, whose text is separated from the previous text. */
  readonly step: (id: number) => void
  /**
   * Replaces the text shown since a step began. Returns all text shown so far, or `undefined` if deltas are not shown.
   */
  readonly replace: (id: number, text: string) => string | undefined
  /** Returns the part of the final text that was not shown yet. */
  readonly rest: (final: string) => string
  /** Returns all text shown so far. */
  readonly all: () => string
}

const removeWhitespace = (text: string): string => text.replaceAll(/\s+/g, "")

/**
 * Makes a {@link StreamedText} for a run. If `live` is true, deltas are shown as they arrive; otherwise only the final
 * text is shown.
 */
export const makeStreamedText = (live: boolean): StreamedText => {
  let all = ""
  let current = ""
  const starts = new Map<number, number>()
  const chooseSeparator = (): string => {
    if (current !== "" || all === "" || all.endsWith("\n\n")) return ""
    return all.endsWith("\n") ? "\n" : "\n\n"
  }
  const appendText = (text: string): string => {
    const piece = chooseSeparator() + text
    all += piece
    current += text
    return piece
  }
  return {
    delta: (text) => (live && text !== "" ? appendText(text) : ""),
    step: (id) => {
      current = ""
      starts.set(id, all.length)
    },
    replace: (id, text) => {
      if (!live) return undefined
      all = all.slice(0, starts.get(id))
      current = ""
      if (text !== "") appendText(text)
      return all
    },
    rest: (final) => {
      if (final === "" || final === current || removeWhitespace(all).endsWith(removeWhitespace(final))) return ""
      current = ""
      return appendText(final)
    },
    all: () => all
  }
}
