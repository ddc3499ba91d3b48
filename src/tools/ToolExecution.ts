/**
 * Runs one permitted tool call: `wrap_tool_call` around `tool_execution` around the handler. The call always ends in a
 * settlement; no failure of a tool or of its wrappers fails the run.
 *
 * Source: `ARCHITECTURE.md` §4 and §6, `hermes-contract.md` §2.9.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { ExecutionBlocked, MiddlewareFailure } from "../base/domain/AgentError.ts"
import * as CallSuspension from "../base/domain/CallSuspension.ts"
import * as Interruption from "../base/domain/Interruption.ts"
import type { ToolStatus } from "../base/domain/RunEvent.ts"
import { ToolFailed, type ToolOutput } from "../base/domain/ToolOutput.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import type { BlockReason } from "../hooks/ToolOutcome.ts"
import * as Chain from "../middleware/Chain.ts"
import * as Faults from "../middleware/Faults.ts"
import * as Frozen from "../middleware/Frozen.ts"
import type { ToolArguments } from "../middleware/Kind.ts"
import type { Stack } from "../middleware/Stack.ts"
import * as ApprovalReasons from "./approval/ApprovalReasons.ts"
import type * as Approvals from "./Approvals.ts"
import * as StoredApproval from "./approval/StoredApproval.ts"
import { CurrentApproval, type QuestionBook } from "./CallQuestions.ts"
import { describeParameters, InvalidArguments } from "./calls/InvalidArguments.ts"
import * as LongResult from "./LongResult.ts"
import type { ReadyCall } from "./Prepare.ts"
import * as ResultText from "./ResultText.ts"
import type { ToolContext } from "./ToolContext.ts"

// Refuses calls that must never run, regardless of any flag, mode or approval. This check is the last one, at the
// handler, with the arguments that the tool receives.
//
// Source: `ARCHITECTURE.md` §4 and §7, `hermes-llm.md` §19.7.

/** Error raised when the hardline floor stopped a call. */
class BelowFloor extends Schema.TaggedError<BelowFloor>("hermes-effect/BelowFloor")("BelowFloor", {
  message: Schema.String
}) {}

/** Runs a call, unless it must never run. The judge is loaded on the first call of a tool that runs commands. */
const runAboveFloor = <A, E, R>(
  tool: string,
  facts: ApprovalReasons.RunArguments,
  args: ToolArguments,
  run: () => Effect.Effect<A, E, R>
): Effect.Effect<A, E | BelowFloor, R> =>
  facts.commandArguments.length + facts.inputArguments.length === 0
    ? run()
    : Effect.flatMap(
        Effect.promise(() => import("./approval/ApprovalTarget.ts")),
        (judge): Effect.Effect<A, E | BelowFloor, R> => {
          const { floor } = judge.fromCall(tool, args, facts).verdict
          return floor === undefined
            ? run()
            : Effect.fail(
                new BelowFloor({
                  message:
                    `Blocked: ${floor.key}. No approval or setting allows this; find another way, or ask the ` +
                    "user to do it."
                })
              )
        }
      )

/** Lets a running call request approval: to leave its sandbox, or to follow a redirect to another host. */
const serveRequests = <A, E, R>(
  run: Effect.Effect<A, E, R>,
  approvals: Approvals.Service,
  call: Approvals.Call
): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    Effect.promise(() => import("./approval/SandboxRequests.ts")),
    ({ provideRequests }) => provideRequests(run, approvals, call)
  )

/** End of a call, with its result as text. */
export interface Settlement {
  readonly status: ToolStatus
  /** Text of the result. */
  readonly output: string
  /** Result as returned by the tool. */
  readonly raw: unknown
  /** Value of the result, cleaned as its text is; `undefined` if the text contains more than the value. */
  readonly value: unknown
  readonly isFailure: boolean
  readonly modelOutput: ToolOutput["modelOutput"]
  /** Component that stopped a call with the status `blocked`. */
  readonly blockedBy: BlockReason | undefined
  /** Arguments that reached the tool. If a wrapper answered or stopped the call, the last known arguments. */
  readonly args: ToolArguments
}

