/**
 * Writes the trajectory of each session to a separate file: with the steps so far during a run, and whole after it.
 *
 * **Details**
 *
 * A file is replaced atomically, and only its owner can read it. It exists from the first model call or tool call on,
 * so that a program that is killed leaves the steps so far. During a run it is written at most once per
 * {@link interval}, and its `extra` has `unfinished`. The end of a run is written at once. Each finished run is encoded
 * once. The file of a long session is written at most once per {@link interval} after runs that follow each other
 * quickly. Children are in the file of
 * their parent; in mode `all` each child also has its own file, named after its session. A session without a step has
 * no file. A failed write logs one warning and is retried after the next run.
 *
 * **Gotchas**
 *
 * A template must contain `{session_id}`. Without it, the field is inserted before the extension, with a warning, so
 * that sessions do not overwrite each other. Characters of an id that are invalid in a file name become `_`.
 *
 * The runs of a session stay in memory until the session is abandoned, because its next run extends the same file. A
 * session that continues later, or in another process, gets a separate file with `-2`, `-3` and so on before the
 * extension. That file contains the earlier runs as copied context. The previous file names it in
 * `continued_trajectory_ref`; no file is overwritten. Likewise, the last file of a compacted session names the first
 * file of the session that continues it.
 *
 * Source: `hermes-contract.md` §4.2 and §4.6, `relay-atof-atif.md` §2.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Ids from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import * as Digest from "../base/platform/Digest.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import * as Atif from "./Atif.ts"
import * as Draft from "./atif/Draft.ts"
import * as FromRuns from "./atif/FromRuns.ts"
import type { Pictures } from "./atif/RunContent.ts"
import { toFields, toNonEmptyText } from "./atif/Value.ts"
import * as EntrySlices from "./EntrySlices.ts"
import { writeInDirectory } from "./OutputDirectory.ts"
import * as RunTree from "./RunTree.ts"

/** Directory, file names and agent name of the documents. */
export interface Options {
  readonly directory: string
  /** Template of the file names, for example `hermes-atif-{session_id}.json`. */
  readonly filenameTemplate: string
  readonly agentName?: string | undefined
  readonly agentVersion?: string | undefined
  /** Model name of trajectories whose run record contains no model name. */
  readonly modelName?: string | undefined
  readonly subagents: "embedded" | "all"
}

/** Returns the template to use, and a warning if the given template is invalid. */
export const checkTemplate = (given: string): { readonly template: string; readonly warning: string | undefined } => {
  const name = given.split(/[/\\]/u).at(-1) ?? given
  if (name === given && name.includes("{session_id}")) return { template: name, warning: undefined }
  const dot = name.lastIndexOf(".")
  const fixed = name.includes("{session_id}")
    ? name
    : dot <= 0
      ? `${name}-{session_id}`
      : `${name.slice(0, dot)}-{session_id}${name.slice(dot)}`
  return {
    template: fixed,
    warning:
      `the ATIF file name template "${given}" cannot be used, "${fixed}" is: ` +
      `it must be a file name with {session_id}`
  }
}

/** Returns the file name of a session. */
export const formatFileName = (template: string, sessionId: string): string =>
  template.replaceAll("{session_id}", Ids.toFileName(sessionId))

/** Returns the name of the nth file of a session, counted from 1. */
const formatSegmentName = (name: string, n: number): string => {
  const dot = name.lastIndexOf(".")
  return n === 1 ? name : dot <= 0 ? `${name}-${n}` : `${name.slice(0, dot)}-${n}${name.slice(dot)}`
}

/**
 * Returns the session whose compacted conversation a trajectory continues, or `undefined` for all other trajectories,
 * including copies for a replay.
 */
const findContinuedSession = ({ extra }: Atif.Trajectory): string | undefined => {
  const { context_rewritten: rewritten, session_id: id } = toFields(extra?.["continues"])
  return rewritten === undefined ? undefined : toNonEmptyText(id)
}

/**
 * Returns trajectories with their file names. The files of one session are numbered, and each refers to the next. The
 * last file refers to the first file of the session that continues it.
 */
