/**
 * The next move of the stand-in: more tool calls, or the answer. It depends on the conversation alone.
 *
 * @since 0.1.0
 */
import type { ModelRequest } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"
import * as Calls from "./Calls.ts"
import type { Answer, Call } from "./Completion.ts"
import * as Conversation from "./Conversation.ts"
import * as Instructions from "./Instructions.ts"
import * as Plan from "./Plan.ts"
import * as Results from "./Results.ts"

const remedy = "run `hermes model`, or set model.provider and model.default in config.yaml, to use a real model"

const honest = `I am the offline stand-in of hermes and no language model, so I can not answer that: ${remedy}.`

const greeting =
  "Hello. I am the offline stand-in of hermes: I follow plain instructions (read, list and search files, run a command, "
  + `write a file, add a todo, reply with a text) and answer no open questions; ${remedy}.`

interface Done {
  readonly made: Conversation.Made
  readonly outcome: Results.Outcome
}

type Outcomes = ReadonlyArray<ReadonlyArray<Done>>

const same = (a: Conversation.Made, b: Conversation.Made): boolean =>
  a.name === b.name && JSON.stringify(a.arguments) === JSON.stringify(b.arguments)

/** What each exchange gave. A result that only says "as before" is read as what it was before. */
const outcomes = (exchanges: ReadonlyArray<Conversation.Exchange>): ReadonlyArray<Outcomes> => {
  const whole: Array<Conversation.Made> = []
  const read = (made: Conversation.Made): Done => {
    const stub = Results.isStub(made.result)
    if (!stub) whole.push(made)
    const before = stub ? whole.findLast((earlier) => same(earlier, made)) : undefined
    return { made, outcome: Results.read((before ?? made).result ?? "Error: it gave no result") }
  }
  return exchanges.map(({ steps }) => steps.map((step) => step.map(read)))
}

/** What a call was about, as a heading. */
const heading = ({ name, arguments: parameters }: Conversation.Made): string => {
  const { command, path, pattern } = Raw.fields(parameters)
  if (typeof command === "string") return `$ ${command}`
  if (typeof pattern === "string") return `${pattern} in ${Raw.word(path) || "."}`
  return typeof path === "string" ? path : name
}

const wrote = ({ made, outcome }: Done): string => {
  const path = Raw.fields(made.arguments)["path"]
  return made.name === "write_file" && typeof path === "string" ? `${path}: ${outcome.text}` : outcome.text
}

const shown = (done: ReadonlyArray<Done>): string => {
  const [only] = done
  if (only !== undefined && done.length === 1) return wrote(only)
  return done.map((one) => `${heading(one.made)}\n${one.outcome.text}`).join("\n\n")
}

const digestLines = 20

/** The beginning of a file in place of its summary. */
const digest = (text: string): string => {
  const lines = text.split("\n")
  const begins = lines.slice(0, digestLines).join("\n")
  const part = lines.length > digestLines ? `The first ${digestLines} of ${lines.length} lines` : "The text"
  return `I can not summarise (${remedy}). ${part}:\n${begins}`
}

const unanswered = (asks: ReadonlyArray<string>): string =>
  asks.length === 0
    ? ""
    : `I can not do this without a language model: ${asks.map((ask) => `"${ask}"`).join(", ")}; ${remedy}.`

const joined = (...texts: ReadonlyArray<string>): string => texts.filter((text) => text !== "").join("\n\n")

/** Why the plan stopped, and what is left of it. */
const stopped = (reason: string, rest: Plan.Plan["steps"]): string => {
  const left = rest.flat().map(Calls.title)
  return left.length === 0 ? reason : `${reason}\nI did not go on to: ${left.join("; ")}.`
}

const firstLine = (text: string): string => {
  const [line = ""] = text.split("\n")
  return line.length < text.length ? `${line} …` : line
}

