// The statements that SQLite runs, whatever connection runs them.
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { StatementSync } from "node:sqlite"

/** Calls a function with each statement and with what it returned, until the scope closes. */
export const watchStatements = (
  see: (statement: StatementSync, result: unknown, values: ReadonlyArray<unknown>) => void
): Effect.Effect<void, never, Scope.Scope> => {
  const { all, run } = StatementSync.prototype
  const watch = <F extends typeof all | typeof run>(method: F): F =>
    new Proxy(method, {
      apply: (target, statement: StatementSync, values: ReadonlyArray<unknown>) => {
        const result: unknown = Reflect.apply(target, statement, values)
        see(statement, result, values)
        return result
      }
    })
  return Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => Object.assign(StatementSync.prototype, { all: watch(all), run: watch(run) })),
      () => Effect.sync(() => Object.assign(StatementSync.prototype, { all, run }))
    )
  )
}
