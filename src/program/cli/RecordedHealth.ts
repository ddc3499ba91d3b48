/**
 * Health of middleware in the run record of the last 30 days: calls, faults and own time, for the commands that list
 * middleware and plugins.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import type { Home } from "../../base/config/Environment.ts"
import type { MiddlewareHealth } from "../../base/domain/RecordEvent.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { forReading, withStore } from "./SessionChoice.ts"

/** Counts of one entry or of several. */
export type HealthCounts = Pick<MiddlewareHealth, "calls" | "faults" | "ownMillis">

const days = 30
const dayMillis = 86_400_000

/** Title of a list of counts. */
export const title = `Health in the last ${days} days:`

const none: ReadonlyArray<MiddlewareHealth> = []

/** Reads the counts of all recent runs. An unreadable record is a warning, without counts. */
export const readHealth: Effect.Effect<
  ReadonlyArray<MiddlewareHealth>,
  never,
  FileSystem.FileSystem | Home | Path.Path
> = withStore(
  Effect.gen(function* () {
    const { read } = yield* RunRecord
    const since = (yield* Clock.currentTimeMillis) - days * dayMillis
    return yield* Stream.runFold(
      read({ kinds: ["RunEnded"] }),
      (): ReadonlyArray<MiddlewareHealth> => none,
      (all, { at, event }) =>
        event._tag === "RunEnded" && event.middleware !== undefined && at >= since ? [...all, ...event.middleware] : all
    )
  }),
  Effect.succeed(none),
  forReading
).pipe(
  Effect.catch((error) =>
    Effect.as(Effect.logWarning(`the health of middleware cannot be read: ${error.message}`), none)
  )
)

/** Sums the counts of the selected entries, `undefined` if none was called. */
export const sumHealth = (
  all: ReadonlyArray<MiddlewareHealth>,
  isSelected: (entry: MiddlewareHealth) => boolean
): HealthCounts | undefined =>
  all
    .filter(isSelected)
    .reduce<HealthCounts | undefined>(
      (sum, { calls, faults, ownMillis }) => ({
        calls: (sum?.calls ?? 0) + calls,
        faults: (sum?.faults ?? 0) + faults,
        ownMillis: (sum?.ownMillis ?? 0) + ownMillis
      }),
      undefined
    )

/** Returns true for an entry of the plugin with a key. */
export const belongsTo =
  (key: string) =>
  ({ name }: MiddlewareHealth): boolean =>
    name === key || name.startsWith(`${key}:`)

const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

/** Formats counts as text: `12 calls, 1 fault, 35 ms`. */
export const formatHealth = ({ calls, faults, ownMillis }: HealthCounts): string =>
  `${formatCount(calls, "call")}, ${formatCount(faults, "fault")}, ${Math.round(ownMillis)} ms`
