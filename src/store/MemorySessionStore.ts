/**
 * A session store that exists only as long as its scope, for tests, batch runs, and applications without persistence.
 *
 * **Details**
 *
 * Appending stores a reference to each message. Nothing is copied, checked or encoded, except a message that contains a
 * secret (see `StoredForm`), so the cost does not depend on the length of the session. Counts, lists of sessions and
 * search hits are computed on request.
 *
 * The store is bounded (`MemoryBounds`): when it is full, the least recently used conversations are dropped, but
 * never a conversation with an active run. One warning is logged when conversations are first dropped. Conversations
 * that were idle for too long are dropped without a warning. The bound `unnamed` limits the sessions that no caller
 * named, and {@link layerNone} drops every session at the end of its run.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type * as Prompt from "effect/ai/Prompt"
import { SessionBusy, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Cost from "../base/domain/Cost.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as MemoryBounds from "./MemoryBounds.ts"
import * as MemoryQuestions from "./MemoryQuestions.ts"
import { makeSearch, type SearchedSession } from "./MemorySearch.ts"
import * as StoredMask from "./StoredMask.ts"
import * as QuestionForm from "./QuestionForm.ts"
import * as Reference from "./Reference.ts"
import * as SessionSearch from "./SessionSearch.ts"
import * as SessionSpans from "./SessionSpans.ts"
import * as SessionStore from "./SessionStorePort.ts"
import * as TenantScope from "./TenantScope.ts"
import * as StoreFailure from "./StoreFailure.ts"
import * as Title from "./Title.ts"

interface Entry extends SearchedSession {
  readonly startedAt: number
  readonly messages: Array<Prompt.Message>
  readonly order: Array<number>
  /** Usage by provider and model. */
  readonly usage: Array<SessionStore.UsageRecord>
  /** Calls that have begun and have no result yet; `undefined` in a session without calls, and after a run. */
  begun: Set<string> | undefined
  /** Total cost, with the status and source of the last call's cost. */
  cost: Cost.Spent
  title: string | undefined
  ended: { readonly at: number; readonly reason: string } | undefined
  /** Order number of the session's latest activity, counted across all sessions. */
  activity: number
  /** Size of the messages, in characters. */
  characters: number
}

const toSession = (entry: Entry): SessionStore.Session => ({
  id: entry.id,
  source: entry.source,
  provider: entry.start.provider,
  model: entry.start.model,
  systemPrompt: entry.start.systemPrompt,
  parentId: entry.start.parentId,
  continues: entry.start.continues,
  hasOwnPrompt: entry.start.hasOwnPrompt === true,
  tenant: entry.start.tenant,
  title: entry.title,
  cwd: entry.start.cwd,
  branch: entry.start.branch,
  startedAt: entry.startedAt,
  endedAt: entry.ended?.at,
  endReason: entry.ended?.reason,
  usage: entry.usage.reduce((sum, record) => Usage.add(sum, record.usage), Usage.zero),
  cost: entry.cost,
  messageCount: entry.messages.length,
  toolCallCount: entry.messages.reduce((count, message) => count + Conversation.listToolCalls(message).length, 0)
})

/** Removes the calls that a message answers from those that have begun. */
const endCalls = (begun: Set<string>, message: Prompt.Message): void => {
  if (message.role !== "tool") return
  for (const part of message.content) if (part.type === "tool-result") begun.delete(part.id)
}

/** Adds the usage of a call to the usage of its provider and model. */
const addUsage = (entry: Entry, record: SessionStore.UsageRecord): void => {
  const index = entry.usage.findIndex(({ model, provider }) => provider === record.provider && model === record.model)
  const sum = entry.usage[index]
  entry.cost = Cost.sum(entry.cost, record.cost)
  entry.usage[index === -1 ? entry.usage.length : index] = {
    ...record,
    usage: Usage.add(sum?.usage ?? Usage.zero, record.usage),
    cost: Cost.sum(sum?.cost ?? Cost.toSpent(Cost.nothing), record.cost)
  }
}

const isShown = ({ source }: Entry): boolean => !SessionSearch.hiddenSources.includes(source)

