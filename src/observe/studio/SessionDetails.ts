/**
 * Full view of a session: rows of its timeline, its conversation, and totals of its runs, agents and models. Also
 * compares two sessions.
 */
import * as Effect from "effect/Effect"
import type { Session } from "../../store/SessionStore.ts"
import * as Unread from "../../store/Unread.ts"
import type * as Atif from "../Atif.ts"
import * as FromRuns from "../atif/FromRuns.ts"
import type { Tree } from "../RunTree.ts"
import * as Trace from "../Trace.ts"
import { toOneLine, type Row } from "../trace/Row.ts"
import * as TraceView from "../TraceView.ts"
import * as Aggregation from "./Aggregation.ts"
import * as SessionFacts from "./SessionFacts.ts"
import * as SessionMessages from "./SessionMessages.ts"
import * as SessionQueries from "./SessionQueries.ts"
import type {
  AgentTotals,
  Comparison,
  Message,
  Patch,
  RunSummary,
  SessionDetail,
  SessionEvent,
  Side,
  Tail
} from "./StudioApi.ts"

/** A session with the data that its view is built from. */
export interface Source {
  readonly session: Session
  /** Runs of the session and of its sub-agents. */
  readonly tree: Tree
  /** System prompt of the session, without secrets. */
  readonly systemPrompt: string
  /** Entries in the session's record that cannot be read. */
  readonly unread: Unread.Unread
}

const chooseName = (
  { id, prompts }: { readonly id: string; readonly prompts: ReadonlyMap<string, string> },
  title: string | undefined
): string => title ?? prompts.get(id) ?? id

const summarizeRuns = (world: SessionQueries.World, id: string, { tree }: Source): ReadonlyArray<RunSummary> => {
  const facts = world.facts.get(id)
  if (facts === undefined) return []
  const prompts = new Map(
    tree.roots.map(({ messages, turnId }) => {
      const message = messages.find(({ origin }) => origin === "user")?.message
      const text =
        message === undefined || typeof message.content === "string"
          ? undefined
          : message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(" ")
      return [turnId as string, text] as const
    })
  )
  const [modelCalls, toolCalls] = [
    Map.groupBy(facts.modelCalls, ({ run }) => run),
    Map.groupBy(facts.toolCalls, ({ run }) => run)
  ]
  return Array.from(facts.runs.values(), (run): RunSummary => {
    return {
      ...SessionFacts.sumTotals([run], modelCalls.get(run.id) ?? [], toolCalls.get(run.id) ?? []),
      id: run.id,
      startedAt: run.startedAt,
      endedAt: run.endedAt,
      status: SessionQueries.getRunStatus(run, world.running.has(id)),
      exit: run.exit,
      failure: run.failure,
      model: run.model,
      prompt: toOneLine(prompts.get(run.id) ?? "") || undefined
    }
  })
}

const summarizeAgents = (world: SessionQueries.World, id: string): ReadonlyArray<AgentTotals> => {
  const ids = SessionQueries.listFamily(world, id)
  const goals = new Map(
    SessionQueries.listFacts(world, ids).flatMap(({ children }) =>
      children.map(({ goal, session }) => [session, goal] as const)
    )
  )
  return ids.map((one): AgentTotals => ({
    ...SessionQueries.sumSessions(world, [one]),
    session: one,
    name: one === id ? "main" : goals.get(one) || one,
    parent: one === id ? undefined : world.parents.get(one),
    status: SessionQueries.getStatus(world, one),
    duration: SessionQueries.sumDurations(world.facts.get(one))
  }))
}

const makeEmptyTrajectory = (id: string): Atif.Trajectory => ({
  schema_version: "ATIF-v1.7",
  session_id: id,
  agent: { name: "Hermes Agent", version: "unknown" },
  steps: []
})

