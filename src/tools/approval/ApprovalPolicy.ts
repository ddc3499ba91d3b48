/**
 * Contract of the approvals: a call that is judged, the decision on it, the policy of the operator, and the service.
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §7.
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
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
import type { Choice, Concern, Outcome, Scanner } from "./ApprovalRequest.ts"

/** A tool call to be judged. */
export interface Call {
  readonly tool: string
  readonly args: ToolArguments
  /** Arguments that run as commands. By default, they are determined by the tool's name. */
  readonly runs?: RunArguments | undefined
  /**
   * Reasons in addition to the findings of detection: `needsApproval`, an annotation, a plugin's directive, a scanner's
   * finding.
   */
  readonly concerns?: ReadonlyArray<Concern> | undefined
  /** Session for which an approval "for this session" holds. The default is the session's id. */
  readonly sessionKey?: string | undefined
  /** True if the call runs in a container or on a separate machine; no approval is needed then. */
  readonly contained?: boolean | undefined
  /**
   * True if a sandbox of the operating system confines the call's commands; only effects inside the sandbox require a
   * question then.
   */
  readonly isConfined?: boolean | undefined
  /** Selects the findings inside the sandbox that an undo does not cover. By default, an undo covers no findings. */
  readonly uncovered?:
    | ((args: ToolArguments, found: ReadonlyArray<Finding>) => Effect.Effect<ReadonlyArray<Finding>>)
    | undefined
  /** Hosts that the call's commands can reach inside the sandbox. */
  readonly reach?: BoundTool["reach"] | undefined
  /** True if the tool declares itself read-only. */
  readonly isReadonly?: boolean | undefined
  /**
   * True if the call asks to leave its sandbox. The question is then about leaving it, not about an unknown command.
   */
  readonly leavesWall?: boolean | undefined
}

/** Reason why a call may run. */
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

/** A call whose approval the run has to wait for. The call stays open, and the run ends with the exit `suspended`. */
export interface SuspendedApproval {
  readonly _tag: "Suspended"
}

/** Ways in which approvals are decided. */
export type Mode = ApprovalsMode

/**
 * Operator's policy on approvals; fixed when the process starts.
 *
 * Source: `hermes-product.md` §1.10, `hermes-llm.md` §19.7.
 */
export interface Policy {
  readonly mode: Mode
  /** Permission mode that overrides `mode` if set. */
  readonly permissionMode?: PermissionMode | undefined
  /** True to skip everything except the hardline floor, the deny globs and `permissions.deny`. */
  readonly yolo: boolean
  /** Globs of commands that never run. */
  readonly deny: ReadonlyArray<string>
  /** Entries of permanent approvals, and globs of commands that need no approval; see `approval/AllowList.ts`. */
  readonly allow: ReadonlyArray<string>
  /** Treatment of commands that run without a sandbox and are not known to be read-only. */
  readonly unknownCommands: "ask" | "allow"
  readonly timeout: Duration.Duration
}

/** A missing answer counts as deny after one minute, and nothing is allowed beforehand. */
export const defaultPolicy: Policy = {
  mode: "manual",
  yolo: false,
  deny: [],
  allow: [],
  unknownCommands: "ask",
  timeout: Duration.seconds(60)
}

/** A request for approval that does not come from the text of a call. */
export interface Request {
  readonly tool: string
  readonly command: string
  readonly concerns: ReadonlyArray<Concern>
  /** True if a list allows the request; only a rule that denies or asks can then stop it. */
  readonly isListed?: boolean | undefined
  readonly sessionKey?: string | undefined
}

/** Decides whether a tool call may run. */
export interface Service {
  /** Checks one call in the complete order. */
  readonly check: (call: Call) => Effect.Effect<Permit | Refusal | SuspendedApproval>
  /** Asks about concerns regardless of the text of a call; remembered approvals and the mode apply. */
  readonly request: (
    request: Request
  ) => Effect.Effect<{ readonly outcome: Outcome; readonly by: Permit["by"]; readonly reason?: string | undefined }>
  /** Turns yolo on or off for one session (`/yolo`). */
  readonly setYolo: (session: string, on: boolean) => Effect.Effect<void>
  /** Sets another mode for one session (`/approvals`). */
  readonly setMode: (session: string, mode: Mode | PermissionMode) => Effect.Effect<void>
  /** Forgets the approvals of a session. */
  readonly forget: (session: string) => Effect.Effect<void>
}

/**
 * Permits a call of a session that runs no command and has no reason to ask, in the fiber that asks. Returns
 * `undefined` if only {@link Service.check} can decide.
 */
export type PlainCheck = (call: Call, session: string, fiber: Fiber.Fiber<unknown, unknown>) => Permit | undefined

/** Plain checks by the `check` that they agree with. A service whose `check` was replaced has no plain check. */
const plainChecks = new WeakMap<Service["check"], PlainCheck>()

/** Adds a plain check to a service whose `check` permits the same calls. */
export const addPlainCheck = (service: Service, plain: PlainCheck): Service => {
  plainChecks.set(service.check, plain)
  return service
}

/** Returns the plain check of a service, if it has one. */
export const findPlainCheck = ({ check }: Service): PlainCheck | undefined => plainChecks.get(check)

/** Options of the approvals service. */
export interface Options {
  readonly policy?: Partial<Policy> | undefined
  readonly hooks: HooksService
  /** Approver that is asked for a decision; without an approver, everything that needs an approval is denied. */
  readonly approver?: Approver | undefined
  readonly judge?: ApprovalJudge["Service"] | undefined
  readonly store?: AllowListStore | undefined
  /** Scanner of every command line, unless questions are suppressed for it. */
  readonly scanner?: Scanner | undefined
  /** Rules per tool and pattern. By default, there are no rules. */
  readonly permissions?: Permissions | undefined
}
