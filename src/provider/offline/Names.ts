/**
 * How things are called: paths, tools, counts.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import * as Parser from "./Parser.ts"

const knownFiles = new Set(["makefile", "dockerfile", "license", "readme", "changelog", "gemfile", "procfile"])

/** Whether a word names a file for certain, as opposed to a directory or no path at all. */
export const isFile = (word: string): boolean =>
  knownFiles.has(word.toLowerCase()) || /^\.[A-Za-z][\w.-]*$/.test(word)
  || (/[^./]\.[A-Za-z0-9]{1,8}$/.test(word) && !/^\d+(\.\d+)+$/.test(word) && !word.includes("://"))

/** Whether a word names a file or a directory. */
export const isPath = (word: string): boolean =>
  isFile(word) || word === "." || word === ".." || word.startsWith("~")
  || (word.includes("/") && !word.includes("://"))

/** A path by its looks, or in quotes. */
export const path = Parser.first(Parser.quotation, Parser.wordWhere(isPath))

/** A file by its looks, or in quotes. */
export const file = Parser.first(Parser.quotation, Parser.wordWhere(isFile))

const filler = new Set(
  "a an the it that this them these those all my your and or in on with using via from for to what".split(" ")
)

/** A path where only a path makes sense: any word but the small ones and those that begin something else. */
export const pathHere = Parser.first(
  path,
  Parser.last(
    Parser.where((source, at) => !Clause.ends(source, at)),
    Parser.wordWhere((word) => !filler.has(word.toLowerCase()))
  )
)

const comma = Parser.first<unknown>(
  Parser.seq(Parser.mark(","), Parser.phrase("and?")),
  Parser.phrase("and|or")
)

/** One or several, joined by commas and `and`; `more` is what the others must look like. */
export const listOf = (
  item: Parser.Parser<string>,
  more: Parser.Parser<string> = item
): Parser.Parser<ReadonlyArray<string>> =>
  Parser.map(Parser.seq(item, Parser.many(Parser.last(comma, more))), ([head, tail]) => [head, ...tail])

const shortNames = new Set(["terminal", "process", "patch", "todo", "clarify", "memory", "cronjob"])

const looksLikeTool = (word: string): boolean => shortNames.has(word) || /^[a-z][a-z0-9]*_[a-z0-9_]+$/i.test(word)

const anyWord = Parser.first(Parser.quotation, Parser.wordWhere(() => true))

/** A tool by its name, or `the … tool`. */
export const tool = Parser.last(
  Parser.phrase("the|a|an|any|tool?"),
  Parser.first(
    Parser.map(Parser.seq(anyWord, Parser.phrase("tool|tools|function|functions")), ([name]) => name),
    Parser.filter(anyWord, looksLikeTool)
  )
)

const numbers: Readonly<Record<string, number>> = {
  once: 1,
  one: 1,
  twice: 2,
  two: 2,
  three: 3,
  four: 4,
  five: 5,
  six: 6,
  seven: 7,
  eight: 8,
  nine: 9,
  ten: 10
}

/** `once`, `two`, `3`. */
export const count = Parser.map(
  Parser.wordWhere((word) => /^\d{1,4}$/.test(word) || Object.hasOwn(numbers, word.toLowerCase())),
  (word) => numbers[word.toLowerCase()] ?? Number(word)
)
