/**
 * Session stores in databases: a SQLite file (`<HERMES_HOME>/state.db`), or Postgres for several processes on several
 * machines.
 *
 * **Details**
 *
 * Building a layer does not open the database. The first operation loads the database client and opens the database, so
 * that programs that do not use sessions do not pay for it. If that fails, the next operation tries again.
 *
 * Messages are durable once `append` has returned, even after `kill -9`; see `sqlite/Database.ts` for power failures.
 * Several processes may use one file, and wait for each other. Only the owner of the file can read it.
 *
 * In Postgres, a session has only one owner across all machines; see `base/platform/PostgresLeases.ts`. If the server
 * becomes unavailable, operations wait for it.
 *
 * **Gotchas**
 *
 * `node:sqlite` is synchronous: while another process holds the write lock, this one is blocked for up to a second at a
 * time.
 *
 * Source: `hermes-product.md` §4.1, `ARCHITECTURE.md` §8.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import type { Together } from "../base/domain/RunRecorder.ts"
import { openOnce } from "../base/platform/OpenOnce.ts"
import { makeMaskedWriter, RunRecord } from "./RunRecord.ts"
import { type Service as Activity, SessionActivity } from "./SessionActivity.ts"
import { type Service as Backup, SessionBackup } from "./SessionBackup.ts"
import { type Service as Inbox, SessionInbox } from "./SessionInbox.ts"
import { type Service as Maintenance, SessionMaintenance } from "./SessionMaintenance.ts"
import { type Service as Retention, SessionRetention } from "./SessionRetention.ts"
import * as SessionSpans from "./SessionSpans.ts"
import { type Service as Search, SessionSearch } from "./SessionSearch.ts"
import { type Service as Store, SessionStore } from "./SessionStorePort.ts"
import * as TenantScope from "./TenantScope.ts"
import type { SqlRecord } from "./sql/SqlRecord.ts"

/** The services that every session database provides. */
export interface SharedBackend {
  readonly record: SqlRecord
  readonly store: Store
  readonly search: Search
  readonly activity: Activity
  readonly together: Together
}

/** A session database with its maintenance service. */
export interface Backend extends SharedBackend {
  readonly backup: Backup
  readonly inbox: Inbox
  readonly retention: Retention
  readonly maintenance: Maintenance
}

