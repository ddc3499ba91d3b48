/**
 * Determines the offline model's next message using only the conversation. The message contains more tool calls or the
 * answer.
 */
import * as Option from "effect/Option"
import * as Json from "../../../base/domain/Json.ts"
import type { ModelRequest } from "../../../base/domain/ModelCall.ts"
import type { Answer, Call } from "./Completion.ts"
import * as Instructions from "./Instructions.ts"
import * as ReceivedRequest from "./ReceivedRequest.ts"

/** A tool result. `text` is shown to the user. `exact` is returned if the instruction asks for "exactly the output". */
interface Outcome {
  readonly failed: boolean
  readonly text: string
  readonly exact: string
}

const makeSuccess = (text: string, exact = text): Outcome => ({ failed: false, text, exact })
const makeFailure = (text: string): Outcome => ({ failed: true, text, exact: text })

const numbered = /^\s*\d+\|/

const stripLineNumbers = (text: string): string => {
  const lines = text.split("\n")
  const last = lines.at(-1) === "" ? lines.length - 1 : lines.length
  return lines.slice(0, last).every((line) => numbered.test(line))
    ? lines.map((line) => line.replace(numbered, "")).join("\n")
    : text
}

const stripFinalBreak = (text: string): string => (text.endsWith("\n") ? text.slice(0, -1) : text)

const readCommandOutcome = (output: string, exit: unknown): Outcome => {
  const exact = stripFinalBreak(output)
  const code = typeof exit === "number" ? exit : 0
  if (code !== 0) return makeSuccess(`The command exited with code ${code}${exact === "" ? "." : `:\n${exact}`}`, exact)
  return makeSuccess(exact === "" ? "The command printed nothing and exited with code 0." : exact, exact)
}

const formatMatch = (item: unknown): string => {
  const { content, line, path } = Json.readFields(item)
  return `${Json.readWord(path)}:${Json.readWord(line)}: ${Json.readWord(content)}`
}

const readChildResults = (items: ReadonlyArray<Json.Fields>): Outcome => {
  const bad = items.find(({ summary }) => Json.readWord(summary) === "")
  return bad === undefined
    ? makeSuccess(items.map(({ summary }) => Json.readWord(summary)).join("\n\n"))
    : makeFailure(Json.readWord(bad["error"]) || `the subagent ended as ${Json.readWord(bad["status"]) || "failed"}`)
}

const findError = (result: Json.Fields): string | undefined => {
  const { error, message, status, success } = result
  const text = Json.readString(error) ?? Json.readString(Json.readFields(error)["message"])
  if (text !== undefined && text !== "") return text
  return success === false || status === "blocked" || status === "error"
    ? (Json.readString(message) ?? Json.toText(result))
    : undefined
}

const readKnownResult = (result: Json.Fields): Outcome => {
  const {
    bytes_written: written,
    content,
    exit_code: exit,
    files,
    matches,
    matches_text: grouped,
    output,
    results
  } = result
  if (typeof output === "string") return readCommandOutcome(output, exit)
  if (typeof content === "string") return makeSuccess(stripFinalBreak(stripLineNumbers(content)))
  if (typeof grouped === "string") return makeSuccess(stripFinalBreak(grouped))
  if (Array.isArray(matches))
    return makeSuccess(matches.length === 0 ? "Nothing was found." : matches.map(formatMatch).join("\n"))
  if (Array.isArray(files))
    return makeSuccess(files.length === 0 ? "There are no such files." : files.map(Json.toText).join("\n"))
  if (typeof written === "number") return makeSuccess(`${written} bytes were written.`)
  const items = Json.readItems(results).map(Json.readFields)
  if (items.some((item) => Object.hasOwn(item, "summary"))) return readChildResults(items)
  const word = ["summary", "message", "text", "result"].find(
    (name) => typeof result[name] === "string" && result[name] !== ""
  )
  return word === undefined
    ? makeSuccess(JSON.stringify(result, undefined, 2), JSON.stringify(result))
    : makeSuccess(Json.readWord(result[word]))
}

/** Tests whether a result only states that a file has not changed since it was last read. */
const isStubResult = (result: string | undefined): boolean =>
  result !== undefined && Json.readFields(Option.getOrUndefined(Json.parse(result)))["content_returned"] === false

const failureText = /^(error|cancelled|unknown tool|blocked|refused|denied)\b/i

/** Parses the text of a tool message. */
const readOutcome = (result: string): Outcome => {
  const value = Option.getOrUndefined(Json.parse(result))
  if (typeof value === "string") return makeSuccess(value)
  if (Json.isFields(value)) {
    const error = findError(value)
    const output = Json.readWord(value["output"])
    return error === undefined ? readKnownResult(value) : makeFailure(output === "" ? error : `${error}\n${output}`)
  }
  if (failureText.test(result)) return makeFailure(result)
  return makeSuccess(result === "" ? "The tool returned an empty result." : stripLineNumbers(result))
}

