/**
 * Ledger of tenants in a Postgres database, for several machines.
 *
 * **Details**
 *
 * A reservation is one call of a function of the database, which locks the row of the tenant, so that concurrent calls
 * of one tenant follow one another and calls of different tenants do not wait for each other. The function computes as
 * `TenantSums` does. A repeated call with the same id, after a lost connection, returns the first result.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import { findNextStart } from "../../base/domain/Tenant.ts"
import * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as PostgresFailure from "../../base/platform/PostgresFailure.ts"
import type {
  Decision,
  LedgerRows,
  ReserveRequest,
  Service,
  Settlement,
  UsageFilter,
  UsageRow
} from "./TenantLedgerPort.ts"

const tables = [
  `CREATE TABLE IF NOT EXISTS tenant_sums (
    tenant TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    day_tokens BIGINT NOT NULL DEFAULT 0,
    day_nanos BIGINT NOT NULL DEFAULT 0,
    month_tokens BIGINT NOT NULL DEFAULT 0,
    month_nanos BIGINT NOT NULL DEFAULT 0,
    minute BIGINT NOT NULL DEFAULT 0,
    calls BIGINT NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE IF NOT EXISTS tenant_reservations (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    nanos BIGINT NOT NULL,
    output BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    is_counted BOOLEAN NOT NULL DEFAULT FALSE
  )`,
  "CREATE INDEX IF NOT EXISTS tenant_reservations_tenant ON tenant_reservations (tenant) WHERE NOT is_counted",
  `CREATE TABLE IF NOT EXISTS tenant_places (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, expires_at BIGINT NOT NULL)`,
  "CREATE INDEX IF NOT EXISTS tenant_places_tenant ON tenant_places (tenant)",
  `CREATE TABLE IF NOT EXISTS tenant_usage (
    tenant TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    nanos BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, model)
  )`
]

/** Locks the sums of a tenant, begins a new period if one has passed, and counts settled and expired reservations. */
const settleFunction = `
CREATE OR REPLACE FUNCTION tenant_settle(p_tenant TEXT, p_settled JSONB, p_at BIGINT) RETURNS tenant_sums AS $$
DECLARE
  sums tenant_sums;
  one JSONB;
  used JSONB;
  held tenant_reservations;
  used_tokens BIGINT;
  used_nanos BIGINT;
  today TEXT := to_char(to_timestamp(p_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD');
  this_minute BIGINT := p_at / 60000;
BEGIN
  INSERT INTO tenant_sums (tenant, day) VALUES (p_tenant, today) ON CONFLICT DO NOTHING;
  SELECT * INTO sums FROM tenant_sums WHERE tenant = p_tenant FOR UPDATE;
  IF this_minute > sums.minute THEN
    sums.minute := this_minute;
    sums.calls := 0;
  END IF;
  IF today > sums.day THEN
    IF left(today, 7) <> left(sums.day, 7) THEN
      sums.month_tokens := 0;
      sums.month_nanos := 0;
    END IF;
    sums.day := today;
    sums.day_tokens := 0;
    sums.day_nanos := 0;
  END IF;
  FOR one IN SELECT * FROM jsonb_array_elements(p_settled) LOOP
    DELETE FROM tenant_reservations WHERE id = one->>'id' AND tenant = p_tenant RETURNING * INTO held;
    CONTINUE WHEN NOT FOUND;
    used_tokens := (one->'spent'->>'tokens')::BIGINT;
    used_nanos := (one->'spent'->>'nanos')::BIGINT;
    FOR used IN SELECT * FROM jsonb_array_elements(one->'usage') LOOP
      INSERT INTO tenant_usage AS u VALUES (p_tenant, sums.day, used->>'model', (used->>'calls')::BIGINT,
        (used->>'inputTokens')::BIGINT, (used->>'outputTokens')::BIGINT, (used->>'nanos')::BIGINT)
      ON CONFLICT (tenant, day, model) DO UPDATE SET calls = u.calls + excluded.calls,
        input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
        nanos = u.nanos + excluded.nanos;
    END LOOP;
    IF one ? 'rest' THEN
      INSERT INTO tenant_reservations (id, tenant, tokens, nanos, output, expires_at) VALUES (one->'rest'->>'id',
        p_tenant, (one->'rest'->'held'->>'tokens')::BIGINT, (one->'rest'->'held'->>'nanos')::BIGINT, 0,
        held.expires_at);
    END IF;
    IF held.is_counted THEN
      used_tokens := used_tokens - held.tokens;
      used_nanos := used_nanos - held.nanos;
    END IF;
    sums.day_tokens := sums.day_tokens + used_tokens;
    sums.day_nanos := sums.day_nanos + used_nanos;
    sums.month_tokens := sums.month_tokens + used_tokens;
    sums.month_nanos := sums.month_nanos + used_nanos;
  END LOOP;
  DELETE FROM tenant_reservations WHERE tenant = p_tenant AND is_counted AND expires_at <= p_at - 86400000;
  WITH expired AS (
    UPDATE tenant_reservations SET is_counted = TRUE
    WHERE tenant = p_tenant AND NOT is_counted AND expires_at <= p_at RETURNING tokens, nanos
  )
  SELECT COALESCE(sum(tokens), 0), COALESCE(sum(nanos), 0) INTO used_tokens, used_nanos FROM expired;
  sums.day_tokens := sums.day_tokens + used_tokens;
  sums.day_nanos := sums.day_nanos + used_nanos;
  sums.month_tokens := sums.month_tokens + used_tokens;
  sums.month_nanos := sums.month_nanos + used_nanos;
  UPDATE tenant_sums SET day = sums.day, day_tokens = sums.day_tokens, day_nanos = sums.day_nanos,
    month_tokens = sums.month_tokens, month_nanos = sums.month_nanos, minute = sums.minute, calls = sums.calls
  WHERE tenant = p_tenant;
  RETURN sums;
END $$ LANGUAGE plpgsql`

