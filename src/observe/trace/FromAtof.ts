/** Rows of a stream of ATOF events. */
import * as Answer from "../atif/Answer.ts"
import * as Message from "../atif/Message.ts"
import { readEnding } from "../atif/Scope.ts"
import { toFields, toNonEmptyText } from "../atif/Value.ts"
import * as SideScopes from "../atof/SideScopes.ts"
import { type Event, type MarkEvent, toMicros, type ScopeEvent } from "../Atof.ts"
import type { Pool } from "./Pool.ts"
import { type Detail, type Draft, makeDraft, isFailed, type Kind, toOneLine, arrangeRows, type Row } from "./Row.ts"
import { describeToolEnding } from "./ToolEnding.ts"

const toMillis = (event: Event): number => toMicros(event.timestamp) / 1000

const formatPretty = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")

const makeDetail = (title: string, value: unknown): ReadonlyArray<Detail> =>
  value === null || value === undefined ? [] : [{ title, text: formatPretty(value) }]

const kinds: Readonly<Record<string, Kind>> = { agent: "agent", llm: "llm", tool: "tool" }

const makeFoldedDetail = (title: string, value: unknown): ReadonlyArray<Detail> =>
  makeDetail(title, value).map((one) => ({ ...one, folded: true }))

/**
 * Separates the messages and tools of a request. Each message is added to the pool, which stores repeated messages
 * once.
 */
const makeRequestDetails = (value: unknown, pool: Pool): ReadonlyArray<Detail> => {
  const { messages, tools, ...rest } = toFields(value)
  return Array.isArray(messages)
    ? [
        { title: "Messages", text: "", parts: messages.map((one) => pool.add(formatPretty(one))) },
        ...makeDetail("Request", rest),
        ...makeFoldedDetail(`Tool definitions${Array.isArray(tools) ? ` (${tools.length})` : ""}`, tools)
      ]
    : makeDetail("Request", value)
}

const readModel = (event: ScopeEvent): string | undefined =>
  toNonEmptyText(event.category_profile?.["model_name"]) ?? toNonEmptyText(toFields(event.data)["model"])

const readName = (event: ScopeEvent, kind: Kind): string => {
  const meta = toFields(event.metadata)
  switch (kind) {
    case "agent":
      return toOneLine(toNonEmptyText(meta["child_goal"]) ?? toNonEmptyText(meta["session_id"]) ?? event.name)
    case "llm":
      return readModel(event) ?? event.name
    default:
      return event.name
  }
}

const makeScopeRow = (event: ScopeEvent, parent: number, id: number, pool: Pool): Draft => {
  const meta = toFields(event.metadata)
  const kind = kinds[event.category] ?? "mark"
  return makeDraft({
    id,
    parent,
    kind,
    name: readName(event, kind),
    text:
      kind === "tool"
        ? toOneLine(JSON.stringify(event.data ?? {}))
        : kind === "agent"
          ? (toNonEmptyText(meta["session_id"]) ?? "")
          : "",
    start: toMillis(event),
    end: toMillis(event),
    status: "open",
    model: kind === "llm" ? (readModel(event) ?? "") : "",
    task: toNonEmptyText(meta["side_task"]) ?? "",
    details:
      event.category === "llm"
        ? makeRequestDetails(event.data, pool)
        : makeDetail(kind === "tool" ? "Arguments" : "Input", event.data)
  })
}

/** Adds the answer of a model to a row, first in readable form and then in its original form. */
const fillAnswer = (row: Draft, event: ScopeEvent, error: string | undefined): void => {
  const answer = Answer.readAnswer(event.data)
  const said = Answer.getAnswerText(answer)
  row.model = readModel(event) ?? answer.model ?? row.model
  row.name = row.model || row.name
  row.text = toOneLine(isFailed(row) ? (error ?? said) : said || answer.calls.map(({ name }) => `→ ${name}`).join(" "))
  row.promptTokens = answer.metrics?.prompt_tokens ?? 0
  row.completionTokens = answer.metrics?.completion_tokens ?? 0
  row.cachedTokens = answer.metrics?.cached_tokens ?? 0
  row.cost = answer.metrics?.cost_usd ?? 0
  row.details = [
    ...makeDetail("Error", error),
    ...makeDetail("Answer", said || undefined),
    ...makeDetail("Reasoning", answer.reasoning),
    ...answer.calls.flatMap(({ args, name }) => makeDetail(`Calls ${name}`, args)),
    ...row.details,
    ...makeFoldedDetail("Response", event.data),
    ...makeFoldedDetail("Metadata", event.metadata)
  ]
}

const readErrorMessage = (error: unknown): string | undefined =>
  toNonEmptyText(error) ?? toNonEmptyText(toFields(error)["message"])

const closeRow = (row: Draft, event: ScopeEvent): void => {
  const { error: named, status = "ok" } = readEnding(event)
  // Other writers store the error in other fields.
  const error =
    named ??
    (isFailed({ status })
      ? (readErrorMessage(toFields(event.metadata)["error"]) ?? readErrorMessage(toFields(event.data)["error"]))
      : undefined)
  row.end = toMillis(event)
  row.status = status
  if (row.kind === "llm") return fillAnswer(row, event, error)
  const ended =
    row.kind === "tool" ? describeToolEnding(status, formatPretty(event.data ?? ""), error) : { status, error }
  row.status = ended.status
  row.text = ended.error ?? row.text
  row.details = [
    ...makeDetail("Error", error),
    ...makeDetail("Result", event.data),
    ...row.details,
    ...makeFoldedDetail("Metadata", event.metadata)
  ]
}

