/**
 * Listing directories and searching for text, in plain words.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import type { Action } from "./Instruction.ts"
import * as Names from "./Names.ts"
import * as Parser from "./Parser.ts"

type Rule = Parser.Parser<Action>

const me = Parser.phrase("me|us*")
const over = Parser.where((source, at) => at >= source.tokens.length || Clause.ends(source, at))
const here = Parser.map(
  Parser.first(
    Parser.phrase("the|this? current|working|project directory|folder|dir"),
    Parser.last(
      Parser.phrase("the|this|current* directory|folder|dir|project|repository|repo|codebase|code"),
      Parser.where((source, at) => over(source, at) !== undefined || Parser.wordAt(source, at) === "for")
    ),
    Parser.phrase("here")
  ),
  () => "."
)
const directoryWord = Parser.phrase("the|this|my|our? directory|folder|dir|path? named|called?")
const directory = Parser.map(
  Parser.seq(
    Parser.first(here, Parser.last(directoryWord, Names.pathHere)),
    Parser.phrase("directory|folder|dir?")
  ),
  ([path]) => path
)
const inDirectory = Parser.last(Parser.phrase("in|under|inside|of|from|at|within|on"), directory)

const glob = Parser.wordWhere((word) => word.includes("*"))
const quantity = Parser.phrase("all|the|any|every|each|of|my|these*")
const filesWord = Parser.phrase(
  "files|file|directories|directory|folders|folder|entries|contents and? directories|folders|subdirectories?"
)
const named = Parser.last(Parser.phrase("named|called|matching|like"), Parser.first(Parser.quotation, glob))

/** `all *.ts files named …`: the pattern. */
const subject = (noun: Parser.Parser<unknown>): Parser.Parser<string> =>
  Parser.map(
    Parser.seq(quantity, Parser.optional(glob, undefined), noun, Parser.optional(named, undefined)),
    ([, before, , after]) => after ?? before ?? "*"
  )

const listing = (pattern: string, path: string): Action => ({ type: "list", path, pattern })

const list: ReadonlyArray<Rule> = [
  Parser.map(
    Parser.seq(
      Parser.phrase("list|ls|enumerate"),
      me,
      subject(Parser.skip(filesWord)),
      Parser.optional(Parser.first(inDirectory, directory), ".")
    ),
    ([, , pattern, path]) => listing(pattern, path)
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("show|display|print|give|tell|find|get|what|which"),
      me,
      subject(filesWord),
      Parser.phrase("are|is|there|do|we|i|you|have*"),
      Parser.optional(Parser.first(inDirectory, Parser.wordWhere(Names.isPath)), "."),
      over
    ),
    ([, , pattern, , path]) => listing(pattern, path)
  )
]

/** Words that begin a description of what to find, as opposed to its text. */
const vague = /^(where|what|how|why|who|which|out|if|whether|me|a|an)\b|\bfor\b/i

const sought = Parser.map(
  Parser.seq(
    Parser.phrase(
      "for? all|any|the|every|lines|files|occurrences|uses|usages|text|string|word|pattern|of|containing|mentioning|with*"
    ),
    Parser.first(
      Parser.quotation,
      Parser.filter(
        Parser.wordsUntil("in|inside|under|within|across|from", Clause.ends),
        (text) => !vague.test(text)
      )
    ),
    Parser.phrase("comment|comments|text|string|matches|calls|everywhere?")
  ),
  ([, text]) => text
)

const place = Parser.optional(
  Parser.last(
    Parser.phrase("in|inside|under|within|across|from all|of|my*"),
    Parser.first(
      here,
      Parser.last(Parser.phrase("the? files|file? in?"), Parser.first(here, directory)),
      Parser.map(Parser.phrase("the? files"), () => ".")
    )
  ),
  "."
)

const isFlag = Parser.wordWhere((word) => word.startsWith("-"))

const search: ReadonlyArray<Rule> = [
  Parser.map(
    Parser.seq(
      Parser.phrase("search|look|browse up? on|in|through? the web|internet for"),
      Parser.textUntil(Clause.ends)
    ),
    ([, query]): Action => ({ type: "web", query })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("search|grep through|in? the|file|directory|folder*"),
      Parser.first(here, Names.pathHere),
      Parser.phrase("for"),
      sought
    ),
    ([, path, , pattern]): Action => ({ type: "search", pattern, path })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("grep"),
      Parser.filter(
        Parser.first(Parser.quotation, Parser.wordWhere(() => true)),
        (word) => word !== "for" && !word.startsWith("-")
      ),
      Parser.optional(Parser.last(Parser.phrase("in?"), Names.path), undefined),
      place
    ),
    ([, pattern, path, elsewhere]): Action => ({ type: "search", pattern, path: path ?? elsewhere })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("which|what files|file contain|contains|mention|mentions|have|has|include|includes"),
      sought,
      place
    ),
    ([, pattern, path]): Action => ({ type: "search", pattern, path })
  ),
  Parser.map(
    Parser.seq(
      Parser.first(Parser.phrase("search|grep|find"), Parser.phrase("look for")),
      Parser.where((source, at) => isFlag(source, at) === undefined),
      sought,
      place
    ),
    ([, , pattern, path]): Action => ({ type: "search", pattern, path })
  )
]

/** See the module. */
export const rules: ReadonlyArray<Rule> = [...list, ...search]
