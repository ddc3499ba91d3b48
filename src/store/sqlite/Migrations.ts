/**
 * The tables of the session database, and the migrations from older versions.
 *
 * **Details**
 *
 * A migration is a list of statements that is never changed after its release; a change to the tables is a new
 * migration. All missing migrations run in one transaction, so a database is migrated completely or not at all.
 * Foreign keys are not enforced meanwhile, so that a table can be replaced without losing the rows that refer to it.
 * `schema_version` lists the migrations that have run; the application id in the file's header identifies the file as a
 * database of this program.
 *
 * `messages.envelope` is the stored message; `content`, `tool_name` and `tool_calls` are its text for search. The
 * column of the system prompt comes after the counters, so that reading the counters does not read it.
 * `run_record.body` is an event without the message that `messages` has at its `position`; a row with a `content_key`
 * is stored once per session. `record_parts` lists the parts of the record, of 256 rows each, in which a session has
 * entries (`RecordParts`).
 *
 * Source: `hermes-product.md` §4.1.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import { applicationId } from "../../base/platform/LeaseFile.ts"
import * as Leases from "../../base/platform/Leases.ts"

/** A migration from the previous version. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly statements: ReadonlyArray<string>
}

/** Columns of `sessions` since version 14. */
const tenantSessionColumns = [
  "id TEXT PRIMARY KEY",
  "source TEXT NOT NULL",
  "provider TEXT NOT NULL",
  "model TEXT NOT NULL",
  "parent_session_id TEXT",
  "continues_session_id TEXT",
  "tenant TEXT",
  "title TEXT",
  "cwd TEXT",
  "branch TEXT",
  "started_at INTEGER NOT NULL",
  "updated_at INTEGER NOT NULL",
  "ended_at INTEGER",
  "end_reason TEXT",
  "message_count INTEGER NOT NULL DEFAULT 0",
  "tool_call_count INTEGER NOT NULL DEFAULT 0",
  "input_tokens INTEGER NOT NULL DEFAULT 0",
  "output_tokens INTEGER NOT NULL DEFAULT 0",
  "cache_read_tokens INTEGER NOT NULL DEFAULT 0",
  "cache_write_tokens INTEGER NOT NULL DEFAULT 0",
  "reasoning_tokens INTEGER NOT NULL DEFAULT 0",
  "api_call_count INTEGER NOT NULL DEFAULT 0",
  "estimated_cost_usd REAL NOT NULL DEFAULT 0",
  "cost_status TEXT NOT NULL DEFAULT 'unknown'",
  "cost_source TEXT NOT NULL DEFAULT 'none'",
  "has_own_prompt INTEGER NOT NULL DEFAULT 0",
  "system_prompt TEXT NOT NULL"
]

const tenantSessionNames = tenantSessionColumns.map((column) => column.slice(0, column.indexOf(" "))).join(", ")

