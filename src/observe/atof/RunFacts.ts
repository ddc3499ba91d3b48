/**
 * Metadata of a stream's events: the correlation ids that the specification requires, and the facts in the record about
 * each scope and mark.
 *
 * Source: `hermes-contract.md` §4.5 ("Metadata keys").
 */
import type * as Record from "../../base/domain/RecordEvent.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import { observerVersion } from "../../base/domain/Version.ts"
import * as ToolOutcome from "../../hooks/ToolOutcome.ts"
import { readFinishReason, toJson } from "../atif/RunContent.ts"
import type * as RunTree from "../RunTree.ts"
import * as ChatCompletion from "./ChatCompletion.ts"

type Facts = ChatCompletion.Facts

/** Returns the metadata of a child's scope and of its marks. */
export const collectChildFacts = ({ end, parent, start }: RunTree.Child): Facts => ({
  telemetry_schema_version: observerVersion,
  parent_session_id: parent.sessionId,
  parent_trajectory_id: parent.sessionId,
  parent_turn_id: parent.turnId,
  ...(parent.start?.parent === undefined ? {} : { parent_subagent_id: parent.start.parent.subagentId }),
  child_session_id: start.sessionId,
  child_trajectory_id: start.sessionId,
  child_subagent_id: start.subagentId,
  child_role: start.role,
  child_goal: start.goal,
  session_id: start.sessionId,
  trajectory_id: start.sessionId,
  subagent_id: start.subagentId,
  ...(start.background ? { background: true } : {}),
  ...(end === undefined
    ? {}
    : {
        child_status: end.status,
        ...(end.summary === undefined ? {} : { child_summary: end.summary }),
        duration_ms: Math.round(end.durationMillis)
      })
})

/** Returns the correlation ids that all events of a run share. */
export const collectRunFacts = ({ sessionId, start, turnId }: RunTree.Run): Facts => ({
  telemetry_schema_version: observerVersion,
  session_id: sessionId,
  trajectory_id: sessionId,
  task_id: start?.parent?.subagentId ?? sessionId,
  turn_id: turnId,
  ...(start === undefined ? {} : { platform: start.platform }),
  ...(start?.parent === undefined
    ? {}
    : { parent_session_id: start.parent.sessionId, parent_trajectory_id: start.parent.sessionId })
})

/** Returns the ids, the route and the number of an attempt. */
export const collectAttemptFacts = (attempt: RunTree.Attempt): Facts => {
  const {
    run,
    start: { apiRequestId, attempt: retry, continues, route, step, task }
  } = attempt
  return {
    ...collectRunFacts(run),
    api_request_id: apiRequestId,
    provider: route.provider,
    model: route.model,
    api_mode: route.apiMode,
    api_call_count: step,
    retry_count: retry,
    ...(task === undefined ? {} : { side_task: task }),
    ...(continues === undefined ? {} : { continues_after_chars: continues })
  }
}

/** Returns the outcome of an attempt. */
export const collectEndFacts = (attempt: RunTree.Attempt): Facts => {
  const { end } = attempt
  const finish = readFinishReason(attempt)
  const reason = end?.status === "answered" ? undefined : end?.status === "failed" ? end.failure?.reason : "interrupted"
  const spent = ChatCompletion.toUsage(attempt)
  return {
    status: end?.status === "answered" ? "ok" : "error",
    ...(reason === undefined ? {} : { reason }),
    ...(finish === null ? {} : { finish_reason: finish }),
    ...(spent === null ? {} : { usage: spent }),
    ...(end?.cost === undefined ? {} : { cost_status: end.cost.status, cost_source: end.cost.source }),
    ...(end?.failure === undefined
      ? {}
      : {
          error: toJson(end.failure),
          error_type: end.failure.type,
          error_message: end.failure.message,
          ...(end.failure.status === undefined ? {} : { status_code: end.failure.status }),
          ...(end.failure.retryable === undefined ? {} : { retryable: end.failure.retryable })
        })
  }
}

/** Returns the ids of a tool call. */
export const collectCallFacts = (call: RunTree.Call): Facts => ({
  ...collectRunFacts(call.run),
  ...(call.start === undefined ? {} : { api_request_id: call.start.apiRequestId }),
  tool_call_id: call.id,
  ...(call.parent === undefined ? {} : { parent_tool_call_id: call.parent.id })
})

/** Returns the outcome of a tool call. */
export const collectCallEndFacts = ({ end, run }: RunTree.Call, output: string | undefined): Facts => {
  if (end === undefined) return { status: "cancelled", reason: "interrupted" }
  const said = end.status === "ok" ? null : ToolOutcome.fromResult(output).error_message
  const type =
    end.reason ??
    (end.status === "cancelled"
      ? run.start?.parent === undefined
        ? "keyboard_interrupt"
        : "interrupted"
      : end.status === "ok"
        ? undefined
        : "tool_error")
  return {
    status: end.status,
    duration_ms: Math.round(end.durationMillis),
    ...(end.reason === undefined ? {} : { reason: end.reason }),
    ...(type === undefined ? {} : { error_type: type }),
    ...(said === null ? {} : { error_message: said })
  }
}

/** Returns the source and the route of a session, as its scope has them. */
export const collectStartFacts = ({ start }: RunTree.Run): Facts =>
  start === undefined
    ? {}
    : { platform: start.platform, source: start.source, provider: start.provider, model: start.model }

/** Returns the outcome of a run. */
export const collectRunEndFacts = (run: RunTree.Run): Facts => {
  const exit = run.end?.exit
  return {
    completed: isCompletedExit(exit),
    interrupted: exit === "interrupted" || exit === "interrupted_by_user" || exit === undefined,
    ...(exit === undefined ? {} : { reason: exit }),
    ...(run.end?.failure === undefined ? {} : { error: toJson(run.end.failure) }),
    ...(run.start === undefined ? {} : { model: run.start.model })
  }
}

/** Returns the subject of an approval. */
export const collectApprovalFacts = ({ call, event }: RunTree.Approval): Facts => ({
  ...collectCallFacts(call),
  command: event.subject,
  ...(event.description === undefined ? {} : { description: event.description }),
  ...(event.patterns === undefined ? {} : { pattern_key: event.patterns[0] ?? "", pattern_keys: event.patterns }),
  ...(event.surface === undefined ? {} : { surface: event.surface })
})

/** Names of the marks for events that occur between attempts. */
export const markNames = {
  Waiting: "hermes.waiting",
  RouteChanged: "hermes.route.changed",
  Notice: "hermes.notice",
  ContextRewritten: "hermes.context.rewritten",
  AnswerAdapted: "hermes.answer.adapted",
  Gap: "hermes.record.gap"
} as const

/** Tests whether an event of the record has a name in {@link markNames}. */
export const isMarked = (tag: string): tag is keyof typeof markNames => Object.hasOwn(markNames, tag)

/** Returns the fields of an event under their names in the stream. */
export const toWireFields = ({ _tag, ...fields }: Record.RecordEvent): Facts =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.replace(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`), toJson(value)]]
    )
  )
