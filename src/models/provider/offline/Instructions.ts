/**
 * Parses a user's message into a plan of tool calls and an answer. A dozen sentence patterns are recognized: the
 * prompts in the documentation, and instructions to read, list, search, run, write, delegate, call and reply.
 *
 * **Details**
 *
 * Quoted passages (`"…"`, `'…'`, backticks, fenced blocks) are replaced by placeholders first, so that punctuation
 * inside them never ends a sentence. The text after `reply with exactly:` extends to the end of the message, including
 * the final period; without the colon, the final period is not part of the text.
 *
 * **Gotchas**
 *
 * A sentence that matches no pattern is stored in `unclear`; the offline model replies that it did not follow this
 * sentence.
 */
import * as Option from "effect/Option"
import * as Json from "../../../base/domain/Json.ts"

/** One tool call to make. `content` is `undefined` if the output of the previous call is used. */
export type Task =
  | { readonly type: "read"; readonly path: string }
  | { readonly type: "list"; readonly path: string; readonly pattern: string }
  | { readonly type: "search"; readonly pattern: string; readonly path: string }
  | { readonly type: "run"; readonly command: string }
  | { readonly type: "write"; readonly path: string; readonly content: string | undefined }
  | { readonly type: "delegate"; readonly goal: string }
  | { readonly type: "call"; readonly tool: string; readonly arguments: Json.Fields }

/** The planned tool calls, one list for each assistant message, and the answer that follows them. */
export interface Plan {
  readonly steps: ReadonlyArray<ReadonlyArray<Task>>
  readonly answer:
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "output" }
    | { readonly type: "show" }
  /** Tools that must not be called. */
  readonly forbidden: ReadonlySet<string> | "all"
  /** Sentences that match no pattern. */
  readonly unclear: ReadonlyArray<string>
  readonly kind: "work" | "greeting" | "summary"
}

const open = "\uE000"
const close = "\uE001"
const quotation = /```(?:[\w-]*\n)?([^]*?)\n?```|"([^"]*)"|`([^`]*)`|“([^”]*)”|(?<!\w)'([^']*)'(?!\w)/g
const placeholder = /\uE000(\d+)\uE001/g

interface MaskedText {
  readonly text: string
  /** Returns the text with its original quotes. */
  readonly written: (text: string) => string
  /** Returns the original text, without the surrounding quotes if the whole text is one quotation. */
  readonly plain: (text: string) => string
}

const maskQuotations = (said: string): MaskedText => {
  const passages: Array<{ readonly whole: string; readonly inner: string }> = []
  const text = said
    .replaceAll(/[\uE000\uE001]/g, "")
    .replace(quotation, (whole, ...groups) => {
      const inner = groups.slice(0, 5).find((group) => typeof group === "string") ?? ""
      return `${open}${passages.push({ whole, inner }) - 1}${close}`
    })
    .replace(/\s*\n(?=\uE000)/g, " ")
  const restoreQuotations = (part: string): string =>
    part.replace(placeholder, (_, index) => passages[Number(index)]?.whole ?? "")
  return {
    text,
    written: restoreQuotations,
    plain: (part) => {
      const only = /^\uE000(\d+)\uE001[.!]?$/.exec(part.trim())
      return only === null ? restoreQuotations(part.trim()) : (passages[Number(only[1])]?.inner ?? "")
    }
  }
}

const injected = /^(?:[^]*?\byour task:\s*)([^]*?)(?:\n\n[^]*)?$/i

const dictated = new RegExp(
  "(?:^|[\\s,;])(?:(?:reply|respond|answer)(?: back)?(?: with)?|say|print|output|echo)\\s+" +
    "(?:(?:exactly|only|just|precisely|with|the single word|the word|this text)\\b\\s*)+(:?)\\s*([^]+)$|" +
    "(?:^|[.!?]\\s+)(?:please )?(?:say(?! (?:what|how|why|if)\\b)|repeat after me|echo back)(:?)\\s+([^]+)$",
  "i"
)

const outputWords =
  /^(?:the |its |their |what )?(?:\w+ )?(?:output|contents?|results?|text|it printed|it says|it returned)(?: of .*)?[.!]?$/i

const showOutput = /^(?:reply|respond|answer)(?: with)? (?:the |its )?(?:\w+ )?(?:output|contents?|results?)$/i

const ofSentence =
  /(?<=[.!?])\s+|\n+|,?\s+(?:and\s+)?then,?\s+|,?\s+and\s+(?=(?:reply|respond|write|read|run|list|search|tell|explain|summari[sz]e)\b)/i

