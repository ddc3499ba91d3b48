/**
 * Decides whether a tool call may run: by the floor, by what the operator denies and allows, by what was approved before,
 * and, where something dangerous is left, by asking.
 *
 * **Details**
 *
 * The order is fixed: hardline floor → operator's deny globs and `permissions.deny` → yolo or `approvals.mode: off` → `permissions.ask`
 * → allow-list and `permissions.allow` → detection → mode. Nothing lifts the floor, and yolo does not lift the globs and `permissions.deny`. What detection finds and nobody approved before is
 * asked: a model first when the mode is `smart`, then whoever is there ({@link Approver}). Silence is deny, an answer that
 * nobody understands is deny, and where nobody can be asked it is deny, unless the context says otherwise.
 *
 * An approval holds for what was asked about: one command line, one path, one host, one call of a tool with its arguments, or,
 * where the question offers it, for commands with the same prefix (`git push`); never for a kind of danger. `once` stores nothing, `session` holds for the session key, `always` is written as a rule of
 * `permissions.allow` where one stands for exactly that (the question names it), else as an entry of the allow-list; it is not
 * offered, and counts as `session`, when a finding may not be approved for good. The findings of the content scanner
 * (`security.tirith_enabled`) are such; it is asked with detection, and not of what nothing would be asked of.
 *
 * A {@link Permit} holds for the arguments that were judged: whoever runs a call with others judges it again, all of it.
 *
 * **Example** (An application that decides)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Approvals, Runtime, Terminal } from "hermes-effect"
 *
 * const asked: Array<string> = []
 * const approvals = Approvals.layerCallback(({ command }) => Effect.sync(() => {
 *   asked.push(command)
 *   return "deny"
 * }))
 *
 * const program = Agent.run({ prompt: "Use the terminal tool exactly once to run 'rm -rf build'." })
 *
 * await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [Terminal.toolset], approvals })))
 *
 * console.log(asked)
 * // => [ 'rm -rf build' ]
 * ```
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §4 and §7.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PermissionMode from "../config/PermissionMode.ts"
import { Settings } from "../config/Settings.ts"
import { Correlation } from "../hooks/Correlation.ts"
import { Hooks, type Service as HooksService } from "../hooks/Hooks.ts"
import * as AllowList from "./approval/AllowList.ts"
import * as Glob from "../domain/Glob.ts"
import { ApprovalPrompt, type Approver, callback, type Pending, terminal } from "./approval/Approver.ts"
import * as ApprovalFlow from "./approval/ApprovalFlow.ts"
import { type Call, defaultPolicy, type Mode, type Permit, type Policy, type Refusal } from "./approval/ApprovalFlow.ts"
import { type Choice, type Concern, ContentScanner, type Outcome, type Question, type Scanner } from "./approval/Question.ts"
import { ApprovalJudge } from "./approval/ApprovalJudge.ts"
import * as PermissionCalls from "./approval/PermissionCalls.ts"
import * as Permissions from "./approval/Permissions.ts"
import type { Finding } from "./danger/Command.ts"
import * as Danger from "./danger/Danger.ts"
import * as CommandPrefix from "./approval/CommandPrefix.ts"
import * as ApprovalTarget from "./approval/ApprovalTarget.ts"

/** The first glob that matches one of the texts. */
const firstMatch = (globs: ReadonlyArray<string>, texts: ReadonlyArray<string>): string | undefined =>
  globs.find((glob) => texts.some((text) => Glob.matches(glob, text)))

export { defaultPolicy, type Mode, type Policy } from "./approval/ApprovalFlow.ts"
export type { Call, Permit, Refusal } from "./approval/ApprovalFlow.ts"

/** A question that comes from elsewhere than a call's text. */
export interface Request {
  readonly tool: string
  readonly command: string
  readonly concerns: ReadonlyArray<Concern>
  readonly sessionKey?: string | undefined
}

/** Decides whether a tool call may run. */
export interface Service {
  /** The whole order, for one call. */
  readonly check: (call: Call) => Effect.Effect<Permit | Refusal>
  /** Asks about concerns, whatever the text of a call says; memory and mode count. */
  readonly request: (request: Request) => Effect.Effect<{ readonly outcome: Outcome; readonly by: Permit["by"]; readonly reason?: string | undefined }>
  /** Yolo for one session (`/yolo`). */
  readonly setYolo: (session: string, on: boolean) => Effect.Effect<void>
  /** Another mode for one session (`/approvals`). */
  readonly setMode: (session: string, mode: Mode | PermissionMode.PermissionMode) => Effect.Effect<void>
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
  readonly store?: AllowList.AllowListStore | undefined
  /** Looks at every command line that nothing lifts the questions of. */
  readonly scanner?: Scanner | undefined
  /** Rules per tool and pattern; none when absent. */
  readonly permissions?: Permissions.Service | undefined
}

