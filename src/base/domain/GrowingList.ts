/**
 * Folds of lists that grow at their end, such as the messages of a session: each call processes only the new items, not
 * the whole list.
 *
 * **Details**
 *
 * Two states are cached while the list is in use: the state of the common beginning of the two
 * newest lists, and the state at the previous change. A list that shares this beginning continues from the first state,
 * so replacing the last item is cheap. A list that differs earlier continues from the second state, or else is
 * processed from its beginning. Apart from this, each call costs one reference comparison per item, and one call of
 * `copy`.
 *
 * Items are compared by identity, so an item in a list must never change. The states of the 64 lists that
 * were used last are retained. The states of other lists exist until memory is needed, and are made again when their
 * list is used again: a session that waits for its next prompt holds its messages alone.
 */

/** A fold whose state is changed in place. The state must depend only on the added items. */
interface Fold<Item, State> {
  readonly begin: () => State
  readonly add: (state: State, item: Item) => void
  /** Returns an independent copy of the state. */
  readonly copy: (state: State) => State
}

/** Progress for all lists that begin with the same item. */
interface Progress<Item, State> {
  /** The newest list. */
  readonly items: Array<Item>
  state: State
  /** Number of items that `state` contains. */
  length: number
  /** State of the items before the last change; `undefined` if the lists have only grown. */
  base: { readonly state: State; readonly length: number } | undefined
}

/** Number of lists whose states are retained. */
const maxInUse = 64

/** Retains the values that were used last, by the order of their use. */
const makeRecentUse = <A>(): ((value: A) => void) => {
  const recent = new Set<A>()
  let newest: A | undefined
  return (value) => {
    if (value === newest) return
    newest = value
    recent.delete(value)
    recent.add(value)
    if (recent.size <= maxInUse) return
    for (const oldest of recent) {
      recent.delete(oldest)
      return
    }
  }
}

/** Creates a function that folds a list and returns the resulting state. The caller may modify the returned state. */
export const fold = <Item extends object, State>({
  add,
  begin,
  copy
}: Fold<Item, State>): ((items: ReadonlyArray<Item>) => State) => {
  const known = new WeakMap<Item, WeakRef<Progress<Item, State>>>()
  const noteUse = makeRecentUse<Progress<Item, State>>()
  const addFrom = (state: State, items: ReadonlyArray<Item>, from: number, to: number): State => {
    for (let at = from; at < to; at++) {
      const item = items[at]
      if (item !== undefined) add(state, item)
    }
    return state
  }
  return (items) => {
    const [first] = items
    if (first === undefined) return begin()
    let progress = known.get(first)?.deref()
    if (progress === undefined) {
      progress = { items: [], state: begin(), length: 0, base: undefined }
      known.set(first, new WeakRef(progress))
    }
    noteUse(progress)
    const before = progress.items
    let common = 0
    while (common < before.length && before[common] === items[common]) common++
    const isChanged = common < progress.length
    if (isChanged) {
      const base = progress.base !== undefined && progress.base.length <= common ? progress.base : undefined
      progress.state = base === undefined ? begin() : copy(base.state)
      progress.length = base?.length ?? 0
    }
    // If `add` throws, the state must not be used again, because it may contain a part of an item.
    const from = progress.length
    progress.length = Infinity
    addFrom(progress.state, items, from, common)
    progress.length = common
    if (isChanged) progress.base = { state: copy(progress.state), length: common }
    before.length = common
    for (let at = common; at < items.length; at++) before.push(items[at] as Item) // `at` is in the list
    return addFrom(copy(progress.state), items, common, items.length)
  }
}
