/**
 * Parses the tool calls that a model wrote as text, for servers that return the text as it was sampled.
 *
 * **Details**
 *
 * | parser | form |
 * | --- | --- |
 * | `hermes`, `qwen` | `<tool_call>{"name": …, "arguments": {…}}</tool_call>` |
 * | `longcat` | the same in `<longcat_tool_call>`, or with `<longcat_arg_key>` and `<longcat_arg_value>` |
 * | `mistral` | `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name{…}` for each call, also with `[ARGS]` |
 * | `llama3_json` | `{"name": …, "parameters": {…}}`, several with `;` between, also after `<\|python_tag\|>` |
 * | `qwen3_coder` | `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>` |
 * | `deepseek` | V3: `function`, separator, name, fenced JSON; V3.1: name, separator, JSON |
 * | `kimi` | `<\|tool_call_begin\|>functions.name:0<\|tool_call_argument_begin\|>{…}<\|tool_call_end\|>` |
 * | `glm` | `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>` |
 *
 * A call that is truncated at the end is ignored, unless its JSON is complete. Other text is preserved. Text without a
 * call is returned unchanged. Values that are not written as JSON (`qwen3_coder`, `glm`, `longcat`) are converted to
 * the type that the tool's schema specifies.
 *
 * **Example** (A call of a Hermes model)
 *
 * ```ts
 * import { ToolCallParser } from "hermes-effect/rollouts"
 *
 * const { calls } = ToolCallParser.parsers.hermes('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', [])
 * console.log(calls[0]?.name, calls[0]?.arguments)
 * // => add {"a":1}
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Option from "effect/Option"
import * as Json from "../../base/domain/Json.ts"

/** A tool call as a model wrote it. */
export interface ParsedCall {
  readonly name: string
  /** Arguments as the JSON text of an object. */
  readonly arguments: string
  /** Id assigned by the model. Absent if the format has no ids. */
  readonly id?: string | undefined
}

/** Text of an answer without its calls, and the calls. */
export interface ParsedAnswer {
  readonly content: string
  readonly calls: ReadonlyArray<ParsedCall>
}

/** Parses the text of an answer. `tools` contains the tools of the request in chat completions format. */
export type Parser = (text: string, tools: ReadonlyArray<unknown>) => ParsedAnswer

const makeWithoutCalls = (text: string): ParsedAnswer => ({ content: text, calls: [] })

/**
 * Makes a parsed answer from the calls and the text before the first call. If there are no calls, it contains the whole
 * text.
 */
const makeResult = (text: string, start: number, calls: ReadonlyArray<ParsedCall>): ParsedAnswer =>
  calls.length === 0 ? makeWithoutCalls(text) : { content: text.slice(0, start).trim(), calls }

/** Returns the call that an object with a name and arguments describes, as a list. */
const toCalls = (value: unknown): ReadonlyArray<ParsedCall> => {
  const { arguments: own, name, parameters } = Json.readFields(value)
  const given = own ?? parameters ?? {}
  const args = typeof given === "string" ? Json.parseOrKeep(given) : given
  return typeof name === "string" && name !== "" && Json.isFields(args)
    ? [{ name, arguments: JSON.stringify(args) }]
    : []
}

const parseJsonCalls = (text: string): ReadonlyArray<ParsedCall> => {
  const value = Option.getOrUndefined(Json.parse(text.trim()))
  return Array.isArray(value) ? value.flatMap(toCalls) : toCalls(value)
}

/** Returns the end of the JSON value that begins at a position, or `undefined` if it is incomplete. */
const findJsonEnd = (text: string, from: number): number | undefined => {
  let depth = 0
  let isText = false
  for (let at = from; at < text.length; at++) {
    const character = text[at]
    if (isText) {
      if (character === "\\") at++
      else if (character === '"') isText = false
    } else if (character === '"') isText = true
    else if (character === "{" || character === "[") depth++
    else if (character === "}" || character === "]") {
      depth--
      if (depth === 0) return at + 1
    }
  }
  return undefined
}

