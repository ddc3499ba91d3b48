/**
 * Opens a resource on its first use and shares it. If opening fails, parts that are already open are closed, and the
 * next use tries again.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"

/**
 * Creates an Effect that returns the resource; the resource is closed with the scope in which `openOnce` was called.
 */
export const openOnce = Effect.fnUntraced(function* <A, E>(
  open: Effect.Effect<A, E, Scope.Scope>
): Effect.fn.Return<Effect.Effect<A, E>, never, Scope.Scope> {
  const parent = yield* Effect.scope
  const lock = yield* Semaphore.make(1)
  let opened: { readonly resource: A } | undefined

  const first = Effect.gen(function* () {
    if (opened !== undefined) return opened.resource
    const scope = yield* Scope.fork(parent)
    return yield* Scope.provide(open, scope).pipe(
      Effect.onExit((exit) =>
        Exit.isSuccess(exit) ? Effect.sync(() => (opened = { resource: exit.value })) : Scope.close(scope, exit)
      )
    )
  })
  return Effect.suspend(() => (opened === undefined ? lock.withPermit(first) : Effect.succeed(opened.resource)))
})
