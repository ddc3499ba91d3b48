/** Styles and characters of Markdown blocks, for a styled terminal and for plain text. */
import * as Paint from "./Paint.ts"

/** Styles and characters of blocks. */
export interface MarkdownTheme {
  readonly paint: Paint.Paint
  /** Prefix of a quoted line, repeated for each level: two columns. */
  readonly quote: string
  readonly bullet: (marker: string) => string
  readonly codeIndent: string
  /** Returns the line above a code block of a language; empty for no line. */
  readonly label: (language: string) => string
  readonly rule: (columns: number) => string
  /** Characters of the lines inside a table. */
  readonly table: { readonly vertical: string; readonly horizontal: string; readonly cross: string }
  readonly heading: (level: number) => ReadonlyArray<Paint.Attribute>
}

/** Creates the theme with styles and drawn lines. */
export const makeStyledTheme = (paint: Paint.Paint): MarkdownTheme => ({
  paint,
  quote: `${paint.text("│", "dim")} `,
  bullet: (marker) => (marker === "-" || marker === "*" ? "•" : marker),
  codeIndent: "  ",
  label: (language) => (language === "" ? "" : paint.text(`── ${language}`, "dim")),
  rule: (columns) => paint.text("─".repeat(columns), "dim"),
  table: { vertical: "│", horizontal: "─", cross: "┼" },
  heading: (level) => (level <= 2 ? ["bold", "magenta"] : ["bold"])
})

/** Theme without styles, in plain characters. Code is unchanged. */
export const stripped: MarkdownTheme = {
  paint: Paint.plain,
  quote: "> ",
  bullet: (marker) => (marker === "*" ? "-" : marker),
  codeIndent: "",
  label: () => "",
  rule: () => "---",
  table: { vertical: "|", horizontal: "-", cross: "+" },
  heading: () => []
}