const formatCount = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`

const listWarnings = (lost: number, unread: Unread.Unread, damaged: number): ReadonlyArray<string> => [
  ...(lost === 0
    ? []
    : [
        `${formatCount(lost, "entry of the run record could not be written and is", "entries of the run record could not be written and are")} missing.`
      ]),
  ...Unread.renderNotices(unread),
  ...(damaged === 0
    ? []
    : [
        `${formatCount(damaged, "message", "messages")} cannot be read: ` +
          `a newer version wrote ${damaged === 1 ? "it" : "them"}, or the file is damaged.`
      ])
]

/** Computes a part of a view after other fibers could run. Each part of a long session takes tens of milliseconds. */
const computeNext = <A>(compute: () => A): Effect.Effect<A> => Effect.andThen(Effect.yieldNow, Effect.sync(compute))

/** Builds the trace of a session, or of one of its runs. Lets other fibers run in between. */
const buildTrace = ({ session, tree }: Source, runId?: string): Effect.Effect<Trace.Trace> => {
  const of = runId === undefined ? tree : { ...tree, roots: tree.roots.filter(({ turnId }) => turnId === runId) }
  return Effect.flatMap(
    computeNext(() => FromRuns.buildTrajectory(of, session.id) ?? makeEmptyTrajectory(session.id)),
    (trajectory) => computeNext(() => Trace.fromTrajectory(trajectory))
  )
}

/**
 * Returns the messages with the ids of the rows that show them. User messages and answers are matched to rows in the
 * order of the conversation; calls are matched to the rows below their answer.
 */
const withRows = (messages: ReadonlyArray<Message>, rows: ReadonlyArray<Row>): ReadonlyArray<Message> => {
  const own = rows.filter(({ parent, task }) => parent === 0 && task === "")
  const questions = own.filter(({ kind }) => kind === "user")
  const answers = own.filter(({ kind }) => kind === "llm")
  const isQuestion = ({ origin, role }: Message): boolean => role === "user" && origin === "user"
  const isWhole =
    messages.filter(isQuestion).length === questions.length &&
    messages.filter(({ role }) => role === "assistant").length === answers.length
  // If the trajectory shows more or fewer messages than the conversation, rows cannot be matched.
  if (!isWhole) return messages
  const tools = new Map<number, Array<Row>>()
  let behind = -1
  for (const row of own) {
    if (row.kind === "llm") behind = row.id
    else if (row.kind === "tool") tools.set(behind, [...(tools.get(behind) ?? []), row])
  }
  const calls = new Map<string, number>()
  let [question, answer] = [0, 0]
  return messages.map((message) => {
    if (isQuestion(message)) return { ...message, row: questions[question++]?.id }
    if (message.role === "assistant") {
      const row = answers[answer++]
      message.parts
        .filter((part) => part.type === "call")
        .forEach(({ id }, index) => {
          const tool = tools.get(row?.id ?? -1)?.[index]
          if (tool !== undefined) calls.set(id, tool.id)
        })
      return { ...message, row: row?.id }
    }
    const result = message.parts.find((part) => part.type === "result")
    const row = result === undefined ? undefined : calls.get(result.id)
    return row === undefined ? message : { ...message, row }
  })
}

/** Builds the view of a session with its rows and messages. Lets other fibers run in between. */
export const buildDetail = Effect.fnUntraced(function* (
  world: SessionQueries.World,
  source: Source
): Effect.fn.Return<SessionDetail> {
  const { session, systemPrompt, tree, unread } = source
  const { id } = session
  const facts = world.facts.get(id)
  const summary = SessionQueries.summarize(world, session)
  const trace = yield* buildTrace(source)
  const name = chooseName({ ...world, id }, session.title)
  const data = yield* computeNext(() => TraceView.buildData([{ name, trace }]))
  const conversation = yield* computeNext(() => SessionMessages.buildConversation(tree, id, systemPrompt))
  return {
    sequence: world.sequence,
    summary,
    data,
    messages: yield* computeNext(() => withRows(conversation, data.runs[0]?.rows ?? [])),
    runs: summarizeRuns(world, id, source),
    agents: summarizeAgents(world, id),
    models: Aggregation.sumByModel(SessionQueries.listFacts(world, SessionQueries.listFamily(world, id))),
    scores: summary.scores,
    notes: facts?.notes ?? [],
    warnings: listWarnings(
      facts?.lost ?? 0,
      unread,
      tree.conversation(id).filter(({ message }) => message === undefined).length
    )
  }
})

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const findTail = <A>(before: ReadonlyArray<A>, after: ReadonlyArray<A>): Tail<A> => {
  let from = 0
  while (from < before.length && from < after.length && isEqual(before[from], after[from])) from++
  return { from, items: after.slice(from) }
}

/**
 * Returns the items that changed. If most items changed, for example because one was inserted, all items from the first
 * change on are returned.
 */
const computePatch = <A>(before: ReadonlyArray<A>, after: ReadonlyArray<A>): Patch<A> => {
  const end = Math.min(before.length, after.length)
  const changed = after
    .slice(0, end)
    .flatMap((item, index) => (isEqual(item, before[index]) ? [] : [[index, item] as const]))
  const [first = end] = changed.map(([index]) => index)
  return changed.length * 2 > end - first && changed.length > 1
    ? { from: first, items: after.slice(first), changed: [] }
    : { from: end, items: after.slice(end), changed }
}

/**
 * Returns the changes from the state of a page to the current session, or the whole session if the page has no state.
 */
export const computeChange = (before: SessionDetail | undefined, after: SessionDetail): SessionEvent => {
  const { data, messages, ...rest } = after
  const [run] = data.runs
  return {
    ...rest,
    rows: computePatch<Row>(before?.data.runs[0]?.rows ?? [], run?.rows ?? []),
    pool: findTail(before?.data.pool ?? [], data.pool),
    messages: findTail(before?.messages ?? [], messages),
    sums: run?.sums ?? []
  }
}

const buildSide = (world: SessionQueries.World, source: Source, runId: string | undefined): Side | undefined => {
  const { session } = source
  const summary = SessionQueries.summarize(world, session)
  const title = chooseName({ ...world, id: session.id }, session.title)
  if (runId === undefined) {
    const { duration, models, status, tools, ...rest } = summary
    return { ...pickTotals(rest), session: session.id, name: title, duration, status, models, tools }
  }
  const run = summarizeRuns(world, session.id, source).find(({ id }) => id === runId)
  const facts = world.facts.get(session.id)
  if (run === undefined || facts === undefined) return undefined
  return {
    ...pickTotals(run),
    session: session.id,
    run: runId,
    name: run.prompt ?? title,
    duration: SessionQueries.sumDurations(facts, ({ id }) => id === runId),
    status: run.status,
    models: Array.from(
      new Set(facts.modelCalls.filter((call) => call.run === runId).map(({ model }) => model))
    ).toSorted(),
    tools: Array.from(new Set(facts.toolCalls.filter((call) => call.run === runId).map(({ name }) => name))).toSorted()
  }
}

const pickTotals = ({
  cost,
  errors,
  modelCalls,
  runs,
  steps,
  tokens,
  toolCalls,
  unpriced
}: ReturnType<typeof SessionFacts.sumTotals>) => ({
  cost,
  errors,
  modelCalls,
  runs,
  steps,
  tokens,
  toolCalls,
  unpriced
})

/** Compares two sessions, or one run of each. Returns `undefined` if a requested run does not exist. */
export const compare = Effect.fnUntraced(function* (
  world: SessionQueries.World,
  [left, leftRun]: readonly [Source, string | undefined],
  [right, rightRun]: readonly [Source, string | undefined]
): Effect.fn.Return<Comparison | undefined> {
  const [one, other] = [buildSide(world, left, leftRun), buildSide(world, right, rightRun)]
  if (one === undefined || other === undefined) return undefined
  const traces = [
    { name: one.name, trace: yield* buildTrace(left, leftRun) },
    { name: other.name, trace: yield* buildTrace(right, rightRun) }
  ]
  const data = yield* computeNext(() => TraceView.buildData(traces))
  const index = data.diff?.findIndex(({ state }) => state !== "same") ?? -1
  const first = data.diff?.[index]
  const [a, b] = data.runs
  return {
    left: one,
    right: other,
    data,
    ...(first === undefined || first.state === "same"
      ? {}
      : {
          first: {
            change: index,
            state: first.state,
            left: a?.rows[first.left]?.text,
            right: b?.rows[first.right]?.text
          }
        })
  }
})
