/**
 * Decides whether a tool call may run: by the floor, by what the operator denies and allows, by what was approved before,
 * and, where something dangerous is left, by asking.
 *
 * **Details**
 *
 * The order is fixed: hardline floor → operator's deny globs → yolo or `approvals.mode: off` → allow-list → detection →
 * mode. Nothing lifts the floor, and yolo does not lift the globs. What detection finds and nobody approved before is
 * asked: a model first when the mode is `smart`, then whoever is there ({@link Approver}). Silence is deny, an answer that
 * nobody understands is deny, and where nobody can be asked it is deny, unless the context says otherwise.
 *
 * `once` stores nothing, `session` holds for the session key, `always` also goes to the allow-list's store; it is not
 * offered, and counts as `session`, when a finding may not be approved for good.
 *
 * {@link Service.check} judges a call before it runs and answers a {@link Permit} or a {@link Refusal};
 * {@link Service.confirm} judges once more at the handler: arguments that changed since are checked anew, all of it.
 * `pre_approval_request` and `post_approval_response` are sent once for each request that was not settled by memory.
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
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { Settings } from "../config/Settings.ts"
import { redactText } from "../domain/Redaction.ts"
import { Correlation, type Ids } from "../hooks/Correlation.ts"
import { Hooks, type Service as HooksService } from "../hooks/Hooks.ts"
import type { ApprovalChoice } from "../hooks/PayloadsApproval.ts"
import * as Spans from "../hooks/Spans.ts"
import type { BlockReason } from "../hooks/ToolOutcome.ts"
import type { ToolArguments } from "../middleware/Kind.ts"
import { ApprovalPrompt, type Approver, callback, terminal } from "./approval/Approver.ts"
import { Attendance, type Presence } from "./approval/Attendance.ts"
import * as Globs from "./approval/Globs.ts"
import { ApprovalJudge } from "./approval/Judge.ts"
import * as Memory from "./approval/Memory.ts"
import * as Messages from "./approval/Messages.ts"
import type { Choice, Concern, Outcome, Question } from "./approval/Question.ts"
import * as Subject from "./approval/Subject.ts"

/** How approvals are decided. */
export type Mode = "manual" | "smart" | "off"

/** What an operator says; fixed when the process starts. */
export interface Policy {
  readonly mode: Mode
  /** Skips everything but the floor and the deny globs. */
  readonly yolo: boolean
  /** Globs of commands that never run. */
  readonly deny: ReadonlyArray<string>
  /** Keys that were approved for good, and globs of commands that need no approval. */
  readonly allow: ReadonlyArray<string>
  readonly timeout: Duration.Duration
}

/** Silence is deny after a minute, and nothing is allowed beforehand. */
export const defaultPolicy: Policy = { mode: "manual", yolo: false, deny: [], allow: [], timeout: Duration.seconds(60) }

/** A tool call to be judged. */
export interface Call {
  readonly tool: string
  readonly args: ToolArguments
  /** Reasons besides what detection finds: `needsApproval`, an annotation, a plugin's directive, a scanner's finding. */
  readonly concerns?: ReadonlyArray<Concern> | undefined
  /** What "for this session" means; the session's id when absent. */
  readonly sessionKey?: string | undefined
  /** Whether it runs in a container or on a machine of its own, where nothing is asked. */
  readonly contained?: boolean | undefined
}

/** A call that may run with these arguments. */
export interface Permit {
  readonly _tag: "Permit"
  readonly call: Call
  /** How it came about. */
  readonly by: "nothing found" | "contained" | "yolo" | "off" | "allow-list" | "remembered" | "unattended" | "judge" | "user"
  readonly choice: Choice | undefined
  /** The arguments as they were judged; undefined when JSON can not express them. */
  readonly judged: string | undefined
}

/** A call that may not run. `message` is for the model. */
export interface Refusal {
  readonly _tag: "Refusal"
  readonly reason: Extract<BlockReason, "hardline" | "approval_denied" | "approval_timeout">
  readonly message: string
}