/** Receives a tool's progress reports. */
type OnProgress = (output: unknown) => Effect.Effect<void>

/** Ports of one running call. */
interface CallPorts {
  /** Context in which the call runs. */
  readonly services: Context.Context<ToolContext>
  /** Observes the execution of the call, for example with a span. */
  readonly trace:
    | (<R>(execution: Effect.Effect<Settlement, never, R>) => Effect.Effect<Settlement, never, R>)
    | undefined
  readonly onProgress: OnProgress | undefined
  /** State of the call, if it can be suspended. */
  readonly suspension: CallSuspension.CallSuspension | undefined
  readonly questions: QuestionBook | undefined
  /** Value of `Redaction.RedactSecrets`. */
  readonly redact: boolean
}

/** End of a call, before its result is rendered as text. */
type RawSettlement = Omit<Settlement, "args" | "output" | "raw" | "value"> & Pick<ToolOutput, "output">

const toFailure = (status: ToolStatus, error: string, blockedBy?: BlockReason): RawSettlement => ({
  status,
  output: { error },
  isFailure: true,
  modelOutput: undefined,
  blockedBy
})

const toSuccess = ({ isFailure, modelOutput, output }: ToolOutput): RawSettlement => ({
  status: isFailure ? "error" : "ok",
  output,
  isFailure,
  modelOutput,
  blockedBy: undefined
})

/**
 * Describes a failure in words for the model. For arguments that do not match, it also describes the expected
 * parameters.
 */
const describeFailure = ({ definition }: ReadyCall["bound"], error: unknown): string =>
  error instanceof ToolFailed && error.phase === "parameters"
    ? new InvalidArguments({
        tool: definition.name,
        problem: error.message.replace(/^Invalid parameters for tool '[^']*': /, "").replaceAll(/\s+/g, " "),
        parameters: describeParameters(definition.parameters)
      }).message
    : `Error executing tool '${definition.name}': ${Faults.describeError(error)}`

const settleFailure = (bound: ReadyCall["bound"], error: unknown): RawSettlement =>
  error instanceof ExecutionBlocked
    ? toFailure("blocked", error.reason, "plugin_block")
    : error instanceof BelowFloor
      ? toFailure("blocked", error.message, "hardline")
      : error instanceof NotApproved
        ? toFailure("blocked", error.message, error.reason)
        : toFailure("error", describeFailure(bound, error))

/** Error raised when the arguments of a call were changed after its approval and the changed call was not approved. */
class NotApproved extends Schema.TaggedError<NotApproved>("hermes-effect/NotApproved")("NotApproved", {
  message: Schema.String,
  reason: Schema.Literals(["hardline", "approval_denied", "approval_timeout"])
}) {}

/** Maximum duration of a call if the tool states none with `Annotations.Timeout`. */
const defaultTimeout = Duration.minutes(5)

const resolveTimeout = ({ facts }: ReadyCall["bound"]): Duration.Duration =>
  facts.timeout ?? (facts.interactive ? Duration.infinity : defaultTimeout)

/** Creates the effect of a handler, with its own copy of the arguments. */
const makeHandler = (
  bound: ReadyCall["bound"],
  args: ToolArguments,
  callId: string,
  { onProgress, suspension }: CallPorts
): Effect.Effect<ToolOutput, ToolFailed, ToolContext> =>
  Effect.withFiber((fiber) => {
    suspension?.fibers.push(fiber)
    return bound.run(Frozen.copy(args), callId, onProgress)
  })

/** Describes how a defect of a handler ends its call; a defect that the runtime did not raise is returned unchanged. */
const describeDefect = ({ definition: { name } }: ReadyCall["bound"], deadline: Duration.Duration, defect: unknown) =>
  defect instanceof IsolatedCall.DeadlineExceeded
    ? new ToolFailed({ tool: name, phase: "handler", message: `timed out after ${Duration.toSeconds(deadline)}s` })
    : defect instanceof Interruption.SelfInterrupted
      ? new ToolFailed({ tool: name, phase: "handler", message: defect.message })
      : defect

const makeBorder = (bound: ReadyCall["bound"], deadline: Duration.Duration): IsolatedCall.CallBorder => ({
  what: `the tool ${bound.definition.name}`,
  deadline
})

