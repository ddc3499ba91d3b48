/**
 * The parts of a conversation on the terminal, as data: messages, reasoning, tool calls, file changes, todo lists,
 * notices, questions, and the program's own lines. Blocks do not depend on the width, the colours or folding.
 *
 * Blocks are immutable: a changed block is a new object, so results computed from a block can be cached by its
 * identity.
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as Cost from "../../../base/domain/Cost.ts"
import type * as FileChange from "../../../base/domain/FileChange.ts"
import type { ToolStatus } from "../../../base/domain/RunEvent.ts"
import type { Usage } from "../../../base/domain/Usage.ts"
import type { EventOf } from "./ToolFeed.ts"

/** A message from the user, as it was typed. */
export interface UserBlock {
  readonly _tag: "User"
  readonly text: string
}

/** Text that the model wrote in one step, as Markdown. */
export interface TextBlock {
  readonly _tag: "Text"
  readonly step: number
  readonly text: string
}

export interface ReasoningBlock {
  readonly _tag: "Reasoning"
  readonly text: string
}

/** A finished tool call. */
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

/** File changes by one call. */
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

/** The start or the end of a sub-agent. */
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

/** A question to the user, without secrets. `diff` is the proposed change. */
export interface QuestionBlock {
  readonly _tag: "Question"
  readonly text: string
  /** Command or call in question, which is shown whole in lines that belong to it alone. */
  readonly subject?: string | undefined
  readonly diff: string | undefined
}

/**
 * Lines from the program, already safe to print and styled by `Paint`. Each line ends with a line break, except a line
 * that continues.
 */
export interface LinesBlock {
  readonly _tag: "Lines"
  readonly text: string
  /**
   * `turn` for lines between the parts of a turn, which blank lines separate; `own` for lines that include their blank
   * lines.
   */
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

/** Detail in which a block is shown: `folded` in one or two lines, `part` with its beginning, `open` completely. */
export type Detail = "folded" | "part" | "open"

/** Returns true if a block has more content than its folded form shows. */
export const isFoldable = (block: Block): boolean =>
  block._tag === "Tool" ||
  block._tag === "Diff" ||
  block._tag === "Reasoning" ||
  (block._tag === "Question" && block.diff !== undefined)

/** Returns the approximate number of characters in a block. */
export const measureWeight = (block: Block): number => {
  switch (block._tag) {
    case "Tool":
      return block.output.length + 200
    case "Diff":
      return block.changes.reduce((sum, { diff }) => sum + diff.length, 200)
    case "Todo":
      return block.items.reduce((sum, { content }) => sum + content.length, 100)
    case "Question":
      return block.text.length + (block.subject?.length ?? 0) + (block.diff?.length ?? 0)
    case "Child":
    case "Usage":
      return 200
    default:
      return block.text.length
  }
}