const recap = (exchanges: ReadonlyArray<Conversation.Exchange>, results: ReadonlyArray<Outcomes>): string => {
  const index = results.findLastIndex((steps) => steps.length > 0)
  const last = results[index]
  if (last === undefined) return honest
  const text = exchanges[index]?.text ?? ""
  const { steps } = Plan.make(Instructions.parse(text))
  const lines = [
    `Asked: ${firstLine(text)}`,
    ...last.flat().map(({ made, outcome }) =>
      `- ${heading(made)}: ${outcome.failed ? "failed, " : ""}${firstLine(outcome.text)}`)
  ]
  return stopped(lines.join("\n"), steps.slice(last.length))
}

interface State {
  readonly plan: Plan.Plan
  readonly done: Outcomes
  readonly before: ReadonlyArray<Conversation.Exchange>
  readonly doneBefore: ReadonlyArray<Outcomes>
}

/** Whatever was dictated: what was not done must not be reported as done. */
const undone = (unclear: ReadonlyArray<string>): string =>
  `I did not do this, which the offline stand-in does not understand: ${unclear.map((text) => `"${text}"`).join(", ")}; ${remedy}.`

const finalText = ({ before, done, doneBefore, plan }: State): string => {
  const all = done.length > 0 ? done : doneBefore.at(-1) ?? []
  const results = all.flat()
  if (plan.unclear.length > 0) return joined(plan.answer.type === "show" && done.length > 0 ? shown(results) : "", undone(plan.unclear))
  switch (plan.answer.type) {
    case "text":
      return plan.answer.text
    case "output":
      return all.at(-1)?.map(({ outcome }) => outcome.exact).join("\n") ?? "There is no output yet."
    case "show": {
      if (done.length === 0 && plan.recap) return recap(before, doneBefore)
      if (done.length === 0) return plan.greeting && plan.asks.length === 0 ? greeting : honest
      const summarised = plan.steps.flat().some((task) => task.type === "read" && task.digest === true)
      const text = shown(results)
      return joined(summarised ? digest(text) : text, unanswered(plan.asks))
    }
  }
}

const callOf = (chosen: Calls.Chosen & { readonly type: "call" }, id: number): Call => ({
  id: `${Conversation.idPrefix}${id}`,
  name: chosen.name,
  arguments: chosen.arguments
})

/** See the module. */
export const next = (request: ModelRequest): Answer => {
  const conversation = Conversation.read(request)
  const current = conversation.exchanges.at(-1)
  const plan = Plan.make(Instructions.parse(current?.text ?? ""))
  const all = outcomes(conversation.exchanges)
  const done = all.at(-1) ?? []
  const failure = done.flat().find(({ outcome }) => outcome.failed)
  if (failure !== undefined) {
    const good = plan.answer.type === "show" ? shown(done.flat().filter(({ outcome }) => !outcome.failed)) : ""
    const reason = `${failure.made.name} failed: ${failure.outcome.text}`
    return { text: joined(good, stopped(reason, plan.steps.slice(done.length))) }
  }
  const step = plan.steps[done.length]
  if (step === undefined) {
    return {
      text: finalText({ plan, done, before: conversation.exchanges.slice(0, -1), doneBefore: all.slice(0, -1) })
    }
  }
  const output = done.at(-1)?.at(-1)?.outcome.exact ?? ""
  const chosen = step.map((task) => Calls.choose(task, conversation.offered, plan.forbidden, output))
  const calls: Array<Call> = []
  for (const [index, one] of chosen.entries()) {
    const task = step[index]
    if (one.type === "missing") {
      const reason = `I can not ${task === undefined ? "do that" : Calls.title(task)}: ${one.reason}.`
      const good = plan.answer.type === "show" ? shown(done.flat()) : ""
      return { text: joined(good, stopped(reason, plan.steps.slice(done.length + 1))) }
    }
    calls.push(callOf(one, conversation.nextId + index))
  }
  return { calls }
}
