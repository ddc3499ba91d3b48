/**
 * Recognizes tool calls that a model wrote as the text of its answer, in the notation of its chat template. Servers
 * whose parser fails, or that have none, pass such text on as an answer.
 *
 * **Details**
 *
 * Only an answer that consists of calls of offered tools is recognized. An answer that explains or quotes such a
 * notation has other text, too. A recognized call is never executed, because its arguments may be incomplete: the model
 * is asked again.
 */

/** A notation: its beginning, its end, and the names in it. */
interface Notation {
  readonly begin: RegExp
  readonly end: RegExp
  readonly names: RegExp
}

const named = /["']name["']\s*:\s*["']([\w.-]+)["']|<function=([\w.-]+)/g

const notations: ReadonlyArray<Notation> = [
  // Hermes, Qwen, GLM
  {
    begin: /^<tool_call>/,
    end: /<\/tool_call>$/,
    names: /["']name["']\s*:\s*["']([\w.-]+)["']|<function=([\w.-]+)|<tool_call>\s*([\w.-]+)\s*(?=\n|<arg_key>)/g
  },
  // Llama, Qwen Coder
  { begin: /^<function=[\w.-]+/, end: /(<\/function>|\}>?)$/, names: named },
  // Claude's older notation
  { begin: /^<(function_calls|invoke name=)/, end: /<\/(function_calls|invoke)>$/, names: /<invoke name="([\w.-]+)"/g },
  // Llama 3, Mistral
  { begin: /^<\|python_tag\|>/, end: /(\}|<\|eo[mt](_id)?\|>)$/, names: named },
  {
    begin: /^\[TOOL_CALLS\]/,
    end: /[\]}]$/,
    names: /["']name["']\s*:\s*["']([\w.-]+)["']|\[TOOL_CALLS\]\s*([\w.-]+)\s*[[{]/g
  },
  // DeepSeek, Kimi
  { begin: /^<[|｜]tool[▁_]calls?[▁_]begin[|｜]>/, end: /[|｜]>$/, names: /tool[▁_]sep[|｜]>\s*([\w.-]+)/g },
  {
    begin: /^<\|tool_calls_section_begin\|>/,
    end: /<\|tool_calls?_(section_)?end\|>$/,
    names: /functions\.([\w.-]{1,128}?):\d+/g
  }
]

/** Matches text after the closing mark of a call. */
const textBetween = /<\/(?:tool_call|function|invoke|function_calls)>\s*[^\s<]/

/** Longest text that is examined, in characters. */
const longest = 200_000

const listNames = ({ names }: Notation, text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(names), ([, ...groups]) => groups.find((name) => name !== undefined) ?? "")

/**
 * Returns the name of the first called tool if a text consists of tool calls in the notation of a chat template, and
 * the tool is offered.
 */
export const findLeakedCall = (text: string, tools: ReadonlyArray<string>): string | undefined => {
  const trimmed = text.trim()
  const first = trimmed[0]
  if ((first !== "<" && first !== "[") || trimmed.length > longest) return undefined
  const notation = notations.find(({ begin, end }) => begin.test(trimmed) && end.test(trimmed))
  if (notation === undefined) return undefined
  const [name] = listNames(notation, trimmed)
  return name !== undefined && tools.includes(name) && !textBetween.test(trimmed) ? name : undefined
}
