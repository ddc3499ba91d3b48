/**
 * The order in which a tool call is judged; see `Approvals`, which loads this module.
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §4 and §7.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as Glob from "../../base/domain/Glob.ts"
import { Correlation } from "../../hooks/Correlation.ts"
import { Hooks } from "../../hooks/Hooks.ts"
import type { Finding } from "../danger/Command.ts"
import * as Danger from "../danger/Danger.ts"
import * as AllowList from "./AllowList.ts"
import * as ApprovalFlow from "./ApprovalFlow.ts"
import { ApprovalJudge } from "./ApprovalJudge.ts"
import {
  addPlainCheck,
  type Call,
  defaultPolicy,
  type Mode,
  type Options,
  type Permit,
  type Policy,
  type Refusal,
  type Request,
  type Service,
  type SuspendedApproval
} from "./ApprovalPolicy.ts"
import * as ApprovalTarget from "./ApprovalTarget.ts"
import { ApprovalPrompt, type Approver, makeTerminalApprover } from "./Approver.ts"
import * as CommandPrefix from "./CommandPrefix.ts"
import * as RefusalTexts from "./RefusalTexts.ts"
import { StartingSessions } from "./InteractiveMode.ts"
import * as PermissionCalls from "./PermissionCalls.ts"
import * as Permissions from "./Permissions.ts"
import { collectRunTexts } from "./ApprovalReasons.ts"
import { type Choice, type Concern, ContentScanner } from "./ApprovalRequest.ts"

/** Returns the first glob that matches one of the texts. */
const findFirstMatch = (globs: ReadonlyArray<string>, texts: ReadonlyArray<string>): string | undefined =>
  globs.find((glob) => texts.some((text) => Glob.isMatch(glob, text)))

const makeRefusal = (reason: Refusal["reason"], message: string): Refusal => ({ _tag: "Refusal", reason, message })

const classifySurroundings = (
  { isConfined, leavesWall, reach }: Call,
  { unknownCommands }: Policy
): Danger.Surroundings => {
  if (isConfined === true) return reach === "all" ? "connected" : "confined"
  return leavesWall === true ? "allow" : unknownCommands
}

const permitPlain = (call: Call): Permit => ({ _tag: "Permit", call, by: "nothing found", choice: undefined })

const permitContained = (call: Call): Permit => ({ _tag: "Permit", call, by: "contained", choice: undefined })

/** Mode of a session or run; `off` asks no questions and is set for a whole process. */
type ResolvedMode = PermissionMode.PermissionMode | "off"

/** Policy, memory and services used to judge calls. */
interface JudgementState {
  readonly policy: Policy
  /** Entries of the allow-list that are not command prefixes. */
  readonly globs: ReadonlyArray<string>
  /** Returns true for a line that an approved command prefix covers. */
  readonly isCovered: (line: string) => boolean
  readonly memory: AllowList.Memory
  readonly asking: ReturnType<typeof ApprovalFlow.make>
  readonly permissions: Permissions.Service | undefined
  readonly scan: NonNullable<Options["scanner"]>["scan"]
  /** Sessions whose user turned all questions off. */
  readonly yolo: Set<string>
  readonly modes: Map<string, Mode | PermissionMode.PermissionMode>
}

const makeState = (options: Options): JudgementState => {
  const policy: Policy = { ...defaultPolicy, ...options.policy }
  const allowed = AllowList.parse(policy.allow)
  const prefixes = allowed.globs
    .flatMap((glob) => [CommandPrefix.parseGlob(glob) ?? []])
    .filter((words) => words.length > 0)
  const memory = AllowList.makeMemory(allowed.exact, options.store ?? { add: () => Effect.void })
  const { approver, hooks, judge, permissions } = options
  return {
    policy,
    globs: allowed.globs.filter((glob) => CommandPrefix.parseGlob(glob) === undefined),
    isCovered: CommandPrefix.makeMatcher(prefixes),
    memory,
    asking: ApprovalFlow.make({ policy, memory, hooks, approver, judge, keepRules: permissions?.kept?.add }),
    permissions,
    scan: options.scanner?.scan ?? (() => Effect.succeed<ReadonlyArray<Concern>>([])),
    yolo: new Set(),
    modes: new Map()
  }
}