const makeMarkRow = (event: MarkEvent, parent: number, id: number): Draft => {
  const meta = toFields(event.metadata)
  const prompt = event.name === "hermes.turn.start" ? Message.readContent(meta["user_message"]) : undefined
  const details = [...makeDetail("Data", event.data), ...makeDetail("Metadata", event.metadata)]
  const common = { id, parent, start: toMillis(event), end: toMillis(event), details }
  if (prompt !== undefined) {
    return makeDraft({
      ...common,
      kind: "user",
      name: "user",
      text: toOneLine(Message.toPlainText(prompt)),
      details: [...makeDetail("Message", Message.toPlainText(prompt)), ...details]
    })
  }
  return event.name.startsWith("hermes.approval.")
    ? makeDraft({
        ...common,
        kind: "approval",
        name: event.name.slice(7),
        text: toOneLine(toNonEmptyText(meta["command"]) ?? ""),
        status: toNonEmptyText(meta["choice"]) ?? ""
      })
    : makeDraft({
        ...common,
        kind: "mark",
        name: event.name,
        text: toOneLine(toNonEmptyText(meta["reason"]) ?? toNonEmptyText(meta["child_goal"]) ?? "")
      })
}

/**
 * Creates a tracker of failed attempts. For each agent, it keeps the attempts that failed since the agent's last answer
 * or call.
 */
const makeRetryTracker = () => {
  const failed = new Map<string, Array<Draft>>()
  const formatRetryKey = ({ parent, task }: Draft): string => `${parent} ${task}`
  return {
    /** Starts a new attempt, and moves the earlier failed attempts below it. */
    open: (row: Draft): void => {
      for (const one of row.kind === "llm" ? (failed.get(formatRetryKey(row)) ?? []) : []) one.parent = row.id
      if (row.kind === "tool") failed.delete(formatRetryKey(row))
    },
    close: (row: Draft): void => {
      const before = failed.get(formatRetryKey(row)) ?? []
      if (row.kind !== "llm" || !isFailed(row)) failed.delete(formatRetryKey(row))
      else failed.set(formatRetryKey(row), [...before, row])
    }
  }
}

/** Converts the mark of a side task without a call to the event of a scope. Returns `undefined` for other marks. */
const toSideTaskEvent = (event: MarkEvent): ScopeEvent | undefined => {
  const isStart = event.name === SideScopes.markNames.start
  const meta = toFields(event.metadata)
  const id = toNonEmptyText(meta["api_request_id"])
  if (id === undefined || (!isStart && event.name !== SideScopes.markNames.end)) return undefined
  const { request, response, ...metadata } = meta
  const { attributes: _, ...rest } = event
  return {
    ...rest,
    kind: "scope",
    category: "llm",
    uuid: `side task ${id}`,
    scope_category: isStart ? "start" : "end",
    metadata: Object.fromEntries(
      Object.entries(metadata).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))
    ),
    data: (isStart ? request : response) ?? null
  }
}

/** Tests whether an event is of the scope around the model calls of a side task. */
const isSideScope = (event: ScopeEvent): boolean =>
  event.category === "agent" && toNonEmptyText(event.metadata?.["side_task"]) !== undefined

/**
 * Builds the rows of events, which must be in chronological order. Scopes without an end last until the last event. A
 * root agent is named by its first prompt. Retried attempts of a model call are below the last attempt.
 */
export const buildRows = (events: ReadonlyArray<Event>, pool: Pool): ReadonlyArray<Row> => {
  const drafts: Array<Draft> = []
  const scopes = new Map<string, Draft>()
  const asked = new Set<number>()
  const attempts = makeRetryTracker()
  const findParentId = (event: Event): number => scopes.get(event.parent_uuid ?? "")?.id ?? -1
  for (const one of events) {
    const event = one.kind === "mark" ? (toSideTaskEvent(one) ?? one) : one
    if (event.kind === "scope" && isSideScope(event)) {
      // The model calls of the task are shown below the call that requested it.
      const within = scopes.get(event.parent_uuid ?? "")
      if (within !== undefined) scopes.set(event.uuid, within)
    } else if (event.kind === "mark") {
      const row = makeMarkRow(event, findParentId(event), drafts.length)
      const agent = drafts[row.parent]
      if (
        row.kind === "user" &&
        agent?.kind === "agent" &&
        agent.parent < 0 &&
        row.text !== "" &&
        !asked.has(agent.id)
      ) {
        asked.add(agent.id)
        agent.name = row.text
      }
      drafts.push(row)
    } else if (event.scope_category === "start") {
      const row = makeScopeRow(event, findParentId(event), drafts.length, pool)
      scopes.set(event.uuid, row)
      attempts.open(row)
      drafts.push(row)
    } else {
      const row = scopes.get(event.uuid)
      if (row === undefined) continue
      closeRow(row, event)
      attempts.close(row)
    }
  }
  const last = events.at(-1)
  if (last !== undefined) for (const row of scopes.values()) if (row.status === "open") row.end = toMillis(last)
  return arrangeRows(drafts)
}
