/**
 * Decides on concerns that are not yet approved: a model may rule on them, then a user is asked, and the answer is
 * remembered. A missing answer, a failure and an unknown answer count as deny.
 *
 * **Details**
 *
 * Each request without an earlier approval in memory causes exactly one `pre_approval_request` and one
 * `post_approval_response`. A terminal shows one question of a session at a time. A question that was settled while it
 * waited is not shown.
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §7.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as RunRecorder from "../../base/domain/RunRecorder.ts"
import type { Ids } from "../../hooks/Correlation.ts"
import type { Service as Hooks } from "../../hooks/Hooks.ts"
import type { ApprovalChoice } from "../../hooks/PayloadTable.ts"
import * as PairedEvents from "../../hooks/PairedEvents.ts"
import type { Approval, Memory, Target } from "./AllowList.ts"
import { ApprovalPrompt, type Approver, makeTerminalApprover } from "./Approver.ts"
import { InteractiveMode, type Presence } from "./InteractiveMode.ts"
import type { ApprovalJudge } from "./ApprovalJudge.ts"
import type { Mode, Permit, Policy } from "./ApprovalPolicy.ts"
import { readBounds } from "./ApprovalBounds.ts"
import type { Choice, Concern, OfferedRules, Outcome, Question, Reply } from "./ApprovalRequest.ts"
import * as RefusalTexts from "./RefusalTexts.ts"
import * as ShownText from "./ShownText.ts"
import { makeSubject } from "./StoredApproval.ts"
import { type ApprovalSuspension, CurrentApproval, type EarlierAnswer } from "../CallQuestions.ts"
import { collectTargets, findCommonPrefix, buildQuestion } from "./QuestionContent.ts"

/** Concerns about a call, or about another request that has a text. */
export interface Request {
  readonly tool: string
  readonly command: string
  readonly concerns: ReadonlyArray<Concern>
  /** Target of an approval for concerns that have no target. */
  readonly target: Target
  /** Finds the rules that store a permanent approval. Without such rules, the approval is stored in the allow-list. */
  readonly offeredRules?:
    | ((concerns: ReadonlyArray<Concern>, prefix: Target | undefined) => Effect.Effect<OfferedRules | undefined>)
    | undefined
}

/** Session and ids that a request belongs to. */
interface RequestOwner {
  /** Session for which an approval "for this session" holds. */
  readonly session: string
  /** Parent sessions whose host approvals also apply to this session. */
  readonly starting: ReadonlyArray<string>
  readonly ids: Ids
  readonly mode: Mode
}

/** End of a request. */
interface ApprovalAnswer {
  /** Outcome of the request; `suspended` if the run has to wait for its answer. */
  readonly outcome: Outcome | "suspended"
  readonly by: Permit["by"]
  /** Message for the model if the call was denied. */
  readonly message: string
  readonly reason?: string | undefined
}

interface JudgedAnswer extends ApprovalAnswer {
  readonly choice: ApprovalChoice
  /** The prefix that the approval was granted for, instead of the targets. */
  readonly prefix?: Target | undefined
}

/** A question with the parties that answer it. */
interface AskedQuestion {
  readonly place: RequestOwner
  readonly presence: Presence
  readonly who: Approver | undefined
  readonly question: Question
  /** Reason why the call cannot be shown completely. */
  readonly refusal: string | undefined
  /** Identifies the question in a later run. */
  readonly subject: string
}

/** Settles the concerns that have no earlier approval. */
interface ApprovalFlow {
  readonly ask: (request: Request, place: RequestOwner) => Effect.Effect<ApprovalAnswer>
  readonly forget: (session: string) => void
}

/** The approver, judge and stores that take part in a decision, and their policy. */
interface Parties {
  readonly policy: Pick<Policy, "timeout">
  readonly memory: Memory
  readonly hooks: Hooks
  readonly approver: Approver | undefined
  readonly judge: ApprovalJudge["Service"] | undefined
  /** Stores permanent approvals as rules. */
  readonly keepRules?: ((rules: ReadonlyArray<string>) => Effect.Effect<void>) | undefined
}

