/**
 * One call on one lane: attempts until one is answered, or until nothing that could be done on this lane is left.
 *
 * **Details**
 *
 * After each failure the decision's recoveries are tried in their order (`Recovery`); the first one that is possible is
 * done and the attempt repeated. What does not wait costs no attempt. An answer that broke off is made again, or its rest
 * is asked for (`PartialAnswer`).
 *
 * Everything that a user would notice is told as an event: waits, another key, another connection, a call in another form.
 * Waits are sleeps: an interruption ends them at once.
 *
 * Source: `hermes-llm.md` §15.5, §16.5, §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as History from "../domain/History.ts"
import type { ModelResponse, OnHeaders } from "../domain/Model.ts"
import * as Route from "../domain/Route.ts"
import * as Usage from "../domain/Usage.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Adaptation from "./Adaptation.ts"
import * as CallSize from "./CallSize.ts"
import type { Known } from "./Catalogue.ts"
import * as Classification from "./Classification.ts"
import * as Parameters from "./classification/Parameters.ts"
import * as WrongAddress from "./classification/WrongAddress.ts"
import * as RouteCallState from "./RouteCallState.ts"
import * as ManagedRoute from "./ManagedRoute.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import * as RouteRecovery from "./RouteRecovery.ts"
import type { About, Try } from "./ModelRouter.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** What a call came to. `decision` is why it failed. */
export type Outcome =
  | { readonly _tag: "Answered"; readonly answer: ModelAnswer; readonly decision: Classification.Decision | undefined }
  /** This lane can not; another one may. */
  | { readonly _tag: "Elsewhere"; readonly error: AiError.AiError; readonly decision: Classification.Decision }
  /** No lane is to be asked. */
  | { readonly _tag: "GivenUp"; readonly error: AiError.AiError; readonly decision: Classification.Decision }

/** The call, over all its lanes. */
export interface Call<E, R> {
  readonly attempt: (at: Try) => Effect.Effect<ModelResponse, AiError.AiError | E, R>
  readonly about: About
  /** Attempts so far. */
  count: number
  /** Whether pieces of an attempt had streamed by that came to nothing. */
  dirty: boolean
}

/** How one attempt failed, and what of it had streamed by. */
interface Broken {
  readonly error: AiError.AiError
  readonly shown: StreamTimeout.Watched["shown"]
}

/** What is not a provider's failure is the attempt's own, and ends the call. */
const onlyAi = <E>(error: AiError.AiError | E): Effect.Effect<AiError.AiError, E> =>
  AiError.isAiError(error) ? Effect.succeed(error) : Effect.fail(error)

const adapted = (provider: Provider, { lane, state }: RouteCallState.RouteCallState, contextWindow: number, delivered: string): Provider => {
  const { outputCap } = state
  const changes = new Set([...lane.changes, ...state.changes])
  const abilities = Route.abilities(provider.info)
  return {
    ...provider,
    prepare: (given) => {
      const call = Adaptation.apply(PartialAnswer.continuation(given, delivered), { changes, contextWindow, outputCap })
      const prepared = provider.prepare({ ...call, messages: History.sendable(call.messages, abilities) })
      return Effect.map(prepared, (request) => state.request = Parameters.apply(request, lane.parameters))
    }
  }
}

const attempt = <E, R>(
  here: RouteCallState.RouteCallState,
  call: Call<E, R>,
  { cost, window }: Known,
  facts: () => Classification.Facts,
  provider: Provider
): Effect.Effect<ModelAnswer | Broken, E, R> => {
  const { about, lane, shared } = here
  const { notify } = about
  const onHeaders: OnHeaders = (get) => RateLimitGate.told(here, get)
  const watched = StreamTimeout.attempt(provider, { patience: lane.patience, notify, call: about.call, onHeaders })
  const number = call.count++
  const delivered = about.delivered?.text() ?? ""
  return call.attempt({
    provider: adapted(watched.provider, here, window.tokens, delivered),
    retryCount: number,
    maxRetries: shared.maxAttempts,
    within: watched.within,
    facts,
    cost
  }).pipe(Effect.matchEffect({
    onSuccess: (response) =>
      Effect.succeed({
        response: PartialAnswer.joined(response, delivered),
        route: provider.info,
        attempt: number,
        cost: cost(Usage.fromResponse(response.usage), response.reportedCost)
      }),
    onFailure: (error) => Effect.map(onlyAi(error), (error) => ({ error, shown: watched.shown }))
  }))
}

