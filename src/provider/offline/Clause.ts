/**
 * Where one instruction ends and the next begins: sentences, and the words that join two instructions in one.
 *
 * @since 0.1.0
 */
import * as Parser from "./Parser.ts"
import type { Source } from "./Tokens.ts"

/** Words that can begin an instruction. After `and`, a comma or a line break they begin a new one. */
const verbs = new Set(
  [
    "reply respond answer say repeat echo return output print tell give send report",
    "use call invoke ask delegate have spawn",
    "run execute read open cat view show display list ls enumerate search find grep look",
    "write create save put make store add replace change remember",
    "summarise summarize explain describe count stop finish wait end",
    "don't dont never without"
  ].join(" ").split(" ")
)

const politeness = Parser.first(
  Parser.phrase("can|could|would|will you please*"),
  Parser.phrase("i want|need you to"),
  Parser.phrase("i would like you to"),
  Parser.phrase("i'd like you to"),
  Parser.phrase("you should|must|can|may|will"),
  Parser.phrase("your task is to"),
  Parser.phrase("go ahead and"),
  Parser.phrase("let's|lets"),
  Parser.phrase("in|on|from the|a? terminal|shell")
)

const order = Parser.first(
  Parser.phrase("after that|this"),
  Parser.phrase("and|then|next|finally|lastly|also|afterwards|afterward|additionally"),
  Parser.phrase("first|firstly|second|secondly|third|thirdly"),
  Parser.phrase("please|kindly|now|ok|okay|so|but|just"),
  Parser.phrase("your|the|this|my? task|goal|step")
)

/** `1.`, `2)`, `-`, and the number of `Step 3:`. */
const bullet = Parser.first(
  Parser.wordWhere((word) => /^(\d+\)|[-*•])$/.test(word)),
  Parser.last(Parser.wordWhere((word) => /^\d+$/.test(word)), Parser.mark(".:"))
)

const endsSentence = (source: Source, at: number): boolean => {
  const found = Parser.markAt(source, at)
  return found === "." || found === "!" || found === "?" || found === "\n\n"
}

/** `After both results are available,` and the like: when, not what. */
const condition: Parser.Parser<string> = (source, at) => {
  const opened = Parser.phrase("after|when|once|if|upon|as")(source, at)
  if (opened === undefined) return undefined
  for (let next = opened.next; next < source.tokens.length && !endsSentence(source, next); next++) {
    if (Parser.markAt(source, next) === ",") return { value: "", next: next + 1 }
  }
  return undefined
}

/** Everything that may stand before an instruction and says nothing about it. */
export const lead = Parser.many(
  Parser.first(condition, politeness, order, bullet, Parser.mark(",:;.!\n\n"))
)

/** Whether an instruction begins here, after whatever may stand before one. */
export const begins = (source: Source, at: number): boolean => {
  const start = lead(source, at)?.next ?? at
  const word = Parser.wordAt(source, start)
  return verbs.has(word) || (word === "do" && Parser.wordAt(source, start + 1) === "not")
}

/** Whether a sentence is over here. A line break or semicolon ends it only before another instruction. */
export const sentenceEnds = (source: Source, at: number): boolean => {
  const found = Parser.markAt(source, at)
  return endsSentence(source, at) || ((found === "\n" || found === ";") && begins(source, at + 1))
}

const joins = new Set(["and", "then", "but", "without"])

/** Whether an instruction is over here: its sentence is, or another instruction is joined to it. */
export const ends = (source: Source, at: number): boolean =>
  sentenceEnds(source, at)
  || ((Parser.markAt(source, at) === "," || joins.has(Parser.wordAt(source, at))) && begins(source, at))

/** Whether a passage quoted letter by letter ends here: with its sentence, before another instruction. */
export const literalEnds = (source: Source, at: number): boolean => {
  const found = Parser.markAt(source, at)
  if (found === "") return false
  if (found === ",") return Parser.wordAt(source, at + 1) === "then" && begins(source, at + 1)
  return (endsSentence(source, at) || found === "\n" || found === ";") && begins(source, at + 1)
}