/** Returns true if a model rules before a user is asked. */
const isJudged = (mode: Mode, presence: Presence): boolean =>
  mode === "smart" && (presence._tag === "Attended" || presence.judged)

/** Decides without a question and logs the decision. */
const decideUnattended = (question: Question, who: string, outcome: "once" | "deny"): Effect.Effect<JudgedAnswer> =>
  Effect.as(
    Effect.logWarning(
      [
        `approval ${outcome === "once" ? "given" : "denied"} without a question (${who}): ${question.description}`,
        ...(outcome === "once" ? [] : (question.remedies ?? []))
      ].join("; ")
    ),
    { outcome, by: "unattended", message: RefusalTexts.renderUnattendedDenial(question, who), choice: outcome }
  )

const requestAnswer = (who: Approver, timeout: Policy["timeout"], question: Question): Effect.Effect<JudgedAnswer> =>
  who.answer(question).pipe(
    Effect.catchCause((cause): Effect.Effect<Reply> =>
      Effect.as(Effect.logWarning("the approval request could not be shown, so it is denied", cause), {
        choice: "deny",
        reason: "the request could not be shown"
      })
    ),
    Effect.timeoutOption(timeout),
    Effect.map((answer) => toJudgedAnswer(question, Option.getOrUndefined(answer)))
  )

/** Converts the reply of a user, or its absence, to the end of a request. */
const toJudgedAnswer = (question: Question, reply: Reply | undefined): JudgedAnswer => {
  if (reply === undefined) {
    return {
      outcome: "timeout",
      by: "user",
      message: RefusalTexts.renderTimeoutDenial(question.keys),
      choice: "timeout"
    }
  }
  const { reason } = reply
  const isOffered = (choice: Choice): boolean => question.choices.includes(choice)
  const lesser = reply.choice === "always" && isOffered("session") ? "session" : "deny"
  const choice = isOffered(reply.choice) ? reply.choice : lesser
  const prefix = reply.prefix === true && choice !== "once" && choice !== "deny" ? question.prefix : undefined
  return {
    outcome: choice,
    by: "user",
    message: RefusalTexts.renderUserDenial(question.keys, reason),
    choice,
    reason,
    prefix
  }
}

const suspended: JudgedAnswer = { outcome: "suspended", by: "user", message: "", choice: "suspended" }

/** Returns true if a question without an answer suspends the run. */
const isSuspending = (pending: ApprovalSuspension | undefined): pending is ApprovalSuspension =>
  pending?.policy.unanswered === "suspend"

/** Converts the answer of an earlier run to the end of a request. */
const toEarlierEnd = (question: Question, earlier: EarlierAnswer): JudgedAnswer =>
  earlier._tag === "Waiting"
    ? suspended
    : toJudgedAnswer(question, earlier._tag === "Answered" ? earlier.reply : undefined)

/** Returns the time for which a user is waited for. */
const chooseTimeout = (
  who: Approver,
  { timeout }: Pick<Policy, "timeout">,
  pending: ApprovalSuspension | undefined
): Duration.Duration =>
  isSuspending(pending) && pending.policy.wait !== undefined
    ? Duration.fromInputUnsafe(pending.policy.wait)
    : (who.timeout ?? timeout)

/** The parties of approvals, and the state of each session. */
interface FlowState extends Parties {
  /** Number of denials of the judge in a row. */
  readonly denials: Map<string, number>
  /** Turns of approvers that are asked one question at a time. */
  readonly turns: Map<string, Semaphore.Semaphore>
}

const remembered: ApprovalAnswer = { outcome: "session", by: "remembered", message: "" }

const getTurn = ({ turns }: FlowState, session: string): Semaphore.Semaphore => {
  const known = turns.get(session) ?? Semaphore.makeUnsafe(1)
  turns.set(session, known)
  return known
}

