/**
 * Preparation of a tool call before it may run, in model order: the tool is looked up, the arguments are checked to be
 * an object, `tool_request` middleware may rewrite them, `pre_tool_call` listeners may block the call, the guard of the
 * run may end it, and it must be approved. If a step stops the call, the reason becomes the result of the call.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.3–13.4.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import type * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import { ExecutionBlocked } from "../base/domain/AgentError.ts"
import { ToolCallId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import type { ToolStatus } from "../base/domain/RunEvent.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import { Correlation } from "../hooks/Correlation.ts"
import * as ToolOutcome from "../hooks/ToolOutcome.ts"
import type { Interceptors } from "../models/routing/Interceptors.ts"
import type { CallIds, ToolArguments, ToolCallContext } from "../middleware/Kind.ts"
import type { EndRequest } from "../middleware/LoopControl.ts"
import * as Pipeline from "../middleware/Pipeline.ts"
import * as Annotations from "./Annotations.ts"
import type * as Approvals from "./Approvals.ts"
import { findPlainCheck } from "./approval/ApprovalPolicy.ts"
import * as ApprovalReasons from "./approval/ApprovalReasons.ts"
import * as StoredApproval from "./approval/StoredApproval.ts"
import { CurrentApproval, type QuestionBook } from "./CallQuestions.ts"
import * as ArgumentRepair from "./calls/ArgumentRepair.ts"
import type { LoopGuard } from "./calls/LoopGuard.ts"
import * as Normalise from "./calls/Normalise.ts"
import type { InvalidArguments } from "./calls/InvalidArguments.ts"
import * as LifecycleTools from "./LifecycleTools.ts"
import * as ToolEvents from "./ToolEvents.ts"
import { isUnknownTool, type Snapshot } from "./ToolRegistry.ts"
import { ToolContext } from "./ToolContext.ts"
import type { BoundTool } from "./Toolset.ts"

// Failures that prevent a tool call from being attempted. Each message tells the model what is wrong and how to repeat
// the call correctly.
//
// **Details**
//
// This excludes calls cut off by the output limit: such an answer is discarded, and the model is asked again.
//
// Source: `hermes-llm.md` §13.3 and §13.4, `hermes-product.md` §2.1.

/** Maximum number of characters of malformed arguments that the error message quotes to the model. */
const shownArguments = 200

/** The tool name is unknown, and no similar tool name matches. */
class UnknownTool extends Schema.TaggedError<UnknownTool>("hermes-effect/UnknownTool")("UnknownTool", {
  tool: Schema.String,
  available: Schema.Array(Schema.String)
}) {
  override get message(): string {
    const available = this.available.length === 0 ? "none" : this.available.toSorted().join(", ")
    return `Tool '${this.tool}' does not exist. Available tools: ${available}`
  }
}

/** The arguments are not a JSON object and cannot be repaired into one. */
class MalformedArguments extends Schema.TaggedError<MalformedArguments>("hermes-effect/MalformedArguments")(
  "MalformedArguments",
  { tool: Schema.String, given: Schema.String, reason: Schema.String }
) {
  override get message(): string {
    return (
      `The arguments of '${this.tool}' are not a JSON object (${this.reason}): ` +
      `${TextCut.shorten(this.given, shownArguments)}. Call it again with valid JSON; use {} for a tool ` +
      "without parameters."
    )
  }
}

/** The run has used up its quota of tool calls. */
class OverQuota extends Schema.TaggedError<OverQuota>("hermes-effect/OverQuota")("OverQuota", { tool: Schema.String }) {
  override get message(): string {
    return `'${this.tool}' was not run: the tool calls of this request are used up. Answer with what you have.`
  }
}

/** Failure that prevents a tool call from being attempted. */
type CallError = UnknownTool | MalformedArguments | InvalidArguments | OverQuota

/** A call that is closed without running, with the message for the model. */
export interface RefusedCall {
  readonly _tag: "Refused"
  readonly call: Prompt.ToolCallPart
  readonly status: ToolStatus
  readonly output: string
  /** Reason why the call did not run, in one word. */
  readonly reason?: string | undefined
  /** Reason why the run must end after this call. */
  readonly halted?: string | undefined
  /**
   * True if the call could not be attempted: its tool does not exist or is not available to the run, or its arguments
   * are not an object.
   */
  readonly invalid?: boolean
}

