/** Queries for sessions: sorted summaries of the sessions in a store that match a query. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import type { Session } from "../../store/SessionStore.ts"
import { toOneLine } from "../trace/Row.ts"
import * as SessionFacts from "./SessionFacts.ts"
import type { SessionList, SessionQuery, SessionSummary, Sort, Status, Tokens, Totals } from "./StudioApi.ts"

/** Facts about all sessions of a store at one point in time. */
export interface WorldFacts {
  /** Sequence number of the last entry that the facts include. */
  readonly sequence: number
  readonly sessions: ReadonlyMap<string, Session>
  /** Sessions that were removed since the studio started. */
  readonly removed: ReadonlySet<string>
  readonly facts: ReadonlyMap<string, SessionFacts.SessionFacts>
  /** Sessions that have an active run in a live process. */
  readonly running: ReadonlySet<string>
  /** First prompt of each session, as a single line without secrets. */
  readonly prompts: ReadonlyMap<string, string>
  /** Parent session of each sub-agent. */
  readonly parents: ReadonlyMap<string, string>
  /** Sub-agents of each session, in the order in which they started. */
  readonly children: ReadonlyMap<string, ReadonlyArray<string>>
  /** For each session, the sessions that replay it. */
  readonly replays: ReadonlyMap<string, ReadonlyArray<string>>
}

/** All sessions of a store at one point in time, with the summary of each. */
export interface World extends WorldFacts {
  readonly summaries: ReadonlyMap<string, SessionSummary>
}

/** A store without sessions. */
export const nowhere: World = {
  sequence: 0,
  sessions: new Map(),
  removed: new Set(),
  facts: new Map(),
  running: new Set(),
  prompts: new Map(),
  parents: new Map(),
  children: new Map(),
  replays: new Map(),
  summaries: new Map()
}

/** Default and maximum number of sessions in a list. */
export const limits = { otherwise: 50, most: 500 }

/** Returns the status of a run. `isRunning` is true if its session is running. */
export const getRunStatus = ({ exit }: Pick<SessionFacts.RunFacts, "exit">, isRunning: boolean): Status => {
  if (exit === undefined) return isRunning ? "running" : "interrupted"
  if (exit === "interrupted" || exit === "interrupted_by_user") return "interrupted"
  return isCompletedExit(exit) ? "ok" : "error"
}

/** Lists a session followed by its sub-agents at all depths. */
export const listFamily = (world: WorldFacts, id: string): ReadonlyArray<string> => {
  const found = new Set<string>()
  const walk = (one: string): void => {
    if (found.has(one)) return
    found.add(one)
    world.children.get(one)?.forEach(walk)
  }
  walk(id)
  return Array.from(found)
}

/** Returns the session that a sub-agent ultimately works for, or the session itself if it has no parent. */
export const findRoot = (world: WorldFacts, id: string): string => {
  let root = id
  // Parents in a damaged store may form a cycle.
  for (let depth = 0; depth < world.parents.size; depth++) {
    const parent = world.parents.get(root)
    if (parent === undefined) break
    root = parent
  }
  return root
}

/**
 * Returns the first session of the conversation that a session belongs to, because compaction splits a conversation
 * into several sessions.
 */
export const findBeginning = (world: WorldFacts, id: string): string => {
  const seen = new Set([id])
  let first = id
  for (;;) {
    const before = world.sessions.get(first)?.continues
    if (before === undefined || seen.has(before) || !world.sessions.has(before)) return first
    seen.add(before)
    first = before
  }
}

/** Lists the facts of the given sessions that have facts. */
export const listFacts = (world: WorldFacts, ids: ReadonlyArray<string>): ReadonlyArray<SessionFacts.SessionFacts> =>
  ids.flatMap((id) => world.facts.get(id) ?? [])

/** Returns the token counts of a session in the store. */
const toTokens = ({ usage }: Session): Tokens => ({
  input: usage.inputTokens,
  output: usage.outputTokens,
  cacheRead: usage.cacheReadTokens,
  cacheWrite: usage.cacheWriteTokens,
  reasoning: usage.reasoningTokens
})

/** Stored totals of a session that is older than the record or was imported. */
export interface UnrecordedSession {
  readonly session: Session
  readonly tokens: Tokens
  readonly cost: number | undefined
}

/** Lists the sessions without a run in the record. */
export const listUnrecorded = (world: WorldFacts, ids: ReadonlyArray<string>): ReadonlyArray<UnrecordedSession> =>
  ids.flatMap((id) => {
    const session = world.sessions.get(id)
    if (session === undefined || (world.facts.get(id)?.runs.size ?? 0) > 0) return []
    // A session that continues another one and has no run contains only messages of the previous session. They are
    // counted there.
    if (session.continues !== undefined) return []
    const { usd } = session.cost
    return [{ session, tokens: toTokens(session), cost: usd === null || usd === 0 ? undefined : usd }]
  })