export const nameSegments = (
  template: string,
  trajectories: ReadonlyArray<Atif.Trajectory>
): ReadonlyArray<{ readonly name: string; readonly trajectory: Atif.Trajectory }> => {
  const counts = new Map<string, number>()
  const named = trajectories.map((trajectory) => {
    const name = formatFileName(template, trajectory.session_id ?? "unknown")
    const n = (counts.get(name) ?? 0) + 1
    counts.set(name, n)
    return { first: name, n, trajectory }
  })
  return named.map(({ first, n, trajectory }) => {
    const next =
      n < (counts.get(first) ?? n)
        ? formatSegmentName(first, n + 1)
        : named.find((other) => other.n === 1 && findContinuedSession(other.trajectory) === trajectory.session_id)
            ?.first
    return {
      name: formatSegmentName(first, n),
      trajectory: next === undefined ? trajectory : { ...trajectory, continued_trajectory_ref: next }
    }
  })
}

/**
 * Returns the path of an image file, relative to the directory of the documents. It is derived from the image's bytes,
 * so each image is stored once.
 */
export const formatPictureName = (mediaType: string, bytes: Uint8Array): string =>
  `images/${Digest.toHex(bytes, 32)}.${mediaType.slice("image/".length).replace("jpeg", "jpg")}`

/** Creates a collector of the images in documents, by the file names that the documents use for them. */
export const makePictureCollector = () => {
  const found = new Map<string, Uint8Array>()
  const addPicture: Pictures = (mediaType, bytes) => {
    const name = formatPictureName(mediaType, bytes)
    found.set(name, bytes)
    return name
  }
  return { found, place: addPicture }
}

/** Returns the text of a document as it is written to a file. */
export const render = (trajectory: Atif.Trajectory): string => Draft.makeTrajectoryEncoder()(trajectory)

/** Returns the document followed by all its descendants. Each child comes before its own children. */
const flattenTrajectories = (trajectory: Atif.Trajectory): ReadonlyArray<Atif.Trajectory> => [
  trajectory,
  ...(trajectory.subagent_trajectories ?? []).flatMap(flattenTrajectories)
]

/**
 * Minimum time between two writes of a document during a run, and between the writes after two runs if the document has
 * {@link shortChars} or more characters, in milliseconds.
 */
const interval = 1000

/** Minimum time between two writes during a run, as a multiple of the time that the last one took. */
const restFactor = 20

/** Length from which rewriting a document is expensive, in characters. */
const shortChars = 131_072

/** State of the document of a root session, that is, a session that no other session started. */
interface DocumentState {
  readonly trajectory: FromRuns.GrowingTrajectory
  readonly toText: (trajectory: Atif.Trajectory) => string
  /** Images that have not been written yet, by file name. */
  readonly found: Map<string, Uint8Array>
  /** Session ids of children that have ended and have no file yet. */
  readonly ended: Set<string>
  /** Session ids of children, at any depth, that are still running. */
  readonly running: Set<string>
  /** True if the session was abandoned. Its background children may still be running. */
  isGivenUp: boolean
  /** True if the session changed after its document was written. */
  isChanged: boolean
  /** Earliest time of the next write after the end of a run, in epoch milliseconds. */
  nextAt: number
  /** Earliest time of the next write during a run, in epoch milliseconds. */
  growsAt: number
}

/** Tests whether an entry adds a step or a result to the document of a session whose run continues. */
const isGrowth = ({ event }: Entry): boolean =>
  event._tag === "AttemptEnded" || event._tag === "CallEnded" || event._tag === "ChildEnded"

/** Writes documents of the runs that it receives. */
interface Writer {
  /**
   * Takes entries. Returns the number of milliseconds after which it must be called again. If there are no new entries
   * by then, the list is empty.
   */
  readonly write: (entries: ReadonlyArray<Entry>) => Effect.Effect<number | undefined>
  /** Writes all changes since the last run ended. */
  readonly close: Effect.Effect<void>
}

/**
 * Creates a writer. `earlier` reads the entries of a session that were recorded before the given turn. `isStored` tests
 * whether a session was not removed: the document of a removed session is not written again.
 */
