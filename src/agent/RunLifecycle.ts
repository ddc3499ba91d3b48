/**
 * The phases of lifecycle middleware around a run and around its model calls. Without such middleware the phases add no
 * cost.
 *
 * **Details**
 *
 * Messages that a method adds to the conversation are stored. Messages that it removes are no longer sent in this run,
 * but stay in the session.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Cause from "effect/Cause"
import * as Prompt from "effect/ai/Prompt"
import { CompressionExhausted, type SessionStoreError } from "../base/domain/AgentError.ts"
import type { ContentPart, ModelResponse } from "../base/domain/ModelCall.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Faults from "../middleware/Faults.ts"
import * as Frozen from "../middleware/Frozen.ts"
import type {
  AfterAgentInput,
  AfterModelInput,
  BeforeAgentInput,
  BeforeModelInput,
  ParsedCall,
  ParsedResponse,
  StopReason
} from "../middleware/Lifecycle.ts"
import * as LifecycleResult from "../middleware/LifecycleResult.ts"
import type * as LifecycleStack from "../middleware/LifecycleStack.ts"
import type { RequestedCall } from "../middleware/LoopControl.ts"
import * as ContextFit from "./ContextFit.ts"
import * as RunEnding from "./RunEnding.ts"
import { recordRewrite, replaceMessages, storeMessages } from "./RunConversation.ts"
import { emit, replaceText, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** A result that controls the loop, with the name of its middleware. */
export type Direction = NonNullable<LifecycleStack.Changes["control"]>

/** Gives requested calls ids that are unique in the run. */
export const identifyCalls = (run: RunState, calls: ReadonlyArray<RequestedCall>): ReadonlyArray<ParsedCall> =>
  calls.map(({ id, name, params }, index) => ({ id: id ?? `call_${run.steps.count}_m${index}`, name, params }))

/** Adds a conversation to an input, converted when it is first read. */
const withMessages = <A extends object>(
  messages: ReadonlyArray<Prompt.Message>,
  rest: A
): A & { readonly messages: ReadonlyArray<Prompt.Message> } => {
  let seen: ReadonlyArray<Prompt.Message> | undefined
  return {
    ...rest,
    get messages() {
      return (seen ??= LifecycleResult.copyConversation(messages))
    }
  }
}

/** Conversation that a run starts with, and the answer that ends it without calling the model. */
interface RunOpening {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly ending?: RunEnding.RunEnding | undefined
}

/** Creates the methods of a run and calls `before_agent` with the conversation that the run starts with. */
export const begin = (run: RunState, cwd: string): Effect.Effect<RunOpening, LifecycleStack.PhaseFailure, Services> =>
  Services.use(({ interceptors: { stack } }): Effect.Effect<RunOpening, LifecycleStack.PhaseFailure> =>
    stack.lifecycle === undefined ? Effect.succeed(run.conversation) : openLifecycle(stack.lifecycle, run, cwd)
  )

const openLifecycle = Effect.fnUntraced(function* (
  lifecycle: LifecycleStack.LifecycleStack,
  run: RunState,
  cwd: string
): Effect.fn.Return<RunOpening, LifecycleStack.PhaseFailure> {
  yield* lifecycle.open({
    sessionId: run.sessionId,
    taskId: run.taskId,
    turnId: run.turnId,
    platform: run.platform,
    isChild: run.lineage !== undefined,
    cwd,
    maxIterations: run.budget.iterations,
    notify: run.emit === undefined && run.recorder === undefined ? undefined : (events) => emit(run, ...events)
  })
  const { control, fields } = yield* lifecycle.run(
    "beforeAgent",
    run,
    (facts, { messages = run.conversation.messages }): BeforeAgentInput => withMessages(messages, { run: facts })
  )
  return {
    messages: fields.messages ?? run.conversation.messages,
    ending:
      control?.result._tag === "EndWith" ? RunEnding.makeEnding(control.by, control.result.answer, true) : undefined
  }
})

const stopReasons: Readonly<Record<RunResult["exit"], StopReason>> = {
  text_response: "SUCCESS",
  stop_tool_triggered: "STOP_TOOL_TRIGGERED",
  ended_by_middleware: "SUCCESS",
  interrupted_by_user: "USER_INTERRUPTED",
  max_iterations_reached: "MAX_ITERATIONS_REACHED",
  budget_exhausted: "MAX_ITERATIONS_REACHED",
  empty_response_exhausted: "ERROR_OCCURRED",
  output_truncated: "ERROR_OCCURRED",
  partial_stream_recovery: "ERROR_OCCURRED",
  invalid_tool_calls: "ERROR_OCCURRED",
  content_filtered: "ERROR_OCCURRED",
  guardrail_halt: "ERROR_OCCURRED",
  suspended: "USER_INTERRUPTED"
}

const describeEnd = <E>(exit: Exit.Exit<RunResult, E>): Pick<AfterAgentInput, "agentResponse" | "stopReason"> => {
  if (Exit.isSuccess(exit)) return { agentResponse: exit.value.text, stopReason: stopReasons[exit.value.exit] }
  if (Exit.hasInterrupts(exit)) return { agentResponse: "", stopReason: "USER_INTERRUPTED" }
  const error = Cause.squash(exit.cause)
  return {
    agentResponse: `Error: ${Faults.describeError(error)}`,
    stopReason: error instanceof CompressionExhausted ? "CONTEXT_TOKEN_LIMIT" : "ERROR_OCCURRED"
  }
}

