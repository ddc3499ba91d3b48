/**
 * Origin of a child run.
 */
import type { SessionId, TurnId } from "../domain/Ids.ts"
import type { Budget } from "./Budget.ts"

/** Parent session, turn and budget of a child run. */
export interface Lineage {
  readonly parentSessionId: SessionId
  /** Sessions of the runs above, the parent's first: what the child uses is in their sums too. */
  readonly above: ReadonlyArray<SessionId>
  readonly parentTurnId: TurnId
  /** Empty when the parent is no child itself. */
  readonly parentSubagentId: string
  /** Also the child's task id. */
  readonly subagentId: string
  /** The tool call that asked for it; absent where no call did. */
  readonly callId: string | undefined
  readonly goal: string
  /** 1 for a child of a top-level run. */
  readonly depth: number
  /** The parent's, which what the child uses counts for. */
  readonly budget: Budget
}
