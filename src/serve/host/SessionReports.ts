/**
 * Data about a live session for the commands of clients: its usage, its tools, and the messages that compaction
 * omitted.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as CacheMisses from "../../base/domain/CacheMisses.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as SummaryText from "../../tools/prompt/compaction/SummaryText.ts"
import { Auxiliary, type TaskUsage } from "../../models/routing/Auxiliary.ts"
import { type RouteStatus, RouterStatus } from "../../models/routing/ModelRouter.ts"
import * as PromptCalls from "./PromptCalls.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import * as SearchQuery from "../../store/SearchQuery.ts"
import * as SearchScan from "../../store/SearchScan.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import type { Session, SessionStore } from "../../store/SessionStore.ts"
import * as MessageText from "../../store/MessageText.ts"
import type { Selection } from "../../tools/ToolRegistry.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { SessionIdentity } from "./HostEvent.ts"
import type { LiveSession } from "./LiveSession.ts"

/** Usage of the conversation, including its sessions before compactions. */
export interface UsageReport extends SessionChain.Sums {
  /** Usage of all side tasks in this program, by task name. */
  readonly side: ReadonlyMap<string, TaskUsage>
  /** Milliseconds since the session was opened in this process. */
  readonly duration: number
}

const nothingUsed: SessionChain.Sums = {
  usage: Usage.zero,
  cost: Cost.toSpent(Cost.nothing),
  models: [],
  compactions: 0
}

const sumChain = (session: Session | undefined): Effect.Effect<SessionChain.Sums, SessionStoreError, SessionStore> =>
  session === undefined ? Effect.succeed(nothingUsed) : SessionChain.sumUsage(session)

/** Sums the usage of a session, its earlier parts and its side tasks. */
export const readUsage = Effect.fnUntraced(function* (
  live: LiveSession
): Effect.fn.Return<UsageReport, SessionStoreError, Auxiliary | SessionStore> {
  const sums = yield* Effect.flatMap(live.known, sumChain)
  const side = yield* Auxiliary.use(({ used }) => used)
  const { session } = yield* live.state
  return { ...sums, side, duration: (yield* Clock.currentTimeMillis) - session.since }
})

/**
 * Returns the model calls of the conversation that paid again for a cached prefix, by reason, with their price. The
 * sessions before compactions are included.
 */
export const readMisses = Effect.fnUntraced(function* (
  live: LiveSession
): Effect.fn.Return<ReadonlyArray<CacheMisses.MissSum>, SessionStoreError, RunRecord | SessionStore> {
  const session = yield* live.known
  if (session === undefined) return []
  const chain = yield* SessionChain.readChain(session)
  const sessions = yield* Effect.forEach(chain, ({ id }) => PromptCalls.readPromptCalls({ sessionId: id }))
  return CacheMisses.sumMisses([sessions.flatMap(({ calls }) => calls)])
})

/** State of the session and of the routes. */
export interface StatusReport {
  readonly session: SessionIdentity
  readonly stored: Session | undefined
  /** Tokens used by the conversation, including its sessions before compactions. */
  readonly tokens: number
  /** Milliseconds since the session was opened in this process. */
  readonly duration: number
  readonly routes: ReadonlyArray<RouteStatus>
}

/** Reads the state of a session and of its routes. */
export const readStatus = Effect.fnUntraced(function* (
  live: LiveSession
): Effect.fn.Return<StatusReport, SessionStoreError, SessionStore> {
  const stored = yield* live.known
  const { session } = yield* live.state
  const routes = Option.match(yield* Effect.serviceOption(RouterStatus), {
    onNone: () => Effect.succeed([]),
    onSome: ({ routes }) => routes
  })
  const { usage } = yield* sumChain(stored)
  return {
    session,
    stored,
    tokens: Usage.countTotalTokens(usage),
    duration: (yield* Clock.currentTimeMillis) - session.since,
    routes: yield* routes
  }
})

/** A toolset, with the names of the tools in it that the agent may call. */
export interface OfferedTools {
  readonly toolset: string
  readonly names: ReadonlyArray<string>
}

/** Lists the toolsets, and for each tool if the model is offered it. */
export const listTools = Effect.fnUntraced(function* (
  selection: Selection | undefined
): Effect.fn.Return<ReadonlyArray<OfferedTools>, never, ToolRegistry> {
  const registry = yield* ToolRegistry
  const sets = yield* registry.list
  const offered = new Set((yield* registry.snapshot(selection ?? {})).names)
  return sets.flatMap(({ tools, toolset }) => {
    const names = tools.map(({ tool }) => tool.name).filter((name) => offered.has(name))
    return names.length === 0 ? [] : [{ toolset, names }]
  })
})

/** Groups messages by exchange. Each group except the first begins with a user message. */
const groupByExchange = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<ReadonlyArray<Prompt.Message>> => {
  const groups: Array<Array<Prompt.Message>> = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (last === undefined || message.role === "user") groups.push([message])
    else last.push(message)
  }
  return groups
}

/** Messages that compaction omitted from the conversation. */
export interface RemovedMessages {
  /** Total number of omitted messages. */
  readonly total: number
  readonly isFiltered: boolean
  /** Messages in the exchanges that contain the words. */
  readonly found: ReadonlyArray<Prompt.Message>
}

/**
 * Finds messages that compaction omitted and that contain the given words. Without words, returns all omitted messages.
 */
export const findRemovedMessages = Effect.fnUntraced(function* (
  live: LiveSession,
  words: string
): Effect.fn.Return<RemovedMessages, SessionStoreError, RunRecord | SessionStore> {
  const session = yield* live.known
  const all =
    session === undefined
      ? []
      : (yield* SessionChain.readRemoved(session)).filter((message) => !SummaryText.isStandIn(message))
  const query = SearchQuery.parse(words)
  const isMatch = (message: Prompt.Message): boolean =>
    query.length === 0 || SearchScan.find(query, MessageText.extractSearchText(message)) !== undefined
  return {
    total: all.length,
    isFiltered: query.length > 0,
    found: groupByExchange(all)
      .filter((group) => group.some(isMatch))
      .flat()
  }
})
