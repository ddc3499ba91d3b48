/**
 * Builds the result row of one run in a batch from the run record. Pure.
 *
 * **Details**
 *
 * The fields required by the specification come first (`prompt_index`, `conversations`, `metadata`, `completed`,
 * `partial`, `api_calls`, `toolsets_used`, `tool_stats`, `tool_error_counts`), then `run`: the real system prompt, the
 * prompt, every model call with its attempts, times, usage, cost and finish reason, every tool call with its status and
 * time, the exit and the error.
 *
 * A tool call counts as failed if its result has an `error`, contains `success: false`, is empty, or begins with
 * "error:". If a command ends with an exit code other than 0, the tool call still counts as successful.
 *
 * Source: `hermes-product.md` §5.1 and §5.2.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Cost from "../../base/domain/Cost.ts"
import * as Json from "../../base/domain/Json.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import type { Trajectory } from "../../observe/Atif.ts"
import * as FromRuns from "../../observe/atif/FromRuns.ts"
import type { Attempt, Call, Run, Tree } from "../../observe/RunTree.ts"
import * as ShareGpt from "./ShareGpt.ts"

/** Counts of one tool. */
export interface ToolStat {
  readonly count: number
  readonly success: number
  readonly failure: number
}

/** Facts about a row that its run record does not contain. */
export interface RowContext {
  readonly promptIndex: number
  readonly batch: number
  readonly prompt: string
  readonly toolsets: ReadonlyArray<string>
  /** Names of all existing tools, so that all rows have the same columns. */
  readonly knownTools: ReadonlyArray<string>
  readonly at: number
  readonly attempt: number
  /** Seed requested by the row's model calls. */
  readonly seed?: number | undefined
  /** True if an earlier process already received the answer. */
  readonly isAnswered: boolean
  /** System prompt stored in the agent's session, without the part that is never saved. */
  readonly systemPrompt: string
  /** Text that followed the system prompt and is never saved. */
  readonly ephemeral: string | undefined
  readonly withAtif: boolean
}

/** A session of the run, with the tree of its agent runs. */
export interface SessionTree {
  readonly sessionId: string
  readonly tree: Tree
}

/** Returns true if a result counts as a failure of its tool. */
export const isFailure = (result: unknown): boolean => {
  const text = (result === undefined || result === null ? "" : Json.toText(result)).trim()
  if (text === "") return true
  if (/^error:/i.test(text)) return true
  const fields = Json.readFields(Json.parseOrKeep(text))
  return (
    (fields["error"] !== undefined && fields["error"] !== null && fields["error"] !== "") || fields["success"] === false
  )
}

const listCalls = (run: Run): ReadonlyArray<Call> =>
  run.steps.flatMap(({ calls }) => calls.flatMap((call) => [call, ...call.calls]))

/** A call that was not executed counts as failed, regardless of its result text. */
const isFailedCall = ({ end, result }: Pick<Call, "end" | "result">): boolean =>
  end === undefined || end.status === "blocked" || end.status === "cancelled" || isFailure(result?.result ?? end.output)

/** Counts the calls of each tool, with one entry for every known tool. */
const countToolCalls = (
  calls: ReadonlyArray<Pick<Call, "end" | "name" | "result">>,
  known: ReadonlyArray<string>
): Readonly<Record<string, ToolStat>> => {
  const stats = new Map<string, ToolStat>(known.map((name) => [name, { count: 0, success: 0, failure: 0 }]))
  for (const call of calls) {
    const { count, failure, success } = stats.get(call.name) ?? { count: 0, success: 0, failure: 0 }
    const bad = isFailedCall(call)
    stats.set(call.name, { count: count + 1, success: success + (bad ? 0 : 1), failure: failure + (bad ? 1 : 0) })
  }
  return Object.fromEntries(stats)
}

const formatTime = (millis: number): string => new Date(millis).toISOString()

const toAttemptFields = ({ end, endedAt, start, startedAt }: Attempt) => ({
  step: start.step,
  attempt: start.attempt,
  api_request_id: start.apiRequestId,
  ...(start.task === undefined ? {} : { task: start.task }),
  provider: start.route.provider,
  api_mode: start.route.apiMode,
  model: end?.model ?? start.route.model,
  status: end?.status ?? "interrupted",
  started_at: formatTime(startedAt),
  duration_ms: endedAt === undefined ? null : endedAt - startedAt,
  first_part_ms: end?.firstPartAt === undefined ? null : end.firstPartAt - startedAt,
  finish_reason: end?.finishReason ?? null,
  usage: end?.usage === undefined ? null : Usage.toWire(end.usage),
  cost: end?.cost === undefined ? null : Cost.toWire(end.cost),
  error: end?.failure ?? null
})

const toCallFields = ({ end, endedAt, id, name, startedAt, step }: Call) => ({
  step: step?.number ?? null,
  call_id: id,
  name,
  status: end?.status ?? "interrupted",
  ran: end?.ran ?? null,
  reason: end?.reason ?? null,
  started_at: formatTime(startedAt),
  duration_ms: end === undefined || endedAt === undefined ? null : Math.round(end.durationMillis)
})

