/**
 * Running commands, handing work on and taking notes, in plain words.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import type { Action } from "./Instruction.ts"
import * as Names from "./Names.ts"
import * as Parser from "./Parser.ts"
import type { Source } from "./Tokens.ts"

type Rule = Parser.Parser<Action>

/** `using the terminal tool`, `in the shell`: how, not what. The value is the tool. */
export const means: Parser.Parser<string> = Parser.first(
  Parser.last(Parser.phrase("using|via|with|through"), Names.tool),
  Parser.map(Parser.phrase("in|on|from the|a? terminal|shell|console"), () => "terminal")
)

const commandEnds = (source: Source, at: number): boolean => {
  if (at >= source.tokens.length || Clause.ends(source, at)) return true
  const found = means(source, at)
  return found !== undefined && (found.next >= source.tokens.length || Clause.ends(source, found.next))
}

/** Words as a command; what begins with an article is a description of one. */
const plainCommand = Parser.map(
  Parser.filter(Parser.textUntil(commandEnds), (text) => !/^(the|a|an|my|all|these|this|it)(\s|$)/i.test(text)),
  (text) => [text]
)

const lineBreak = Parser.mark("\n\n")

const running = (commands: Parser.Parser<ReadonlyArray<string>>): Rule =>
  Parser.map(
    Parser.seq(
      Parser.phrase("run|execute"),
      Parser.skip(
        Parser.phrase("the|this|following|these* shell|terminal|bash? command|commands"),
        Parser.mark(":"),
        lineBreak
      ),
      commands
    ),
    ([, , commands]): Action => ({ type: "run", commands })
  )

const run: ReadonlyArray<Rule> = [
  running(Names.listOf(Parser.quotation)),
  running(plainCommand),
  Parser.map(
    Parser.seq(Parser.phrase("what is the output|result of running?"), Parser.quotation),
    ([, command]): Action => ({ type: "run", commands: [command] })
  )
]

/** A passage of its own, or the rest of the sentence. */
const text = Parser.last(
  Parser.skip(Parser.mark(":"), lineBreak),
  Parser.first(
    Parser.map(
      Parser.seq(Parser.quotation, Parser.where((source, at) => at >= source.tokens.length || Clause.ends(source, at))),
      ([text]) => text
    ),
    Parser.textUntil(Clause.sentenceEnds)
  )
)

/** A list of items: lines, or words between commas. */
export const itemsOf = (text: string): ReadonlyArray<string> =>
  text.split(text.includes(",") ? /\n|,\s*(?:and\s+)?|;\s*|\s+and\s+/ : /\n|;\s*/)
    .map((item) => item.replace(/^\s*(?:[-*•]|\d+[.)])\s*/, "").trim())
    .filter((item) => item !== "")

const todoNoun = Parser.phrase(
  "a|an|my|the|new|another|two|three|all* todo|todos|to-do|to-dos|task|tasks item|items|list?"
)

const todo: ReadonlyArray<Rule> = [
  Parser.map(
    Parser.seq(
      Parser.phrase("add|create|make|write"),
      todoNoun,
      Parser.first(Parser.mark(":"), Parser.phrase("to|called|named|saying|for|with|that says|items|item|the*")),
      text
    ),
    ([, , , found]): Action => ({ type: "todo", items: itemsOf(found) })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("add|put"),
      Parser.wordsUntil("to|on|in", Clause.sentenceEnds),
      Parser.phrase("to|on|in"),
      todoNoun
    ),
    ([, found]): Action => ({ type: "todo", items: itemsOf(found) })
  ),
  Parser.map(
    Parser.seq(
      Parser.first(Parser.phrase("show|list|read|display|print|give me?"), Parser.phrase("what are|is")),
      todoNoun,
      Parser.where((source, at) => at >= source.tokens.length || Clause.ends(source, at))
    ),
    (): Action => ({ type: "todo", items: [] })
  )
]

const remember: Rule = Parser.map(
  Parser.seq(Parser.phrase("remember that?"), text),
  ([, text]): Action => ({ type: "remember", text })
)

const agent = Parser.phrase("a|an|the|your? child|sub|new* subagent|sub-agent|child|agent|helper")
const to = Parser.skip(Parser.phrase("to"), Parser.mark(":,"))
const sentenceOf = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?`"]$/.test(text) ? "" : "."}`

const delegate: Rule = Parser.map(
  Parser.seq(
    Parser.first(
      Parser.last(Parser.phrase("ask|tell|have|let|get|spawn|start|use"), agent),
      Parser.last(Parser.phrase("delegate the|this|a? task|work?"), Parser.skip(Parser.last(Parser.phrase("to"), agent)))
    ),
    to,
    text
  ),
  ([, , goal]): Action => ({ type: "delegate", goal: sentenceOf(goal) })
)

/** See the module. */
export const rules: ReadonlyArray<Rule> = [...todo, delegate, ...run, remember]
