/**
 * Facts about a session for lists and totals, collected from its record: runs, model calls, tool calls, children,
 * scores and notes. Each entry of the record is read once.
 *
 * **Details**
 *
 * Text is stored as single lines without secrets. Times are in epoch milliseconds. A duration is `undefined` while a
 * run or call is active, and for a call whose process was killed.
 */
import * as Predicate from "effect/Predicate"
import * as CacheMisses from "../../base/domain/CacheMisses.ts"
import type { Status } from "../../base/domain/Cost.ts"
import type { Entry, Kind, MiddlewareHealth, RecordEvent } from "../../base/domain/RecordEvent.ts"
import { toOneLine } from "../trace/Row.ts"
import type { Note, ReplaySource, Score, Tokens, Totals } from "./StudioApi.ts"

/** Kinds of entries that the facts are built from. */
export const kinds: ReadonlyArray<Kind> = [
  "RunStarted",
  "RunEnded",
  "AttemptStarted",
  "AttemptEnded",
  "CallStarted",
  "CallEnded",
  "ChildStarted",
  "ChildEnded",
  "Gap",
  "ReplayBegun",
  "Scored",
  "Noted"
]

/** A run of the session. */
export interface RunFacts {
  readonly id: string
  readonly startedAt: number
  readonly provider: string
  model: string
  endedAt: number | undefined
  exit: string | undefined
  failure: string | undefined
  /** Health of the middleware that the run called. */
  middleware: ReadonlyArray<MiddlewareHealth>
  /** Numbers of the run's steps. */
  readonly steps: Set<number>
}

/** A request to a model. */
export interface ModelCall {
  readonly run: string
  readonly at: number
  /** Name of the side task that made the request, or `undefined` if the agent made it. */
  readonly task: string | undefined
  model: string
  millis: number | undefined
  /** Time until the first part of the answer arrived, in milliseconds. */
  firstPart: number | undefined
  status: "open" | "answered" | "failed" | "interrupted"
  tokens: Tokens
  /** Cost in US dollars, or `undefined` if the price is unknown. */
  cost: number | undefined
  /** Status of the cost, or `undefined` until the call has ended. */
  costStatus: Status | undefined
  reason: string | undefined
  message: string | undefined
  /** The facts that decide if the call paid again for a cached prefix. */
  prompt: CacheMisses.PromptCall
}

/** A tool call. */
export interface ToolCall {
  readonly run: string
  readonly at: number
  readonly name: string
  millis: number | undefined
  status: string
  reason: string | undefined
  /** The skill that the call reads or changes. */
  readonly skill: SkillUse | undefined
}

/** A use of a skill. */
export interface SkillUse {
  readonly name: string
  readonly kind: "load" | "edit"
}

/** A sub-agent that the session started. */
export interface ChildFacts {
  readonly session: string
  readonly goal: string
  readonly role: string
}

/** Facts about one session. Its sub-agents have separate facts. */
export interface SessionFacts {
  readonly id: string
  source: string | undefined
  cwd: string | undefined
  /** Time of the first entry; 0 if it is absent. */
  startedAt: number
  activeAt: number
  /** Sequence number of the last entry that the facts include. */
  sequence: number
  lost: number
  replayOf: ReplaySource | undefined
  readonly runs: Map<string, RunFacts>
  readonly modelCalls: Array<ModelCall>
  readonly toolCalls: Array<ToolCall>
  readonly children: Array<ChildFacts>
  readonly scores: Map<string, Score>
  readonly notes: Array<Note>
  /** Calls without an end, by id. */
  readonly open: Map<string, ModelCall | ToolCall>
}

/** Token counts that are all zero. */
export const noTokens: Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }

/** Adds token counts field by field. */
export const addTokens = (a: Tokens, b: Tokens): Tokens => ({
  input: a.input + b.input,
  output: a.output + b.output,
  cacheRead: a.cacheRead + b.cacheRead,
  cacheWrite: a.cacheWrite + b.cacheWrite,
  reasoning: a.reasoning + b.reasoning
})

/**
 * Adds amounts in US dollars and rounds the sum to 12 decimal places, because binary fractions cannot represent it
 * exactly.
 */
export const addCost = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.round((a + b) * 1e12) / 1e12

/** Counts all tokens that were read or written. */
export const countTokens = ({ cacheRead, cacheWrite, input, output }: Tokens): number =>
  input + cacheRead + cacheWrite + output

