/**
 * A list to which several layers contribute, such as middleware, hooks and toolsets. Layers are built concurrently, so
 * the position of an addition decides its place, never the time at which it was made.
 *
 * **Details**
 *
 * `outermost` is before the list, `innermost` after it. `before` and `after` name an entry of the list or of another
 * addition; of several entries with that name, `before` refers to the first and `after` to the last. Entries of one
 * addition stay together, in their order. Additions at one position are ordered by the names of their entries.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ConfigError } from "./AgentError.ts"
import { findNearest } from "./Similarity.ts"

/** Position of an addition; see the top of this file. */
export type Position = "outermost" | "innermost" | { readonly before: string } | { readonly after: string }

/** Entries that a layer adds to a list. */
export interface Addition<out A> {
  readonly entries: ReadonlyArray<A>
  readonly position: Position
}

/** Kind of a list, for its order and its messages. */
export interface ListKind<in A> {
  /** Function that adds to the list: the `path` of errors. */
  readonly path: string
  /** An entry in messages: `hook`. */
  readonly noun: string
  readonly getName: (entry: A) => string
  /** Orders additions at one position; the name when absent. */
  readonly getKey?: ((entry: A) => string) | undefined
}

/** A list in order. Additions whose position is wrong come last; `problem` is the first such mistake. */
export interface Arrangement<out A> {
  readonly entries: ReadonlyArray<A>
  readonly problem: ConfigError | undefined
}

type RelativePosition = Exclude<Position, string>

interface RelativeAddition<out A> extends Addition<A> {
  readonly position: RelativePosition
}

const isRelative = <A>(addition: Addition<A>): addition is RelativeAddition<A> => typeof addition.position !== "string"

const getAnchor = (position: RelativePosition): string => ("before" in position ? position.before : position.after)

const formatPosition = (position: Position): string =>
  typeof position === "string" ? position : `${"before" in position ? "before" : "after"} "${getAnchor(position)}"`

const joinKeys = <A>({ getKey, getName }: ListKind<A>, { entries }: Addition<A>): string =>
  entries.map(getKey ?? getName).join(" ")

/** The mistake of two additions whose order nothing decides. */
const findAmbiguity = <A>(kind: ListKind<A>, sorted: ReadonlyArray<Addition<A>>): ConfigError | undefined => {
  const seen = new Map<string, Addition<A>>()
  for (const addition of sorted) {
    const place = formatPosition(addition.position)
    const key = `${place} ${joinKeys(kind, addition)}`
    const other = seen.get(key)
    seen.set(key, addition)
    // One entry added twice has no order.
    if (other === undefined || other.entries.every((entry, index) => entry === addition.entries[index])) continue
    return new ConfigError({
      path: kind.path,
      message:
        `two additions at the position ${place} have the same names ` +
        `(${addition.entries.map(kind.getName).join(", ")}): name them differently, or place one before or after an entry`
    })
  }
  return undefined
}

/** The mistake of an addition whose entry was not found. */
const explainUnplaced = <A>(
  { getName, noun, path }: ListKind<A>,
  { entries, position }: RelativeAddition<A>,
  placed: ReadonlyArray<string>,
  waiting: ReadonlyArray<string>
): ConfigError => {
  const anchor = getAnchor(position)
  const subject = `${noun} "${entries.map(getName).join(", ")}" is placed ${formatPosition(position)}`
  if (waiting.includes(anchor))
    return new ConfigError({
      path,
      message: `${subject}, whose own place depends on it: give one of them another position`
    })
  const known = [...placed, ...waiting]
  const meant = findNearest(anchor, known)
  return new ConfigError({
    path,
    message:
      `${subject}: there is no ${noun} with this name` +
      (meant === undefined ? ` (known: ${known.join(", ") || "none"})` : `, did you mean "${meant}"?`)
  })
}

/** Inserts additions next to the entries that they name. */
const insertAdditions = <A>(
  getName: (entry: A) => string,
  entries: ReadonlyArray<A>,
  additions: ReadonlyArray<RelativeAddition<A>>
): ReadonlyArray<A> => {
  const names = entries.map(getName)
  const selectBeside = (side: "before" | "after", name: string): ReadonlyArray<A> =>
    additions.flatMap((addition) =>
      side in addition.position && getAnchor(addition.position) === name ? addition.entries : []
    )
  return entries.flatMap((entry, index) => {
    const name = getName(entry)
    return [
      ...(names.indexOf(name) === index ? selectBeside("before", name) : []),
      entry,
      ...(names.lastIndexOf(name) === index ? selectBeside("after", name) : [])
    ]
  })
}