/** A call that waits for an answer. It stays open. */
interface SuspendedCall {
  readonly _tag: "Suspended"
  readonly call: Prompt.ToolCallPart
}

/** A call that may run and was announced to the listeners. */
export interface ReadyCall {
  readonly _tag: "Ready"
  readonly call: Prompt.ToolCallPart
  readonly bound: BoundTool
  readonly args: ToolArguments
  readonly context: ToolCallContext
  readonly announced: ToolEvents.AnnouncedCall
  readonly permit: Approvals.Permit
  /** Snapshot of the arguments that the permit covers. */
  readonly approved: ApprovalReasons.ArgumentSnapshot
  /** Facts needed to judge changed arguments. */
  readonly concerned: ApprovalReasons.ReasonFacts
}

/** Parts of a run that are needed to prepare its calls. */
export interface CallEnvironment {
  readonly ids: CallIds
  /** Calls of the same answer. If one of them names an unknown tool, none of them runs. */
  readonly calls?: ReadonlyArray<Prompt.ToolCallPart> | undefined
  readonly tools: Snapshot
  readonly interceptors: Interceptors
  readonly guard: LoopGuard
  readonly approvals: Approvals.Service
  /** The conversation so far, for tools that use it to decide whether a call needs an approval. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Questions of the calls of the run; `undefined` if its calls cannot be suspended. */
  readonly questions?: QuestionBook | undefined
  /** Uses up one call of the quota; returns false if the quota is exhausted. By default, calls are unlimited. */
  readonly quota?: (() => boolean) | undefined
  /** Receives the request of an `after_tool` method to end the run. Ignored for calls outside of a run. */
  readonly endRun?: ((callId: string, end: EndRequest) => void) | undefined
}

/** Outcome of preparing a tool call: the call is refused, waits for an answer, or is ready to run. */
export type PreparedCall = RefusedCall | ReadyCall | SuspendedCall

/** Creates a call that is closed without running. */
export const refuseCall = (
  call: Prompt.ToolCallPart,
  status: ToolStatus,
  output: string,
  reason: string
): RefusedCall => ({ _tag: "Refused", call, status, output, reason })

/** Returns true for a JSON object, as opposed to a list or a text that is not JSON. */
export const isArguments = (value: unknown): value is ToolArguments => Predicate.isObject(value)

const refuseInvalidCall = (call: Prompt.ToolCallPart, { message }: CallError, reason: string): RefusedCall => ({
  ...refuseCall(call, "error", message, reason),
  invalid: true
})

const noTrace: ToolCallContext["trace"] = []
/** Returns true if repeating a call has no further effect. */
export const isIdempotent = ({ facts }: BoundTool): boolean => facts.readonly === true || facts.idempotent === true

interface StoppedCall {
  readonly _tag: "Stop"
  readonly reason: ToolOutcome.BlockReason
  readonly message: string
  /** Result of the call, if it contains more than the message. */
  readonly output?: string | undefined
  readonly halted?: string | undefined
}

/**
 * Returns true if middleware could change the arguments later. Middleware may retain a reference to its input, so a
 * request middleware counts too.
 */
const isChangeable = ({ lifecycle, toolExecution, toolRequest, wrapToolCall }: Interceptors["stack"]): boolean =>
  lifecycle !== undefined || toolExecution.length + toolRequest.length + wrapToolCall.length > 0

type Announcement = Pick<ReadyCall, "announced" | "args" | "bound" | "call" | "concerned" | "context">

const makeApprovalCall = (
  { args, bound: { facts, isConfined, reach }, call: { name } }: Announcement,
  concerns: Approvals.Call["concerns"],
  uncovered: Approvals.Call["uncovered"]
): Approvals.Call => ({
  tool: name,
  args,
  runs: facts,
  concerns,
  isReadonly: facts.readonly,
  isConfined,
  reach,
  uncovered
})