/** Returns the mode chosen for the run, or else the mode of its session. */
const resolveMode = (
  { modes, policy, yolo }: JudgementState,
  session: string,
  ofRun: PermissionMode.PermissionMode | undefined
): ResolvedMode => {
  if (ofRun !== undefined) return ofRun
  if (policy.yolo || yolo.has(session)) return "yolo"
  const mode = modes.get(session) ?? policy.permissionMode ?? policy.mode
  return mode === "manual" || mode === "smart" ? PermissionMode.fromApprovals(mode) : mode
}

/** Returns a mode within the loosest one. */
const narrowMode = (mode: ResolvedMode, loosest: PermissionMode.PermissionMode | undefined): ResolvedMode =>
  loosest === undefined ? mode : PermissionMode.selectNarrower(mode === "off" ? "yolo" : mode, loosest)

/** Returns the bypass that suppresses every question. */
const findBypass = (mode: ResolvedMode): "yolo" | "off" | undefined =>
  mode === "yolo" || mode === "off" ? mode : undefined

const toFlowMode = (mode: ResolvedMode): Mode => (mode === "off" ? mode : PermissionMode.toApprovals(mode))

const resolveSession = (own: string | undefined) =>
  Effect.map(Correlation, (ids) => ({ ids, session: own ?? ids.session_id }))

const isOnAllowList = (
  { globs }: JudgementState,
  tool: string,
  lines: ReadonlyArray<string>,
  commands: ReadonlyArray<string>
): boolean =>
  globs.length > 0 &&
  (commands.length > 0
    ? commands.every((command) => findFirstMatch(globs, [command]) !== undefined) &&
      lines.every(CommandPrefix.isPlainLine)
    : findFirstMatch(globs, [tool]) !== undefined)

/** Selects the findings to ask about. In a sandbox, losses that an undo covers are excluded. */
const selectFindings = (
  { policy }: JudgementState,
  call: Call,
  verdict: Danger.Verdict
): Effect.Effect<ReadonlyArray<Finding>> => {
  const found = Danger.selectAskedFindings(verdict, classifySurroundings(call, policy))
  return call.isConfined !== true || call.uncovered === undefined || verdict.onlyReads
    ? Effect.succeed(found)
    : call.uncovered(call.args, found)
}

/**
 * Returns the refusal by the floor, a deny glob or a rule of `permissions.deny`, in this order. No mode overrides it.
 */
const findFixedRefusal = (
  { policy }: JudgementState,
  call: Call,
  { text, verdict }: ApprovalTarget.ApprovalTarget,
  { denied }: PermissionCalls.CallJudgement
): Refusal | undefined => {
  if (verdict.floor !== undefined) return makeRefusal("hardline", RefusalTexts.renderHardlineBlock(verdict.floor.key))
  const glob =
    policy.deny.length === 0 ? undefined : findFirstMatch(policy.deny, [text(), ...verdict.commands, call.tool])
  if (glob !== undefined) return makeRefusal("approval_denied", RefusalTexts.renderGlobDenial(glob))
  if (denied === undefined) return undefined
  const { problem, source, text: rule } = denied
  return makeRefusal(
    "approval_denied",
    problem === undefined
      ? RefusalTexts.renderRuleDenial(rule, source)
      : RefusalTexts.renderBrokenRuleDenial(rule, source, problem)
  )
}

const makePlanRefusal = (call: Call): Refusal =>
  makeRefusal(
    "approval_denied",
    RefusalTexts.renderPlanBlock(
      call.tool,
      (call.concerns ?? []).map(({ key }) => key)
    )
  )

/** A finding as a reason to ask; `listed` is true if an approved prefix or a rule covers it. */
type JudgedFinding = Concern & { readonly listed: boolean }

