/**
 * Retention: selects stored sessions that are old enough and removes them, each with its run record, changes and
 * messages.
 *
 * **Details**
 *
 * A conversation, which is a root session together with the sessions of its sub-agents, is removed as a whole. It is
 * old if it has ended and its last activity is before the limit. A conversation is retained while a run owns it or a
 * process has it open. The check and the removal are one transaction.
 *
 * **Gotchas**
 *
 * Free space remains in the file until {@link Service.compact}; sessions written later reuse it.
 *
 * **Example** (Conversations of the last month stay)
 *
 * ```ts
 * import * as Clock from "effect/Clock"
 * import * as Effect from "effect/Effect"
 * import { SessionRetention } from "hermes-effect/sessions"
 *
 * export const prune = Effect.gen(function*() {
 *   const retention = yield* SessionRetention.SessionRetention
 *   const before = (yield* Clock.currentTimeMillis) - 30 * 86_400_000
 *   const { kept, removed } = yield* retention.prune({ before })
 *   return `${removed} removed, ${kept} in use`
 * })
 * ```
 *
 * Source: `hermes-product.md` §1.7 (`prune`), §4.1 (retention).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import type { Session } from "./SessionStorePort.ts"

/** Selection of the sessions to remove. */
export interface Limit {
  /** Selects only sessions whose last activity is before this time, in epoch milliseconds. */
  readonly before: number
  /** Selects only conversations with this source. */
  readonly source?: string | undefined
  /** Selects only conversations of a tenant. */
  readonly tenant?: string | undefined
}

/** Outcome of a removal, as numbers of conversations. */
export interface PruneResult {
  readonly removed: number
  /** Number of old conversations that were retained because they are in use. */
  readonly kept: number
}

/** Removes old sessions. */
export interface Service {
  /** Lists the conversations that match the limit, oldest first. */
  readonly expired: (limit: Limit) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /** Removes the conversations that match the limit, one transaction each. */
  readonly prune: (limit: Limit) => Effect.Effect<PruneResult, SessionStoreError>
  /** Returns free space to the file system if it is at least a quarter of the file. */
  readonly compact: Effect.Effect<void, SessionStoreError>
  /**
   * Runs a removal if the last one was at least `intervalMillis` ago. Only one process at a time runs it. Returns
   * `undefined` if no removal is due.
   */
  readonly whenDue: <A, E>(
    intervalMillis: number,
    removal: Effect.Effect<A, E>
  ) => Effect.Effect<A | undefined, E | SessionStoreError>
  /** Protects a session from removal until the scope closes. */
  readonly hold: (id: SessionId) => Effect.Effect<void, SessionStoreError, Scope.Scope>
}

/** Retention of a session store. */
export class SessionRetention extends Context.Service<SessionRetention, Service>()(
  "hermes-effect/session/SessionRetention"
) {}

/** User settings, in the form of `sessions` in the settings file. */
export interface Settings {
  readonly autoPrune: boolean
  readonly retentionDays: number
  readonly vacuumAfterPrune: boolean
  readonly minIntervalHours: number
}

/**
 * Maximum time that the program waits for a running removal before it exits, in milliseconds. The next program
 * continues the removal.
 */
const endMillis = 3000

/** Returns the time `days` days before now, in epoch milliseconds. Sessions without later activity are old. */
export const computeCutoff = (days: number): Effect.Effect<number> =>
  Effect.map(Clock.currentTimeMillis, (now) => now - Duration.toMillis(Duration.days(days)))

/** Removes the sessions that match the limit, and releases their space if `vacuum` is set. */
export const prune = (limit: Limit, vacuum: boolean): Effect.Effect<PruneResult, SessionStoreError, SessionRetention> =>
  SessionRetention.use((retention) =>
    Effect.tap(retention.prune(limit), ({ removed }) => (removed > 0 && vacuum ? retention.compact : Effect.void))
  )

const formatSessionCount = (count: number): string => (count === 1 ? "1 session" : `${count} sessions`)

/**
 * Layer that removes old sessions in the background, at most once per interval, if the settings enable this. `open` is
 * the stored session that the program continues. No process removes it until the scope closes.
 */
export const layerAuto = (
  { autoPrune, minIntervalHours, retentionDays, vacuumAfterPrune }: Settings,
  open: SessionId | undefined
): Layer.Layer<never, never, SessionRetention> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const retention = yield* SessionRetention
      const logRemovalFailure = (error: SessionStoreError) =>
        Effect.logWarning(`Old sessions were not removed: ${error.message}`)
      if (open !== undefined) {
        yield* Effect.catch(retention.hold(open), (error) =>
          Effect.logDebug(`session ${open} is not held: ${error.message}`)
        )
      }
      if (!autoPrune) return
      const removal = Effect.flatMap(computeCutoff(retentionDays), (before) =>
        prune({ before }, vacuumAfterPrune)
      ).pipe(Effect.provideService(SessionRetention, retention))
      const removing = yield* retention.whenDue(Duration.toMillis(Duration.hours(minIntervalHours)), removal).pipe(
        Effect.flatMap((pruned) =>
          pruned === undefined || pruned.removed === 0
            ? Effect.void
            : Effect.logDebug(
                `Removed ${formatSessionCount(pruned.removed)} older than ${retentionDays} days (sessions.auto_prune)`
              )
        ),
        Effect.catch(logRemovalFailure),
        Effect.forkScoped
      )
      // Because of this wait, a program that ends soon, such as one for a single prompt, can also complete a removal.
      yield* Effect.addFinalizer(() => Effect.timeoutOption(Fiber.await(removing), endMillis))
    })
  )