/** Creates the services over a backend that is opened when one of them is first used. */
const makeSharedServices = (backend: Effect.Effect<SharedBackend, SessionStoreError>) => {
  let opened: SharedBackend | undefined
  const useBackend = <A, E, R>(
    f: (backend: SharedBackend) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | SessionStoreError, R> =>
    opened === undefined ? Effect.flatMap(backend, (backend) => f((opened = backend))) : f(opened)
  /** Like `useBackend`, but for operations that never fail. If the database cannot be opened, `otherwise` runs. */
  const useBackendOrElse = (
    f: (backend: SharedBackend) => Effect.Effect<void>,
    otherwise: (error: SessionStoreError) => Effect.Effect<void>
  ): Effect.Effect<void> => (opened === undefined ? Effect.catch(useBackend(f), otherwise) : f(opened))

  const together: Together = (writes) => useBackend((backend) => backend.together(writes))

  const store = SessionStore.of({
    create: (session) => useBackend(({ store }) => store.create(session)),
    acquire: (id) => useBackend(({ store }) => store.acquire(id)),
    begin: (id, callIds) => useBackend(({ store }) => store.begin(id, callIds)),
    begun: (id) => useBackend(({ store }) => store.begun(id)),
    append: (id, messages) => useBackend(({ store }) => store.append(id, messages)),
    recordUsage: (id, record) => useBackend(({ store }) => store.recordUsage(id, record)),
    end: (id, reason) => useBackend(({ store }) => store.end(id, reason)),
    continueIn: (id, continuation) => useBackend(({ store }) => store.continueIn(id, continuation)),
    newest: (id) => useBackend(({ store }) => store.newest(id)),
    rename: (id, title) => useBackend(({ store }) => store.rename(id, title)),
    remove: (id) => useBackend(({ store }) => store.remove(id)),
    get: (id) => useBackend(({ store }) => store.get(id)),
    messages: (id, range) => useBackend(({ store }) => store.messages(id, range)),
    readable: (id) => useBackend(({ store }) => store.readable(id)),
    list: (options) => useBackend(({ store }) => store.list(options)),
    resolve: (reference, folder) => useBackend(({ store }) => store.resolve(reference, folder)),
    usageByModel: (id) => useBackend(({ store }) => store.usageByModel(id)),
    suspend: (id, suspension) => useBackend(({ store }) => store.suspend(id, suspension)),
    listQuestions: (filter) => useBackend(({ store }) => store.listQuestions(filter)),
    answerQuestions: (id, answers) => useBackend(({ store }) => store.answerQuestions(id, answers)),
    closeQuestions: (id, callIds, state) => useBackend(({ store }) => store.closeQuestions(id, callIds, state)),
    storeStep: (id, step) => useBackend(({ store }) => store.storeStep(id, step)),
    listSteps: (id) => useBackend(({ store }) => store.listSteps(id)),
    together,
    committed: useBackend(({ store }) => store.committed ?? Effect.void)
  })
  const search = SessionSearch.of({
    search: (query, options) => useBackend(({ search }) => search.search(query, options))
  })
  const record = RunRecord.of({
    // If the file cannot be opened, a run fails when it needs its session. The record only logs a warning.
    ...makeMaskedWriter((entries, then) =>
      useBackendOrElse(
        ({ record }) => record.keep(entries, then),
        (error) => {
          const reported = Effect.logWarning(`Run record: entries are not written: ${error.message}`)
          return then === undefined ? reported : Effect.andThen(reported, then)
        }
      )
    ),
    together,
    read: (filter) => Stream.unwrap(useBackend(({ record }) => Effect.succeed(record.read(filter)))),
    unread: (filter) => useBackend(({ record }) => record.unread(filter))
  })
  const activity = SessionActivity.of({
    version: useBackend(({ activity }) => activity.version),
    sequence: useBackend(({ activity }) => activity.sequence),
    since: (after, filter) =>
      Stream.unwrap(useBackend(({ activity }) => Effect.succeed(activity.since(after, filter)))),
    running: useBackend(({ activity }) => activity.running),
    spoken: (period) => useBackend(({ activity }) => activity.spoken(period)),
    prompts: (ids) => useBackend(({ activity }) => activity.prompts(ids))
  })
  return Context.make(SessionStore, SessionSpans.traceStore(TenantScope.scopeStore(store))).pipe(
    Context.add(SessionSearch, SessionSpans.traceSearch(TenantScope.scopeSearch(search))),
    Context.add(RunRecord, TenantScope.scopeRecord(record, store)),
    Context.add(SessionActivity, TenantScope.scopeActivity(activity, store))
  )
}

/** Creates the services of a backend with maintenance. The backend is closed with the scope. */
const makeServices = Effect.fnUntraced(function* (open: Effect.Effect<Backend, SessionStoreError, Scope.Scope>) {
  const backend = yield* openOnce(open)
  const withBackend = <A, E>(f: (backend: Backend) => Effect.Effect<A, E>) => Effect.flatMap(backend, f)
  const retention = SessionRetention.of({
    expired: (limit) => withBackend(({ retention }) => retention.expired(limit)),
    prune: (limit) => withBackend(({ retention }) => retention.prune(limit)),
    compact: withBackend(({ retention }) => retention.compact),
    whenDue: (intervalMillis, removal) =>
      Effect.flatMap(backend, ({ retention }) => retention.whenDue(intervalMillis, removal)),
    hold: (id) => Effect.flatMap(backend, ({ retention }) => retention.hold(id))
  })

  const maintenance = SessionMaintenance.of({
    stats: withBackend(({ maintenance }) => maintenance.stats),
    remove: (id) => withBackend(({ maintenance }) => maintenance.remove(id)),
    add: (session, messages) => withBackend(({ maintenance }) => maintenance.add(session, messages)),
    optimize: withBackend(({ maintenance }) => maintenance.optimize)
  })

  const backup = SessionBackup.of({
    read: (onRows) => Effect.flatMap(backend, ({ backup }) => backup.read(onRows)),
    write: (parts, options) => Effect.flatMap(backend, ({ backup }) => backup.write(parts, options)),
    count: withBackend(({ backup }) => backup.count)
  })

  const inbox = SessionInbox.of({
    send: (message) => withBackend(({ inbox }) => inbox.send(message)),
    withdraw: (id, number) => withBackend(({ inbox }) => inbox.withdraw(id, number)),
    read: (id, number) => withBackend(({ inbox }) => inbox.read(id, number)),
    remove: (id, number) => withBackend(({ inbox }) => inbox.remove(id, number)),
    waiting: withBackend(({ inbox }) => inbox.waiting),
    take: (id) => withBackend(({ inbox }) => inbox.take(id)),
    settle: (id, numbers) => withBackend(({ inbox }) => inbox.settle(id, numbers)),
    release: (numbers) => Effect.ignore(withBackend(({ inbox }) => inbox.release(numbers))),
    reply: (message, reply) => withBackend(({ inbox }) => inbox.reply(message, reply)),
    watch: (id, millis) => withBackend(({ inbox }) => inbox.watch(id, millis)),
    isWatched: (id) => withBackend(({ inbox }) => inbox.isWatched(id)),
    post: (id, kind, body) => withBackend(({ inbox }) => inbox.post(id, kind, body)),
    find: (id, kind) => withBackend(({ inbox }) => inbox.find(id, kind)),
    // A store that cannot be opened reports it to the operations that read it.
    changes: Stream.unwrap(
      Effect.match(backend, { onFailure: () => Stream.never, onSuccess: ({ inbox }) => inbox.changes })
    )
  })

  const get = (id: SessionId) => Effect.flatMap(backend, ({ store }) => store.get(id))
  return makeSharedServices(backend).pipe(
    Context.add(SessionInbox, TenantScope.scopeInbox(inbox, { get })),
    Context.add(SessionBackup, TenantScope.scopeBackup(backup)),
    Context.add(SessionMaintenance, TenantScope.scopeMaintenance(maintenance, { get })),
    Context.add(SessionRetention, TenantScope.scopeRetention(retention, { get }))
  )
})

/** The services of a session database. */
type DatabaseServices =
  | RunRecord
  | SessionActivity
  | SessionBackup
  | SessionInbox
  | SessionMaintenance
  | SessionRetention
  | SessionSearch
  | SessionStore

/** Options of a SQLite session database. */
interface FileOptions {
  readonly path: string
  /**
   * Time within which writes share a commit, for many concurrent runs. By default, each write has its own commit. If
   * the process is killed, the writes since the last commit are lost, except the starts of tool calls.
   */
  readonly commitsWithin?: Duration.Input | undefined
  /** If true, nothing is written. A file without write permission can then also be opened, with a warning. */
  readonly readOnly?: boolean | undefined
}

/**
 * Layer with the sessions and the run record in the file at `path`. Creates the file and its directory if they are
 * missing.
 */
export const layerSqlite = (options: FileOptions): Layer.Layer<DatabaseServices> =>
  Layer.effectContext(
    makeServices(
      Effect.flatMap(
        Effect.promise(() => import("./sqlite/SqliteStore.ts")),
        ({ open }) => open(options.path, options.readOnly, options.commitsWithin)
      )
    )
  )

/** Options of a Postgres session database. */
interface ServerOptions {
  /**
   * Address of the database: `postgres://user:password@host:port/database`, with `?host=/directory` for a Unix socket.
   */
  readonly url: Redacted.Redacted
  /** Maximum number of concurrent connections. The default is 10. */
  readonly connections?: number | undefined
}

/** Layer with the sessions and the run record in a Postgres database. Creates missing tables. */
export const layerPostgres = (options: ServerOptions): Layer.Layer<DatabaseServices> =>
  Layer.effectContext(
    makeServices(
      Effect.flatMap(
        Effect.promise(() => import("./postgres/PostgresStore.ts")),
        ({ open }) => open(options)
      )
    )
  )
