// Highlighted code of the documentation: HTML with a class for each kind of token.
import * as Languages from "@speed-highlight/core/languages"
import { type ShjLanguageData, tokenizeWith } from "@speed-highlight/core/tokenize"

// The values are languages according to the library's documentation; its types differ only in optional members.
const languages = { ...Languages } as unknown as Readonly<Record<string, ShjLanguageData>>

const names: Readonly<Record<string, string>> = { jsonc: "json", sh: "bash", tsx: "ts", typescript: "ts", yml: "yaml" }

export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/** The code as HTML. The text stays as it is; an unknown language has no marks. */
export const highlightHtml = (code: string, language: string): string => {
  const known = languages[names[language] ?? language]
  if (known === undefined) return escapeHtml(code)
  const html: Array<string> = []
  const write = (text: string, kind: string | undefined): void => {
    html.push(kind === undefined ? escapeHtml(text) : `<span class="${kind}">${escapeHtml(text)}</span>`)
  }
  tokenizeWith(code, known, write, { languages })
  return html.join("")
}

/** Styles of the tokens, for light and dark pages. */
export const highlightStyle = `.cmnt{color:light-dark(#63707d,#8b98a5)}.kwd,.section{color:light-dark(#9a2570,#f09bd0)}.str{color:light-dark(#1c6b3c,#8fd6a4)}
.num,.bool,.esc{color:light-dark(#8a4b00,#f0b775)}.func,.type,.class{color:light-dark(#2453b8,#9dbcff)}.insert{color:light-dark(#1c6b3c,#8fd6a4)}.deleted{color:light-dark(#a1242b,#ff9a9a)}`
