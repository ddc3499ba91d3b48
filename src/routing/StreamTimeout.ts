/**
 * Limits the silence of a provider during one attempt, reports that it is still waited for, and keeps what streamed by.
 *
 * **Details**
 *
 * Silence counts from the beginning, and in a stream from the last piece; as long as whoever reads a piece has not given
 * it back, nobody is silent. The wrappers of the execution are inside, so that one that hangs is ended too. An attempt
 * that has no listener and that may take for ever is not watched in time. The size of the request is looked at only when
 * the shortest wait is over.
 *
 * Source: `hermes-llm.md` §2.5, §15.5.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { OnHeaders, OnPart, StreamPart } from "../domain/Model.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as CallSize from "./CallSize.ts"
import type { Progress, RouteCallState } from "./RouteCallState.ts"
import * as Timeouts from "./Timeouts.ts"

/** Makes the progress of an attempt that begins. */
export const begin = (): Progress => ({ last: 0, isStreaming: false, firstPartAt: undefined, parts: [] })

const stale = ({ info }: Provider, millis: number, { isStreaming }: Progress): AiError.AiError =>
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

/** Never succeeds: fails when the silence was too long. */
const silence = Effect.fnUntraced(function*(
  { question: { call, notify }, route: { patience } }: RouteCallState,
  provider: Provider,
  progress: Progress,
  clock: Clock.Clock
): Effect.fn.Return<never, AiError.AiError> {
  const started = clock.currentTimeMillisUnsafe()
  const tokens = (): number => CallSize.tokens(call)
  let limit: number | undefined
  let beat = started + Timeouts.heartbeatMillis
  for (;;) {
    const now = clock.currentTimeMillisUnsafe()
    const silent = progress.last === undefined ? 0 : now - Math.max(progress.last, started)
    if (silent >= (limit ?? patience.least)) {
      limit ??= progress.isStreaming ? patience.stream(tokens) : patience.call(tokens)
      if (silent >= limit) return yield* stale(provider, limit, progress)
    }
    if (notify !== undefined && now >= beat) {
      if (silent >= Timeouts.heartbeatMillis) yield* notify([{ _tag: "Heartbeat", waitedMillis: now - started }])
      beat = now + Timeouts.heartbeatMillis
    }
    const untilStale = (limit ?? patience.least) - silent
    yield* Effect.sleep(notify === undefined ? untilStale : Math.min(untilStale, beat - now))
  }
})

/** Returns whether a part says something; those that only open or close others do not. */
const says = ({ type }: StreamPart): boolean => type.endsWith("-delta") || type === "tool-call"

const reading = (progress: Progress, onPart: OnPart | undefined, clock: Clock.Clock): OnPart => (parts) => {
  if (progress.firstPartAt === undefined && parts.some(says)) progress.firstPartAt = clock.currentTimeMillisUnsafe()
  progress.last = undefined
  const kept = onPart === undefined ? Effect.succeed(parts) : onPart(parts)
  return Effect.map(kept, (kept) => {
    progress.last = clock.currentTimeMillisUnsafe()
    progress.parts.push(kept)
    return kept
  })
}

/** Executes with the provider, noting each piece in the progress. */
export const execute = (provider: Provider, progress: Progress, onHeaders: OnHeaders): Provider["execute"] => (request, options) => {
  progress.isStreaming = request["stream"] === true
  return progress.isStreaming
    ? Effect.clockWith((clock) => provider.execute(request, { onPart: reading(progress, options?.onPart, clock), onHeaders }))
    : provider.execute(request, { ...options, onHeaders })
}

/** Ends the execution, wrappers included, when its provider has been silent for too long. */
export const bounded = <A, E, R>(
  state: RouteCallState,
  provider: Provider,
  progress: Progress,
  execution: Effect.Effect<A, E, R>
): Effect.Effect<A, E | AiError.AiError, R> =>
  state.question.notify === undefined && state.route.patience.least === Infinity
    ? execution
    : Effect.clockWith((clock) => Effect.raceFirst(execution, silence(state, provider, progress, clock)))
