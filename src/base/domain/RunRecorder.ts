/**
 * Writes the record of one run. Each part of the run (the agent, an attempt, a tool call, an approval) records its
 * events in the run's own fiber when they happen.
 *
 * **Details**
 *
 * Writing is synchronous and cheap: events wait in memory until {@link Recorder.flush} passes them to the record, once
 * per step. A message is written once and then only referenced, so a model call adds only its new messages.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "./AgentError.ts"
import * as GrowingList from "./GrowingList.ts"
import type { SessionId, TurnId } from "./Ids.ts"
import type { ToolDefinition } from "./ModelCall.ts"
import * as OpenParts from "./OpenParts.ts"
import type { Entry, Origin, RecordEvent, Reference } from "./RecordEvent.ts"

/** The writer of the record of one run. */
export interface Recorder {
  /** Id of the recorded run. */
  readonly turnId: TurnId
  /** True for the run of a child agent. */
  readonly isChild: boolean
  /** Messages of the session by position, in the form in which they were added. */
  readonly stored: ReadonlyArray<Prompt.Message>
  /**
   * Writes an event. For an event that begins an attempt, a call or a child, `end` creates the event that ends it if
   * the record is cut first.
   */
  readonly write: (event: RecordEvent, end?: () => RecordEvent) => void
  /**
   * Ends the record although the run has not ended yet, because the release of its resources takes too long. Writes the
   * ends of all open parts, the most recent one first, and the results of `last`, and passes everything on to the
   * record. Later ends of these parts and of the run are ignored. Has no effect if the run has ended.
   */
  readonly cut: (last: () => ReadonlyArray<RecordEvent>) => Effect.Effect<void>
  /**
   * Cuts the record of a child before this record is cut, if the child is a part of the run. `cut` is called at most
   * once.
   */
  readonly cutBefore: (sessionId: SessionId, cut: Effect.Effect<void>) => void
  /** Records messages that were appended to the session, in order; `position` is the position of the first message. */
  readonly appended: (
    origin: Origin,
    position: number,
    messages: ReadonlyArray<Prompt.Message>,
    apiRequestId?: string
  ) => void
  /**
   * Returns references to the messages of a model call. A message that is not part of the session is first written to
   * the record, once.
   */
  readonly references: (messages: ReadonlyArray<Prompt.Message>) => ReadonlyArray<Reference>
  /**
   * Returns the hash that identifies the tools of a model call. The tools themselves are written once. Returns
   * `undefined` if there are no tools.
   */
  readonly offered: (tools: ReadonlyArray<ToolDefinition>) => string | undefined
  /** Passes the written events on to the record. */
  readonly flush: Effect.Effect<void>
  /**
   * Tests whether a view of runs listens to the record. In that case the start of a call is passed on before the call
   * is made, at the cost of one more write.
   */
  readonly isHeard: () => boolean
  /**
   * Runs a write to the session, and calls `told` with its result to record the resulting events. If the session and
   * the record share a store, these and all pending events are stored in the same transaction.
   */
  readonly storing: <A, E, R>(
    write: Effect.Effect<A, E, R>,
    told?: (value: A) => void
  ) => Effect.Effect<A, E | SessionStoreError, R>
  /**
   * Defers a small write to the session until the transaction of the next {@link storing}, or until {@link flush} if
   * that comes first. If the session and the record have separate stores, the write runs at once.
   */
  readonly deferred: (write: SessionWrite) => SessionWrite
  /**
   * Defers a write that must be stored, with its resulting events, before the run takes any other action. The next
   * action must therefore be another write, or the run must execute {@link settled}. Unlike a {@link deferred} write,
   * this write is never dropped.
   */
  readonly postponed: <A>(write: Effect.Effect<A, SessionStoreError>, told: (value: A) => void) => SessionWrite
  /** Stores the postponed writes, if any. */
  readonly settled: SessionWrite
}

/** A write to the session of a run. */
type SessionWrite = Effect.Effect<void, SessionStoreError>