const judgeCall = (
  { approvals, guard }: CallEnvironment,
  announcement: Announcement
): Effect.Effect<
  StoppedCall | Approvals.Permit | Approvals.Refusal | Approvals.SuspendedApproval,
  never,
  ToolContext
> => {
  const {
    announced: { answer },
    args,
    bound,
    call,
    concerned
  } = announcement
  if (answer?.action === "block")
    return Effect.succeed({ _tag: "Stop", reason: "plugin_block", message: answer.message })
  const circling = guard.before({ name: call.name, args, idempotent: isIdempotent(bound) })
  if (circling !== undefined) {
    const output = JSON.stringify({ error: circling, guardrail: "tool_loop" })
    return Effect.succeed({ _tag: "Stop", reason: "guardrail_block", message: circling, output, halted: circling })
  }
  const { uncovered } = bound
  const checkApproval = (known: Approvals.Call["uncovered"]) =>
    Effect.flatMapEager(ApprovalReasons.collectReasons(concerned, args), (concerns) =>
      approvals.check(makeApprovalCall(announcement, concerns, known))
    )
  const judged =
    uncovered === undefined
      ? checkApproval(undefined)
      : ToolContext.use((context) =>
          checkApproval((args, found) => Effect.provideService(uncovered(args, found), ToolContext, context))
        )
  return judged
}

const toStop = (verdict: StoppedCall | Approvals.Refusal): StoppedCall =>
  verdict._tag === "Refusal" ? { _tag: "Stop", reason: verdict.reason, message: verdict.message } : verdict

/**
 * Returns the ready call if nothing has to be asked, waited for or looked up to permit it, and `undefined` for every
 * other call.
 */
const permitAtOnce = (
  { approvals, guard, ids }: CallEnvironment,
  announcement: Announcement,
  approved: ApprovalReasons.ArgumentSnapshot,
  fiber: Fiber.Fiber<unknown, unknown>
): ReadyCall | undefined => {
  const { args, bound, call, concerned } = announcement
  const permitPlain = findPlainCheck(approvals)
  if (permitPlain === undefined || bound.uncovered !== undefined) return undefined
  if (guard.before({ name: call.name, args, idempotent: isIdempotent(bound) }) !== undefined) return undefined
  // A tool that decides on its own needs an Effect.
  if (!ApprovalReasons.hasNoReasons(concerned)) return undefined
  const permit = permitPlain(makeApprovalCall(announcement, [], undefined), ids.sessionId, fiber)
  return permit === undefined ? undefined : makeReadyCall(announcement, permit, approved)
}

const makeReadyCall = (
  { announced, args, bound, call, concerned, context }: Announcement,
  permit: Approvals.Permit,
  approved: ApprovalReasons.ArgumentSnapshot
): ReadyCall => ({ _tag: "Ready", call, bound, args, context, announced, permit, approved, concerned })

const takeSnapshot = ({ interceptors: { stack } }: CallEnvironment, args: ToolArguments) =>
  isChangeable(stack) ? ApprovalReasons.takeSnapshot(args) : ApprovalReasons.fixed

const decideCall = (
  given: CallEnvironment,
  announcement: Announcement,
  approved: ApprovalReasons.ArgumentSnapshot
): Effect.Effect<PreparedCall, never, ToolContext> => {
  const { args, call } = announcement
  const { questions } = given
  const suspension =
    questions === undefined ? undefined : StoredApproval.makeApproval(questions, call.id, call.name, args)
  // A call is decided as soon as it is prepared, so the guard counts it here.
  const judged = Effect.updateContext(judgeCall(given, announcement), (context: Context.Context<ToolContext>) =>
    Context.add(context, Correlation, ToolEvents.toCorrelation(announcement.context)).pipe(
      Context.add(CurrentApproval, suspension)
    )
  )
  return Effect.flatMap(judged, (decided): Effect.Effect<PreparedCall> => {
    if (decided._tag === "Suspended") return Effect.succeed({ _tag: "Suspended", call })
    if (decided._tag === "Permit") return Effect.succeed(makeReadyCall(announcement, decided, approved))
    const { announced, context } = announcement
    const verdict = toStop(decided)
    const { result, ...outcome } = ToolOutcome.toBlockedOutcome(verdict.reason, verdict.message)
    const output = verdict.output ?? result
    return Effect.as(ToolEvents.close(announced, context, { args, result: output, durationMillis: 0, outcome }), {
      ...refuseCall(call, "blocked", output, verdict.reason),
      halted: verdict.halted
    })
  })
}

