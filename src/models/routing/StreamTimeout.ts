/**
 * Limits the silence of a provider during one attempt, reports long waits, and collects the streamed parts.
 *
 * **Details**
 *
 * Silence is measured from the start, and in a stream from the last part; the time that a reader needs to process a
 * part does not count. Each wrapper of the execution has a separate limit ({@link RoutePatience.wrapper}). An attempt
 * without a limit and without a heartbeat listener is not timed. The size of the request is computed only after the
 * shortest limit has passed.
 *
 * Limits grow with the request. Endpoints on the local machine or in the private network have no limit, because they
 * may have to load a model first; limits set by the user apply to all endpoints. The timeout of the whole request
 * (`Route.requestTimeoutMillis`), and the maximum wait between the bytes of a stream ({@link addReadTimeout}), are
 * applied by the provider.
 *
 * Source: `hermes-llm.md` §2.5, §15.5.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { OnHeaders, OnPart } from "../../base/domain/ModelCall.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as AnswerProgress from "./AnswerProgress.ts"
import * as CallTokens from "./CallTokens.ts"
import type { RouteCallState } from "./RouteCallState.ts"
import type { Route, RouteInfo } from "../../base/domain/Route.ts"
import * as RouteDetection from "./RouteDetection.ts"

const makeStaleError = (
  { info }: Provider,
  millis: number,
  { isStreaming }: AnswerProgress.AttemptProgress
): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: info.baseUrl ?? "",
      description: `${info.provider} sent nothing for ${Math.round(millis / 1_000)} s: the ${
        isStreaming ? "stream is stale" : "request timed out"
      }; raise stale_timeout_seconds if ${info.model} needs longer`
    })
  })

/** Fails when the silence has lasted too long. It never succeeds. */
const failAfterSilence = Effect.fnUntraced(function* (
  { clock, question: { call, heartbeat }, route: { patience } }: RouteCallState,
  provider: Provider,
  progress: AnswerProgress.AttemptProgress
): Effect.fn.Return<never, AiError.AiError> {
  const started = clock.currentTimeMillisUnsafe()
  const estimateCallTokens = (): number => CallTokens.estimateTokens(call)
  let limit: number | undefined
  let beat = started + heartbeatMillis
  for (;;) {
    const now = clock.currentTimeMillisUnsafe()
    const silent = progress.last === undefined ? 0 : now - Math.max(progress.last, started)
    if (silent >= (limit ?? patience.least)) {
      limit ??= progress.isStreaming ? patience.stream(estimateCallTokens) : patience.call(estimateCallTokens)
      if (silent >= limit) return yield* makeStaleError(provider, limit, progress)
    }
    if (heartbeat !== undefined && now >= beat) {
      if (silent >= heartbeatMillis) yield* heartbeat(now - started)
      beat = now + heartbeatMillis
    }
    const untilStale = (limit ?? patience.least) - silent
    yield* Effect.sleep(heartbeat === undefined ? untilStale : Math.min(untilStale, beat - now))
  }
})

const makePartReader =
  (progress: AnswerProgress.AttemptProgress, onPart: OnPart | undefined, clock: Clock.Clock): OnPart =>
  (parts) => {
    AnswerProgress.noteArrival(progress, parts, clock)
    const kept = onPart === undefined ? Effect.succeed(parts) : onPart(parts)
    return Effect.map(kept, (kept) => {
      AnswerProgress.noteRead(progress, kept, clock)
      return kept
    })
  }

/** Executes a request with the provider and records each streamed part in the progress. */
export const executeWatched =
  (provider: Provider, progress: AnswerProgress.AttemptProgress, onHeaders: OnHeaders): Provider["execute"] =>
  (request, options) => {
    AnswerProgress.noteRequest(progress, request["stream"] === true)
    return progress.isStreaming
      ? Effect.clockWith((clock) =>
          provider.execute(request, { onPart: makePartReader(progress, options?.onPart, clock), onHeaders })
        )
      : provider.execute(request, { ...options, onHeaders })
  }

/** Ends the execution if its provider has been silent for too long. */
export const limitSilence = <A, E, R>(
  state: RouteCallState,
  provider: Provider,
  progress: AnswerProgress.AttemptProgress,
  execution: Effect.Effect<A, E, R>
): Effect.Effect<A, E | AiError.AiError, R> =>
  state.question.heartbeat === undefined && state.route.patience.least === Infinity
    ? execution
    : Effect.raceFirst(execution, failAfterSilence(state, provider, progress))

/** Limits set by the user, in milliseconds. Missing limits are taken from the tables. */
export interface Limits {
  readonly stream?: number | undefined
  readonly call?: number | undefined
}

/** Table of limits: each row contains a number of tokens and the limit in milliseconds for requests above it. */
type Table = ReadonlyArray<readonly [above: number, millis: number]>

const streamTable: Table = [
  [100_000, 300_000],
  [50_000, 240_000],
  [0, 180_000]
]
const callTable: Table = [
  [100_000, 600_000],
  [50_000, 450_000],
  [0, 300_000]
]

/** Interval, in milliseconds, of the events which report that the run is still waiting for a silent model. */
const heartbeatMillis = 30_000

const isLocal = ({ baseUrl }: { readonly baseUrl?: string | undefined }): boolean =>
  RouteDetection.isLocal(RouteDetection.parseAddress(baseUrl).host)

const readMillis = 120_000
const requestMillis = 1_800_000

/** Adds the default maximum wait between bytes to a route, unless the user set one. */
export const addReadTimeout = (route: Route): Route =>
  route.readTimeoutMillis === undefined
    ? { ...route, readTimeoutMillis: isLocal(route) ? (route.requestTimeoutMillis ?? requestMillis) : readMillis }
    : route

/**
 * Returns the milliseconds for which a route may be silent, given the tokens of the request; `Infinity` means no limit.
 */
export type Patience = (tokens: () => number) => number

const lookUpInTable =
  (table: Table): Patience =>
  (tokens) => {
    const count = tokens()
    return table.find(([above]) => count > above)?.[1] ?? table.at(-1)?.[1] ?? Infinity
  }

const forEver: Patience = () => Infinity

/** Returns the milliseconds that a wrapper of a whole call may itself take. */
export const wrapperMillis: Patience = lookUpInTable(callTable)

const choosePatience = (own: number | undefined, route: Pick<RouteInfo, "baseUrl">, table: Table): Patience => {
  if (own !== undefined) return () => own
  return isLocal(route) ? forEver : lookUpInTable(table)
}

/** Silence limits of a route, for streams and for answers that are not streamed. */
export interface RoutePatience {
  readonly stream: Patience
  readonly call: Patience
  /** The shortest possible limit in milliseconds. Tokens are counted only after this time. */
  readonly least: number
  /** Returns the milliseconds that a wrapper of a call may itself take, even if the endpoint has no limit. */
  readonly wrapper: Patience
}

/** Returns the silence limits of a route. */
export const findPatiences = (route: Pick<RouteInfo, "baseUrl">, limits: Limits = {}): RoutePatience => {
  const assumeNoTokens = () => 0
  const stream = choosePatience(limits.stream, route, streamTable)
  const call = choosePatience(limits.call, route, callTable)
  const limitWrapper: Patience = (tokens) => limits.call ?? limits.stream ?? wrapperMillis(tokens)
  return { stream, call, least: Math.min(stream(assumeNoTokens), call(assumeNoTokens)), wrapper: limitWrapper }
}
