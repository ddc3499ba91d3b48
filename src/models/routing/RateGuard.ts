/**
 * Records, for all sessions and processes, that an account has exhausted its rate limit. Further requests would be
 * refused and could extend the wait, so the account is not used until the limit resets.
 *
 * **Details**
 *
 * The guard is used for Nous Portal, whose limits apply to the account and not to a connection. A refusal counts if its
 * headers, or the headers of the last answer, report an exhausted limit that does not reset within a minute; other
 * refusals come from a busy upstream provider. Until the limit resets, calls use the next route or fail with the reset
 * time; a successful answer ends the block.
 *
 * The state is stored in `rate-limits.json` in the home directory, with keys identified by fingerprint. If the file
 * cannot be read or written, a warning is logged; the provider still enforces its limit.
 *
 * **Example** (A router that remembers limits in a folder of the application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RateGuard, type RoutedModelRouter } from "hermes-effect/routing"
 *
 * export const guarded = (options: RoutedModelRouter.Options, home: string) =>
 *   Effect.map(RateGuard.openFile(home), (guard): RoutedModelRouter.Options => ({ ...options, guard }))
 * ```
 *
 * Source: `hermes-llm.md` §16.5 (13), §17.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as HomeFile from "./HomeFile.ts"

/** Records which accounts have exhausted their limits. Keys are identified by fingerprints. */
export interface RateGuard {
  /** Returns the milliseconds until the key may be used, or `undefined` if it may be used now. */
  readonly closedFor: (key: string) => Effect.Effect<number | undefined>
  readonly close: (key: string, millis: number) => Effect.Effect<void>
  readonly open: (key: string) => Effect.Effect<void>
}

/** Guard that never blocks a key. */
export const none: RateGuard = {
  closedFor: () => Effect.succeed(undefined),
  close: () => Effect.void,
  open: () => Effect.void
}

/** Creates a guard that remembers limits in memory. */
export const makeInMemory = (): RateGuard => {
  const until = new Map<string, number>()
  return {
    closedFor: (key) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const end = until.get(key) ?? 0
        return end > now ? end - now : undefined
      }),
    close: (key, millis) => Effect.map(Clock.currentTimeMillis, (now) => void until.set(key, now + millis)),
    open: (key) => Effect.sync(() => void until.delete(key))
  }
}

/** Providers whose rate limits apply to the whole account. */
export const guarded: ReadonlySet<string> = new Set(["nous"])

/** Name of the file in the home directory that stores exhausted limits. */
export const fileName = "rate-limits.json"

const Saved = Schema.fromJsonString(
  Schema.Struct({
    version: Schema.Literal(1),
    /** Time until which each key must not be used, in milliseconds since 1970. */
    until: Schema.Record(Schema.String, Schema.Finite)
  })
)
type Until = (typeof Saved.Type)["until"]

/** Opens the guard that stores its state in a home directory, which need not exist yet. */
export const openFile = (home: string): Effect.Effect<RateGuard, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const { load, save } = yield* HomeFile.makeMemory(home, fileName, Saved, { version: 1, until: {} }, "warning")
    const changing = yield* Semaphore.make(1)

    const changeMarks = (next: (until: Until, now: number) => Until | undefined): Effect.Effect<void> =>
      changing.withPermit(
        Effect.gen(function* () {
          const until = next((yield* load).until, yield* Clock.currentTimeMillis)
          if (until !== undefined) yield* save({ version: 1, until })
        })
      )

    return {
      closedFor: (key) =>
        Effect.map(Effect.all([load, Clock.currentTimeMillis]), ([{ until }, now]) => {
          const end = Object.hasOwn(until, key) ? (until[key] ?? 0) : 0
          return end > now ? end - now : undefined
        }),
      close: (key, millis) =>
        changeMarks((until, now) => ({
          ...Object.fromEntries(Object.entries(until).filter(([, end]) => end > now)),
          [key]: now + millis
        })),
      open: (key) =>
        changeMarks((until) =>
          Object.hasOwn(until, key)
            ? Object.fromEntries(Object.entries(until).filter(([other]) => other !== key))
            : undefined
        )
    }
  })