/**
 * Runs `after_agent` at every end of a run. Returns the result with the text set by the phase. Must run
 * uninterruptibly.
 */
export const end = <E>(
  run: RunState,
  exit: Exit.Exit<RunResult, E>
): Effect.Effect<RunResult, E | LifecycleStack.PhaseFailure, Services> =>
  Services.use(({ interceptors }): Effect.Effect<RunResult, E | LifecycleStack.PhaseFailure> => {
    const { lifecycle } = interceptors.stack
    // Most runs have no lifecycle middleware.
    if (lifecycle === undefined) return exit
    const { agentResponse: text, stopReason } = describeEnd(exit)
    return lifecycle
      .run("afterAgent", run, (facts, { agentResponse = text }): AfterAgentInput =>
        withMessages(run.conversation.messages, { run: facts, agentResponse, stopReason, usage: run.budget.usage })
      )
      .pipe(
        Effect.matchEffect({
          // Reports the failure of the run rather than a later failure of the phase.
          onFailure: (error): Effect.Effect<RunResult, E | LifecycleStack.PhaseFailure> =>
            Exit.isSuccess(exit) ? Effect.fail(error) : Effect.andThen(Effect.logWarning(error.message), exit),
          onSuccess: ({ fields: { agentResponse } }): Effect.Effect<RunResult, E> =>
            Exit.isSuccess(exit) && agentResponse !== undefined && agentResponse !== text
              ? Effect.as(replaceText(run, run.steps.answerStart, agentResponse), {
                  ...exit.value,
                  text: agentResponse,
                  responseTransformed: true
                })
              : exit
        }),
        Effect.ensuring(Effect.sync(() => lifecycle.close(run.turnId)))
      )
  })

