/**
 * Functions for a conversation that spans several sessions because of compaction, and for its totals. Each session
 * stores only the usage of its own runs, so the usage of a conversation is the sum over its sessions.
 *
 * **Example** (Tokens of a conversation)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, SessionStore } from "hermes-effect"
 * import { SessionChain } from "hermes-effect/sessions"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const store = yield* SessionStore.SessionStore
 *   const session = yield* Effect.fromOption(yield* store.get(sessionId))
 *   return (yield* SessionChain.sumUsage(session)).compactions
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => 0
 * ```
 *
 * Source: `hermes-llm.md` §10.6, `hermes-product.md` §1.9.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Cost from "../base/domain/Cost.ts"
import type { SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as Usage from "../base/domain/Usage.ts"
import { type Session, SessionStore, type UsageRecord } from "./SessionStorePort.ts"
import * as ContextCopy from "./ContextCopy.ts"
import type { SessionMaintenance } from "./SessionMaintenance.ts"
import { RunRecord } from "./RunRecord.ts"
import * as MessageText from "./MessageText.ts"

/** Maximum number of sessions in a chain. The limit ends cycles in a damaged database. */
const maxSessions = 10_000

/** Returns the sessions that a session continues, oldest first, followed by the session itself. */
export const readChain = Effect.fnUntraced(function* (
  session: Session
): Effect.fn.Return<ReadonlyArray<Session>, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const found = new Map([[session.id, session]])
  for (let before = session.continues; before !== undefined && !found.has(before) && found.size < maxSessions;) {
    const one: Session | undefined = Option.getOrUndefined(yield* store.get(before))
    // The chain ends at a session that was removed.
    if (one === undefined) break
    found.set(one.id, one)
    before = one.continues
  }
  return Array.from(found.values()).toReversed()
})

/**
 * Lists the ids of the sessions of a conversation, the oldest first, from any of them. A session that is not stored is
 * its own conversation.
 */
export const listConversation = Effect.fnUntraced(function* (
  id: SessionId
): Effect.fn.Return<ReadonlyArray<SessionId>, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const newest = Option.getOrUndefined(yield* store.get(yield* store.newest(id)))
  if (newest === undefined) return [id]
  const ids = (yield* readChain(newest)).map((session) => session.id)
  return ids.includes(id) ? ids : [id, ...ids]
})

/** Returns the session that continues a session, or `undefined` for the last one of its conversation. */
export const findNext = Effect.fnUntraced(function* (
  session: Session
): Effect.fn.Return<Session | undefined, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const newest = yield* store.newest(session.id)
  if (newest === session.id) return undefined
  const last = Option.getOrUndefined(yield* store.get(newest))
  return last === undefined ? undefined : (yield* readChain(last)).find(({ continues }) => continues === session.id)
})

/**
 * Returns the id of the first session in the chain, even if that session was removed. It identifies the conversation
 * across compactions.
 */
export const findFirstId = (session: Session): Effect.Effect<SessionId, SessionStoreError, SessionStore> =>
  session.continues === undefined
    ? Effect.succeed(session.id)
    : Effect.map(readChain(session), ([oldest = session]) => oldest.continues ?? oldest.id)

/**
 * Removes the conversation of a session, with its sub-agents. Returns false if the session is unknown, and fails while
 * one of its sessions is in use. `maintenance` is the service of a database, if the store has one.
 */
export const removeConversation = Effect.fnUntraced(function* (
  store: SessionStore["Service"],
  id: SessionId,
  maintenance: Pick<SessionMaintenance["Service"], "remove"> | undefined
): Effect.fn.Return<boolean, SessionBusy | SessionStoreError> {
  if (store.removeConversation !== undefined) return yield* store.removeConversation(id)
  const session = Option.getOrUndefined(yield* store.get(id))
  if (session === undefined) return false
  const chain = yield* Effect.provideService(readChain(session), SessionStore, store)
  return yield* Effect.scoped(
    Effect.gen(function* () {
      // The sessions of a database are removed from the first one on, which has the others as its children.
      if (maintenance !== undefined) return (yield* maintenance.remove(chain[0]?.id ?? id)) > 0
      yield* store.acquire(id)
      yield* Effect.forEach(chain, (one) => store.remove(one.id), { discard: true })
      return true
    })
  )
})

