/**
 * Open sessions of a server, by id. Each session has its own scope.
 *
 * **Details**
 *
 * All sessions are closed with the scope in which the table is made. Before a session is opened, an earlier session
 * with the same id must have finished closing, so that a conversation is never open twice.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"

/** Table of the open sessions. */
export interface OpenSessions<A> {
  readonly get: (id: string) => A | undefined
  readonly all: () => ReadonlyArray<A>
  readonly entries: () => ReadonlyArray<readonly [id: string, session: A]>
  /**
   * Opens a session in a new scope, which is closed if opening fails. An open session with the same id is closed first.
   */
  readonly open: <E, R>(id: string, make: Effect.Effect<A, E, R>) => Effect.Effect<A, E, Exclude<R, Scope.Scope>>
  /** Closes a session and waits until it is closed. Returns false if no session with the id is open. */
  readonly close: (id: string) => Effect.Effect<boolean>
}

/** Makes an empty table of sessions. */
export const make = Effect.fnUntraced(function* <A>(): Effect.fn.Return<OpenSessions<A>, never, Scope.Scope> {
  // Sessions use a separate scope, so that all sessions, including sessions opened later, are closed when the table's
  // own finalizer runs.
  const whole = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  const sessions = new Map<string, { readonly session: A; readonly scope: Scope.Closeable }>()
  const closing = new Map<string, Deferred.Deferred<void>>()

  const close: OpenSessions<A>["close"] = (id) =>
    Effect.uninterruptible(
      Effect.suspend(() => {
        const found = sessions.get(id)
        if (found === undefined) {
          const before = closing.get(id)
          return before === undefined ? Effect.succeed(false) : Effect.as(Deferred.await(before), false)
        }
        const closed = Deferred.makeUnsafe<void>()
        sessions.delete(id)
        closing.set(id, closed)
        const end = Effect.suspend(() => {
          closing.delete(id)
          return Deferred.succeed(closed, undefined)
        })
        return Effect.as(Effect.ensuring(Scope.close(found.scope, Exit.void), end), true)
      })
    )

  return {
    get: (id) => sessions.get(id)?.session,
    all: () => Array.from(sessions.values(), ({ session }) => session),
    entries: () => Array.from(sessions, ([id, { session }]) => [id, session] as const),
    close,
    open: (id, make) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          yield* close(id)
          const scope = yield* Scope.fork(whole)
          const session = yield* restore(Scope.provide(make, scope)).pipe(
            Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, Exit.void)))
          )
          // Another request may have opened the session meanwhile.
          yield* close(id)
          sessions.set(id, { session, scope })
          return session
        })
      )
  }
})
