/**
 * Submits rows to the runners of a cluster, and collects their outcomes.
 *
 * Each attempt at a row has a fixed name below a key that the results directory stores. A process that is interrupted
 * and started again finds the rows that runners completed in the meantime; a new results directory has a new key, so
 * that results of another model or another dataset are never collected. A failed row that was started again by hand
 * (`hermes cluster retry`) counts as the next attempt at it.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Redacted from "effect/Redacted"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Outcome from "../../research/batch/Outcome.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as Cluster from "../../serve/cluster/Cluster.ts"
import * as ClusterDatabase from "../../serve/cluster/ClusterDatabase.ts"
import * as ClusterAgents from "./ClusterAgents.ts"
import * as ClusterRows from "./ClusterRows.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as OutputFile from "./OutputFile.ts"

/** Number of times that a row whose run broke off is continued in its session. */
const mostContinuations = 3

/** Number of runs that are cancelled at the same time. */
const cancellations = 8

/** A row to submit. */
export interface SubmittedRow {
  /** Name of the row in ids: letters, digits, `.`, `-` and `_`. */
  readonly name: string
  /** Number of the attempt, counted from 1. */
  readonly attempt: number
  readonly sessionId: string
  /** Version of the form of the input. */
  readonly version: number
  /** Input for the handler, without the fields that every row has. */
  readonly input: Json.Fields
}

/** Rows of one results directory. */
export interface Submission {
  readonly url: Redacted.Redacted
  readonly settings: Values
  readonly agentFile: AgentFile | undefined
  /** Kind of the requests. */
  readonly kind: string
  /** Name of the rows in `hermes cluster status`. */
  readonly batch: string
  /** Beginning of the names of runs. */
  readonly name: string
  /** File that stores the key of the results. */
  readonly keyFile: string
  /** True if the results are new, so that a stored key belongs to results that were removed. */
  readonly isFresh: boolean
  /** Time limit of an attempt at a row on its runner, in seconds. */
  readonly timeoutSeconds: number | undefined
}

/** Submits rows of one results directory. */
export interface RowSubmitter {
  /** Beginning of the names of sessions and runs, which the results directory determines. */
  readonly prefix: Effect.Effect<string, Outcome.ReportedFailure>
  /** Submits an attempt at a row, and waits until it is over or suspended. */
  readonly submit: (row: SubmittedRow) => Effect.Effect<RowPool.Result, Outcome.ReportedFailure>
  /**
   * Cancels the rows that were submitted and have no outcome yet. The next submission of such a row continues it in its
   * session.
   */
  readonly cancelOpen: Effect.Effect<void>
}

/** Reads the key of results, or makes it. */
const readKey = Effect.fnUntraced(
  function* (path: string, isFresh: boolean) {
    const fs = yield* FileSystem.FileSystem
    const text = isFresh ? "" : yield* Effect.orElseSucceed(fs.readFileString(path), () => "")
    const known = Json.readFields(Json.parseOrKeep(text))["key"]
    if (typeof known === "string" && /^[0-9a-f]{8,32}$/u.test(known)) return known
    const key = yield* Ids.makeHex(12)
    yield* OutputFile.write(path, `${JSON.stringify({ key })}\n`)
    return key
  },
  Effect.mapError(({ message }) => new Outcome.ReportedFailure({ message, kind: "infrastructure", isPassing: false }))
)

/** Reports an error of the database as a failure of the infrastructure. The next submission finds the row again. */
const toReportedFailure = ({ message }: Cluster.ClusterError) =>
  Effect.fail(new Outcome.ReportedFailure({ message, kind: "infrastructure", isPassing: true }))

type RowEnd = Cluster.Outcome | Cluster.SuspendedRun

/**
 * Makes the function that waits until a run is over, or is suspended. A run that is suspended at the start of the wait
 * is continued first, with the answers that its session has. One reader serves all waits, until the scope closes.
 */
const makeEndReader = Effect.fnUntraced(function* (cluster: Cluster.Service) {
  const waits = new Map<string, { readonly end: Deferred.Deferred<RowEnd>; readonly starts: number }>()
  const look = Effect.gen(function* () {
    const ids = Array.from(waits.keys())
    if (ids.length === 0) return
    for (const [id, outcome] of yield* cluster.outcomes(ids)) {
      const wait = waits.get(id)
      if (wait !== undefined) yield* Deferred.succeed(wait.end, outcome)
    }
    for (const [id, run] of yield* cluster.suspended(ids)) {
      const wait = waits.get(id)
      if (wait !== undefined && run.starts > wait.starts) yield* Deferred.succeed(wait.end, run)
    }
  })
  yield* look.pipe(
    Effect.catch(({ message }) => Effect.logWarning(message)),
    Effect.repeat(Schedule.spaced("300 millis")),
    Effect.forkScoped
  )
  return (id: string): Effect.Effect<RowEnd, Cluster.ClusterError> =>
    Effect.scoped(
      Effect.gen(function* () {
        const starts = (yield* cluster.suspended([id])).get(id)?.starts ?? 0
        const end = yield* Deferred.make<RowEnd>()
        yield* Effect.acquireRelease(
          Effect.sync(() => waits.set(id, { end, starts })),
          () => Effect.sync(() => waits.delete(id))
        )
        if (starts > 0) yield* cluster.resume(id)
        return yield* Deferred.await(end)
      })
    )
})

