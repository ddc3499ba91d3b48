/**
 * Markdown as text for a terminal while the model still writes it: text that is final, and the block that is still
 * open.
 *
 * - `render` styles headings, emphasis, code, lists, quotes, links and tables; `strip` lays them out the same way and
 *   takes the marks away, for text that is copied or read aloud; `raw` is the text itself. All are made
 *   harmless first, see `SafeText`.
 * - Text is final per block: a paragraph when a blank line or another block follows it, an item of a list when the next
 *   one begins, code when its fence is closed. `raw` text is final at once.
 * - The output does not depend on the pieces in which the text comes in, and ends with a line end. Blank lines at the
 *   beginning and the end are left out.
 *
 * The parser of blocks is loaded when the first text is to be rendered; raw text does without it.
 *
 * Source: `hermes-product.md` §1.8 (`display.final_response_markdown`).
 */
import * as Effect from "effect/Effect"
import * as SafeText from "./SafeText.ts"
import type { Paint } from "./Paint.ts"

/** Presentation of Markdown. */
export type Mode = "render" | "strip" | "raw"

/** Presentation and destination of one answer. */
export interface Options {
  readonly mode: Mode
  readonly paint: Paint
  /** Columns of a line, asked for each block; without limit when undefined. */
  readonly columns: () => number | undefined
}

/** One answer. `push` and `end` return the text that became final. */
export interface Renderer {
  readonly push: (piece: string) => string
  readonly end: () => string
  /** Returns the open block as it would be written if the text ended here. */
  readonly open: () => string
}

/** Makes the renderer of one answer. */
export type Make = (options: Options) => Renderer

/** Text as it is, harmless; only the line end that it must have is added. */
const makeRawRenderer = (): Renderer => {
  const harmless = SafeText.makeStream()
  let last = "\n"
  const push = (text: string): string => {
    last = text === "" ? last : text.slice(-1)
    return text
  }
  return {
    push: (piece) => push(harmless.push(piece)),
    end: () => {
      const rest = push(harmless.end())
      return last === "\n" ? rest : `${rest}\n`
    },
    open: () => ""
  }
}

/** Loads the renderer of a mode. */
export const load = (mode: Mode): Effect.Effect<Make> =>
  mode === "raw"
    ? Effect.succeed(makeRawRenderer)
    : Effect.map(
        Effect.promise(() => import("./MarkdownBlocks.ts")),
        ({ make }) => make
      )
