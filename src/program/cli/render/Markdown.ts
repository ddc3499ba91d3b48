/**
 * Converts Markdown to terminal text while the model is still writing it: the final text, and the block that is still
 * open.
 *
 * - `render` styles headings, emphasis, code, lists, quotes, links and tables; `strip` uses the same layout without the
 *   marks, for text that is copied or read aloud; `raw` is the unchanged text. All text is sanitised first, see
 *   `SafeText`.
 * - Text is final per block: a paragraph when a blank line or another block follows it, an item of a list when the next
 *   one begins, code when its fence is closed. `raw` text is final at once.
 * - The output does not depend on the pieces in which the text comes in, and ends with a line end. Blank lines at the
 *   beginning and the end are left out.
 *
 * The block parser is loaded when the first text is rendered; raw text does not need it.
 *
 * Source: `hermes-product.md` §1.8 (`display.final_response_markdown`).
 */
import * as Effect from "effect/Effect"
import * as SafeText from "./SafeText.ts"
import type { Paint } from "./Paint.ts"

/** Presentation of Markdown text. */
export type Mode = "render" | "strip" | "raw"

/** Presentation and width of one answer. */
export interface Options {
  readonly mode: Mode
  readonly paint: Paint
  /** Returns the width of a line in columns, read for each block; `undefined` without a limit. */
  readonly columns: () => number | undefined
}

/** Renderer of one answer. `push` and `end` return the text that became final. */
export interface Renderer {
  readonly push: (piece: string) => string
  readonly end: () => string
  /** Returns the open block as it would be rendered if the text ended here. */
  readonly open: () => string
}

/** Creates the renderer of one answer. */
export type Make = (options: Options) => Renderer

/** Creates a renderer that returns the text unchanged except for sanitising it and adding a final line break. */
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
