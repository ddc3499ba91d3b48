/**
 * Exports a signal of OTLP in requests, from a queue of encoded items or from the current counts. Pending data is sent
 * at intervals, and when the scope ends.
 *
 * **Details**
 *
 * A queue is sent when it has as many items as it may, or as large ones as {@link maxRequestBytes}, because collectors
 * refuse larger requests and a span of a model call holds whole texts. After a request that failed for good nothing is
 * taken for a minute.
 *
 * Source: OpenTelemetry, "OpenTelemetry Protocol Exporter".
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as GrowingBytes from "../GrowingBytes.ts"
import type { Body, Encoding } from "./SignalEncoding.ts"
import type { Send, Target } from "./Transport.ts"

/** Bytes of the items of one request, unless a single item has more. */
export const maxRequestBytes = 2_000_000

/** Milliseconds without exports after a request that failed for good. */
const offMillis = 60_000

/** Collector and pace of a signal. */
export interface Options extends Target {
  readonly intervalMillis: number
  /** Time that the end of the scope waits for requests. */
  readonly shutdownMillis: number
}

/** Next request; undefined if there is nothing to send. `sent` runs when the collector has accepted it. */
interface Next {
  readonly body: Body
  readonly sent: Effect.Effect<void>
}

/** Exports of a signal that are under way. */
interface Exports {
  /** Sends what there is now. */
  readonly flush: () => void
  /** Tests whether nothing is taken, after a failure. */
  readonly isOff: () => boolean
}

/** Exports the results of `next` until the scope closes. `dropped` is called when pending items will not be sent. */
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
      Effect.forever(
        Effect.andThen(
          Effect.sleep(Duration.millis(intervalMillis)),
          Effect.suspend(() => {
            flush()
            return Fiber.awaitAll(underWay)
          })
        )
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

/** Properties of a queue. */
interface QueueOptions extends Options {
  readonly maxBatchSize: number
  /** Told how many items a request took. */
  readonly onSent?: ((items: number) => Effect.Effect<void>) | undefined
}

/**
 * Returns a function that accepts items until the scope closes. Each is encoded at once and appended to pending ones.
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
        // Those before it go without it.
        const last = waiting.slice(begin, waiting.length()).slice()
        waiting.cut(end)
        flush()
        dropWaiting()
        waiting.add(last)
      }
      if (++count >= maxBatchSize) flush()
    }
  })
