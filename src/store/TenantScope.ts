/**
 * The tenant for which a fiber works, and the scope of a session store: within the work for a tenant, only its own
 * sessions exist.
 *
 * **Details**
 *
 * A session that is created within the work for a tenant belongs to that tenant, with its continuations, forks and
 * sub-agents. All other sessions are treated as missing ones: reading returns nothing, and writing fails with the same
 * error, after the same queries. Without a tenant, as for the owner of the application, all sessions exist.
 *
 * **Gotchas**
 *
 * Ids of sessions are unique over all tenants. A session with an id that another tenant uses cannot be created, so an
 * application chooses ids that cannot be guessed, or lets the store choose them. Titles are unique within a tenant.
 *
 * **Example** (A store of the application that keeps the sessions of tenants apart)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { SessionStore } from "hermes-effect"
 * import { TenantScope } from "hermes-effect/tenants"
 *
 * // The application's own store: it stores `tenant` of new sessions, and selects by `tenant` of `list` and
 * // `listQuestions`. It needs no other code for tenants.
 * const scopeOwn = (own: SessionStore.Service) => Layer.succeed(SessionStore.SessionStore, TenantScope.scopeStore(own))
 *
 * const program = Effect.gen(function*() {
 *   const own = yield* SessionStore.SessionStore
 *   return yield* Effect.provide(SessionStore.SessionStore.use(({ list }) => list()), scopeOwn(own))
 * }).pipe(Effect.provideService(TenantScope.CurrentTenant, "acme"), Effect.provide(SessionStore.layerMemory))
 *
 * console.log(await Effect.runPromise(program))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { SessionStoreError } from "../base/domain/AgentError.ts"
import { SessionId } from "../base/domain/Ids.ts"
import { toHex } from "../base/platform/Digest.ts"
import * as Reference from "./Reference.ts"
import type { Service as Record } from "./RunRecord.ts"
import type { Service as Activity } from "./SessionActivity.ts"
import type { Service as Backup } from "./SessionBackup.ts"
import type { Delivery, InboxMessage, Service as Inbox } from "./SessionInbox.ts"
import type { Service as Maintenance } from "./SessionMaintenance.ts"
import type { Limit, Service as Retention } from "./SessionRetention.ts"
import { hiddenSources, type Service as Search } from "./SessionSearch.ts"
import type { NewSession, Service as Store, Session } from "./SessionStorePort.ts"
import * as StoreFailure from "./StoreFailure.ts"
import * as Unread from "./Unread.ts"

/**
 * Tenant of the runs and operations of the current fiber that name none. A server sets it for its clients. The runs
 * within a run belong to the tenant of that run.
 */
export const CurrentTenant = Context.Reference<string | undefined>("hermes-effect/store/CurrentTenant", {
  defaultValue: () => undefined
})

/** Returns the name of the folder for the data of a tenant. Different tenants have different folders. */
export const formatTenantFolder = (tenant: string): string => {
  const readable = tenant
    .toLowerCase()
    .replace(/[^a-z0-9-]/gu, "_")
    .slice(0, 32)
  return `${readable}-${toHex(tenant, 16)}`
}

/** All members of a service. A scope lists each of them, so that a member that it forgets does not compile. */
type Complete<Service> = { readonly [Member in keyof Required<Service>]: Service[Member] }

const findTenant = <A, E, R>(body: (tenant: string | undefined) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => body(fiber.getRef(CurrentTenant)))

/** A session that a run has acquired, with its tenant as soon as it is known. */
interface HeldSession {
  tenant: string | undefined
}

/**
 * Tests which sessions belong to a tenant. A session's tenant is remembered only while a run holds the session: later
 * it may be removed, also by another process, and its id used by another tenant.
 */
const makeOwnership = (store: Pick<Store, "get">) => {
  const held = new Map<string, HeldSession>()
  const rememberTenant = (id: string, tenant: string | undefined): void => {
    const session = held.get(id)
    if (session !== undefined) session.tenant = tenant
  }
  return {
    rememberTenant,
    /** Remembers the tenant of a session until the scope closes. */
    holdSession: (id: string): Effect.Effect<void, never, Scope.Scope> =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            const session: HeldSession = { tenant: undefined }
            held.set(id, session)
            return session
          }),
          (session) => Effect.sync(() => held.get(id) === session && held.delete(id))
        )
      ),
    isOwner: (tenant: string, id: SessionId): Effect.Effect<boolean, SessionStoreError> =>
      held.get(id)?.tenant === tenant
        ? Effect.succeed(true)
        : Effect.map(store.get(id), (found) => {
            const isOwn = Option.isSome(found) && found.value.tenant === tenant
            if (isOwn) rememberTenant(id, tenant)
            return isOwn
          })
  }
}