const reserveFunction = `
CREATE OR REPLACE FUNCTION tenant_reserve(p JSONB, p_at BIGINT) RETURNS JSONB AS $$
DECLARE
  sums tenant_sums;
  limits JSONB := p->'limits';
  wanted BIGINT := (p->>'wantedOutput')::BIGINT;
  least_output BIGINT := (p->>'leastOutput')::BIGINT;
  price DOUBLE PRECISION := (p->>'outputNanos')::DOUBLE PRECISION;
  prompt_tokens BIGINT := (p->'prompt'->>'tokens')::BIGINT;
  prompt_nanos BIGINT := (p->'prompt'->>'nanos')::BIGINT;
  reserved_tokens BIGINT;
  reserved_nanos BIGINT;
  granted BIGINT;
  alone BIGINT;
  room BIGINT;
  held_room BIGINT;
  refused TEXT;
  limit_value BIGINT;
  spent_value BIGINT;
  field TEXT;
  need_tokens BIGINT;
  need_nanos BIGINT;
  spare BIGINT := COALESCE((p->>'spareCalls')::BIGINT, 0);
BEGIN
  SELECT output, tokens, nanos INTO granted, need_tokens, need_nanos
  FROM tenant_reservations WHERE id = p->>'id' AND tenant = p->>'tenant';
  IF FOUND THEN
    RETURN jsonb_build_object('_tag', 'Reserved', 'output', granted,
      'held', jsonb_build_object('tokens', need_tokens, 'nanos', need_nanos));
  END IF;
  sums := tenant_settle(p->>'tenant', p->'settled', p_at);
  SELECT COALESCE(sum(tokens), 0), COALESCE(sum(nanos), 0) INTO reserved_tokens, reserved_nanos
  FROM tenant_reservations WHERE tenant = p->>'tenant' AND NOT is_counted;
  granted := wanted;
  alone := wanted;
  refused := NULL;
  FOREACH field IN ARRAY ARRAY['monthTokens', 'monthNanos', 'dayTokens', 'dayNanos'] LOOP
    limit_value := (limits->>field)::BIGINT;
    CONTINUE WHEN limit_value IS NULL;
    spent_value := CASE field WHEN 'monthTokens' THEN sums.month_tokens WHEN 'monthNanos' THEN sums.month_nanos
      WHEN 'dayTokens' THEN sums.day_tokens ELSE sums.day_nanos END;
    IF field LIKE '%Tokens' THEN
      room := limit_value - spent_value - prompt_tokens;
      held_room := room - reserved_tokens;
    ELSE
      room := limit_value - spent_value - prompt_nanos;
      held_room := room - reserved_nanos;
      room := CASE WHEN price > 0 THEN floor(room / price) WHEN room >= 0 THEN wanted ELSE -1 END;
      held_room := CASE WHEN price > 0 THEN floor(held_room / price) WHEN held_room >= 0 THEN wanted ELSE -1 END;
    END IF;
    IF held_room < least_output THEN refused := COALESCE(refused, field); END IF;
    granted := least(granted, held_room);
    alone := least(alone, room);
  END LOOP;
  IF p->>'whenHeld' = 'wait' AND granted < alone AND alone >= least_output THEN
    RETURN jsonb_build_object('_tag', 'Held');
  END IF;
  IF refused IS NOT NULL THEN
    RETURN jsonb_build_object('_tag', 'Spent', 'field', refused, 'day', sums.day);
  END IF;
  IF (limits->>'callsPerMinute') IS NOT NULL AND sums.calls >= (limits->>'callsPerMinute')::BIGINT THEN
    RETURN jsonb_build_object('_tag', 'Paced', 'waitMillis', greatest(1, (sums.minute + 1) * 60000 - p_at));
  END IF;
  UPDATE tenant_sums SET calls = calls + 1 WHERE tenant = p->>'tenant';
  need_tokens := prompt_tokens + granted;
  need_nanos := prompt_nanos + ceil(granted * price)::BIGINT;
  FOREACH field IN ARRAY ARRAY['monthTokens', 'monthNanos', 'dayTokens', 'dayNanos'] LOOP
    limit_value := (limits->>field)::BIGINT;
    CONTINUE WHEN limit_value IS NULL;
    IF field LIKE '%Tokens' THEN
      CONTINUE WHEN need_tokens = 0;
      spent_value := CASE field WHEN 'monthTokens' THEN sums.month_tokens ELSE sums.day_tokens END;
      room := ((limit_value - spent_value) / 32 - reserved_tokens - need_tokens) / need_tokens;
    ELSE
      CONTINUE WHEN need_nanos = 0;
      spent_value := CASE field WHEN 'monthNanos' THEN sums.month_nanos ELSE sums.day_nanos END;
      room := ((limit_value - spent_value) / 32 - reserved_nanos - need_nanos) / need_nanos;
    END IF;
    spare := least(spare, room);
  END LOOP;
  spare := 1 + greatest(spare, 0);
  need_tokens := need_tokens * spare;
  need_nanos := need_nanos * spare;
  INSERT INTO tenant_reservations (id, tenant, tokens, nanos, output, expires_at)
  VALUES (p->>'id', p->>'tenant', need_tokens, need_nanos, granted, p_at + (p->>'expiresIn')::BIGINT);
  RETURN jsonb_build_object('_tag', 'Reserved', 'output', granted,
    'held', jsonb_build_object('tokens', need_tokens, 'nanos', need_nanos));
END $$ LANGUAGE plpgsql`

