/**
 * The parts of a conversation on the terminal, as data: messages, reasoning, tool calls, file changes, todo lists,
 * notices, questions, and the program's own lines. Blocks do not depend on the width, the colours or folding.
 *
 * Blocks are values: one that changes is another object, so that what was made of it can be kept beside it.
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as Cost from "../../../base/domain/Cost.ts"
import type * as FileChange from "../../../base/domain/FileChange.ts"
import type { ToolStatus } from "../../../base/domain/RunEvent.ts"
import type { Usage } from "../../../base/domain/Usage.ts"
import type { EventOf } from "./ToolFeed.ts"

/** A message of the user, as it was typed. */
export interface UserBlock {
  readonly _tag: "User"
  readonly text: string
}

/** Text of the model in one step, as Markdown. */
export interface TextBlock {
  readonly _tag: "Text"
  readonly step: number
  readonly text: string
}

export interface ReasoningBlock {
  readonly _tag: "Reasoning"
  readonly text: string
}

/** A tool call that is closed. */
export interface ToolBlock {
  readonly _tag: "Tool"
  readonly name: string
  readonly params: unknown
  readonly status: ToolStatus
  readonly output: string
  readonly durationMillis: number
  /** True for the first call of its tool in the turn. */
  readonly isFirst: boolean
}

/** Changes of files by one call. */
export interface DiffBlock {
  readonly _tag: "Diff"
  readonly changes: ReadonlyArray<FileChange.FileChanged>
}

/** An item of a todo list. */
export interface TodoItem {
  readonly content: string
  readonly status: "pending" | "in_progress" | "completed" | "cancelled"
}

export interface TodoBlock {
  readonly _tag: "Todo"
  readonly items: ReadonlyArray<TodoItem>
}

/** A child agent began or ended. */
export interface ChildBlock {
  readonly _tag: "Child"
  readonly event: EventOf<"SubagentStarted" | "SubagentFinished">
}

export interface NoticeBlock {
  readonly _tag: "Notice"
  readonly level: "info" | "warning" | "error" | "detail"
  readonly text: string
}

/** Tokens and cost of a run. */
export interface UsageBlock {
  readonly _tag: "Usage"
  readonly usage: Usage
  readonly cost: Cost.Spent
}

/** A question to the user, without secrets; `diff` is what would be changed. */
export interface QuestionBlock {
  readonly _tag: "Question"
  readonly text: string
  readonly diff: string | undefined
}

/** Lines of the program's own, harmless, as `Paint` made them. A line end ends each but one that goes on. */
export interface LinesBlock {
  readonly _tag: "Lines"
  readonly text: string
  /** `turn` between the parts of a turn, which blank lines set apart; `own` where the lines bring their blank lines. */
  readonly place: "own" | "turn"
}

export type Block =
  | UserBlock
  | TextBlock
  | ReasoningBlock
  | ToolBlock
  | DiffBlock
  | TodoBlock
  | ChildBlock
  | NoticeBlock
  | UsageBlock
  | QuestionBlock
  | LinesBlock

/** Detail in which a block is shown: `folded` in a line or two, `part` with its beginning, `open` whole. */
export type Detail = "folded" | "part" | "open"

/** Tests whether a block has more to show than its folded form. */
export const isFoldable = (block: Block): boolean =>
  block._tag === "Tool" ||
  block._tag === "Diff" ||
  block._tag === "Reasoning" ||
  (block._tag === "Question" && block.diff !== undefined)

/** Characters that a block holds, about. */
export const measureWeight = (block: Block): number => {
  switch (block._tag) {
    case "Tool":
      return block.output.length + 200
    case "Diff":
      return block.changes.reduce((sum, { diff }) => sum + diff.length, 200)
    case "Todo":
      return block.items.reduce((sum, { content }) => sum + content.length, 100)
    case "Question":
      return block.text.length + (block.diff?.length ?? 0)
    case "Child":
    case "Usage":
      return 200
    default:
      return block.text.length
  }
}
