/**
 * The tables of a Postgres session database, and the migrations from older versions.
 *
 * **Details**
 *
 * The tables match the current tables of `sqlite/Migrations.ts`, in a separate schema. A migration is a list of
 * statements that is never changed after its release. All missing migrations run in one transaction, one process at a
 * time.
 *
 * `made` numbers the rows in insertion order, as `rowid` does in SQLite. `words` contains the folded words of a message
 * for the search index. If a message is older than the index or has too many words for the index, `words` is NULL and
 * `folded` contains its folded text. `content`, `tool_name` and `tool_calls` are empty, because `envelope` has these
 * texts; messages of earlier versions have them in both.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { Client } from "../../base/platform/PostgresClient.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import type { Migration } from "../sqlite/Migrations.ts"

const counters = `input_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens BIGINT NOT NULL DEFAULT 0,
  cache_write_tokens BIGINT NOT NULL DEFAULT 0,
  reasoning_tokens BIGINT NOT NULL DEFAULT 0,
  api_call_count BIGINT NOT NULL DEFAULT 0,
  estimated_cost_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
  cost_status TEXT NOT NULL DEFAULT 'unknown',
  cost_source TEXT NOT NULL DEFAULT 'none'`

/** Every migration, oldest first. */
export const migrations: ReadonlyArray<Migration> = [
  {
    version: 1,
    name: "sessions, messages, usage, calls that began, leases, run record",
    statements: [
      `CREATE TABLE sessions (
        made BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
        id TEXT PRIMARY KEY,
        source TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        parent_session_id TEXT,
        title TEXT UNIQUE,
        cwd TEXT,
        started_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        ended_at BIGINT,
        end_reason TEXT,
        message_count INTEGER NOT NULL DEFAULT 0,
        tool_call_count INTEGER NOT NULL DEFAULT 0,
        ${counters},
        continues_session_id TEXT UNIQUE,
        has_own_prompt INTEGER NOT NULL DEFAULT 0,
        system_prompt TEXT NOT NULL
      )`,
      "CREATE INDEX sessions_newest ON sessions (updated_at DESC, made DESC)",
      `CREATE TABLE messages (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        role TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        content TEXT NOT NULL,
        tool_name TEXT NOT NULL,
        tool_calls TEXT NOT NULL,
        folded TEXT NOT NULL,
        envelope TEXT NOT NULL,
        UNIQUE (session_id, position)
      )`,
      "CREATE INDEX messages_created ON messages (created_at)",
      `CREATE TABLE session_model_usage (
        made BIGINT GENERATED ALWAYS AS IDENTITY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        ${counters},
        PRIMARY KEY (session_id, provider, model)
      )`,
      `CREATE TABLE begun_calls (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        PRIMARY KEY (session_id, call_id)
      )`,
      PostgresLeases.table,
      `CREATE TABLE run_record (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn_id TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        version INTEGER NOT NULL,
        kind TEXT NOT NULL,
        content_key TEXT,
        position INTEGER,
        body TEXT NOT NULL
      )`,
      "CREATE INDEX run_record_session ON run_record (session_id, id)",
      "CREATE UNIQUE INDEX run_record_content ON run_record (session_id, content_key) WHERE content_key IS NOT NULL",
      "CREATE INDEX run_record_messages ON run_record (at) WHERE kind = 'MessageAppended'"
    ]
  },
  {
    version: 2,
    name: "index of words",
    statements: [
      "ALTER TABLE messages ADD COLUMN words TSVECTOR",
      "CREATE INDEX messages_words ON messages USING gin (words)",
      "CREATE INDEX messages_without_words ON messages (id) WHERE words IS NULL"
    ]
  },
  {
    version: 3,
    name: "questions of suspended runs",
    statements: [
      `CREATE TABLE questions (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        place TEXT NOT NULL,
        kind TEXT NOT NULL,
        audience TEXT,
        state TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT,
        wake_at BIGINT,
        body TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        answered_at BIGINT
      )`,
      "CREATE INDEX questions_session ON questions (session_id)",
      "CREATE INDEX questions_open ON questions (created_at) WHERE state = 'open'",
      `CREATE TABLE call_steps (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (session_id, call_id, name)
      )`
    ]
  },
  { version: 4, name: "branch of a session", statements: ["ALTER TABLE sessions ADD COLUMN branch TEXT"] },
  {
    version: 5,
    name: "sessions: tenant",
    statements: [
      "ALTER TABLE sessions ADD COLUMN tenant TEXT",
      "CREATE INDEX sessions_tenant ON sessions (tenant) WHERE tenant IS NOT NULL"
    ]
  },
  {
    // The number of the last collected write (`PostgresWrites`).
    version: 6,
    name: "sessions: last write",
    statements: ["ALTER TABLE sessions ADD COLUMN write_id BIGINT"]
  },
  {
    version: 7,
    name: "messages to the process that works on a session",
    statements: [
      `CREATE TABLE session_inbox (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        sent_at BIGINT NOT NULL,
        taken_at BIGINT,
        reply TEXT
      )`,
      "CREATE INDEX session_inbox_session ON session_inbox (session_id)",
      `CREATE TABLE session_notices (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session_id, kind)
      )`
    ]
  },
  {
    version: 8,
    name: "titles are unique within a tenant",
    statements: [
      "ALTER TABLE sessions DROP CONSTRAINT sessions_title_key",
      "CREATE UNIQUE INDEX sessions_title ON sessions (title, coalesce(tenant, '')) WHERE title IS NOT NULL"
    ]
  }
]

/** Key of the advisory lock that is held during a migration. */
const migrating = 0x48654567

/** Migrates the tables in `schema` to the last version in `all`. `place` is the name of the database in messages. */
export const migrate = Effect.fnUntraced(function* (
  sql: Client,
  schema: string,
  place: string,
  all: ReadonlyArray<Migration> = migrations
): Effect.fn.Return<void, SqlError | SessionStoreError> {
  const known = all.at(-1)?.version ?? 0
  const readVersion = Effect.gen(function* () {
    const [there] = yield* sql<{ readonly is_there: boolean }>`
      SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = ${schema} AND tablename = 'schema_version') AS is_there`
    if (there?.is_there !== true) return 0
    const [row] = yield* sql<{ readonly version: number | null }>`SELECT max(version) AS version FROM schema_version`
    const version = row?.version ?? 0
    if (version <= known) return version
    return yield* new SessionStoreError({
      operation: "open",
      message:
        `${place} was written by a newer version (schema ${version}; supported: ${known}): update hermes ` +
        "on this machine to use it"
    })
  })
  if ((yield* readVersion) === known) return
  yield* sql.transaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${migrating})`
      // Another process may have migrated the tables in the meantime.
      const from = yield* readVersion
      if (from === known) return
      if (from === 0) {
        yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`
        yield* sql.unsafe(
          "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL, " +
            "applied_at TIMESTAMPTZ NOT NULL DEFAULT now())"
        ).unprepared
      }
      for (const { name, statements, version } of all) {
        if (version <= from) continue
        for (const statement of statements) yield* sql.unsafe(statement).unprepared
        yield* sql`INSERT INTO schema_version (version, name) VALUES (${version}, ${name})`
      }
    })
  )
})