/** Runs the handler of a tool in isolation, with its own copy of the arguments. */
const runHandler = (
  bound: ReadyCall["bound"],
  args: ToolArguments,
  callId: string,
  ports: CallPorts
): Effect.Effect<ToolOutput, ToolFailed | CallSuspension.CallSuspended, ToolContext> => {
  const deadline = resolveTimeout(bound)
  return Effect.catchDefect(
    IsolatedCall.contain(makeHandler(bound, args, callId, ports), makeBorder(bound, deadline)),
    (defect): Effect.Effect<never, ToolFailed | CallSuspension.CallSuspended> => {
      if (ports.suspension?.isSuspended === true) return Effect.fail(new CallSuspension.CallSuspended())
      const error = describeDefect(bound, deadline, defect)
      return error instanceof ToolFailed ? Effect.fail(error) : Effect.die(defect)
    }
  )
}

/** Returns true if only its handler takes part in a call: no middleware, sandbox, command or change of arguments. */
const isHandlerAlone = (
  { toolExecution, toolServices, wrapToolCall }: Stack,
  { approved, bound: { facts, isConfined, mayBeSentOn } }: ReadyCall
): boolean =>
  approved === ApprovalReasons.fixed &&
  isConfined !== true &&
  mayBeSentOn !== true &&
  facts.commandArguments.length + facts.inputArguments.length === 0 &&
  toolExecution.length + toolServices.length + wrapToolCall.length === 0

/** Creates a function that renders the result of a call. */
const settleCall = (
  { bound }: ReadyCall,
  { redact }: CallPorts,
  ended: RawSettlement,
  args: ToolArguments
): Effect.Effect<Settlement> => {
  const rules: ResultText.Rules = { foreign: bound.facts.foreign, redact }
  return LongResult.isLong(ended.output) || LongResult.isLong(ended.modelOutput)
    ? Effect.map(LongResult.renderResult(ended, rules), (text) => ({ ...ended, ...text, args }))
    : Effect.succeed({ ...ended, ...ResultText.renderResult(ended, rules), args })
}

/** Finds the error for which a handler ended: its first defect, or its failure. */
const findHandlerError = (bound: ReadyCall["bound"], deadline: Duration.Duration, cause: Cause.Cause<unknown>) => {
  const died = cause.reasons.find(Cause.isDieReason)
  return died === undefined ? Cause.squash(cause) : describeDefect(bound, deadline, died.defect)
}

/**
 * Function that receives the end of a call and stores its result. It is uninterruptible, except for its parts in
 * `restore`.
 */
export type Finish<A, E> = (settlement: Settlement, restore: IsolatedCall.Restore) => Effect.Effect<A, E, ToolContext>

/** Executes a call of which only the handler takes part. A handler that ends at once takes a single step of the run. */
const executeHandler = <A, E>(
  ready: ReadyCall,
  ports: CallPorts,
  finish: Finish<A, E>
): Effect.Effect<A, E, ToolContext> => {
  const { args, bound, call } = ready
  const deadline = resolveTimeout(bound)
  return IsolatedCall.containIn(
    ports.services,
    makeHandler(bound, args, call.id, ports),
    makeBorder(bound, deadline),
    (exit, restore) =>
      Effect.flatMapEager(
        settleCall(
          ready,
          ports,
          Exit.isSuccess(exit)
            ? toSuccess(exit.value)
            : settleFailure(bound, findHandlerError(bound, deadline, exit.cause)),
          args
        ),
        (settlement) => finish(settlement, restore)
      )
  )
}

/**
 * Executes one tool call that may run, and passes its settlement to `finish`. Once the tool has ended, an interruption
 * waits for `finish`, so that the result is not lost.
 */
export const execute = <A, E>(
  stack: Stack,
  approvals: Approvals.Service,
  ready: ReadyCall,
  ports: CallPorts,
  finish: Finish<A, E>
): Effect.Effect<A, E, ToolContext> => {
  if (ports.trace === undefined && isHandlerAlone(stack, ready)) return executeHandler(ready, ports, finish)
  return Effect.uninterruptibleMask((restore) => {
    const execution = Effect.updateContext(
      executeWrapped(stack, approvals, ready, ports, restore),
      (_: Context.Context<ToolContext>) => ports.services
    )
    return Effect.flatMap(ports.trace?.(execution) ?? execution, (settlement) => finish(settlement, restore))
  })
}

