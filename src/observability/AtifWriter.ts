/**
 * Writes the trajectory of each session to a file of its own: after every run, and once more when the session is given up.
 *
 * **Details**
 *
 * A file is replaced whole or not at all, and only its owner can read it. Children stand in the file of who delegated to
 * them; in mode `all` each also has a file named by its session. A session without a step has no file. What cannot be
 * written is one warning, and the next run tries again.
 *
 * **Gotchas**
 *
 * A template must hold `{session_id}`: one that does not gets it before its ending, with a warning, so that sessions do not
 * take each other's place. Characters of an id that are none of a file name become `_`.
 *
 * The trajectory of a session is kept in memory until the session is finalised, for its next run adds to the same file. A
 * session that goes on later, or in another process, has its earlier part as copied context, in a file of its own: `-2` before
 * the ending, `-3`, and so on. The file before it names it as its `continued_trajectory_ref`; none is written over.
 *
 * Source: `hermes-contract.md` §4.2 and §4.6, `relay-atof-atif.md` §2.
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Json from "../domain/Json.ts"
import * as Atif from "./Atif.ts"
import * as AtifConvert from "./AtifConvert.ts"
import type { Event } from "./Atof.ts"
import type { Sink } from "./TraceHook.ts"

/** How long the end of a program waits for what is not on disk yet. */
export const flushDeadline = Duration.seconds(5)

/** Where, and how. */
export interface Options extends AtifConvert.Options {
  readonly directory: string
  /** `hermes-atif-{session_id}.json` */
  readonly filenameTemplate: string
  readonly subagents: "embedded" | "all"
}

/** The template that is used, and what is wrong with the one that was given. */
export const template = (given: string): { readonly template: string; readonly warning: string | undefined } => {
  const name = given.split(/[/\\]/u).at(-1) ?? given
  if (name === given && name.includes("{session_id}")) return { template: name, warning: undefined }
  const dot = name.lastIndexOf(".")
  const fixed = name.includes("{session_id}")
    ? name
    : dot <= 0 ? `${name}-{session_id}` : `${name.slice(0, dot)}-{session_id}${name.slice(dot)}`
  return { template: fixed, warning: `the ATIF file name template "${given}" cannot be used, "${fixed}" is: it must be a file name with {session_id}` }
}