/** Returns the last run of a chain of runs, each of which does the work of the one before again. */
const findLast = Effect.fnUntraced(function* (cluster: Cluster.Service, id: string) {
  let last = yield* cluster.find(id)
  while (last?.retriedAs !== undefined) {
    const next = yield* cluster.find(last.retriedAs)
    if (next === undefined) break
    last = next
  }
  return last
})

/** Makes the function that follows a run to its end, over the runs that continue it. */
const makeFollower = Effect.fnUntraced(function* (cluster: Cluster.Service) {
  const waitForEnd = yield* makeEndReader(cluster)
  /** Runs that are submitted and not over. */
  const open = new Set<string>()

  /** Returns the run that continues a failed one, or `undefined` if its failure is final. */
  const findContinuation = Effect.fnUntraced(function* (id: string, end: Cluster.Outcome, wasOver: boolean) {
    if (end.status !== "failed") return undefined
    const again = (yield* cluster.find(id))?.retriedAs
    if (again !== undefined) return again
    const isContinued =
      (end.isBroken === true && ClusterRows.countContinuations(id) < mostContinuations) ||
      // It was cancelled at a limit of the earlier process.
      (end.isCancelled === true && wasOver)
    return isContinued ? yield* cluster.retry(id) : undefined
  })

  const followRun = (
    id: string,
    known: Cluster.Outcome | undefined
  ): Effect.Effect<RowPool.Result, Outcome.ReportedFailure | Cluster.ClusterError> =>
    Effect.gen(function* () {
      if (known === undefined) open.add(id)
      const end = known ?? (yield* waitForEnd(id))
      open.delete(id)
      if (!("status" in end)) return RowPool.makeSuspendedResult(end.sessionId)
      const next = yield* findContinuation(id, end, known !== undefined)
      if (next === undefined) return yield* ClusterRows.readResult(end)
      return yield* followRun(next, (yield* cluster.outcomes([next])).get(next))
    })
  return { followRun, open }
})

/** Creates the submitter of rows. It can be used until the scope closes. */
export const makeRowSubmitter = Effect.fnUntraced(
  function* ({ agentFile, batch, isFresh, keyFile, kind, name, settings, timeoutSeconds, url }: Submission) {
    const { clientOver } = yield* Effect.promise(() => import("../../serve/cluster/ClusterLayers.ts"))
    const database = Layer.succeedContext(yield* Layer.build(ClusterDatabase.layer(url, 4)))
    const cluster = Context.get(yield* Layer.build(Layer.provide(clientOver, database)), Cluster.Cluster)
    const agent = yield* Effect.provide(ClusterAgents.storeSubmittedAgent(settings, agentFile), database)
    const services = yield* Effect.context<FileSystem.FileSystem>()
    // The key is made when the first row is submitted, after all checks of the results.
    const prefix = yield* Effect.cached(
      Effect.map(Effect.provideContext(readKey(keyFile, isFresh), services), (key) => `${name}-${key}`)
    )
    const { followRun, open } = yield* makeFollower(cluster)
    const submitRow: RowSubmitter["submit"] = (row) =>
      Effect.gen(function* () {
        const makeId = (attempt: number) => Effect.map(prefix, (before) => `${before}/${row.name}/${attempt}`)
        const id = yield* makeId(row.attempt)
        const before = row.attempt === 1 ? undefined : yield* makeId(row.attempt - 1)
        // The attempt before may have been started again by hand, or its outcome may not have been received.
        const last = before === undefined ? undefined : yield* findLast(cluster, before)
        if (last !== undefined && last.outcome?.status !== "failed") return yield* followRun(last.id, last.outcome)
        const input: ClusterRows.CommonInput & Json.Fields = {
          version: row.version,
          agent,
          ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
          ...row.input
        }
        const request = { id, batch, kind, sessionId: row.sessionId, retries: 0, input: JSON.stringify(input) }
        return yield* followRun(id, yield* cluster.submit(request))
      }).pipe(Effect.catchTag("ClusterError", toReportedFailure))
    const submitter: RowSubmitter = {
      prefix,
      submit: submitRow,
      cancelOpen: Effect.suspend(() =>
        Effect.forEach(
          Array.from(open),
          (id) => Effect.catch(cluster.cancel(id), ({ message }) => Effect.logWarning(message)),
          { concurrency: cancellations, discard: true }
        )
      )
    }
    return submitter
  },
  Effect.mapError((error) =>
    error._tag === "ClusterError" ? ClusterSettings.toClusterFailure(error) : makeUsageFailure(error.message)
  )
)
