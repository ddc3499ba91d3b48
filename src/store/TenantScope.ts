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
 * Ids and titles of sessions are unique over all tenants. A session with an id that another tenant uses cannot be
 * created, so an application chooses ids that cannot be guessed, or lets the store choose them.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import { toHex } from "../base/platform/Digest.ts"
import * as Reference from "./Reference.ts"
import type { Service as Record } from "./RunRecord.ts"
import type { Service as Maintenance } from "./SessionMaintenance.ts"
import { hiddenSources, type Service as Search } from "./SessionSearch.ts"
import type { Service as Store, Session } from "./SessionStorePort.ts"
import * as StoreFailure from "./StoreFailure.ts"

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

/** Maximum number of sessions whose tenants a store remembers. */
const mostRemembered = 10_000

const findTenant = <A, E, R>(body: (tenant: string | undefined) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => body(fiber.getRef(CurrentTenant)))

/** Tests which sessions belong to a tenant. A tenant's own sessions are remembered, because they never change. */
const makeOwnership = (store: Pick<Store, "get">) => {
  const remembered = new Map<string, string>()
  const rememberSession = (id: string, tenant: string): void => {
    remembered.delete(id)
    remembered.set(id, tenant)
    const [oldest] = remembered.keys()
    if (remembered.size > mostRemembered && oldest !== undefined) remembered.delete(oldest)
  }
  return {
    rememberSession,
    forgetSession: (id: string): void => void remembered.delete(id),
    isOwner: (tenant: string, id: SessionId): Effect.Effect<boolean, SessionStoreError> =>
      remembered.get(id) === tenant
        ? Effect.succeed(true)
        : Effect.map(store.get(id), (found) => {
            const isOwn = Option.isSome(found) && found.value.tenant === tenant
            if (isOwn) rememberSession(id, tenant)
            return isOwn
          })
  }
}

type Ownership = ReturnType<typeof makeOwnership>

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
    byTitle: (title) => findSession((one) => one.title === title),
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
  guardRead: <A, E>(id: SessionId, missing: A, effect: Effect.Effect<A, E>): Effect.Effect<A, E | SessionStoreError> =>
    findTenant((tenant) =>
      tenant === undefined
        ? effect
        : Effect.flatMap(ownership.isOwner(tenant, id), (isOwn): Effect.Effect<A, E | SessionStoreError> =>
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
        : Effect.tap(store.create({ ...session, tenant }), ({ id }) =>
            Effect.sync(() => ownership.rememberSession(id, tenant))
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
              : store.acquire(id)
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

/** Limits a session store to the sessions of the tenant for which a fiber works. */
export const scopeStore = (store: Store): Store => {
  const ownership = makeOwnership(store)
  const { guardRead, guardWrite } = makeGuards(ownership)
  const { removeConversation } = store
  return {
    ...store,
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
      Effect.tap(guardWrite("remove", id, store.remove(id)), () => Effect.sync(() => ownership.forgetSession(id))),
    suspend: (id, suspension) => guardWrite("suspend", id, store.suspend(id, suspension)),
    closeQuestions: (id, callIds, state) => guardWrite("questions", id, store.closeQuestions(id, callIds, state)),
    storeStep: (id, step) => guardWrite("step", id, store.storeStep(id, step)),
    ...(removeConversation === undefined
      ? {}
      : { removeConversation: (id: SessionId) => Effect.orDie(guardRead(id, false, removeConversation(id))) })
  }
}

/** Makes every operation of a store one of a tenant, for users of the store that work for that tenant only. */
export const bindStore = (store: Store, tenant: string): Store => {
  const bindEffect = (value: unknown): unknown =>
    Effect.isEffect(value) ? Effect.provideService(value, CurrentTenant, tenant) : value
  const bound = Object.entries(store).map(([name, member]: readonly [string, unknown]) => [
    name,
    typeof member === "function" ? (...given: ReadonlyArray<unknown>) => bindEffect(member(...given)) : member
  ])
  // Each member keeps its arguments and its result.
  return Object.fromEntries(bound) as Store
}

/** Limits a search to the sessions of the tenant for which a fiber works. */
export const scopeSearch = (search: Search): Search => ({
  search: (query, options) =>
    findTenant((tenant) => search.search(query, tenant === undefined ? options : { ...options, tenant }))
})

/** A store without sessions, for a record whose sessions are not known: a tenant reads nothing of it. */
const unknownStore: Pick<Store, "get"> = { get: () => Effect.succeed(Option.none()) }

/** Limits the readers of a run record to the sessions of the tenant for which a fiber works. */
export const scopeRecord = (record: Record, store: Pick<Store, "get"> = unknownStore): Record => {
  const { isOwner } = makeOwnership(store)
  return {
    ...record,
    read: (filter) =>
      Stream.unwrap(
        Effect.map(CurrentTenant, (tenant) =>
          tenant === undefined
            ? record.read(filter)
            : Stream.filterEffect(record.read(filter), ({ sessionId }) => isOwner(tenant, sessionId))
        )
      )
  }
}

/** Limits the removal of conversations to the tenant for which a fiber works. */
export const scopeMaintenance = (maintenance: Maintenance, store: Pick<Store, "get">): Maintenance => {
  const { guardRead } = makeGuards(makeOwnership(store))
  return { ...maintenance, remove: (id) => guardRead(id, 0, maintenance.remove(id)) }
}
