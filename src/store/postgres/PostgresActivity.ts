/** Entries and prompts of all sessions in a Postgres database. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import * as Json from "../../base/domain/Json.ts"
import type * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as MessageText from "../MessageText.ts"
import { promptLength, type Service as SessionActivity, type SpokenCounts } from "../SessionActivity.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import type * as SqlStore from "../sql/SqlStore.ts"
import * as PostgresTexts from "./PostgresTexts.ts"

/**
 * Reads the origin of a stored message from its entry in the record, and whether it was copied from another session.
 */
const readOrigin = (body: string): { readonly origin: unknown; readonly isCopy: boolean } => {
  const { copyOf = null, origin } = Json.readFields(Option.getOrUndefined(Json.parse(body)))
  return { origin, isCopy: copyOf !== null }
}

/** Creates the service of the entries of all processes, over an open client. */
export const makeActivity = (
  sql: PostgresClient.Client,
  read: SqlStore.Run,
  { sequence, since }: SqlRecord.SqlRecord,
  running: Effect.Effect<ReadonlyArray<string>, SqlError>
): SessionActivity => ({
  version: sequence,
  sequence,
  since,
  running: read(
    "running",
    Effect.map(running, (ids) => new Set(ids))
  ),
  spoken: ({ since, until }) =>
    read(
      "spoken",
      Effect.gen(function* () {
        const rows = yield* sql<{ readonly id: string; readonly position: number; readonly body: string }>`
        SELECT session_id AS id, position, body FROM run_record
        WHERE kind = 'MessageAppended' AND at >= ${since} AND at < ${until} AND position IS NOT NULL`
        const chosen = yield* sql<
          PostgresTexts.TextColumns & { readonly id: string; readonly at: number; readonly body: string | null }
        >`
        SELECT m.session_id AS id, m.created_at AS at, m.content, m.tool_name, m.tool_calls, m.envelope, r.body
        FROM messages m
        LEFT JOIN run_record r ON r.session_id = m.session_id AND r.position = m.position AND r.kind = 'MessageAppended'
        WHERE m.role = 'user' AND m.created_at >= ${since} AND m.created_at < ${until}
        AND (substr(m.content, 1, 6) = '<skill' OR (m.content = '' AND position('<skill' IN m.envelope) > 0))`
        const spoken = new Map<
          string,
          { messages: number; userMessages: number; skills: Array<SpokenCounts["skills"][number]> }
        >()
        for (const { body, id } of rows) {
          const entry = readOrigin(body)
          if (entry.isCopy) continue
          const counts = spoken.get(id) ?? { messages: 0, userMessages: 0, skills: [] }
          counts.messages++
          if (entry.origin === "user") counts.userMessages++
          spoken.set(id, counts)
        }
        for (const { at, body, id, ...columns } of chosen) {
          const name = MessageText.findChosenSkill(PostgresTexts.readTexts(columns).content)
          if (name !== undefined && (body === null || !readOrigin(body).isCopy))
            spoken.get(id)?.skills.push({ name, at })
        }
        return spoken
      })
    ),
  prompts: (ids) =>
    Effect.map(
      Effect.forEach(Arr.chunksOf(ids, SqlRecord.insertSize), (some) =>
        read(
          "prompts",
          sql<PostgresTexts.TextColumns & { readonly id: string }>`
          SELECT sessions.id, m.content, m.tool_name, m.tool_calls, m.envelope
          FROM sessions, LATERAL (SELECT * FROM messages
            WHERE session_id = sessions.id AND role = 'user' ORDER BY position LIMIT 1) AS m
          WHERE sessions.id IN ${sql.in(some)}`
        )
      ),
      (rows) =>
        new Map(
          rows
            .flat()
            .map(({ id, ...columns }) => [
              id,
              PostgresTexts.takeChars(PostgresTexts.readTexts(columns).content, promptLength)
            ])
        )
    )
})