/** Asks the model for a ruling; `undefined` leaves the question to a person. */
const requestRuling = (
  { judge, denials }: FlowState,
  session: string,
  question: Question
): Effect.Effect<JudgedAnswer | undefined> =>
  judge === undefined
    ? Effect.succeed(undefined)
    : judge.judge(question).pipe(
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning("the approval judge failed, so a person is asked", cause), "escalate" as const)
        ),
        Effect.map((ruling): JudgedAnswer | undefined => {
          if (ruling === "escalate") return undefined
          if (ruling === "approve") {
            denials.delete(session)
            return { outcome: "once", by: "judge", message: "", choice: "smart_approve" }
          }
          const inARow = (denials.get(session) ?? 0) + 1
          denials.set(session, inARow)
          return {
            outcome: "deny",
            by: "judge",
            message: RefusalTexts.renderJudgeDenial(question.keys, inARow),
            choice: "smart_deny"
          }
        })
      )

/** Returns the approver, or the prompt of the program that started the run. */
const findApprover = (flow: FlowState): Effect.Effect<Approver | undefined> =>
  flow.approver === undefined
    ? Effect.map(Effect.serviceOption(ApprovalPrompt), (prompt) =>
        Option.isSome(prompt) ? makeTerminalApprover(prompt.value) : undefined
      )
    : Effect.succeed(flow.approver)

/** Asks the model or the user, as the presence of a user permits. */
const answerQuestion = Effect.fnUntraced(function* (
  flow: FlowState,
  { place: { mode, session }, presence, question, refusal, who }: AskedQuestion,
  pending: ApprovalSuspension | undefined
): Effect.fn.Return<JudgedAnswer> {
  const isApprovedUnseen =
    presence._tag === "Unattended" && presence.otherwise === "approve" && !isJudged(mode, presence)
  if (refusal !== undefined && !isApprovedUnseen) {
    return {
      outcome: "deny",
      by: "unattended",
      message: RefusalTexts.renderUnshowableDenial(refusal),
      choice: "deny",
      reason: refusal
    }
  }
  const ruled = isJudged(mode, presence) ? yield* requestRuling(flow, session, question) : undefined
  if (ruled !== undefined) return ruled
  if (presence._tag === "Unattended") {
    if (presence.otherwise === "deny" && isSuspending(pending)) return suspended
    return yield* decideUnattended(question, presence.who, presence.otherwise === "approve" ? "once" : "deny")
  }
  if (who === undefined) return isSuspending(pending) ? suspended : yield* decideUnattended(question, "no user", "deny")
  const answer = yield* requestAnswer(who, chooseTimeout(who, flow.policy, pending), question)
  return answer.outcome === "timeout" && isSuspending(pending) ? suspended : answer
})

const resolveSurface = ({ judge }: FlowState, mode: Mode, presence: Presence, who: Approver | undefined): string => {
  if (judge !== undefined && isJudged(mode, presence)) return "smart"
  return presence._tag === "Unattended" ? presence.who : (who?.surface ?? "none")
}

const toApproval =
  ({ target: whole }: Request) =>
  ({ key, permanent, target = whole }: Concern): Approval => ({ target, permanent, reason: key })

/** Creates an approval for all commands that the prefix covers. */
const toPrefixApproval = (target: Target): Approval => ({ target, permanent: true, reason: "" })

const selectUnapproved = (
  { memory }: FlowState,
  request: Request,
  { session, starting }: RequestOwner
): ReadonlyArray<Concern> =>
  request.concerns.filter(
    (concern) =>
      ![session, ...(concern.target?.kind === "host" ? starting : [])].some((one) =>
        memory.knows(one, toApproval(request)(concern))
      ) && !(concern.prefix !== undefined && memory.knows(session, toPrefixApproval(concern.prefix)))
  )

/** Returns the answer of an earlier run, or asks. Notes a question that suspends the run. */
const decideQuestion = Effect.fnUntraced(function* (
  flow: FlowState,
  asked: AskedQuestion,
  earlier: EarlierAnswer | undefined
): Effect.fn.Return<{ readonly answer: JudgedAnswer; readonly waitedMillis: number }> {
  const { question, subject } = asked
  if (earlier?._tag === "Answered")
    return { answer: toEarlierEnd(question, earlier), waitedMillis: earlier.waitedMillis }
  const pending = yield* CurrentApproval
  const since = yield* Clock.currentTimeMillis
  const answer = earlier === undefined ? yield* answerQuestion(flow, asked, pending) : toEarlierEnd(question, earlier)
  const now = yield* Clock.currentTimeMillis
  if (answer.outcome === "suspended") pending?.addQuestion(subject, question, now)
  else if (earlier === undefined && answer.by === "user" && answer.outcome !== "timeout")
    pending?.keepAnswer(subject, question, { choice: answer.outcome, reason: answer.reason }, now)
  return { answer, waitedMillis: now - since }
})