const remedy = "run `hermes model`, or set model.provider and model.default in config.yaml, to use a real model"

const honest = `I am the offline stand-in of hermes and no language model, so I cannot answer that: ${remedy}.`

const greeting =
  "Hello. I am the offline stand-in of hermes: I follow plain instructions (read, list and search files, run a " +
  "command, " +
  `write a file, reply with a text) and answer no open questions; ${remedy}.`

interface DoneCall {
  readonly made: ReceivedRequest.MadeCall
  readonly outcome: Outcome
}

type Steps = ReadonlyArray<ReadonlyArray<DoneCall>>

const isSame = (a: ReceivedRequest.MadeCall, b: ReceivedRequest.MadeCall): boolean =>
  a.name === b.name && JSON.stringify(a.arguments) === JSON.stringify(b.arguments)

/**
 * Reads the results of each exchange. A result that only states "unchanged" is replaced by the earlier result of the
 * same call.
 */
const readOutcomes = (exchanges: ReadonlyArray<ReceivedRequest.Exchange>): ReadonlyArray<Steps> => {
  const whole: Array<ReceivedRequest.MadeCall> = []
  const readMadeCall = (made: ReceivedRequest.MadeCall): DoneCall => {
    const isStub = isStubResult(made.result)
    if (!isStub) whole.push(made)
    const before = isStub ? whole.findLast((earlier) => isSame(earlier, made)) : undefined
    return { made, outcome: readOutcome((before ?? made).result ?? "Error: it gave no result") }
  }
  return exchanges.map(({ steps }) => steps.map((step) => step.map(readMadeCall)))
}

type Way = readonly [tool: string, parameters: Json.Fields]

const quoteForShell = (text: string): string =>
  /^[\w./@%+=:,][\w./@%+=:,-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

const expression = /\.\*|\.\+|\\[wdsbWDSB.]|^\^|\$$|\||\[[^\]]+\]/

const isValid = (pattern: string): boolean => {
  try {
    return new RegExp(pattern, "u").source !== ""
  } catch {
    return false
  }
}

/**
 * Converts text to a pattern for `search_files`, which accepts regular expressions. Text that does not look like a
 * regular expression is escaped.
 */
const toSearchPattern = (text: string): string =>
  expression.test(text) && isValid(text) ? text : text.replace(/[\\^$*+?()[\]{}|]/g, "\\$&")

/** Lists the calls that can perform a task, the most suitable first. `output` is the output of the previous call. */
const listWays = (task: Instructions.Task, output: string): ReadonlyArray<Way> => {
  switch (task.type) {
    case "read":
      return [
        ["read_file", { path: task.path }],
        ["terminal", { command: `cat -- ${quoteForShell(task.path)}` }]
      ]
    case "list":
      return [
        ["search_files", { pattern: task.pattern, target: "files", path: task.path }],
        ["terminal", { command: `find ${quoteForShell(task.path)} -name ${quoteForShell(task.pattern)}` }]
      ]
    case "search":
      return [
        ["search_files", { pattern: toSearchPattern(task.pattern), target: "content", path: task.path }],
        ["terminal", { command: `grep -rn -F -e ${quoteForShell(task.pattern)} -- ${quoteForShell(task.path)}` }]
      ]
    case "run":
      return [["terminal", { command: task.command }]]
    case "write":
      return [["write_file", { path: task.path, content: task.content ?? output }]]
    case "delegate":
      return [["delegate_task", { goal: task.goal }]]
    case "call":
      return [[task.tool, task.arguments]]
  }
}

const describeTask = (task: Instructions.Task): string => {
  switch (task.type) {
    case "read":
    case "write":
      return `${task.type} ${task.path}`
    case "list":
      return `list ${task.pattern === "*" ? "the files" : task.pattern} in ${task.path}`
    case "search":
      return `search for "${task.pattern}" in ${task.path}`
    case "run":
      return `run \`${task.command}\``
    case "delegate":
      return "hand the task to a subagent"
    case "call":
      return `call ${task.tool}`
  }
}

/** Returns a call to a tool that is offered and allowed, or the reason why no call is possible. */
const chooseWay = (
  possible: ReadonlyArray<Way>,
  offered: ReadonlyArray<string>,
  forbidden: Instructions.Plan["forbidden"]
): Way | string => {
  if (forbidden === "all") return "you asked me to call no tools"
  const names = possible.map(([name]) => name)
  const allowed = possible.filter(([name]) => !forbidden.has(name))
  if (allowed.length === 0) return `you asked me not to call ${names.join(" or ")}`
  const way = allowed.find(([name]) => offered.includes(name))
  if (way !== undefined) return way
  return offered.length === 0
    ? "no tools are offered here"
    : `the tool ${allowed.map(([name]) => name).join(" or ")} is not offered here (offered: ${offered.join(", ")})`
}

