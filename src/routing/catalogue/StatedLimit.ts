/**
 * How large a window is, from the words in which a provider refuses a conversation that does not fit. Pure.
 *
 * **Details**
 *
 * Exact wordings come first, general ones after them; a number counts when it can be a window. A provider that says by how
 * much it is too much, and nothing else, has stated no limit but is known to have meant the one it has.
 *
 * Source: `hermes-llm.md` §11.2.
 *
 * @since 0.1.0
 */
import * as ModelList from "./ModelList.ts"

/** What a refusal says of the limit. */
export type Stated =
  | { readonly _tag: "Tokens"; readonly tokens: number }
  /** Only by how much it is exceeded, or a code. */
  | { readonly _tag: "Excess" }
  | { readonly _tag: "Nothing" }

const n = "([\\d][\\d,_]{3,})"

const wording = (pattern: string): RegExp => new RegExp(pattern.replaceAll("#", n))

const exact: ReadonlyArray<RegExp> = [
  "maximum (?:context|prompt|model|input|sequence)(?: token)? length (?:is|of|for this model is)?:? ?(?:only )?\\(?#",
  "# maximum context length",
  "maximum number of (?:input )?tokens(?: allowed)? ?(?:is|of)? ?\\(?#",
  "context length of only #",
  "> ?# ?(?:maximum|max|limit|tokens?|\\b)",
  "exceed(?:s|ed)?(?: the| model)*(?: available)? (?:token limit|limit|maximum|max|context window|context size|context limit)(?: of|:)? ?\\(?#",
  "input length should be \\[\\d+, ?#\\]",
  "must be <= ?#",
  "(?:less|fewer|no more) than #",
  "cannot exceed #",
  "n_ctx['\"]?[ :=]+#"
].map(wording)

const general: ReadonlyArray<RegExp> = [
  "(?:max(?:imum)?|limit)[^.\\d]{0,40}(?:context|length|size|window)[^.\\d]{0,24}#",
  "context (?:length|size|window|limit)[^.\\d]{0,24}#",
  "上下文长度[^\\d]{0,12}#",
  "最大长度[^\\d]{0,12}#",
  "# tokens? (?:context|limit)",
  "# maximum"
].map(wording)

/** MiniMax: the number behind it is a code. */
const excess = /context window exceeds limit|exceeds? (?:the )?(?:context|limit) by [\d,]+/

const first = (patterns: ReadonlyArray<RegExp>, text: string): number | undefined => {
  for (const pattern of patterns) {
    const found = pattern.exec(text)?.[1]
    const tokens = found === undefined ? undefined : ModelList.plausible(Number(found.replaceAll(/[,_]/g, "")))
    if (tokens !== undefined) return tokens
  }
  return undefined
}

/** See the module. */
export const read = (message: string): Stated => {
  const text = message.toLowerCase()
  if (excess.test(text)) return { _tag: "Excess" }
  const tokens = first(exact, text) ?? first(general, text)
  return tokens === undefined ? { _tag: "Nothing" } : { _tag: "Tokens", tokens }
}
