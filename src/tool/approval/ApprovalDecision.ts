/**
 * Tool call that is judged, and the decision on it.
 */
import type { BlockReason } from "../../hooks/ToolOutcome.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { Choice, Concern } from "./Question.ts"
import type { Runs } from "./ApprovalTarget.ts"

/** A tool call to be judged. */
export interface Call {
  readonly tool: string
  readonly args: ToolArguments
  /** Arguments that run as commands; known by the tool's name when absent. */
  readonly runs?: Runs | undefined
  /** Reasons besides what detection finds: `needsApproval`, an annotation, a plugin's directive, a scanner's finding. */
  readonly concerns?: ReadonlyArray<Concern> | undefined
  /** Scope of an approval "for this session"; the session's id when absent. */
  readonly sessionKey?: string | undefined
  /** True when it runs in a container or on a machine of its own, where nothing is asked. */
  readonly contained?: boolean | undefined
}

/** Reason for which a call may run. */
export type Ground =
  | "nothing found"
  | "contained"
  | "yolo"
  | "off"
  | "allow-list"
  | "remembered"
  | "unattended"
  | "judge"
  | "user"

/** A call that may run with these arguments. */
export interface Permit {
  readonly _tag: "Permit"
  readonly call: Call
  readonly by: Ground
  readonly choice: Choice | undefined
}

/** A call that may not run. `message` is for the model. */
export interface Refusal {
  readonly _tag: "Refusal"
  readonly reason: Extract<BlockReason, "hardline" | "approval_denied" | "approval_timeout">
  readonly message: string
}
