/**
 * Syntax highlighting of code with the small tokenizer of `@speed-highlight/core`. It is loaded with the Markdown
 * parser, when the first text is rendered.
 *
 * Text is never changed: without its styles, the output equals the input. An unknown language, and code that exceeds
 * the length limit, are not highlighted.
 *
 * Source: `hermes-product.md` §1.8.
 */
import { type ShjLanguageData, type ShjToken, tokenizeWith } from "@speed-highlight/core/tokenize"
import * as Languages from "@speed-highlight/core/languages"
import { type Attribute, plainStyle, type Span, type Style } from "./Paint.ts"

/**
 * Maximum number of characters of highlighted code, and maximum number in one line. The tokenizer's expressions may be
 * slow on longer text.
 */
const mostCharacters = 20_000
const longestLine = 1000

// The values are languages according to the library's documentation; its types differ only in optional members that may
// be `undefined`.
const languages = { ...Languages } as unknown as Readonly<Record<string, ShjLanguageData>>

/** Common aliases of languages, by their names in the library. */
const names: Readonly<Record<string, string>> = {
  console: "bash",
  "c++": "c",
  cpp: "c",
  cjs: "js",
  cts: "ts",
  dockerfile: "docker",
  golang: "go",
  h: "c",
  htm: "html",
  javascript: "js",
  jsonc: "json",
  jsonl: "json",
  jsx: "js",
  makefile: "make",
  mjs: "js",
  mts: "ts",
  patch: "diff",
  perl: "pl",
  python: "py",
  rust: "rs",
  sh: "bash",
  shell: "bash",
  svg: "xml",
  tsx: "ts",
  typescript: "ts",
  yml: "yaml",
  zsh: "bash"
}

/** Languages whose highlighting is not useful on a terminal. */
const unmarked = new Set(["csv", "git", "leanpubMd", "log", "md", "plain", "todo", "uri"])

const attributes: Readonly<Record<ShjToken, ReadonlyArray<Attribute>>> = {
  bool: ["number"],
  class: ["accent"],
  cmnt: ["comment"],
  deleted: ["removed"],
  err: ["error"],
  esc: ["number"],
  func: ["accent"],
  insert: ["added"],
  kwd: ["keyword"],
  num: ["number"],
  oper: [],
  section: ["keyword"],
  str: ["string"],
  type: ["accent"],
  var: []
}

const findStyle = (token: ShjToken | undefined): Style => {
  const found = token === undefined ? [] : attributes[token]
  return found.length === 0 ? plainStyle : { attributes: found }
}

/** Returns the language for a name or a file extension, or `undefined` if it is unknown. */
const findLanguage = (name: string): ShjLanguageData | undefined => {
  const lower = name.toLowerCase()
  const known = Object.hasOwn(names, lower) ? (names[lower] ?? lower) : lower
  return unmarked.has(known) || !Object.hasOwn(languages, known) ? undefined : languages[known]
}

/** Returns the lines of code, each divided into pieces of one style. */
export const highlightLines = (code: string, name: string): ReadonlyArray<ReadonlyArray<Span>> => {
  const splitPlain = () => code.split("\n").map((text): ReadonlyArray<Span> => [{ text, style: plainStyle }])
  const language = findLanguage(name)
  if (language === undefined || code.length > mostCharacters) return splitPlain()
  if (code.split("\n").some((line) => line.length > longestLine)) return splitPlain()
  const found: Array<Array<Span>> = [[]]
  tokenizeWith(
    code,
    language,
    (text, token) => {
      const style = findStyle(token)
      for (const [index, part] of text.split("\n").entries()) {
        if (index > 0) found.push([])
        if (part !== "") found.at(-1)?.push({ text: part, style })
      }
    },
    { languages }
  )
  return found
}