/** A question that comes from elsewhere than a call's text. */
export interface Request {
  readonly tool: string
  readonly command: string
  readonly concerns: ReadonlyArray<Concern>
  readonly sessionKey?: string | undefined
}

/** See the module. */
export interface Service {
  /** The whole order, for one call. */
  readonly check: (call: Call) => Effect.Effect<Permit | Refusal>
  /**
   * For the handler: the call with the arguments that reached it. Cheap when they are those of the permit; `concerns` are
   * those of other arguments, the permit's when absent.
   */
  readonly confirm: (
    permit: Permit,
    args: ToolArguments,
    concerns?: Effect.Effect<ReadonlyArray<Concern>>
  ) => Effect.Effect<Permit | Refusal>
  /** Asks about concerns, whatever the text of a call says; memory and mode count. */
  readonly request: (request: Request) => Effect.Effect<{ readonly outcome: Outcome; readonly reason?: string | undefined }>
  /** Yolo for one session (`/yolo`). */
  readonly setYolo: (session: string, on: boolean) => Effect.Effect<void>
  /** Another mode for one session (`/approvals`). */
  readonly setMode: (session: string, mode: Mode) => Effect.Effect<void>
  /** Forgets what a session approved. */
  readonly forget: (session: string) => Effect.Effect<void>
}

/** What the service is made of. */
export interface Options {
  readonly policy?: Partial<Policy> | undefined
  readonly hooks: HooksService
  /** Who is asked; nobody when absent, and nobody means deny. */
  readonly approver?: Approver | undefined
  readonly judge?: ApprovalJudge["Service"] | undefined
  readonly store?: Memory.AllowListStore | undefined
}

interface Asked {
  readonly outcome: Outcome
  readonly by: Permit["by"]
  readonly message: string
  readonly reason?: string | undefined
}

interface Answered extends Asked {
  readonly choice: ApprovalChoice
}

/** Arguments in one text, to be compared and shown; undefined when JSON can not express them. */
const written = (args: ToolArguments): string | undefined => {
  try {
    return JSON.stringify(args)
  } catch {
    return undefined
  }
}

const shownLimit = 2_000

const shown = (command: string): string => {
  const text = redactText(command)
  return text.length > shownLimit ? `${text.slice(0, shownLimit)}…` : text
}

