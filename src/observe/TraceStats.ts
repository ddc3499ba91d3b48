/** Totals of a trace: calls, failures, tokens, cost and duration, and the share of each model and tool. */
import { isFailed, type Row } from "./trace/Row.ts"

/** Totals of one model or one tool. `millis` is the sum of the durations of its calls, including parallel calls. */
export interface Share {
  readonly name: string
  readonly count: number
  readonly failed: number
  readonly millis: number
  readonly tokens: number
}

/** Totals of a trace. `millis` is the time from the first event to the last, or 0 if times are unknown. */
export interface Stats {
  readonly agents: number
  readonly turns: number
  readonly modelCalls: number
  readonly failedModelCalls: number
  readonly toolCalls: number
  readonly failedToolCalls: number
  readonly approvals: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
  readonly costUsd: number | undefined
  readonly millis: number
  readonly models: ReadonlyArray<Share>
  readonly tools: ReadonlyArray<Share>
}

const computeShares = (rows: ReadonlyArray<Row>, name: (row: Row) => string): ReadonlyArray<Share> => {
  const found = new Map<string, Share>()
  for (const row of rows) {
    const key = name(row)
    const { count, failed, millis, tokens } = found.get(key) ?? { count: 0, failed: 0, millis: 0, tokens: 0 }
    found.set(key, {
      name: key,
      count: count + 1,
      failed: failed + Number(isFailed(row)),
      millis: millis + Math.max(0, row.end - row.start),
      tokens: tokens + row.promptTokens + row.completionTokens
    })
  }
  return Array.from(found.values()).toSorted((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
}

/** Adds up the rows of a trace; copied context counts only in its original session. */
export const computeStats = (all: ReadonlyArray<Row>): Stats => {
  const rows = all.filter(({ copied }) => copied !== true)
  const filterByKind = (kind: Row["kind"]) => rows.filter((row) => row.kind === kind)
  const models = filterByKind("llm")
  const tools = filterByKind("tool")
  let [promptTokens, completionTokens, cachedTokens, cost, first, last] = [0, 0, 0, 0, Number.POSITIVE_INFINITY, 0]
  for (const row of rows) {
    promptTokens += row.promptTokens
    completionTokens += row.completionTokens
    cachedTokens += row.cachedTokens
    cost += row.cost
    if (row.start > 0) first = Math.min(first, row.start)
    last = Math.max(last, row.end)
  }
  return {
    agents: filterByKind("agent").length,
    turns: filterByKind("user").length,
    modelCalls: models.length,
    failedModelCalls: models.filter(isFailed).length,
    toolCalls: tools.length,
    failedToolCalls: tools.filter(isFailed).length,
    approvals: filterByKind("approval").filter(({ status }) => status !== "").length,
    promptTokens,
    completionTokens,
    cachedTokens,
    costUsd: cost > 0 ? cost : undefined,
    millis: last > first ? last - first : 0,
    models: computeShares(models, ({ model, name }) => model || name),
    tools: computeShares(tools, ({ name }) => name)
  }
}