const refuse = (reason: Refusal["reason"], message: string): Refusal => ({ _tag: "Refusal", reason, message })

const surroundingsOf = ({ isConfined, leavesWall, reach }: Call, { unknownCommands }: Policy): Danger.Surroundings => {
  if (isConfined === true) return reach === "all" ? "connected" : "confined"
  return leavesWall === true ? "allow" : unknownCommands
}

const plain = (call: Call): Permit => ({ _tag: "Permit", call, by: "nothing found", choice: undefined })

const contained = (call: Call): Permit => ({ _tag: "Permit", call, by: "contained", choice: undefined })

/** Decides whether a tool call may run. */
export const make = (options: Options): Service => {
  const policy: Policy = { ...defaultPolicy, ...options.policy }
  const allowed = AllowList.parse(policy.allow)
  const prefixes = allowed.globs.flatMap((glob) => [CommandPrefix.wordsOf(glob) ?? []]).filter((words) => words.length > 0)
  const globs = allowed.globs.filter((glob) => CommandPrefix.wordsOf(glob) === undefined)
  const isCovered = CommandPrefix.covering(prefixes)
  const memory = AllowList.memory(allowed.exact, options.store ?? { add: () => Effect.void })
  const { approver, hooks, judge, permissions } = options
  const scan = options.scanner?.scan ?? (() => Effect.succeed<ReadonlyArray<Concern>>([]))
  const asking = ApprovalFlow.make({ policy, memory, hooks, approver, judge, keepRules: permissions?.kept?.add })
  const yolo = new Set<string>()
  const modes = new Map<string, Mode | PermissionMode.PermissionMode>()

  /** The mode of a run, where one was chosen for it, else of its session. */
  const modeOf = (session: string, ofRun: PermissionMode.PermissionMode | undefined): PermissionMode.PermissionMode | "off" => {
    if (ofRun !== undefined) return ofRun
    if (policy.yolo || yolo.has(session)) return "yolo"
    const mode = modes.get(session) ?? policy.permissionMode ?? policy.mode
    return mode === "manual" || mode === "smart" ? PermissionMode.ofApprovals(mode) : mode
  }

  /** Names the bypass that lifts every question. */
  const lifted = (mode: PermissionMode.PermissionMode | "off"): "yolo" | "off" | undefined => mode === "yolo" || mode === "off" ? mode : undefined

  const flowMode = (mode: PermissionMode.PermissionMode | "off"): Mode => mode === "off" ? mode : PermissionMode.toApprovals(mode)

  const sessionOf = (own: string | undefined) => Effect.map(Correlation, (ids) => ({ ids, session: own ?? ids.session_id }))

  const listed = (tool: string, lines: ReadonlyArray<string>, commands: ReadonlyArray<string>): boolean =>
    globs.length > 0 && (commands.length > 0
      ? commands.every((command) => firstMatch(globs, [command]) !== undefined) && lines.every(CommandPrefix.isPlainLine)
      : firstMatch(globs, [tool]) !== undefined)

  /** Findings that are asked about: behind a wall no loss that an undo covers. */
  const foundIn = (call: Call, verdict: Danger.Verdict): Effect.Effect<ReadonlyArray<Finding>> => {
    const found = Danger.askedAbout(verdict, surroundingsOf(call, policy))
    return call.isConfined !== true || call.uncovered === undefined || verdict.onlyReads ? Effect.succeed(found) : call.uncovered(call.args, found)
  }

  const judged = Effect.fnUntraced(function*(
    call: Call,
    judgedTarget: ApprovalTarget.ApprovalTarget,
    { allowed: rule, allowsHost, asked, denied }: PermissionCalls.CallJudgement
  ): Effect.fn.Return<Permit | Refusal> {
    const permit = (by: Permit["by"], choice?: Choice): Permit => ({ _tag: "Permit", call, by, choice })
    const { lines, prefix, target, text, verdict } = judgedTarget
    if (verdict.floor !== undefined) return refuse("hardline", ApprovalFlow.hardline(verdict.floor.key))
    const glob = policy.deny.length === 0
      ? undefined
      : firstMatch(policy.deny, [text(), ...verdict.commands, call.tool])
    if (glob !== undefined) return refuse("approval_denied", ApprovalFlow.deniedByGlob(glob))
    if (denied !== undefined) return refuse("approval_denied", ApprovalFlow.deniedByRule(denied.text, denied.source))
    const { ids, session } = yield* sessionOf(call.sessionKey)
    const mode = modeOf(session, yield* PermissionMode.current)
    if (mode === "plan" && !PermissionCalls.mayPlan(call, judgedTarget)) return refuse("approval_denied", ApprovalFlow.planning(call.tool))
    const found = yield* foundIn(call, verdict)
    const offered = found.length === 0 ? undefined : prefix()
    const covered = found.length > 0 && lines.length === 1 && lines.every(isCovered)
    const findings = found.map((finding): Concern & { readonly listed: boolean } => {
      const holds = CommandPrefix.holdsFor(finding)
      const listed = covered && (holds || offered === undefined && CommandPrefix.isListable(finding)) ||
        rule !== undefined && CommandPrefix.isListable(finding)
      return { key: finding.key, permanent: true, prefix: holds ? offered : undefined, listed, isRuled: CommandPrefix.isListable(finding) }
    })
    const given = call.concerns ?? []
    const edits = mode === "edits" ? yield* PermissionCalls.editsOf(call) : () => false
    const isRuled = (concern: Concern): boolean => PermissionCalls.isLifted(call.tool, concern)
    const further = given.filter((concern) => {
      const { target } = concern
      const isLifted = isRuled(concern) && (rule !== undefined || target?.kind === "host" && allowsHost?.(target.text) === true)
      return !isLifted && !edits(concern)
    }).map((concern) => ({ ...concern, isRuled: isRuled(concern) }))
    const known: ReadonlyArray<Concern> = [
      ...findings.filter(({ listed }) => !listed),
      ...further,
      ...asked === undefined ? [] : [{ key: `the rule ${asked.text} (${asked.source})`, permanent: false }]
    ]
    const isLifted = findings.some(({ listed }) => listed) || further.length < given.length
    const otherwise = !isLifted ? "nothing found" : rule !== undefined || mode !== "edits" && further.length < given.length ? "permission" : mode === "edits" && further.length < given.length ? "edits" : "allow-list"
    if (known.length === 0 && lines.length === 0) return permit(otherwise)
    const free = lifted(mode) ?? (asked === undefined && listed(call.tool, lines, verdict.commands) ? "allow-list" : undefined)
    if (free !== undefined) return permit(known.length === 0 ? otherwise : free)
    const concerns = [...known, ...(yield* Effect.forEach(lines, scan)).flat()]
    if (concerns.length === 0) return permit(otherwise)
    const offeredRules = (asked: ReadonlyArray<Concern>, prefix: Concern["prefix"]) =>
      permissions === undefined ? Effect.undefined : PermissionCalls.offered(permissions, { call, target: judgedTarget, concerns: asked, prefix })
    const request = { tool: call.tool, command: text(), concerns, target: target(), offeredRules }
    const { by, message, outcome } = yield* asking.ask(request, { session, ids, mode: flowMode(mode) })
    if (outcome === "deny") return refuse("approval_denied", message)
    return outcome === "timeout" ? refuse("approval_timeout", message) : permit(by, outcome)
  })

  /** Nothing of the call has to be looked at: it runs no command, and neither a rule nor the call itself gives a reason to ask. */
  const isPlain = ({ concerns = [] }: Call, { lines, verdict: { floor, onlyReads } }: ApprovalTarget.ApprovalTarget): boolean =>
    policy.deny.length === 0 && floor === undefined && onlyReads && lines.length + concerns.length === 0

  const isPlanning = ({ sessionKey }: Call): Effect.Effect<boolean> =>
    Effect.flatMap(PermissionMode.current, (ofRun) =>
      Effect.map(sessionOf(sessionKey), ({ session }) => modeOf(session, ofRun) === "plan"))

  /** Judges a call with the rules for it. */
  const ruled = Effect.fnUntraced(function*(call: Call, target: ApprovalTarget.ApprovalTarget, rules: Permissions.Service, isPlanning: boolean) {
    const judgement = yield* PermissionCalls.judge(rules, call, target)
    if (judgement.denied !== undefined || isPlanning) return yield* judged(call, target, judgement)
    if (call.contained === true) return contained(call)
    return judgement.asked === undefined && isPlain(call, target) ? plain(call) : yield* judged(call, target, judgement)
  })

  return {
    check: (call) =>
      Effect.suspend(() => {
        const target = ApprovalTarget.of(call.tool, call.args, call.runs)
        return Effect.flatMap(isPlanning(call), (isPlanning) => {
          if (permissions !== undefined) return ruled(call, target, permissions, isPlanning)
          if (isPlanning) return judged(call, target, PermissionCalls.undecided)
          if (call.contained === true) return Effect.succeed(contained(call))
          return isPlain(call, target) ? Effect.succeed(plain(call)) : judged(call, target, PermissionCalls.undecided)
        })
      }),
    request: Effect.fnUntraced(function*(request) {
      const { ids, session } = yield* sessionOf(request.sessionKey)
      const mode = modeOf(session, yield* PermissionMode.current)
      const ruled = permissions === undefined ? undefined : yield* PermissionCalls.ofRequest(permissions, request.concerns)
      if (ruled !== undefined) return ruled
      const free = lifted(mode)
      if (free !== undefined) return { outcome: "once", by: free }
      const target = { kind: "call", text: `${request.tool} ${request.command}` } as const
      const concerns = request.concerns.map((concern) => ({ ...concern, isRuled: concern.permanent && concern.target?.kind === "host" }))
      const offeredRules = (asked: ReadonlyArray<Concern>) =>
        permissions === undefined ? Effect.undefined : PermissionCalls.offeredHosts(permissions, asked)
      const { by, outcome, reason } = yield* asking.ask({ ...request, concerns, target, offeredRules }, { session, ids, mode: flowMode(mode) })
      return { outcome, by, reason }
    }),
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
}

/** The approvals of a runtime. */
export class Approvals extends Context.Service<Approvals, Service>()("hermes-effect/tool/Approvals") {}

const layerOf = (options: Omit<Options, "hooks">): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.gen(function*() {
      const hooks = yield* Hooks
      const store = options.store ?? (yield* AllowList.AllowList)
      const scanner = options.scanner ?? (yield* ContentScanner)
      const permissions = options.permissions ?? (yield* Permissions.Permissions)
      const dropped = AllowList.notice(AllowList.parse(options.policy?.allow ?? []))
      if (dropped !== undefined) yield* Effect.logWarning(dropped)
      return make({ ...options, hooks, store, scanner, permissions })
    })
  )