/** Returns the contents of all elements with a given tag, in order. The last element may lack its closing tag. */
const findElements = (
  text: string,
  open: string,
  close: string
): ReadonlyArray<{ readonly inside: string; readonly isClosed: boolean }> => {
  const found: Array<{ readonly inside: string; readonly isClosed: boolean }> = []
  for (let from = text.indexOf(open); from !== -1;) {
    const start = from + open.length
    const end = text.indexOf(close, start)
    found.push({ inside: text.slice(start, end === -1 ? undefined : end), isClosed: end !== -1 })
    from = end === -1 ? -1 : text.indexOf(open, end + close.length)
  }
  return found
}

/** Returns the types of a tool's arguments, by argument name. */
const readTypes = (tools: ReadonlyArray<unknown>, name: string): Json.Fields => {
  const tool = tools.map((one) => Json.readFields(Json.readFields(one)["function"])).find((one) => one["name"] === name)
  return Json.readFields(Json.readFields(tool?.["parameters"])["properties"])
}

/** Converts a value that was written without quotes to the type that the schema specifies. */
const toTypedValue = (text: string, schema: unknown): unknown => {
  const { type } = Json.readFields(schema)
  if (type === "string") return text
  const value = Json.parseOrKeep(text.trim())
  return typeof value === "string" ? text : value
}

const encodeArguments = (entries: ReadonlyArray<readonly [string, string]>, types: Json.Fields): string =>
  JSON.stringify(Object.fromEntries(entries.map(([key, value]) => [key, toTypedValue(value, types[key])])))

const makeTagParser =
  (open: string, close: string): Parser =>
  (text) =>
    makeResult(
      text,
      text.indexOf(open),
      findElements(text, open, close).flatMap(({ inside }) => parseJsonCalls(inside))
    )

/** Reads pairs that each consist of a key element and the value element after it. */
const readPairs = (key: string, value: string, inside: string): ReadonlyArray<readonly [string, string]> =>
  inside
    .split(`<${key}>`)
    .slice(1)
    .flatMap((pair) => {
      const [name = "", rest = ""] = pair.split(`</${key}>`, 2)
      const [, text = ""] = rest.split(`<${value}>`, 2)
      const end = text.indexOf(`</${value}>`)
      return end === -1 ? [] : [[name.trim(), text.slice(0, end)] as const]
    })

/** Makes a parser for calls whose name, keys and values are written as separate elements. */
const makeElementParser =
  (open: string, close: string, key: string, value: string): Parser =>
  (text, tools) =>
    makeResult(
      text,
      text.indexOf(open),
      findElements(text, open, close).flatMap(({ inside, isClosed }) => {
        const [name = ""] = inside.split(`<${key}>`, 1)
        const called = name.trim()
        return !isClosed || !/^[\w.:-]+$/u.test(called)
          ? []
          : [{ name: called, arguments: encodeArguments(readPairs(key, value, inside), readTypes(tools, called)) }]
      })
    )

const parseHermes = makeTagParser("<tool_call>", "</tool_call>")

const longcatTag = ["<longcat_tool_call>", "</longcat_tool_call>"] as const

const parseLongcat: Parser = (text, tools) => {
  const json = makeTagParser(...longcatTag)(text, tools)
  return json.calls.length > 0
    ? json
    : makeElementParser(...longcatTag, "longcat_arg_key", "longcat_arg_value")(text, tools)
}

