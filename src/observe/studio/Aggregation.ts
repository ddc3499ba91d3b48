/** Aggregates sessions for charts: tokens, cost, latency and errors by day, model, tool and agent. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { Status } from "../../base/domain/Cost.ts"
import * as SessionFacts from "./SessionFacts.ts"
import * as SessionQueries from "./SessionQueries.ts"
import type { SpokenCounts } from "../../store/SessionActivity.ts"
import type { ModelTotals, SessionQuery, SessionSummary } from "./StudioApi.ts"
import type {
  Aggregates,
  Conversation,
  CostBucket,
  CostBuckets,
  Day,
  ErrorShare,
  Percentiles,
  Share,
  SkillShare
} from "./StudioSums.ts"

/** Returns percentiles by nearest rank, or `undefined` if there are no values. */
const computePercentiles = (values: ReadonlyArray<number>): Percentiles | undefined => {
  if (values.length === 0) return undefined
  const sorted = values.toSorted((a, b) => a - b)
  const pickRank = (share: number): number => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
  return { p50: pickRank(0.5), p90: pickRank(0.9), p99: pickRank(0.99) }
}

const minute = 60_000

/** Formats the day of a time as `2026-11-22`. The offset from UTC is in minutes. */
const formatDay = (at: number, utcOffset: number): string =>
  new Date(at + utcOffset * minute).toISOString().slice(0, 10)

/** Counts calls by hour of the day. The offset from UTC is in minutes. */
const countByHour = (calls: ReadonlyArray<{ readonly at: number }>, utcOffset: number): ReadonlyArray<number> => {
  const hours = Array.from({ length: 24 }, () => 0)
  for (const { at } of calls) {
    const hour = new Date(at + utcOffset * minute).getUTCHours()
    hours[hour] = (hours[hour] ?? 0) + 1
  }
  return hours
}

/** Counts the calls that used tokens, and adds up their cost, by cost status. */
const sumCostBuckets = (calls: ReadonlyArray<SessionFacts.ModelCall>): CostBuckets => {
  const sumBucket = (status: Status): CostBucket => {
    const some = calls.filter(
      ({ costStatus = "unknown", tokens }) => costStatus === status && SessionFacts.countTokens(tokens) > 0
    )
    return {
      calls: some.length,
      cost: some.reduce((sum: number | undefined, { cost }) => SessionFacts.addCost(sum, cost), undefined) ?? 0
    }
  }
  return {
    actual: sumBucket("actual"),
    estimated: sumBucket("estimated"),
    included: sumBucket("included"),
    unknown: sumBucket("unknown")
  }
}

/** A model call or a tool call, in the form from which shares are computed. */
interface CountedCall {
  readonly at: number
  readonly millis: number | undefined
  readonly isFailed: boolean
  readonly tokens: SessionFacts.ModelCall["tokens"]
  readonly cost: number | undefined
}

const sumCalls = (calls: ReadonlyArray<CountedCall>): Pick<Share, "calls" | "cost" | "errors" | "tokens"> => ({
  calls: calls.length,
  errors: calls.filter(({ isFailed }) => isFailed).length,
  tokens: calls.reduce((sum, { tokens }) => SessionFacts.addTokens(sum, tokens), SessionFacts.noTokens),
  cost: calls.reduce((sum: number | undefined, { cost }) => SessionFacts.addCost(sum, cost), undefined)
})

const computeLatency = (calls: ReadonlyArray<Pick<CountedCall, "millis">>): Percentiles | undefined =>
  computePercentiles(calls.flatMap(({ millis }) => millis ?? []))

const compareByCount = (a: Share, b: Share): number => b.calls - a.calls || (a.name < b.name ? -1 : 1)

const computeShares = <A extends CountedCall & { readonly conversation: string; readonly day: string }>(
  calls: ReadonlyArray<A>,
  name: (call: A) => string
): ReadonlyArray<Share> =>
  Array.from(Map.groupBy(calls, name), ([name, some]): Share => ({
    name,
    ...sumCalls(some),
    sessions: new Set(some.map(({ conversation }) => conversation)).size,
    latency: computeLatency(some),
    days: Array.from(
      Map.groupBy(some, ({ day }) => day),
      ([day, of]) => {
        const { calls, cost, errors, tokens } = sumCalls(of)
        return { day, calls, errors, tokens: SessionFacts.countTokens(tokens), cost }
      }
    ).toSorted((a, b) => (a.day < b.day ? -1 : 1))
  })).toSorted(compareByCount)

type NamedCall<A> = A &
  CountedCall & { readonly session: string; readonly agent: string; readonly conversation: string }

