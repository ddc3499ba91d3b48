/**
 * One tool call that may run: `wrap_tool_call` around `tool_execution` around the handler. It always ends in a settlement;
 * no failure of a tool or of its wrappers fails the run.
 *
 * Source: `ARCHITECTURE.md` §4 and §6, `hermes-contract.md` §2.9.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { ExecutionBlocked } from "../domain/AgentError.ts"
import * as Json from "../domain/Json.ts"
import type { ToolStatus } from "../domain/RunEvent.ts"
import type { ToolFailed, ToolOutput } from "../domain/ToolOutput.ts"
import * as Chain from "../middleware/Chain.ts"
import * as Faults from "../middleware/Faults.ts"
import type { CallIds, ToolArguments, ToolCallContext } from "../middleware/Kind.ts"
import type { Stack } from "../middleware/Stack.ts"
import type { Ready } from "./Prepare.ts"
import type { ToolContext } from "./ToolContext.ts"

/** How a call ended. `output` is the text that the model gets. */
export interface Settlement {
  readonly status: ToolStatus
  readonly output: string
  readonly isFailure: boolean
  readonly modelOutput: ToolOutput["modelOutput"]
}

const failed = (status: ToolStatus, error: string): Settlement => ({
  status,
  output: JSON.stringify({ error }),
  isFailure: true,
  modelOutput: undefined
})

const succeeded = (output: ToolOutput): Settlement => ({
  status: output.isFailure ? "error" : "ok",
  output: Json.toText(output.output),
  isFailure: output.isFailure,
  modelOutput: output.modelOutput
})

const settle = (tool: string, error: unknown): Settlement =>
  error instanceof ExecutionBlocked
    ? failed("blocked", error.reason)
    : failed("error", `Error executing tool '${tool}': ${Faults.describe(error)}`)

/** The handler inside its wrappers; types as in `Attempt.run`. */
const wrapped = (
  stack: Stack,
  ids: CallIds,
  { args, bound, call, originalArgs, trace }: Ready,
  onProgress: ((output: unknown) => Effect.Effect<void>) | undefined
): Effect.Effect<ToolOutput, unknown, unknown> => {
  const context: ToolCallContext = {
    ...ids,
    toolName: call.name,
    toolCallId: call.id,
    originalArgs,
    trace
  }
  const handler = (given: ToolArguments) => bound.run(given, call.id, onProgress)
  const inner = Chain.run(stack.toolExecution, Chain.joinNothing, stack.faults, context, handler)
  return Chain.run(stack.wrapToolCall, Chain.joinNothing, stack.faults, context, inner)(args, undefined)
}

/** See the module. */
export const execute = (
  stack: Stack,
  ids: CallIds,
  ready: Ready,
  onProgress: ((output: unknown) => Effect.Effect<void>) | undefined
): Effect.Effect<Settlement, never, ToolContext> => {
  const plain: Effect.Effect<ToolOutput, ToolFailed, ToolContext> | undefined =
    stack.toolExecution.length === 0 && stack.wrapToolCall.length === 0
      ? ready.bound.run(ready.args, ready.call.id, onProgress)
      : undefined
  // What wrappers need is provided where the stack was made.
  const run = plain ?? wrapped(stack, ids, ready, onProgress) as Effect.Effect<ToolOutput, unknown, ToolContext>
  return Effect.matchCauseEffect(run, {
    onSuccess: (output) => Effect.succeed(succeeded(output)),
    onFailure: (cause) =>
      Cause.hasInterrupts(cause)
        ? Effect.interrupt
        : Effect.succeed(settle(ready.call.name, Cause.squash(cause)))
  })
}