const parseMistral: Parser = (text) => {
  const marker = "[TOOL_CALLS]"
  const [content = "", ...blocks] = text.split(marker)
  const calls = blocks.flatMap((block) => {
    if (/^\s*[[{]/u.test(block)) {
      const start = block.search(/[[{]/u)
      return parseJsonCalls(block.slice(start, findJsonEnd(block, start)))
    }
    const [whole = "", name = ""] = /^\s*([\w.:-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)/u.exec(block) ?? []
    const end = whole === "" ? undefined : findJsonEnd(block, whole.length)
    return end === undefined ? [] : toCalls({ name, arguments: Json.parseOrKeep(block.slice(whole.length, end)) })
  })
  return makeResult(text, content.length, calls)
}

const parseLlama: Parser = (text) => {
  const start = text.search(/(?:<\|python_tag\|>\s*)?\{/u)
  const calls: Array<ParsedCall> = []
  for (let from = text.indexOf("{"); from !== -1;) {
    const end = findJsonEnd(text, from)
    if (end === undefined) break
    const found = parseJsonCalls(text.slice(from, end))
    if (found.length === 0) break
    calls.push(...found)
    const [between = ""] = /^\s*(?:;|<\|python_tag\|>)?\s*/u.exec(text.slice(end)) ?? []
    from = text[end + between.length] === "{" ? end + between.length : -1
  }
  return makeResult(text, start, calls)
}

const parseQwenCoder: Parser = (text, tools) => {
  const start = text.search(/(?:<tool_call>\s*)?<function=/u)
  const calls = findElements(text, "<function=", "</function>").flatMap(
    ({ inside, isClosed }): ReadonlyArray<ParsedCall> => {
      const [head = "", ...parameters] = inside.split("<parameter=")
      const name = head.split(">", 1)[0]?.trim() ?? ""
      const entries = parameters.map((parameter) => {
        const [key = ""] = parameter.split(">", 1)
        const [value = ""] = parameter.slice(key.length + 1).split("</parameter>", 1)
        return [key.trim(), value.replace(/^\n/u, "").replace(/\n$/u, "")] as const
      })
      return !isClosed || name === "" ? [] : [{ name, arguments: encodeArguments(entries, readTypes(tools, name)) }]
    }
  )
  return makeResult(text, start, calls)
}

const parseDeepseek: Parser = (text) => {
  const start = text.search(/<｜tool▁calls?▁begin｜>/u)
  const calls = findElements(text, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>").flatMap(({ inside }) => {
    const [head = "", ...rest] = inside.split("<｜tool▁sep｜>")
    const body = rest.join("<｜tool▁sep｜>")
    // In V3, the kind comes first, and the function name is on the line before a code fence.
    const [, named, fenced] = /^\s*([^\n]+?)\s*\n```(?:json)?\s*\n([^]*?)\n?```\s*$/u.exec(body) ?? []
    return toCalls({ name: (named ?? head).trim(), arguments: Json.parseOrKeep((fenced ?? body).trim()) })
  })
  return makeResult(text, start, calls)
}

const parseKimi: Parser = (text) => {
  const start = text.search(/<\|tool_calls?_(?:section_)?begin\|>/u)
  const calls = findElements(text, "<|tool_call_begin|>", "<|tool_call_end|>").flatMap(({ inside }) => {
    const [head = "", body = ""] = inside.split("<|tool_call_argument_begin|>")
    const id = head.trim()
    // Example: `functions.get_weather:0`.
    const name = id.replace(/:\d+$/u, "").replace(/^functions\./u, "")
    return toCalls({ name, arguments: Json.parseOrKeep(body.trim()) }).map((call) => ({ ...call, id }))
  })
  return makeResult(text, start, calls)
}

/** All parsers, by name. */
export const parsers = {
  hermes: parseHermes,
  qwen: parseHermes,
  longcat: parseLongcat,
  mistral: parseMistral,
  llama3_json: parseLlama,
  qwen3_coder: parseQwenCoder,
  deepseek: parseDeepseek,
  kimi: parseKimi,
  glm: makeElementParser("<tool_call>", "</tool_call>", "arg_key", "arg_value")
} satisfies Record<string, Parser>

/** Other names that inference servers use for the parsers above, often for certain model versions. */
const aliases: Readonly<Record<string, keyof typeof parsers>> = {
  deepseek_v3: "deepseek",
  deepseek_v3_1: "deepseek",
  deepseek_v31: "deepseek",
  kimi_k2: "kimi",
  glm45: "glm",
  glm47: "glm"
}

/** Names of the available parsers. */
export const names: ReadonlyArray<string> = Object.keys(parsers)

/** Returns the parser with the given name, or `undefined` if the name is unknown. */
export const find = (name: string): Parser | undefined => {
  const own = Object.hasOwn(aliases, name) ? (aliases[name] ?? name) : name
  return Object.entries(parsers).find(([known]) => known === own)?.[1]
}
