/**
 * A whole model call: `wrap_model_call` around the router's attempts.
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ExecuteOptions } from "../domain/Model.ts"
import * as Chain from "../middleware/Chain.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { ModelAnswer, ModelCallParams } from "../middleware/Middleware.ts"
import * as Attempt from "./Attempt.ts"
import type { Service as ModelRouter } from "./ModelRouter.ts"

const join = Chain.joinOnPart<ModelCallParams, ModelAnswer>({
  get: (answer) => answer.response,
  set: (answer, response) => ({ ...answer, response })
})

/** See the module; `E` as in `Attempt.run`. */
export const run = <E>(
  router: ModelRouter,
  interceptors: Interceptors,
  question: Attempt.Question
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const route = (params: ModelCallParams, options: ExecuteOptions | undefined) =>
    router.call((at) => Attempt.run<E>(interceptors, at, { ...question, call: params.call, options }), params.route)
  const { stack } = interceptors
  const params: ModelCallParams = { call: question.call, route: undefined }
  return stack.wrapModelCall.length === 0
    ? route(params, question.options)
    // As in `Attempt.run`: the chain erases what the stack's maker states.
    : Chain.run(stack.wrapModelCall, join, stack.faults, question.context, route)(
      params,
      question.options
    ) as Effect.Effect<ModelAnswer, AiError.AiError | E>
}