/** Applies a conversation changed by middleware and stores its new messages. */
const takeOver = (
  run: RunState,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError, Services> => {
  const known = new Set(run.conversation.messages)
  const added = messages.filter((message, index) => !known.has(message) && (index > 0 || message.role !== "system"))
  const before = replaceMessages(run, messages)
  if (added.length !== messages.length - before.length) recordRewrite(run, "before_model", before)
  return added.length === 0 ? Effect.void : storeMessages(run, added)
}

const countTokensLeft = ({
  budget: {
    limits: { tokens },
    usage
  }
}: RunState): number | undefined =>
  tokens === undefined ? undefined : Math.max(0, tokens - Usage.countTotalTokens(usage))

/** Result of `before_model`. */
interface BeforeModelOutcome {
  /** Messages sent after the conversation in this call. */
  readonly promptMessages: ReadonlyArray<Prompt.Message>
  /** Replaces the model call of the step. */
  readonly direction?: Direction | undefined
}

/** Runs `before_model`. */
export const runBeforeModel = (
  run: RunState
): Effect.Effect<BeforeModelOutcome, LifecycleStack.PhaseFailure | SessionStoreError, Services> =>
  Services.use(
    ({
      interceptors: {
        stack: { lifecycle }
      }
    }) => (lifecycle === undefined ? nothingSent : askBefore(run, lifecycle))
  )

const nothingSent: Effect.Effect<BeforeModelOutcome> = Effect.succeed({ promptMessages: [] })

const askBefore = Effect.fnUntraced(function* (
  run: RunState,
  lifecycle: LifecycleStack.LifecycleStack
): Effect.fn.Return<BeforeModelOutcome, LifecycleStack.PhaseFailure | SessionStoreError, Services> {
  const services = yield* Services
  const contextWindow = Effect.provideService(ContextFit.findWindow(run), Services, services)
  const { control: direction, fields } = yield* lifecycle.run(
    "beforeModel",
    run,
    (facts, { compaction = [], messages = run.conversation.messages, promptMessages = [] }): BeforeModelInput =>
      withMessages(messages, {
        run: facts,
        compaction,
        promptTokens: run.tokens.prompt,
        contextWindow,
        promptMessages: LifecycleResult.copyConversation(promptMessages),
        currentIteration: run.steps.count - 1,
        maxIterations: run.budget.iterations,
        usage: run.budget.usage,
        tokensLeft: countTokensLeft(run)
      })
  )
  if (fields.messages !== undefined) yield* takeOver(run, fields.messages)
  if (direction !== undefined) return { promptMessages: [], direction }
  for (const plan of fields.compaction ?? []) yield* ContextFit.applyPlan(run, plan)
  return { promptMessages: fields.promptMessages ?? [] }
})

/** An answer after changes by `after_model`. */
export interface ReviewedAnswer {
  readonly parts: ReadonlyArray<ContentPart>
  /** Ids of the calls that are not run. */
  readonly removed: ReadonlySet<string>
  readonly by: string
  /** Parameters changed by middleware, by the id of their call. The stored answer contains the model's parameters. */
  readonly edited: ReadonlyMap<string, unknown>
  /** Messages stored after the answer and the results of its calls. */
  readonly added: ReadonlyArray<Prompt.Message>
  readonly forceContinue: boolean
  /** Ends the run or calls the model again, without the calls of the answer. */
  readonly direction?: Direction | undefined
}

const untouched: Omit<ReviewedAnswer, "parts"> = {
  removed: new Set(),
  by: "",
  edited: new Map(),
  added: [],
  forceContinue: false
}

/** Returns the review of an answer that no middleware changes. */
export const skipReview = (parts: ReadonlyArray<ContentPart>): ReviewedAnswer => ({ parts, ...untouched })

type Call = Extract<ContentPart, { readonly type: "tool-call" }>

const isCall = (part: ContentPart): part is Call => part.type === "tool-call" && !part.providerExecuted

const readText = (parts: ReadonlyArray<ContentPart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

/** Returns the parts with changed text and added calls. */
const withParsed = (
  parts: ReadonlyArray<ContentPart>,
  calls: ReadonlyArray<Call>,
  parsed: ParsedResponse,
  makePart: (part: { readonly text: string } | ParsedCall) => ContentPart
): ReadonlyArray<ContentPart> => {
  const added = parsed.toolCalls.filter(({ id }) => !calls.some((call) => call.id === id)).map(makePart)
  if (parsed.text === readText(parts)) return added.length === 0 ? parts : [...parts, ...added]
  const first = parts.findIndex(({ type }) => type === "text")
  const at = first === -1 ? parts.findLastIndex(({ type }) => type === "reasoning") + 1 : first
  const others = parts.filter(({ type }) => type !== "text")
  return [
    ...others.slice(0, at),
    ...(parsed.text === "" ? [] : [makePart({ text: parsed.text })]),
    ...others.slice(at),
    ...added
  ]
}

/** Runs `after_model` for an answer. */
export const runAfterModel = (
  run: RunState,
  response: ModelResponse,
  makePart: (part: { readonly text: string } | ParsedCall) => ContentPart
): Effect.Effect<ReviewedAnswer, LifecycleStack.PhaseFailure, Services> =>
  Services.use(
    ({
      interceptors: {
        stack: { lifecycle }
      }
    }) =>
      lifecycle === undefined
        ? Effect.succeed(skipReview(response.parts))
        : askAfter(run, response, makePart, lifecycle)
  )

/** Returns an answer with the text and the calls that a result of `after_model` leaves. */
const applyControl = (run: RunState, parsed: ParsedResponse, control: Direction | undefined): ParsedResponse => {
  if (control === undefined) return parsed
  const { result } = control
  if (result._tag === "GoToTools")
    return { ...parsed, toolCalls: [...parsed.toolCalls, ...identifyCalls(run, result.calls)] }
  return { text: result._tag === "EndWith" ? result.answer : parsed.text, toolCalls: [] }
}

const askAfter = Effect.fnUntraced(function* (
  run: RunState,
  response: ModelResponse,
  makePart: (part: { readonly text: string } | ParsedCall) => ContentPart,
  lifecycle: LifecycleStack.LifecycleStack
): Effect.fn.Return<ReviewedAnswer, LifecycleStack.PhaseFailure, Services> {
  // An answer without ids gets ids that are the same each time the answer is read.
  const parts = response.parts.map((part, index) =>
    isCall(part) && part.id === "" ? { ...part, id: `call_${run.steps.count}_${index}` } : part
  )
  const calls = parts.filter(isCall)
  const original: ParsedResponse = {
    text: readText(parts),
    toolCalls: calls.map(({ id, name, params }) => ({ id, name, params }))
  }
  const {
    by: changedBy = "",
    control,
    fields
  } = yield* lifecycle.run(
    "afterModel",
    run,
    (facts, { messages = run.conversation.messages, parsedResponse = original }): AfterModelInput =>
      withMessages(messages, {
        run: facts,
        originalResponse: original.text,
        parsedResponse: Frozen.copy(parsedResponse),
        modelResponse: Frozen.makeView(response),
        currentIteration: run.steps.count - 1,
        maxIterations: run.budget.iterations,
        usage: run.budget.usage
      })
  )
  const direction = control?.result._tag === "GoToTools" ? undefined : control
  const parsed = applyControl(run, fields.parsedResponse ?? original, control)
  const by = direction?.by ?? changedBy
  const kept = new Map(parsed.toolCalls.map((call) => [call.id, call]))
  const known = new Set(run.conversation.messages)
  return {
    parts: withParsed(parts, calls, parsed, makePart),
    removed: new Set(calls.flatMap(({ id }) => (kept.has(id) ? [] : [id]))),
    by,
    edited: new Map(
      calls.flatMap(({ id, params }): ReadonlyArray<readonly [string, unknown]> => {
        const call = kept.get(id)
        return call === undefined || JSON.stringify(call.params) === JSON.stringify(params) ? [] : [[id, call.params]]
      })
    ),
    added: (fields.messages ?? []).filter((message) => !known.has(message) && message.role !== "system"),
    forceContinue: fields.forceContinue === true,
    direction
  }
})