/** See the module. */
export const make = (options: Options): Service => {
  const { approver, hooks, judge } = options
  const policy: Policy = { ...defaultPolicy, ...options.policy }
  const memory = Memory.make(policy.allow, options.store ?? { add: () => Effect.void })
  const yolo = new Set<string>()
  const modes = new Map<string, Mode>()
  const denials = new Map<string, number>()
  const turns = new Map<string, Semaphore.Semaphore>()

  const turnOf = (session: string): Semaphore.Semaphore => {
    const known = turns.get(session) ?? Semaphore.makeUnsafe(1)
    turns.set(session, known)
    return known
  }

  /** What a model says of it; undefined leaves the question to a person. */
  const judged = (session: string, question: Question): Effect.Effect<Answered | undefined> =>
    judge === undefined ? Effect.succeed(undefined) : judge.judge(question).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.interrupt
          : Effect.as(Effect.logWarning("the approval judge failed, so a person is asked", cause), "escalate" as const)),
      Effect.map((ruling): Answered | undefined => {
        if (ruling === "escalate") return undefined
        if (ruling === "approve") {
          denials.delete(session)
          return { outcome: "once", by: "judge", message: "", choice: "smart_approve" }
        }
        const inARow = (denials.get(session) ?? 0) + 1
        denials.set(session, inARow)
        return { outcome: "deny", by: "judge", message: Messages.judged(question.keys, inARow), choice: "smart_deny" }
      })
    )

  const asked = (who: Approver, question: Question): Effect.Effect<Answered> =>
    who.answer(question).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.interrupt
          : Effect.as(Effect.logWarning("the approval request could not be shown, so it is denied", cause), {
            choice: "deny" as const,
            reason: "the request could not be shown"
          })),
      Effect.timeoutOption(who.timeout ?? policy.timeout),
      Effect.map((answer): Answered => {
        const reply = Option.getOrUndefined(answer)
        if (reply === undefined) {
          return { outcome: "timeout", by: "user", message: Messages.timedOut(question.keys), choice: "timeout" }
        }
        const { reason } = reply
        const choice = question.choices.includes(reply.choice) ? reply.choice : reply.choice === "always" ? "session" : "deny"
        return { outcome: choice, by: "user", message: Messages.denied(question.keys, reason), choice, reason }
      })
    )

  /** Decided without a question, and told to whoever reads the log. */
  const alone = (question: Question, who: string, outcome: "once" | "deny"): Effect.Effect<Answered> =>
    Effect.as(
      Effect.logInfo(`approval ${outcome === "once" ? "given" : "denied"} without a question (${who}): ${question.description}`),
      { outcome, by: "unattended", message: Messages.unattended(question.keys, who), choice: outcome }
    )

  /** Who is asked: the approver, or the prompt of whoever started the run. */
  const present: Effect.Effect<Approver | undefined> = approver === undefined
    ? Effect.map(Effect.serviceOption(ApprovalPrompt), (prompt) => Option.isSome(prompt) ? terminal(prompt.value) : undefined)
    : Effect.succeed(approver)

  const answered = Effect.fnUntraced(function*(
    session: string,
    mode: Mode,
    presence: Presence,
    question: Question
  ): Effect.fn.Return<Answered> {
    if (presence._tag === "Unattended") {
      return yield* alone(question, presence.who, presence.otherwise === "approve" ? "once" : "deny")
    }
    const ruled = mode === "smart" ? yield* judged(session, question) : undefined
    if (ruled !== undefined) return ruled
    const who = yield* present
    return yield* who === undefined ? alone(question, "no user", "deny") : asked(who, question)
  })

  const surfaceOf = (mode: Mode, presence: Presence, who: Approver | undefined): string => {
    if (presence._tag === "Unattended") return presence.who
    return mode === "smart" && judge !== undefined ? "smart" : who?.surface ?? "none"
  }

  const ask = Effect.fnUntraced(function*(request: Request, session: string, ids: Ids): Effect.fn.Return<Asked> {
    const mode = modes.get(session) ?? policy.mode
    const left = (): ReadonlyArray<Concern> => request.concerns.filter(({ key }) => !memory.knows(session, key))
    const body = Effect.scoped(Effect.gen(function*() {
      // Somebody may have approved it while this question waited.
      const concerns = left()
      if (concerns.length === 0) return { outcome: "session", by: "remembered", message: "" } satisfies Asked
      const keys = concerns.map(({ key }) => key)
      const presence = yield* Attendance
      const question: Question = {
        session_id: ids.session_id,
        turn_id: ids.turn_id,
        tool_call_id: ids.tool_call_id,
        tool: request.tool,
        command: shown(request.command),
        description: keys.join("; "),
        keys,
        choices: concerns.every(({ permanent }) => permanent) ? ["once", "session", "always", "deny"] : ["once", "session", "deny"]
      }
      const surface = surfaceOf(mode, presence, yield* present)
      const fields = () => ({
        session_id: ids.session_id,
        turn_id: ids.turn_id,
        tool_call_id: ids.tool_call_id,
        command: question.command,
        description: question.description,
        pattern_key: keys[0] ?? "",
        pattern_keys: keys,
        session_key: session,
        surface
      })
      const span = yield* Spans.open<"pre_approval_request">(hooks, {
        open: ["pre_approval_request", fields],
        otherwise: () => ["post_approval_response", () => ({ ...fields(), choice: "timeout" as const })]
      })
      const answer = yield* answered(session, mode, presence, question)
      yield* span.close(["post_approval_response", () => ({
        ...fields(),
        choice: answer.choice,
        ...(answer.by === "judge" ? { decided_by: "aux_llm" } : {})
      })])
      if (answer.outcome === "session" || answer.outcome === "always") memory.rememberSession(session, keys)
      if (answer.outcome === "always") yield* memory.rememberAlways(keys)
      return answer
    }))
    if (left().length === 0) return { outcome: "session", by: "remembered", message: "" }
    return yield* (yield* present)?.order === "one at a time" ? turnOf(session).withPermit(body) : body
  })

  const refuse = (reason: Refusal["reason"], message: string): Refusal => ({ _tag: "Refusal", reason, message })

  const check = Effect.fnUntraced(function*(call: Call): Effect.fn.Return<Permit | Refusal> {
    const judged = written(call.args)
    const permit = (by: Permit["by"], choice?: Choice): Permit => ({ _tag: "Permit", call, by, choice, judged })
    if (call.contained === true) return permit("contained")
    const { command, verdict } = Subject.of(call.tool, call.args, judged ?? "")
    if (verdict.floor !== undefined) return refuse("hardline", Messages.hardline(verdict.floor.key))
    const texts = [command, ...verdict.commands]
    const glob = Globs.firstMatch(policy.deny, [...texts, call.tool])
    if (glob !== undefined) return refuse("approval_denied", Messages.deniedByGlob(glob))
    const concerns = [...verdict.findings.map(({ key }): Concern => ({ key, permanent: true })), ...call.concerns ?? []]
    if (concerns.length === 0) return permit("nothing found")
    const ids = yield* Correlation
    const session = call.sessionKey ?? ids.session_id
    if (policy.yolo || yolo.has(session)) return permit("yolo")
    if ((modes.get(session) ?? policy.mode) === "off") return permit("off")
    const listed = verdict.commands.length > 0
      ? verdict.commands.every((text) => Globs.firstMatch(policy.allow, [text]) !== undefined)
      : Globs.firstMatch(policy.allow, [call.tool]) !== undefined
    if (listed) return permit("allow-list")
    const { by, message, outcome } = yield* ask({ tool: call.tool, command, concerns }, session, ids)
    if (outcome === "deny") return refuse("approval_denied", message)
    return outcome === "timeout" ? refuse("approval_timeout", message) : permit(by, outcome)
  })

  return {
    check,
    confirm: (given, args, again) =>
      given.judged !== undefined && written(args) === given.judged
        ? Effect.succeed(given)
        : Effect.flatMap(again ?? Effect.succeed(given.call.concerns), (concerns) => check({ ...given.call, args, concerns })),
    request: Effect.fnUntraced(function*(request) {
      const ids = yield* Correlation
      const session = request.sessionKey ?? ids.session_id
      if (policy.yolo || yolo.has(session) || (modes.get(session) ?? policy.mode) === "off") return { outcome: "once" }
      const { outcome, reason } = yield* ask(request, session, ids)
      return { outcome, reason }
    }),
    setYolo: (session, on) => Effect.sync(() => void (on ? yolo.add(session) : yolo.delete(session))),
    setMode: (session, mode) => Effect.sync(() => void modes.set(session, mode)),
    forget: (session) =>
      Effect.sync(() => {
        memory.forget(session)
        for (const kept of [modes, denials, turns]) kept.delete(session)
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
      const store = options.store ?? (yield* Memory.AllowList)
      return make({ ...options, hooks, store })
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

/** As the settings say; a prompt and a judge are used where they are provided. */
export const layer = (options: { readonly yolo?: boolean | undefined } = {}): Layer.Layer<Approvals, never, Hooks | Settings> =>
  Layer.unwrap(Effect.gen(function*() {
    const { approvals, commandAllowlist } = yield* Settings
    const judge = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalJudge))
    const prompt = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalPrompt))
    return layerOf({
      policy: {
        mode: approvals.mode,
        yolo: options.yolo ?? false,
        deny: approvals.deny,
        allow: commandAllowlist,
        timeout: Duration.seconds(approvals.timeout)
      },
      judge,
      approver: prompt === undefined ? undefined : terminal(prompt)
    })
  }))