const judgeFindings = (
  { isCovered }: JudgementState,
  found: ReadonlyArray<Finding>,
  { lines, prefix }: ApprovalTarget.ApprovalTarget,
  { allowed: rule }: PermissionCalls.CallJudgement
): ReadonlyArray<JudgedFinding> => {
  const offered = found.length === 0 ? undefined : prefix()
  const covered = found.length > 0 && lines.length === 1 && lines.every(isCovered)
  return found.map((finding): JudgedFinding => {
    const holds = CommandPrefix.canHoldFor(finding)
    const listed =
      (covered && (holds || (offered === undefined && CommandPrefix.isListable(finding)))) ||
      (rule !== undefined && CommandPrefix.isListable(finding))
    return {
      key: finding.key,
      permanent: true,
      prefix: holds ? offered : undefined,
      listed,
      isRuled: CommandPrefix.isListable(finding)
    }
  })
}

/** Selects the concerns of the call itself that neither a rule nor the mode `edits` lifts. */
const selectConcerns = (
  call: Call,
  { allowed: rule, allowsHost }: PermissionCalls.CallJudgement,
  edits: (concern: Concern) => boolean
): ReadonlyArray<Concern> => {
  const isRuled = (concern: Concern): boolean => PermissionCalls.isLifted(call.tool, concern)
  return (call.concerns ?? [])
    .filter((concern) => {
      const { target } = concern
      const isLifted =
        isRuled(concern) && (rule !== undefined || (target?.kind === "host" && allowsHost?.(target.text) === true))
      return !isLifted && !edits(concern)
    })
    .map((concern) => ({ ...concern, isRuled: isRuled(concern) }))
}

/** Reasons to ask about a call, and the ground on which it runs without any reason. */
interface CallReasons {
  readonly known: ReadonlyArray<Concern>
  readonly otherwise: Permit["by"]
}

const collectReasons = Effect.fnUntraced(function* (
  state: JudgementState,
  call: Call,
  target: ApprovalTarget.ApprovalTarget,
  judgement: PermissionCalls.CallJudgement,
  mode: ResolvedMode
): Effect.fn.Return<CallReasons> {
  const { allowed: rule, asked } = judgement
  const found = yield* selectFindings(state, call, target.verdict)
  const findings = judgeFindings(state, found, target, judgement)
  const edits = mode === "edits" ? yield* PermissionCalls.makeEditTest(call) : () => false
  const further = selectConcerns(call, judgement, edits)
  const hasLiftedConcern = further.length < (call.concerns?.length ?? 0)
  const known: ReadonlyArray<Concern> = [
    ...findings.filter(({ listed }) => !listed),
    ...further,
    ...(asked === undefined ? [] : [{ key: `the rule ${asked.text} (${asked.source})`, permanent: false }])
  ]
  if (!hasLiftedConcern && !findings.some(({ listed }) => listed)) return { known, otherwise: "nothing found" }
  if (rule !== undefined) return { known, otherwise: "permission" }
  if (hasLiftedConcern) return { known, otherwise: mode === "edits" ? "edits" : "permission" }
  return { known, otherwise: "allow-list" }
})

const judgeCall = Effect.fnUntraced(function* (
  state: JudgementState,
  call: Call,
  judgedTarget: ApprovalTarget.ApprovalTarget,
  judgement: PermissionCalls.CallJudgement
): Effect.fn.Return<Permit | Refusal | SuspendedApproval> {
  const grantPermit = (by: Permit["by"], choice?: Choice): Permit => ({ _tag: "Permit", call, by, choice })
  const { permissions } = state
  const { lines, target, text, verdict } = judgedTarget
  const fixed = findFixedRefusal(state, call, judgedTarget, judgement)
  if (fixed !== undefined) return fixed
  const { ids, session } = yield* resolveSession(call.sessionKey)
  const mode = narrowMode(resolveMode(state, session, yield* PermissionMode.current), yield* PermissionMode.LoosestMode)
  if (mode === "plan" && !PermissionCalls.canRunInPlan(call, judgedTarget)) return makePlanRefusal(call)
  const { known, otherwise } = yield* collectReasons(state, call, judgedTarget, judgement, mode)
  if (known.length === 0 && lines.length === 0) return grantPermit(otherwise)
  const free =
    findBypass(mode) ??
    (judgement.asked === undefined && isOnAllowList(state, call.tool, lines, verdict.commands)
      ? "allow-list"
      : undefined)
  if (free !== undefined) return grantPermit(known.length === 0 ? otherwise : free)
  const concerns = [...known, ...(yield* Effect.forEach(lines, state.scan)).flat()]
  if (concerns.length === 0) return grantPermit(otherwise)
  const offeredRules = (asked: ReadonlyArray<Concern>, prefix: Concern["prefix"]) =>
    permissions === undefined
      ? Effect.undefined
      : PermissionCalls.findOfferedRules(permissions, { call, target: judgedTarget, concerns: asked, prefix })
  const request = { tool: call.tool, command: text(), concerns, target: target(), offeredRules }
  const { by, message, outcome } = yield* state.asking.ask(request, {
    session,
    starting: yield* StartingSessions,
    ids,
    mode: toFlowMode(mode)
  })
  if (outcome === "suspended") return { _tag: "Suspended" }
  if (outcome === "deny") return makeRefusal("approval_denied", message)
  return outcome === "timeout" ? makeRefusal("approval_timeout", message) : grantPermit(by, outcome)
})

