/**
 * Resources that a program releases before it ends, even if other work of the program still hangs: writers of files and
 * senders of telemetry, which would lose data otherwise.
 *
 * **Details**
 *
 * After a signal a program has a short time to end. Its resources are released in order, so one that hangs, such as a
 * command that ignores signals or a server that does not close, keeps the others from being released. Resources of
 * {@link releaseEarly} do not wait for this order when the time runs out. Outside of a program, {@link EarlyReleases}
 * is `undefined`, and they are released in order.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"

/** The resources of a program that may be released early. */
export interface Releases {
  readonly addRelease: (release: Effect.Effect<void>) => void
  readonly removeRelease: (release: Effect.Effect<void>) => void
  /** Releases all resources at the same time, and waits for their release. */
  readonly releaseAll: Effect.Effect<void>
}

/** The resources of this program that may be released early; `undefined` outside of a program. */
export const EarlyReleases = Context.Reference<Releases | undefined>("hermes-effect/platform/EarlyReleases", {
  defaultValue: () => undefined
})

/** Creates an empty list of resources. */
export const makeReleases = (): Releases => {
  const releases = new Set<Effect.Effect<void>>()
  return {
    addRelease: (release) => void releases.add(release),
    removeRelease: (release) => void releases.delete(release),
    releaseAll: Effect.suspend(() =>
      Effect.forEach(Array.from(releases), (release) => release, { concurrency: "unbounded", discard: true })
    )
  }
}

/**
 * Builds resources that may be released before their scope closes. Both the scope and an early release wait until the
 * resources are released.
 */
export const releaseEarly = <A, E, R>(build: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Scope.Scope> =>
  Effect.flatMap(EarlyReleases, (releases): Effect.Effect<A, E, R | Scope.Scope> => {
    if (releases === undefined) return build
    return Effect.gen(function* () {
      const scope = yield* Scope.make()
      const release = yield* Effect.cached(Effect.uninterruptible(Scope.close(scope, Exit.void)))
      yield* Effect.acquireRelease(
        Effect.sync(() => releases.addRelease(release)),
        () =>
          Effect.andThen(
            release,
            Effect.sync(() => releases.removeRelease(release))
          )
      )
      return yield* Effect.provideService(build, Scope.Scope, scope)
    })
  })
