/**
 * Exports an OTLP signal in requests, from a queue of encoded items or from the current metrics. Pending data is sent
 * at intervals, and when the scope closes.
 *
 * **Details**
 *
 * A queue is sent when it reaches its maximum number of items or {@link maxRequestBytes}, because collectors reject
 * larger requests and spans of model calls contain the full text of messages. After a request has finally failed, no
 * items are accepted for one minute.
 *
 * Source: OpenTelemetry, "OpenTelemetry Protocol Exporter".
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as GrowingBytes from "../GrowingBytes.ts"
import type { Body, Encoding } from "./SignalEncoding.ts"
import type { Send, Target } from "./Transport.ts"

/** Maximum total size of the items in one request, in bytes. A single larger item is sent in a separate request. */
export const maxRequestBytes = 2_000_000

/** Pause of the exports after a request has finally failed, in milliseconds. */
const offMillis = 60_000

/** Collector of a signal, export interval and shutdown timeout. */
export interface Options extends Target {
  readonly intervalMillis: number
  /** Maximum time that the scope, when it closes, waits for requests, in milliseconds. */
  readonly shutdownMillis: number
}

/** Next request to send. `sent` runs after the collector has accepted it. */
interface Next {
  readonly body: Body
  readonly sent: Effect.Effect<void>
}

/** Running exports of a signal. */
interface Exports {
  /** Sends all pending data now. */
  readonly flush: () => void
  /** Tests whether exports are paused after a failure. */
  readonly isOff: () => boolean
}

/**
 * Exports the results of `next` until the scope closes. `next` returns `undefined` if there is nothing to send.
 * `dropped` is called when pending items will not be sent.
 */
export const exportPeriodically = (
  { intervalMillis, shutdownMillis, ...target }: Options,
  send: Send,
  next: () => Next | undefined,
  dropped: () => void
): Effect.Effect<Exports, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const fork = Effect.runForkWith(yield* Effect.context<never>())
    const underWay = new Set<Fiber.Fiber<void>>()
    let offUntil = 0
    const isOff = (): boolean => offUntil > clock.currentTimeMillisUnsafe()

    const sendRequest = ({ body, sent }: Next): Effect.Effect<void> =>
      Effect.flatMap(send(target, body), (isTaken) => {
        if (isTaken) return sent
        if (isOff()) return Effect.void
        offUntil = clock.currentTimeMillisUnsafe() + offMillis
        dropped()
        return Effect.logDebug(`Nothing is exported to ${target.url} for a minute: a request failed.`)
      }).pipe(Effect.withTracerEnabled(false))
    const flush = (): void => {
      const request = isOff() ? undefined : next()
      if (request === undefined) return
      const fiber = fork(sendRequest(request))
      underWay.add(fiber)
      fiber.addObserver(() => underWay.delete(fiber))
    }
    yield* Effect.forkScoped(
      Effect.schedule(
        Effect.suspend(() => {
          flush()
          return Fiber.awaitAll(underWay)
        }),
        Schedule.spaced(Duration.millis(intervalMillis))
      )
    )
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        flush()
        return Effect.timeoutOption(Fiber.awaitAll(underWay), Duration.millis(shutdownMillis))
      }).pipe(Effect.andThen(Effect.suspend(() => Fiber.interruptAll(underWay))))
    )
    return { flush, isOff }
  })

/** Options of a queue. */
interface QueueOptions extends Options {
  readonly maxBatchSize: number
  /** Called after the collector has accepted a request, with the number of items in it. */
  readonly onSent?: ((items: number) => Effect.Effect<void>) | undefined
}

/**
 * Returns a function that accepts items until the scope closes. Each item is encoded immediately and appended to the
 * pending items.
 */
export const make = <Item>(
  options: QueueOptions,
  { add, body }: Encoding<Item>,
  send: Send
): Effect.Effect<(item: Item) => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { maxBatchSize, onSent } = options
    const waiting = GrowingBytes.make()
    let count = 0
    const dropWaiting = (): void => {
      waiting.clear()
      count = 0
    }
    const { flush, isOff } = yield* exportPeriodically(
      options,
      send,
      () => {
        if (count === 0) return undefined
        const next = { body: body(waiting.slice(0, waiting.length())), sent: onSent?.(count) ?? Effect.void }
        dropWaiting()
        return next
      },
      dropWaiting
    )
    return (item) => {
      if (isOff()) return
      const end = waiting.length()
      const begin = add(waiting, item)
      if (count > 0 && waiting.length() > maxRequestBytes) {
        // The request would become too large, so the pending items are sent without this one.
        const last = waiting.slice(begin, waiting.length()).slice()
        waiting.cut(end)
        flush()
        dropWaiting()
        waiting.add(last)
      }
      if (++count >= maxBatchSize) flush()
    }
  })