const enterFunction = `
CREATE OR REPLACE FUNCTION tenant_enter(p_tenant TEXT, p_id TEXT, p_most BIGINT, p_expires_in BIGINT, p_at BIGINT)
RETURNS BOOLEAN AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('tenant_places'), hashtext(p_tenant));
  DELETE FROM tenant_places WHERE tenant = p_tenant AND expires_at <= p_at;
  IF (SELECT count(*) FROM tenant_places WHERE tenant = p_tenant AND id <> p_id) >= p_most THEN RETURN FALSE; END IF;
  INSERT INTO tenant_places AS t VALUES (p_id, p_tenant, p_at + p_expires_in)
  ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE t.tenant = excluded.tenant;
  RETURN FOUND;
END $$ LANGUAGE plpgsql`

/** Key of the advisory lock that is held while the tables are created. */
const creating = 0x54656e61

/** Options of {@link open}. */
export interface Options extends PostgresClient.Options {
  /** Clock of the ledger, in milliseconds since 1970. Defaults to the clock of the server. */
  readonly clock?: Effect.Effect<number> | undefined
}

const serverTime = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"

/** Refusal as the function of the database describes it. */
interface Refusal {
  readonly _tag: "Spent"
  readonly field: string
  readonly day: string
}

const toDecision = (found: Exclude<Decision, { readonly _tag: "Spent" }> | Refusal, now: number): Decision => {
  if (found._tag !== "Spent") return found
  const period = found.field.startsWith("month") ? "month" : "day"
  return {
    _tag: "Spent",
    period,
    kind: found.field.endsWith("Tokens") ? "tokens" : "cost",
    freeAt: findNextStart(period, Math.max(now, Date.parse(found.day)))
  }
}