/** Adds the totals of sessions without a record. */
export const addUnrecorded = (sums: Totals, some: ReadonlyArray<UnrecordedSession>): Totals =>
  some.reduce(
    (sum, { cost, session, tokens }) => ({
      ...sum,
      modelCalls: sum.modelCalls + session.usage.requestCount,
      toolCalls: sum.toolCalls + session.toolCallCount,
      tokens: SessionFacts.addTokens(sum.tokens, tokens),
      cost: SessionFacts.addCost(sum.cost, cost)
    }),
    sums
  )

/**
 * Returns the totals of sessions, without their sub-agents. Totals of sessions older than the record come from the
 * store.
 */
export const sumSessions = (world: WorldFacts, ids: ReadonlyArray<string>): Totals => {
  const recorded = listFacts(world, ids)
  const sums = SessionFacts.sumTotals(
    recorded.flatMap(({ runs }) => Array.from(runs.values())),
    recorded.flatMap(({ modelCalls }) => modelCalls),
    recorded.flatMap(({ toolCalls }) => toolCalls)
  )
  return addUnrecorded(sums, listUnrecorded(world, ids))
}

const findLastRun = (facts: SessionFacts.SessionFacts | undefined): SessionFacts.RunFacts | undefined =>
  facts === undefined ? undefined : Array.from(facts.runs.values()).at(-1)

/** Returns the status of a session. */
export const getStatus = (world: WorldFacts, id: string): Status => {
  const run = findLastRun(world.facts.get(id))
  return run === undefined ? (world.running.has(id) ? "running" : "ok") : getRunStatus(run, world.running.has(id))
}

/**
 * Returns a string that changes whenever something about a session or its sub-agents is written, or one of their runs
 * begins or ends.
 */
export const makeStamp = (world: WorldFacts, id: string): string =>
  JSON.stringify([
    world.replays.get(id)?.length ?? 0,
    ...listFamily(world, id).map((one) => {
      const session = world.sessions.get(one)
      return [one, world.facts.get(one)?.sequence, session?.messageCount, session?.title, world.running.has(one)]
    })
  ])

const listDistinct = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  Array.from(new Set(names.filter((name) => name !== ""))).toSorted()

const listModels = (facts: ReadonlyArray<SessionFacts.SessionFacts>): ReadonlyArray<string> =>
  listDistinct(
    facts.flatMap(({ modelCalls, runs }) =>
      modelCalls.length > 0
        ? modelCalls.flatMap(({ model, task }) => (task === undefined ? [model] : []))
        : Array.from(runs.values(), ({ model }) => model)
    )
  )

const listTools = (facts: ReadonlyArray<SessionFacts.SessionFacts>): ReadonlyArray<string> =>
  listDistinct(facts.flatMap(({ toolCalls }) => toolCalls.map(({ name }) => name)))

/**
 * Adds up the durations of a session's runs that match `isCounted`, in milliseconds. A last run without an end counts
 * up to its last event; earlier runs without an end do not count.
 */
export const sumDurations = (
  facts: SessionFacts.SessionFacts | undefined,
  isCounted: (run: SessionFacts.RunFacts) => boolean = () => true
): number =>
  facts === undefined
    ? 0
    : Array.from(facts.runs.values()).reduce((sum, run, index, all) => {
        const { endedAt, startedAt } = run
        return isCounted(run)
          ? sum + Math.max(0, (endedAt ?? (index === all.length - 1 ? facts.activeAt : startedAt)) - startedAt)
          : sum
      }, 0)

/** Summarizes a session. Its totals include its sub-agents. */
export const summarize = (world: WorldFacts, session: Session): SessionSummary => {
  const { id } = session
  const own = world.facts.get(id)
  const ids = listFamily(world, id)
  const all = listFacts(world, ids)
  const status = getStatus(world, id)
  const parent = world.parents.get(id)
  const goal =
    parent === undefined ? undefined : world.facts.get(parent)?.children.find((child) => child.session === id)?.goal
  const models = listModels(all)
  const activeAt = Math.max(own?.activeAt ?? 0, session.endedAt ?? 0, session.startedAt)
  return {
    ...sumSessions(world, ids),
    id,
    title: session.title,
    prompt: world.prompts.get(id),
    source: session.source,
    tenant: session.tenant,
    models: models.length > 0 ? models : listDistinct([session.model]),
    tools: listTools(all),
    cwd: session.cwd,
    branch: session.branch,
    startedAt: session.startedAt,
    activeAt,
    endedAt: status === "running" ? undefined : (findLastRun(own)?.endedAt ?? session.endedAt ?? activeAt),
    duration: sumDurations(own),
    status,
    failure: findLastRun(own)?.failure,
    parent,
    goal,
    children: ids.length - 1,
    replayOf: own?.replayOf,
    replays: world.replays.get(id) ?? [],
    scores: Array.from(own?.scores.values() ?? []),
    notes: own?.notes.length ?? 0
  }
}