const buildCallContext = (
  ids: CallIds,
  { bound, call }: { readonly call: Prompt.ToolCallPart; readonly bound: BoundTool | undefined },
  sent: ToolArguments,
  trace: ToolCallContext["trace"]
): ToolCallContext => ({
  ...ids,
  toolName: call.name,
  toolCallId: ToolCallId.make(call.id),
  annotations: Annotations.toStated(bound?.facts),
  originalArgs: sent,
  trace
})

/** Admits a call that no middleware or listener observes before it is judged. */
const admitUnseen = (
  given: CallEnvironment,
  call: Prompt.ToolCallPart,
  bound: BoundTool,
  args: ToolArguments
): Effect.Effect<PreparedCall, never, ToolContext> =>
  Effect.withFiber((fiber) => {
    const announcement: Announcement = {
      call,
      bound,
      args,
      context: buildCallContext(given.ids, { bound, call }, args, noTrace),
      announced: ToolEvents.unannounced,
      concerned: { bound, callId: call.id, messages: given.messages, directive: undefined }
    }
    const approved = takeSnapshot(given, args)
    const ready = permitAtOnce(given, announcement, approved, fiber)
    return ready === undefined ? decideCall(given, announcement, approved) : Effect.succeed(ready)
  })

const admitCall = Effect.fnUntraced(function* (
  given: CallEnvironment,
  call: Prompt.ToolCallPart,
  bound: BoundTool,
  sent: ToolArguments
): Effect.fn.Return<PreparedCall, never, Scope.Scope | unknown> {
  const {
    ids,
    interceptors: { hooks, stack },
    messages
  } = given
  const buildContextWith = (trace: ToolCallContext["trace"]): ToolCallContext =>
    buildCallContext(ids, { bound, call }, sent, trace)
  const rewritten =
    stack.toolRequest.length === 0
      ? { payload: sent, trace: noTrace }
      : yield* Effect.catch(Pipeline.run(stack.toolRequest, stack.faults, sent, buildContextWith), (error) =>
          Effect.as(
            error instanceof ExecutionBlocked ? Effect.void : Effect.logWarning(error.message),
            // The middleware vetoed the call, or failed and is registered as closed.
            refuseCall(call, "blocked", JSON.stringify({ error: error.message }), "tool_request_middleware")
          )
        )
  if ("_tag" in rewritten) return yield* notifyRefusedCall(given, rewritten, sent)
  const before =
    stack.lifecycle === undefined
      ? undefined
      : yield* LifecycleTools.runBeforeTool(
          stack.lifecycle,
          buildContextWith(rewritten.trace),
          rewritten.payload,
          bound.facts
        )
  if (before?._tag === "Ended") {
    if (before.end !== undefined) given.endRun?.(call.id, before.end)
    return yield* notifyRefusedCall(
      given,
      refuseCall(call, before.status, before.output, "before_tool"),
      rewritten.payload
    )
  }
  const args = before?.args ?? rewritten.payload
  const context = buildContextWith(rewritten.trace)
  const announced = yield* ToolEvents.announce(hooks, context, args)
  const directive = announced.answer?.action === "approve" ? announced.answer : undefined
  return yield* decideCall(
    given,
    { call, bound, args, context, announced, concerned: { bound, callId: call.id, messages, directive } },
    takeSnapshot(given, args)
  )
})

/**
 * Notifies the observers of a call that could not be attempted in the same way as for a call that ran. Their answers
 * have no effect.
 */
export const notifyRefusedCall = Effect.fnUntraced(function* (
  { ids, interceptors: { hooks } }: Pick<CallEnvironment, "ids" | "interceptors">,
  refused: RefusedCall,
  args: ToolArguments
): Effect.fn.Return<RefusedCall, never, Scope.Scope> {
  if (!hooks.has("pre_tool_call") && !hooks.has("post_tool_call")) return refused
  const { call, output, status } = refused
  const context = buildCallContext(ids, { bound: undefined, call }, args, noTrace)
  const announced = yield* ToolEvents.announce(hooks, context, args)
  const outcome = ToolEvents.toOutcome(status, output, "plugin_block")
  yield* ToolEvents.close(announced, context, { args, result: output, durationMillis: 0, outcome })
  return refused
})

