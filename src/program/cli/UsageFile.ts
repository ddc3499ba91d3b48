/**
 * The report of `--usage-file`: a JSON file with the tokens and the cost of a run, also written if the run fails.
 *
 * **Details**
 *
 * The top-level counts cover the run's own steps; `auxiliary` contains the counts of its side tasks, by name, and of
 * its sub-agents, by id; `total_including_auxiliary` is the sum of all. Usage by reviews and sub-agents after the
 * answer is added before the program ends. A file that cannot be written does not affect the run.
 *
 * **Gotchas**
 *
 * The file is written synchronously, so that it exists even if a signal or a plugin ends the process.
 *
 * Source: `hermes-product.md` §1.4.
 */
import * as Cost from "../../base/domain/Cost.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as CurrentProcess from "../../base/platform/CurrentProcess.ts"
import * as SafeText from "./render/SafeText.ts"
import type { RunSummary } from "./View.ts"

/** Total tokens and cost of several calls. */
interface SpentTotals {
  usage: Usage.Usage
  cost: Cost.Total
}

/** Collects the usage of a run. */
export interface Account {
  readonly add: (event: RunEvent) => void
  /** Returns the report of a run, as JSON. */
  readonly report: (summary: RunSummary) => string
}

const makeEmptySpent = (): SpentTotals => ({ usage: Usage.zero, cost: Cost.nothing })

const addSpending = (spent: SpentTotals, usage: Usage.Usage, cost: Cost.Spent): void => {
  spent.usage = Usage.add(spent.usage, usage)
  spent.cost = Cost.addCall(spent.cost, Cost.fromSpent(cost))
}

const toCounts = ({ cost, usage }: SpentTotals) => {
  const { source, status, usd } = Cost.toSpent(cost)
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    total_tokens: Usage.countTotalTokens(usage),
    estimated_cost_usd: status === "unknown" && usd === 0 ? null : usd,
    cost_status: status,
    cost_source: source,
    api_calls: usage.requestCount
  }
}

/** Creates the account of a new run. */
export const make = (): Account => {
  const own = makeEmptySpent()
  const all = makeEmptySpent()
  const others = new Map<string, SpentTotals>()
  return {
    add: (event) => {
      if (event._tag !== "UsageReported") return
      addSpending(all, event.usage, event.cost)
      if (event.origin === undefined) return addSpending(own, event.usage, event.cost)
      const spent = others.get(event.origin) ?? makeEmptySpent()
      others.set(event.origin, spent)
      addSpending(spent, event.usage, event.cost)
    },
    report: ({ error, exit, exitCode, route, sessionId, text }) => {
      const isInterrupted = exitCode > 128 || exit === "interrupted_by_user"
      const isCompleted = exitCode === 0
      return `${SafeText.toJson(
        {
          ...toCounts(own),
          model: route?.model ?? null,
          provider: route?.provider ?? null,
          session_id: sessionId,
          completed: isCompleted,
          partial: !isCompleted && text !== "",
          interrupted: isInterrupted,
          turn_exit_reason: exit ?? (isCompleted ? "text_response" : isInterrupted ? "interrupted" : "failed"),
          failed: !isCompleted && !isInterrupted && exit === undefined,
          failure: error === undefined ? null : Redaction.redactText(error),
          service_tier: null,
          auxiliary: Object.fromEntries(Array.from(others, ([name, spent]) => [name, toCounts(spent)])),
          total_including_auxiliary: toCounts(all)
        },
        2
      )}\n`
    }
  }
}

/** Writes the report to a file that only its owner can read. Returns the failure as text, for a warning. */
export const write = (path: string, report: string): string | undefined => {
  try {
    CurrentProcess.writeFileNow(path, report)
    return undefined
  } catch (error) {
    return `--usage-file ${path} cannot be written: ${error instanceof Error ? error.message : String(error)}`
  }
}
