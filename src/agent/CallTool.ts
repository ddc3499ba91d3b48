/**
 * One tool call that no model made: it goes the way of those that a model makes, through hooks, middleware, fences and
 * approvals, and its result is given back instead of stored.
 *
 * Source: `hermes-contract.md` §3.5 (`dispatch_tool`); other than there, nothing is bypassed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Ids from "../domain/Ids.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import { Hooks } from "../hooks/Hooks.ts"
import * as Bounds from "../tool/Bounds.ts"
import * as LoopGuard from "../tool/calls/LoopGuard.ts"
import * as ToolCalls from "../tool/ToolCalls.ts"
import { ToolContext } from "../tool/ToolContext.ts"
import { everything } from "../tool/ToolRegistry.ts"
import { workingDirectory } from "./internal/workingDirectory.ts"
import type { Services } from "./Services.ts"

/** See the module. */
export interface Call {
  readonly name: string
  readonly args: unknown
  /** The session that it is made for; one of its own when absent. Nothing is stored in it. */
  readonly sessionId?: string | undefined
  /** Absolute; the agent's when absent. */
  readonly cwd?: string | undefined
}

/** What it gave. */
export interface Outcome {
  readonly output: unknown
  readonly isFailure: boolean
}

const unknown = (name: string, names: ReadonlyArray<string>): Outcome => ({
  output: JSON.stringify({ error: `there is no tool ${name}; there are ${names.join(", ")}` }),
  isFailure: true
})

/** See the module. */
export const callTool = Effect.fn("Agent.callTool")(function*<E>(
  { approvals, interceptors, registry, settings }: Services<E>,
  { args, cwd, name, sessionId: wanted }: Call
): Effect.fn.Return<Outcome> {
  const tools = yield* registry.snapshot(settings.tools ?? everything)
  if (tools.get(name) === undefined) return unknown(name, tools.names)
  const sessionId = wanted === undefined ? yield* Ids.makeSessionId : Ids.SessionId.make(wanted)
  const taskId = Ids.TaskId.make(sessionId)
  const turnId = yield* Ids.makeTurnId(sessionId, taskId)
  const id = `call_${yield* Ids.hex(12)}`
  const { messages } = yield* ToolCalls.run({
    calls: [Prompt.toolCallPart({ id, name, params: args, providerExecuted: false })],
    tools,
    interceptors,
    guard: LoopGuard.make(settings.loopGuard ?? LoopGuard.defaults),
    approvals,
    limits: settings.resultLimits ?? Bounds.defaultLimits,
    messages: [],
    ids: { sessionId, taskId, turnId, apiRequestId: makeApiRequestId(turnId, 0, 0) },
    emit: undefined,
    begin: () => Effect.void,
    settled: () => Effect.void
  }).pipe(
    Effect.provideService(Hooks, interceptors.hooks),
    Effect.provideService(ToolContext, { sessionId, taskId, turnId, cwd: cwd ?? settings.cwd ?? workingDirectory() })
  )
  const part = messages[0]?.content.find((part) => part.type === "tool-result")
  return part === undefined
    ? { output: JSON.stringify({ error: "the call gave no result" }), isFailure: true }
    : { output: part.result, isFailure: part.isFailure }
})
