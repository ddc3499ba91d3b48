/**
 * Separates reasoning that a model writes into its text, in `<think>…</think>` or one of four similar tags, from the
 * text meant for the user.
 *
 * **Details**
 *
 * The text is read in pieces, so a tag may be split anywhere; only a piece that may be part of a tag is held back. An
 * opening tag is recognized at the beginning of the text or of a line, a closing tag anywhere after it. The text of an
 * unclosed block is reasoning to the end. A closing tag without an opening tag is removed at the beginning of a line,
 * as is white space after a block.
 *
 * **Gotchas**
 *
 * A whole answer is read as one piece by the same rules, so the streamed text and the stored text are the same.
 *
 * Source: `hermes-llm.md` §14.3, §14.4.
 */

/** Receives the text and the reasoning separately. */
interface Sink {
  readonly text: (text: string) => void
  readonly reasoning: (text: string) => void
}

/** Separates reasoning from text that arrives in pieces. */
interface ThinkTags {
  readonly read: (piece: string) => void
  /** Ends the text and emits the last piece, which may have been held back as part of a possible tag. */
  readonly end: () => void
}

const names = ["think", "thinking", "thought", "reasoning", "reasoning_scratchpad"]
const openers = names.map((name) => `<${name}>`)
const closers = names.map((name) => `</${name}>`)
const tags = [...openers, ...closers]
const longest = Math.max(...tags.map((tag) => tag.length))

/** Returns the tag at `at`; `partial` if the text ends before the tag is complete. */
const findTagAt = (text: string, at: number, list: ReadonlyArray<string>): string | undefined => {
  const rest = text.slice(at, at + longest).toLowerCase()
  const whole = list.find((tag) => rest.startsWith(tag))
  if (whole !== undefined) return whole
  return at + rest.length === text.length && list.some((tag) => tag.startsWith(rest)) ? "partial" : undefined
}

const isBlank = (text: string): boolean => text.trim() === ""

/** Creates a reader that passes text and reasoning to `sink` separately. */
export const make = (sink: Sink): ThinkTags => {
  let held = ""
  /** The closing tag of the open block; `undefined` outside of a block. */
  let closer: string | undefined
  /** True while the line contains only white space so far. */
  let atStart = true
  /** True while white space after a block is being removed. */
  let trimming = false

  const emitText = (text: string): void => {
    const shown = trimming ? text.trimStart() : text
    if (shown === "") return
    trimming = false
    const lineEnd = shown.lastIndexOf("\n")
    if (atStart || lineEnd !== -1) atStart = isBlank(lineEnd === -1 ? shown : shown.slice(lineEnd + 1))
    sink.text(shown)
  }

  const emitReasoning = (text: string): void => {
    if (text !== "") sink.reasoning(text)
  }

  const readOutside = (text: string): string => {
    for (let at = text.indexOf("<"); at !== -1; at = text.indexOf("<", at + 1)) {
      const before = text.slice(0, at)
      const line = before.slice(before.lastIndexOf("\n") + 1)
      if (!isBlank(line) || (line.length === before.length && !atStart)) continue
      const tag = findTagAt(text, at, tags)
      if (tag === undefined) continue
      emitText(before)
      if (tag === "partial") {
        held = text.slice(at)
        return ""
      }
      closer = closers[openers.indexOf(tag)]
      trimming = closer === undefined
      return text.slice(at + tag.length)
    }
    emitText(text)
    return ""
  }

  const readInside = (text: string, wanted: string): string => {
    for (let at = text.indexOf("<"); at !== -1; at = text.indexOf("<", at + 1)) {
      const tag = findTagAt(text, at, [wanted])
      if (tag === undefined) continue
      emitReasoning(text.slice(0, at))
      if (tag === "partial") {
        held = text.slice(at)
        return ""
      }
      closer = undefined
      trimming = true
      atStart = true
      return text.slice(at + tag.length)
    }
    emitReasoning(text)
    return ""
  }

  return {
    read: (piece) => {
      let rest = held === "" ? piece : held + piece
      held = ""
      while (rest !== "") rest = closer === undefined ? readOutside(rest) : readInside(rest, closer)
    },
    end: () => {
      const rest = held
      held = ""
      if (closer === undefined) emitText(rest)
      else emitReasoning(rest)
    }
  }
}