const settleRequest = Effect.fnUntraced(function* (
  flow: FlowState,
  request: Request,
  place: RequestOwner,
  who: Approver | undefined
) {
  const { keepRules, memory } = flow
  // The concerns may have been approved while this question waited.
  const concerns = selectUnapproved(flow, request, place)
  if (concerns.length === 0) return remembered
  const { ids, mode, session } = place
  const presence = yield* InteractiveMode
  const isKept = keepRules !== undefined && concerns.every(({ permanent }) => permanent)
  const rules = isKept
    ? yield* request.offeredRules?.(concerns, findCommonPrefix(concerns)) ?? Effect.undefined
    : undefined
  const { refusal, text } = ShownText.showCall(request.tool, request.command, request.target.kind)
  const bounds = yield* readBounds
  const question = buildQuestion({ request, shown: text, concerns, ids, rules, bounds })
  const { keys } = question
  const pending = yield* CurrentApproval
  const subject = pending === undefined ? "" : makeSubject(request.tool, request.command, keys)
  const earlier = pending?.findAnswer(subject, yield* Clock.currentTimeMillis)
  const surface = earlier === undefined ? resolveSurface(flow, mode, presence, who) : "resume"
  const buildFields = () => ({
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
  const span = yield* PairedEvents.open<"pre_approval_request">(flow.hooks, {
    open: ["pre_approval_request", buildFields],
    otherwise: () => ["post_approval_response", () => ({ ...buildFields(), choice: "timeout" as const })]
  })
  // Writes the preceding record and the question before waiting for the answer.
  const recorder = yield* RunRecorder.RunRecorder
  if (recorder !== undefined) yield* recorder.flush
  const { answer, waitedMillis } = yield* decideQuestion(
    flow,
    { place, presence, who, question, refusal, subject },
    earlier
  )
  yield* RunRecorder.record((recorder) =>
    recorder.write({
      _tag: "ApprovalDecided",
      callId: ids.tool_call_id,
      subject: question.command,
      choice: answer.choice,
      description: question.description,
      patterns: keys,
      surface,
      ...(answer.by === "judge" ? { decidedBy: "aux_llm" } : {}),
      waitedMillis
    })
  )
  yield* span.close([
    "post_approval_response",
    () => ({ ...buildFields(), choice: answer.choice, ...(answer.by === "judge" ? { decided_by: "aux_llm" } : {}) })
  ])
  const { outcome, prefix } = answer
  if (outcome === "session" || outcome === "always") {
    memory.rememberSession(
      session,
      prefix === undefined ? concerns.map(toApproval(request)) : [toPrefixApproval(prefix)]
    )
  }
  if (outcome === "always") {
    const kept = prefix === undefined ? question.rules?.exact : question.rules?.prefix
    if (kept !== undefined && keepRules !== undefined) yield* keepRules(kept)
    else yield* memory.rememberAlways(prefix === undefined ? collectTargets(concerns, request.target) : [prefix])
  }
  return answer
})

/** Creates the flow that settles concerns without an earlier approval. */
export const make = (parties: Parties): ApprovalFlow => {
  const flow: FlowState = { ...parties, denials: new Map(), turns: new Map() }
  return {
    ask: Effect.fnUntraced(function* (request, place) {
      if (selectUnapproved(flow, request, place).length === 0) return remembered
      const who = yield* findApprover(flow)
      const settled = Effect.scoped(settleRequest(flow, request, place, who))
      return yield* who?.order === "one at a time" ? getTurn(flow, place.session).withPermit(settled) : settled
    }),
    forget: (session) => {
      flow.denials.delete(session)
      flow.turns.delete(session)
    }
  }
}
