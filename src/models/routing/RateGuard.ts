/**
 * Remembers over all sessions and processes that an account has used up its limit, so that none of them asks in vain,
 * and each refusal makes the wait longer.
 *
 * **Details**
 *
 * For Nous Portal, whose limits belong to the account and not to a connection. A refusal counts if its headers, or the
 * headers of the last answer, report an exhausted limit that does not reset within a minute; other refusals come from a
 * busy upstream provider. Until the limit resets, calls use the next route or fail with the reset time; a successful
 * answer ends the block.
 *
 * `rate-limits.json` in the home directory, keys by fingerprint. A file that cannot be read or written is a warning:
 * the provider itself still refuses.
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

/** Accounts that have used up their limits. Keys are fingerprints. */
export interface RateGuard {
  /** Milliseconds until the key may be used; undefined when it may be. */
  readonly closedFor: (key: string) => Effect.Effect<number | undefined>
  readonly close: (key: string, millis: number) => Effect.Effect<void>
  readonly open: (key: string) => Effect.Effect<void>
}

/** Guards nothing. */
export const none: RateGuard = {
  closedFor: () => Effect.succeed(undefined),
  close: () => Effect.void,
  open: () => Effect.void
}

/** Providers whose limits belong to the account. */
export const guarded: ReadonlySet<string> = new Set(["nous"])

/** The name of the file in the home directory. */
export const fileName = "rate-limits.json"

const Saved = Schema.fromJsonString(
  Schema.Struct({
    version: Schema.Literal(1),
    /** Milliseconds since 1970 until which each key is not asked. */
    until: Schema.Record(Schema.String, Schema.Finite)
  })
)
type Until = (typeof Saved.Type)["until"]

/** A guard over a file of a home directory, which need not exist yet. */
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