export const make = (
  options: Options,
  earlier: (sessionId: string, turnId: string) => Effect.Effect<ReadonlyArray<Entry>>,
  isStored: (sessionId: string) => Effect.Effect<boolean> = () => Effect.succeed(true)
): Effect.Effect<Writer, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const tree = RunTree.make()
    const told = new Set<string>()
    const warnOnce = (message: string): Effect.Effect<void> => {
      if (told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(message)
    }
    const chosen = checkTemplate(options.filenameTemplate)
    if (chosen.warning !== undefined) yield* warnOnce(chosen.warning)

    const catchWriteError = <A>(effect: Effect.Effect<A, PlatformError>): Effect.Effect<A | void> =>
      Effect.catch(effect, (error) =>
        warnOnce(
          `ATIF files cannot be written to ${options.directory}: ${error.message}: ` +
            `choose another directory or free some space`
        )
      )

    const replaceFile = Effect.fnUntraced(function* (path: string, text: string) {
      yield* fs.writeFileString(`${path}.draft`, text, { mode: 0o600 })
      yield* fs.rename(`${path}.draft`, path)
    })

    /**
     * Adds to the previous file a reference to the file that continues it. A file that is not a trajectory of the
     * session is not changed.
     */
    const linkContinuation = Effect.fnUntraced(function* (
      before: string,
      name: string,
      sessionId: string | null | undefined
    ) {
      const text = yield* fs.readFileString(before)
      const read = Result.flatMap(
        Result.fromOption(Json.parse(text), () => undefined),
        Atif.decode
      )
      if (Result.isSuccess(read) && read.success.session_id === sessionId) {
        yield* replaceFile(before, render({ ...read.success, continued_trajectory_ref: name }))
      }
    })

    const sessions = new Map<string, DocumentState>()
    /** Counts the existing files of a session. */
    const countSegments = Effect.fnUntraced(function* (name: string) {
      let count = 0
      while (yield* fs.exists(paths.join(options.directory, formatSegmentName(name, count + 1)))) count++
      return count
    })

    /**
     * File of each trajectory that has one. The key is the id of a session; for a child it is the id of its root
     * session, a space, and the child's id.
     */
    const places = new Map<string, string>()
    const writeTrajectory = Effect.fnUntraced(function* (key: string, trajectory: Atif.Trajectory, text: string) {
      const name = formatFileName(chosen.template, trajectory.session_id ?? "unknown")
      const isNew = !places.has(key)
      const n = isNew ? (yield* countSegments(name)) + 1 : 1
      const place = places.get(key) ?? formatSegmentName(name, n)
      yield* writeInDirectory(fs, options.directory, replaceFile(paths.join(options.directory, place), text))
      places.set(key, place)
      if (n > 1)
        yield* linkContinuation(
          paths.join(options.directory, formatSegmentName(name, n - 1)),
          place,
          trajectory.session_id
        )
      const before = findContinuedSession(trajectory)
      if (!isNew || n > 1 || before === undefined) return
      if (sessions.has(before)) continued.set(before, place)
      const earlier = formatFileName(chosen.template, before)
      const last = yield* countSegments(earlier)
      if (last > 0)
        yield* linkContinuation(paths.join(options.directory, formatSegmentName(earlier, last)), place, before)
    }, catchWriteError)

    /**
     * For each session that is continued, the file of the continuation. A background child of that session may end
     * after the continuation began.
     */
    const continued = new Map<string, string>()

    const shown = new Set<string>()
    const writePictures = Effect.fnUntraced(function* (found: Map<string, Uint8Array>) {
      for (const name of shown) found.delete(name)
      if (found.size === 0) return
      yield* fs.makeDirectory(paths.join(options.directory, "images"), { recursive: true, mode: 0o700 })
      for (const [name, bytes] of Array.from(found)) {
        yield* fs.writeFile(paths.join(options.directory, name), bytes, { mode: 0o600 })
        shown.add(name)
        found.delete(name)
      }
    }, catchWriteError)

    /** Root session id of each child session. */
    const roots = new Map<string, string>()
    const findRoot = (sessionId: string): string => roots.get(sessionId) ?? sessionId

    /** Sessions in which a run ended. The document is written once for all entries of a batch. */
    const due = new Set<string>()
    /** Sessions with new steps in a run that continues. */
    const grown = new Set<string>()
    const writeDocument = Effect.fnUntraced(function* (id: string) {
      const isOver = due.delete(id)
      grown.delete(id)
      const session = sessions.get(id)
      const began = yield* Clock.currentTimeMillis
      const own = session?.trajectory.trajectory()
      if (session === undefined || own === undefined) return
      if (!(yield* isStored(id))) {
        session.isChanged = false
        return
      }
      const next = continued.get(id)
      const trajectory = next === undefined ? own : { ...own, continued_trajectory_ref: next }
      const text = session.toText(trajectory)
      session.isChanged = false
      yield* writePictures(session.found)
      yield* writeTrajectory(id, trajectory, text)
      const now = yield* Clock.currentTimeMillis
      if (isOver) session.nextAt = text.length < shortChars ? 0 : now + interval
      session.growsAt = now + Math.max(interval, (now - began) * restFactor)
      if (options.subagents !== "all" || session.ended.size === 0) return
      for (const child of flattenTrajectories(trajectory).slice(1)) {
        const childId = child.session_id ?? ""
        if (session.ended.delete(childId)) yield* writeTrajectory(`${id} ${childId}`, child, render(child))
      }
    })
    const forgetSession = (id: string): void => {
      sessions.delete(id)
      due.delete(id)
      grown.delete(id)
      continued.delete(id)
      for (const run of tree.roots.filter(({ sessionId }) => sessionId === id)) tree.forget(run)
      for (const [child, root] of roots) if (root === id) roots.delete(child)
      for (const key of Array.from(places.keys())) if (key === id || key.startsWith(`${id} `)) places.delete(key)
    }

    const beginSession = (sessionId: string, since: string): DocumentState => {
      const { found, place } = makePictureCollector()
      return {
        trajectory: FromRuns.makeGrowingTrajectory(tree, sessionId, { ...options, since, pictures: place }),
        toText: Draft.makeTrajectoryEncoder(),
        found,
        ended: new Set(),
        running: new Set(),
        isGivenUp: false,
        isChanged: false,
        nextAt: 0,
        growsAt: 0
      }
    }
    /** Takes an entry of a session that has begun. Returns true if the session is abandoned and no child is running. */
    const takeEntry = (entry: Entry): boolean => {
      const { event, sessionId } = entry
      const root = findRoot(sessionId)
      tree.add(entry)
      const session = sessions.get(root)
      if (session === undefined) return false
      session.trajectory.touch(entry)
      if (event._tag !== "SessionEnded") session.isChanged = true
      if (isGrowth(entry)) grown.add(root)
      if (event._tag === "ChildStarted") {
        roots.set(event.sessionId, root)
        session.running.add(event.sessionId)
      } else if (event._tag === "ChildEnded") {
        session.ended.add(event.sessionId)
        session.running.delete(event.sessionId)
      } else if (root === sessionId) {
        if (event._tag === "RunStarted") session.isGivenUp = false
        else if (event._tag === "RunEnded") due.add(root)
        else if (event._tag === "SessionEnded") session.isGivenUp = true
      }
      return session.isGivenUp && session.running.size === 0
    }
    const addAll = Effect.fnUntraced(function* (entries: ReadonlyArray<Entry>) {
      for (const entry of entries) {
        const { event, sessionId, turnId } = entry
        const root = findRoot(sessionId)
        if (root === sessionId && !sessions.has(sessionId)) {
          // A side task of an abandoned session does not start a new document.
          if (event._tag !== "RunStarted") continue
          sessions.set(sessionId, beginSession(sessionId, turnId))
          if (event.resumed) for (const before of yield* earlier(sessionId, turnId)) tree.add(before)
        }
        if (!takeEntry(entry)) continue
        // Side tasks and ends of children may be recorded after the last run.
        if (sessions.get(root)?.isChanged === true) yield* writeDocument(root)
        forgetSession(root)
      }
    })
    return {
      write: Effect.fnUntraced(function* (entries) {
        yield* EntrySlices.forEachSlice(entries, addAll)
        const now = yield* Clock.currentTimeMillis
        const times: Array<number> = []
        for (const id of new Set([...due, ...grown])) {
          const { growsAt = 0, nextAt = 0 } = sessions.get(id) ?? {}
          const at = due.has(id) ? nextAt : growsAt
          if (at <= now) yield* writeDocument(id)
          else times.push(at - now)
        }
        return times.length === 0 ? undefined : Math.min(...times)
      }),
      close: Effect.suspend(() =>
        Effect.forEach(
          Array.from(sessions).filter(([, { isChanged }]) => isChanged),
          ([id]) => writeDocument(id),
          { discard: true }
        )
      )
    }
  })