/** The name of a session's file. */
export const fileName = (template: string, sessionId: string): string =>
  template.replaceAll("{session_id}", sessionId.replace(/[^\w.@#=+-]/gu, "_").slice(0, 200))

/** The name of the nth file of a session, from 1. */
export const segment = (name: string, n: number): string => {
  const dot = name.lastIndexOf(".")
  return n === 1 ? name : dot <= 0 ? `${name}-${n}` : `${name.slice(0, dot)}-${n}${name.slice(dot)}`
}

/** The text of a document as it is written. */
export const render = (trajectory: Atif.Trajectory): string => `${JSON.stringify(trajectory, null, 2)}\n`

interface Job {
  readonly root: string
  readonly children: ReadonlyArray<string>
  readonly isLast: boolean
}

const isRootEnd = (event: Event): boolean =>
  event.kind === "scope" && event.category === "agent" && event.scope_category === "end" && event.parent_uuid === null

/** A writer, for as long as the scope lives. */
export const make = (options: Options): Effect.Effect<Sink, never, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const converter = AtifConvert.make(options)
    const queue = yield* Queue.unbounded<Job, Cause.Done>()
    const told = new Set<string>()
    const warn = (message: string): Effect.Effect<void> => {
      if (told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(message)
    }
    const chosen = template(options.filenameTemplate)
    if (chosen.warning !== undefined) yield* warn(chosen.warning)

    const write = Effect.fnUntraced(function*(path: string, trajectory: Atif.Trajectory) {
      yield* fs.writeFileString(`${path}.draft`, render(trajectory), { mode: 0o600 })
      yield* fs.rename(`${path}.draft`, path)
    })

    /** Tells the file before that it goes on in another; one that is no trajectory of the session stays as it is. */
    const link = Effect.fnUntraced(function*(before: string, name: string, sessionId: string | null | undefined) {
      const text = yield* fs.readFileString(before)
      const read = Result.flatMap(Result.fromOption(Json.parse(text), () => undefined), Atif.decode)
      if (Result.isSuccess(read) && read.success.session_id === sessionId) {
        yield* write(before, { ...read.success, continued_trajectory_ref: name })
      }
    })

    /** The file of each trajectory that has one. */
    const places = new Map<string, string>()
    /** By what a trajectory is known here: the scope of its root, and its session where it is a child. */
    const put = Effect.fnUntraced(function*(key: string, trajectory: Atif.Trajectory | undefined) {
      if (trajectory === undefined) return
      yield* fs.makeDirectory(options.directory, { recursive: true, mode: 0o700 })
      const name = fileName(chosen.template, trajectory.session_id ?? "unknown")
      let n = 1
      if (!places.has(key)) while (yield* fs.exists(paths.join(options.directory, segment(name, n)))) n++
      const place = places.get(key) ?? segment(name, n)
      yield* write(paths.join(options.directory, place), trajectory)
      places.set(key, place)
      if (n > 1) yield* link(paths.join(options.directory, segment(name, n - 1)), place, trajectory.session_id)
    }, Effect.catch((error) => warn(`ATIF files cannot be written to ${options.directory}: ${error.message}: choose another directory or free some space`)))

    const drain = Effect.gen(function*() {
      const { children, isLast, root } = yield* Queue.take(queue)
      yield* put(root, converter.trajectory(root))
      for (const id of children) yield* put(`${root} ${id}`, converter.child(id))
      if (!isLast) return
      converter.forget(root)
      for (const key of Array.from(places.keys())) if (key.startsWith(root)) places.delete(key)
    })
    // The end of the queue is how the fiber is told to stop.
    const worker = yield* Effect.forkScoped(Effect.catchTag(Effect.forever(drain), "Done", () => Effect.void))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => Queue.endUnsafe(queue)).pipe(
        Effect.andThen(Effect.timeoutOption(Fiber.await(worker), flushDeadline)),
        Effect.flatMap((done) => Option.isSome(done) ? Effect.void : warn(`some ATIF files were not written to ${options.directory}`))
      )
    )

    /** Children that ended under each root and have no file yet. */
    const ended = new Map<string, Array<string>>()
    const roots = new Map<string, string>()
    const follow = (event: Event): void => {
      if (event.kind === "scope" && event.scope_category === "start") {
        const parent = event.parent_uuid
        if (event.category === "agent" || event.category === "tool") {
          roots.set(event.uuid, parent === null || parent === undefined ? event.uuid : roots.get(parent) ?? event.uuid)
        }
      }
      const isRun = event.kind === "mark" && event.name === "hermes.session.end"
      const root = roots.get(isRun ? event.parent_uuid ?? "" : event.uuid)
      if (root === undefined) return
      if (isRun && event.parent_uuid === root) {
        const children = ended.get(root) ?? []
        ended.delete(root)
        Queue.offerUnsafe(queue, { root, children, isLast: false })
      } else if (isRootEnd(event)) {
        Queue.offerUnsafe(queue, { root, children: ended.get(root) ?? [], isLast: true })
        ended.delete(root)
        for (const [uuid, of] of roots) if (of === root) roots.delete(uuid)
      } else if (options.subagents === "all" && event.kind === "scope" && event.category === "agent" && event.scope_category === "end") {
        const id = event.metadata?.["session_id"]
        if (typeof id === "string") ended.set(root, [...ended.get(root) ?? [], id])
      }
    }
    return {
      write: (events) =>
        Effect.sync(() => {
          for (const event of events) {
            converter.add(event)
            follow(event)
          }
        })
    }
  })