/**
 * Returns true if the call needs no further check: it does not run a command, and neither a rule nor the call itself is
 * a reason to ask.
 */
const isPlain = (
  { policy }: JudgementState,
  { concerns = [] }: Call,
  { lines, verdict: { floor, onlyReads } }: ApprovalTarget.ApprovalTarget
): boolean => policy.deny.length === 0 && floor === undefined && onlyReads && lines.length + concerns.length === 0

const isPlanning = (
  state: JudgementState,
  { sessionKey }: Pick<Call, "sessionKey">,
  fiber: Fiber.Fiber<unknown, unknown>
): boolean =>
  resolveMode(state, sessionKey ?? fiber.getRef(Correlation).session_id, PermissionMode.readFiberMode(fiber)) === "plan"

/** Judges a call with its rules. */
const judgeWithRules = Effect.fnUntraced(function* (
  state: JudgementState,
  call: Call,
  target: ApprovalTarget.ApprovalTarget,
  rules: Permissions.Service,
  isPlanning: boolean
) {
  const judgement = yield* PermissionCalls.judge(rules, call, target)
  if (judgement.denied !== undefined || isPlanning) return yield* judgeCall(state, call, target, judgement)
  if (call.contained === true) return permitContained(call)
  return judgement.asked === undefined && isPlain(state, call, target)
    ? permitPlain(call)
    : yield* judgeCall(state, call, target, judgement)
})

const checkCall = (state: JudgementState, call: Call): Effect.Effect<Permit | Refusal | SuspendedApproval> =>
  Effect.withFiber((fiber) => {
    const target = ApprovalTarget.fromCall(call.tool, call.args, call.runs)
    const planning = isPlanning(state, call, fiber)
    if (state.permissions !== undefined) return judgeWithRules(state, call, target, state.permissions, planning)
    if (planning) return judgeCall(state, call, target, PermissionCalls.undecided)
    if (call.contained === true) return Effect.succeed(permitContained(call))
    return isPlain(state, call, target)
      ? Effect.succeed(permitPlain(call))
      : judgeCall(state, call, target, PermissionCalls.undecided)
  })

/** Permits a call at once if {@link checkCall} permits it because it runs nothing and has no reason to ask. */
const permitAtOnce = (
  state: JudgementState,
  call: Call,
  session: string,
  fiber: Fiber.Fiber<unknown, unknown>
): Permit | undefined => {
  const { concerns = [], contained, sessionKey = session } = call
  const { inputs, lines } = collectRunTexts(call.tool, call.args, call.runs)
  if (state.permissions !== undefined || contained === true || state.policy.deny.length > 0) return undefined
  if (concerns.length + inputs.length + lines.length > 0) return undefined
  return isPlanning(state, { sessionKey }, fiber) ? undefined : permitPlain(call)
}