/** The fields of a row, and the properties that a batch run checks. */
export interface RowFields {
  readonly fields: Json.Fields
  /** True if an answer of the model contains reasoning. */
  readonly hasReasoning: boolean
  readonly usage: Usage.Usage
  readonly costUsd: number | undefined
  readonly isCompleted: boolean
}

const hasThoughts = (message: Prompt.Message): boolean =>
  message.role === "assistant" &&
  message.content.some((part) =>
    part.type === "reasoning"
      ? part.text.trim() !== ""
      : part.type === "text" && /<(think|REASONING_SCRATCHPAD)>\s*[^\s<]/i.test(part.text)
  )

/** Returns the trajectory without the text that is never saved. */
const removeEphemeral = (trajectory: Trajectory | undefined, ephemeral: string | undefined): Trajectory | undefined =>
  trajectory === undefined || ephemeral === undefined || ephemeral.trim() === ""
    ? trajectory
    : {
        ...trajectory,
        steps: trajectory.steps.map((step) =>
          step.source === "system" && typeof step.message === "string"
            ? { ...step, message: step.message.replace(`\n\n${ephemeral.trim()}`, "") }
            : step
        )
      }

/**
 * Makes the result row of a run. `trees` contains its session and the sessions that continue it after compactions, in
 * order.
 */
export const make = (trees: ReadonlyArray<SessionTree>, about: RowContext): RowFields => {
  const newest = trees.at(-1)
  const runs = trees.flatMap(({ sessionId, tree }) => tree.roots.filter((run) => run.sessionId === sessionId))
  const last = runs.at(-1)
  const attempts = runs.flatMap((run) => run.steps.flatMap((step) => step.attempts))
  const answered = attempts.filter(({ end }) => end?.status === "answered")
  const calls = runs.flatMap(listCalls)
  const messages =
    newest === undefined ? [] : newest.tree.conversation(newest.sessionId).flatMap(({ message }) => message ?? [])
  const lastAttempt = newest?.tree.roots
    .findLast(({ sessionId }) => sessionId === newest.sessionId)
    ?.steps.at(-1)
    ?.attempts.at(-1)
  const tools = lastAttempt === undefined ? [] : (newest?.tree.tools(lastAttempt) ?? [])
  const usage = runs.reduce((sum, { end }) => (end === undefined ? sum : Usage.add(sum, end.usage)), Usage.zero)
  const cost = Cost.toSpent(
    runs.reduce((sum, { end }) => (end === undefined ? sum : Cost.addCall(sum, Cost.fromSpent(end.cost))), Cost.nothing)
  )
  // If the process died after the last answer, the end of the run is missing. If the process was stopped at that point,
  // the run ends with an interruption. In both cases the answer is complete.
  const ended = last?.end?.exit
  const exit = ended === undefined || (about.isAnswered && ended === "interrupted") ? "text_response" : ended
  const isCompleted = isCompletedExit(exit)
  const stats = countToolCalls(calls, about.knownTools)
  const model = answered.at(-1)?.start.route.model ?? last?.start?.model ?? ""
  const atif =
    about.withAtif && newest !== undefined
      ? removeEphemeral(FromRuns.buildTrajectory(newest.tree, newest.sessionId), about.ephemeral)
      : undefined
  return {
    hasReasoning: messages.some(hasThoughts),
    usage,
    costUsd: cost.usd === null || cost.status === "unknown" ? undefined : cost.usd,
    isCompleted,
    fields: {
      prompt_index: about.promptIndex,
      conversations: ShareGpt.toConversations(messages, tools),
      metadata: { batch_num: about.batch, timestamp: formatTime(about.at), model },
      completed: isCompleted,
      partial: !isCompleted,
      api_calls: answered.length,
      toolsets_used: about.toolsets,
      tool_stats: stats,
      tool_error_counts: Object.fromEntries(Object.entries(stats).map(([name, { failure }]) => [name, failure])),
      run: {
        session_id: newest?.sessionId ?? null,
        attempt: about.attempt,
        seed: about.seed ?? null,
        prompt: about.prompt,
        system_prompt: about.systemPrompt,
        exit,
        error: last?.end?.failure ?? null,
        started_at: runs[0] === undefined ? null : formatTime(runs[0].startedAt),
        duration_ms: runs.reduce((sum, run) => sum + (run.endedAt === undefined ? 0 : run.endedAt - run.startedAt), 0),
        usage: Usage.toWire(usage),
        cost: Cost.toWire(cost),
        model_calls: attempts.map(toAttemptFields),
        side_tasks: runs.flatMap((run) => run.sideTasks).map(toAttemptFields),
        tool_calls: calls.map(toCallFields)
      },
      ...(atif === undefined ? {} : { atif })
    }
  }
}