const groupFailures = (
  models: ReadonlyArray<NamedCall<SessionFacts.ModelCall>>,
  tools: ReadonlyArray<NamedCall<SessionFacts.ToolCall>>
): ReadonlyArray<ErrorShare> => {
  const all = [
    ...models.map(({ at, isFailed, message, model, reason, session }) => ({
      at,
      isFailed,
      kind: "model" as const,
      message,
      name: model,
      reason,
      session
    })),
    ...tools.map(({ at, isFailed, name, reason, session }) => ({
      at,
      isFailed,
      kind: "tool" as const,
      message: undefined,
      name,
      reason,
      session
    }))
  ]
    .filter(({ isFailed }) => isFailed)
    .toSorted((a, b) => a.at - b.at)
  return Array.from(Map.groupBy(all, ({ kind, name, reason }) => `${kind} ${name} ${reason}`).values(), (some) => {
    const last = some.at(-1)
    return last === undefined
      ? []
      : [
          {
            name: last.name,
            kind: last.kind,
            reason: last.reason ?? "error",
            count: some.length,
            message: last.message,
            session: last.session
          }
        ]
  })
    .flat()
    .toSorted((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
}

const withFailureFlag = <A extends SessionFacts.ModelCall>(calls: ReadonlyArray<A>) =>
  calls.map((call) => ({ ...call, isFailed: call.status === "failed" }))

/** Aggregates the model calls of sessions by model. */
export const sumByModel = (facts: ReadonlyArray<SessionFacts.SessionFacts>): ReadonlyArray<ModelTotals> =>
  computeShares(
    withFailureFlag(
      facts.flatMap(({ id, modelCalls }) => modelCalls.map((call) => ({ ...call, conversation: id, day: "" })))
    ),
    ({ model }) => model
  ).map(({ days: _, name, sessions: __, ...rest }) => ({ model: name, ...rest }))

const findNotable = (world: SessionQueries.World, sessions: ReadonlyArray<SessionSummary>): Aggregates["notable"] => {
  // The newest session of a conversation represents the whole conversation.
  const conversations = Array.from(
    Map.groupBy(sessions, ({ id }) => SessionQueries.findBeginning(world, id)).values(),
    (some): Conversation => {
      const [newest] = some.toSorted((a, b) => b.startedAt - a.startedAt)
      return {
        id: newest?.id ?? "",
        title: newest?.title ?? newest?.prompt,
        duration: some.reduce((sum, { duration }) => sum + duration, 0),
        messages: Math.max(...some.map(({ id }) => world.sessions.get(id)?.messageCount ?? 0)),
        tokens: some.reduce((sum, { tokens }) => sum + SessionFacts.countTokens(tokens), 0),
        toolCalls: some.reduce((sum, { toolCalls }) => sum + toolCalls, 0)
      }
    }
  )
  const findBest = (name: string, of: (one: Conversation) => number) => {
    const [first] = conversations.toSorted((a, b) => of(b) - of(a))
    return first === undefined || of(first) === 0 ? [] : [{ name, session: first }]
  }
  return [
    ...findBest("Longest", ({ duration }) => duration),
    ...findBest("Most messages", ({ messages }) => messages),
    ...findBest("Most tokens", ({ tokens }) => tokens),
    ...findBest("Most tool calls", ({ toolCalls }) => toolCalls)
  ]
}

/** Counts the uses of skills. Calls that failed or were not allowed are not counted. */
const countSkillUses = (
  calls: ReadonlyArray<Pick<SessionFacts.ToolCall, "at" | "skill" | "status">>,
  chosen: ReadonlyArray<SpokenCounts["skills"][number]>
): ReadonlyArray<SkillShare> => {
  const uses = [
    ...calls.flatMap(({ at, skill, status }) => (skill === undefined || status !== "ok" ? [] : [{ at, ...skill }])),
    ...chosen.map(({ at, name }) => ({ at, name, kind: "load" as const }))
  ]
  return Array.from(
    Map.groupBy(uses, ({ name }) => name),
    ([name, some]) => {
      const edits = some.filter(({ kind }) => kind === "edit").length
      return { name, loads: some.length - edits, edits, lastUsed: Math.max(...some.map(({ at }) => at)) }
    }
  ).toSorted((a, b) => b.loads + b.edits - a.loads - a.edits || b.lastUsed - a.lastUsed)
}

/** Adds the usage of sessions without a record to the totals of their models. */
const addUnrecorded = (
  models: ReadonlyArray<Share>,
  some: ReadonlyArray<SessionQueries.UnrecordedSession>
): ReadonlyArray<Share> => {
  const all = new Map(models.map((one) => [one.name, one]))
  for (const { cost, session, tokens } of some) {
    if (session.usage.requestCount === 0) continue
    const known = all.get(session.model) ?? {
      name: session.model,
      calls: 0,
      sessions: 0,
      errors: 0,
      tokens: SessionFacts.noTokens,
      days: []
    }
    all.set(session.model, {
      ...known,
      calls: known.calls + session.usage.requestCount,
      sessions: known.sessions + 1,
      tokens: SessionFacts.addTokens(known.tokens, tokens),
      cost: SessionFacts.addCost(known.cost, cost)
    })
  }
  return Array.from(all.values()).toSorted(compareByCount)
}

/** Sums the health of middleware over runs. */
const sumMiddleware = (runs: ReadonlyArray<SessionFacts.RunFacts>): Aggregates["middleware"] =>
  Array.from(
    Map.groupBy(
      runs.flatMap(({ middleware }) => middleware),
      ({ kind, name }) => `${kind} ${name}`
    ).values(),
    (some) =>
      some.reduce((sum, one) => ({
        ...sum,
        calls: sum.calls + one.calls,
        faults: sum.faults + one.faults,
        ownMillis: sum.ownMillis + one.ownMillis
      }))
  ).toSorted((a, b) => b.ownMillis - a.ownMillis)

/** Period of an aggregation, as a query states it. */
type QueriedPeriod = Pick<SessionQuery, "since" | "until" | "utcOffset">

type PlacedCall<A> = NamedCall<A> & { readonly day: string }

/** Calls and runs of sessions in a period. */
interface PeriodCalls {
  readonly modelCalls: ReadonlyArray<PlacedCall<SessionFacts.ModelCall>>
  readonly toolCalls: ReadonlyArray<PlacedCall<SessionFacts.ToolCall>>
  readonly runs: ReadonlyArray<SessionFacts.RunFacts & { readonly day: string }>
}

/** Creates a function that returns the session, the agent and the conversation of a call. */
const makePlaces = (world: SessionQueries.World) => {
  const roles = new Map(
    Array.from(world.facts.values()).flatMap(({ children }) =>
      children.map(({ role, session }) => [session, role] as const)
    )
  )
  return (id: string) => ({
    session: id,
    agent: world.parents.has(id) ? (roles.get(id) ?? "sub-agent") : "main",
    conversation: SessionQueries.findBeginning(world, SessionQueries.findRoot(world, id))
  })
}

const makePeriodTest =
  ({ since = 0, until = Infinity }: QueriedPeriod) =>
  (at: number): boolean =>
    at >= since && at < until

/** Number of sessions whose calls are collected before other fibers may run. */
const collectedAtOnce = 512

/** Collects the calls and runs of a period. Lets other fibers run in between. */
const collectCalls = Effect.fnUntraced(function* (
  world: SessionQueries.World,
  facts: ReadonlyArray<SessionFacts.SessionFacts>,
  period: QueriedPeriod
): Effect.fn.Return<PeriodCalls> {
  const isInside = makePeriodTest(period)
  const findPlace = makePlaces(world)
  const getDay = (at: number): string => formatDay(at, period.utcOffset ?? 0)
  const modelCalls: Array<PeriodCalls["modelCalls"][number]> = []
  const toolCalls: Array<PeriodCalls["toolCalls"][number]> = []
  const runs: Array<PeriodCalls["runs"][number]> = []
  for (const some of Arr.chunksOf(facts, collectedAtOnce)) {
    for (const one of some) {
      const place = findPlace(one.id)
      for (const call of withFailureFlag(one.modelCalls.filter(({ at }) => isInside(at))))
        modelCalls.push({ ...call, ...place, day: getDay(call.at) })
      for (const call of one.toolCalls.filter(({ at }) => isInside(at))) {
        const isFailed = SessionFacts.hasFailed(call)
        toolCalls.push({
          ...call,
          ...place,
          day: getDay(call.at),
          isFailed,
          tokens: SessionFacts.noTokens,
          cost: undefined
        })
      }
      for (const run of one.runs.values())
        if (isInside(run.startedAt)) runs.push({ ...run, day: getDay(run.startedAt) })
    }
    yield* Effect.yieldNow
  }
  return { modelCalls, toolCalls, runs }
})

const getDay = ({ day }: { readonly day: string }): string => day

/** Sums the calls and runs of each day. */
const sumDays = ({ modelCalls, runs, toolCalls }: PeriodCalls): ReadonlyArray<Day> => {
  const [modelDays, toolDays, runDays] = [
    Map.groupBy(modelCalls, getDay),
    Map.groupBy(toolCalls, getDay),
    Map.groupBy(runs, getDay)
  ]
  return Array.from(new Set([...modelDays.keys(), ...toolDays.keys(), ...runDays.keys()]))
    .toSorted()
    .map((name): Day => ({
      day: name,
      ...SessionFacts.sumTotals(runDays.get(name) ?? [], modelDays.get(name) ?? [], toolDays.get(name) ?? []),
      latency: computeLatency(modelDays.get(name) ?? [])
    }))
}

/** Computes a part of the sums after other fibers could run. */
const computeNext = <A>(compute: () => A): Effect.Effect<A> => Effect.andThen(Effect.yieldNow, Effect.sync(compute))

/** Computes the shares of models, tools, agents, sources and tenants. Lets other fibers run in between. */
const computeAllShares = Effect.fnUntraced(function* (
  world: SessionQueries.World,
  { modelCalls, toolCalls }: PeriodCalls,
  unrecorded: ReadonlyArray<SessionQueries.UnrecordedSession>
) {
  const findSession = (id: string) => world.sessions.get(id)
  return {
    sources: yield* computeNext(() => computeShares(modelCalls, ({ session }) => findSession(session)?.source ?? "")),
    tenants: (yield* computeNext(() =>
      computeShares(modelCalls, ({ session }) => findSession(session)?.tenant ?? "")
    )).filter(({ name }) => name !== ""),
    models: addUnrecorded(yield* computeNext(() => computeShares(modelCalls, ({ model }) => model)), unrecorded),
    tools: yield* computeNext(() => computeShares(toolCalls, ({ name }) => name)),
    agents: yield* computeNext(() => computeShares(modelCalls, ({ agent }) => agent))
  }
})

/** Computes costs and latencies. Lets other fibers run in between. */
const computeFigures = Effect.fnUntraced(function* ({ modelCalls, toolCalls }: PeriodCalls, utcOffset: number) {
  return {
    costs: yield* computeNext(() => sumCostBuckets(modelCalls)),
    hours: yield* computeNext(() => countByHour(modelCalls, utcOffset)),
    modelLatency: yield* computeNext(() => computeLatency(modelCalls)),
    firstPart: yield* computeNext(() => computePercentiles(modelCalls.flatMap(({ firstPart }) => firstPart ?? []))),
    toolLatency: yield* computeNext(() => computeLatency(toolCalls)),
    failures: yield* computeNext(() => groupFailures(modelCalls, toolCalls))
  }
})

/**
 * Aggregates the given sessions and their sub-agents. `spoken` has the messages of the period. Lets other fibers run
 * meanwhile.
 */
export const aggregate = Effect.fnUntraced(function* (
  world: SessionQueries.World,
  found: ReadonlyArray<SessionSummary>,
  period: QueriedPeriod,
  spoken: ReadonlyMap<string, SpokenCounts> = new Map()
): Effect.fn.Return<Aggregates> {
  const isInside = makePeriodTest(period)
  const ids = Array.from(new Set(found.flatMap(({ id }) => SessionQueries.listFamily(world, id))))
  const facts = SessionQueries.listFacts(world, ids)
  const calls = yield* collectCalls(world, facts, period)
  const { modelCalls, runs, toolCalls } = calls
  const said = found.flatMap(({ id }) => (world.parents.has(id) ? [] : (spoken.get(id) ?? [])))
  // Sessions that are older than the record have totals, but no times except the start of the session.
  const unrecorded = SessionQueries.listUnrecorded(world, ids).filter(({ session }) => isInside(session.startedAt))
  const sums = SessionQueries.addUnrecorded(
    yield* computeNext(() => SessionFacts.sumTotals(runs, modelCalls, toolCalls)),
    unrecorded
  )
  const { cacheRead, cacheWrite, input } = sums.tokens
  const prompt = input + cacheRead + cacheWrite
  return {
    ...sums,
    sessions: new Set(found.map(({ id }) => SessionQueries.findBeginning(world, id))).size,
    active: facts
      .filter(({ id }) => !world.parents.has(id))
      .reduce((sum, one) => sum + SessionQueries.sumDurations(one, ({ startedAt }) => isInside(startedAt)), 0),
    messages: said.reduce((sum, { messages }) => sum + messages, 0),
    userMessages: said.reduce((sum, { userMessages }) => sum + userMessages, 0),
    cacheHit: prompt === 0 ? undefined : cacheRead / prompt,
    days: yield* computeNext(() => sumDays(calls)),
    ...(yield* computeFigures(calls, period.utcOffset ?? 0)),
    ...(yield* computeAllShares(world, calls, unrecorded)),
    skills: countSkillUses(
      toolCalls,
      said.flatMap(({ skills }) => skills)
    ),
    notable: yield* computeNext(() => findNotable(world, found)),
    misses: yield* computeNext(() =>
      SessionFacts.sumMisses(facts.map(({ modelCalls }) => modelCalls.filter(({ at }) => isInside(at))))
    ),
    middleware: sumMiddleware(runs)
  }
})
