/**
 * A user's message as a list of instructions. What the grammar does not know is a question for a model, or a remark.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import * as FileRules from "./FileRules.ts"
import type { Instruction, Manner } from "./Instruction.ts"
import * as Names from "./Names.ts"
import * as Parser from "./Parser.ts"
import * as Replies from "./Replies.ts"
import * as SearchRules from "./SearchRules.ts"
import * as Tokens from "./Tokens.ts"
import * as WorkRules from "./WorkRules.ts"

type Rule = Parser.Parser<Instruction>

const over = Parser.where((source, at) => at >= source.tokens.length || Clause.ends(source, at))

/** A rule holds only if it explains its clause to the end. */
const whole = <A>(rules: ReadonlyArray<Parser.Parser<A>>): Parser.Parser<A> =>
  Parser.first(...rules.map((rule) => Parser.map(Parser.seq(rule, over), ([value]) => value)))

const actions = [...WorkRules.rules, ...FileRules.rules, ...SearchRules.rules]
const action = whole(actions)

const together = Parser.first(
  Parser.phrase("in|within the|one|a|single* same|single|one? assistant? message|turn|response|step"),
  Parser.phrase("in parallel"),
  Parser.phrase("at once")
)

/** How an action is done, said behind it: `using the terminal tool`, `in parallel`, `three times`. */
const manner = Parser.first<Manner>(
  Parser.map(WorkRules.means, (tool) => ({ tool, times: undefined, together: false })),
  Parser.map(together, () => ({ tool: undefined, times: undefined, together: true })),
  Parser.map(
    Parser.seq(Parser.phrase("exactly?"), Names.count, Parser.phrase("time|times?")),
    ([, times]) => ({ tool: undefined, times, together: false })
  )
)

/** An action, and how it is to be done. */
const acts: ReadonlyArray<Rule> = actions.map((rule) =>
  Parser.map(
    Parser.seq(rule, Parser.optional(manner, undefined)),
    ([action, manner]): Instruction => ({ type: "act", action, manner })
  )
)

// "Use the terminal tool exactly once to …"

const exactly = Parser.phrase("exactly|only|just|at|least|most|the*")
const calls = Parser.phrase("tool|function? call|calls|time|times?")

const use: Parser.Parser<Manner & { readonly tool: string }> = Parser.map(
  Parser.seq(
    Parser.phrase("use|call|invoke|using"),
    exactly,
    Parser.optional(Names.count, undefined),
    Names.tool,
    calls,
    exactly,
    Parser.optional(Names.count, undefined),
    Parser.phrase("time|times?"),
    Parser.optional(together, "")
  ),
  ([, , before, tool, , , after, , place]) => ({ tool, times: before ?? after, together: place !== "" })
)

/** Files that were named are read once each, however many there are said to be. */
const eachOnce = (manner: Manner): Manner => ({ ...manner, times: undefined })

/** What stands behind the tool's name: files, an action in words, or the arguments. */
const useFor = (manner: Manner & { readonly tool: string }): Rule =>
  Parser.first<Instruction>(
    Parser.map(Parser.seq(over), () => ({ type: "use", manner })),
    Parser.filter(
      Parser.map(Parser.seq(FileRules.named, over), ([action]): Instruction => ({ type: "act", action, manner: eachOnce(manner) })),
      () => manner.tool === "read_file"
    ),
    Parser.map(
      Parser.seq(Parser.skip(Parser.mark(",")), Parser.phrase("to|and?"), action),
      ([, , action]) => ({ type: "act", action, manner })
    ),
    Parser.map(
      Parser.seq(
        Parser.phrase("with|on|for the|these|following? arguments|argument|args|parameters|input?"),
        Parser.skip(Parser.mark(":")),
        Parser.textUntil(Clause.ends)
      ),
      ([, , text]) => ({ type: "act", action: { type: "call", tool: manner.tool, text }, manner })
    ),
    Parser.map(
      Parser.seq(Parser.first(Parser.phrase("to|and add?"), Parser.mark(":")), Parser.textUntil(Clause.ends)),
      ([, text]) => ({
        type: "act",
        action: manner.tool === "todo"
          ? { type: "todo", items: WorkRules.itemsOf(text.slice(text.indexOf(":") + 1)) }
          : { type: "call", tool: manner.tool, text },
        manner
      })
    )
  )

const useTool: Rule = (source, at) => {
  const found = use(source, at)
  return found === undefined ? undefined : useFor(found.value)(source, found.next)
}

// "Do not call terminal", "without using any tools"

const vague = new Set(["any", "other", "more"])
const toolNames = Names.listOf(Parser.filter(Names.tool, (name) => !vague.has(name.toLowerCase())))

const not = Parser.first(
  Parser.phrase("do not call|use|run|invoke"),
  Parser.phrase("don't|dont|never call|use|run|invoke"),
  Parser.phrase("without calling|using|running|invoking?")
)

const forbid: Rule = Parser.last(
  not,
  Parser.first<Instruction>(
    Parser.map(
      Parser.seq(Parser.phrase("any|the? tool|tools"), Parser.phrase("calls|at|all*")),
      () => ({ type: "forbid", tools: "all" })
    ),
    Parser.map(Parser.phrase("any other|more|further tool|tools"), () => ({ type: "remark" })),
    Parser.map(toolNames, (tools) => ({ type: "forbid", tools }))
  )
)

// What is none of these

const greet: Rule = Parser.map(
  Parser.first<unknown>(
    Parser.seq(Parser.phrase("hi|hello|hey|greetings there?"), over),
    Parser.phrase("good morning|afternoon|evening|day"),
    Parser.phrase("what can you do"),
    Parser.phrase("who|what are you"),
    Parser.seq(Parser.phrase("help me?"), over)
  ),
  () => ({ type: "greet" })
)

const beyond = new Set(
  [
    "what which who whom whose when where why how is are was were does did",
    "explain describe translate analyse analyze compare fix refactor implement improve review think solve calculate",
    "compute count tell summarise summarize create build design plan find answer generate suggest convert"
  ].join(" ").split(" ")
)

const work = new Set(
  "read open run execute search list write delete remove move copy rename install append edit download fetch use call".split(" ")
)

const unknown: Rule = (source, at) => {
  const found = Parser.textUntil(Clause.ends)(source, at)
  if (found === undefined) return undefined
  const first = Parser.wordAt(source, at)
  const asks = Parser.markAt(source, found.next) === "?" || beyond.has(first)
  const type = asks ? "ask" : work.has(first) ? "unclear" : "remark"
  return { value: type === "remark" ? { type } : { type, text: found.value }, next: found.next }
}

const instruction = Parser.first(whole([forbid, useTool, ...Replies.rules, ...acts, greet]), unknown)

/** What a message says, in order. */
export const parse = (text: string): ReadonlyArray<Instruction> => {
  const source = Tokens.read(text)
  const instructions: Array<Instruction> = []
  let at = Clause.lead(source, 0)?.next ?? 0
  while (at < source.tokens.length) {
    const found = instruction(source, at)
    if (found !== undefined) instructions.push(found.value)
    const next = Math.max(found?.next ?? at, at)
    const start = Clause.lead(source, next)?.next ?? next
    at = start > at ? start : at + 1
  }
  return instructions
}
