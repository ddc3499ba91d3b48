/**
 * The text of a run as a client shows it, piece by piece; each member returns the piece to show now. Concatenated, the
 * pieces are the shown text, byte for byte.
 *
 * A blank line separates texts of different steps. The final text is held back if a hook may still replace it, and
 * shown at the end if it differs from the streamed text.
 *
 * Source: `hermes-product.md` §1.5.
 */

/** The text so far, and the pieces of it. */
export interface StreamedText {
  /** Returns the piece that shows a delta. */
  readonly delta: (text: string) => string
  /** Begins a new step: the next text is separate from the previous one. */
  readonly step: (id: number) => void
  /** Replaces the text shown since a step began. Returns everything so far, or undefined if nothing was shown. */
  readonly replace: (id: number, text: string) => string | undefined
  /** Returns the rest of the final text. */
  readonly rest: (final: string) => string
  /** Everything so far. */
  readonly all: () => string
}

const removeWhitespace = (text: string): string => text.replaceAll(/\s+/g, "")

/** Makes the text of a run: with `live`, deltas are shown as they come; without, only the final text is. */
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
