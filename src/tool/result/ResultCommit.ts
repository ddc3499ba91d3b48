/**
 * Closes the calls of a batch as they end, each result within its limit and all within the budget of the batch.
 *
 * **Details**
 *
 * The budget takes the largest results first, which nobody knows before all are there. But a result of no more than an equal
 * share of the budget is never one of them, and is closed at once, so that it outlives a crash of the process; a larger one
 * waits for the others. An interrupt closes those that wait.
 *
 * Source: `hermes-llm.md` §19.9.
 */
import * as Effect from "effect/Effect"
import * as Bounds from "../Bounds.ts"

/** A batch: what ends with `A`, is closed as `B`. */
export interface Work<A, B, E, R> {
  readonly work: ReadonlyArray<Effect.Effect<A, E, R>>
  readonly concurrency: number
  readonly limits: Bounds.Limits
  /** Measures a result for the limits. */
  readonly measure: (ended: A) => Bounds.Result
  /** Closes a call with the text that the model gets. */
  readonly close: (ended: A, text: string) => Effect.Effect<B, E, R>
}

interface Waiting<A> {
  readonly index: number
  readonly ended: A
  readonly result: Bounds.Result
}

/** Closes every result; the answers are in the order of the work. */
export const settle = <A, B, E, R>(
  { close, concurrency, limits, measure, work }: Work<A, B, E, R>
): Effect.Effect<ReadonlyArray<B>, E, R> =>
  Effect.suspend(() => {
    const share = limits.perTurn / Math.max(1, work.length)
    const waiting: Array<Waiting<A>> = []
    const closed = new Map<number, B>()
    let spent = 0

    const closeAs = (index: number, ended: A, text: string) =>
      Effect.map(close(ended, text), (answer) => {
        closed.set(index, answer)
      })
    const end = (index: number, ended: A): Effect.Effect<void, E, R> => {
      const result = measure(ended)
      return Effect.flatMap(Bounds.bound(result, limits), (text) => {
        if (text === result.text && text.length > share && Bounds.isMovable(result)) {
          waiting.push({ index, ended, result })
          return Effect.void
        }
        spent += text.length
        return closeAs(index, ended, text)
      })
    }
    // Whole or not at all: nobody would close the rest.
    const closeWaiting: Effect.Effect<void, E, R> = Effect.uninterruptible(Effect.suspend(() => {
      const late = waiting.splice(0)
      if (late.length === 0) return Effect.void
      const left = { ...limits, perTurn: Math.max(0, limits.perTurn - spent) }
      return Effect.flatMap(Bounds.boundAll(late.map(({ result }) => result), left), (texts) =>
        Effect.forEach(late, ({ ended, index, result }, at) => closeAs(index, ended, texts[at] ?? result.text), { discard: true }))
    }))

    return Effect.forEach(work, (one, index) => Effect.flatMap(one, (ended) => end(index, ended)), { concurrency, discard: true }).pipe(
      Effect.onInterrupt(() => closeWaiting),
      Effect.andThen(closeWaiting),
      Effect.map(() => Array.from(closed).sort(([a], [b]) => a - b).map(([, answer]) => answer))
    )
  })
