/**
 * What happens to a tool call before it may run, in model order: the tool is looked up, the arguments are checked to be an
 * object, and `tool_request` middleware may rewrite them. Whatever stops a call here is its result.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.3–13.4.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import { ExecutionBlocked } from "../domain/AgentError.ts"
import * as Json from "../domain/Json.ts"
import type { ToolStatus } from "../domain/RunEvent.ts"
import type { CallIds, ToolArguments, TraceEntry } from "../middleware/Kind.ts"
import * as Pipeline from "../middleware/Pipeline.ts"
import type { Stack } from "../middleware/Stack.ts"
import type { Snapshot } from "./ToolRegistry.ts"
import type { BoundTool } from "./Toolset.ts"

/** A call that is closed without having run, and what the model is told. */
export interface Refused {
  readonly _tag: "Refused"
  readonly call: Prompt.ToolCallPart
  readonly status: ToolStatus
  readonly output: string
}

/** A call that may run. */
export interface Ready {
  readonly _tag: "Ready"
  readonly call: Prompt.ToolCallPart
  readonly bound: BoundTool
  readonly args: ToolArguments
  /** What the model sent. */
  readonly originalArgs: ToolArguments
  readonly trace: ReadonlyArray<TraceEntry>
}

/** See the module. */
export type Prepared = Refused | Ready

const refused = (call: Prompt.ToolCallPart, status: ToolStatus, output: string): Refused => ({
  _tag: "Refused",
  call,
  status,
  output
})

/** A JSON object, as opposed to a list or a text that is no JSON. */
const isArguments = (value: unknown): value is ToolArguments => Predicate.isObject(value) && !Array.isArray(value)

/** The tool and its arguments, as the model named them. */
export const resolve = (call: Prompt.ToolCallPart, tools: Snapshot): Prepared => {
  const bound = tools.get(call.name)
  if (bound === undefined) {
    const available = tools.names.length === 0 ? "none" : tools.names.toSorted().join(", ")
    return refused(call, "error", `Tool '${call.name}' does not exist. Available tools: ${available}`)
  }
  if (!isArguments(call.params)) {
    return refused(
      call,
      "error",
      `The arguments of '${call.name}' are not a JSON object: ${Json.toText(call.params).slice(0, 200)}. ` +
        "Call it again with valid JSON; use {} for a tool without parameters."
    )
  }
  return { _tag: "Ready", call, bound, args: call.params, originalArgs: call.params, trace: [] }
}

const rewrite = (stack: Stack, ids: CallIds, ready: Ready): Effect.Effect<Prepared, never, unknown> =>
  Pipeline.run(stack.toolRequest, stack.faults, ready.args, (trace) => ({
    ...ids,
    toolName: ready.call.name,
    toolCallId: ready.call.id,
    originalArgs: ready.originalArgs,
    trace
  })).pipe(
    Effect.map(({ payload, trace }): Prepared => ({ ...ready, args: payload, trace })),
    Effect.catch((error) =>
      Effect.succeed(refused(
        ready.call,
        error instanceof ExecutionBlocked ? "blocked" : "error",
        JSON.stringify({ error: error.message })
      ))
    )
  )

/** See the module. */
export const prepare = (
  stack: Stack,
  ids: CallIds,
  call: Prompt.ToolCallPart,
  tools: Snapshot
): Effect.Effect<Prepared, never, unknown> => {
  const prepared = resolve(call, tools)
  return prepared._tag === "Refused" || stack.toolRequest.length === 0
    ? Effect.succeed(prepared)
    : rewrite(stack, ids, prepared)
}