/**
 * Notifies the observers of a call with an unknown tool or malformed arguments, and calls the `after_tool` methods,
 * which may change the error that the model reads.
 */
const closeInvalidCall = Effect.fnUntraced(function* (
  given: CallEnvironment,
  refused: RefusedCall,
  args: ToolArguments
): Effect.fn.Return<RefusedCall, never, Scope.Scope> {
  yield* notifyRefusedCall(given, refused, args)
  const { lifecycle } = given.interceptors.stack
  if (lifecycle === undefined) return refused
  const { call, output } = refused
  const { isChanged, output: changed } = yield* LifecycleTools.applyAfterTool(
    lifecycle,
    buildCallContext(given.ids, { call, bound: given.tools.get(call.name) }, args, noTrace),
    args,
    { raw: { error: output }, llm: output, isError: true },
    { foreign: false }
  )
  return isChanged ? { ...refused, output: changed } : refused
})

/**
 * Refuses a call of a tool that is not available to the run. `pre_tool_call` listeners are not asked; the other
 * listeners are notified (`hermes-contract.md` §2.9).
 */
const refuseOutOfScope = Effect.fnUntraced(function* (
  { ids, interceptors: { hooks } }: CallEnvironment,
  call: Prompt.ToolCallPart,
  message: string
): Effect.fn.Return<PreparedCall> {
  const args = isArguments(call.params) ? call.params : {}
  const { result, ...outcome } = ToolOutcome.toBlockedOutcome("tool_scope_block", message)
  const context = buildCallContext(ids, { bound: undefined, call }, args, noTrace)
  yield* ToolEvents.reportUnannounced(hooks, context, { args, result, durationMillis: 0, outcome })
  return { ...refuseCall(call, "blocked", result, "tool_scope_block"), invalid: true }
})

/** Returns true if no middleware or listener observes calls before they are judged. */
export const isUnobserved = ({ hooks, stack }: Interceptors): boolean =>
  stack.toolRequest.length === 0 && stack.lifecycle === undefined && !ToolEvents.hasListeners(hooks)

/** Prepares a tool call before it may run. */
export const prepare = (
  given: CallEnvironment,
  call: Prompt.ToolCallPart
): Effect.Effect<PreparedCall, never, Scope.Scope | ToolContext> => {
  const bound = given.tools.get(call.name)
  const tool = call.name
  const withheld = bound === undefined ? given.tools.withheld(tool) : undefined
  if (withheld !== undefined) return refuseOutOfScope(given, call, withheld)
  if (bound === undefined) {
    const unknown = refuseInvalidCall(call, new UnknownTool({ tool, available: given.tools.names }), "unknown_tool")
    return closeInvalidCall(given, unknown, isArguments(call.params) ? call.params : {})
  }
  if (!isArguments(call.params)) {
    const malformed = { tool, given: Json.toText(call.params), reason: ArgumentRepair.explainProblem(call.params) }
    const refused = refuseInvalidCall(call, new MalformedArguments(malformed), "malformed_arguments")
    return closeInvalidCall(given, refused, {})
  }
  if (given.calls?.some(({ name }) => isUnknownTool(given.tools, name)) === true) {
    const skipped = refuseCall(call, "cancelled", Normalise.skippedText, "skipped_sibling")
    return notifyRefusedCall(given, skipped, call.params)
  }
  if (given.quota?.() === false) {
    return notifyRefusedCall(
      given,
      refuseCall(call, "cancelled", new OverQuota({ tool }).message, "over_quota"),
      call.params
    )
  }
  if (isUnobserved(given.interceptors)) return admitUnseen(given, call, bound, call.params)
  // The services of `tool_request` middleware were provided when the middleware stack was created.
  return admitCall(given, call, bound, call.params) as Effect.Effect<PreparedCall, never, Scope.Scope | ToolContext>
}
