/**
 * Instructions about the answer: a text to be given letter by letter, or what the tools gave.
 *
 * **Gotchas**
 *
 * The final period of an unquoted reply belongs to the sentence, not to the reply: "Reply exactly ok." is answered `ok`.
 * After a colon the text is as it stands, period and all, which is how the middleware document prints it
 * ("reply with exactly: parallel tools complete." is answered `parallel tools complete.`).
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import type { Instruction } from "./Instruction.ts"
import * as Parser from "./Parser.ts"
import * as References from "./References.ts"
import * as Tokens from "./Tokens.ts"

const strict = Parser.first(
  Parser.phrase("exactly|precisely|only|just|verbatim|literally"),
  Parser.phrase("nothing but|except")
)

const padding: Parser.Parser<unknown> = Parser.first<unknown>(
  strict,
  Parser.phrase("back|with|using|saying"),
  Parser.phrase("to? me|us"),
  Parser.phrase("after me|us"),
  Parser.phrase(
    "the|a|one|this exact|following|single|one|literal* word|words|text|phrase|string|sentence|message|line|token"
  ),
  Parser.phrase("one|two|three words|word"),
  Parser.phrase("the following"),
  Parser.mark(",:\n\n")
)

/** Padding up to a reference or the literal. */
const pads = Parser.many((source, at) => References.toOutput(source, at) === undefined ? padding(source, at) : undefined)

const addendum = Parser.phrase("and|with? nothing|no else|more|other?")

const literalEnds = (source: Tokens.Source, at: number): boolean =>
  Clause.literalEnds(source, at) || addendum(source, at) !== undefined

const quotedLiteral = Parser.map(
  Parser.seq(
    Parser.quotation,
    Parser.where((source, at) =>
      at >= source.tokens.length || Parser.markAt(source, at) !== ""
      || ["and", "then", "only", "without", "with", "when", "after"].includes(Parser.wordAt(source, at))
    )
  ),
  ([text]) => text
)

const withoutPeriod = (text: string): string => text.endsWith(".") && !text.endsWith("..") ? text.slice(0, -1) : text

/** The text to answer with, once the padding is over. */
const literal: Parser.Parser<string> = (source, at) => {
  const before = Parser.markAt(source, at - 1)
  const isBlock = before.startsWith("\n") && Parser.markAt(source, at - 2) === ":"
  const plain = Parser.textUntil(isBlock ? () => false : literalEnds)
  const written = before === ":" || isBlock ? plain : Parser.map(plain, withoutPeriod)
  const found = Parser.first(quotedLiteral, written)(source, at)
  if (found === undefined) return undefined
  const rest = Parser.textUntil(Clause.literalEnds)(source, found.next)
  return { value: found.value, next: rest?.next ?? found.next }
}

const outputOrText: Parser.Parser<Instruction> = Parser.first<Instruction>(
  Parser.map(Parser.seq(References.toOutput, References.source), ([, of]) => ({ type: "reply-output", of })),
  Parser.map(literal, (text) => ({ type: "reply", text }))
)

/** Words that make something else of it: "reply in French", "say how you did it". */
const otherwise = new Set(["in", "to", "as", "like", "if", "about", "my", "these", "how", "what", "why", "whether"])

const freely: Parser.Parser<Instruction> = Parser.last(
  Parser.phrase("reply|respond|say|repeat|echo"),
  Parser.first(
    Parser.last(Parser.filter(pads, (found) => found.length > 0), outputOrText),
    Parser.last(
      Parser.where((source, at) =>
        !otherwise.has(Parser.wordAt(source, at)) || References.toOutput(source, at) !== undefined
      ),
      outputOrText
    )
  )
)

const someStrict: Parser.Parser<unknown> = (source, at) => {
  const found = pads(source, at)
  if (found === undefined) return undefined
  for (let index = at; index < found.next; index++) {
    if (strict(source, index) !== undefined) return found
  }
  return Parser.markAt(source, found.next - 1) === ":" ? found : undefined
}

/** Verbs that ask for a literal answer only when they are strict about it: "print exactly", "answer only". */
const strictly: Parser.Parser<Instruction> = Parser.last(
  Parser.phrase("answer|return|output|print|write|give|tell|send|provide"),
  someStrict,
  outputOrText
)

const show: Parser.Parser<Instruction> = Parser.map(
  Parser.first(
    Parser.last(
      Parser.phrase("show|print|give|tell|display|return|report|output|send|post"),
      Parser.first(
        Parser.map(Parser.phrase("it|them|that to me|us"), () => undefined),
        Parser.last(Parser.phrase("me|us|back|to*"), References.toOutput, References.source)
      )
    ),
    Parser.map(Parser.phrase("what does|do|did it|they|that say|contain|print|output|return"), () => undefined)
  ),
  (of) => ({ type: "show", of })
)

const recap: Parser.Parser<Instruction> = Parser.map(
  Parser.seq(Parser.first(
    Parser.phrase("summarise|summarize|recap|report what|your|the? you|work|progress|results|findings"),
    Parser.phrase("say|tell|explain|describe me|us? what was|has|is|you|we been? done|found|left|did|accomplished"),
    Parser.phrase("provide|give|write|return me? a|your|the final|brief|short|concise* summary|recap|response|report")
  ), Parser.skip(Parser.textUntil(Clause.ends))),
  () => ({ type: "recap" })
)

/** See the module. */
export const rules: ReadonlyArray<Parser.Parser<Instruction>> = [strictly, freely, show, recap]