type Ownership = ReturnType<typeof makeOwnership>

/** Tests sessions of one reader, each of them once. */
const makeReaderTest = ({ isOwner }: Pick<Ownership, "isOwner">, tenant: string) => {
  const known = new Map<string, boolean>()
  return (id: SessionId): Effect.Effect<boolean, SessionStoreError> => {
    const isOwn = known.get(id)
    if (isOwn !== undefined) return Effect.succeed(isOwn)
    return Effect.tap(isOwner(tenant, id), (isOwn) => Effect.sync(() => known.set(id, isOwn)))
  }
}

/** Fails if a new session would continue or belong to a session of another tenant. */
const checkAncestors = (
  store: Pick<Store, "get">,
  tenant: string,
  { continues, parentId }: Pick<NewSession, "continues" | "parentId">
): Effect.Effect<void, SessionStoreError> =>
  Effect.forEach(
    new Set([continues, parentId].filter((id) => id !== undefined)),
    (id) =>
      Effect.flatMap(store.get(id), (found) => {
        const owner = Option.isSome(found) ? found.value.tenant : tenant
        // The owner of the application may begin sessions of tenants below its own ones. They are not continued.
        const isOpen = owner === tenant || (owner === undefined && id !== continues)
        return isOpen ? Effect.void : Effect.fail(StoreFailure.makeUnknownSessionError("create", id))
      }),
    { discard: true }
  )

/** Resolves references within the sessions of a tenant. */
const makeResolver = (sessions: Effect.Effect<ReadonlyArray<Session>, SessionStoreError>): Store["resolve"] => {
  const selectSessions = (fits: (session: Session) => boolean) => Effect.map(sessions, (all) => all.filter(fits))
  const isShown = ({ source }: Session): boolean => !hiddenSources.includes(source)
  const findSession = (fits: (session: Session) => boolean) =>
    Effect.map(sessions, (all) => Option.fromUndefinedOr(all.find(fits)))
  return Reference.makeResolver({
    byId: (id) => findSession((one) => one.id === id),
    byIdPrefix: (prefix) =>
      Effect.map(
        selectSessions(({ id }) => id.startsWith(prefix)),
        (found) => found.slice(0, Reference.maxCandidates)
      ),
    byTitle: (title) => selectSessions((one) => one.title === title),
    byTitlePrefix: (prefix) => selectSessions(({ title }) => title?.startsWith(prefix) === true),
    names: Effect.map(selectSessions(isShown), (shown) =>
      shown.flatMap(({ id, title }) => (title === undefined ? [id] : [id, title]))
    ),
    latest: findSession(isShown),
    directories: Effect.map(selectSessions(isShown), (shown) =>
      Array.from(new Set(shown.flatMap(({ cwd }) => cwd ?? [])))
    ),
    latestIn: (directory) => findSession((one) => isShown(one) && one.cwd === directory)
  })
}

