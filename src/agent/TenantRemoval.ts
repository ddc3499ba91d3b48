/**
 * Removal of a tenant from all places in which an application has its data.
 *
 * **Details**
 *
 * Each place is a part. Parts are removed in their order: first the ones that begin runs, such as jobs and runs of a
 * cluster, then files that are found by the sessions, then the sessions, and the usage last. The removal stops at the
 * first part that fails, for example because a session is in use, and names what is removed so far. It is repeated from
 * the beginning then, also if the process was killed: a removed part is empty.
 *
 * **Gotchas**
 *
 * A tenant that can still begin runs gets new data. Refuse its runs first: remove its keys, or let the lookup return
 * `undefined` for it.
 *
 * **Example** (A tenant is removed from a store and a folder of memories)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { SessionStore } from "hermes-effect"
 * import { TenantLedger, TenantRemoval } from "hermes-effect/tenants"
 *
 * const parts = [TenantRemoval.makeFolderPart("memory files", "memories"), TenantRemoval.sessions, TenantRemoval.usage]
 * const stores = Layer.mergeAll(SessionStore.layerMemory, TenantLedger.layerMemory, NodeServices.layer)
 *
 * const program = Effect.provide(TenantRemoval.removeTenant("acme", parts), stores)
 *
 * console.log(await Effect.runPromise(program))
 * // => { 'memory files': 0, sessions: 0, 'rows of usage': 0 }
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as RemoteSession from "../store/RemoteSession.ts"
import { removeTenantFolder } from "../store/TenantFolder.ts"
import { type Session, SessionStore } from "../store/SessionStore.ts"
import * as TenantLedger from "../store/tenants/TenantLedger.ts"
import { CronJobs } from "../tools/cron/CronJobs.ts"
import * as TenantData from "./TenantData.ts"

/** A place with data of tenants. */
export interface Part<R = never> {
  /** Plural name of its items, such as `memory files`. */
  readonly name: string
  /** Removes the items of a tenant and returns their number. */
  readonly remove: (tenant: string) => Effect.Effect<number, { readonly message: string }, R>
}

/** Number of removed items, by the name of the part. */
export type RemovedItems = Readonly<Record<string, number>>

/** The removal stopped at a part. Its repetition begins again. */
export class TenantRemovalStopped extends Schema.TaggedError<TenantRemovalStopped>(
  "hermes-effect/TenantRemovalStopped"
)("TenantRemovalStopped", {
  tenant: Schema.String,
  part: Schema.String,
  /** Number of items that were removed before, by the name of the part. */
  removed: Schema.Record(Schema.String, Schema.Finite),
  message: Schema.String
}) {}

/** Services that parts need. */
export type Needs<Parts> = Parts extends Part<infer R> ? R : never

/** Removes a tenant from each part, in order. Returns the number of removed items by the name of the part. */
export const removeTenant = Effect.fnUntraced(function* <const Parts extends ReadonlyArray<Part<unknown>>>(
  tenant: string,
  parts: Parts
): Effect.fn.Return<RemovedItems, TenantRemovalStopped, Needs<Parts[number]>> {
  const removed: Record<string, number> = {}
  // Each part needs services of the union.
  for (const { name, remove } of parts as ReadonlyArray<Part<Needs<Parts[number]>>>) {
    const count = yield* Effect.mapError(
      remove(tenant),
      ({ message }) => new TenantRemovalStopped({ tenant, part: name, removed: { ...removed }, message })
    )
    removed[name] = (removed[name] ?? 0) + count
  }
  return removed
})

/** Makes the part of a tenant's sessions and the ones that `isAlso` selects. Fails while one of them is in use. */
export const makeSessionPart = (isAlso?: (session: Session) => boolean): Part<SessionStore> => ({
  name: "sessions",
  remove: (tenant) => TenantData.removeSessions(tenant, isAlso)
})

/** The sessions of a tenant, with their sub-agents, run records and questions. */
export const sessions: Part<SessionStore> = makeSessionPart()

/** The sums and the usage of a tenant in the ledger. Its items are rows by day and model. */
export const usage: Part<TenantLedger.TenantLedger> = {
  name: "rows of usage",
  remove: (tenant) =>
    Effect.gen(function* () {
      const ledger = yield* TenantLedger.TenantLedger
      const { length } = yield* ledger.usage({ tenant })
      yield* ledger.remove(tenant)
      return length
    })
}

/** The scheduled jobs of a tenant. `afterEach` removes further data of a job, such as its outputs. */
export const makeJobPart = <E extends { readonly message: string } = never, R = never>(
  afterEach: (jobId: string) => Effect.Effect<void, E, R> = () => Effect.void
): Part<CronJobs | R> => ({
  name: "jobs",
  remove: (tenant) =>
    Effect.gen(function* () {
      const jobs = yield* CronJobs
      const own = (yield* jobs.list).jobs.filter((job) => job.tenant === tenant)
      for (const { id } of own) {
        yield* afterEach(id)
        yield* jobs.remove(id)
      }
      return own.length
    })
})

/**
 * Makes the part of a folder with a folder for each tenant: memories, long results (`ResultText`), contents of changed
 * files (`ChangeContents`).
 */
export const makeFolderPart = (name: string, folder: string): Part<FileSystem.FileSystem | Path.Path> => ({
  name,
  remove: (tenant) => removeTenantFolder(folder, tenant)
})

/** Waits at most ten seconds for a run that was told to end. */
const waitForEnd = (id: string) =>
  Effect.repeat(RemoteSession.isRunning(id), {
    while: (isRunning) => isRunning,
    schedule: Schedule.spaced("100 millis"),
    times: 100
  })

/**
 * Makes the part of the runs in flight of a tenant's sessions, and of those that `isAlso` selects, in this and in other
 * processes. They are ended. A session whose process does not end its run stays in use, and its removal fails.
 */
export const makeRunPart = (isAlso?: (session: Session) => boolean): Part<RemoteSession.Needs> => ({
  name: "runs in flight",
  remove: (tenant) =>
    Effect.gen(function* () {
      let ended = 0
      for (const { id } of yield* TenantData.listSessions(tenant, isAlso)) {
        if (!(yield* RemoteSession.isRunning(id))) continue
        const cancelled = yield* Effect.catchTag(RemoteSession.cancelTurn(id), "RemoteRefused", () =>
          Effect.succeed({ stopped: false })
        )
        yield* waitForEnd(id)
        if (cancelled.stopped) ended++
      }
      return ended
    })
})

export { makeExportPart, makeStreamPart } from "./TenantExports.ts"
