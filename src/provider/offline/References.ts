/**
 * Speaking of what a tool gave: `the command output`, `its contents`, `what it printed`.
 *
 * @since 0.1.0
 */
import * as Clause from "./Clause.ts"
import type { Action } from "./Instruction.ts"
import * as Names from "./Names.ts"
import * as Parser from "./Parser.ts"

const adjectives = "command's|command|tool's|tool|terminal|file's|file|child's|subagent's|script's|exact|raw|full|"
  + "complete|whole|entire|printed|resulting|first|last|final*"

/** See the module. */
export const toOutput: Parser.Parser<string> = Parser.first(
  Parser.phrase(
    `the|its|that|this|their|his|her ${adjectives} output|outputs|result|results|contents|content|stdout|summary|value`
  ),
  Parser.phrase("what|whatever it|they|that|he|she prints|printed|returns|returned|says|said|wrote|outputs|found"),
  Parser.phrase("what happened|happens"),
  Parser.map(
    Parser.seq(
      Parser.phrase("it|them|that"),
      Parser.where((source, at) => at >= source.tokens.length || Clause.ends(source, at))
    ),
    ([word]) => word
  )
)

/** `… of notes.txt`, `… of the command`: what gave it, where that is more than the last tool call. */
export const source: Parser.Parser<Action | undefined> = Parser.optional(
  Parser.last(
    Parser.phrase("of|from|in"),
    Parser.first<Action | undefined>(
      Parser.map(
        Parser.seq(Parser.phrase("running|the|command*"), Parser.filter(Parser.quotation, (text) => !Names.isFile(text))),
        ([, command]): Action => ({ type: "run", commands: [command] })
      ),
      Parser.map(
        Parser.seq(Parser.phrase("the|both|file|files*"), Names.listOf(Names.file)),
        ([, paths]): Action => ({ type: "read", paths })
      ),
      Parser.map(
        Parser.phrase(
          "the|that|this|both|each|all* command|tool|file|files|call|calls|terminal|them|it|script|subagent|child"
        ),
        () => undefined
      )
    )
  ),
  undefined
)
