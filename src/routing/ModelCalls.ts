/**
 * A whole model call: `wrap_model_call` around the router's attempts.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ExecuteOptions } from "../domain/Model.ts"
import * as Chain from "../middleware/Chain.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { ModelAnswer, ModelCallParams } from "../middleware/Middleware.ts"
import { newLog, type Question, type Service as ModelRouter } from "./ModelRouter.ts"

const join = Chain.joinOnPart<ModelCallParams, ModelAnswer>({
  get: (answer) => answer.response,
  set: (answer, response) => ({ ...answer, response })
})

/** Runs the call through the wrappers and the router; `E` as in `ModelRouter.call`. */
export const run = <E>(
  router: ModelRouter,
  interceptors: Interceptors,
  question: Question
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const { context, discard, log = newLog(), notify } = question
  const begun = log.count
  const turn = { session: context.sessionId, turn: context.turnId }
  const ask = ({ call, route }: ModelCallParams, options: ExecuteOptions | undefined) => {
    log.route = route
    const asked = router.call<E>(interceptors, { ...question, call, route, options, log, turn })
    return discard === undefined || log.count === begun ? asked : Effect.andThen(discard, asked)
  }
  const { stack } = interceptors
  const params: ModelCallParams = { call: question.call, route: question.route }
  if (stack.wrapModelCall.length === 0) return ask(params, question.options)
  const known = { ...context, notify, primary: router.primaryRoute ?? router.primary }
  // The chain erases the types of its wrappers; the stack's maker states them as `E`.
  return Chain.run(stack.wrapModelCall, join, stack.faults, known, ask)(params, question.options) as Effect.Effect<
    ModelAnswer,
    AiError.AiError | E
  >
}