const padding =
  /^(?:\d+[.)]\s+|[-*]\s+|please\s+|(?:can|could) you\s+(?:please\s+)?|first,?\s+|then,?\s+|finally,?\s+|after that,?\s+|in the terminal,?\s+)+/i

const counts: Readonly<Record<string, number>> = { once: 1, one: 1, twice: 2, two: 2, three: 3, four: 4, five: 5 }

const usage =
  /^us(?:e|ing) (?:the )?(?:exactly )?(?:(one|two|three|four|five|\d) )?(\w+)(?: tools?(?: calls?)?)?(?: (?:exactly )?(once|twice))?( in the same assistant message)?(?:,? (?:to )?|: )?(.*)$/is

const file = String.raw`(?:\uE000\d+\uE001|[^\s,]*[^\s,.:?])`

const patterns: ReadonlyArray<
  readonly [RegExp, (groups: ReadonlyArray<string>, text: MaskedText) => ReadonlyArray<Task>]
> = [
  [
    /^(?:ask|tell) (?:the |a )?(?:child )?sub-?agent to (.+)$/is,
    ([goal = ""], text) => [{ type: "delegate", goal: toSentence(text.written(goal)) }]
  ],
  [
    /^delegate to a sub-?agent: ?(.+)$/is,
    ([goal = ""], text) => [{ type: "delegate", goal: toSentence(text.written(goal)) }]
  ],
  [
    /^(?:run|execute)(?: the command)?:? (\S[^]*?)(?: (?:using|via|in) the terminal(?: tool)?)?$/i,
    ([command = ""], text) => (/^the\b/i.test(command) ? [] : parseCommands(command, text))
  ],
  [
    /^list (?:all |the )*(?:(\S+) )?files(?: (?:in|of|under) (?:the (?:directory|folder) )?(.+))?$/i,
    ([pattern = "*", path = "."], text) => [
      { type: "list", path: normalizeDirectory(text.plain(path)), pattern: text.plain(pattern) }
    ]
  ],
  [
    /^(?:search|grep)(?: for)? (?:the (?:text|word) )?(.+?)(?: in (.+))?$/i,
    ([pattern = "", path = "."], text) => [
      { type: "search", pattern: text.plain(pattern), path: normalizeDirectory(text.plain(path)) }
    ]
  ],
  [
    /^write (?:its contents|the (?:contents|output|result)) (?:in)?to (.+)$/i,
    ([path = ""], text) => [{ type: "write", path: text.plain(path), content: undefined }]
  ],
  [
    /^write (\uE000\d+\uE001) (?:in)?to (?:the file )?(.+)$/i,
    ([content = "", path = ""], text) => [{ type: "write", path: text.plain(path), content: text.plain(content) }]
  ],
  [
    /^create (?:a |the )?file (?:named |called )?(.+?) (?:with the content|containing|that says) (\uE000\d+\uE001)$/i,
    ([path = "", content = ""], text) => [{ type: "write", path: text.plain(path), content: text.plain(content) }]
  ],
  [
    new RegExp(
      `^(?:read|cat|show(?: me)?|what is in|on|for|one for)(?: the)?(?: files?)? (${file}(?:(?:,| and one for| and|, and) ${file})*)[?]?$`,
      "i"
    ),
    ([paths = ""], text) =>
      paths.split(/,? and one for |,? and |, ?/).map((path) => ({ type: "read", path: text.plain(path) }))
  ]
]

const normalizeDirectory = (path: string): string =>
  /^(?:this|the current) (?:directory|folder)$/i.test(path) ? "." : path

const toSentence = (text: string): string => {
  const capital = text.trim().replace(/^./, (first) => first.toUpperCase())
  return /[.!?]$/.test(capital) ? capital : `${capital}.`
}

const parseCommands = (written: string, text: MaskedText): ReadonlyArray<Task> =>
  /^\uE000\d+\uE001(?: and \uE000\d+\uE001)+$/.test(written)
    ? written.split(" and ").map((one) => ({ type: "run", command: text.plain(one) }))
    : [{ type: "run", command: text.plain(written) }]

const matchClause = (clause: string, text: MaskedText): ReadonlyArray<Task> => {
  for (const [pattern, tasks] of patterns) {
    const found = pattern.exec(clause)
    if (found === null) continue
    const made = tasks(found.slice(1), text)
    if (made.length > 0) return made
  }
  return []
}

const parseCall = (tool: string, clause: string, text: MaskedText): ReadonlyArray<Task> => {
  const json = /\{[^]*\}/.exec(text.written(clause))
  const value = json === null ? undefined : Option.getOrUndefined(Json.parse(json[0]))
  return Json.isFields(value) ? [{ type: "call", tool, arguments: value }] : []
}

