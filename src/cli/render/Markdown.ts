/**
 * Markdown as text for a terminal, while the model still writes it: takes the text in pieces of any cut, and gives each
 * character as soon as no later one can change how it looks.
 *
 * **Details**
 *
 * - `render` styles headings, emphasis, code, lists, quotes, links and tables; `strip` lays them out the same way and
 *   takes the marks away, for text that is copied or read aloud; `raw` is the text itself. All are made harmless first, see
 *   `Neutral`.
 * - What comes out does not depend on the pieces in which the text comes in, and ends with a line end. Blank lines at the
 *   beginning and the end are left out.
 * - Lines are broken between words. Code is never broken, and loses nothing but the indentation of its block, so that it can
 *   be copied. A table is held until it ends.
 *
 * No library is used: those that are well kept parse a whole document, and would have to parse it again for every piece.
 *
 * Source: `hermes-product.md` §1.8 (`display.final_response_markdown`).
 *
 * @since 0.1.0
 */
import { Blocks } from "./Blocks.ts"
import * as Look from "./Look.ts"
import * as Neutral from "./Neutral.ts"
import type { Paint } from "./Paint.ts"

/** How Markdown is shown. */
export type Mode = "render" | "strip" | "raw"

/** Where the text goes. */
export interface Options {
  readonly mode: Mode
  readonly paint: Paint
  /** Columns of a line, asked for each line; without limit when undefined. */
  readonly columns: () => number | undefined
}

/** One answer. Each call gives what can be written now. */
export interface Renderer {
  readonly push: (piece: string) => string
  readonly end: () => string
}

/** The text itself; only the line end that it must have is added. */
class Raw {
  #last = "\n"

  push(text: string): string {
    this.#last = text === "" ? this.#last : text.slice(-1)
    return text
  }

  end(): string {
    return this.#last === "\n" ? "" : "\n"
  }
}

const rendererOf = ({ columns, mode, paint }: Options): Renderer => {
  switch (mode) {
    case "raw":
      return new Raw()
    case "strip":
      return new Blocks(Look.stripped, columns)
    case "render":
      return new Blocks(Look.rendered(paint), columns)
  }
}

/** See the module. */
export const make = (options: Options): Renderer => {
  const renderer = rendererOf(options)
  const harmless = Neutral.stream()
  return {
    push: (piece) => renderer.push(harmless.push(piece)),
    end: () => renderer.push(harmless.end()) + renderer.end()
  }
}

/** A text that is there as a whole. */
export const render = (text: string, options: Options): string => {
  const renderer = make(options)
  return renderer.push(text) + renderer.end()
}