const make = (
  bounds: MemoryBounds.Bounds,
  canName: boolean
): Context.Context<SessionStore.SessionStore | SessionSearch.SessionSearch> => {
  const entries = new Map<string, Entry>()
  const owned = new Set<string>()
  const ledger = MemoryBounds.makeLedger(bounds)
  const listeners = new Set<(ids: ReadonlyArray<SessionId>) => void>()
  let activity = 0
  let hasWarned = false
  /** Time of the newest use of any session. */
  let now = 0

  const isOwnedBy = (id: SessionId, tenant: string): boolean => entries.get(id)?.start.tenant === tenant
  const isInUse = (id: SessionId): boolean => owned.has(id)
  const questions = MemoryQuestions.makeQuestions()

  const forgetEntries = (ids: ReadonlyArray<SessionId>): void => {
    for (const id of ids) {
      entries.delete(id)
      questions.forgetSession(id)
    }
    if (ids.length > 0) for (const listener of listeners) listener(ids)
  }

  /** Records the time at which a run begins or ends. A caller that continues a session by its id has named it. */
  const recordUse = (id: SessionId, at: number): void => {
    const start = entries.get(id)?.start
    now = at
    const isChild = start?.parentId !== undefined && start.continues === undefined
    ledger.recordUse(id, { at, isNamed: canName && !isChild })
  }

  /** Ends the ownership of a session after a run, and drops the sessions without a name above the bound. */
  const releaseSession = (id: SessionId, at: number): void => {
    owned.delete(id)
    const entry = entries.get(id)
    if (entry?.begun?.size === 0) entry.begun = undefined
    now = at
    ledger.recordUse(id, { at, isNamed: false })
    if (bounds.unnamed < Infinity)
      forgetEntries(ledger.takeEnded(id, (one) => isInUse(one) || questions.isWaiting(one)))
  }

  /**
   * Drops sessions until the bounds hold. The first time, returns an Effect that logs a warning. `current` is the
   * session that is being written.
   */
  const dropSurplus = (current: SessionId): Effect.Effect<void> | undefined => {
    const isFull = ledger.isFull()
    const surplus = ledger.takeSurplus((id) => id === current || isInUse(id), now)
    forgetEntries(surplus)
    if (hasWarned || !isFull || surplus.length === 0) return undefined
    hasWarned = true
    return Effect.logWarning(
      `The session store in memory is full (${bounds.sessions} sessions, ${bounds.characters} characters): the ` +
        "oldest conversations are dropped. " +
        "Use SessionStore.layerSqlite to keep them, or SessionStore.layerMemoryWith to set other limits."
    )
  }

  const forgetSession = (id: SessionId): void => {
    const entry = entries.get(id)
    if (entry === undefined) return
    ledger.remove(id, entry.characters)
    forgetEntries([id])
  }

  const requireEntry = (operation: string, id: SessionId): Effect.Effect<Entry, SessionStoreError> => {
    const entry = entries.get(id)
    return entry === undefined
      ? Effect.fail(StoreFailure.makeUnknownSessionError(operation, id))
      : Effect.succeed(entry)
  }
  const sortNewestFirst = (): Array<Entry> => Array.from(entries.values()).sort((a, b) => b.activity - a.activity)
  const toOptionalSession = (entry: Entry | undefined): Option.Option<SessionStore.Session> =>
    Option.map(Option.fromUndefinedOr(entry), toSession)
  const listSessions = (fits: (entry: Entry) => boolean, limit: number): ReadonlyArray<SessionStore.Session> =>
    sortNewestFirst().filter(fits).slice(0, limit).map(toSession)

  /** Finds the session with a title among the sessions of a tenant, or among those without one. */
  const findTitleOwner = (title: string, tenant: string | undefined): Entry | undefined =>
    Array.from(entries.values()).find((entry) => entry.title === title && entry.start.tenant === tenant)

  const findContinuation = (id: string): Entry | undefined =>
    Array.from(entries.values()).find(({ start }) => start.continues === id)

  const store = SessionStore.SessionStore.of({
    create: Effect.fnUntraced(function* (session) {
      const mask = yield* StoredMask.heldMask
      const title = session.title === undefined ? undefined : yield* Title.clean("create", mask(session.title))
      const startedAt = yield* Clock.currentTimeMillis
      if (entries.has(session.id)) return yield* StoreFailure.makeExistingSessionError(session.id)
      const owner = title === undefined ? undefined : findTitleOwner(title, session.tenant)
      if (title !== undefined && owner !== undefined)
        return yield* StoreFailure.makeTakenTitleError("create", title, owner.id)
      const entry: Entry = {
        id: session.id,
        source: session.source,
        start: { ...session, systemPrompt: mask(session.systemPrompt) },
        startedAt,
        messages: [],
        order: [],
        usage: [],
        begun: undefined,
        cost: Cost.toSpent(Cost.nothing),
        title,
        ended: undefined,
        activity: ++activity,
        characters: 0
      }
      entries.set(session.id, entry)
      now = startedAt
      ledger.add(session.id, session.parentId, { at: startedAt, isNamed: canName && session.isUnnamed !== true })
      yield* dropSurplus(session.id) ?? Effect.void
      return toSession(entry)
    }),
    acquire: (id) =>
      // `acquireRelease` would copy the services of the run for its end.
      Effect.uninterruptible(
        Effect.flatMap(Effect.scope, (scope) =>
          Effect.clockWith((clock) => {
            if (owned.has(id)) return Effect.fail(new SessionBusy({ sessionId: id }))
            owned.add(id)
            recordUse(id, clock.currentTimeMillisUnsafe())
            const release = Effect.sync(() => releaseSession(id, clock.currentTimeMillisUnsafe()))
            return Effect.as(Scope.addFinalizer(scope, release), { lost: undefined })
          })
        )
      ),
    begin: (id, callIds) =>
      Effect.suspend(() =>
        Effect.mapEager(requireEntry("begin", id), (entry) => {
          for (const callId of callIds) entry.begun = (entry.begun ?? new Set()).add(callId)
        })
      ),
    begun: (id) => Effect.sync(() => new Set(entries.get(id)?.begun)),
    append: (id, given) =>
      StoredMask.useMaskedMessages(given, (messages) => {
        const entry = entries.get(id)
        if (entry === undefined) return Effect.fail(StoreFailure.makeUnknownSessionError("append", id))
        entry.activity = ++activity
        entry.ended = undefined
        const first = entry.messages.length
        let characters = 0
        for (const message of messages) {
          characters += MemoryBounds.measureMessage(message)
          entry.messages.push(message)
          entry.order.push(activity)
          if (entry.begun !== undefined) endCalls(entry.begun, message)
        }
        entry.characters += characters
        ledger.grow(id, characters)
        const warning = dropSurplus(id)
        return warning === undefined ? Effect.succeed(first) : Effect.as(warning, first)
      }),
    recordUsage: (id, record) =>
      Effect.suspend(() => Effect.mapEager(requireEntry("recordUsage", id), (entry) => addUsage(entry, record))),
    end: Effect.fnUntraced(function* (id, reason) {
      const entry = yield* requireEntry("end", id)
      entry.ended = { at: yield* Clock.currentTimeMillis, reason }
    }),
    continueIn: (id, { endReason, messages, ...session }) =>
      Effect.uninterruptible(
        Effect.gen(function* () {
          const old = yield* requireEntry("continue", id)
          const newer = findContinuation(id)
          if (newer !== undefined) return yield* StoreFailure.makeContinuedSessionError(id, newer.id)
          const {
            source,
            start: { branch, cwd, hasOwnPrompt, tenant },
            title
          } = old
          const taken = Array.from(entries.values()).flatMap((entry) =>
            entry.start.tenant === tenant ? (entry.title ?? []) : []
          )
          yield* store.create({
            ...session,
            source,
            hasOwnPrompt,
            tenant,
            cwd,
            branch,
            parentId: id,
            continues: id,
            title: title === undefined ? undefined : Title.makeNext(title, taken)
          })
          yield* store
            .append(session.id, messages)
            .pipe(Effect.onError(() => Effect.sync(() => forgetSession(session.id))))
          yield* store.end(session.id, endReason)
          questions.moveQuestions(id, session.id)
          yield* store.end(id, "compression")
          return toSession(yield* requireEntry("continue", session.id))
        })
      ),
    newest: (id) =>
      Effect.sync(() => {
        let last = id
        for (let next = findContinuation(last); next !== undefined; next = findContinuation(last)) last = next.id
        return last
      }),
    rename: Effect.fnUntraced(function* (id, wanted) {
      const title = yield* Title.clean("rename", (yield* StoredMask.heldMask)(wanted))
      const entry = yield* requireEntry("rename", id)
      const owner = findTitleOwner(title, entry.start.tenant)
      if (owner !== undefined && owner !== entry)
        return yield* StoreFailure.makeTakenTitleError("rename", title, owner.id)
      entry.title = title
    }),
    remove: (id) => Effect.suspend(() => Effect.mapEager(requireEntry("remove", id), () => forgetSession(id))),
    removeConversation: (id) =>
      Effect.suspend(() => {
        const ids = ledger.listConversation(id)
        const busy = ids.find(isInUse)
        if (busy !== undefined) return Effect.fail(new SessionBusy({ sessionId: busy }))
        for (const one of ids) forgetSession(one)
        return Effect.succeed(ids.length > 0)
      }),
    dropped: (listener) =>
      Effect.acquireRelease(
        Effect.sync(() => void listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      ),
    get: (id) => Effect.sync(() => toOptionalSession(entries.get(id))),
    messages: (id, range) => Effect.sync(() => entries.get(id)?.messages.slice(range?.from, range?.to) ?? []),
    readable: (id) =>
      Effect.sync(() => ({
        messages: entries.get(id)?.messages.map((message, position) => ({ position, message })) ?? [],
        faults: []
      })),
    list: (options) =>
      Effect.sync(() =>
        listSessions(
          ({ source, start }) =>
            (options?.source === undefined || source === options.source) &&
            (options?.tenant === undefined || start.tenant === options.tenant),
          Math.max(0, options?.limit ?? SessionStore.defaultLimit)
        )
      ),
    resolve: Reference.makeResolver({
      byId: (id) => Effect.sync(() => toOptionalSession(entries.get(id))),
      byIdPrefix: (prefix) =>
        Effect.sync(() => listSessions((entry) => entry.id.startsWith(prefix), Reference.maxCandidates)),
      byTitle: (title) => Effect.sync(() => listSessions((entry) => entry.title === title, Infinity)),
      byTitlePrefix: (prefix) =>
        Effect.sync(() => listSessions((entry) => entry.title?.startsWith(prefix) === true, Infinity)),
      names: Effect.sync(() =>
        sortNewestFirst().flatMap(({ id, source, title }) =>
          SessionSearch.hiddenSources.includes(source) ? [] : title === undefined ? [id] : [id, title]
        )
      ),
      latest: Effect.sync(() => toOptionalSession(sortNewestFirst().find(isShown))),
      directories: Effect.sync(() =>
        Array.from(
          new Set(
            sortNewestFirst()
              .filter(isShown)
              .flatMap(({ start }) => start.cwd ?? [])
          )
        )
      ),
      latestIn: (directory) =>
        Effect.sync(() =>
          toOptionalSession(sortNewestFirst().find((entry) => isShown(entry) && entry.start.cwd === directory))
        )
    }),
    usageByModel: (id) => Effect.sync(() => entries.get(id)?.usage.slice() ?? []),
    suspend: Effect.fnUntraced(function* (id, given) {
      const { begun } = yield* requireEntry("suspend", id)
      const suspension = yield* QuestionForm.maskSuspension(given)
      questions.addQuestions(id, suspension.questions)
      for (const callId of suspension.callIds) begun?.delete(callId)
      yield* store.end(id, suspension.reason)
    }),
    listQuestions: (filter) =>
      Effect.sync(() =>
        questions.listQuestions(filter, (id) => filter?.tenant === undefined || isOwnedBy(id, filter.tenant))
      ),
    answerQuestions: (id, answers) =>
      Effect.map(QuestionForm.maskJson, (mask) =>
        questions.answerQuestions(
          id,
          answers.map((one) => ({ ...one, answer: mask(one.answer) }))
        )
      ),
    closeQuestions: (id, callIds, state) => Effect.sync(() => questions.closeQuestions(id, callIds, state)),
    storeStep: (id, step) =>
      Effect.andThen(
        requireEntry("step", id),
        Effect.map(QuestionForm.maskJson, (mask) => questions.addStep(id, { ...step, value: mask(step.value) }))
      ),
    listSteps: (id) => Effect.sync(() => questions.listSteps(id))
  })

  const search = makeSearch(() => entries.values())
  return Context.make(SessionStore.SessionStore, SessionSpans.traceStore(TenantScope.scopeStore(store))).pipe(
    Context.add(SessionSearch.SessionSearch, SessionSpans.traceSearch(TenantScope.scopeSearch(search)))
  )
}

const makeLayer = (
  bounds: Partial<MemoryBounds.Bounds>,
  canName: boolean
): Layer.Layer<SessionStore.SessionStore | SessionSearch.SessionSearch> =>
  Layer.effectContext(Effect.sync(() => make({ ...MemoryBounds.defaultBounds, ...bounds }, canName)))

/** Layer with an in-memory store with these bounds. Each scope that builds the layer gets a separate store. */
export const layerMemoryWith = (
  bounds: Partial<MemoryBounds.Bounds>
): Layer.Layer<SessionStore.SessionStore | SessionSearch.SessionSearch> => makeLayer(bounds, true)

/** Layer with a store in which every session ends with its run. */
export const layerNone: Layer.Layer<SessionStore.SessionStore | SessionSearch.SessionSearch> = makeLayer(
  { unnamed: 0 },
  false
)

/**
 * Layer with an in-memory store of at most 5,000 sessions and 50 million characters, each for 24 hours after its last
 * run. Each scope that builds the layer gets a separate store.
 */
export const layerMemory: Layer.Layer<SessionStore.SessionStore | SessionSearch.SessionSearch> = layerMemoryWith({})