/** Usage of a conversation. */
export interface Sums {
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
  readonly models: ReadonlyArray<UsageRecord>
  /** Number of times that the conversation was compacted. */
  readonly compactions: number
}

/** Returns the total usage of a session and the sessions that it continues. */
export const sumUsage = Effect.fnUntraced(function* (
  session: Session
): Effect.fn.Return<Sums, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const chain = yield* readChain(session)
  const records = (yield* Effect.forEach(chain, ({ id }) => store.usageByModel(id))).flat()
  const models = Array.from(
    Map.groupBy(records, ({ model, provider }) => JSON.stringify([provider, model])).values(),
    (some) =>
      some.reduce((sum, one) => ({
        ...sum,
        usage: Usage.add(sum.usage, one.usage),
        cost: Cost.sum(sum.cost, one.cost)
      }))
  )
  // A session without requests does not have a cost status to report.
  const paid = chain.filter(({ usage }) => usage.requestCount > 0)
  return {
    usage: chain.reduce((sum, { usage }) => Usage.add(sum, usage), Usage.zero),
    cost: paid.length === 0 ? session.cost : paid.map(({ cost }) => cost).reduce(Cost.sum),
    models,
    compactions: chain.length - 1
  }
})

/**
 * Reads from the record of `session` the positions of the messages in `before` that were left out or shortened. Returns
 * `undefined` if the record does not contain them.
 */
const readRecordedPositions = Effect.fnUntraced(function* (
  before: SessionId,
  session: SessionId
): Effect.fn.Return<ReadonlySet<number> | undefined, SessionStoreError, RunRecord> {
  const { read } = yield* RunRecord
  const entries = yield* Stream.runCollect(
    read({
      sessionId: session,
      turnId: ContextCopy.makeCompressionTurnId(session),
      kinds: ["ContextRewritten", "MessageAppended"]
    })
  )
  const positions = new Set<number>()
  let isTold = false
  for (const { event } of entries) {
    if (event._tag === "ContextRewritten" && event.source === before && event.removed !== undefined) {
      isTold = true
      for (const one of event.removed) {
        const [from, to] = typeof one === "object" ? one : [one, one]
        for (let position = Number(from); position <= Number(to); position++) positions.add(position)
      }
    }
    if (event._tag === "MessageAppended" && event.copyOf?.changed === true && event.copyOf.sessionId === before)
      positions.add(event.copyOf.position)
  }
  return isTold ? positions : undefined
})

/** Identifies a message by its role and text. */
const identifyMessage = (message: Prompt.Message): string =>
  JSON.stringify([message.role, MessageText.extractSearchText(message)])

/**
 * Returns the messages that compaction left out of a conversation, oldest first, according to the record. A session
 * that is older than its record is compared with its continuation instead: messages that occur in it more often are
 * returned. A shortened result is included in its original form.
 */
export const readRemoved = Effect.fnUntraced(function* (
  session: Session
): Effect.fn.Return<ReadonlyArray<Prompt.Message>, SessionStoreError, RunRecord | SessionStore> {
  const store = yield* SessionStore
  const chain = yield* readChain(session)
  const all = yield* Effect.forEach(chain, ({ id }) => store.messages(id))
  const recorded = yield* Effect.forEach(chain.slice(1), ({ id }, index) =>
    readRecordedPositions(chain[index]?.id ?? id, id)
  )
  return all.slice(0, -1).flatMap((messages, index) => {
    const positions = recorded[index]
    if (positions !== undefined) return messages.filter((_, position) => positions.has(position))
    const kept = new Map<string, number>()
    for (const text of (all[index + 1] ?? []).map(identifyMessage)) kept.set(text, (kept.get(text) ?? 0) + 1)
    // If several messages are equal, the newest ones were retained.
    return messages
      .toReversed()
      .filter((message) => {
        const text = identifyMessage(message)
        const left = kept.get(text) ?? 0
        kept.set(text, left - 1)
        return left <= 0
      })
      .toReversed()
  })
})