/** Guards of the operations about one session. */
const makeGuards = (ownership: Ownership) => ({
  /** Returns `missing` for a session that does not exist for the tenant. */
  guardRead: <A, E, R>(
    id: SessionId,
    missing: A,
    effect: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | SessionStoreError, R> =>
    findTenant((tenant): Effect.Effect<A, E | SessionStoreError, R> =>
      tenant === undefined
        ? effect
        : Effect.flatMap(ownership.isOwner(tenant, id), (isOwn): Effect.Effect<A, E, R> =>
            isOwn ? effect : Effect.succeed(missing)
          )
    ),
  /** Fails for a session that does not exist for the tenant. */
  guardWrite: <A, E>(
    operation: string,
    id: SessionId,
    effect: Effect.Effect<A, E>
  ): Effect.Effect<A, E | SessionStoreError> =>
    findTenant((tenant) =>
      tenant === undefined
        ? effect
        : Effect.flatMap(ownership.isOwner(tenant, id), (isOwn): Effect.Effect<A, E | SessionStoreError> =>
            isOwn ? effect : Effect.fail(StoreFailure.makeUnknownSessionError(operation, id))
          )
    )
})

/** The members that create, find and list sessions. */
const scopeSessions = (store: Store, ownership: Ownership): Pick<Store, "acquire" | "create" | "list" | "resolve"> => ({
  create: (session) =>
    findTenant((tenant) =>
      tenant === undefined
        ? store.create(session)
        : checkAncestors(store, tenant, session).pipe(
            Effect.andThen(store.create({ ...session, tenant })),
            Effect.tap(({ id }) => Effect.sync(() => ownership.rememberTenant(id, tenant)))
          )
    ),
  // A session that does not exist yet has no owner. Its lease would keep another tenant from its own session.
  acquire: (id) =>
    findTenant((tenant) =>
      tenant === undefined
        ? store.acquire(id)
        : Effect.flatMap(store.get(id), (found) =>
            Option.isSome(found) && found.value.tenant !== tenant
              ? Effect.fail(StoreFailure.makeExistingSessionError(id))
              : Effect.tap(store.acquire(id), () => ownership.holdSession(id))
          )
    ),
  list: (options) => findTenant((tenant) => store.list(tenant === undefined ? options : { ...options, tenant })),
  resolve: (reference, folder) =>
    findTenant((tenant) =>
      tenant === undefined
        ? store.resolve(reference, folder)
        : makeResolver(store.list({ tenant, limit: Number.MAX_SAFE_INTEGER }))(reference, folder)
    )
})

/**
 * Limits a session store to the sessions of the tenant for which a fiber works. The store itself has to store `tenant`
 * of `create`, to keep it in continuations, and to select by `tenant` in `list` and `listQuestions`. The `tenants` rules
 * of `SessionStoreRules` (`hermes-effect/testing`) check the result.
 */
export const scopeStore = (store: Store): Store => {
  const ownership = makeOwnership(store)
  const { guardRead, guardWrite } = makeGuards(ownership)
  const { committed, dropped, removeConversation, together } = store
  const scoped: Complete<Store> = {
    together,
    committed,
    dropped,
    ...scopeSessions(store, ownership),
    get: (id) => guardRead(id, Option.none(), store.get(id)),
    messages: (id, range) => guardRead(id, [], store.messages(id, range)),
    readable: (id) => guardRead(id, { messages: [], faults: [] }, store.readable(id)),
    begun: (id) => guardRead(id, new Set<string>(), store.begun(id)),
    newest: (id) => guardRead(id, id, store.newest(id)),
    usageByModel: (id) => guardRead(id, [], store.usageByModel(id)),
    listSteps: (id) => guardRead(id, [], store.listSteps(id)),
    listQuestions: (filter) =>
      findTenant((tenant) => store.listQuestions(tenant === undefined ? filter : { ...filter, tenant })),
    answerQuestions: (id, answers) => guardRead(id, false, store.answerQuestions(id, answers)),
    begin: (id, callIds) => guardWrite("begin", id, store.begin(id, callIds)),
    append: (id, messages) => guardWrite("append", id, store.append(id, messages)),
    recordUsage: (id, record) => guardWrite("recordUsage", id, store.recordUsage(id, record)),
    end: (id, reason) => guardWrite("end", id, store.end(id, reason)),
    continueIn: (id, continuation) => guardWrite("continue", id, store.continueIn(id, continuation)),
    rename: (id, title) => guardWrite("rename", id, store.rename(id, title)),
    remove: (id) =>
      Effect.tap(guardWrite("remove", id, store.remove(id)), () =>
        Effect.sync(() => ownership.rememberTenant(id, undefined))
      ),
    suspend: (id, suspension) => guardWrite("suspend", id, store.suspend(id, suspension)),
    closeQuestions: (id, callIds, state) => guardWrite("questions", id, store.closeQuestions(id, callIds, state)),
    storeStep: (id, step) => guardWrite("step", id, store.storeStep(id, step)),
    removeConversation:
      removeConversation === undefined
        ? undefined
        : (id) =>
            // Such a store is in memory, and reading a session of it does not fail.
            Effect.catchTag(guardRead(id, false, removeConversation(id)), "SessionStoreError", Effect.die)
  }
  return scoped
}

/**
 * Makes every operation of a service one of a tenant, for users of the service that work for that tenant only. Members
 * are effects, and functions that return effects.
 */
export const bindService = <Service extends object>(service: Service, tenant: string): Service => {
  const bindEffect = (value: unknown): unknown =>
    Effect.isEffect(value) ? Effect.provideService(value, CurrentTenant, tenant) : value
  const bound = Object.entries(service).map(([name, member]: readonly [string, unknown]) => [
    name,
    typeof member === "function"
      ? (...given: ReadonlyArray<unknown>) => bindEffect(member(...given))
      : bindEffect(member)
  ])
  // Each member keeps its arguments and its result.
  return Object.fromEntries(bound) as Service
}

/**
 * Tests whether a session belongs to another tenant than the one for which the fiber works, for data about a session
 * that is not in the store. A session that is not stored belongs to no other tenant.
 */
export const isForeignSession = (store: Pick<Store, "get">, id: SessionId): Effect.Effect<boolean, SessionStoreError> =>
  findTenant((tenant) =>
    tenant === undefined
      ? Effect.succeed(false)
      : Effect.map(
          Effect.provideService(store.get(id), CurrentTenant, undefined),
          (found) => Option.isSome(found) && found.value.tenant !== tenant
        )
  )

/** Limits a search to the sessions of the tenant for which a fiber works. */
export const scopeSearch = (search: Search): Search => {
  const scoped: Complete<Search> = {
    search: (query, options) =>
      findTenant((tenant) => search.search(query, tenant === undefined ? options : { ...options, tenant }))
  }
  return scoped
}

/** A store without sessions, for a record whose sessions are not known: a tenant reads nothing of it. */
const unknownStore: Pick<Store, "get"> = { get: () => Effect.succeed(Option.none()) }

/**
 * Limits the readers of a run record to the sessions of the tenant for which a fiber works. Entries are written by
 * runs, whose sessions the store has tested, and listeners are exporters of the application.
 */
export const scopeRecord = (record: Record, store: Pick<Store, "get"> = unknownStore): Record => {
  const ownership = makeOwnership(store)
  const { announce, append, isHeard, listen, together } = record
  const scoped: Complete<Record> = {
    announce,
    append,
    isHeard,
    listen,
    together,
    read: (filter) =>
      Stream.unwrap(
        Effect.map(CurrentTenant, (tenant) => {
          if (tenant === undefined) return record.read(filter)
          const isOwn = makeReaderTest(ownership, tenant)
          return Stream.filterEffect(record.read(filter), ({ sessionId }) => isOwn(sessionId))
        })
      ),
    unread: (filter) =>
      findTenant((tenant) => {
        if (tenant === undefined) return record.unread(filter)
        const id = filter?.sessionId
        if (id === undefined) return Effect.succeed(Unread.none)
        return Effect.flatMap(ownership.isOwner(tenant, SessionId.make(id)), (isOwn) =>
          isOwn ? record.unread(filter) : Effect.succeed(Unread.none)
        )
      })
  }
  return scoped
}

/** Fails an operation on all sessions of a store in the work for a tenant. */
const requireOwner = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SessionStoreError, R> =>
  findTenant((tenant): Effect.Effect<A, E | SessionStoreError, R> =>
    tenant === undefined
      ? effect
      : Effect.fail(
          new SessionStoreError({
            operation,
            message: "it concerns the sessions of all tenants: call it outside of the work for a tenant"
          })
        )
  )

/** Limits the maintenance of a store to the sessions of the tenant for which a fiber works. */
export const scopeMaintenance = (maintenance: Maintenance, store: Pick<Store, "get">): Maintenance => {
  const { guardRead } = makeGuards(makeOwnership(store))
  const scoped: Complete<Maintenance> = {
    remove: (id) => guardRead(id, 0, maintenance.remove(id)),
    add: (session, messages) =>
      findTenant((tenant) =>
        tenant === undefined
          ? maintenance.add(session, messages)
          : Effect.andThen(checkAncestors(store, tenant, session), maintenance.add({ ...session, tenant }, messages))
      ),
    stats: requireOwner("stats", maintenance.stats),
    optimize: requireOwner("optimize", maintenance.optimize)
  }
  return scoped
}

/** Limits the observation of a store to the sessions of the tenant for which a fiber works. */
export const scopeActivity = (activity: Activity, store: Pick<Store, "get">): Activity => {
  const ownership = makeOwnership(store)
  const selectIds = <A>(ids: Iterable<string>, toResult: (ids: ReadonlySet<string>) => A, all: A) =>
    findTenant((tenant) =>
      tenant === undefined
        ? Effect.succeed(all)
        : Effect.map(
            Effect.filter(ids, (id) => ownership.isOwner(tenant, SessionId.make(id))),
            (own) => toResult(new Set(own))
          )
    )
  const scoped: Complete<Activity> = {
    // Numbers that change with the work of any tenant, without its data.
    version: activity.version,
    sequence: activity.sequence,
    since: (after, filter) =>
      Stream.unwrap(
        Effect.map(CurrentTenant, (tenant) => {
          if (tenant === undefined) return activity.since(after, filter)
          const isOwn = makeReaderTest(ownership, tenant)
          return Stream.filterEffect(activity.since(after, filter), ({ entry }) => isOwn(entry.sessionId))
        })
      ),
    running: Effect.flatMap(activity.running, (ids) => selectIds(ids, (own) => own, ids)),
    spoken: (period) =>
      Effect.flatMap(activity.spoken(period), (all) =>
        selectIds(all.keys(), (own) => new Map(Array.from(all).filter(([id]) => own.has(id))), all)
      ),
    prompts: (ids) =>
      Effect.flatMap(
        selectIds(ids, (own) => Array.from(own), ids),
        (own) => activity.prompts(own)
      )
  }
  return scoped
}

/** Limits messages between processes to the sessions of the tenant for which a fiber works. */
export const scopeInbox = (inbox: Inbox, store: Pick<Store, "get">): Inbox => {
  const { guardRead } = makeGuards(makeOwnership(store))
  const guardId = <A>(id: string, missing: A, effect: Effect.Effect<A, SessionStoreError>) =>
    guardRead(SessionId.make(id), missing, effect)
  return {
    changes: inbox.changes,
    send: (message) => guardId(message.sessionId, undefined, inbox.send(message)),
    withdraw: (id, number) => guardId(id, false, inbox.withdraw(id, number)),
    read: (id, number) => guardId<Delivery>(id, { _tag: "removed" }, inbox.read(id, number)),
    remove: (id, number) => guardId(id, undefined, inbox.remove(id, number)),
    waiting: Effect.flatMap(inbox.waiting, (ids) =>
      Effect.filter(ids, (id) => guardId(id, false, Effect.succeed(true)))
    ),
    take: (id) => guardId<ReadonlyArray<InboxMessage>>(id, [], inbox.take(id)),
    settle: (id, numbers) => guardId(id, undefined, inbox.settle(id, numbers)),
    release: inbox.release,
    reply: (message, reply) => guardId(message.sessionId, undefined, inbox.reply(message, reply)),
    watch: (id, millis) => guardId(id, undefined, inbox.watch(id, millis)),
    isWatched: (id) => guardId(id, false, inbox.isWatched(id)),
    post: (id, kind, body) => guardId(id, undefined, inbox.post(id, kind, body)),
    find: (id, kind) => guardId(id, undefined, inbox.find(id, kind))
  } satisfies Complete<Inbox>
}

/** Limits the removal of old sessions to the tenant for which a fiber works. */
export const scopeRetention = (retention: Retention, store: Pick<Store, "get">): Retention => {
  const { guardRead } = makeGuards(makeOwnership(store))
  const { whenDue } = retention
  const withLimit = <A>(limit: Limit, use: (limit: Limit) => Effect.Effect<A, SessionStoreError>) =>
    findTenant((tenant) => use(tenant === undefined ? limit : { ...limit, tenant }))
  const scoped: Complete<Retention> = {
    whenDue,
    expired: (limit) => withLimit(limit, retention.expired),
    prune: (limit) => withLimit(limit, retention.prune),
    compact: requireOwner("compact", retention.compact),
    hold: (id) => guardRead(id, undefined, retention.hold(id))
  }
  return scoped
}

/** Refuses backups in the work for a tenant, because they have the sessions of all tenants. */
export const scopeBackup = (backup: Backup): Backup => {
  const scoped: Complete<Backup> = {
    count: requireOwner("count", backup.count),
    read: (onRows) => requireOwner("backup", backup.read(onRows)),
    write: (parts, options) => requireOwner("restore", backup.write(parts, options))
  }
  return scoped
}
