/**
 * Watches one attempt: ends it when its model has been silent for too long, tells that it is still waited for, and
 * remembers what streamed by.
 *
 * **Details**
 *
 * Silence counts from the beginning, and in a stream from the last piece; as long as whoever reads a piece has not given
 * it back, nobody is silent. The wrappers of the execution are inside, so that one that hangs is ended too. An attempt
 * that nobody wants told about and that may take for ever is not watched in time. The size of the request is looked at
 * only when the shortest wait is over.
 *
 * Source: `hermes-llm.md` §2.5, §15.5.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { ExecuteOptions, ModelCall, ModelRequest, OnHeaders, OnPart, StreamPart } from "../domain/Model.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as CallSize from "./CallSize.ts"
import type { About, Try } from "./ModelRouter.ts"
import * as Timeouts from "./Timeouts.ts"

/** What an attempt is watched with. */
export interface Options {
  readonly patience: Timeouts.Patiences
  readonly notify: About["notify"]
  readonly call: ModelCall | undefined
  readonly onHeaders?: OnHeaders | undefined
}

/** An attempt under watch: the provider that it uses, and what is put around its execution. */
export interface Watched extends Pick<Try, "provider" | "within"> {
  /** What streamed by, read by read. */
  readonly shown: ReadonlyArray<ReadonlyArray<StreamPart>>
}

/** When the last sign of life was, in milliseconds; `undefined` while a piece is being read on this side. */
interface Signs {
  last: number | undefined
  streaming: boolean
}

const stale = ({ info }: Provider, millis: number, { streaming }: Signs): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: info.baseUrl ?? "",
      description: `${info.provider} sent nothing for ${Math.round(millis / 1_000)} s: the ${
        streaming ? "stream is stale" : "request timed out"
      }; raise stale_timeout_seconds if ${info.model} needs longer`
    })
  })

/** Never succeeds: fails when the silence was too long. */
const silence = Effect.fnUntraced(function*(
  provider: Provider,
  { call, notify, patience }: Options,
  signs: Signs,
  clock: Clock.Clock
): Effect.fn.Return<never, AiError.AiError> {
  const started = clock.currentTimeMillisUnsafe()
  const tokens = (): number => call === undefined ? 0 : CallSize.tokens(call)
  let limit: number | undefined
  let beat = started + Timeouts.heartbeatMillis
  for (;;) {
    const now = clock.currentTimeMillisUnsafe()
    const silent = signs.last === undefined ? 0 : now - Math.max(signs.last, started)
    if (silent >= (limit ?? patience.least)) {
      limit ??= signs.streaming ? patience.stream(tokens) : patience.call(tokens)
      if (silent >= limit) return yield* stale(provider, limit, signs)
    }
    if (notify !== undefined && now >= beat) {
      if (silent >= Timeouts.heartbeatMillis) yield* notify([{ _tag: "Heartbeat", waitedMillis: now - started }])
      beat = now + Timeouts.heartbeatMillis
    }
    const untilStale = (limit ?? patience.least) - silent
    yield* Effect.sleep(notify === undefined ? untilStale : Math.min(untilStale, beat - now))
  }
})

/** Puts an attempt under watch. */
export const attempt = (inner: Provider, options: Options): Watched => {
  const { onHeaders } = options
  const shown: Array<ReadonlyArray<StreamPart>> = []
  const signs: Signs = { last: 0, streaming: false }

  const reading = (onPart: OnPart | undefined, clock: Clock.Clock): OnPart => (parts) => {
    signs.last = undefined
    const kept = onPart === undefined ? Effect.succeed(parts) : onPart(parts)
    return Effect.map(kept, (kept) => {
      signs.last = clock.currentTimeMillisUnsafe()
      shown.push(kept)
      return kept
    })
  }

  const execute: Provider["execute"] = (request: ModelRequest, given: ExecuteOptions | undefined) => {
    signs.streaming = request["stream"] === true
    return signs.streaming
      ? Effect.clockWith((clock) => inner.execute(request, { onPart: reading(given?.onPart, clock), onHeaders }))
      : inner.execute(request, { ...given, onHeaders })
  }

  const provider: Provider = {
    info: inner.info,
    apiMode: inner.apiMode,
    prepare: inner.prepare,
    execute,
    decode: inner.decode
  }
  return options.notify === undefined && options.patience.least === Infinity
    ? { provider, within: undefined, shown }
    : {
      provider,
      within: (execution) =>
        Effect.clockWith((clock) => Effect.raceFirst(execution, silence(inner, options, signs, clock))),
      shown
    }
}
