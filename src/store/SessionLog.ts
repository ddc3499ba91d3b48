/**
 * The entries of one session in the in-memory run record. An idle session holds its events, and the facts that its
 * entries share are stored once: the entries themselves are created when they are read.
 */
import type { SessionId, TurnId } from "../base/domain/Ids.ts"
import type { Entry, RecordEvent } from "../base/domain/RecordEvent.ts"

/** A turn, and the index of the first entry that belongs to it. */
interface TurnStart {
  readonly turnId: TurnId
  readonly from: number
}

/** An entry with its position among the entries of all sessions. */
export interface LoggedEntry {
  readonly entry: Entry
  readonly position: number
}

/** The entries of one session, the oldest first. */
export class SessionLog {
  readonly #sessionId: SessionId
  #events: Array<RecordEvent> = []
  #times: Array<number> = []
  #positions: Array<number> = []
  /** A turn is listed again if entries of another turn precede its entry. */
  #turns: Array<TurnStart> = []
  #known: Set<string> | undefined
  /** Number of characters of the messages. */
  characters = 0

  constructor(sessionId: SessionId) {
    this.#sessionId = sessionId
  }

  /** Number of entries. */
  get size(): number {
    return this.#events.length
  }

  /** Adds a key of content that is stored once. Returns false if the session has it already. */
  addKey(key: string): boolean {
    if (this.#known?.has(key) === true) return false
    this.#known = (this.#known ?? new Set()).add(key)
    return true
  }

  /** Adds an entry of the session with its position, which is larger than all positions before. */
  add({ at, event, turnId }: Entry, position: number): void {
    if (this.#turns.at(-1)?.turnId !== turnId) this.#turns.push({ turnId, from: this.size })
    this.#events.push(event)
    this.#times.push(at)
    this.#positions.push(position)
  }

  /** Returns all entries, each as a new object. */
  list(): ReadonlyArray<LoggedEntry> {
    let turn = 0
    return this.#events.map((event, index) => {
      while ((this.#turns[turn + 1]?.from ?? Infinity) <= index) turn++
      // Every entry follows the start of its turn, and the lists have the same length.
      const { turnId } = this.#turns[turn] as TurnStart
      const at = this.#times[index] ?? 0
      return { entry: { sessionId: this.#sessionId, turnId, at, event }, position: this.#positions[index] ?? 0 }
    })
  }

  /** Removes the entries up to a position, with the keys of their content. Returns the removed entries. */
  dropUntil(last: number, findKey: (entry: Entry) => string | undefined): ReadonlyArray<Entry> {
    const found = this.#positions.findIndex((position) => position > last)
    const number = found === -1 ? this.size : found
    const dropped = this.list()
      .slice(0, number)
      .map(({ entry }) => entry)
    const current = this.#turns.findLast(({ from }) => from <= number)
    this.#events = this.#events.slice(number)
    this.#times = this.#times.slice(number)
    this.#positions = this.#positions.slice(number)
    this.#turns = this.#turns.flatMap((turn) =>
      turn === current ? [{ ...turn, from: 0 }] : turn.from > number ? [{ ...turn, from: turn.from - number }] : []
    )
    for (const entry of dropped) {
      const key = findKey(entry)
      if (key !== undefined) this.#known?.delete(key)
    }
    return dropped
  }
}
