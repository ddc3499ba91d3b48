/** Rows of an ATIF trajectory. Calls without their own times get the time of their step. */
import type * as Atif from "../Atif.ts"
import * as Message from "../atif/Message.ts"
import { type Fields, toFields, toItems, toFiniteNumber, toNonEmptyText } from "../atif/Value.ts"
import { type Detail, type Draft, makeDraft, toOneLine, arrangeRows, type Row } from "./Row.ts"
import { describeToolEnding } from "./ToolEnding.ts"

const formatJson = (value: unknown): string => JSON.stringify(value, null, 2) ?? ""

const makeDetails = (title: string, content: string | undefined): ReadonlyArray<Detail> =>
  content ? [{ title, text: content }] : []

interface Times {
  readonly start: number
  readonly end: number
}

const readInvocation = (extra: unknown, otherwise: number): Times => {
  const one = toFields(toFields(extra)["invocation"])
  const start = toFiniteNumber(one["start_timestamp"])
  const end = toFiniteNumber(one["end_timestamp"])
  return start === undefined || end === undefined
    ? { start: otherwise, end: otherwise }
    : { start: start * 1000, end: end * 1000 }
}

const parseInstant = (timestamp: string | null | undefined): number => {
  const at = Date.parse(timestamp ?? "")
  return Number.isNaN(at) ? 0 : at
}

/** Returns the message of an error, which is a string or an object with a message. */
const readErrorMessage = (value: unknown): string | undefined =>
  toNonEmptyText(value) ?? toNonEmptyText(toFields(value)["message"])

const makeStepRow = (one: Atif.Step, model: string | undefined, times: Times): Omit<Draft, "id" | "parent"> => {
  const message = Message.toPlainText(one.message)
  const calls = one.tool_calls?.map((call) => `→ ${call.function_name}`).join(" ") ?? ""
  const loose = one.observation?.results.filter(({ source_call_id: id }) => !id) ?? []
  const error = readErrorMessage(toFields(one.extra)["error"])
  return makeDraft({
    ...times,
    kind: one.source === "agent" ? "llm" : one.source,
    name:
      one.source === "agent" ? (one.llm_call_count === 0 ? "rule" : (one.model_name ?? model ?? "model")) : one.source,
    text: toOneLine(error ?? (message || calls)),
    status: toFields(one.extra)["error"] === undefined ? "" : "error",
    model: one.model_name ?? "",
    promptTokens: one.metrics?.prompt_tokens ?? 0,
    completionTokens: one.metrics?.completion_tokens ?? 0,
    cachedTokens: one.metrics?.cached_tokens ?? 0,
    cost: one.metrics?.cost_usd ?? 0,
    details: [
      ...makeDetails("Error", error),
      ...makeDetails(one.source === "agent" ? "Answer" : "Message", message),
      ...makeDetails("Reasoning", one.reasoning_content ?? undefined),
      ...loose.flatMap(({ content }) => makeDetails("Observation", content ? Message.toPlainText(content) : undefined)),
      ...(one.metrics ? [{ title: "Metrics", text: formatJson(one.metrics) }] : []),
      ...(one.extra ? [{ title: "Extra", text: formatJson(one.extra), folded: true }] : [])
    ]
  })
}

/** Returns the start and end of an operation from its end time and its duration. */
const readEndTimes = (facts: Fields): Times => {
  const end = parseInstant(toNonEmptyText(facts["timestamp"]))
  const millis = toFiniteNumber(facts["duration_ms"]) ?? 0
  return { start: end === 0 ? 0 : end - millis, end }
}

/** Lists rows for the attempts that failed before a step, or instead of it. */
const listFailedAttempts = (step: Atif.Step): ReadonlyArray<Omit<Draft, "id" | "parent">> =>
  toItems(toFields(step.extra)["retries"])
    .map(toFields)
    .map((facts) => {
      const model = toNonEmptyText(facts["model"]) ?? "model"
      return makeDraft({
        ...readEndTimes(facts),
        kind: "llm",
        name: model,
        model,
        status: "error",
        text: toOneLine(readErrorMessage(facts["error"]) ?? toNonEmptyText(facts["status"]) ?? ""),
        details: [{ title: "Attempt", text: formatJson(facts) }]
      })
    })

