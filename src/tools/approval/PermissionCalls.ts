/**
 * Converts tool calls to the form that the rules of `permissions` check, and finds the reasons to ask that a rule
 * lifts.
 *
 * **Details**
 *
 * An `allow` rule lifts these concerns: findings in a command that it matches, to the extent that an allow-list prefix
 * would lift them; that a tool may change things; that a path is outside the working tree; that a host is not approved.
 * It does not lift concerns of a plugin or a scanner, or concerns about secrets, files that run later, repository
 * settings and leaving a sandbox.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import * as Effect from "effect/Effect"
import { listWrittenPaths } from "../builtin/file/Fence.ts"
import * as Boundary from "../fence/Boundary.ts"
import * as EgressGate from "../fence/EgressGate.ts"
import * as HostApproval from "../fence/HostApproval.ts"
import * as Urls from "../fence/Urls.ts"
import { ToolContext } from "../ToolContext.ts"
import type { Call, Permit, Request } from "./ApprovalPolicy.ts"
import type { ApprovalTarget } from "./ApprovalTarget.ts"
import * as PermissionJudgement from "./PermissionJudgement.ts"
import type * as Permissions from "./Permissions.ts"
import type { Target } from "./AllowList.ts"
import * as PermissionRule from "./PermissionRule.ts"
import type { Concern, OfferedRules, Outcome } from "./ApprovalRequest.ts"

/** Rules that decide about a call. `allowsHost` returns `true` if they allow a host that the call's command reaches. */
export interface CallJudgement extends Permissions.Judgement {
  readonly allowsHost?: ((host: string) => boolean) | undefined
}

/** Judgement in which no rule decides. */
export const undecided: CallJudgement = { denied: undefined, asked: undefined, allowed: undefined }

/** Names of read-only tools, for tools without annotations. */
const readers: ReadonlySet<string> = new Set([
  "read_file",
  "search_files",
  "session_search",
  "skills_list",
  "skill_view",
  "web_search",
  "web_extract"
])

const collectHosts = (call: Pick<Call, "args" | "tool">, lines: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...EgressGate.selectWebAddresses(call.tool, call.args).flatMap((address) =>
    URL.canParse(address) ? [Urls.formatHost(new URL(address))] : []
  ),
  ...lines
    .flatMap(HostApproval.findLineConcerns)
    .flatMap(({ target }) => (target?.kind === "host" ? [target.text] : []))
]

/** Returns true if a call is known to be read-only. */
const isReadOnlyCall = (
  { isReadonly, tool }: Pick<Call, "isReadonly" | "tool">,
  { inputs, lines, verdict }: ApprovalTarget
): boolean =>
  lines.length + inputs.length > 0 ? verdict.onlyReads && inputs.length === 0 : (isReadonly ?? readers.has(tool))

/** Tools that change only the course of the run itself. They include child agents, which plan too. */
const ofPlanning: ReadonlySet<string> = new Set(["todo", "clarify", "delegate_task", "Agent"])

/** Returns true if a call may run while the agent plans. */
export const canRunInPlan = (call: Call, target: ApprovalTarget): boolean =>
  isReadOnlyCall(call, target) || ofPlanning.has(call.tool)

const guarded = /(?:^|\/)\.(?:git|hermes|agents|ssh)(?:\/|$)/

/**
 * Creates a test for the reasons to ask that the mode `edits` lifts: reasons about edits of files below the working
 * directory.
 */
export const makeEditTest = Effect.fnUntraced(function* ({ tool }: Call) {
  const context = yield* Effect.serviceOption(ToolContext)
  const cwd = context._tag === "Some" ? context.value.cwd : undefined
  const isEdit = tool === "write_file" || tool === "patch"
  return ({ key, permanent, target }: Concern): boolean =>
    isEdit &&
    permanent &&
    cwd !== undefined &&
    target?.kind === "path" &&
    key.startsWith("change of ") &&
    target.text.startsWith(`${cwd}/`) &&
    !guarded.test(target.text.slice(cwd.length))
})

/** Returns a call in the form that rules check. */
const toPermissionCall = (
  call: Call,
  { inputs, lines }: ApprovalTarget,
  cwd: string | undefined,
  readsOnly: boolean,
  needsHosts: boolean
): Permissions.PermissionCall => ({
  tool: call.tool,
  args: call.args,
  lines,
  inputs,
  written: listWrittenPaths(call.tool, call.args),
  hosts: needsHosts ? collectHosts(call, lines) : [],
  cwd: cwd ?? "/",
  onlyReads: readsOnly
})

/** Finds the rules that decide about a call. */
export const judge = Effect.fnUntraced(function* (
  permissions: Permissions.Service,
  call: Call,
  target: ApprovalTarget
): Effect.fn.Return<CallJudgement> {
  const context = yield* Effect.serviceOption(ToolContext)
  const cwd = context._tag === "Some" ? context.value.cwd : undefined
  const rules = yield* permissions.of(cwd)
  if (rules.rules.length === 0) return undecided
  const needsHosts = rules.rules.some(({ pattern, tool }) => pattern._tag === "Host" || tool === "web")
  const judged = yield* PermissionJudgement.judge(
    rules,
    toPermissionCall(call, target, cwd, isReadOnlyCall(call, target), needsHosts),
    permissions
  )
  return needsHosts ? { ...judged, allowsHost: (host) => isHostAllowed(rules, host) } : judged
})