/** Nobody is asked: what needs an approval does not run. */
export const layerDeny = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, Hooks> => layerOf({ policy })

/** Nobody is asked: what is on the list runs, besides what needs no approval. */
export const layerAllowList = (allow: ReadonlyArray<string>): Layer.Layer<Approvals, never, Hooks> => layerOf({ policy: { allow } })

/** A function of the application is asked. */
export const layerCallback = (
  answer: (question: Question) => Effect.Effect<unknown, unknown>,
  policy: Partial<Policy> = {}
): Layer.Layer<Approvals, never, Hooks> => layerOf({ policy, approver: callback(answer) })

/** A person at a terminal is asked. */
export const layerPrompt = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, ApprovalPrompt | Hooks> =>
  Layer.unwrap(Effect.map(ApprovalPrompt, (prompt) => layerOf({ policy, approver: terminal(prompt) })))

/** A model is asked first; what it leaves open goes to the person at the terminal, if there is one. */
export const layerSmart = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, ApprovalJudge | Hooks> =>
  Layer.unwrap(Effect.gen(function*() {
    const judge = yield* ApprovalJudge
    const prompt = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalPrompt))
    return layerOf({ policy: { ...policy, mode: "smart" }, judge, approver: prompt === undefined ? undefined : terminal(prompt) })
  }))

