// A screen with escape sequences for colours, as `tmux capture-pane -e` prints it, as a picture in SVG.

interface Style {
  readonly color: string | undefined
  readonly background: string | undefined
  readonly bold: boolean
  readonly dim: boolean
  readonly italic: boolean
  readonly underline: boolean
  readonly reverse: boolean
}

const plain: Style = {
  color: undefined,
  background: undefined,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  reverse: false
}

const foreground = "#d7dae0"
const background = "#16181c"
const palette = [
  "#3b4048",
  "#e06c75",
  "#98c379",
  "#e5c07b",
  "#61afef",
  "#c678dd",
  "#56b6c2",
  "#d7dae0",
  "#7f848e",
  "#ff7b86",
  "#a9dc76",
  "#ffd68a",
  "#7cc4ff",
  "#d794f0",
  "#66d9e8",
  "#ffffff"
]

/** Colour number 0 to 255 of a terminal. */
const readIndexed = (index: number): string => {
  const named = palette[index]
  if (named !== undefined) return named
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + 10 * (index - 232))
      .join(",")})`
  const cube = index - 16
  const level = (value: number): number => (value === 0 ? 0 : 55 + 40 * value)
  return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level).join(",")})`
}

const flags: Readonly<Record<number, Partial<Style>>> = {
  0: plain,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { reverse: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { reverse: false },
  39: { color: undefined },
  49: { background: undefined }
}

/** The style after one sequence of numbers. */
const applyCodes = (style: Style, codes: ReadonlyArray<number>): Style => {
  const [code = 0, kind, first = 0, green = 0, blue = 0] = codes
  if (codes.length === 0) return style
  const known = flags[code]
  if (known !== undefined) return applyCodes({ ...style, ...known }, codes.slice(1))
  if (code === 38 || code === 48) {
    const key = code === 38 ? "color" : "background"
    const value = kind === 5 ? readIndexed(first) : `rgb(${first},${green},${blue})`
    return applyCodes({ ...style, [key]: value }, codes.slice(kind === 5 ? 3 : 5))
  }
  const at = (start: number, bright: number): string | undefined =>
    code >= start && code < start + 8
      ? palette[code - start]
      : code >= bright && code < bright + 8
        ? palette[code - bright + 8]
        : undefined
  const color = at(30, 90) ?? style.color
  return applyCodes({ ...style, color, background: at(40, 100) ?? style.background }, codes.slice(1))
}

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

const width = 8.4
const height = 19

/** The picture of the lines of a screen with so many columns. */
export const renderScreen = (screen: string, columns: number, title: string): string => {
  let style = plain
  const lines = screen.trimEnd().split("\n")
  const texts: Array<string> = []
  const blocks: Array<string> = []
  for (const [row, line] of lines.entries()) {
    let column = 0
    // eslint-disable-next-line no-control-regex -- these are the sequences of a terminal
    for (const piece of line.split(/(\u001b\[[\d;:]*m)/)) {
      // eslint-disable-next-line no-control-regex -- as above
      const found = /^\u001b\[([\d;:]*)m$/.exec(piece)
      if (found !== null) {
        style = applyCodes(style, (found[1] || "0").split(/[;:]/).map(Number))
        continue
      }
      if (piece === "") continue
      const fill = style.reverse ? (style.background ?? background) : (style.color ?? foreground)
      const behind = style.reverse ? (style.color ?? foreground) : style.background
      const x = column * width
      const length = Array.from(piece).length
      if (behind !== undefined)
        blocks.push(
          `<rect x="${x.toFixed(1)}" y="${row * height}" width="${(length * width).toFixed(1)}" height="${height}" fill="${behind}"/>`
        )
      const shown = piece.trim()
      if (shown !== "") {
        const from = x + (piece.length - piece.trimStart().length) * width
        const extent = Array.from(shown).length * width
        const weight = style.bold ? ' font-weight="bold"' : ""
        const marks = `${weight}${style.italic ? ' font-style="italic"' : ""}${style.underline ? ' text-decoration="underline"' : ""}${style.dim ? ' opacity=".6"' : ""}`
        texts.push(
          `<text x="${from.toFixed(1)}" y="${row * height + 14}" fill="${fill}" textLength="${extent.toFixed(1)}"${marks}>${escape(shown)}</text>`
        )
      }
      column += length
    }
  }
  const w = Math.ceil(columns * width) + 32
  const h = lines.length * height + 56
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img" aria-label="${escape(title)}">
<rect width="${w}" height="${h}" rx="8" fill="${background}"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
<g transform="translate(16 40)" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" xml:space="preserve">
${blocks.join("\n")}
${texts.join("\n")}
</g>
</svg>
`
}