/** Creates the facts of a session without entries. */
export const make = (id: string): SessionFacts => ({
  id,
  source: undefined,
  cwd: undefined,
  startedAt: 0,
  activeAt: 0,
  sequence: 0,
  lost: 0,
  replayOf: undefined,
  runs: new Map(),
  modelCalls: [],
  toolCalls: [],
  children: [],
  scores: new Map(),
  notes: [],
  open: new Map()
})

const getRun = (facts: SessionFacts, { at, turnId }: Entry): RunFacts => {
  const known = facts.runs.get(turnId)
  if (known !== undefined) return known
  const made: RunFacts = {
    id: turnId,
    startedAt: at,
    provider: "",
    model: "",
    endedAt: undefined,
    exit: undefined,
    failure: undefined,
    middleware: [],
    steps: new Set()
  }
  facts.runs.set(turnId, made)
  return made
}

/**
 * Returns the skill that a call of `skill_view` or `skill_manage` uses. Calls for additional files of a skill are
 * ignored.
 */
const findSkillUse = (tool: string, args: unknown): SkillUse | undefined => {
  if (!Predicate.isObject(args) || typeof args["name"] !== "string") return undefined
  const name = toOneLine(args["name"])
  if (tool === "skill_view") return typeof args["file_path"] === "string" ? undefined : { name, kind: "load" }
  return tool === "skill_manage" ? { name, kind: "edit" } : undefined
}

type TaggedEvent<Tag extends Kind> = Extract<RecordEvent, { readonly _tag: Tag }>

/** Function that removes secrets from a string. */
type Clean = (text: string) => string

const cleanLine = (text: string, clean: Clean): string => toOneLine(clean(text))

const startAttempt = (facts: SessionFacts, entry: Entry, event: TaggedEvent<"AttemptStarted">): void => {
  const call: ModelCall = {
    run: entry.turnId,
    at: entry.at,
    task: event.task,
    model: event.route.model,
    millis: undefined,
    firstPart: undefined,
    status: "open",
    tokens: noTokens,
    cost: undefined,
    costStatus: undefined,
    reason: undefined,
    message: undefined,
    prompt: CacheMisses.beginCall(entry.at, event)
  }
  facts.modelCalls.push(call)
  facts.open.set(`attempt ${event.apiRequestId}`, call)
  if (event.task === undefined) getRun(facts, entry).steps.add(event.step)
}

const endAttempt = (facts: SessionFacts, at: number, event: TaggedEvent<"AttemptEnded">, clean: Clean): void => {
  const call = facts.open.get(`attempt ${event.apiRequestId}`)
  if (call === undefined || !("tokens" in call)) return
  facts.open.delete(`attempt ${event.apiRequestId}`)
  const { cost, failure, firstPartAt, usage } = event
  call.prompt = CacheMisses.endCall(call.prompt, at, event)
  call.status = event.status
  call.millis = at - call.at
  call.firstPart = firstPartAt === undefined ? undefined : firstPartAt - call.at
  call.model = event.model ?? call.model
  call.costStatus = cost?.status
  call.cost = cost === undefined || cost.usd === null || cost.status === "unknown" ? undefined : cost.usd
  call.reason = failure?.reason ?? failure?.type
  call.message = failure === undefined ? undefined : cleanLine(failure.message, clean)
  if (usage === undefined) return
  call.tokens = {
    input: usage.inputTokens,
    output: usage.outputTokens,
    cacheRead: usage.cacheReadTokens,
    cacheWrite: usage.cacheWriteTokens,
    reasoning: usage.reasoningTokens
  }
}

const makeToolCall = ({ at, turnId }: Entry, name: string, skill: SkillUse | undefined): ToolCall => ({
  run: turnId,
  at,
  name,
  millis: undefined,
  status: "open",
  reason: undefined,
  skill
})

const startCall = (facts: SessionFacts, entry: Entry, event: TaggedEvent<"CallStarted">): void => {
  const call = makeToolCall(entry, event.name, findSkillUse(event.name, event.args))
  facts.toolCalls.push(call)
  facts.open.set(`call ${event.callId}`, call)
}

const endCall = (facts: SessionFacts, entry: Entry, event: TaggedEvent<"CallEnded">): void => {
  const known = facts.open.get(`call ${event.callId}`)
  facts.open.delete(`call ${event.callId}`)
  const call = known !== undefined && !("tokens" in known) ? known : makeToolCall(entry, event.name, undefined)
  if (call !== known) facts.toolCalls.push(call)
  call.millis = event.ran ? event.durationMillis : undefined
  call.status = event.status
  call.reason = event.reason
}

