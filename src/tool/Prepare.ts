/**
 * What happens to a tool call before it may run, in model order: the tool is looked up, the arguments are checked to be an
 * object, `tool_request` middleware may rewrite them, and `pre_tool_call` listeners may block the call. Whatever stops a
 * call here is its result.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §13.3–13.4.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import type * as Prompt from "effect/ai/Prompt"
import { ExecutionBlocked } from "../domain/AgentError.ts"
import { ToolCallId } from "../domain/Ids.ts"
import * as Json from "../domain/Json.ts"
import type { ToolStatus } from "../domain/RunEvent.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { CallIds, ToolArguments, ToolCallContext } from "../middleware/Kind.ts"
import * as Pipeline from "../middleware/Pipeline.ts"
import * as ToolEvents from "./ToolEvents.ts"
import type { Snapshot } from "./ToolRegistry.ts"
import type { BoundTool } from "./Toolset.ts"

/** A call that is closed without having run, and what the model is told. */
export interface Refused {
  readonly _tag: "Refused"
  readonly call: Prompt.ToolCallPart
  readonly status: ToolStatus
  readonly output: string
}

/** A call that may run, announced to the listeners. */
export interface Ready {
  readonly _tag: "Ready"
  readonly call: Prompt.ToolCallPart
  readonly bound: BoundTool
  readonly args: ToolArguments
  readonly context: ToolCallContext
  readonly announced: ToolEvents.Announced
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

const unknownTool = (call: Prompt.ToolCallPart, { names }: Snapshot): Refused => {
  const available = names.length === 0 ? "none" : names.toSorted().join(", ")
  return refused(call, "error", `Tool '${call.name}' does not exist. Available tools: ${available}`)
}

const malformed = (call: Prompt.ToolCallPart): Refused =>
  refused(
    call,
    "error",
    `The arguments of '${call.name}' are not a JSON object: ${Json.toText(call.params).slice(0, 200)}. ` +
      "Call it again with valid JSON; use {} for a tool without parameters."
  )

const noTrace: ToolCallContext["trace"] = []

const admit = Effect.fnUntraced(function*(
  { hooks, stack }: Interceptors,
  ids: CallIds,
  call: Prompt.ToolCallPart,
  bound: BoundTool,
  sent: ToolArguments
): Effect.fn.Return<Prepared, never, Scope.Scope | unknown> {
  const contextWith = (trace: ToolCallContext["trace"]): ToolCallContext => ({
    ...ids,
    toolName: call.name,
    toolCallId: ToolCallId.make(call.id),
    originalArgs: sent,
    trace
  })
  const rewritten = stack.toolRequest.length === 0
    ? { payload: sent, trace: noTrace }
    : yield* Effect.catch(Pipeline.run(stack.toolRequest, stack.faults, sent, contextWith), (error) =>
      Effect.succeed(
        refused(
          call,
          error instanceof ExecutionBlocked ? "blocked" : "error",
          JSON.stringify({ error: error.message })
        )
      ))
  if ("_tag" in rewritten) return rewritten
  const args = rewritten.payload
  const context = contextWith(rewritten.trace)
  const announced = yield* ToolEvents.announce(hooks, context, args)
  const refusal = ToolEvents.refusal(announced)
  if (refusal === undefined) return { _tag: "Ready", call, bound, args, context, announced }
  const { result, ...outcome } = refusal
  yield* ToolEvents.close(announced, context, { args, result, durationMillis: 0, outcome })
  return refused(call, "blocked", result)
})

/** See the module. */
export const prepare = (
  interceptors: Interceptors,
  ids: CallIds,
  call: Prompt.ToolCallPart,
  tools: Snapshot
): Effect.Effect<Prepared, never, Scope.Scope> => {
  const bound = tools.get(call.name)
  if (bound === undefined) return Effect.succeed(unknownTool(call, tools))
  return isArguments(call.params)
    // What `tool_request` middleware needs is provided where the stack was made.
    ? admit(interceptors, ids, call, bound, call.params) as Effect.Effect<Prepared, never, Scope.Scope>
    : Effect.succeed(malformed(call))
}
