/**
 * One call on one route: attempts until one is answered, or until nothing that could be done on this route is left.
 *
 * **Details**
 *
 * After each failure the decision's recoveries are tried in their order (`Recovery`); the first one that is possible is
 * done and the attempt repeated. What does not wait costs no attempt. An answer that broke off is made again, or its rest
 * is asked for (`PartialAnswer`).
 *
 * Everything that a user would notice is an event: waits, another key, another connection, a call in another form. Waits
 * are sleeps: an interruption ends them at once.
 *
 * Source: `hermes-llm.md` §15.5, §16.5, §17.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Attempt from "./Attempt.ts"
import type * as Classification from "./Classification.ts"
import * as WrongAddress from "./classification/WrongAddress.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import * as RouteCallState from "./RouteCallState.ts"
import * as RouteRecovery from "./RouteRecovery.ts"

/** Result of a call on one route. A failure carries its decision upwards. */
export type Outcome =
  | { readonly _tag: "Answered"; readonly answer: ModelAnswer; readonly decision?: undefined }
  /** This route cannot answer; another one may. */
  | { readonly _tag: "NextRoute" } & Classification.Failure
  /** No route is to be asked. */
  | { readonly _tag: "GivenUp" } & Classification.Failure

/** Returns the failure of a provider; any other failure is the attempt's own, and ends the call. */
const ofProvider = <E>(error: AiError.AiError | E): Effect.Effect<AiError.AiError, E> =>
  AiError.isAiError(error) ? Effect.succeed(error) : Effect.fail(error)

/** Discards what had streamed by in attempts that came to nothing: it belongs to no answer. */
const discard = ({ log, question }: RouteCallState.RouteCallState): Effect.Effect<void> => {
  if (log.isDirty !== true) return Effect.void
  log.isDirty = false
  return question.discard ?? Effect.void
}

/**
 * Keeps what was read of an answer that broke off, or marks what streamed by as discarded. False when the rest has been
 * asked for often enough on this route.
 */
const brokeOff = Effect.fnUntraced(function*(
  state: RouteCallState.RouteCallState,
  { reason }: Classification.Decision
): Effect.fn.Return<boolean> {
  const { anything, text } = PartialAnswer.of(state.progress?.parts ?? [])
  if (!anything) return true
  const { delivered } = state.question
  const isRead = text !== "" && delivered?.isRead() === true
  if (isRead) delivered.keep(text)
  else state.log.isDirty = true
  const mayGoOn = !isRead || ++state.continuations <= state.shared.streamRetries
  const next = isRead ? "asking for the rest" : "asking again"
  yield* RouteCallState.tell(state, {
    _tag: "Notice",
    level: "warning",
    message: `${ManagedRoute.name(state.route)}: the answer broke off (${reason})${mayGoOn ? `: ${next}` : ""}`
  })
  return mayGoOn
})

/** Takes over what earlier runs learnt of the endpoint. */
const recall = ({ endpoints }: RouteCallState.Shared, route: ManagedRoute.ManagedRoute): Effect.Effect<void> => {
  if (route.recalled || endpoints === undefined) return Effect.void
  route.recalled = true
  return Effect.map(endpoints.parameters(route.id), (changes) => {
    for (const [name, to] of changes) route.parameters.set(name, to)
  })
}

const attempts = Effect.fnUntraced(function*<E>(state: RouteCallState.RouteCallState): Effect.fn.Return<Outcome, E> {
  const { hasNext, route, shared } = state
  const attempt = (provider: Provider) => Attempt.run<E>(state, provider)
  yield* RouteCallState.takeLease(state)
  for (;;) {
    const limited = yield* RateLimitGate.pass(state)
    if (limited !== undefined) {
      return { _tag: "NextRoute", error: limited, decision: RouteCallState.decisionOf(state, limited) }
    }
    yield* discard(state)
    state.progress = undefined
    const asked = route.provider === undefined ? shared.providers.use(route.routeWith(state.lease), attempt) : attempt(route.provider)
    const result = yield* Effect.catch(asked, ofProvider)
    if (!AiError.isAiError(result)) {
      yield* shared.catalogue.probing.succeeded(route.route)
      yield* RateLimitGate.answered(state)
      return { _tag: "Answered", answer: result }
    }
    const decision = RouteCallState.decisionOf(state, result)
    if (!(yield* brokeOff(state, decision))) {
      return { _tag: hasNext ? "NextRoute" : "GivenUp", error: result, decision }
    }
    const onward = yield* RouteRecovery.recover(state, { error: result, decision })
    RateLimitGate.release(state)
    if (onward === "again") continue
    const { status, wrongAddress } = decision
    const { provider } = route.info
    const error = wrongAddress === undefined ? result : WrongAddress.explain(result, wrongAddress, { provider, status })
    return { _tag: onward === "next route" ? "NextRoute" : "GivenUp", error, decision }
  }
})

/** Makes a call on a route. */
export const run = Effect.fnUntraced(function*<E>(
  call: RouteCallState.Call,
  route: ManagedRoute.ManagedRoute,
  position: RouteCallState.Position
): Effect.fn.Return<Outcome, E> {
  const { catalogue } = call.shared
  const startedAt = yield* Clock.currentTimeMillis
  yield* recall(call.shared, route)
  const known = yield* catalogue.known(route.route)
  const state = RouteCallState.make(call, position, route, known, startedAt)
  const close = Effect.sync(() => {
    RateLimitGate.release(state)
    RouteCallState.giveBack(state)
  })
  return yield* Effect.ensuring(attempts<E>(state), close)
})