const addScore = (facts: SessionFacts, at: number, event: TaggedEvent<"Scored">, clean: Clean): void => {
  const { comment, name, run, value } = event
  const key = `${run ?? ""} ${name}`
  facts.scores.delete(key)
  if (value === null) return
  facts.scores.set(key, {
    name: cleanLine(name, clean),
    value,
    at,
    ...(run === undefined ? {} : { run }),
    ...(comment === undefined ? {} : { comment: clean(comment) })
  })
}

const addNote = (facts: SessionFacts, at: number, event: TaggedEvent<"Noted">, clean: Clean): void => {
  const { position, run, text } = event
  facts.notes.push({
    text: clean(text),
    at,
    ...(run === undefined ? {} : { run }),
    ...(position === undefined ? {} : { position })
  })
}

const startRun = (facts: SessionFacts, entry: Entry, event: TaggedEvent<"RunStarted">, clean: Clean): void => {
  facts.runs.set(entry.turnId, { ...getRun(facts, entry), provider: event.provider, model: event.model })
  facts.source ??= event.source
  facts.cwd = clean(event.cwd)
}

const endRun = (facts: SessionFacts, entry: Entry, event: TaggedEvent<"RunEnded">, clean: Clean): void => {
  const run = getRun(facts, entry)
  run.endedAt = entry.at
  run.exit = event.exit
  run.middleware = event.middleware ?? []
  run.failure = event.failure === undefined ? undefined : cleanLine(event.failure.message, clean)
}

/** Adds an entry. `clean` removes secrets from a string. */
export const addEntry = (facts: SessionFacts, sequence: number, entry: Entry, clean: Clean): void => {
  const { at, event } = entry
  facts.sequence = sequence
  if (facts.startedAt === 0) facts.startedAt = at
  facts.activeAt = Math.max(facts.activeAt, at)
  switch (event._tag) {
    case "RunStarted":
      return startRun(facts, entry, event, clean)
    case "RunEnded":
      return endRun(facts, entry, event, clean)
    case "AttemptStarted":
      return startAttempt(facts, entry, event)
    case "AttemptEnded":
      return endAttempt(facts, at, event, clean)
    case "CallStarted":
      return startCall(facts, entry, event)
    case "CallEnded":
      return endCall(facts, entry, event)
    case "ChildStarted":
      facts.children.push({ session: event.sessionId, goal: cleanLine(event.goal, clean), role: event.role })
      return
    case "Gap":
      facts.lost += event.entries
      return
    case "ReplayBegun":
      facts.replayOf = { session: event.source, position: event.position, changed: event.changed }
      return
    case "Scored":
      return addScore(facts, at, event, clean)
    case "Noted":
      return addNote(facts, at, event, clean)
  }
}

/** Tests whether a tool call failed or was not allowed. */
export const hasFailed = ({ status }: ToolCall): boolean => status === "error" || status === "blocked"

/** Adds up runs, model calls and tool calls. */
export const sumTotals = (
  runs: ReadonlyArray<RunFacts>,
  modelCalls: ReadonlyArray<ModelCall>,
  toolCalls: ReadonlyArray<ToolCall>
): Totals => {
  let tokens = noTokens
  let cost: number | undefined
  let unpriced = 0
  let errors = toolCalls.filter(hasFailed).length + runs.filter(({ exit }) => exit === "failed").length
  for (const call of modelCalls) {
    tokens = addTokens(tokens, call.tokens)
    if (call.cost !== undefined) cost = addCost(cost, call.cost)
    else if (countTokens(call.tokens) > 0) unpriced++
    if (call.status === "failed") errors++
  }
  return {
    runs: runs.length,
    steps: runs.reduce((sum, { steps }) => sum + steps.size, 0),
    modelCalls: modelCalls.length,
    toolCalls: toolCalls.length,
    tokens,
    cost,
    unpriced,
    errors
  }
}

/** Sums the cache misses of several sessions by reason, most tokens first. */
export const sumMisses = (
  sessions: ReadonlyArray<ReadonlyArray<Pick<ModelCall, "prompt">>>
): ReadonlyArray<CacheMisses.MissSum> =>
  CacheMisses.sumMisses(sessions.map((calls) => calls.map(({ prompt }) => prompt)))
