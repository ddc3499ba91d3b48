/**
 * Watches the working trees of a sandbox: files that commands create there and that other programs would run later are
 * renamed when the command has ended, and every few seconds while it runs.
 *
 * **Details**
 *
 * The rules of the sandbox protect files that existed before a command started. New files are attributed to the
 * command, except files that file tools wrote after asking the user. A scan before a command treats all existing files
 * as the user's.
 *
 * **Gotchas**
 *
 * A file that the user creates while a command runs is attributed to the command: it is renamed and reported, and the
 * user can keep it.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { isLaterPath } from "./LaterFiles.ts"
import { isWithin } from "./SandboxRules.ts"
import { putBack, setAside, type SetAside } from "./SetAside.ts"
import { describePlace, type LaterPlace, scanTree, type TreeScan } from "./TreeScan.ts"

/** Time in milliseconds for which a scan stays valid while no command runs. */
const lookMillis = 1000
/** Minimum pause between scans while a command runs, in milliseconds. Scans use at most a hundredth of the time. */
const pauseMillis = 2000
const pauseRatio = 100

/** Watch state of one tree. */
interface TreeState {
  readonly tree: string
  readonly lock: Semaphore.Semaphore
  /** Number of running commands that may write the tree. */
  running: number
  last: { readonly scan: TreeScan; readonly at: number; readonly took: number } | undefined
  /** Links to the program in the tree, as found by the first scan. */
  links: ReadonlyArray<LaterPlace>
}

/** Watches working trees. */
export interface TreeWatch {
  /** Scans a tree, unless it was scanned very recently. */
  readonly lookThrough: (tree: string) => Effect.Effect<TreeScan>
  /** Watches a tree while a command runs that may write it, until the scope closes. */
  readonly whileRunning: (tree: string) => Effect.Effect<void, never, Scope.Scope>
  /** Accepts a file that a file tool writes. */
  readonly admit: (place: string) => void
  /** Files that were set aside since the last call. */
  readonly takeSetAside: Effect.Effect<ReadonlyArray<SetAside>>
  /** Restores the name of a file. */
  readonly keep: (file: SetAside) => Effect.Effect<void, PlatformError>
}

/** Parts of a sandbox that a watch requires. */
export interface Options {
  readonly home: string | undefined
  /** Links that lead to the program. */
  readonly links: Effect.Effect<ReadonlyArray<string>>
  /** Places that the user made writable for commands. They are not watched if they are inside a tree. */
  readonly writable: ReadonlyArray<string>
  /** Called when the findings in a tree changed. */
  readonly onChange: () => void
}

const computePause = ({ last }: TreeState): number => Math.max(pauseMillis, pauseRatio * (last?.took ?? 0))

const isSame = (one: LaterPlace, other: LaterPlace | undefined): boolean =>
  other !== undefined && one.link === other.link && (one.link === undefined || one.isThere === other.isThere)

const describeScan = ({ environmentFiles, laterPlaces, repositories }: TreeScan): string =>
  JSON.stringify([repositories, laterPlaces.map(({ path }) => path).toSorted(), environmentFiles.toSorted()])

/** Renamed files, and files that are allowed to exist. */
interface Ledger {
  moved: ReadonlyArray<SetAside>
  readonly admitted: Set<string>
}

/** Renames a planted file. `original` is the target of the program's link that the file replaced, if any. */
const removePlanted = (ledger: Ledger, place: string, original: string | undefined) =>
  setAside(place, original).pipe(
    Effect.tap((file) => {
      ledger.moved = [...ledger.moved, file]
      return Effect.logWarning(
        `the sandbox renamed ${place} to ${file.now}: a command made it, and programs run something from it later`
      )
    }),
    Effect.catchIf(
      ({ reason }) => reason._tag === "NotFound",
      () => Effect.void
    ),
    Effect.catch(({ message }) =>
      Effect.logWarning(`a command made ${place}, from which something runs later; it could not be renamed: ${message}`)
    )
  )

/** Restores a link to the program that a command replaced. */
const restoreLink = Effect.fnUntraced(function* (ledger: Ledger, { link, path }: LaterPlace) {
  const fs = yield* FileSystem.FileSystem
  const now = yield* describePlace(path)
  if (link === undefined || now.link === link) return
  const isGone = !(yield* Effect.isSuccess(fs.lstat(path)))
  if (isGone) yield* Effect.ignore(fs.symlink(link, path))
  else yield* removePlanted(ledger, path, link)
})

/** Renames the new files of a tree. Returns the findings that may stay. */
const sweepTree = Effect.fnUntraced(function* (
  ledger: Ledger,
  { links }: TreeState,
  before: TreeScan,
  found: TreeScan
) {
  const known = new Map(before.laterPlaces.map((place) => [place.path, place]))
  const isAdmitted = (place: string) => [...ledger.admitted].some((file) => isWithin(file, place))
  const isPlanted = (place: LaterPlace) => !isSame(place, known.get(place.path)) && !isAdmitted(place.path)
  const planted = found.laterPlaces.filter(isPlanted)
  yield* Effect.forEach(planted, ({ path }) => removePlanted(ledger, path, known.get(path)?.link), { discard: true })
  yield* Effect.forEach(links, (link) => restoreLink(ledger, link), { discard: true })
  const restored = planted.map(({ path }) => known.get(path)).filter((place) => place?.link !== undefined)
  const kept = [...found.laterPlaces.filter((place) => !planted.includes(place)), ...restored]
  return { ...found, laterPlaces: kept.filter((place) => place !== undefined) }
})

