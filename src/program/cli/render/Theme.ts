/**
 * Themes: the look of each role that a piece of text can have. Views name roles (`paint.text(line, "muted")`); a theme
 * maps them to escape codes. Pure data, so that the theme can change while output is shown.
 *
 * **Details**
 *
 * The dark theme uses the sixteen colours of the terminal, as chosen by the user. The light theme replaces the colours
 * that are illegible on a light background with fixed colours, and the high-contrast theme does not dim text. `auto`
 * chooses by the terminal's background: its answer to a query (OSC 11), else `COLORFGBG`, else dark.
 *
 * A colour is one of the sixteen names (`red`, `bright-red`), a number from the 256-colour palette, or `#rrggbb`;
 * `bold`, `italic`, `underline` and `dim` may precede it: `bold #ff8800`.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Result from "effect/Result"
import { findNearest } from "../../../base/domain/Similarity.ts"

/** Roles of text. */
const roles = [
  "muted",
  "accent",
  "heading",
  "link",
  "success",
  "warning",
  "error",
  "added",
  "removed",
  "keyword",
  "string",
  "comment",
  "number"
] as const

/** A role of text; see {@link roles}. */
export type Role = (typeof roles)[number]

/** The look of each role, as the parameters of an escape sequence. An empty string has no effect. */
export interface Theme {
  readonly name: string
  readonly codes: Readonly<Record<Role, string>>
}

/** The theme in use. */
export interface CurrentTheme {
  value: Theme
}

/** The default theme, with colours of the terminal's own palette. */
export const dark: Theme = {
  name: "dark",
  codes: {
    muted: "2",
    accent: "36",
    heading: "35",
    link: "34",
    success: "32",
    warning: "33",
    error: "31",
    added: "32",
    removed: "31",
    keyword: "35",
    string: "32",
    comment: "2",
    number: "36"
  }
}

/** Theme with colours that are legible on white. */
export const light: Theme = {
  name: "light",
  codes: {
    muted: "38;5;242",
    accent: "38;5;25",
    heading: "38;5;90",
    link: "38;5;26",
    success: "38;5;22",
    warning: "38;5;94",
    error: "38;5;124",
    added: "38;5;22",
    removed: "38;5;124",
    keyword: "38;5;90",
    string: "38;5;22",
    comment: "38;5;242",
    number: "38;5;25"
  }
}

/**
 * Creates a theme without dim text, in which important text is also bold or underlined. Its colours are legible on
 * black and on white.
 */
export const makeHighContrast = (background: Background): Theme => {
  const formatColour = (name: number): string => (background === "dark" ? `1;${90 + name}` : `1;${30 + name}`)
  return {
    name: "high-contrast",
    codes: {
      muted: "",
      accent: background === "dark" ? formatColour(6) : formatColour(4),
      heading: "1;4",
      link: "4",
      success: formatColour(2),
      warning: background === "dark" ? formatColour(3) : formatColour(5),
      error: `${formatColour(1)};4`,
      added: formatColour(2),
      removed: formatColour(1),
      keyword: "1",
      string: "",
      comment: "",
      number: ""
    }
  }
}

/** Background of a terminal. */
export type Background = "dark" | "light"

/** Values of `display.theme` that do not name a custom theme. */
export const builtin = ["auto", "dark", "light", "high-contrast"] as const

const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
const looks: ReadonlyMap<string, string> = new Map([
  ["bold", "1"],
  ["dim", "2"],
  ["italic", "3"],
  ["underline", "4"]
])

const parseColour = (word: string): string | undefined => {
  const bright = word.startsWith("bright-")
  const index = names.indexOf(bright ? word.slice(7) : word)
  if (index >= 0) return String((bright ? 90 : 30) + index)
  if (/^\d{1,3}$/.test(word) && Number(word) <= 255) return `38;5;${Number(word)}`
  const [, red, green, blue] = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(word) ?? []
  return red === undefined || green === undefined || blue === undefined
    ? undefined
    : `38;2;${[red, green, blue].map((part) => parseInt(part, 16)).join(";")}`
}