const forbidden = /^(?:do not|don't) (?:call|use) (?:any (?:other )?tools?|(.+))$/i
const greeting = /^(?:hi|hello|hey|good (?:morning|day|evening))\b[^?]*$/i
const summary = /\b(?:final response summari[sz]ing|say what was done)\b/i

/** Words that join the answer to the preceding text. */
const connectors = /(?:^|[,\s]+)(?:and|then|please|finally)(?:[,\s]+(?:and|then|please|finally))*[,\s]*$/i

interface ParsedReply {
  readonly answer: Plan["answer"]
  readonly rest: string
}

/** Separates the requested reply from the end of a message. */
const splitReply = (text: MaskedText): ParsedReply => {
  const found = dictated.exec(text.text)
  if (found === null) return { answer: { type: "show" }, rest: text.text }
  const [whole, colon = "", strict, looseColon = "", loose] = found
  const literal = (strict ?? loose ?? "").replace(/ and nothing else[.!]?$/i, "")
  const rest = (text.text.slice(0, found.index) + (/^[.!?]/.exec(whole)?.[0] ?? "")).replace(connectors, "")
  if (colon === "" && outputWords.test(literal)) return { answer: { type: "output" }, rest }
  const plain = text.plain(literal)
  const isBare = colon + looseColon === "" && plain.endsWith(".") && !plain.endsWith("..") && !literal.includes(close)
  return { answer: { type: "text", text: isBare ? plain.slice(0, -1) : plain }, rest }
}

const splitClauses = (text: string): ReadonlyArray<string> =>
  text
    .split(ofSentence)
    .map((clause) =>
      clause
        .trim()
        .replace(padding, "")
        .replace(/(?<=[^.])[.!,;]+$/, "")
        .trim()
    )
    .filter((clause) => clause !== "" && !/^after (?:the|both|all)\b/i.test(clause))

/** Parses a user's message into a plan. */
export const parseInstructions = (said: string): Plan => {
  const task = injected.exec(said)?.[1]
  const text = maskQuotations((task ?? said).trim())
  const { answer, rest } = splitReply(text)
  const steps: Array<ReadonlyArray<Task>> = []
  const unclear: Array<string> = []
  const never = new Set<string>()
  let prohibited: Plan["forbidden"] = never
  let output = answer
  let isTogether = false
  let times = 1
  let tool: string | undefined
  const addTasks = (tasks: ReadonlyArray<Task>): void => {
    const repeated = tasks.length === 1 ? Array.from({ length: times }, () => tasks).flat() : tasks
    if (isTogether || repeated.every(({ type }) => type === "read")) steps.push(repeated)
    else for (const one of repeated) steps.push([one])
    times = 1
    tool = undefined
  }
  const readClause = (clause: string): void => {
    const refused = forbidden.exec(clause)
    if (refused !== null) {
      if (refused[1] !== undefined) for (const name of refused[1].split(/,? or | and |, /)) never.add(text.plain(name))
      else if (!/other/i.test(clause)) prohibited = "all"
      return
    }
    if (showOutput.test(clause)) {
      output = { type: "output" }
      return
    }
    const use = usage.exec(clause)
    if (use !== null) {
      const [, count = "", name = "", often = "", together, doing = ""] = use
      const number = counts[often.toLowerCase()] ?? counts[count.toLowerCase()] ?? (Number(count) || 1)
      const made = doing === "" ? [] : matchClause(doing, text)
      const named = made.length > 0 || doing === "" ? made : parseCall(name, doing, text)
      if (doing !== "" && named.length === 0) {
        unclear.push(text.written(clause))
        return
      }
      isTogether = together !== undefined
      times = doing === "" && isTogether ? 1 : number
      tool = name
      if (named.length > 0) addTasks(named)
      return
    }
    const named = /^call (?:the )?(\w+)(?: tool)? (?:with|on) (.+)$/is.exec(clause)
    const tasks = named === null ? matchClause(clause, text) : parseCall(named[1] ?? "", named[2] ?? "", text)
    if (tasks.length > 0) addTasks(tasks)
    else unclear.push(text.written(clause))
  }
  for (const clause of splitClauses(rest)) readClause(clause)
  // A tool was named without an instruction for it.
  if (tool !== undefined) unclear.push(`use ${tool}`)
  const kind =
    steps.length > 0 || output.type !== "show"
      ? "work"
      : greeting.test(said)
        ? "greeting"
        : summary.test(said)
          ? "summary"
          : "work"
  return { steps, answer: output, forbidden: prohibited, unclear, kind }
}