/** Executes a call with its wrappers, its sandbox and the check of its changed arguments. */
const executeWrapped = (
  stack: Stack,
  approvals: Approvals.Service,
  ready: ReadyCall,
  ports: CallPorts,
  restore: IsolatedCall.Restore
): Effect.Effect<Settlement, never, ToolContext> => {
  const { approved, args, bound, call, concerned, context, permit } = ready
  const { questions, suspension } = ports
  let reached = args
  const callHandler = (
    given: ToolArguments
  ): Effect.Effect<ToolOutput, ToolFailed | BelowFloor | NotApproved | CallSuspension.CallSuspended, ToolContext> => {
    reached = given
    if (suspension?.isSuspended === true) return Effect.fail(new CallSuspension.CallSuspended())
    const handle = runHandler(bound, given, call.id, ports)
    const mayAsk = bound.isConfined === true || bound.mayBeSentOn === true
    const run = mayAsk ? serveRequests(handle, approvals, { ...permit.call, args: given }) : handle
    // The arguments are compared at the moment of execution, so that they cannot change in between.
    const runIfPermitted = () =>
      approved.isSame(given)
        ? run
        : Effect.flatMap(
            Effect.flatMap(ApprovalReasons.collectReasons(concerned, given), (concerns) =>
              Effect.provideService(
                approvals.check({ ...permit.call, args: given, concerns }),
                CurrentApproval,
                questions === undefined ? undefined : StoredApproval.makeApproval(questions, call.id, call.name, given)
              )
            ),
            (
              judged
            ): Effect.Effect<ToolOutput, ToolFailed | NotApproved | CallSuspension.CallSuspended, ToolContext> => {
              if (judged._tag === "Permit") return run
              if (judged._tag === "Refusal")
                return Effect.fail(new NotApproved({ message: judged.message, reason: judged.reason }))
              if (suspension !== undefined) suspension.isSuspended = true
              return Effect.fail(new CallSuspension.CallSuspended())
            }
          )
    return runAboveFloor(call.name, bound.facts, given, runIfPermitted)
  }
  // A tool that limits its own duration does not limit its wrappers.
  const own = resolveTimeout(bound)
  const getDeadlineMillis = (): number => Duration.toMillis(Duration.isFinite(own) ? own : defaultTimeout)
  const inner = Chain.run(stack.toolExecution, Chain.toolCalls, stack.faults, context, callHandler, getDeadlineMillis)
  const outer = Chain.run(stack.wrapToolCall, Chain.toolCalls, stack.faults, context, inner, getDeadlineMillis)
  // The services of wrappers were provided when the middleware stack was created.
  const wrapped = outer(args, undefined) as Effect.Effect<ToolOutput, unknown, ToolContext>
  const run = Chain.provideServices(
    stack.toolServices,
    stack.faults,
    () => context,
    outer === callHandler
      ? wrapped
      : Interruption.contain(() => new Interruption.SelfInterrupted(`the tool ${call.name}`))(wrapped)
  )
  const settleCause = (cause: Cause.Cause<unknown>): Effect.Effect<Settlement> => {
    const error = Cause.squash(cause)
    const ended = settleCall(ready, ports, settleFailure(bound, error), reached)
    // The failure is reported to the model and in the program's log, because a policy could not do its work.
    return error instanceof MiddlewareFailure ? Effect.tap(ended, Effect.logWarning(error.message)) : ended
  }
  return Effect.matchCauseEffect(restore(run), {
    onSuccess: (output) => settleCall(ready, ports, toSuccess(output), reached),
    onFailure: (cause) =>
      // If the run is interrupted, `restore` ends the call here. Otherwise, the tool or a wrapper interrupted itself.
      Cause.hasInterrupts(cause) ? Effect.flatMap(restore(Effect.void), () => settleCause(cause)) : settleCause(cause)
  })
}