const formatHeading = ({ name, arguments: parameters }: ReceivedRequest.MadeCall): string => {
  const { command, path, pattern } = Json.readFields(parameters)
  if (typeof command === "string") return `$ ${command}`
  if (typeof pattern === "string") return `${pattern} in ${Json.readWord(path) || "."}`
  return typeof path === "string" ? path : name
}

const renderResults = (done: ReadonlyArray<DoneCall>): string => {
  const [only] = done
  if (only === undefined || done.length > 1)
    return done.map(({ made, outcome }) => `${formatHeading(made)}\n${outcome.text}`).join("\n\n")
  return only.made.name === "write_file" ? `${formatHeading(only.made)}: ${only.outcome.text}` : only.outcome.text
}

const joinTexts = (...texts: ReadonlyArray<string>): string => texts.filter((text) => text !== "").join("\n\n")

/** Describes the reason why the plan stopped, and the steps that remain. */
const explainStop = (reason: string, rest: Instructions.Plan["steps"]): string => {
  const left = rest.flat().map(describeTask)
  return left.length === 0 ? reason : `${reason}\nI did not go on to: ${left.join("; ")}.`
}

const cutToFirstLine = (text: string): string => {
  const [line = ""] = text.split("\n")
  return line.length < text.length ? `${line} …` : line
}

const summarizeLastTurn = (
  exchanges: ReadonlyArray<ReceivedRequest.Exchange>,
  results: ReadonlyArray<Steps>
): string => {
  const index = results.findLastIndex((steps) => steps.length > 0)
  const last = results[index]
  const text = exchanges[index]?.text
  if (last === undefined || text === undefined) return honest
  const lines = [
    `Asked: ${cutToFirstLine(text)}`,
    ...last
      .flat()
      .map(
        ({ made, outcome }) =>
          `- ${formatHeading(made)}: ${outcome.failed ? "failed, " : ""}${cutToFirstLine(outcome.text)}`
      )
  ]
  return explainStop(lines.join("\n"), Instructions.parseInstructions(text).steps.slice(last.length))
}

const explainUnclear = (unclear: ReadonlyArray<string>): string =>
  "I did not do this, which the offline stand-in does not understand: " +
  `${unclear.map((text) => `"${text}"`).join(", ")}; ${remedy}.`

const composeAnswer = (plan: Instructions.Plan, done: Steps): string => {
  const results = done.flat()
  if (plan.unclear.length > 0) {
    if (done.length === 0 && plan.answer.type === "show") return plan.kind === "greeting" ? greeting : honest
    return joinTexts(plan.answer.type === "show" ? renderResults(results) : "", explainUnclear(plan.unclear))
  }
  switch (plan.answer.type) {
    case "text":
      return plan.answer.text
    case "output":
      return (
        done
          .at(-1)
          ?.map(({ outcome }) => outcome.exact)
          .join("\n") ?? "There is no output yet."
      )
    case "show":
      return done.length === 0 ? honest : renderResults(results)
  }
}

/** Answers a request of chat completions. */
export const answerRequest = (request: ModelRequest): Answer => {
  const { exchanges, nextId, offered } = ReceivedRequest.readRequest(request)
  const plan = Instructions.parseInstructions(exchanges.at(-1)?.text ?? "")
  const all = readOutcomes(exchanges)
  const done = all.at(-1) ?? []
  if (plan.kind === "summary" && done.length === 0)
    return { text: summarizeLastTurn(exchanges.slice(0, -1), all.slice(0, -1)) }
  const results = done.flat()
  const failure = results.find(({ outcome }) => outcome.failed)
  if (failure !== undefined) {
    const good = plan.answer.type === "show" ? renderResults(results.filter(({ outcome }) => !outcome.failed)) : ""
    return {
      text: joinTexts(
        good,
        explainStop(`${failure.made.name} failed: ${failure.outcome.text}`, plan.steps.slice(done.length))
      )
    }
  }
  const step = plan.steps[done.length]
  if (step === undefined) {
    const before = plan.answer.type === "output" && plan.steps.length === 0 ? (all.at(-2) ?? []) : done
    return { text: composeAnswer(plan, before) }
  }
  const output = done.at(-1)?.at(-1)?.outcome.exact ?? ""
  const calls: Array<Call> = []
  for (const task of step) {
    const chosen = chooseWay(listWays(task, output), offered, plan.forbidden)
    if (typeof chosen === "string") {
      const good = plan.answer.type === "show" ? renderResults(results) : ""
      return {
        text: joinTexts(
          good,
          explainStop(`I cannot ${describeTask(task)}: ${chosen}.`, plan.steps.slice(done.length + 1))
        )
      }
    }
    calls.push({ id: `${ReceivedRequest.idPrefix}${nextId + calls.length}`, name: chosen[0], arguments: chosen[1] })
  }
  return { calls }
}
