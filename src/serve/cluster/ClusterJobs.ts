/**
 * Scheduled jobs in the database of a cluster instead of a file in the home directory: every runner looks for due jobs,
 * and each due time of a job is handled by only one runner.
 *
 * **Details**
 *
 * All jobs are stored in one text value. The value is read and changed in a transaction that locks it, so only one
 * runner can claim a job: a second runner finds the job already claimed. Scripts and outputs of jobs stay on the
 * machine that runs them.
 *
 * Source: `hermes-product.md` §2.5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { CronJobs, make } from "../../tools/cron/CronJobs.ts"
import { CronStoreError } from "../../tools/cron/Job.ts"
import * as JobFile from "../../tools/cron/JobFile.ts"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import type { ClusterError } from "./Cluster.ts"

const toCronStoreError = ({ message }: ClusterError): CronStoreError => new CronStoreError({ message })

/** The text value in the database that contains the jobs. */
const jobFile = Effect.gen(function* () {
  const { place, run, sql } = yield* ClusterDatabase
  const name = `the list of jobs in ${place}`
  const parseJobRows = (rows: ReadonlyArray<{ readonly value: string }>) => {
    const [row] = rows
    return row === undefined || row.value === ""
      ? Result.succeed(JobFile.nothing)
      : JobFile.parseContent(name, row.value)
  }
  const file: JobFile.JobFile = {
    read: Effect.flatMap(
      Effect.mapError(
        run(sql<{ readonly value: string }>`SELECT value FROM shared WHERE kind = 'cron' AND key = 'jobs'`),
        toCronStoreError
      ),
      (rows) => Effect.fromResult(parseJobRows(rows))
    ),
    change: <A, E>(
      work: (
        content: JobFile.Content
      ) => Effect.Effect<readonly [result: A, jobs: Parameters<typeof JobFile.renderContent>[1] | undefined], E>
    ) =>
      Effect.flatMap(
        Effect.mapError(
          run(
            sql.transaction(
              Effect.gen(function* () {
                yield* sql`INSERT INTO shared (kind, key, value) VALUES ('cron', 'jobs', '') ON CONFLICT DO NOTHING`
                const rows = yield* sql<{
                  readonly value: string
                }>`SELECT value FROM shared WHERE kind = 'cron' AND key = 'jobs' FOR UPDATE`
                const content = parseJobRows(rows)
                if (Result.isFailure(content)) return Result.fail<CronStoreError | E>(content.failure)
                const worked = yield* Effect.result(work(content.success))
                if (Result.isFailure(worked)) return Result.fail<CronStoreError | E>(worked.failure)
                const [result, jobs] = worked.success
                if (jobs !== undefined) {
                  yield* sql`UPDATE shared SET value = ${JobFile.renderContent(content.success, jobs)}, changed_at = clock_timestamp() WHERE kind = 'cron' AND key = 'jobs'`
                }
                return Result.succeed(result)
              })
            )
          ),
          toCronStoreError
        ),
        Effect.fromResult
      )
  }
  return file
})

/** Provides the scheduled jobs of a cluster. */
export const layer: Layer.Layer<CronJobs, never, ClusterDatabase> = Layer.effect(CronJobs, Effect.map(jobFile, make))
