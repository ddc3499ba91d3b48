/**
 * Reads a stream of single events in arrays: all that can be had without waiting for the network come together, so that
 * what is done with them is done once for each read of the socket.
 *
 * **Details**
 *
 * The AWS SDK decodes one event after the other, without ever leaving the microtask queue while it has bytes. So an array
 * is full when the event loop gets its turn. Nothing is read ahead beyond one event.
 *
 * @since 0.1.0
 */

/** Events in arrays, none of them empty. */
export interface Batches<A> {
  readonly next: () => Promise<ReadonlyArray<A> | undefined>
}

const turn = (): Promise<"turn"> => new Promise((resolve) => setImmediate(() => resolve("turn")))

/** The events of a stream; undefined after the last one. A stream that fails does so after its last array. */
export const of = <A>(stream: AsyncIterable<A>): Batches<A> => {
  const iterator = stream[Symbol.asyncIterator]()
  let pending: Promise<IteratorResult<A>> | undefined
  return {
    next: async () => {
      const first = await (pending ?? iterator.next())
      pending = undefined
      if (first.done === true) return undefined
      const batch = [first.value]
      const over = turn()
      while (pending === undefined) {
        const coming = iterator.next()
        const settled = await Promise.race([coming.then((item) => item.done === true ? "done" : item, () => "failed"), over])
        if (typeof settled === "string") pending = coming
        else batch.push(settled.value)
      }
      return batch
    }
  }
}
