/**
 * The text of a run as it is shown, piece by piece. What the pieces make together is what was shown, byte for byte.
 *
 * Texts of different steps are set apart by a blank line. The final text is held back where somebody may still replace it,
 * and shown at the end where it is not what streamed by.
 */

/** Each answers with the piece to write now. */
export interface StreamedText {
  readonly delta: (text: string) => string
  /** A new step: the next text is one of its own. */
  readonly step: () => void
  /** Ends an unfinished line, so that something else can be said. */
  readonly endLine: () => string
  /** Returns the rest of the final text. */
  readonly rest: (final: string) => string
  /** Everything so far. */
  readonly all: () => string
}

/** With `live`, deltas are shown as they come; without, only the final text is. */
export const make = (live: boolean): StreamedText => {
  let all = ""
  let current = ""
  const write = (text: string): string => {
    all += text
    return text
  }
  const apart = (): string => {
    if (current !== "" || all === "" || all.endsWith("\n\n")) return ""
    return all.endsWith("\n") ? "\n" : "\n\n"
  }
  const show = (text: string): string => {
    const piece = write(apart() + text)
    current += text
    return piece
  }
  return {
    delta: (text) => live && text !== "" ? show(text) : "",
    step: () => {
      current = ""
    },
    endLine: () => all === "" || all.endsWith("\n") ? "" : write("\n"),
    rest: (final) => {
      if (final === "" || final === current) return ""
      current = ""
      return show(final)
    },
    all: () => all
  }
}
