/**
 * One attempt to get an answer: the request is prepared for the route that is really called, rewritten by `llm_request`
 * middleware, and executed through `llm_execution`. Auxiliary calls go through the same attempt.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-contract.md` §1.10.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../domain/Model.ts"
import * as Chain from "../middleware/Chain.ts"
import type { LlmContext, TraceEntry } from "../middleware/Kind.ts"
import type { CallContext } from "../middleware/Middleware.ts"
import * as Pipeline from "../middleware/Pipeline.ts"
import type { Stack } from "../middleware/Stack.ts"
import type { Try } from "./ModelRouter.ts"

/** A model call and where it belongs. */
export interface Question {
  readonly call: ModelCall
  readonly context: CallContext
  readonly options: ExecuteOptions | undefined
}

const join = Chain.joinOnPart<ModelRequest, ModelResponse>({
  get: (response) => response,
  set: (_, response) => response
})

const contextOf = (
  { provider, retryCount }: Try,
  { context }: Question,
  originalRequest: ModelRequest
): (trace: ReadonlyArray<TraceEntry>) => LlmContext => {
  const again = retryCount === 0 ? "" : `:${retryCount}`
  const base = {
    sessionId: context.sessionId,
    taskId: context.taskId,
    turnId: context.turnId,
    apiRequestId: `${context.turnId}:api:${context.apiCallCount}${again}`,
    platform: context.platform,
    provider: provider.info.provider,
    model: provider.info.model,
    baseUrl: provider.info.baseUrl,
    apiMode: provider.apiMode,
    apiCallCount: context.apiCallCount,
    retryCount,
    originalRequest,
    decode: provider.decode
  }
  return (trace) => ({ ...base, trace })
}

const wrapped = Effect.fnUntraced(function*(stack: Stack, at: Try, question: Question, prepared: ModelRequest) {
  const context = contextOf(at, question, prepared)
  const { payload, trace } = yield* Pipeline.run(stack.llmRequest, stack.faults, prepared, context)
  const execute = Chain.run(stack.llmExecution, join, stack.faults, context(trace), at.provider.execute)
  return yield* execute(payload, question.options)
})

/**
 * See the module. `E` is what the stack's wrappers add (`Middleware.Errors`); it is known where the stack was made, and
 * their requirements are provided there.
 */
export const run = <E>(
  stack: Stack,
  at: Try,
  question: Question
): Effect.Effect<ModelResponse, AiError.AiError | E> =>
  Effect.flatMap(at.provider.prepare(question.call), (prepared) =>
    stack.llmRequest.length === 0 && stack.llmExecution.length === 0
      ? at.provider.execute(prepared, question.options)
      // The chain erases the types of its wrappers; the stack's maker states them as `E`.
      : wrapped(stack, at, question, prepared) as Effect.Effect<ModelResponse, AiError.AiError | E>)
