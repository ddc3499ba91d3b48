/**
 * Readers of one stream of events. Each reader has its own position and may fall behind only to a limit.
 *
 * **Details**
 *
 * A slow reader never affects other readers. If a reader is more than {@link mergeBeyond} events behind, deltas of the
 * same kind are merged for it without losing text. If it falls {@link maxEvents} events or {@link maxCharacters}
 * characters behind, it receives its pending events and then {@link ReaderLagged}. It must then read the state and
 * subscribe again. With `whenBehind: "wait"`, the turn instead waits until the reader has caught up.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import type { HostEvent } from "./HostEvent.ts"

/** Error raised when a reader is too far behind. */
export class ReaderLagged extends Schema.TaggedError<ReaderLagged>("hermes-effect/host/ReaderLagged")(
  "ReaderLagged",
  {}
) {
  override get message(): string {
    return "This reader of the live session was too far behind and was cut off. Read the state, then subscribe again."
  }
}

/** Number of events that a reader may be behind before deltas are merged. */
export const mergeBeyond = 256
/** Maximum number of events that a reader may be behind. */
export const maxEvents = 10_000
/** Maximum number of event characters that a reader may be behind. */
export const maxCharacters = 16 * 1024 * 1024

/** Options for a reader that falls behind. */
export interface ReaderOptions {
  /** Behavior when the reader falls behind. `cut`, the default, ends the reader; `wait` makes the turn wait. */
  readonly whenBehind?: "cut" | "wait" | undefined
  /**
   * Number of events that a reader may be behind before the turn waits for it. Defaults to {@link mergeBeyond}. With 0,
   * the turn waits after each event.
   */
  readonly atMost?: number | undefined
}

/** A reader with its own position in the stream. */
export interface Reader {
  /** Waits for the next event. Ends when the live session is closed. */
  readonly take: Effect.Effect<HostEvent, Cause.Done | ReaderLagged>
  /** Completes as soon as an event is available or the stream has ended. Does not take the event. */
  readonly arrived: Effect.Effect<void>
  /** Takes the next event, or returns `undefined` if no event is available. */
  readonly poll: () => HostEvent | undefined
}

/**
 * Calls a function with each event until the stream ends or the reader is cut off. If the function fails with a defect,
 * the defect is logged and the next event is processed, because a turn may wait for this reader.
 */
export const forEachEvent = <R>(
  reader: Reader,
  tell: (event: HostEvent) => Effect.Effect<void, never, R>
): Effect.Effect<void, never, R> =>
  Effect.flatMap(reader.take, (event) =>
    Effect.catchDefect(tell(event), (defect) =>
      Effect.logError(`the event ${event._tag} of a live session could not be told`, defect)
    )
  ).pipe(
    Effect.forever,
    Effect.catchTag(["Done", "ReaderLagged"], () => Effect.void)
  )

/** All readers of a stream. */
export interface EventReaders {
  readonly publish: (event: HostEvent) => void
  /** Waits until all readers with `whenBehind: "wait"` have caught up. */
  readonly caughtUp: Effect.Effect<void>
  readonly subscribe: (options?: ReaderOptions) => Effect.Effect<Reader, never, Scope.Scope>
  /** Ends the stream. */
  readonly end: () => void
}

/** Returns the number of characters in the parts of an event that can be long. */
const measureEventLength = (event: RunEvent): number => {
  switch (event._tag) {
    case "TextDelta":
    case "ReasoningDelta":
    case "ToolInputDelta":
    case "ToolProgress":
    case "TextReplaced":
    case "RunFinished":
      return event.text.length
    case "ToolFinished":
      return event.output.length
    default:
      return 0
  }
}

/** Merges two deltas, or returns undefined if their kinds differ. */
const mergeDeltas = (before: RunEvent | undefined, event: RunEvent): RunEvent | undefined => {
  if (before?._tag === "TextDelta" && event._tag === "TextDelta") return { ...event, text: before.text + event.text }
  if (before?._tag === "ReasoningDelta" && event._tag === "ReasoningDelta")
    return { ...event, text: before.text + event.text }
  if (before?._tag === "ToolInputDelta" && event._tag === "ToolInputDelta" && before.callId === event.callId) {
    return { ...event, text: before.text + event.text }
  }
  // Each value replaces the one before.
  if (before?._tag === "ValueDelta" && event._tag === "ValueDelta") return event
  return undefined
}

interface PendingEvent {
  readonly event: HostEvent
  /** Events of a turn. More events of the same turn can be appended. */
  readonly run: Array<RunEvent> | undefined
  weight: number
}

