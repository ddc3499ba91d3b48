/** Removal of the runs of a tenant from the database of a cluster. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { StoredRun } from "./RunForms.ts"
import type { RunsPlace, Service } from "./Runs.ts"

/** Removes runs with the messages and replies of their workflows. */
export const deleteRuns = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  ids: ReadonlyArray<string>,
  executions: ReadonlyArray<string>
): Effect.fn.Return<void, SqlError> {
  const ofRuns = sql.in("entity_id", executions)
  yield* sql`DELETE FROM cluster_replies WHERE request_id IN (SELECT id FROM cluster_messages WHERE ${ofRuns})`
  yield* sql`DELETE FROM cluster_messages WHERE ${ofRuns}`
  yield* sql`DELETE FROM runs WHERE ${sql.in("id", ids)}`
})

/** Makes the removal of the runs of a tenant. */
export const makeRemoval = ({
  listed,
  run,
  sql
}: RunsPlace): Pick<Service, "countOpenWorkflows" | "ofTenant" | "remove"> => ({
  ofTenant: (tenant, sessions) =>
    run(sql<Pick<StoredRun, "id" | "sessionId" | "state">>`
      SELECT id, session_id AS "sessionId", state FROM runs
      WHERE tenant = ${tenant} OR (tenant IS NULL AND session_id IN (${listed(sessions)})) ORDER BY made`),
  countOpenWorkflows: (executions) =>
    Effect.map(
      run(sql<{ readonly count: number }>`
        SELECT count(*) AS count FROM cluster_messages
        WHERE tag = 'run' AND NOT processed AND entity_id IN (${listed(executions)})`),
      ([row]) => Number(row?.count ?? 0)
    ),
  remove: (runs, executions) =>
    run(
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`DELETE FROM inbox WHERE ${sql.in(
            "session_id",
            runs.map(({ sessionId }) => sessionId)
          )}`
          yield* deleteRuns(
            sql,
            runs.map(({ id }) => id),
            executions
          )
        })
      )
    )
})
