/**
 * Lookup of a trace: a file, else a stored session.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import { Home } from "../config/Home.ts"
import { SessionNotFound, type SessionStoreError } from "../domain/AgentError.ts"
import * as AtifSession from "../observability/AtifSession.ts"
import * as Trace from "../observability/Trace.ts"
import { type Session, SessionStore } from "../session/SessionStore.ts"
import { type Failure, notDone, usage } from "./Failure.ts"
import { note, type Output } from "./ProgramOutput.ts"
import { stored } from "./SessionChoice.ts"

/** A trace and what to call it. */
export interface Named {
  readonly name: string
  readonly trace: Trace.Trace
}

const withChildren = (session: Session, all: ReadonlyArray<Session>): Effect.Effect<AtifSession.Stored, SessionStoreError, SessionStore> =>
  Effect.gen(function*() {
    const messages = yield* SessionStore.use((store) => store.messages(session.id))
    const children = yield* Effect.forEach(all.filter(({ parentId }) => parentId === session.id), (child) => withChildren(child, all))
    return { session, messages, children }
  })

const ofSession = (reference: string) =>
  stored<AtifSession.Stored, SessionNotFound | SessionStoreError>(
    Effect.gen(function*() {
      const store = yield* SessionStore
      const session = yield* store.resolve(reference)
      return yield* withChildren(session, yield* store.list({ limit: Number.MAX_SAFE_INTEGER }))
    }),
    Effect.fail(new SessionNotFound({ sessionId: reference, candidates: [] }))
  )

/** The text of a file; undefined when there is none of that name. */
export const textOf = Effect.fnUntraced(function*(path: string): Effect.fn.Return<string | undefined, Failure, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(path).pipe(
    Effect.catchIf((error) => error.reason._tag === "NotFound", () => Effect.succeed(undefined)),
    Effect.mapError((error) => usage(`cannot read ${path}: ${error.message}`))
  )
})

/** Lines of a stream that cannot be read are told, and the rest is used. */
export const load = Effect.fn("TraceSource.load")(function*(
  reference: string
): Effect.fn.Return<Named, Failure | SessionNotFound | SessionStoreError, FileSystem.FileSystem | Home | Output> {
  const text = yield* textOf(reference)
  if (text === undefined) {
    const session = yield* ofSession(reference)
    const trajectory = AtifSession.trajectory(session)
    if (trajectory === undefined) {
      return yield* notDone(`session ${session.session.id} is empty: there is no trace`)
    }
    return { name: session.session.title ?? session.session.id, trace: Trace.ofTrajectory(trajectory) }
  }
  const trace = Trace.read(text)
  if (Result.isFailure(trace)) return yield* usage(`${reference}: ${trace.failure.message}`)
  if (trace.success._tag === "Events") {
    for (const { message } of trace.success.faults) yield* note(`Warning: ${reference}: ${message}`)
  }
  return { name: reference.split(/[/\\]/u).at(-1) ?? reference, trace: trace.success }
})
