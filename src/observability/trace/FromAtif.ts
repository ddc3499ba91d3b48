/** Rows of an ATIF trajectory. Calls without times of their own get the time of their step. */
import type * as Atif from "../Atif.ts"
import * as Message from "../atif/Message.ts"
import { type Fields, fields, items, number, text } from "../atif/Value.ts"
import { type Detail, type Draft, draft, oneLine, place, type Row } from "./Row.ts"
import { toolEnding } from "./ToolEnding.ts"

const pretty = (value: unknown): string => JSON.stringify(value, null, 2) ?? ""

const said = (title: string, content: string | undefined): ReadonlyArray<Detail> => content ? [{ title, text: content }] : []

interface Times {
  readonly start: number
  readonly end: number
}

const invocation = (extra: unknown, otherwise: number): Times => {
  const one = fields(fields(extra)["invocation"])
  const start = number(one["start_timestamp"])
  const end = number(one["end_timestamp"])
  return start === undefined || end === undefined ? { start: otherwise, end: otherwise } : { start: start * 1000, end: end * 1000 }
}

const instant = (timestamp: string | null | undefined): number => {
  const at = Date.parse(timestamp ?? "")
  return Number.isNaN(at) ? 0 : at
}

/** Message of an error, which is a text or has one. */
const errorOf = (value: unknown): string | undefined => text(value) ?? text(fields(value)["message"])

const stepRow = (one: Atif.Step, model: string | undefined, times: Times): Omit<Draft, "id" | "parent"> => {
  const message = Message.plain(one.message)
  const calls = one.tool_calls?.map((call) => `→ ${call.function_name}`).join(" ") ?? ""
  const loose = one.observation?.results.filter(({ source_call_id: id }) => !id) ?? []
  const error = errorOf(fields(one.extra)["error"])
  return draft({
    ...times,
    kind: one.source === "agent" ? "llm" : one.source,
    name: one.source === "agent" ? one.llm_call_count === 0 ? "rule" : one.model_name ?? model ?? "model" : one.source,
    text: oneLine(error ?? (message || calls)),
    status: fields(one.extra)["error"] === undefined ? "" : "error",
    model: one.model_name ?? "",
    promptTokens: one.metrics?.prompt_tokens ?? 0,
    completionTokens: one.metrics?.completion_tokens ?? 0,
    cachedTokens: one.metrics?.cached_tokens ?? 0,
    cost: one.metrics?.cost_usd ?? 0,
    details: [
      ...said("Error", error),
      ...said(one.source === "agent" ? "Answer" : "Message", message),
      ...said("Reasoning", one.reasoning_content ?? undefined),
      ...loose.flatMap(({ content }) => said("Observation", content ? Message.plain(content) : undefined)),
      ...(one.metrics ? [{ title: "Metrics", text: pretty(one.metrics) }] : []),
      ...(one.extra ? [{ title: "Extra", text: pretty(one.extra), folded: true }] : [])
    ]
  })
}

/** Times of something that says when it ended and how long it took. */
const ended = (facts: Fields): Times => {
  const end = instant(text(facts["timestamp"]))
  const millis = number(facts["duration_ms"]) ?? 0
  return { start: end === 0 ? 0 : end - millis, end }
}

/** Rows of the attempts that failed before a step, or instead of it. */
const failedAttempts = (step: Atif.Step): ReadonlyArray<Omit<Draft, "id" | "parent">> =>
  items(fields(step.extra)["retries"]).map(fields).map((facts) => {
    const model = text(facts["model"]) ?? "model"
    return draft({
      ...ended(facts),
      kind: "llm",
      name: model,
      model,
      status: "error",
      text: oneLine(errorOf(facts["error"]) ?? text(facts["status"]) ?? ""),
      details: [{ title: "Attempt", text: pretty(facts) }]
    })
  })

/** Rows of what models were asked beside the conversation: titles, judgements. */
const sideTasks = (trajectory: Atif.Trajectory): ReadonlyArray<Omit<Draft, "id" | "parent">> =>
  items(fields(trajectory.extra)["side_tasks"]).map(fields).map((facts) => {
    const metrics = fields(facts["metrics"])
    return draft({
      ...ended(facts),
      kind: "llm",
      name: text(facts["model"]) ?? "model",
      model: text(facts["model"]) ?? "",
      task: text(facts["task"]) ?? "side task",
      text: oneLine(errorOf(facts["error"]) ?? ""),
      status: text(facts["status"]) === "answered" ? "ok" : "error",
      promptTokens: number(metrics["prompt_tokens"]) ?? 0,
      completionTokens: number(metrics["completion_tokens"]) ?? 0,
      cachedTokens: number(metrics["cached_tokens"]) ?? 0,
      cost: number(metrics["cost_usd"]) ?? 0,
      details: [{ title: "Side task", text: pretty(facts) }]
    })
  })