/** Lists rows for side tasks, such as titles and judgements. Models perform them outside the conversation. */
const listSideTasks = (trajectory: Atif.Trajectory): ReadonlyArray<Omit<Draft, "id" | "parent">> =>
  toItems(toFields(trajectory.extra)["side_tasks"])
    .map(toFields)
    .map((facts) => {
      const metrics = toFields(facts["metrics"])
      return makeDraft({
        ...readEndTimes(facts),
        kind: "llm",
        name: toNonEmptyText(facts["model"]) ?? "model",
        model: toNonEmptyText(facts["model"]) ?? "",
        task: toNonEmptyText(facts["task"]) ?? "side task",
        text: toOneLine(readErrorMessage(facts["error"]) ?? ""),
        status: toNonEmptyText(facts["status"]) === "answered" ? "ok" : "error",
        promptTokens: toFiniteNumber(metrics["prompt_tokens"]) ?? 0,
        completionTokens: toFiniteNumber(metrics["completion_tokens"]) ?? 0,
        cachedTokens: toFiniteNumber(metrics["cached_tokens"]) ?? 0,
        cost: toFiniteNumber(metrics["cost_usd"]) ?? 0,
        details: [{ title: "Side task", text: formatJson(facts) }]
      })
    })

/** State of building the rows of a document: the rows built so far. */
interface RowBuild {
  readonly drafts: Array<Draft>
  /** True while copied context is being read. */
  isCopied: boolean
}

/** State of building the rows of one trajectory. */
interface AgentRows {
  readonly agent: Draft
  readonly model: string | undefined
  /** Sub-agents that no result has referred to yet. */
  readonly children: Map<string, Atif.Trajectory>
  /** Rows of the calls so far. A call made by a tool is below the row of the tool's call. */
  readonly tools: Map<string, Draft>
  last: number
}

const addRow = ({ drafts, isCopied }: RowBuild, row: Omit<Draft, "id" | "parent">, parent: number): Draft => {
  const made: Draft = { ...row, id: drafts.length, parent, ...(isCopied ? { copied: true } : {}) }
  drafts.push(made)
  return made
}

/** Extends the time range of an agent to include the given times. */
const extendTimes = (rows: AgentRows, times: Times): void => {
  const { agent } = rows
  if (times.start > 0 && (agent.start === 0 || times.start < agent.start)) agent.start = times.start
  rows.last = Math.max(rows.last, times.end)
  agent.end = rows.last
}

const formatAgentName = (trajectory: Atif.Trajectory): string => {
  const prompt = trajectory.steps.find(({ source }) => source === "user")?.message ?? ""
  const goal = toNonEmptyText(toFields(trajectory.extra)["goal"]) ?? toNonEmptyText(Message.toPlainText(prompt).trim())
  return goal === undefined
    ? (trajectory.session_id ?? trajectory.trajectory_id ?? trajectory.agent.name)
    : toOneLine(goal)
}

const makeAgentRow = (trajectory: Atif.Trajectory): Omit<Draft, "id" | "parent"> => {
  const { tool_definitions: definitions, ...facts } = trajectory.agent
  return makeDraft({
    kind: "agent",
    name: formatAgentName(trajectory),
    status: toNonEmptyText(toFields(trajectory.extra)["status"]) ?? "",
    model: facts.model_name ?? "",
    text: trajectory.session_id ?? trajectory.agent.name,
    details: [
      ...(trajectory.final_metrics ? [{ title: "Totals", text: formatJson(trajectory.final_metrics) }] : []),
      { title: "Agent", text: formatJson(facts) },
      ...(definitions
        ? [{ title: `Tool definitions (${definitions.length})`, text: formatJson(definitions), folded: true }]
        : [])
    ]
  })
}

/** Adds the rows of a step's calls, and returns them by the id of their call. */
const addCalls = (
  build: RowBuild,
  rows: AgentRows,
  { tool_calls: calls }: Atif.Step,
  parent: number,
  at: number
): ReadonlyMap<string, Draft> => {
  const placed = new Map<string, Draft>()
  for (const call of calls ?? []) {
    const during = readInvocation(call.extra, at)
    const row = addRow(
      build,
      makeDraft({
        ...during,
        kind: "tool",
        name: call.function_name,
        text: toOneLine(JSON.stringify(call.arguments)),
        details: [{ title: "Arguments", text: formatJson(call.arguments) }]
      }),
      parent
    )
    placed.set(call.tool_call_id, row)
    rows.tools.set(call.tool_call_id, row)
    extendTimes(rows, during)
  }
  return placed
}

