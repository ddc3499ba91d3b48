/**
 * Reasoning of a model, set apart from its answer: dim, behind a bar, in the lines that the terminal has room for.
 */
import * as SafeText from "./SafeText.ts"
import type { Paint, Style } from "./Paint.ts"
import * as Wrap from "./Wrap.ts"

/** One piece of reasoning. Each call gives what can be written now. */
export interface Renderer {
  readonly push: (piece: string) => string
  readonly end: () => string
}

const style: Style = { attributes: ["dim"] }

export const make = (paint: Paint, columns: () => number | undefined): Renderer => {
  const harmless = SafeText.stream()
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
      line = Wrap.make({
        columns: columns() ?? Infinity,
        first: bar,
        rest: bar,
        indent: 2,
        longWords: "overflow"
      }, paint)
      return gap + line.add({ text: written, style })
    }
    return line.add({ text, style })
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