/** Arranges a list with its additions. The result does not depend on the order of `additions`. */
export const arrange = <A>(
  kind: ListKind<A>,
  list: ReadonlyArray<A>,
  additions: Iterable<Addition<A>>
): Arrangement<A> => {
  const keyed = Array.from(additions, (addition) => ({ addition, key: joinKeys(kind, addition) }))
  const sorted = keyed.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map(({ addition }) => addition)
  const selectAt = (position: Position): ReadonlyArray<A> =>
    sorted.flatMap((addition) => (addition.position === position ? addition.entries : []))
  let entries: ReadonlyArray<A> = [...selectAt("outermost"), ...list, ...selectAt("innermost")]
  let waiting = sorted.filter(isRelative)
  while (waiting.length > 0) {
    const names = new Set(entries.map(kind.getName))
    const next = waiting.filter(({ position }) => names.has(getAnchor(position)))
    if (next.length === 0) break
    entries = insertAdditions(kind.getName, entries, next)
    waiting = waiting.filter((addition) => !next.includes(addition))
  }
  const [unplaced] = waiting
  const rest = waiting.flatMap((addition) => addition.entries)
  return {
    entries: [...entries, ...rest],
    problem:
      unplaced === undefined
        ? findAmbiguity(kind, sorted)
        : explainUnplaced(kind, unplaced, entries.map(kind.getName), rest.map(kind.getName))
  }
}

/**
 * Part of a list besides its additions: `first` (plugins), `listed` (the list of the application), `last` (entries
 * registered while the application runs). Entries of a part are in the order of registration.
 */
export type Zone = "first" | "listed" | "last"

/** A list whose entries come and go with scopes. */
export interface OrderedList<A> {
  /** The entries in order. */
  readonly entries: () => ReadonlyArray<A>
  /** Appends an entry to a part of the list for as long as the scope lives. */
  readonly append: (entry: A, zone: Zone) => Effect.Effect<void, never, Scope.Scope>
  /** Adds entries at a position for as long as the scope lives. Fails for a wrong position of a settled list. */
  readonly add: (entries: ReadonlyArray<A>, position: Position) => Effect.Effect<void, ConfigError, Scope.Scope>
  /** Checks all positions. Until then an addition may name an entry that is added later. */
  readonly settle: Effect.Effect<void, ConfigError>
}

/** An empty list. `onChange` receives its entries after each change. */
export const make = <A>(kind: ListKind<A>, onChange: (entries: ReadonlyArray<A>) => void): OrderedList<A> => {
  const zones: Record<Zone, ReadonlyArray<A>> = { first: [], listed: [], last: [] }
  const additions = new Set<Addition<A>>()
  let arrangement: Arrangement<A> = { entries: [], problem: undefined }
  let isSettled = false

  const updateOrder = (): void => {
    const { entries, problem } = arrange(kind, zones.listed, additions)
    arrangement = { entries: [...zones.first, ...entries, ...zones.last], problem }
    onChange(arrangement.entries)
  }
  const settle = Effect.suspend(() => {
    isSettled = true
    return arrangement.problem === undefined ? Effect.void : Effect.fail(arrangement.problem)
  })

  const appendEntry: OrderedList<A>["append"] = (entry, zone) =>
    Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => {
          zones[zone] = [...zones[zone], entry]
          updateOrder()
        }),
        () =>
          Effect.sync(() => {
            zones[zone] = zones[zone].filter((other) => other !== entry)
            updateOrder()
          })
      )
    )

  const addEntries: OrderedList<A>["add"] = (entries, position) =>
    Effect.gen(function* () {
      const addition: Addition<A> = { entries, position }
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          additions.add(addition)
          updateOrder()
        }),
        () =>
          Effect.sync(() => {
            additions.delete(addition)
            updateOrder()
          })
      )
      if (isSettled) yield* settle
    })

  return { entries: () => arrangement.entries, append: appendEntry, add: addEntries, settle }
}