/** Makes the queue of events that a reader has not taken yet, with their number and size. */
const makePendingEvents = () => {
  let waiting: Array<PendingEvent> = []
  let first = 0
  let events = 0
  let characters = 0

  /** Adds events of a turn to an entry of pending events. */
  const appendRunEvents = (last: PendingEvent, run: Array<RunEvent>, added: ReadonlyArray<RunEvent>): void => {
    for (const event of added) {
      const weight = measureEventLength(event)
      last.weight += weight
      characters += weight
      const one = mergeDeltas(run.at(-1), event)
      if (one !== undefined) run[run.length - 1] = one
      else {
        run.push(event)
        events++
      }
    }
  }

  const put = (event: HostEvent): void => {
    const last = waiting.length > first ? waiting.at(-1) : undefined
    if (event._tag !== "RunEvents") {
      waiting.push({ event, run: undefined, weight: 0 })
      events++
    } else if (events > mergeBeyond && last?.run !== undefined) {
      appendRunEvents(last, last.run, event.events)
    } else {
      const run: Array<RunEvent> = []
      const added: PendingEvent = { event: { ...event, events: run }, run, weight: 0 }
      waiting.push(added)
      for (const one of event.events) {
        run.push(one)
        added.weight += measureEventLength(one)
      }
      events += run.length
      characters += added.weight
    }
  }

  return {
    put,
    /** Removes the first event, if any. */
    take: (): HostEvent | undefined => {
      const found = waiting[first]
      if (found === undefined) return undefined
      first++
      if (first === waiting.length || first > 1024) {
        waiting = waiting.slice(first)
        first = 0
      }
      events -= found.run?.length ?? 1
      characters -= found.weight
      return found.event
    },
    isEmpty: (): boolean => first >= waiting.length,
    isOverfull: (): boolean => events > maxEvents || characters > maxCharacters,
    countEvents: (): number => events
  }
}

/** Makes a reader with its queue of pending events. */
const makeReader = ({ atMost = mergeBeyond, whenBehind = "cut" }: ReaderOptions) => {
  const pending = makePendingEvents()
  let arrived: Deferred.Deferred<void> | undefined
  let drained: Deferred.Deferred<void> | undefined
  let isEnded = false
  let isCut = false

  const takeNextEvent = (): HostEvent | undefined => {
    const found = pending.take()
    if (found !== undefined && drained !== undefined && pending.countEvents() <= atMost) {
      Deferred.doneUnsafe(drained, Effect.void)
      drained = undefined
    }
    return found
  }

  const wakeReader = (): void => {
    if (arrived !== undefined) Deferred.doneUnsafe(arrived, Effect.void)
    arrived = undefined
  }

  const put = (event: HostEvent): void => {
    if (isCut) return
    if (whenBehind === "cut" && pending.isOverfull()) {
      isCut = true
      return
    }
    pending.put(event)
    wakeReader()
  }

  const isAny: Reader["arrived"] = Effect.suspend(() => {
    if (!pending.isEmpty() || isCut || isEnded) return Effect.void
    arrived ??= Deferred.makeUnsafe()
    return Effect.flatMap(Deferred.await(arrived), () => isAny)
  })

  const take: Reader["take"] = Effect.flatMap(isAny, () => {
    const found = takeNextEvent()
    if (found !== undefined) return Effect.succeed(found)
    if (isCut) return Effect.fail(new ReaderLagged())
    // Another fiber of the same reader took the event first.
    return isEnded ? Cause.done() : take
  })

  return {
    take,
    arrived: isAny,
    poll: takeNextEvent,
    put,
    caughtUp: Effect.suspend(() => {
      if (whenBehind === "cut" || isEnded || pending.countEvents() <= atMost) return Effect.void
      drained ??= Deferred.makeUnsafe()
      return Deferred.await(drained)
    }),
    end: (): void => {
      isEnded = true
      wakeReader()
      if (drained !== undefined) Deferred.doneUnsafe(drained, Effect.void)
      drained = undefined
    }
  }
}

/** Makes a stream without readers. */
export const make = (): EventReaders => {
  const readers = new Set<ReturnType<typeof makeReader>>()
  let isEnded = false
  return {
    publish: (event) => {
      for (const reader of readers) reader.put(event)
    },
    caughtUp: Effect.suspend(() => {
      for (const reader of readers)
        return readers.size === 1 ? reader.caughtUp : Effect.forEach(readers, (one) => one.caughtUp, { discard: true })
      return Effect.void
    }),
    subscribe: (options = {}) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const reader = makeReader(options)
          if (isEnded) reader.end()
          readers.add(reader)
          return reader
        }),
        (reader) =>
          Effect.sync(() => {
            readers.delete(reader)
            reader.end()
          })
      ),
    end: () => {
      isEnded = true
      for (const reader of readers) reader.end()
    }
  }
}
