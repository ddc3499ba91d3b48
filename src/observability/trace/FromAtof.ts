/** Rows of a stream of ATOF events. */
import * as Answer from "../atif/Answer.ts"
import * as Message from "../atif/Message.ts"
import { ending } from "../atif/Scope.ts"
import { fields, text } from "../atif/Value.ts"
import { type Event, type MarkEvent, micros, type ScopeEvent } from "../Atof.ts"
import type { Pool } from "./Pool.ts"
import { type Detail, type Draft, draft, type Kind, oneLine, place, type Row } from "./Row.ts"

const at = (event: Event): number => micros(event.timestamp) / 1000

const pretty = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? ""

const detail = (title: string, value: unknown): ReadonlyArray<Detail> =>
  value === null || value === undefined ? [] : [{ title, text: pretty(value) }]

const kinds: Readonly<Record<string, Kind>> = { agent: "agent", llm: "llm", tool: "tool" }

/** Splits the messages off a request; each goes to the pool, which keeps repeated ones once. */
const request = (value: unknown, pool: Pool): ReadonlyArray<Detail> => {
  const { messages, ...rest } = fields(value)
  return Array.isArray(messages)
    ? [{ title: "Request", text: pretty(rest) }, { title: "Messages", text: "", parts: messages.map((one) => pool.add(pretty(one))) }]
    : detail("Request", value)
}

const opened = (event: ScopeEvent, parent: number, id: number, pool: Pool): Draft => {
  const meta = fields(event.metadata)
  const kind = kinds[event.category] ?? "mark"
  return draft({
    id, parent, kind,
    name: kind === "agent" ? oneLine(text(meta["child_goal"]) ?? text(meta["session_id"]) ?? event.name) : text(meta["side_task"]) ?? event.name,
    text: kind === "tool" ? oneLine(JSON.stringify(event.data ?? {})) : "",
    start: at(event),
    end: at(event),
    status: "open",
    model: text(event.category_profile?.["model_name"]) ?? "",
    details: event.category === "llm" ? request(event.data, pool) : detail(kind === "tool" ? "Arguments" : "Input", event.data)
  })
}

const closed = (row: Draft, event: ScopeEvent): void => {
  const { error, status } = ending(event)
  row.end = at(event)
  row.status = status ?? "ok"
  row.details = [
    ...row.details,
    ...detail(row.kind === "llm" ? "Response" : "Result", event.data),
    ...detail("Error", error),
    ...detail("Metadata", event.metadata)
  ]
  if (event.category !== "llm") return
  const answer = Answer.read(event.data)
  row.model = text(event.category_profile?.["model_name"]) ?? answer.model ?? row.model
  row.text = oneLine(Answer.textOf(answer) || answer.calls.map(({ name }) => `→ ${name}`).join(" ") || (error ?? ""))
  row.promptTokens = answer.metrics?.prompt_tokens ?? 0
  row.completionTokens = answer.metrics?.completion_tokens ?? 0
  row.cachedTokens = answer.metrics?.cached_tokens ?? 0
  row.cost = answer.metrics?.cost_usd ?? 0
}

const marked = (event: MarkEvent, parent: number, id: number): Draft => {
  const meta = fields(event.metadata)
  const prompt = event.name === "hermes.turn.start" ? Message.content(meta["user_message"]) : undefined
  const details = [...detail("Data", event.data), ...detail("Metadata", event.metadata)]
  const common = { id, parent, start: at(event), end: at(event), details }
  if (prompt !== undefined) {
    return draft({ ...common, kind: "user", name: "user", text: oneLine(Message.plain(prompt)), details: [...detail("Message", Message.plain(prompt)), ...details] })
  }
  return event.name.startsWith("hermes.approval.")
    ? draft({ ...common, kind: "approval", name: event.name.slice(7), text: oneLine(text(meta["command"]) ?? ""), status: text(meta["choice"]) ?? "" })
    : draft({ ...common, kind: "mark", name: event.name, text: oneLine(text(meta["reason"]) ?? text(meta["child_goal"]) ?? "") })
}

/** Builds the rows of events, which must be in order of time. Scopes without an end last until the last event. */
export const rows = (events: ReadonlyArray<Event>, pool: Pool): ReadonlyArray<Row> => {
  const drafts: Array<Draft> = []
  const scopes = new Map<string, Draft>()
  const parentOf = (event: Event): number => scopes.get(event.parent_uuid ?? "")?.id ?? -1
  for (const event of events) {
    if (event.kind === "mark") {
      drafts.push(marked(event, parentOf(event), drafts.length))
    } else if (event.scope_category === "start") {
      const row = opened(event, parentOf(event), drafts.length, pool)
      scopes.set(event.uuid, row)
      drafts.push(row)
    } else {
      const row = scopes.get(event.uuid)
      if (row !== undefined) closed(row, event)
    }
  }
  const last = events.at(-1)
  if (last !== undefined) for (const row of scopes.values()) if (row.status === "open") row.end = at(last)
  return place(drafts)
}