type Sql = Effect.Success<ReturnType<typeof PostgresClient.open>>

const createTables = (sql: Sql, url: Options["url"]): Effect.Effect<void, SqlError> =>
  sql.transaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${creating})`
      yield* sql.unsafe(`CREATE SCHEMA IF NOT EXISTS "${PostgresClient.readSchemaName(url)}"`)
      for (const statement of [...tables, settleFunction, reserveFunction, enterFunction]) yield* sql.unsafe(statement)
    })
  )

const readUsage = (sql: Sql, { from = "0000", tenant, to = "9999" }: UsageFilter) => {
  const wanted = tenant ?? null
  return sql<UsageRow>`
    SELECT tenant, day, model, calls, input_tokens AS "inputTokens", output_tokens AS "outputTokens", nanos
    FROM tenant_usage WHERE day >= ${from} AND day <= ${to}
    AND (CAST(${wanted} AS TEXT) IS NULL OR tenant = ${wanted}) ORDER BY day, tenant, model`
}

const removeTenant = (sql: Sql, tenant: string) => sql`
  WITH a AS (DELETE FROM tenant_sums WHERE tenant = ${tenant}),
    b AS (DELETE FROM tenant_reservations WHERE tenant = ${tenant}),
    c AS (DELETE FROM tenant_places WHERE tenant = ${tenant})
  DELETE FROM tenant_usage WHERE tenant = ${tenant}`

const readBalance = Effect.fnUntraced(function* (sql: Sql, tenant: string, today: string) {
  const [row] = yield* sql<Record<string, number | string>>`
    SELECT s.*, COALESCE(r.tokens, 0) AS held_tokens, COALESCE(r.nanos, 0) AS held_nanos FROM tenant_sums s
    LEFT JOIN (SELECT CAST(sum(tokens) AS BIGINT) AS tokens, CAST(sum(nanos) AS BIGINT) AS nanos
      FROM tenant_reservations WHERE tenant = ${tenant} AND NOT is_counted) r ON TRUE
    WHERE tenant = ${tenant}`
  const readNumber = (name: string): number => Number(row?.[name] ?? 0)
  const readAmounts = (prefix: string) => ({
    tokens: readNumber(`${prefix}_tokens`),
    nanos: readNumber(`${prefix}_nanos`)
  })
  return {
    day: String(row?.["day"] ?? today),
    spentToday: readAmounts("day"),
    spentThisMonth: readAmounts("month"),
    reserved: readAmounts("held")
  }
})

/** Reads all rows with one statement, which sees one state of the database. */
const readRows = (sql: Sql) =>
  Effect.map(
    sql<{ readonly rows: LedgerRows }>`
      SELECT jsonb_build_object(
        'sums', (SELECT COALESCE(jsonb_agg(jsonb_build_object('tenant', tenant, 'day', day, 'dayTokens', day_tokens,
          'dayNanos', day_nanos, 'monthTokens', month_tokens, 'monthNanos', month_nanos) ORDER BY tenant), '[]')
          FROM tenant_sums),
        'reservations', (SELECT COALESCE(jsonb_agg(jsonb_build_object('id', id, 'tenant', tenant, 'tokens', tokens,
          'nanos', nanos, 'output', output, 'expiresAt', expires_at, 'isCounted', CAST(is_counted AS INTEGER))
          ORDER BY id), '[]') FROM tenant_reservations),
        'usage', (SELECT COALESCE(jsonb_agg(jsonb_build_object('tenant', tenant, 'day', day, 'model', model,
          'calls', calls, 'inputTokens', input_tokens, 'outputTokens', output_tokens, 'nanos', nanos)
          ORDER BY day, tenant, model), '[]') FROM tenant_usage)
      ) AS rows`,
    ([row]): LedgerRows => row?.rows ?? { sums: [], reservations: [], usage: [] }
  )

/** Adds the rows of a backup with one statement. Sums are compared by their days and months. */
const addRows = (sql: Sql, { reservations, sums, usage }: LedgerRows) => sql`
  WITH added_sums AS (
    INSERT INTO tenant_sums AS s (tenant, day, day_tokens, day_nanos, month_tokens, month_nanos)
    SELECT tenant, day, "dayTokens", "dayNanos", "monthTokens", "monthNanos"
    FROM jsonb_to_recordset(CAST(${JSON.stringify(sums)} AS JSONB)) AS x(tenant TEXT, day TEXT, "dayTokens" BIGINT,
      "dayNanos" BIGINT, "monthTokens" BIGINT, "monthNanos" BIGINT)
    ON CONFLICT (tenant) DO UPDATE SET
      day = greatest(s.day, excluded.day),
      day_tokens = CASE WHEN s.day > excluded.day THEN s.day_tokens WHEN s.day < excluded.day
        THEN excluded.day_tokens ELSE greatest(s.day_tokens, excluded.day_tokens) END,
      day_nanos = CASE WHEN s.day > excluded.day THEN s.day_nanos WHEN s.day < excluded.day
        THEN excluded.day_nanos ELSE greatest(s.day_nanos, excluded.day_nanos) END,
      month_tokens = CASE WHEN left(s.day, 7) > left(excluded.day, 7) THEN s.month_tokens
        WHEN left(s.day, 7) < left(excluded.day, 7) THEN excluded.month_tokens
        ELSE greatest(s.month_tokens, excluded.month_tokens) END,
      month_nanos = CASE WHEN left(s.day, 7) > left(excluded.day, 7) THEN s.month_nanos
        WHEN left(s.day, 7) < left(excluded.day, 7) THEN excluded.month_nanos
        ELSE greatest(s.month_nanos, excluded.month_nanos) END
  ), added_reservations AS (
    INSERT INTO tenant_reservations (id, tenant, tokens, nanos, output, expires_at, is_counted)
    SELECT id, tenant, tokens, nanos, output, "expiresAt", "isCounted" = 1
    FROM jsonb_to_recordset(CAST(${JSON.stringify(reservations)} AS JSONB)) AS x(id TEXT, tenant TEXT, tokens BIGINT,
      nanos BIGINT, output BIGINT, "expiresAt" BIGINT, "isCounted" INTEGER)
    ON CONFLICT DO NOTHING
  )
  INSERT INTO tenant_usage AS u (tenant, day, model, calls, input_tokens, output_tokens, nanos)
  SELECT tenant, day, model, calls, "inputTokens", "outputTokens", nanos
  FROM jsonb_to_recordset(CAST(${JSON.stringify(usage)} AS JSONB)) AS x(tenant TEXT, day TEXT, model TEXT,
    calls BIGINT, "inputTokens" BIGINT, "outputTokens" BIGINT, nanos BIGINT)
  ON CONFLICT (tenant, day, model) DO UPDATE SET calls = greatest(u.calls, excluded.calls),
    input_tokens = greatest(u.input_tokens, excluded.input_tokens),
    output_tokens = greatest(u.output_tokens, excluded.output_tokens), nanos = greatest(u.nanos, excluded.nanos)`

/** The operations whose functions in the database take the time. */
const makeTimedOperations = (sql: Sql, clock: Options["clock"]) => {
  type Time = ReturnType<Sql["literal"]> | ReturnType<Sql>
  const withTime = <A, E>(body: (at: Time) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
    clock === undefined
      ? body(sql.literal(serverTime))
      : Effect.flatMap(clock, (at) => body(sql`CAST(${at} AS BIGINT)`))
  /**
   * Settles calls of a tenant that has sums, and returns the day. The late ends of a removed tenant add nothing, and a
   * tenant without usage gets no row.
   */
  const settleEnds = (tenant: string, settled: ReadonlyArray<Settlement>) =>
    withTime(
      (at) => sql<{ readonly day: string }>`
        SELECT CASE WHEN EXISTS (SELECT 1 FROM tenant_sums WHERE tenant = ${tenant})
          THEN (tenant_settle(${tenant}, CAST(${JSON.stringify(settled)} AS JSONB), ${at})).day
          ELSE to_char(to_timestamp(${at} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS day`
    )
  const reserveCall = (request: ReserveRequest) =>
    withTime((at) =>
      Effect.map(
        sql<{ readonly found: Refusal | Exclude<Decision, { readonly _tag: "Spent" }>; readonly now: number }>`
          SELECT tenant_reserve(CAST(${JSON.stringify(request)} AS JSONB), ${at}) AS found, ${at} AS now`,
        ([row]): Decision =>
          row === undefined ? { _tag: "Paced", waitMillis: 1000 } : toDecision(row.found, Number(row.now))
      )
    )
  const renewAll = (ids: ReadonlyArray<string>, expiresIn: number) =>
    withTime(
      (at) => sql`
        WITH places AS (
          UPDATE tenant_places SET expires_at = ${at} + CAST(${expiresIn} AS BIGINT) WHERE id IN ${sql.in(ids)}
        )
        UPDATE tenant_reservations SET expires_at = ${at} + CAST(${expiresIn} AS BIGINT)
        WHERE id IN ${sql.in(ids)} AND NOT is_counted`
    )
  const takePlace = (tenant: string, id: string, most: number, expiresIn: number) =>
    withTime((at) =>
      Effect.map(
        sql<{ readonly entered: boolean }>`
          SELECT tenant_enter(${tenant}, ${id}, CAST(${most} AS BIGINT), CAST(${expiresIn} AS BIGINT), ${at})
          AS entered`,
        ([row]) => row?.entered === true
      )
    )
  return { settleEnds, reserveCall, renewAll, takePlace }
}

/** Opens the ledger in a database, and creates its tables if they are missing. It is closed with the scope. */
export const open = Effect.fnUntraced(function* ({
  clock,
  ...options
}: Options): Effect.fn.Return<Service, SessionStoreError, Scope.Scope> {
  const run = <A, R>(
    operation: string,
    effect: Effect.Effect<A, SqlError, R>
  ): Effect.Effect<A, SessionStoreError, R> =>
    Effect.mapError(
      effect,
      (error) =>
        new SessionStoreError({
          operation,
          message: PostgresFailure.describe(options.url, error),
          cause: error.reason.cause
        })
    )
  const sql = yield* run("open", PostgresClient.open(options))
  yield* run("open", createTables(sql, options.url))
  const { renewAll, reserveCall, settleEnds, takePlace } = makeTimedOperations(sql, clock)
  return {
    reserve: (request) => run("reserve", sql.waiting(reserveCall(request))),
    settle: (tenant, settled) => run("settle", Effect.asVoid(sql.waiting(settleEnds(tenant, settled)))),
    renew: (ids, expiresIn) => run("renew", Effect.asVoid(renewAll(ids, expiresIn))),
    balance: (tenant) =>
      run(
        "balance",
        Effect.flatMap(settleEnds(tenant, []), ([row]) => readBalance(sql, tenant, row?.day ?? ""))
      ),
    usage: (filter = {}) => run("usage", readUsage(sql, filter)),
    enter: (tenant, id, most, expiresIn) => run("enter", takePlace(tenant, id, most, expiresIn)),
    leave: (id) => run("leave", Effect.asVoid(sql`DELETE FROM tenant_places WHERE id = ${id}`)),
    readRows: run("backup", readRows(sql)),
    addRows: (rows) => run("restore", Effect.asVoid(addRows(sql, rows))),
    remove: (tenant) => run("remove", Effect.asVoid(removeTenant(sql, tenant)))
  }
})