/**
 * Somebody elsewhere is asked, by a message or on a page, who answers through the queue (`Approver.pending`). Silence is deny
 * after the setting `approvals.gateway_timeout`, five minutes where there are no settings, unless queue or policy say
 * otherwise.
 */
export const layerPending = ({ approver }: Pending, policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, Hooks> =>
  Layer.unwrap(Effect.map(Effect.serviceOption(Settings), (settings) => {
    const seconds = Option.isSome(settings) ? settings.value.approvals.gatewayTimeout : 300
    return layerOf({ policy: { timeout: Duration.seconds(seconds), ...policy }, approver })
  }))

/** As the settings say; a prompt and a judge are used where they are provided. */
export const layer = (options: { readonly yolo?: boolean | undefined } = {}): Layer.Layer<Approvals, never, Hooks | Settings> =>
  Layer.unwrap(Effect.gen(function*() {
    const { approvals, commandAllowlist, permissions } = yield* Settings
    const hasRules = permissions.allow.length + permissions.ask.length + permissions.deny.length > 0
    const judge = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalJudge))
    const prompt = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalPrompt))
    return layerOf({
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
      permissions: (yield* Permissions.Permissions) ?? (hasRules ? yield* Permissions.ofSettings(permissions) : undefined),
      approver: prompt === undefined ? undefined : terminal(prompt)
    })
  }))
