/**
 * The batch of tool calls of one assistant message: prepared in model order, scheduled, run, and each closed with exactly
 * one result; the results come back in model order. A failed call is an error result for the model, never a failed run.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../domain/Conversation.ts"
import * as Json from "../domain/Json.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import { Correlation } from "../hooks/Correlation.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import { NestedCalls, type Run as NestedRun } from "./builtin/code/NestedCalls.ts"
import * as Execute from "./Execute.ts"
import * as Prepare from "./Prepare.ts"
import * as Schedule from "./Schedule.ts"
import { ToolContext } from "./ToolContext.ts"
import * as ToolEvents from "./ToolEvents.ts"

/** What a batch needs from the run that it belongs to. `E` is what `settled` can fail with. */
export interface Batch<E> extends Prepare.Given {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Told of every result as soon as it exists, in order of completion. */
  readonly settled: (call: Prompt.ToolCallPart, message: Prompt.ToolMessage) => Effect.Effect<void, E>
}

/** A batch that ran. */
export interface Completed {
  /** In model order. */
  readonly messages: ReadonlyArray<Prompt.ToolMessage>
  /** Why the run must end, if a guard says so. */
  readonly halted: string | undefined
  /** Whether no call could even be tried. */
  readonly allInvalid: boolean
}

/** How one call came out. */
interface Result {
  readonly message: Prompt.ToolMessage
  readonly halted?: string | undefined
}

const close = Effect.fnUntraced(function*<E>(
  batch: Batch<E>,
  call: Prompt.ToolCallPart,
  settlement: Omit<Execute.Settlement, "args">,
  durationMillis: number
) {
  const { output, status } = settlement
  const message = Conversation.toolResult(call, settlement)
  yield* batch.settled(call, message)
  if (batch.emit !== undefined) {
    yield* batch.emit([{ _tag: "ToolFinished", callId: call.id, name: call.name, status, output, durationMillis }])
  }
  return message
})

/** Tells the listeners how a call ended, and gives the result as they want the model to see it. */
const observe = (
  { hooks }: Interceptors,
  { announced, context }: Prepare.Ready,
  { args, blockedBy, output, status }: Execute.Settlement,
  durationMillis: number
): Effect.Effect<string> => {
  if (!hooks.has("post_tool_call") && !hooks.has("transform_tool_result")) return Effect.succeed(output)
  const end: ToolEvents.Ended = {
    args,
    result: output,
    durationMillis,
    outcome: ToolEvents.outcome(status, output, blockedBy)
  }
  const closed = ToolEvents.close(announced, context, end)
  return status === "blocked"
    ? Effect.as(closed, output)
    : Effect.andThen(closed, ToolEvents.transform(hooks, context, end))
}

const watched = ({ guard }: Pick<Batch<unknown>, "guard">, ready: Prepare.Ready, settlement: Execute.Settlement) =>
  guard.after({
    name: ready.call.name,
    args: settlement.args,
    output: settlement.output,
    isFailure: settlement.isFailure,
    idempotent: Prepare.isIdempotent(ready.bound)
  })

const runReady = Effect.fnUntraced(function*<E>(batch: Batch<E>, ready: Prepare.Ready): Effect.fn.Return<Result, E, ToolContext> {
  const { approvals, emit, interceptors } = batch
  const { args, call } = ready
  const started = yield* Clock.currentTimeMillis
  if (emit !== undefined) {
    yield* emit([{ _tag: "ToolStarted", callId: call.id, name: call.name, params: args }])
  }
  const onProgress = emit === undefined
    ? undefined
    : (output: unknown) =>
      emit([{ _tag: "ToolProgress", callId: call.id, name: call.name, text: Json.toText(output) }])
  const settlement = yield* Effect.provideService(
    Execute.execute(interceptors.stack, approvals, ready, onProgress),
    Correlation,
    ToolEvents.correlation(ready.context)
  )
  const durationMillis = (yield* Clock.currentTimeMillis) - started
  const observed = yield* observe(interceptors, ready, settlement, durationMillis)
  const verdict = watched(batch, ready, settlement)
  const output = verdict._tag === "Fine" ? observed : `${observed}\n\n[${verdict.message}]`
  const message = yield* close(
    batch,
    call,
    output === settlement.output ? settlement : { ...settlement, output },
    durationMillis
  )
  return { message, halted: verdict._tag === "Halt" ? verdict.message : undefined }
})

const complete = <E>(batch: Batch<E>, prepared: Prepare.Prepared): Effect.Effect<Result, E, ToolContext> =>
  prepared._tag === "Ready"
    ? runReady(batch, prepared)
    : Effect.map(
      close(batch, prepared.call, { ...prepared, isFailure: true, modelOutput: undefined, blockedBy: undefined }, 0),
      (message) => ({ message, halted: prepared.halted })
    )

const scheduled = Effect.fnUntraced(function*<E>(
  batch: Batch<E>,
  entries: ReadonlyArray<Prepare.Prepared>
): Effect.fn.Return<ReadonlyArray<Result>, E, ToolContext> {
  const { cwd } = yield* ToolContext
  const candidates = entries.flatMap((entry) =>
    entry._tag === "Ready" ? [{ name: entry.call.name, facts: entry.bound.facts, params: entry.args }] : []
  )
  const { mode, reason } = Schedule.decide(candidates, cwd)
  yield* Effect.logTrace(`${entries.length} tool calls run ${mode}: ${reason}`)
  return yield* Effect.forEach(entries, (entry) => complete(batch, entry), {
    concurrency: mode === "parallel" ? Schedule.maxConcurrency : 1
  })
})

const runAll = Effect.fnUntraced(function*<E>(
  batch: Batch<E>
): Effect.fn.Return<Completed, E, ToolContext | Scope.Scope> {
  const entries: Array<Prepare.Prepared> = []
  for (const call of batch.calls) {
    entries.push(yield* Prepare.prepare(batch, call))
  }
  const only = entries.length === 1 ? entries[0] : undefined
  const results = only === undefined ? yield* scheduled(batch, entries) : [yield* complete(batch, only)]
  return {
    messages: results.map(({ message }) => message),
    halted: results.find(({ halted }) => halted !== undefined)?.halted,
    allInvalid: entries.every((entry) => entry._tag === "Refused" && entry.status === "error")
  }
})

/** Runs a batch. Interruption interrupts every call that still runs; a call that was announced is closed on every path. */
export const run = <E>(batch: Batch<E>): Effect.Effect<Completed, E, ToolContext> =>
  Effect.provideService(Effect.scoped(runAll(batch)), NestedCalls, nested(batch))

/** Calls that a tool of the batch makes: run as those of the batch are, and told to nobody as results of the model's. */
const nested = <E>(batch: Batch<E>): NestedRun => (call) =>
  Effect.map(run({ ...batch, calls: [call], settled: () => Effect.void }), ({ messages }) => {
    const part = messages[0]?.content.find((part) => part.type === "tool-result")
    return part === undefined
      ? { output: { error: "the call gave no result" }, isFailure: true }
      : { output: part.result, isFailure: part.isFailure }
  })
