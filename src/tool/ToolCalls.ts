/**
 * The batch of tool calls of one assistant message: resolved, scheduled, run, and each closed with exactly one result,
 * in model order. A failed call is an error result for the model, never a failed run.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../domain/Conversation.ts"
import * as Json from "../domain/Json.ts"
import type { RunEvent, ToolStatus } from "../domain/RunEvent.ts"
import type { ToolOutput } from "../domain/ToolOutput.ts"
import * as Schedule from "./Schedule.ts"
import { ToolContext } from "./ToolContext.ts"
import type { Snapshot } from "./ToolRegistry.ts"
import type { BoundTool } from "./Toolset.ts"

/** What a batch needs from the run that it belongs to. `E` is what `settled` can fail with. */
export interface Batch<E> {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly tools: Snapshot
  readonly emit: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Told of every result as soon as it exists, in order of completion. */
  readonly settled: (call: Prompt.ToolCallPart, message: Prompt.ToolMessage) => Effect.Effect<void, E>
}

/** A call that can not be run, and what the model is told. */
interface Refused {
  readonly call: Prompt.ToolCallPart
  readonly refusal: string
}

/** A call with the tool that it means. */
interface Resolved {
  readonly call: Prompt.ToolCallPart
  readonly bound: BoundTool
}

const resolve = (call: Prompt.ToolCallPart, tools: Snapshot): Refused | Resolved => {
  const bound = tools.get(call.name)
  if (bound === undefined) {
    const available = tools.names.length === 0 ? "none" : tools.names.toSorted().join(", ")
    return { call, refusal: `Tool '${call.name}' does not exist. Available tools: ${available}` }
  }
  if (!Predicate.isObject(call.params)) {
    return {
      call,
      refusal: `The arguments of '${call.name}' are not a JSON object: ${Json.toText(call.params).slice(0, 200)}. ` +
        "Call it again with valid JSON; use {} for a tool without parameters."
    }
  }
  return { call, bound }
}

const close = Effect.fnUntraced(function*<E>(
  batch: Batch<E>,
  call: Prompt.ToolCallPart,
  status: ToolStatus,
  output: Omit<ToolOutput, "output"> & { readonly output: string },
  durationMillis: number
) {
  const message = Conversation.toolResult(call, output)
  yield* batch.settled(call, message)
  if (batch.emit !== undefined) {
    yield* batch.emit([
      { _tag: "ToolFinished", callId: call.id, name: call.name, status, output: output.output, durationMillis }
    ])
  }
  return message
})

const refuse = <E>(batch: Batch<E>, { call, refusal }: Refused): Effect.Effect<Prompt.ToolMessage, E> =>
  close(batch, call, "error", { output: refusal, isFailure: true }, 0)

/** What the model is told of a call whose tool gave no result. */
const failureText = (call: Prompt.ToolCallPart, message: string): string =>
  JSON.stringify({ error: `Error executing tool '${call.name}': ${message}` })

const execute = Effect.fnUntraced(function*<E>(batch: Batch<E>, { call, bound }: Resolved) {
  const { emit } = batch
  const started = yield* Clock.currentTimeMillis
  if (emit !== undefined) {
    yield* emit([{ _tag: "ToolStarted", callId: call.id, name: call.name, params: call.params }])
  }
  const onProgress = emit === undefined
    ? undefined
    : (output: unknown) =>
      emit([{ _tag: "ToolProgress", callId: call.id, name: call.name, text: Json.toText(output) }])
  const result = yield* Effect.result(bound.run(call.params, call.id, onProgress))
  const durationMillis = (yield* Clock.currentTimeMillis) - started
  return yield* result._tag === "Success"
    ? close(
      batch,
      call,
      result.success.isFailure ? "error" : "ok",
      { ...result.success, output: Json.toText(result.success.output) },
      durationMillis
    )
    : close(
      batch,
      call,
      "error",
      { output: failureText(call, result.failure.message), isFailure: true },
      durationMillis
    )
})

const runOne = <E>(batch: Batch<E>, entry: Refused | Resolved): Effect.Effect<Prompt.ToolMessage, E, ToolContext> =>
  "refusal" in entry ? refuse(batch, entry) : execute(batch, entry)

/** Runs a batch; the messages come back in model order. Interruption interrupts every call that still runs. */
export const run = <E>(batch: Batch<E>): Effect.Effect<ReadonlyArray<Prompt.ToolMessage>, E, ToolContext> => {
  const entries = batch.calls.map((call) => resolve(call, batch.tools))
  const only = entries[0]
  if (only !== undefined && entries.length === 1) return Effect.map(runOne(batch, only), (message) => [message])
  return Effect.flatMap(ToolContext, ({ cwd }) => {
    const candidates = entries.flatMap((entry) =>
      "refusal" in entry ? [] : [{ name: entry.call.name, facts: entry.bound.facts, params: entry.call.params }]
    )
    const { mode } = Schedule.decide(candidates, cwd)
    return Effect.forEach(entries, (entry) => runOne(batch, entry), {
      concurrency: mode === "parallel" ? Schedule.maxConcurrency : 1
    })
  })
}