/** What had streamed by in attempts that came to nothing belongs to no answer. */
const discard = <E, R>(call: Call<E, R>): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (!call.dirty) return Effect.void
    call.dirty = false
    return call.about.discard ?? Effect.void
  })

/**
 * Keeps what was read of an answer that broke off, or marks what streamed by as discarded. False when the rest has been
 * asked for often enough on this lane.
 */
const brokeOff = Effect.fnUntraced(function*<E, R>(
  here: RouteCallState.RouteCallState,
  call: Call<E, R>,
  { shown }: Broken,
  { reason }: Classification.Decision
): Effect.fn.Return<boolean> {
  const { anything, text } = PartialAnswer.of(shown)
  if (!anything) return true
  const { delivered } = here.about
  const isRead = text !== "" && delivered?.isRead() === true
  if (isRead) delivered.keep(text)
  else call.dirty = true
  const mayGoOn = !isRead || ++here.state.continuations <= here.shared.streamRetries
  const next = isRead ? "asking for the rest" : "asking again"
  yield* RouteCallState.tell(here, {
    _tag: "Notice",
    level: "warning",
    message: `${ManagedRoute.name(here.lane)}: the answer broke off (${reason})${mayGoOn ? `: ${next}` : ""}`
  })
  return mayGoOn
})

/** Takes over what earlier runs learnt of the endpoint. */
const recall = ({ endpoints }: RouteCallState.Shared, lane: ManagedRoute.ManagedRoute): Effect.Effect<void> => {
  if (lane.recalled || endpoints === undefined) return Effect.void
  lane.recalled = true
  return Effect.map(endpoints.parameters(lane.id), (changes) => {
    for (const [name, to] of changes) lane.parameters.set(name, to)
  })
}

/** See the module. */
export const run = <E, R>(
  shared: RouteCallState.Shared,
  lane: ManagedRoute.ManagedRoute,
  call: Call<E, R>,
  manner: RouteCallState.Manner
): Effect.Effect<Outcome, E, R> => {
  const loop = Effect.fnUntraced(function*(here: RouteCallState.RouteCallState): Effect.fn.Return<Outcome, E, R> {
    const { state } = here
    yield* recall(shared, lane)
    const known = yield* shared.catalogue.known(lane.route)
    const facts = (): Classification.Facts => CallSize.facts(call.about.call, known.window.tokens)
    const ask = (provider: Provider) => attempt(here, call, known, facts, provider)
    yield* RouteCallState.takeLease(here)
    for (;;) {
      const limited = yield* RateLimitGate.pass(here)
      if (limited !== undefined) {
        return { _tag: "Elsewhere", error: limited, decision: Classification.classify(limited) }
      }
      yield* discard(call)
      const asked = lane.provider === undefined ? shared.providers.use(lane.routeWith(state.lease), ask) : ask(lane.provider)
      const result = yield* asked.pipe(
        // A provider that can not be opened.
        Effect.catch((error) => Effect.map(onlyAi(error), (error): Broken => ({ error, shown: [] })))
      )
      if ("response" in result) {
        yield* shared.catalogue.probing.succeeded(lane.route)
        yield* RateLimitGate.answered(here)
        return { _tag: "Answered", answer: result, decision: undefined }
      }
      const { error } = result
      const decision = Classification.classify(error, facts())
      if (!(yield* brokeOff(here, call, result, decision))) {
        return { _tag: manner.hasNext ? "Elsewhere" : "GivenUp", error, decision }
      }
      const onward = yield* RouteRecovery.recover(here, { error, decision })
      RateLimitGate.release(here)
      if (onward === "again") continue
      const { status, wrongAddress } = decision
      const { provider } = lane.info
      const told = wrongAddress === undefined ? error : WrongAddress.explain(error, wrongAddress, { provider, status })
      return { _tag: onward === "elsewhere" ? "Elsewhere" : "GivenUp", error: told, decision }
    }
  })
  return Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const here: RouteCallState.RouteCallState = { shared, lane, about: call.about, manner, state: RouteCallState.fresh(now) }
    const close = (): void => {
      RateLimitGate.release(here)
      RouteCallState.giveBack(here)
    }
    return Effect.ensuring(loop(here), Effect.sync(close))
  })
}
