/**
 * Reading and writing files, in plain words.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import type { Action } from "./Instruction.ts"
import * as Names from "./Names.ts"
import * as Parser from "./Parser.ts"
import * as References from "./References.ts"

type Rule = Parser.Parser<Action>

/** Which part of a file. */
interface Window {
  readonly offset?: number
  readonly limit?: number
}

const linesWord = Parser.phrase("lines|line of|in|from")

const window: Parser.Parser<Window> = Parser.first(
  Parser.map(Parser.seq(Parser.phrase("the? first"), Names.count, linesWord), ([, limit]) => ({ limit })),
  Parser.map(
    Parser.seq(
      Parser.phrase("the? lines|line"),
      Names.count,
      Parser.optional(Parser.last(Parser.phrase("to|through|and|-|–"), Names.count), undefined),
      Parser.phrase("of|in|from")
    ),
    ([, from, to]) => ({ offset: from, limit: (to ?? from) - from + 1 })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("the? lines"),
      Parser.wordWhere((word) => /^\d+[-–]\d+$/.test(word)),
      Parser.phrase("of|in|from")
    ),
    ([, range]) => {
      const [from = 1, to = from] = range.split(/[-–]/).map(Number)
      return { offset: from, limit: to - from + 1 }
    }
  )
)

const me = Parser.phrase("me|us|back|to*")
const contents = Parser.phrase("the? full|whole|entire* contents|content|text|body of|in|from")
const fileWord = Parser.phrase("the|both|these|this|my* file|files|document|named|called|at*")

const each = Parser.last(Parser.phrase("one|each|first|second|third?"), Parser.phrase("for|on|with|of"), fileWord)

const files = (item: Parser.Parser<string>): Rule =>
  Parser.map(
    Parser.seq(
      me,
      Parser.optional(window, {}),
      Parser.skip(contents),
      fileWord,
      Names.listOf(item, Parser.last(fileWord, Names.path))
    ),
    ([, part, , , paths]): Action => ({ type: "read", paths, ...part })
  )

/** The files that a tool is used on: `, one for a.txt and one for b.txt`, ` on a.txt`. */
export const named: Rule = Parser.map(
  Parser.seq(
    Parser.skip(Parser.mark(",:")),
    Names.listOf(
      Parser.last(each, Names.path),
      Parser.last(Parser.first(each, fileWord), Names.path)
    )
  ),
  ([, paths]): Action => ({ type: "read", paths })
)

const plainFile = Parser.wordWhere(Names.isFile)

const read: ReadonlyArray<Rule> = [
  Parser.last(
    Parser.phrase("read|open|cat|view"),
    Parser.first(
      Parser.map(
        Parser.seq(Parser.phrase("it|them|that|this"), Parser.phrase("file|files|back*")),
        (): Action => ({ type: "read", paths: [] })
      ),
      files(Names.pathHere)
    )
  ),
  Parser.last(Parser.phrase("show|print|display|give|output|return|tell"), files(Names.file)),
  Parser.last(Parser.phrase("list"), files(plainFile)),
  Parser.last(
    Parser.phrase("tell|show? me?"),
    Parser.first(Parser.phrase("what is|are written?"), Parser.phrase("what's|whats")),
    Parser.skip(Parser.phrase("the contents|content of")),
    Parser.phrase("inside|in?"),
    files(Parser.first(plainFile, Parser.filter(Parser.quotation, Names.isFile)))
  ),
  Parser.map(
    Parser.seq(Parser.phrase("what does|do"), fileWord, Names.file, Parser.phrase("say|contain|hold")),
    ([, , path]): Action => ({ type: "read", paths: [path] })
  )
]

const digest: Rule = Parser.map(
  Parser.seq(Parser.phrase("summarise|summarize"), Parser.skip(contents), fileWord, Names.listOf(plainFile)),
  ([, , , paths]): Action => ({ type: "read", paths, digest: true })
)

const target = Parser.last(Parser.phrase("a|an|the? new|text|empty* file? named|called|at?"), Names.path)
const into = Parser.last(Parser.phrase("to|into|in"), target)
const lineBreak = Parser.mark("\n\n")

/** What follows a colon: a fenced block, the rest of the sentence, or after a line break all the rest. */
const block = Parser.last(
  Parser.mark(":"),
  Parser.first(
    Parser.last(Parser.skip(lineBreak), Parser.quotation),
    Parser.last(lineBreak, Parser.textUntil(() => false)),
    Parser.textUntil(Clause.sentenceEnds)
  )
)

const content = Parser.last(
  Parser.phrase("with|containing|contains|that|which|says|saying"),
  Parser.phrase("contains|says|reads|the|this|following|exact|content|contents|text|line|of*"),
  Parser.first(block, Parser.quotation, Parser.textUntil(Clause.ends))
)

const contentBefore = Parser.first(
  Parser.map(
    Parser.seq(Parser.quotation, Parser.where((source, at) => into(source, at) !== undefined)),
    ([text]) => text
  ),
  // What begins with an article is a description of a text, not the text.
  Parser.filter(
    Parser.textUntil((source, at) => into(source, at) !== undefined || Clause.sentenceEnds(source, at)),
    (text) => !/^(a|an|some|the|your|my)\s/i.test(text)
  )
)

const write: ReadonlyArray<Rule> = [
  Parser.map(
    Parser.seq(Parser.phrase("write|save|put|store the|following|text|content|this*"), into, block),
    ([, path, content]): Action => ({ type: "write", path, content })
  ),
  Parser.map(
    Parser.seq(Parser.phrase("create|make|write|save|add"), target, Parser.optional(Parser.first(content, block), "")),
    ([, path, content]): Action => ({ type: "write", path, content })
  ),
  Parser.map(
    Parser.seq(
      Parser.phrase("write|save|put|store"),
      Parser.skip(Parser.phrase("the text|line|string|word|words|content")),
      contentBefore,
      into
    ),
    ([, , content, path]): Action => ({ type: "write", path, content })
  )
]

/** `its contents`, written elsewhere. */
const copy: Rule = Parser.map(
  Parser.seq(Parser.phrase("write|save|put|store|copy"), References.toOutput, into),
  ([, , path]): Action => ({ type: "write", path, content: undefined })
)

const replace: Rule = Parser.map(
  Parser.seq(
    Parser.phrase("replace|change the? text|word|string?"),
    Parser.wordsUntil("with|to|by", Clause.ends),
    Parser.phrase("with|to|by"),
    Parser.wordsUntil("in|inside", Clause.ends),
    into
  ),
  ([, from, , to, path]): Action => ({ type: "replace", path, from, to })
)

/** See the module. */
export const rules: ReadonlyArray<Rule> = [...read, digest, replace, copy, ...write]
