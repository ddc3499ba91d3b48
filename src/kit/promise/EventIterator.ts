/**
 * Events of one run as an async iterator, for a reader that may be slow, stop reading, request two events at once or
 * leave early. The run is a fiber of the runtime: a signal and `dispose` end it with or without a reader.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Pull from "effect/Pull"
import * as EventHandoff from "../../agent/EventHandoff.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import { makeAbortedError, fromCause } from "./HermesError.ts"

/** Maximum number of events that a reader may lag behind before the run waits for it. */
const buffer = 256

/** The run whose events are read. */
export interface RunSource {
  /** Starts the run. `offer` receives its events. */
  readonly fork: (offer: EventHandoff.EventHandoff<RunEvent, unknown>["offer"]) => Fiber.Fiber<unknown, unknown>
  /** Functions that release waiting runs. During the run, the set contains the function of this run. */
  readonly open: Set<() => void>
  readonly signal: AbortSignal | undefined
}

const over: IteratorResult<RunEvent> = { done: true, value: undefined }

/** Creates an iterator. Its run begins with the first `next`. */
export const make = ({ fork, open, signal }: RunSource): AsyncIterableIterator<RunEvent> => {
  const { close, end, offer, pull } = EventHandoff.make<RunEvent, unknown>(buffer)
  let events: ReadonlyArray<RunEvent> = []
  let at = 0
  let fiber: Fiber.Fiber<unknown, unknown> | undefined
  let isOver = false
  let reading: Promise<unknown> = Promise.resolve()

  let isCut = false

  const releaseRun = (): void => {
    isCut = true
    Effect.runSync(close)
  }
  const abortRun = (): void => {
    releaseRun()
    fiber?.interruptUnsafe()
  }
  const beginRun = (): void => {
    if (signal?.aborted === true) throw makeAbortedError(signal.reason)
    fiber = fork(offer)
    open.add(releaseRun)
    signal?.addEventListener("abort", abortRun, { once: true })
    fiber.addObserver((exit) => {
      open.delete(releaseRun)
      signal?.removeEventListener("abort", abortRun)
      // If events are missing, the iterator ends as interrupted, even if the run completed.
      Effect.runSync(end(isCut ? Exit.interrupt() : exit))
    })
  }
  const readNext = async (): Promise<IteratorResult<RunEvent>> => {
    if (isOver) return over
    if (fiber === undefined) beginRun()
    if (at >= events.length) {
      const exit = await Effect.runPromiseExit(pull)
      if (Exit.isFailure(exit)) {
        isOver = true
        if (Pull.isDoneCause(exit.cause)) return over
        throw fromCause(exit.cause, signal?.reason)
      }
      events = exit.value
      at = 0
    }
    const value = events[at++]
    return value === undefined ? over : { done: false, value }
  }
  return {
    next: () => {
      const result = reading.then(readNext)
      reading = result.catch(() => void (isOver = true))
      return result
    },
    // Does not wait for a pending `next`: leaving the loop ends it.
    return: async () => {
      isOver = true
      if (fiber !== undefined) {
        Effect.runSync(Effect.andThen(close, end(Exit.void)))
        await Effect.runPromise(Fiber.interrupt(fiber))
      }
      return over
    },
    [Symbol.asyncIterator]() {
      return this
    }
  }
}