/** Parses a configured look to the parameters of an escape sequence, or returns `undefined` if it is invalid. */
export const parseCodes = (look: string): string | undefined => {
  const words = look.trim().toLowerCase().split(/\s+/)
  if (words.length === 1 && words[0] === "default") return ""
  const codes = words.map(
    (word, index) => looks.get(word) ?? (index === words.length - 1 ? parseColour(word) : undefined)
  )
  return codes.every((code) => code !== undefined) ? codes.join(";") : undefined
}

/** A custom theme in the settings: a built-in theme with some roles changed. */
export type CustomTheme = { readonly [R in Role]?: string | undefined } & {
  readonly base: "dark" | "light" | "high-contrast"
}

/** Theme options in the settings. */
export interface ThemeSettings {
  readonly theme: string
  readonly themes: Readonly<Record<string, CustomTheme>>
}

const getBuiltinTheme = (name: "dark" | "light" | "high-contrast", background: Background): Theme =>
  name === "dark" ? dark : name === "light" ? light : makeHighContrast(background)

const makeCustomTheme = (name: string, given: CustomTheme, background: Background): Theme => {
  const { codes } = getBuiltinTheme(given.base, background)
  const own = roles.flatMap((role) => {
    const look = given[role]
    const read = look === undefined ? undefined : parseCodes(look)
    return read === undefined ? [] : [[role, read] as const]
  })
  return { name, codes: { ...codes, ...Object.fromEntries(own) } }
}

/** Finds the theme with this name. Fails with the name if it is unknown. */
export const find = (
  name: string,
  { themes }: Pick<ThemeSettings, "themes">,
  background: Background
): Result.Result<Theme, string> => {
  if (Object.hasOwn(themes, name) && themes[name] !== undefined)
    return Result.succeed(makeCustomTheme(name, themes[name], background))
  if (name === "auto") return Result.succeed(getBuiltinTheme(background, background))
  return name === "dark" || name === "light" || name === "high-contrast"
    ? Result.succeed(getBuiltinTheme(name, background))
    : Result.fail(name)
}

/** Query for the background of a terminal. The answer is not awaited, because some terminals do not send it. */
export const query = "\u001b]11;?\u0007"

/**
 * Parses the background from a terminal's answer (`11;rgb:ffff/ffff/ffff`), or returns `undefined` if the text is
 * another report.
 */
export const parseBackground = (report: string): Background | undefined => {
  const parts = /^11;rgba?:([0-9a-f]{1,4})\/([0-9a-f]{1,4})\/([0-9a-f]{1,4})/i.exec(report)?.slice(1)
  if (parts === undefined) return undefined
  const [red = 0, green = 0, blue = 0] = parts.map((part) => parseInt(part, 16) / (16 ** part.length - 1))
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 ? "light" : "dark"
}

/** Reads the background from `COLORFGBG` (`15;0`). Default: dark. */
export const readBackground = (variables: Readonly<Record<string, string | undefined>>): Background => {
  const number = Number(variables["COLORFGBG"]?.split(";").at(-1) || Number.NaN)
  return number === 7 || (number > 8 && number <= 15) ? "light" : "dark"
}

/** Applies the configured theme. Returns a warning if it does not exist. */
export const use = (
  settings: ThemeSettings,
  background: Background,
  ...paints: ReadonlyArray<{ readonly theme?: CurrentTheme | undefined }>
): string | undefined => {
  const found = find(settings.theme, settings, background)
  for (const { theme } of paints) if (theme !== undefined && Result.isSuccess(found)) theme.value = found.success
  if (Result.isSuccess(found)) return undefined
  const near = findNearest(settings.theme, [...builtin, ...Object.keys(settings.themes)])
  return (
    "display.theme: unknown theme " +
    `"${settings.theme}"${near === undefined ? `: it is ${builtin.join(", ")} or a name of display.themes` : `: did you mean "${near}"?`}`
  )
}

/** Creates the initial theme of a program, before the settings are known. */
export const makeCurrentTheme = (): CurrentTheme => ({ value: dark })