const isHostAllowed = (rules: Permissions.RuleSet, host: string): boolean => {
  const { allowed, asked, denied } = PermissionJudgement.judgeHost(rules, host)
  return allowed !== undefined && asked === undefined && denied === undefined
}

/** Returns the rule that matches a target of an approval; `undefined` if no rule can name it. */
const formatRule = (tool: string, { kind, text }: Target): string | undefined => {
  switch (kind) {
    case "command":
      return tool === "terminal" ? `terminal(${text})` : undefined
    case "prefix":
      return `terminal(${text}:*)`
    case "path":
      return /[*?]/.test(text)
        ? undefined
        : `${tool === "write_file" || tool === "patch" ? "write_file" : "read_file"}(${text})`
    case "host":
      return `web(${text})`
    case "tool":
      return text
    case "call":
      return tool.startsWith("mcp__") ? tool : undefined
  }
}

/** A call with its open concerns. */
interface AskedCall {
  readonly call: Call
  readonly target: ApprovalTarget
  readonly concerns: ReadonlyArray<Concern>
  readonly prefix: Target | undefined
}

/** Finds the rules that can store a permanent approval of a call: each allows this call and fits on one line. */
export const findOfferedRules = Effect.fnUntraced(function* (
  permissions: Permissions.Service,
  { call, concerns, prefix, target }: AskedCall
): Effect.fn.Return<OfferedRules | undefined> {
  const { kept } = permissions
  if (kept === undefined || concerns.length === 0 || !concerns.every(({ isRuled }) => isRuled === true))
    return undefined
  const context = yield* Effect.serviceOption(ToolContext)
  const asCall = toPermissionCall(call, target, context._tag === "Some" ? context.value.cwd : undefined, false, true)
  const selectAllowingRules = Effect.fnUntraced(function* (targets: ReadonlyArray<Target>) {
    const texts = [...new Set(targets.map((one) => formatRule(call.tool, one)))]
    const rules = texts.flatMap((text): ReadonlyArray<Permissions.PlacedRule> => {
      const parsed = text === undefined ? undefined : PermissionRule.parse(text, "allow")
      return parsed?._tag === "Success"
        ? [{ ...parsed.success, list: "allow", source: kept.file, folder: undefined }]
        : []
    })
    if (rules.length < texts.length) return undefined
    const judged = yield* PermissionJudgement.judge({ rules, problems: [] }, asCall, permissions)
    const isAllowed =
      judged.allowed !== undefined ||
      targets.every((one) => one.kind === "host" && isHostAllowed({ rules, problems: [] }, one.text))
    return isAllowed ? rules.map(({ text }) => text) : undefined
  })
  const exact = yield* selectAllowingRules(concerns.map(({ target: own }) => own ?? target.target()))
  const ofPrefix = prefix === undefined ? undefined : yield* selectAllowingRules([prefix])
  return exact === undefined && ofPrefix === undefined ? undefined : { file: kept.file, exact, prefix: ofPrefix }
})

/** Returns true if a rule that allows the call lifts a reason to ask. */
export const isLifted = (tool: string, { key, permanent, target }: Concern): boolean => {
  if (!permanent) return false
  switch (target?.kind) {
    case "tool":
    case "host":
      return true
    case "path":
      return key.startsWith(Boundary.outside)
    default:
      return target === undefined && tool.startsWith("mcp__")
  }
}

/** Returns the answer of the rules to a question about hosts; `undefined` if no rule answers it. */
export const judgeRequest = Effect.fnUntraced(function* (
  permissions: Permissions.Service,
  { concerns, isListed = false }: Pick<Request, "concerns" | "isListed">
): Effect.fn.Return<{ readonly outcome: Outcome; readonly by: Permit["by"]; readonly reason?: string } | undefined> {
  const hosts = concerns.flatMap(({ target }) => (target?.kind === "host" ? [target.text] : []))
  if (hosts.length === 0 || hosts.length < concerns.length) return undefined
  const context = yield* Effect.serviceOption(ToolContext)
  const rules = yield* permissions.of(context._tag === "Some" ? context.value.cwd : undefined)
  const judged = hosts.map((host) => PermissionJudgement.judgeHost(rules, host))
  const denied = judged.find((one) => one.denied !== undefined)?.denied
  if (denied !== undefined)
    return { outcome: "deny", by: "permission", reason: `the rule ${denied.text} (${denied.source})` }
  const isAllowed = judged.every(({ allowed, asked }) => asked === undefined && (isListed || allowed !== undefined))
  return isAllowed ? { outcome: "once", by: "permission" } : undefined
})

/** Finds the rules that can store a permanent approval of hosts. */
export const findOfferedHostRules = (
  { kept }: Permissions.Service,
  concerns: ReadonlyArray<Concern>
): Effect.Effect<OfferedRules | undefined> => {
  const hosts = concerns.flatMap(({ target }) => (target?.kind === "host" ? [`web(${target.text})`] : []))
  const isAll =
    hosts.length > 0 &&
    hosts.length === concerns.length &&
    hosts.every((rule) => PermissionRule.parse(rule, "allow")._tag === "Success")
  return Effect.succeed(kept === undefined || !isAll ? undefined : { file: kept.file, exact: [...new Set(hosts)] })
}
