/**
 * How the blocks of Markdown look in a terminal, and how without any marks.
 *
 * @since 0.1.0
 */
import * as Paint from "./Paint.ts"
import type * as Table from "./Table.ts"

/** See the module. */
export interface Look {
  readonly paint: Paint.Paint
  /** What stands before a quoted line, once for each level: two columns. */
  readonly quote: string
  readonly bullet: (marker: string) => string
  readonly codeIndent: string
  /** The line above code of a language; empty for none. */
  readonly label: (language: string) => string
  readonly rule: (columns: number) => string
  readonly table: Table.Lines
  readonly heading: (level: number) => ReadonlyArray<Paint.Attribute>
}

/** Blocks with styles and drawn lines. */
export const rendered = (paint: Paint.Paint): Look => ({
  paint,
  quote: `${paint.text("│", "dim")} `,
  bullet: (marker) => marker === "-" || marker === "*" ? "•" : marker,
  codeIndent: "  ",
  label: (language) => language === "" ? "" : paint.text(`── ${language}`, "dim"),
  rule: (columns) => paint.text("─".repeat(columns), "dim"),
  table: { vertical: "│", horizontal: "─", cross: "┼" },
  heading: (level) => level <= 2 ? ["bold", "magenta"] : ["bold"]
})

/** The same without styles, in plain characters; code stands as it is. */
export const stripped: Look = {
  paint: Paint.plain,
  quote: "> ",
  bullet: (marker) => marker === "*" ? "-" : marker,
  codeIndent: "",
  label: () => "",
  rule: () => "---",
  table: { vertical: "|", horizontal: "-", cross: "+" },
  heading: () => []
}