/** Adds a place to the findings of the trees that contain it. */
const acceptPlace = (states: Iterable<TreeState>, place: LaterPlace): void => {
  for (const state of states) {
    if (state.last === undefined || !isWithin(place.path, state.tree)) continue
    const { scan } = state.last
    state.last = { ...state.last, scan: { ...scan, laterPlaces: [...scan.laterPlaces, place] } }
  }
}

/** The watched trees, and the files that were found in them. */
interface WatchState extends Options {
  readonly services: Context.Context<FileSystem.FileSystem | Path.Path>
  readonly scope: Scope.Scope
  readonly states: Map<string, TreeState>
  readonly ledger: Ledger
}

const findState = Effect.fnUntraced(function* ({ states }: WatchState, tree: string) {
  const known = states.get(tree)
  if (known !== undefined) return known
  const state: TreeState = { tree, lock: yield* Semaphore.make(1), running: 0, last: undefined, links: [] }
  states.set(tree, state)
  return state
})

/** Scans a tree, except the places that the user made writable for commands. */
const scanWatched = Effect.fnUntraced(function* ({ writable, home }: WatchState, { last, tree }: TreeState) {
  const given = writable.filter((place) => place !== tree && isWithin(place, tree))
  const found = yield* scanTree(tree, { first: last?.scan.directories ?? [], home })
  const laterPlaces = found.laterPlaces.filter(({ path }) => !given.some((place) => isWithin(path, place)))
  return { ...found, laterPlaces }
})

const refreshScan = Effect.fnUntraced(
  function* (watch: WatchState, state: TreeState) {
    const { ledger } = watch
    const start = yield* Clock.currentTimeMillis
    const { last, running, tree } = state
    if (last !== undefined && running === 0 && start < last.at + lookMillis) return last.scan
    const found = yield* scanWatched(watch, state)
    if (last === undefined) {
      const inside = (yield* watch.links).filter((place) => isWithin(place, tree))
      state.links = yield* Effect.forEach(inside, describePlace)
    }
    const scan = last === undefined || running === 0 ? found : yield* sweepTree(ledger, state, last.scan, found)
    if (running === 0) ledger.admitted.clear()
    if (last !== undefined && describeScan(last.scan) !== describeScan(scan)) watch.onChange()
    const at = yield* Clock.currentTimeMillis
    state.last = { scan, at, took: at - start }
    return scan
  },
  (scan, { services }) => Effect.provideContext(scan, services)
)

const lookOnce = (watch: WatchState, state: TreeState): Effect.Effect<TreeScan> =>
  Effect.uninterruptible(state.lock.withPermit(Effect.suspend(() => refreshScan(watch, state))))

/** Scans the tree again, unless a scan of another command is recent enough. */
const lookWhereDue = Effect.fnUntraced(function* (watch: WatchState, state: TreeState) {
  const now = yield* Clock.currentTimeMillis
  if (now >= (state.last?.at ?? 0) + computePause(state)) yield* lookOnce(watch, state)
})

const lookAgain = (watch: WatchState, state: TreeState): Effect.Effect<unknown> =>
  Effect.schedule(
    lookWhereDue(watch, state),
    // The longer a scan takes, the longer is the pause after it.
    Schedule.addDelay(Schedule.forever, () => Effect.sync(() => computePause(state)))
  )

const whileRunning = Effect.fnUntraced(function* (watch: WatchState, tree: string) {
  const state = yield* findState(watch, tree)
  yield* Effect.acquireRelease(
    Effect.suspend(() => {
      state.running++
      return Effect.forkIn(lookAgain(watch, state), watch.scope)
    }),
    (watcher) =>
      Fiber.interrupt(watcher).pipe(
        Effect.andThen(lookOnce(watch, state)),
        Effect.andThen(Effect.sync(() => void state.running--))
      )
  )
})

/** Creates a watch that ends when the scope closes. */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<TreeWatch, never, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const ledger: Ledger = { moved: [], admitted: new Set() }
  const states: WatchState["states"] = new Map()
  const watch: WatchState = { ...options, services, scope: yield* Effect.scope, states, ledger }
  return {
    lookThrough: (tree) => Effect.flatMap(findState(watch, tree), (state) => lookOnce(watch, state)),
    whileRunning: (tree) => whileRunning(watch, tree),
    admit: (place) => {
      if (isLaterPath(place)) ledger.admitted.add(place)
    },
    takeSetAside: Effect.sync(() => {
      const taken = ledger.moved
      ledger.moved = []
      return taken
    }),
    keep: Effect.fnUntraced(function* (file) {
      yield* putBack(file)
      acceptPlace(states.values(), yield* describePlace(file.path))
      options.onChange()
    }, Effect.provideContext(services))
  }
})
