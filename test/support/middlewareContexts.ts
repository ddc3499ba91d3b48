// Contexts and runners for middleware outside of an agent.
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Ids from "../../src/base/domain/Ids.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../../src/base/domain/ModelCall.ts"
import type { ToolOutput } from "../../src/base/domain/ToolOutput.ts"
import * as Chain from "../../src/middleware/Chain.ts"
import type { LlmContext, ToolArguments, ToolCallContext, TraceEntry } from "../../src/middleware/Kind.ts"
import type * as Middleware from "../../src/middleware/Middleware.ts"
import * as Pipeline from "../../src/middleware/Pipeline.ts"
import * as ResultContract from "../../src/middleware/ResultContract.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import { textAnswer } from "./fakeModel.ts"

export const ids = {
  sessionId: Ids.SessionId.make("s"),
  taskId: Ids.TaskId.make("t"),
  turnId: Ids.TurnId.make("u"),
  apiRequestId: Ids.ApiRequestId.make("a")
}

export const toolContext = (originalArgs: ToolArguments, trace: ReadonlyArray<TraceEntry> = []): ToolCallContext => ({
  ...ids,
  toolName: "terminal",
  toolCallId: Ids.ToolCallId.make("c"),
  annotations: {},
  originalArgs,
  trace
})

export const llmContext = (originalRequest: ModelRequest, trace: ReadonlyArray<TraceEntry> = []): LlmContext => ({
  ...ids,
  platform: "cli",
  provider: "fake",
  model: "fake-1",
  baseUrl: undefined,
  apiMode: "chat_completions",
  apiCallCount: 1,
  retryCount: 0,
  originalRequest,
  trace,
  decode: (raw) => Effect.succeed(textAnswer(`decoded ${JSON.stringify(raw)}`))
})

export const output = (text: unknown): ToolOutput => ({ output: text, isFailure: false })

/** Calls whose values are of any kind. */
export const anyCalls = {
  join: Chain.toolCalls.join,
  contract: { expected: "any value", isResult: (_value: unknown): _value is never => true }
}

/** Runs arguments through the `tool_execution` entries to a base operation. */
export const runTools = (
  entries: ReadonlyArray<Middleware.Any>,
  args: ToolArguments,
  base: (args: ToolArguments) => Effect.Effect<ToolOutput, unknown>,
  originalArgs: ToolArguments = args
): Effect.Effect<ToolOutput, unknown> => {
  const stack = Stack.make(entries)
  // The chain erases what its wrappers need; those of the tests need nothing.
  return Chain.run(
    stack.toolExecution,
    Chain.toolCalls,
    stack.faults,
    toolContext(originalArgs),
    base
  )(args, undefined) as Effect.Effect<ToolOutput, unknown>
}

/** Runs a request through the `llm_execution` entries to a base operation. */
export const runModel = (
  entries: ReadonlyArray<Middleware.Any>,
  request: ModelRequest,
  base: (request: ModelRequest, options: ExecuteOptions | undefined) => Effect.Effect<ModelResponse, unknown>,
  options?: ExecuteOptions,
  context: LlmContext = llmContext(request)
): Effect.Effect<ModelResponse, unknown> => {
  const stack = Stack.make(entries)
  const shape = {
    join: Chain.joinOnPart<ModelRequest, ModelResponse>({
      get: (response) => response,
      set: (_, response) => response
    }),
    contract: ResultContract.response
  }
  // As above.
  return Chain.run(stack.llmExecution, shape, stack.faults, context, base)(request, options) as Effect.Effect<
    ModelResponse,
    unknown
  >
}

/** Runs a request through the `llm_request` entries. */
export const rewriteRequest = (entries: ReadonlyArray<Middleware.Any>, request: ModelRequest) => {
  const stack = Stack.make(entries)
  // As above.
  return Pipeline.run(stack.llmRequest, stack.faults, request, (trace) => llmContext(request, trace)) as Effect.Effect<
    Pipeline.Outcome<ModelRequest>,
    unknown
  >
}

/** Runs arguments through the `tool_request` entries. */
export const rewriteArgs = (entries: ReadonlyArray<Middleware.Any>, args: ToolArguments) => {
  const stack = Stack.make(entries)
  // As above.
  return Pipeline.run(stack.toolRequest, stack.faults, args, (trace) => toolContext(args, trace)) as Effect.Effect<
    Pipeline.Outcome<ToolArguments>,
    unknown
  >
}

/** An Effect with the warnings that were logged while it ran. */
export const withWarnings = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<{ readonly value: A; readonly warnings: ReadonlyArray<string> }, E, R> =>
  Effect.suspend(() => {
    const warnings: Array<string> = []
    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      if (logLevel === "Warn") warnings.push(String(message))
    })
    return Effect.map(Effect.provide(effect, Logger.layer([logger])), (value) => ({ value, warnings }))
  })