/** Every migration, oldest first. */
export const migrations: ReadonlyArray<Migration> = [
  {
    version: 1,
    name: "sessions, messages, usage, search",
    statements: [
      `CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        source TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        parent_session_id TEXT,
        title TEXT UNIQUE,
        cwd TEXT,
        started_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        ended_at INTEGER,
        end_reason TEXT,
        message_count INTEGER NOT NULL DEFAULT 0,
        tool_call_count INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cache_read_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        api_call_count INTEGER NOT NULL DEFAULT 0,
        system_prompt TEXT NOT NULL
      ) STRICT`,
      `CREATE TABLE messages (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        role TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        content TEXT NOT NULL,
        tool_name TEXT NOT NULL,
        tool_calls TEXT NOT NULL,
        envelope TEXT NOT NULL,
        UNIQUE (session_id, position)
      ) STRICT`,
      `CREATE TABLE session_model_usage (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        api_call_count INTEGER NOT NULL,
        UNIQUE (session_id, provider, model)
      ) STRICT`,
      `CREATE VIRTUAL TABLE messages_fts USING fts5(
        content, tool_name, tool_calls,
        content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
      )`,
      `CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts (rowid, content, tool_name, tool_calls)
        VALUES (new.id, new.content, new.tool_name, new.tool_calls);
      END`,
      `CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, content, tool_name, tool_calls)
        VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
      END`,
      `CREATE TRIGGER messages_fts_update AFTER UPDATE OF content, tool_name, tool_calls ON messages BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, content, tool_name, tool_calls)
        VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
        INSERT INTO messages_fts (rowid, content, tool_name, tool_calls)
        VALUES (new.id, new.content, new.tool_name, new.tool_calls);
      END`
    ]
  },
  {
    version: 2,
    name: "cost",
    statements: ["sessions", "session_model_usage"].flatMap((table) => [
      `ALTER TABLE ${table} ADD COLUMN estimated_cost_usd REAL NOT NULL DEFAULT 0`,
      `ALTER TABLE ${table} ADD COLUMN cost_status TEXT NOT NULL DEFAULT 'unknown'`,
      `ALTER TABLE ${table} ADD COLUMN cost_source TEXT NOT NULL DEFAULT 'none'`
    ])
  },
  {
    version: 3,
    name: "calls that began, leases",
    statements: [
      `CREATE TABLE begun_calls (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        PRIMARY KEY (session_id, call_id)
      ) STRICT, WITHOUT ROWID`,
      Leases.table
    ]
  },
  {
    version: 4,
    name: "run record",
    statements: [
      `CREATE TABLE run_record (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn_id TEXT NOT NULL,
        at REAL NOT NULL,
        version INTEGER NOT NULL,
        kind TEXT NOT NULL,
        content_key TEXT,
        position INTEGER,
        body TEXT NOT NULL
      ) STRICT`,
      "CREATE INDEX run_record_session ON run_record (session_id, id)",
      "CREATE UNIQUE INDEX run_record_content ON run_record (session_id, content_key) WHERE content_key IS NOT NULL"
    ]
  },
  {
    version: 5,
    name: "bookkeeping",
    statements: ["CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"]
  },
  {
    version: 6,
    name: "continuations of compacted sessions",
    statements: [
      "ALTER TABLE sessions ADD COLUMN continues_session_id TEXT",
      "ALTER TABLE sessions ADD COLUMN has_own_prompt INTEGER NOT NULL DEFAULT 0",
      "CREATE UNIQUE INDEX sessions_continues ON sessions (continues_session_id) WHERE continues_session_id IS NOT NULL"
    ]
  },
  {
    version: 7,
    name: "index of signs",
    statements: [
      `CREATE VIRTUAL TABLE signs_fts USING fts5(signs, content = '', contentless_delete = 1, tokenize = 'ascii')`,
      // If the newest messages are removed, later messages reuse their ids.
      `CREATE TRIGGER signs_fts_delete AFTER DELETE ON messages BEGIN
        DELETE FROM signs_fts WHERE rowid = old.id;
        UPDATE state_meta SET value = (SELECT coalesce(max(id), 0) FROM messages)
        WHERE key = 'signs_until' AND CAST(value AS INTEGER) >= old.id AND NOT EXISTS (SELECT 1 FROM messages WHERE id > old.id);
      END`,
      `CREATE TRIGGER signs_fts_update AFTER UPDATE OF content, tool_name, tool_calls ON messages BEGIN
        DELETE FROM signs_fts WHERE rowid = old.id;
        UPDATE state_meta SET value = min(CAST(value AS INTEGER), new.id - 1) WHERE key = 'signs_until';
      END`
    ]
  },
  {
    version: 8,
    name: "index of words is filled by searches",
    statements: [
      "DROP TRIGGER messages_fts_insert",
      "DROP TRIGGER messages_fts_delete",
      "DROP TRIGGER messages_fts_update",
      "INSERT OR REPLACE INTO state_meta (key, value) SELECT 'words_until', coalesce(max(id), 0) FROM messages",
      `CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages
      WHEN old.id <= (SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'words_until') BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, content, tool_name, tool_calls)
        VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
        UPDATE state_meta SET value = (SELECT coalesce(max(id), 0) FROM messages)
        WHERE key = 'words_until' AND NOT EXISTS (SELECT 1 FROM messages WHERE id > old.id);
      END`,
      `CREATE TRIGGER messages_fts_update AFTER UPDATE OF content, tool_name, tool_calls ON messages
      WHEN old.id <= (SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'words_until') BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, content, tool_name, tool_calls)
        VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
        INSERT INTO messages_fts (rowid, content, tool_name, tool_calls)
        VALUES (new.id, new.content, new.tool_name, new.tool_calls);
      END`
    ]
  },
  {
    version: 9,
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
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        wake_at INTEGER,
        body TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        answered_at INTEGER
      ) STRICT`,
      "CREATE INDEX questions_session ON questions (session_id)",
      "CREATE INDEX questions_open ON questions (created_at) WHERE state = 'open'",
      `CREATE TABLE call_steps (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (session_id, call_id, name)
      ) STRICT, WITHOUT ROWID`
    ]
  },
  {
    version: 10,
    name: "places of the indexes after the newest messages are removed",
    statements: [
      "DROP TRIGGER messages_fts_delete",
      "DROP TRIGGER signs_fts_delete",
      // A removed message beyond the place of an index also allows later messages to reuse ids below that place.
      `CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, content, tool_name, tool_calls)
        SELECT 'delete', old.id, old.content, old.tool_name, old.tool_calls
        WHERE old.id <= (SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'words_until');
        DELETE FROM signs_fts WHERE rowid = old.id;
        UPDATE state_meta SET value = (SELECT coalesce(max(id), 0) FROM messages)
        WHERE key IN ('words_until', 'signs_until') AND NOT EXISTS (SELECT 1 FROM messages WHERE id > old.id)
          AND CAST(value AS INTEGER) > (SELECT coalesce(max(id), 0) FROM messages);
      END`,
      `UPDATE state_meta SET value = (SELECT coalesce(max(id), 0) FROM messages)
      WHERE key IN ('words_until', 'signs_until')
        AND CAST(value AS INTEGER) > (SELECT coalesce(max(id), 0) FROM messages)`
    ]
  },
  { version: 11, name: "branch of a session", statements: ["ALTER TABLE sessions ADD COLUMN branch TEXT"] },
  {
    version: 12,
    name: "sessions: tenant",
    statements: [
      "ALTER TABLE sessions ADD COLUMN tenant TEXT",
      "CREATE INDEX sessions_tenant ON sessions (tenant) WHERE tenant IS NOT NULL"
    ]
  },
  {
    version: 13,
    name: "messages to the process that works on a session",
    statements: [
      `CREATE TABLE session_inbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        taken_at INTEGER,
        reply TEXT
      ) STRICT`,
      "CREATE INDEX session_inbox_session ON session_inbox (session_id)",
      `CREATE TABLE session_notices (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session_id, kind)
      ) STRICT, WITHOUT ROWID`
    ]
  },
  {
    // A column cannot lose a constraint, so the table is made again. Its rows keep their order.
    version: 14,
    name: "titles are unique within a tenant",
    statements: [
      `CREATE TABLE sessions_made_again (${tenantSessionColumns.join(", ")}) STRICT`,
      `INSERT INTO sessions_made_again (rowid, ${tenantSessionNames}) ` +
        `SELECT rowid, ${tenantSessionNames} FROM sessions`,
      "DROP TABLE sessions",
      "ALTER TABLE sessions_made_again RENAME TO sessions",
      "CREATE UNIQUE INDEX sessions_continues ON sessions (continues_session_id) " +
        "WHERE continues_session_id IS NOT NULL",
      "CREATE INDEX sessions_tenant ON sessions (tenant) WHERE tenant IS NOT NULL",
      "CREATE UNIQUE INDEX sessions_title ON sessions (title, coalesce(tenant, '')) WHERE title IS NOT NULL"
    ]
  },
  {
    version: 15,
    name: "starts of calls with their messages, parts of the record by session",
    statements: [
      "ALTER TABLE messages ADD COLUMN begun TEXT",
      `CREATE TABLE run_record_made_again (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        at REAL NOT NULL,
        version INTEGER NOT NULL,
        kind TEXT NOT NULL,
        content_key TEXT,
        position INTEGER,
        body TEXT NOT NULL
      ) STRICT`,
      `INSERT INTO run_record_made_again (id, session_id, turn_id, at, version, kind, content_key, position, body)
      SELECT id, session_id, turn_id, at, version, kind, content_key, position, body FROM run_record`,
      "DROP TABLE run_record",
      "ALTER TABLE run_record_made_again RENAME TO run_record",
      "CREATE UNIQUE INDEX run_record_content ON run_record (session_id, content_key) WHERE content_key IS NOT NULL",
      `CREATE TABLE record_parts (
        session_id TEXT NOT NULL,
        part INTEGER NOT NULL,
        PRIMARY KEY (session_id, part)
      ) STRICT, WITHOUT ROWID`,
      "INSERT INTO record_parts (session_id, part) SELECT DISTINCT session_id, id >> 8 FROM run_record",
      `CREATE TRIGGER sessions_delete AFTER DELETE ON sessions BEGIN
        DELETE FROM run_record WHERE id IN (SELECT entries.id FROM record_parts AS parts
          CROSS JOIN run_record AS entries
          ON entries.id BETWEEN parts.part << 8 AND (parts.part << 8) + 255 AND entries.session_id = parts.session_id
          WHERE parts.session_id = old.id);
        DELETE FROM record_parts WHERE session_id = old.id;
      END`
    ]
  }
]

/**
 * Returns the version of a database, or 0 for an empty database. Fails if the database belongs to another program or a
 * newer version.
 */
export const readVersion = Effect.fnUntraced(function* (
  sql: SqlClient,
  path: string,
  known: number
): Effect.fn.Return<number, SqlError | SessionStoreError> {
  const [header] = yield* sql<{ readonly application_id: number }>`PRAGMA application_id`
  if (header?.application_id !== applicationId) {
    // The table of leases may exist before the first session is created.
    const [tables] = yield* sql<{ readonly count: number }>`
        SELECT count(*) AS count FROM sqlite_schema WHERE tbl_name <> 'leases'`
    if (tables?.count === 0) return 0
    return yield* new SessionStoreError({
      operation: "open",
      message: `${path} is the database of another program: move it away, or set another HERMES_HOME`
    })
  }
  const [row] = yield* sql<{ readonly version: number | null }>`SELECT max(version) AS version FROM schema_version`
  const version = row?.version ?? 0
  if (version <= known) return version
  return yield* new SessionStoreError({
    operation: "open",
    message: `${path} was written by a newer version (schema ${version}; supported: ${known}): update hermes to open it`
  })
})

/** Runs an effect while the connection does not enforce foreign keys. Removing a table then removes no other rows. */
const withoutForeignKeys = <A, E>(sql: SqlClient, effect: Effect.Effect<A, E>): Effect.Effect<A, E | SqlError> =>
  Effect.acquireUseRelease(
    sql.unsafe("PRAGMA foreign_keys = OFF").unprepared,
    () => effect,
    () => Effect.orDie(sql.unsafe("PRAGMA foreign_keys = ON").unprepared)
  )

/**
 * Migrates the database at `path` to the last version in `all`. A database that already has this version is only read.
 */
export const migrate = Effect.fnUntraced(function* (
  sql: SqlClient,
  path: string,
  all: ReadonlyArray<Migration>
): Effect.fn.Return<void, SqlError | SessionStoreError> {
  const known = all.at(-1)?.version ?? 0
  if ((yield* readVersion(sql, path, known)) === known) return
  const now = yield* Clock.currentTimeMillis
  yield* withoutForeignKeys(
    sql,
    sql.withTransaction(
      Effect.gen(function* () {
        // Another process may have migrated the database in the meantime.
        const from = yield* readVersion(sql, path, known)
        // Inside a transaction the foreign keys stay enforced.
        const [keys] = yield* sql<{ readonly foreign_keys: number }>`PRAGMA foreign_keys`
        if (keys?.foreign_keys !== 0)
          return yield* new SessionStoreError({
            operation: "open",
            message: `${path} cannot be migrated within a transaction`
          })
        if (from === 0) {
          yield* sql.unsafe(`PRAGMA application_id = ${applicationId}`).unprepared
          yield* sql.unsafe(
            `CREATE TABLE schema_version (
            version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
          ) STRICT`
          ).unprepared
        }
        for (const { version, name, statements } of all) {
          if (version <= from) continue
          for (const statement of statements) yield* sql.unsafe(statement).unprepared
          yield* sql`INSERT INTO schema_version (version, name, applied_at) VALUES (${version}, ${name}, ${now})`
        }
      })
    )
  )
})