/** Judges a request that is not a tool call, such as a host that a running command connects to. */
const judgeRequest = Effect.fnUntraced(function* (
  state: JudgementState,
  request: Request
): Effect.fn.Return<Effect.Success<ReturnType<Service["request"]>>> {
  const { permissions } = state
  const { ids, session } = yield* resolveSession(request.sessionKey)
  const mode = narrowMode(resolveMode(state, session, yield* PermissionMode.current), yield* PermissionMode.LoosestMode)
  const ruled = permissions === undefined ? undefined : yield* PermissionCalls.judgeRequest(permissions, request)
  if (ruled !== undefined) return ruled
  const free = request.isListed === true && permissions === undefined ? "allow-list" : findBypass(mode)
  if (free !== undefined) return { outcome: "once", by: free }
  const target = { kind: "call", text: `${request.tool} ${request.command}` } as const
  const concerns = request.concerns.map((concern) => ({
    ...concern,
    isRuled: concern.permanent && concern.target?.kind === "host"
  }))
  const offeredRules = (asked: ReadonlyArray<Concern>) =>
    permissions === undefined ? Effect.undefined : PermissionCalls.findOfferedHostRules(permissions, asked)
  const { by, outcome, reason } = yield* state.asking.ask(
    { ...request, concerns, target, offeredRules },
    { session, starting: yield* StartingSessions, ids, mode: toFlowMode(mode) }
  )
  // A request of a running call is never suspended: the call would run again.
  return { outcome: outcome === "suspended" ? "timeout" : outcome, by, reason }
})

/** Creates approvals that decide whether a tool call may run. */
export const make = (options: Options): Service => {
  const state = makeState(options)
  const { asking, memory, modes, yolo } = state
  const service: Service = {
    check: (call) => checkCall(state, call),
    request: (request) => judgeRequest(state, request),
    setYolo: (session, on) => Effect.sync(() => void (on ? yolo.add(session) : yolo.delete(session))),
    setMode: (session, mode) => Effect.sync(() => void modes.set(session, mode)),
    forget: (session) =>
      Effect.sync(() => {
        memory.forget(session)
        asking.forget(session)
        modes.delete(session)
        yolo.delete(session)
      })
  }
  return addPlainCheck(service, (call, session, fiber) => permitAtOnce(state, call, session, fiber))
}

/**
 * Like {@link make}, but takes the hooks, the allow-list, the scanner and the rules from the context if the options do
 * not specify them.
 */
export const makeService = Effect.fnUntraced(function* (
  options: Omit<Options, "hooks">
): Effect.fn.Return<Service, never, Hooks> {
  const hooks = yield* Hooks
  const store = options.store ?? (yield* AllowList.AllowList)
  const scanner = options.scanner ?? (yield* ContentScanner)
  const permissions = options.permissions ?? (yield* Permissions.Permissions)
  const dropped = AllowList.renderNotice(AllowList.parse(options.policy?.allow ?? []))
  if (dropped !== undefined) yield* Effect.logWarning(dropped)
  return make({ ...options, hooks, store, scanner, permissions })
})

/** Like {@link makeService}, configured from the settings. Uses a prompt and a judge if they are provided. */
export const fromSettings = Effect.fnUntraced(function* (options: {
  readonly yolo?: boolean | undefined
}): Effect.fn.Return<Service, never, Hooks | Settings> {
  const { approvals, commandAllowlist, permissions } = yield* Settings
  const hasRules = permissions.allow.length + permissions.ask.length + permissions.deny.length > 0
  const judge = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalJudge))
  const prompt = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalPrompt))
  return yield* makeService({
    policy: {
      mode: approvals.mode,
      permissionMode: approvals.defaultMode,
      yolo: options.yolo ?? false,
      deny: approvals.deny,
      allow: commandAllowlist,
      unknownCommands: approvals.unknownCommands,
      timeout: Duration.seconds(approvals.timeout)
    },
    judge,
    permissions:
      (yield* Permissions.Permissions) ?? (hasRules ? yield* Permissions.fromSettings(permissions) : undefined),
    approver: prompt === undefined ? undefined : makeTerminalApprover(prompt)
  })
})

/** Like {@link makeService}, but its questions wait for an answer from outside for the time that the settings allow. */
export const fromQueue = (approver: Approver, policy: Partial<Policy>): Effect.Effect<Service, never, Hooks> =>
  Effect.flatMap(Effect.serviceOption(Settings), (settings) => {
    const seconds = Option.isSome(settings) ? settings.value.approvals.gatewayTimeout : 300
    return makeService({ policy: { timeout: Duration.seconds(seconds), ...policy }, approver })
  })
