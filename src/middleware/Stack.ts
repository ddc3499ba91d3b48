/**
 * The single ordered middleware stack of a runtime: plugins outermost, in load order, then the application's list. The
 * stack is compiled once. A kind without registered middleware adds no cost, not even a function call.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import type { ConfigError } from "../base/domain/AgentError.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../base/domain/ModelCall.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import * as Faults from "./Faults.ts"
import type { SurroundingServices, Wrapper } from "./MiddlewareBoundary.ts"
import * as LifecycleStack from "./LifecycleStack.ts"
import type { LlmContext, ToolArguments, ToolCallContext } from "./Kind.ts"
import type { Any, CallContext, ModelAnswer, ModelCallParams } from "./Middleware.ts"
import type { Rewriter } from "./Pipeline.ts"
import * as StateKey from "./StateKey.ts"

/** Entries by kind, in order. */
export interface Stack {
  readonly llmRequest: ReadonlyArray<Rewriter<ModelRequest, LlmContext>>
  readonly toolRequest: ReadonlyArray<Rewriter<ToolArguments, ToolCallContext>>
  readonly llmExecution: ReadonlyArray<Wrapper<ModelRequest, ExecuteOptions, ModelResponse, LlmContext>>
  readonly toolExecution: ReadonlyArray<Wrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>>
  /** Services for provider calls and tool calls, provided outside all of their wrappers. */
  readonly llmServices: ReadonlyArray<SurroundingServices<LlmContext>>
  readonly toolServices: ReadonlyArray<SurroundingServices<ToolCallContext>>
  readonly wrapModelCall: ReadonlyArray<Wrapper<ModelCallParams, ExecuteOptions, ModelAnswer, CallContext>>
  readonly wrapToolCall: ReadonlyArray<Wrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>>
  /** Lifecycle middleware of the stack, `undefined` if it is absent. */
  readonly lifecycle: LifecycleStack.LifecycleStack | undefined
  readonly faults: Faults.Faults
  /** True if middleware traces the calls: the runtime then makes no spans of runs, model calls and tool calls. */
  readonly isTraced: boolean
}

/** Like {@link make}, but fails if two entries use the same key for different run state. */
export const makeChecked = (entries: ReadonlyArray<Any>): Effect.Effect<Stack, ConfigError> =>
  Effect.suspend(() => {
    const clash = StateKey.findConflict(entries.flatMap((entry) => (entry.kind === "lifecycle" ? [entry.run] : [])))
    return clash === undefined ? Effect.succeed(make(entries)) : Effect.fail(clash)
  })

const toSurroundings = <Req, Options, A, Info>({
  kind,
  name,
  services
}: Wrapper<Req, Options, A, Info>): ReadonlyArray<SurroundingServices<Info>> =>
  services === undefined ? [] : [{ kind, name, services }]

/** Compiles a list of middleware into one stack, by kind. */
export const make = (entries: ReadonlyArray<Any>): Stack => {
  const faults = Faults.make()
  const methods = entries.flatMap((entry) => (entry.kind === "lifecycle" ? [entry.run] : []))
  const lifecycle = LifecycleStack.make(methods, faults)
  const getLifecycle = () => lifecycle
  return {
    llmRequest: entries.flatMap((entry) => (entry.kind === "llm_request" ? [entry.run] : [])),
    toolRequest: entries.flatMap((entry) => (entry.kind === "tool_request" ? [entry.run] : [])),
    llmExecution: entries.flatMap((entry) =>
      entry.kind === "llm_execution" && entry.run.services === undefined ? [entry.run] : []
    ),
    toolExecution: entries.flatMap((entry) =>
      entry.kind === "tool_execution" && entry.run.services === undefined ? [entry.run] : []
    ),
    llmServices: entries.flatMap(({ kind, run }) => (kind === "llm_execution" ? toSurroundings(run) : [])),
    toolServices: entries.flatMap(({ kind, run }) => (kind === "tool_execution" ? toSurroundings(run) : [])),
    wrapModelCall: [
      ...entries.flatMap((entry) =>
        entry.kind === "wrap_model_call"
          ? [entry.run]
          : entry.kind === "lifecycle"
            ? LifecycleStack.makeLifecycleWrapper<ModelCallParams, ExecuteOptions, ModelAnswer, CallContext>(
                getLifecycle,
                entry.run,
                "wrapModelCall"
              )
            : []
      ),
      ...LifecycleStack.makeStreamWrapper(getLifecycle, methods)
    ],
    wrapToolCall: entries.flatMap((entry) =>
      entry.kind === "wrap_tool_call"
        ? [entry.run]
        : entry.kind === "lifecycle"
          ? LifecycleStack.makeLifecycleWrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>(
              getLifecycle,
              entry.run,
              "wrapToolCall"
            )
          : []
    ),
    lifecycle,
    faults,
    isTraced: entries.some(({ kind, run }) => kind === "llm_execution" && run.traces === true)
  }
}
