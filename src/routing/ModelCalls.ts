/**
 * A whole model call: `wrap_model_call` around the router's attempts.
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
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
  const { context, deadline, delivered, discard, notify } = question
  const attempts = question.attempts ?? { count: 0, route: undefined }
  const begun = attempts.count
  const turn = { session: context.sessionId, turn: context.turnId }
  const route = (params: ModelCallParams, options: ExecuteOptions | undefined) => {
    const before = attempts.count
    attempts.route = params.route
    const call = router.call((at) => {
      attempts.count++
      return Attempt.run<E>(
        interceptors,
        before === 0 ? at : { ...at, retryCount: before + at.retryCount },
        { ...question, call: params.call, options }
      )
    }, params.route, { turn, call: params.call, notify, deadline, discard, delivered })
    if (before === 0) return call
    const again = Effect.map(call, (answer) => ({ ...answer, attempt: before + answer.attempt }))
    return discard === undefined || before === begun ? again : Effect.andThen(discard, again)
  }
  const { stack } = interceptors
  const params: ModelCallParams = { call: question.call, route: question.route }
  if (stack.wrapModelCall.length === 0) return route(params, question.options)
  const known = { ...context, notify, primary: router.primaryRoute ?? router.primary }
  // As in `Attempt.run`: the chain erases what the stack's maker states.
  return Chain.run(stack.wrapModelCall, join, stack.faults, known, route)(params, question.options) as Effect.Effect<
    ModelAnswer,
    AiError.AiError | E
  >
}