/** Adds a result to the row of its call, and the call's approval below that row. */
const addResult = (build: RowBuild, tool: Draft, result: Atif.ObservationResult): void => {
  const extra = toFields(result.extra)
  const output = result.content ? Message.toPlainText(result.content) : ""
  const ended = describeToolEnding(
    toNonEmptyText(extra["status"]) ?? "ok",
    output,
    readErrorMessage(extra["error"]) ?? toNonEmptyText(extra["error_message"])
  )
  tool.status = ended.status
  tool.text = ended.error ?? tool.text
  const changes = toItems(extra["changes"])
    .map((change) => toNonEmptyText(toFields(change)["diff"]) ?? "")
    .join("")
  tool.details = [
    ...makeDetails("Result", output),
    ...makeDetails("Changed files", changes),
    ...tool.details,
    ...(result.extra ? [{ title: "Extra", text: formatJson(result.extra), folded: true }] : [])
  ]
  const approval = toFields(extra["approval"])
  const choice = toNonEmptyText(approval["choice"])
  if (choice === undefined) return
  addRow(
    build,
    makeDraft({
      kind: "approval",
      name: "approval",
      status: choice,
      start: tool.start,
      end: tool.start,
      details: [{ title: "Approval", text: formatJson(approval) }]
    }),
    tool.id
  )
}

const addStep = (build: RowBuild, rows: AgentRows, one: Atif.Step): void => {
  const { agent, children, model, tools } = rows
  const times = readInvocation(one.extra, parseInstant(one.timestamp) || rows.last)
  const maker =
    one.llm_call_count === 0
      ? tools.get(toNonEmptyText(toFields(one.tool_calls?.[0]?.extra)["parent_call_id"]) ?? "")
      : undefined
  const step = maker ?? addRow(build, makeStepRow(one, model, times), agent.id)
  extendTimes(rows, times)
  for (const attempt of listFailedAttempts(one)) extendTimes(rows, addRow(build, attempt, step.id))
  const placed = addCalls(build, rows, one, (maker ?? agent).id, times.end)
  for (const result of one.observation?.results ?? []) {
    const tool = placed.get(result.source_call_id ?? "")
    if (tool !== undefined) addResult(build, tool, result)
    for (const ref of result.subagent_trajectory_ref ?? []) {
      const child = children.get(ref.trajectory_id ?? "")
      children.delete(ref.trajectory_id ?? "")
      if (child !== undefined) extendTimes(rows, addTrajectory(build, child, (tool ?? step).id))
    }
  }
}

/** Adds the model calls of a side task below the call that requested it. */
const addSideTask = (build: RowBuild, trajectory: Atif.Trajectory, task: string, parent: number): Times => {
  const model = trajectory.agent.model_name ?? undefined
  const all: Times = { start: 0, end: 0 }
  let { end, start } = all
  for (const one of trajectory.steps) {
    const times = readInvocation(one.extra, parseInstant(one.timestamp) || end)
    const row = one.source === "agent" ? addRow(build, { ...makeStepRow(one, model, times), task }, parent) : undefined
    for (const attempt of listFailedAttempts(one)) addRow(build, { ...attempt, task }, row?.id ?? parent)
    start = start === 0 ? times.start : Math.min(start, times.start)
    end = Math.max(end, times.end)
  }
  return { start, end }
}

const addTrajectory = (build: RowBuild, trajectory: Atif.Trajectory, parent: number): Times => {
  const task = toNonEmptyText(toFields(trajectory.extra)["side_task"])
  if (task !== undefined) return addSideTask(build, trajectory, task, parent)
  const within = build.isCopied
  const children = new Map(trajectory.subagent_trajectories?.map((child) => [child.trajectory_id ?? "", child]))
  const agent = addRow(build, makeAgentRow(trajectory), parent)
  const model = trajectory.agent.model_name ?? undefined
  const rows: AgentRows = { agent, model, children, tools: new Map(), last: 0 }
  for (const one of trajectory.steps) {
    build.isCopied = within || one.is_copied_context === true
    addStep(build, rows, one)
  }
  build.isCopied = within
  for (const child of children.values()) extendTimes(rows, addTrajectory(build, child, agent.id))
  for (const task of listSideTasks(trajectory)) extendTimes(rows, addRow(build, task, agent.id))
  return { start: agent.start, end: agent.end }
}

/** Builds the rows of a trajectory, including its sub-agents. */
export const buildRows = (document: Atif.Trajectory): ReadonlyArray<Row> => {
  const build: RowBuild = { drafts: [], isCopied: false }
  addTrajectory(build, document, -1)
  return arrangeRows(build.drafts)
}
