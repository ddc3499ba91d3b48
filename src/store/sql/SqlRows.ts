/**
 * Conversions between rows of the tables `sessions`, `messages` and `session_model_usage` and the types of the port.
 * All SQL databases share them.
 */
import * as Cost from "../../base/domain/Cost.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Usage from "../../base/domain/Usage.ts"
import type { Role } from "../SessionSearch.ts"
import type { NewSession, Session } from "../SessionStorePort.ts"
import type { SearchText } from "../MessageText.ts"

// `sql.insert` requires records. Types are assignable to records, interfaces are not.

/** Counter columns of `sessions` and `session_model_usage`. */
type UsageColumns = {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly reasoning_tokens: number
  readonly api_call_count: number
}

/** Cost columns of `sessions` and `session_model_usage`. */
type CostColumns = {
  readonly estimated_cost_usd: number
  readonly cost_status: Cost.Status
  readonly cost_source: Cost.Source
}

/** Counters and cost of model calls. This is a type because interfaces are not assignable to records. */
export type UsageCounts = UsageColumns & CostColumns

/** A row of `sessions`. */
export type SessionRow = UsageColumns &
  CostColumns & {
    readonly id: SessionId
    readonly source: string
    readonly provider: string
    readonly model: string
    readonly parent_session_id: SessionId | null
    readonly title: string | null
    readonly cwd: string | null
    readonly branch: string | null
    readonly started_at: number
    readonly updated_at: number
    readonly ended_at: number | null
    readonly end_reason: string | null
    readonly message_count: number
    readonly tool_call_count: number
    readonly system_prompt: string
    readonly continues_session_id: SessionId | null
    readonly has_own_prompt: number
    readonly tenant: string | null
  }

/** A row of `session_model_usage`. */
export interface UsageRow extends UsageColumns, CostColumns {
  readonly provider: string
  readonly model: string
}

/** Data of a new row of `messages`. */
export interface NewMessage extends SearchText {
  readonly role: Role
  readonly envelope: string
}

/** Converts counters to columns. */
export const fromUsage = (usage: Usage.Usage): UsageColumns => ({
  input_tokens: usage.inputTokens,
  output_tokens: usage.outputTokens,
  cache_read_tokens: usage.cacheReadTokens,
  cache_write_tokens: usage.cacheWriteTokens,
  reasoning_tokens: usage.reasoningTokens,
  api_call_count: usage.requestCount
})

/** Converts columns to counters. */
export const toUsage = (row: UsageColumns): Usage.Usage => ({
  inputTokens: row.input_tokens,
  outputTokens: row.output_tokens,
  cacheReadTokens: row.cache_read_tokens,
  cacheWriteTokens: row.cache_write_tokens,
  reasoningTokens: row.reasoning_tokens,
  requestCount: row.api_call_count
})

/** Converts a cost to columns. An unknown amount becomes 0. */
export const fromCost = ({ source, status, usd }: Cost.Spent): CostColumns => ({
  estimated_cost_usd: usd ?? 0,
  cost_status: status,
  cost_source: source
})

/** Converts columns to a cost. */
export const toCost = (row: CostColumns): Cost.Spent =>
  Cost.makeSpent(row.estimated_cost_usd, row.cost_status, row.cost_source)

/** Adds the counters of two groups of calls. Status and source of the cost come from the last call. */
export const sum = (before: UsageCounts, last: UsageCounts): UsageCounts => ({
  input_tokens: before.input_tokens + last.input_tokens,
  output_tokens: before.output_tokens + last.output_tokens,
  cache_read_tokens: before.cache_read_tokens + last.cache_read_tokens,
  cache_write_tokens: before.cache_write_tokens + last.cache_write_tokens,
  reasoning_tokens: before.reasoning_tokens + last.reasoning_tokens,
  api_call_count: before.api_call_count + last.api_call_count,
  estimated_cost_usd: before.estimated_cost_usd + last.estimated_cost_usd,
  cost_status: last.cost_status,
  cost_source: last.cost_source
})

/** Creates the initial row of a new session. */
export const makeSessionRow = (session: NewSession, title: string | null, now: number): SessionRow => ({
  id: session.id,
  source: session.source,
  provider: session.provider,
  model: session.model,
  parent_session_id: session.parentId ?? null,
  title,
  cwd: session.cwd ?? null,
  branch: session.branch ?? null,
  started_at: now,
  updated_at: now,
  ended_at: null,
  end_reason: null,
  message_count: 0,
  tool_call_count: 0,
  ...fromUsage(Usage.zero),
  ...fromCost(Cost.toSpent(Cost.nothing)),
  system_prompt: session.systemPrompt,
  continues_session_id: session.continues ?? null,
  has_own_prompt: session.hasOwnPrompt === true ? 1 : 0,
  tenant: session.tenant ?? null
})

/** Converts a row to a session. */
export const toSession = (row: SessionRow): Session => ({
  id: row.id,
  source: row.source,
  provider: row.provider,
  model: row.model,
  systemPrompt: row.system_prompt,
  parentId: row.parent_session_id ?? undefined,
  continues: row.continues_session_id ?? undefined,
  hasOwnPrompt: row.has_own_prompt === 1,
  tenant: row.tenant ?? undefined,
  title: row.title ?? undefined,
  cwd: row.cwd ?? undefined,
  branch: row.branch ?? undefined,
  startedAt: row.started_at,
  endedAt: row.ended_at ?? undefined,
  endReason: row.end_reason ?? undefined,
  usage: toUsage(row),
  cost: toCost(row),
  messageCount: row.message_count,
  toolCallCount: row.tool_call_count
})
