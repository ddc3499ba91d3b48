/**
 * Contract of the approvals: a call that is judged, the decision on it, the policy of the operator, and the service.
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §7.
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { ApprovalsMode, PermissionMode } from "../../base/config/PermissionMode.ts"
import type { Service as HooksService } from "../../hooks/Hooks.ts"
import type { BlockReason } from "../../hooks/ToolOutcome.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { Finding } from "../danger/Command.ts"
import type { BoundTool } from "../Toolset.ts"
import type { AllowListStore } from "./AllowList.ts"
import type { ApprovalJudge } from "./ApprovalJudge.ts"
import type { RunArguments } from "./ApprovalReasons.ts"
import type { Approver } from "./Approver.ts"
import type { Service as Permissions } from "./Permissions.ts"
import type { Choice, Concern, Outcome, Scanner } from "./Question.ts"

/** A tool call to be judged. */
export interface Call {
  readonly tool: string
  readonly args: ToolArguments
  /** Arguments that run as commands; known by the tool's name when absent. */
  readonly runs?: RunArguments | undefined
  /**
   * Reasons besides what detection finds: `needsApproval`, an annotation, a plugin's directive, a scanner's finding.
   */
  readonly concerns?: ReadonlyArray<Concern> | undefined
  /** Scope of an approval "for this session"; the session's id when absent. */
  readonly sessionKey?: string | undefined
  /** True when it runs in a container or on a separate machine; no approval is then needed. */
  readonly contained?: boolean | undefined
  /**
   * True when a sandbox of the operating system confines its commands: only effects inside the sandbox are asked
   * about.
   */
  readonly isConfined?: boolean | undefined
  /** Selects the findings inside the sandbox that an undo does not cover; when absent, an undo covers nothing. */
  readonly uncovered?:
    | ((args: ToolArguments, found: ReadonlyArray<Finding>) => Effect.Effect<ReadonlyArray<Finding>>)
    | undefined
  /** Hosts that its commands can reach inside the sandbox. */
  readonly reach?: BoundTool["reach"] | undefined
  /** True when its tool says that it only reads. */
  readonly isReadonly?: boolean | undefined
  /** True when it asks to leave its sandbox. The question is then about this, not about an unknown command. */
  readonly leavesWall?: boolean | undefined
}

/** Reason for which a call may run. */
type Ground =
  | "nothing found"
  | "contained"
  | "yolo"
  | "off"
  | "allow-list"
  | "permission"
  | "edits"
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

/** Ways in which approvals are decided. */
export type Mode = ApprovalsMode

/**
 * Policy of an operator about approvals; fixed when the process starts.
 *
 * Source: `hermes-product.md` §1.10, `hermes-llm.md` §19.7.
 */
export interface Policy {
  readonly mode: Mode
  /** Overrides `mode` when set. */
  readonly permissionMode?: PermissionMode | undefined
  /** Skips everything but the floor and the deny globs. */
  readonly yolo: boolean
  /** Globs of commands that never run. */
  readonly deny: ReadonlyArray<string>
  /** Entries of approvals for good, and globs of commands that need no approval: `approval/AllowList.ts`. */
  readonly allow: ReadonlyArray<string>
  /** Rule for commands that are not known to only read and run without a sandbox. */
  readonly unknownCommands: "ask" | "allow"
  readonly timeout: Duration.Duration
}

/** Silence is deny after a minute, and nothing is allowed beforehand. */
export const defaultPolicy: Policy = {
  mode: "manual",
  yolo: false,
  deny: [],
  allow: [],
  unknownCommands: "ask",
  timeout: Duration.seconds(60)
}

/** A question that comes from elsewhere than a call's text. */
export interface Request {
  readonly tool: string
  readonly command: string
  readonly concerns: ReadonlyArray<Concern>
  /** True when a list allows it: only a rule that refuses or asks can stop it. */
  readonly isListed?: boolean | undefined
  readonly sessionKey?: string | undefined
}

/** Decides whether a tool call may run. */
export interface Service {
  /** The whole order, for one call. */
  readonly check: (call: Call) => Effect.Effect<Permit | Refusal>
  /** Asks about concerns regardless of the text of a call; remembered approvals and the mode apply. */
  readonly request: (
    request: Request
  ) => Effect.Effect<{ readonly outcome: Outcome; readonly by: Permit["by"]; readonly reason?: string | undefined }>
  /** Yolo for one session (`/yolo`). */
  readonly setYolo: (session: string, on: boolean) => Effect.Effect<void>
  /** Another mode for one session (`/approvals`). */
  readonly setMode: (session: string, mode: Mode | PermissionMode) => Effect.Effect<void>
  /** Forgets what a session approved. */
  readonly forget: (session: string) => Effect.Effect<void>
}

/** Options of the service. */
export interface Options {
  readonly policy?: Partial<Policy> | undefined
  readonly hooks: HooksService
  /** Asked for a decision; without one, everything that needs an approval is denied. */
  readonly approver?: Approver | undefined
  readonly judge?: ApprovalJudge["Service"] | undefined
  readonly store?: AllowListStore | undefined
  /** Looks at every command line that nothing lifts the questions of. */
  readonly scanner?: Scanner | undefined
  /** Rules per tool and pattern; none when absent. */
  readonly permissions?: Permissions | undefined
}
