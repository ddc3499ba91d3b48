/** Facts about attempts, calls and children in the record, in the form of a trajectory's `extra`. */
import type * as Schema from "effect/Schema"
import type { Attempt, Call, Child, Run } from "../RunTree.ts"
import type { Extra } from "./Draft.ts"
import { readFinishReason, toJson, toMetrics } from "./RunContent.ts"

/** Formats a time in epoch milliseconds as ISO 8601, or returns `undefined` if the time is unknown. */
export const formatTime = (at: number | undefined): string | undefined =>
  at === undefined || at <= 0 ? undefined : new Date(at).toISOString()

/** Returns facts about an attempt without an answer. */
export const describeFailure = ({ end, endedAt, start: { route }, startedAt }: Attempt): Schema.Json => ({
  error: end?.failure === undefined ? null : toJson(end.failure),
  status: end?.status ?? "interrupted",
  model: route.model,
  provider: route.provider,
  timestamp: formatTime(endedAt) ?? null,
  duration_ms: endedAt === undefined ? null : endedAt - startedAt
})

/** Returns the provider, the times and the finish reason of the attempt that produced the answer of a step. */
export const buildAttemptExtra = (attempt: Attempt): Extra => {
  const {
    end,
    endedAt,
    start: { route },
    startedAt
  } = attempt
  const finish = readFinishReason(attempt)
  return {
    ...(finish === null ? {} : { finish_reason: finish }),
    provider: route.provider,
    ...(endedAt === undefined
      ? {}
      : {
          invocation: {
            start_timestamp: startedAt / 1000,
            end_timestamp: endedAt / 1000,
            ...(end?.firstPartAt === undefined ? {} : { first_part_timestamp: end.firstPartAt / 1000 })
          }
        })
  }
}

const describeChange = ({ added, after, before, by, diff, path, removed }: Call["changes"][number]) => ({
  path,
  change: before === undefined ? "created" : after === undefined ? "deleted" : "changed",
  by,
  added,
  removed,
  diff
})

/** Returns the outcome of a call: status, duration, changed files and approval. */
export const buildResultExtra = ({ approvals, changes, end }: Call): Extra => {
  const approval = approvals.at(-1)?.event
  return {
    ...(end === undefined || end.status === "ok" ? {} : { status: end.status }),
    ...(end?.reason === undefined ? {} : { reason: end.reason }),
    ...(end === undefined ? {} : { duration_ms: Math.round(end.durationMillis) }),
    ...(changes.length === 0 ? {} : { changes: changes.map(describeChange) }),
    ...(approval === undefined ? {} : { approval: { choice: approval.choice, subject: approval.subject } })
  }
}

/** Returns the times of a call that has begun. */
export const buildCallExtra = ({ endedAt, start, startedAt }: Call): Extra =>
  start === undefined
    ? {}
    : {
        ...(start.parallel ? { parallel: true } : {}),
        ...(endedAt === undefined
          ? {}
          : { invocation: { start_timestamp: startedAt / 1000, end_timestamp: endedAt / 1000 } })
      }

/** Returns the goal of a child, and its status unless it completed. */
export const describeChildState = ({ end, endedAt, start }: Child): Extra => ({
  goal: start.goal,
  ...(end?.status === "completed" ? {} : { status: end?.status ?? (endedAt === undefined ? "running" : "interrupted") })
})

/**
 * Returns the side tasks of runs that no call requested (titles, summaries), which are not steps. The others are
 * trajectories below their call.
 */
export const describeSideTasks = (runs: ReadonlyArray<Run>): Extra => {
  const tasks = runs.flatMap((run) => run.sideTasks.filter(({ call }) => call === undefined))
  return tasks.length === 0
    ? {}
    : {
        side_tasks: tasks.map((task) => ({
          task: task.start.task ?? "unknown",
          model: task.end?.model ?? task.start.route.model,
          status: task.end?.status ?? "interrupted",
          timestamp: formatTime(task.endedAt) ?? null,
          duration_ms: task.endedAt === undefined ? null : task.endedAt - task.startedAt,
          metrics: toJson(toMetrics(task) ?? null)
        }))
      }
}