/** Builds the rows of a trajectory and of its sub-agents. */
export const rows = (document: Atif.Trajectory): ReadonlyArray<Row> => {
  const drafts: Array<Draft> = []
  /** True while copied context is read. */
  let isCopied = false
  const add = (row: Omit<Draft, "id" | "parent">, parent: number): Draft => {
    const made: Draft = { ...row, id: drafts.length, parent, ...(isCopied ? { copied: true } : {}) }
    drafts.push(made)
    return made
  }
  const walk = (trajectory: Atif.Trajectory, parent: number): Times => {
    const within = isCopied
    const children = new Map(trajectory.subagent_trajectories?.map((child) => [child.trajectory_id ?? "", child]))
    const prompt = trajectory.steps.find(({ source }) => source === "user")?.message ?? ""
    const goal = text(fields(trajectory.extra)["goal"]) ?? text(Message.plain(prompt).trim())
    const name = goal === undefined ? trajectory.session_id ?? trajectory.trajectory_id ?? trajectory.agent.name : oneLine(goal)
    const { tool_definitions: definitions, ...facts } = trajectory.agent
    const agent = add(draft({ kind: "agent", name, status: text(fields(trajectory.extra)["status"]) ?? "", model: facts.model_name ?? "", text: trajectory.session_id ?? trajectory.agent.name, details: [
      ...(trajectory.final_metrics ? [{ title: "Totals", text: pretty(trajectory.final_metrics) }] : []),
      { title: "Agent", text: pretty(facts) },
      ...(definitions ? [{ title: `Tool definitions (${definitions.length})`, text: pretty(definitions), folded: true }] : [])
    ] }), parent)
    let last = 0
    const grow = (times: Times): void => {
      if (times.start > 0 && (agent.start === 0 || times.start < agent.start)) agent.start = times.start
      last = Math.max(last, times.end)
      agent.end = last
    }
    /** Calls so far, for those that their tools made. */
    const tools = new Map<string, Draft>()
    for (const one of trajectory.steps) {
      isCopied = within || one.is_copied_context === true
      const times = invocation(one.extra, instant(one.timestamp) || last)
      const maker = one.llm_call_count === 0 ? tools.get(text(fields(one.tool_calls?.[0]?.extra)["parent_call_id"]) ?? "") : undefined
      const step = maker ?? add(stepRow(one, facts.model_name ?? undefined, times), agent.id)
      grow(times)
      for (const attempt of failedAttempts(one)) grow(add(attempt, step.id))
      const placed = new Map<string, Draft>()
      for (const call of one.tool_calls ?? []) {
        const during = invocation(call.extra, times.end)
        placed.set(call.tool_call_id, add(draft({
          ...during,
          kind: "tool",
          name: call.function_name,
          text: oneLine(JSON.stringify(call.arguments)),
          details: [{ title: "Arguments", text: pretty(call.arguments) }]
        }), (maker ?? agent).id))
        const row = placed.get(call.tool_call_id)
        if (row !== undefined) tools.set(call.tool_call_id, row)
        grow(during)
      }
      for (const result of one.observation?.results ?? []) {
        const tool = placed.get(result.source_call_id ?? "")
        if (tool !== undefined) {
          const extra = fields(result.extra)
          const output = result.content ? Message.plain(result.content) : ""
          const ended = toolEnding(text(extra["status"]) ?? "ok", output, errorOf(extra["error"]) ?? text(extra["error_message"]))
          tool.status = ended.status
          tool.text = ended.error ?? tool.text
          const changes = items(extra["changes"]).map((change) => text(fields(change)["diff"]) ?? "").join("")
          tool.details = [
            ...said("Result", output),
            ...said("Changed files", changes),
            ...tool.details,
            ...(result.extra ? [{ title: "Extra", text: pretty(result.extra), folded: true }] : [])
          ]
          const approval = fields(extra["approval"])
          const choice = text(approval["choice"])
          if (choice !== undefined) add(draft({ kind: "approval", name: "approval", status: choice, start: tool.start, end: tool.start, details: [{ title: "Approval", text: pretty(approval) }] }), tool.id)
        }
        for (const ref of result.subagent_trajectory_ref ?? []) {
          const child = children.get(ref.trajectory_id ?? "")
          children.delete(ref.trajectory_id ?? "")
          if (child !== undefined) grow(walk(child, (tool ?? step).id))
        }
      }
    }
    isCopied = within
    for (const child of children.values()) grow(walk(child, agent.id))
    for (const task of sideTasks(trajectory)) grow(add(task, agent.id))
    return { start: agent.start, end: agent.end }
  }
  walk(document, -1)
  return place(drafts)
}
