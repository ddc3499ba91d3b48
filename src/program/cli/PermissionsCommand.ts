/**
 * `hermes permissions`: lists the rules in the `permissions` setting with the files that define them, and shows which
 * rule decides a call. No call is executed.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Glob from "../../base/domain/Glob.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as AllowList from "../../tools/approval/AllowList.ts"
import * as ApprovalTarget from "../../tools/approval/ApprovalTarget.ts"
import * as CommandPrefix from "../../tools/approval/CommandPrefix.ts"
import * as PermissionCalls from "../../tools/approval/PermissionCalls.ts"
import * as Permissions from "../../tools/approval/Permissions.ts"
import type { Finding } from "../../tools/danger/Command.ts"
import * as Danger from "../../tools/danger/Danger.ts"
import * as EgressGate from "../../tools/fence/EgressGate.ts"
import { ToolContext } from "../../tools/ToolContext.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeSilentFailure, unusable, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")

const order = ["deny", "ask", "allow"] as const

const listRules = Effect.fn("hermes permissions list")(
  function* ({ json }: { readonly json: boolean }) {
    const { problems, rules } = yield* Effect.flatMap(Permissions.make, ({ of }) => of(getWorkingDirectory()))
    const { approvals, commandAllowlist } = yield* Settings
    const all = [
      ...approvals.deny.map((text) => ({ list: "deny", text, source: "approvals.deny" }) as const),
      ...rules.filter(({ problem }) => problem === undefined),
      ...commandAllowlist.map((text) => ({ list: "allow", text, source: "command_allowlist" }) as const)
    ]
    const shown = order.flatMap((list) => all.filter((rule) => rule.list === list))
    if (json)
      yield* printLine(
        SafeText.toJson({ rules: shown.map(({ list, source, text }) => ({ list, rule: text, source })), problems }, 2)
      )
    else if (shown.length > 0)
      yield* printLine(renderTable(shown.map(({ list, source, text }) => [list, text, source].map(SafeText.toLine))))
    else if (problems.length === 0)
      yield* printLine("No rules. Write them to `permissions` in config.yaml, in the lists deny, ask and allow.")
    // The lines about the problems were already logged.
    if (problems.length > 0) return yield* makeSilentFailure(unusable)
  },
  Effect.provide(FolderTrust.layer),
  CommandSettings.provide
)

/** Parses a call written in the form of a rule. Other text is a command line. */
const parseCall = (text: string): { readonly tool: string; readonly args: ToolArguments } => {
  const [, tool, inside = ""] =
    /^([A-Za-z_][\w.-]*)\((.*)\)$/s.exec(text.trim()) ?? /^(mcp__[\w.-]+)$/.exec(text.trim()) ?? []
  switch (tool) {
    case undefined:
      return { tool: "terminal", args: { command: text } }
    case "terminal":
      return { tool, args: { command: inside } }
    case "read_file":
    case "search_files":
    case "write_file":
    case "patch":
      return { tool, args: { path: inside } }
    case "web":
    case "web_extract":
      return {
        tool: "web_extract",
        args: { urls: [/^[a-z][a-z0-9+.-]*:\/\//i.test(inside) ? inside : `https://${inside}`] }
      }
    default:
      return { tool, args: {} }
  }
}

/** A decision and its reason. */
interface DecisionExplanation {
  readonly decision: "deny" | "ask" | "allow"
  readonly reason: string
}

const formatRule = ({ list, problem, source, text }: Permissions.PlacedRule): string =>
  problem === undefined ? `permissions.${list}: ${text} (${source})` : `permissions.${list} cannot be read (${source})`

/** Finds the entry of `command_allowlist` that approves a call. */
const findAllowEntry = (
  entries: ReadonlyArray<string>,
  target: ApprovalTarget.ApprovalTarget,
  found: ReadonlyArray<Finding>
): string | undefined => {
  const {
    lines,
    verdict: { commands }
  } = target
  const exact = AllowList.formatEntry(target.target())
  return entries.find((entry) => {
    const words = CommandPrefix.parseGlob(entry)
    if (words !== undefined)
      return (
        found.every(CommandPrefix.isListable) && lines.length === 1 && lines.every(CommandPrefix.makeMatcher([words]))
      )
    return (
      entry === exact ||
      (commands.length > 0 &&
        commands.every((command) => Glob.isMatch(entry, command)) &&
        lines.every(CommandPrefix.isPlainLine))
    )
  })
}

/** A call and its approval target. */
interface JudgedCall {
  readonly tool: string
  readonly target: ApprovalTarget.ApprovalTarget
  readonly judgement: Permissions.Judgement
  /** Reasons why the hosts of the call need an approval. */
  readonly hosts: ReadonlyArray<string>
}

const explainDecision = (
  { approvals, commandAllowlist }: Values,
  { hosts, judgement: { allowed, asked, denied }, target, tool }: JudgedCall
): DecisionExplanation => {
  const { verdict } = target
  if (verdict.floor !== undefined) return { decision: "deny", reason: `never runs: ${verdict.floor.key}` }
  const glob = approvals.deny.find((glob) =>
    [target.text(), ...verdict.commands, tool].some((text) => Glob.isMatch(glob, text))
  )
  if (glob !== undefined) return { decision: "deny", reason: `approvals.deny: ${glob}` }
  if (denied !== undefined) return { decision: "deny", reason: formatRule(denied) }
  const mode = PermissionMode.fromSettings(approvals)
  if (mode === "plan" && !PermissionCalls.canRunInPlan({ tool, args: {} }, target))
    return { decision: "deny", reason: "plan mode only allows reading" }
  if (mode === "yolo") return { decision: "allow", reason: "yolo mode asks no questions" }
  if (asked !== undefined)
    return {
      decision: "ask",
      reason: `${formatRule(asked)}${asked.list === "deny" ? ", which may be the one you mean" : ""}`
    }
  const found = Danger.selectAskedFindings(verdict, approvals.unknownCommands)
  const entry = found.length === 0 ? undefined : findAllowEntry(commandAllowlist, target, found)
  if (entry !== undefined) return { decision: "allow", reason: `command_allowlist: ${entry}` }
  const left = allowed === undefined ? found : found.filter((finding) => !CommandPrefix.isListable(finding))
  if (left[0] !== undefined) return { decision: "ask", reason: left[0].key }
  if (allowed !== undefined) return { decision: "allow", reason: formatRule(allowed) }
  if (hosts[0] !== undefined) return { decision: "ask", reason: hosts[0] }
  return {
    decision: "allow",
    reason: target.lines.length > 0 ? "no rule; it only reads" : "no rule; the tool itself may ask"
  }
}

const testCall = Effect.fn("hermes permissions test")(
  function* ({ call, json }: { readonly call: string; readonly json: boolean }) {
    if (call.trim() === "")
      return yield* makeUsageFailure(
        'no call: give one, as in `hermes permissions test "git push"` or "write_file(src/a.ts)"'
      )
    const cwd = getWorkingDirectory()
    const permissions = yield* Permissions.make
    const given = parseCall(call)
    const target = ApprovalTarget.fromCall(given.tool, given.args)
    const judgement = yield* Effect.provideService(PermissionCalls.judge(permissions, given, target), ToolContext, {
      sessionId: Ids.SessionId.make("permissions"),
      turnId: Ids.TurnId.make("permissions"),
      taskId: Ids.TaskId.make("permissions"),
      cwd
    })
    const settings = yield* Settings
    const addresses = EgressGate.selectWebAddresses(given.tool, given.args)
    const hosts = (yield* EgressGate.findConcerns(addresses, EgressGate.policyFromSettings(settings))).flatMap(
      ({ key, target }) =>
        target !== undefined && settings.commandAllowlist.includes(AllowList.formatEntry(target)) ? [] : [key]
    )
    const { decision, reason } = explainDecision(settings, { tool: given.tool, target, judgement, hosts })
    yield* printLine(
      json
        ? SafeText.toJson({ call, tool: given.tool, decision, reason }, 2)
        : `${decision}  ${SafeText.toLine(reason)}`
    )
  },
  Effect.provide(FolderTrust.layer),
  CommandSettings.provide
)

const call = Argument.String("call").pipe(
  Argument.withDescription(
    'A command line, or a call in the form of a rule: "write_file(src/a.ts)", "web(example.com)"'
  )
)

/** Without a subcommand, lists the rules. */
export const command = Command.make("permissions", { json }, listRules).pipe(
  Command.withSubcommands([
    Command.make("list", { json }, listRules).pipe(
      Command.withDescription("List the rules with their files and lines")
    ),
    Command.make("test", { call, json }, testCall).pipe(
      Command.withDescription("Explain which rule decides a call, without running it")
    )
  ])
)
