/**
 * Text about a run other than its answer: waits, silence and the reasoning of the model.
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as Paint from "./Paint.ts"
import * as SafeText from "./SafeText.ts"
import type * as ToolFeed from "./ToolFeed.ts"
import * as Wrap from "./Wrap.ts"

/** Formats a delay in seconds, the same in every view. */
const formatSeconds = (millis: number): string => `${Math.max(1, Math.round(millis / 1000))} s`

/** Describes a wait before another attempt. */
export const describeWait = ({ attempt, maxAttempts, millis, reason }: ToolFeed.EventOf<"Waiting">): string =>
  `┊ ${reason}: retrying in ${formatSeconds(millis)}, attempt ${attempt}` +
  (maxAttempts === undefined ? "" : ` of ${maxAttempts}`)

/** Describes a model that sends no output. */
export const describeSilence = ({ waitedMillis }: ToolFeed.EventOf<"Heartbeat">): string =>
  `┊ no output from the model, ${formatSeconds(waitedMillis)} into its answer; still waiting`

/** Formatter of reasoning. Each call returns the text that can be written now. */
export interface ReasoningText {
  readonly push: (piece: string) => string
  readonly end: () => string
}

const reasoningStyle: Paint.Style = { attributes: ["dim"] }

/**
 * Creates a formatter that distinguishes reasoning from the answer: dim, after a bar, and wrapped to the width of the
 * terminal.
 */
export const makeReasoningText = (paint: Paint.Paint, columns: () => number | undefined): ReasoningText => {
  const harmless = SafeText.makeStream()
  const bar = `${paint.text("┊", "dim")} `
  let blanks = 0
  let begun = false
  let line: Wrap.Wrap | undefined

  const add = (text: string): string => {
    if (line === undefined) {
      const written = text.trimStart()
      if (written === "") return ""
      const gap = begun ? `${bar.trimEnd()}\n`.repeat(Math.min(1, blanks)) : ""
      begun = true
      blanks = 0
      line = Wrap.make(
        { columns: columns() ?? Infinity, first: bar, rest: bar, indent: 2, longWords: "overflow" },
        paint
      )
      return gap + line.add({ text: written, style: reasoningStyle })
    }
    return line.add({ text, style: reasoningStyle })
  }

  const endLine = (): string => {
    const open = line
    line = undefined
    if (open !== undefined) return `${open.end()}\n`
    blanks++
    return ""
  }

  const push = (text: string): string => {
    const [first = "", ...rest] = text.split("\n")
    let out = add(first)
    for (const part of rest) out += endLine() + add(part)
    return out
  }

  return {
    push: (piece) => push(harmless.push(piece)),
    end: () => push(harmless.end()) + (line === undefined ? "" : endLine())
  }
}