/** Number of sessions that are summarized before other fibers may run. */
const summarizedAtOnce = 256

/** Summarizes all sessions, and lets other fibers run in between. */
export const summarizeAll = Effect.fnUntraced(function* (
  world: WorldFacts
): Effect.fn.Return<ReadonlyMap<string, SessionSummary>> {
  const summaries = new Map<string, SessionSummary>()
  for (const some of Arr.chunksOf(world.sessions.values(), summarizedAtOnce)) {
    for (const session of some) summaries.set(session.id, summarize(world, session))
    yield* Effect.yieldNow
  }
  return summaries
})

const orders: Readonly<Record<Sort, (one: SessionSummary) => number | string>> = {
  activity: ({ activeAt }) => activeAt,
  started: ({ startedAt }) => startedAt,
  duration: ({ duration }) => duration,
  cost: ({ cost = 0 }) => cost,
  tokens: ({ tokens }) => SessionFacts.countTokens(tokens),
  errors: ({ errors }) => errors,
  steps: ({ steps }) => steps,
  title: ({ id, prompt, title }) => (title ?? prompt ?? id).toLowerCase()
}

/** Sort orders of a list. */
export const sorts: ReadonlyArray<Sort> = [
  "activity",
  "started",
  "duration",
  "cost",
  "tokens",
  "errors",
  "steps",
  "title"
]

/** Possible statuses of a session. */
export const statuses: ReadonlyArray<Status> = ["ok", "error", "interrupted", "running"]

const isIn = <A>(wanted: ReadonlyArray<A> | undefined, found: ReadonlyArray<A>): boolean =>
  wanted === undefined || wanted.length === 0 || found.some((one) => wanted.includes(one))

/** Creates a test for summaries. `hits` are the sessions whose messages match the words of the query. */
const makeMatcher = (query: SessionQuery, hits: ReadonlySet<string>) => {
  const words = toOneLine(query.q ?? "").toLowerCase()
  return (one: SessionSummary): boolean =>
    (query.children === true || one.parent === undefined) &&
    isIn(query.source, [one.source]) &&
    isIn(query.tenant, one.tenant === undefined ? [] : [one.tenant]) &&
    isIn(query.status, [one.status]) &&
    isIn(query.model, one.models) &&
    isIn(query.tool, one.tools) &&
    (query.since === undefined || one.activeAt >= query.since) &&
    (query.until === undefined || one.startedAt < query.until) &&
    (query.minCost === undefined || (one.cost ?? 0) >= query.minCost) &&
    (words === "" ||
      hits.has(one.id) ||
      [one.title, one.prompt, one.id, one.goal].some((text) => text?.toLowerCase().includes(words) === true))
}

/** Returns the sorted summaries of all sessions that match a query, without paging. */
export const find = (world: World, query: SessionQuery, hits: ReadonlySet<string>): ReadonlyArray<SessionSummary> => {
  const order = orders[query.sort ?? "activity"]
  const isUp = (query.order ?? (query.sort === "title" ? "asc" : "desc")) === "asc"
  const compareSummaries = (a: SessionSummary, b: SessionSummary): number => {
    const [x, y] = isUp ? [order(a), order(b)] : [order(b), order(a)]
    return x < y ? -1 : x > y ? 1 : b.startedAt - a.startedAt || (a.id < b.id ? -1 : 1)
  }
  return Array.from(world.summaries.values()).filter(makeMatcher(query, hits)).toSorted(compareSummaries)
}

/** Returns one page of the sessions that match a query, with the total number. */
export const list = (world: World, query: SessionQuery, hits: ReadonlySet<string>): SessionList => {
  const found = find(world, query, hits)
  const from = query.offset ?? 0
  const all = Array.from(world.facts.values())
  return {
    sessions: found.slice(from, from + (query.limit ?? limits.otherwise)),
    total: found.length,
    known: {
      sources: listDistinct(Array.from(world.sessions.values(), ({ source }) => source)),
      models: listDistinct([...listModels(all), ...Array.from(world.sessions.values(), ({ model }) => model)]),
      tools: listTools(all)
    },
    sequence: world.sequence
  }
}
