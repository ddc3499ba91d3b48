/**
 * Colours and links on a terminal, if supported. Every view uses a `Paint` for them, and only `Paint` adds escape
 * sequences to text.
 *
 * A view names roles (`muted`, `error`), and the theme defines their appearance. Each piece of text has its own start
 * and reset sequences, so the text after it starts with the terminal's defaults.
 */
import * as Theme from "./Theme.ts"

const shapes = { bold: "1", italic: "3", underline: "4", strike: "9" } as const

/** Maps colour names to roles. */
const colours = {
  dim: "muted",
  red: "error",
  green: "success",
  yellow: "warning",
  blue: "link",
  magenta: "heading",
  cyan: "accent"
} as const

/** Attribute of the appearance of text: a shape, a colour, or a role of the theme. */
export type Attribute = keyof typeof shapes | keyof typeof colours | Theme.Role

const isShape = (attribute: Attribute): attribute is keyof typeof shapes => Object.hasOwn(shapes, attribute)
const isColour = (attribute: Attribute): attribute is keyof typeof colours => Object.hasOwn(colours, attribute)

const findCode = (attribute: Attribute, { codes }: Theme.Theme): string =>
  isShape(attribute) ? shapes[attribute] : codes[isColour(attribute) ? colours[attribute] : attribute]

/** Style and link of a piece of text. */
export interface Style {
  readonly attributes: ReadonlyArray<Attribute>
  /** Target address of the link. */
  readonly link?: string | undefined
  /** Parameters of the escape sequence with which the text was painted; see {@link parseSpans}. */
  readonly codes?: string | undefined
}

/** Text without any style. */
export const plainStyle: Style = { attributes: [] }

/** A piece of text in one style. */
export interface Span {
  readonly text: string
  readonly style: Style
}

/** Capabilities of the stream. */
export interface Options {
  readonly color: boolean
  /** True if the stream supports links (OSC 8). */
  readonly hyperlinks: boolean
  /** The current theme; `undefined` for the dark theme. */
  readonly theme?: Theme.CurrentTheme | undefined
}

/** Functions that add the colours and attributes of a terminal to a text. */
export interface Paint extends Options {
  readonly text: (text: string, ...attributes: ReadonlyArray<Attribute>) => string
  readonly span: (text: string, style: Style) => string
}

/** Returns true if a link may be clickable: only http, https and mailto. */
export const isSafeLink = (url: string): boolean => /^(?:https?:\/\/|mailto:)\S+$/i.test(url)

const linkText = (text: string, url: string): string =>
  `\u001b]8;;${encodeURI(url).replaceAll("%25", "%")}\u001b\\${text}\u001b]8;;\u001b\\`

/** Creates a paint for a stream with the given capabilities. */
export const make = (options: Options): Paint => {
  const { color, theme = Theme.makeCurrentTheme() } = options
  const paintText: Paint["text"] = (text, ...attributes) => {
    if (!color || attributes.length === 0 || text === "") return text
    const codes = attributes.map((attribute) => findCode(attribute, theme.value)).filter((code) => code !== "")
    return codes.length === 0 ? text : `\u001b[${codes.join(";")}m${text}\u001b[0m`
  }
  return {
    ...options,
    text: paintText,
    span: (content, { attributes, codes, link }) => {
      const painted =
        codes === undefined || !color ? paintText(content, ...attributes) : `\u001b[${codes}m${content}\u001b[0m`
      return link === undefined || !options.hyperlinks ? painted : linkText(painted, link)
    }
  }
}

/** Paint that returns the text unchanged. */
export const plain: Paint = make({ color: false, hyperlinks: false })

const sequences = new RegExp(String.raw`\u001b(?:\[[\d;]*m|\]8;;[^\u001b]*\u001b\\)`, "g")

/** Removes the escape sequences that `Paint` added to text. */
export const strip = (painted: string): string => painted.replace(sequences, "")

const sequence = new RegExp(String.raw`\u001b(?:\[([\d;]*)m|\]8;;([^\u001b]*)\u001b\\)`, "g")

/** Parses text painted by `Paint` into pieces with their styles. */
export const parseSpans = (painted: string): ReadonlyArray<Span> => {
  const found: Array<Span> = []
  let codes: string | undefined
  let link: string | undefined
  let from = 0
  const addSpan = (to: number): void => {
    if (to > from) found.push({ text: painted.slice(from, to), style: { attributes: [], codes, link } })
  }
  for (const match of painted.matchAll(sequence)) {
    const [all, parameters, address] = match
    addSpan(match.index)
    from = match.index + all.length
    if (address !== undefined) link = address === "" ? undefined : address
    else codes = parameters === undefined || parameters === "" || parameters === "0" ? undefined : parameters
  }
  addSpan(painted.length)
  return found
}

/** Environment variables that describe the capabilities of a terminal. */
export interface Environment {
  readonly [name: string]: string | undefined
}

const linkingPrograms = new Set(["iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "Tabby", "rio"])

const knowsLinks = (env: Environment): boolean =>
  env["FORCE_HYPERLINK"] === undefined
    ? env["TMUX"] === undefined &&
      env["STY"] === undefined &&
      (linkingPrograms.has(env["TERM_PROGRAM"] ?? "") ||
        Number(env["VTE_VERSION"] ?? 0) >= 5000 ||
        env["KITTY_WINDOW_ID"] !== undefined ||
        env["WT_SESSION"] !== undefined ||
        /^(?:foot|alacritty|xterm-kitty|xterm-ghostty)/.test(env["TERM"] ?? ""))
    : env["FORCE_HYPERLINK"] !== "0"

/**
 * Detects the capabilities of a stream. A stream that is not a terminal has no capabilities. Colours are off if
 * `NO_COLOR` is set or the terminal does not support them.
 */
export const detectCapabilities = (terminal: boolean, env: Environment): Pick<Options, "color" | "hyperlinks"> => {
  const escapes = terminal && env["TERM"] !== "dumb"
  return { color: escapes && (env["NO_COLOR"] ?? "") === "", hyperlinks: escapes && knowsLinks(env) }
}