/** A write that is waiting for a transaction. */
interface PendingWrite {
  readonly write: Effect.Effect<unknown, SessionStoreError>
  /** Records the events that result from the write; `undefined` if the write may be dropped. */
  readonly told: ((value: unknown) => void) | undefined
  /** Number of record entries that precede the events of this write. */
  readonly after: number
}

/**
 * Runs writes to one store in one transaction. If the store is busy, the Effect runs again, so it must not have other
 * effects.
 */
export type Together = <A, E, R>(writes: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SessionStoreError, R>

/** Options of {@link make}. */
interface Options {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  /** True for the run of a child agent. */
  readonly isChild?: boolean | undefined
  /** Messages of the session before the run, in their order. */
  readonly history: ReadonlyArray<Prompt.Message>
  /** Messages outside the session that an earlier run of the session has recorded. */
  readonly recorded?: ReadonlyArray<Prompt.Message> | undefined
  /** Returns the current time in epoch milliseconds; created by `RecordTimes.makeStartTimes`. */
  readonly now: () => number
  /** Returns a short hash of the text. */
  readonly hash: (text: string) => string
  readonly sink: (entries: ReadonlyArray<Entry>) => Effect.Effect<void>
  /** Tests whether the record has listeners. */
  readonly isHeard?: (() => boolean) | undefined
  /**
   * Runs writes in one transaction of the store that the session and the record share; absent if they have separate
   * stores.
   */
  readonly together?: Together | undefined
}

/** The recorder of the current run; `undefined` outside a run, or if runs are not recorded. */
export const RunRecorder = Context.Reference<Recorder | undefined>("hermes-effect/domain/RunRecorder", {
  defaultValue: () => undefined
})

/** Calls `f` with the recorder of the fiber, if there is one. */
export const record = (f: (recorder: Recorder) => void): Effect.Effect<void> =>
  Effect.map(RunRecorder, (recorder) => {
    if (recorder !== undefined) f(recorder)
  })

/** Appends a reference; consecutive positions become a range. */
const pushReference = (references: Array<Reference>, next: Reference): void => {
  const last = references.at(-1)
  const [from, to] = typeof next === "object" ? next : [next, next]
  if (
    last === undefined ||
    typeof last === "string" ||
    typeof from === "string" ||
    typeof to === "string" ||
    getNextPosition(last) !== from
  ) {
    references.push(next)
  } else {
    references[references.length - 1] = [typeof last === "number" ? last : last[0], to]
  }
}

/** Returns the position after a reference to stored messages. */
const getNextPosition = (reference: number | readonly [number, number]): number =>
  (typeof reference === "number" ? reference : reference[1]) + 1

const isPosition = (reference: Reference): reference is Exclude<Reference, string> => typeof reference !== "string"

/**
 * Positions of stored messages. If a message is in several sessions, its position in the most recently processed
 * session is used.
 */
const positions = new WeakMap<Prompt.Message, number>()

/** Records the positions of a session's messages. */
const note = GrowingList.fold<Prompt.Message, { count: number }>({
  begin: () => ({ count: 0 }),
  add: (state, message) => void positions.set(message, state.count++),
  copy: ({ count }) => ({ count })
})

/**
 * Number of stored messages that are searched for a copy in each direction. A request moves a result next to its call,
 * which is never far away.
 */
const nearby = 8

/** Hashes of lists of tools, which are the same in many runs, by the function that hashes. */
const toolHashes = new WeakMap<Options["hash"], WeakMap<ReadonlyArray<ToolDefinition>, string>>()

const hashTools = (tools: ReadonlyArray<ToolDefinition>, hash: Options["hash"]): string => {
  const known = toolHashes.get(hash) ?? new WeakMap<ReadonlyArray<ToolDefinition>, string>()
  toolHashes.set(hash, known)
  const id = known.get(tools) ?? hash(JSON.stringify(tools))
  known.set(tools, id)
  return id
}

/** Creates the recorder of a run. */
export const make = ({
  hash,
  history,
  isChild = false,
  isHeard = () => false,
  now,
  recorded = [],
  sessionId,
  sink,
  together,
  turnId
}: Options): Recorder => {
  const names = new WeakMap<Prompt.Message, number | string>()
  for (const message of recorded) names.set(message, hash(JSON.stringify(message)))
  const stored = [...history]
  note(stored)
  const written = new Set<string>()
  /** Messages of the newest model call; `named` has their references. */
  const asked: Array<Prompt.Message> = []
  let named: ReadonlyArray<Reference> = []
  let buffer: Array<Entry> = []
  let waiting: ReadonlyArray<PendingWrite> = []

  const parts = OpenParts.makeOpenParts()
  /** Cuts of the records of children, by session. */
  const childCuts = new Map<string, Effect.Effect<void>>()

  const write: Recorder["write"] = (event, end) => {
    if (parts.admitEvent(event, end)) buffer.push({ sessionId, turnId, at: now(), event })
  }

  /** Returns the position of a message that was in the session before the run. */
  const findPosition = (message: Prompt.Message): number | undefined => {
    const noted = positions.get(message)
    if (noted === undefined || stored[noted] === message) return noted
    const found = stored.lastIndexOf(message)
    return found === -1 ? undefined : found
  }

  /**
   * Finds the position of the stored message with the same content as a copy. Searches from `next` onwards, and then
   * before `next`, because a request may have moved a result.
   */
  const findCopy = (message: Prompt.Message, text: string, next: number): number | undefined => {
    const isCopy = (position: number): boolean =>
      stored[position]?.role === message.role && JSON.stringify(stored[position]) === text
    for (let position = next; position < next + nearby; position++) if (isCopy(position)) return position
    for (let position = next - 1; position >= Math.max(0, next - nearby); position--)
      if (isCopy(position)) return position
    return undefined
  }

  /** Returns the position or the id of a message. `next` is the position after the preceding stored messages. */
  const nameMessage = (message: Prompt.Message, next: number): number | string => {
    const known = names.get(message) ?? findPosition(message)
    if (known !== undefined) return known
    const text = JSON.stringify(message)
    // Middleware receives copies; a copy of a stored message refers to that message.
    const position = findCopy(message, text, next)
    if (position !== undefined) {
      names.set(message, position)
      return position
    }
    const id = hash(text)
    names.set(message, id)
    if (!written.has(id)) {
      written.add(id)
      write({ _tag: "MessageAppended", origin: "runtime", id, message })
    }
    return id
  }

  const flushBuffer = (): Effect.Effect<void> => {
    if (buffer.length === 0) return Effect.void
    const entries = buffer
    buffer = []
    // An interruption would lose the entries, which are not in the buffer any more. A record with listeners is written
    // while the run can be interrupted.
    return isHeard() ? Effect.uninterruptible(sink(entries)) : sink(entries)
  }

  const storing: Recorder["storing"] = (write, told) => {
    if (together === undefined) {
      if (told === undefined) return write
      return Effect.map(write, (value) => {
        told(value)
        return value
      })
    }
    /** Entries in a transaction that may still fail, without the events that result from the writes. */
    let taken: Array<Entry> = []
    let late: ReadonlyArray<PendingWrite> = []
    const takeBack = (): void => {
      buffer = [...taken, ...buffer]
      waiting = [...late, ...waiting]
      taken = []
      late = []
    }
    /** Events that resulted from the deferred writes, each with its position among the entries. */
    let found: Array<{ readonly after: number; readonly entries: ReadonlyArray<Entry> }> = []
    const waited = Effect.suspend(() =>
      Effect.forEach(
        late,
        ({ after, told: follows, write }) =>
          follows === undefined
            ? write
            : Effect.map(write, (value) => {
                const others = buffer
                buffer = []
                follows(value)
                found.push({ after, entries: buffer })
                buffer = others
              }),
        { discard: true }
      )
    )
    const restoreOrder = (entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
      if (found.length === 0) return entries
      const all: Array<Entry> = []
      let at = 0
      for (const { after, entries: added } of found) {
        all.push(...entries.slice(at, after), ...added)
        at = after
      }
      return all.concat(entries.slice(at))
    }
    return Effect.suspend(() => {
      takeBack()
      late = waiting
      waiting = []
      found = []
      return Effect.flatMap(late.length === 0 ? write : Effect.andThen(waited, write), (value) => {
        taken = buffer
        buffer = []
        told?.(value)
        const entries = [...restoreOrder(taken), ...buffer]
        buffer = []
        return Effect.as(sink(entries), value)
      })
    }).pipe(
      together,
      Effect.onError(() => Effect.sync(takeBack)),
      // An interruption after the commit would return the stored entries to the buffer and store them again.
      Effect.uninterruptible
    )
  }

  const flush: Recorder["flush"] = Effect.suspend(() => {
    if (waiting.length === 0) return flushBuffer()
    return Effect.catch(storing(Effect.void), (error) => {
      waiting = waiting.filter(({ told }) => told !== undefined)
      // Flushes only if no writes are pending, to preserve the order of entries.
      return Effect.andThen(Effect.logWarning(error.message), waiting.length === 0 ? flushBuffer() : Effect.void)
    })
  })

  const cutRecord: Recorder["cut"] = (last) =>
    Effect.suspend(() => {
      if (parts.isEnded()) return Effect.void
      const children = Array.from(childCuts).filter(([child]) => parts.isOpen(`child ${child}`))
      return Effect.andThen(
        Effect.forEach(children, ([, cutChild]) => cutChild, { discard: true }),
        Effect.suspend(() => {
          if (parts.isEnded()) return Effect.void
          const at = now()
          for (const event of parts.endAll(last())) buffer.push({ sessionId, turnId, at, event })
          return Effect.uninterruptible(flush)
        })
      )
    })

  return {
    turnId,
    isChild,
    stored,
    write,
    cut: cutRecord,
    cutBefore: (child, cutChild) => void childCuts.set(child, cutChild),
    appended: (origin, first, messages, apiRequestId) =>
      messages.forEach((message, index) => {
        const position = first + index
        names.set(message, position)
        stored[position] = message
        write({
          _tag: "MessageAppended",
          origin,
          position,
          ...(apiRequestId === undefined ? {} : { apiRequestId }),
          message
        })
      }),
    references: (messages) => {
      // Usually a list has only grown at its end. After any other change the references are rebuilt, because a message
      // in the middle may differ.
      let same = 0
      while (same < asked.length && asked[same] === messages[same]) same++
      const isLonger = same === asked.length
      const references = isLonger ? named.slice() : []
      if (!isLonger) asked.length = 0
      for (let message = messages[asked.length]; message !== undefined; message = messages[asked.length]) {
        const at = asked.length
        const previous = references.findLast(isPosition)
        const next = previous === undefined ? 0 : getNextPosition(previous)
        let count = 0
        while (at + count < messages.length && messages[at + count] === stored[next + count]) count++
        pushReference(
          references,
          count === 0 ? nameMessage(message, next) : count === 1 ? next : [next, next + count - 1]
        )
        for (const one of messages.slice(at, at + Math.max(1, count))) asked.push(one)
      }
      // A list that grew has space for more items, which its copy does not have.
      named = references.slice()
      return named
    },
    offered: (tools) => {
      if (tools.length === 0) return undefined
      const id = hashTools(tools, hash)
      if (!written.has(id)) {
        written.add(id)
        write({
          _tag: "ToolsOffered",
          hash: id,
          definitions: tools.map(({ description, name, parameters }) => ({ name, description, parameters }))
        })
      }
      return id
    },
    flush,
    isHeard,
    storing,
    deferred: (write) => {
      if (together === undefined) return write
      return Effect.sync(() => {
        waiting = [...waiting, { write, told: undefined, after: buffer.length }]
      })
    },
    postponed: (write, told) => {
      if (together === undefined) return Effect.map(write, told)
      return Effect.sync(() => {
        // `told` is called with the success value of its write.
        waiting = [...waiting, { write, told: told as (value: unknown) => void, after: buffer.length }]
      })
    },
    settled: Effect.suspend(() => (waiting.some(({ told }) => told !== undefined) ? storing(Effect.void) : Effect.void))
  }
}
