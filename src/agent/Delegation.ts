/**
 * The agent's side of `delegate_task`: a child for each task, in the scope of the run that asked, with the run's hooks and
 * middleware, a part of its tools, and a budget of its own.
 *
 * **Details**
 *
 * Children run side by side up to the limit, as fibers of the tool call: interrupting the call or the run interrupts every
 * descendant, and none outlives it. A child that fails, runs out of budget or time, or is interrupted alone is a report,
 * never a failed run; its siblings go on. Its session is stored with its parent, and finalised when it ends. Tools that
 * talk to the user, remember for the user or spawn further work are never a child's; delegation comes back to an
 * orchestrator whose depth allows it.
 *
 * Source: `hermes-product.md` §3, `hermes-llm.md` §13.9, `ARCHITECTURE.md` §7.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ids from "../domain/Ids.ts"
import type { RunEvent, RunResult } from "../domain/RunEvent.ts"
import { isCompleted } from "../domain/RunEvent.ts"
import * as Usage from "../domain/Usage.ts"
import { Correlation } from "../hooks/Correlation.ts"
import * as Spans from "../hooks/Spans.ts"
import { Attendance, unattended } from "../tool/approval/Attendance.ts"
import * as Delegator from "../tool/Delegator.ts"
import type { Selection } from "../tool/ToolRegistry.ts"
import type { Lineage } from "./Lineage.ts"
import type { DelegationSettings, RunInput } from "./RunInput.ts"
import { emit, type RunState } from "./RunState.ts"
import type { Services } from "./Services.ts"

/** What applies when nobody says otherwise. */
export const defaults = {
  maxSpawnDepth: 2,
  maxConcurrentChildren: 3,
  maxIterations: 50
} satisfies DelegationSettings

/** Runs one child. */
export type RunChild = (input: RunInput, lineage: Lineage) => Effect.Effect<RunResult, unknown>

/** Tools that a child never has. */
const withheld: ReadonlySet<string> = new Set(["clarify", "memory", "send_message", "execute_code", "cronjob"])

const refused = (message: string) => Effect.fail(new Delegator.DelegationRefused({ message }))

/** What of the parent's tools a child may use. */
export const childTools = (parent: Selection, task: Delegator.Task, mayDelegate: boolean): Selection => {
  const asked = task.toolsets === undefined ? undefined : new Set(task.toolsets)
  return {
    toolset: (name) =>
      (parent.toolset?.(name) ?? true) &&
      (asked === undefined || asked.has(name) || (mayDelegate && name === "delegation")),
    tool: (name) =>
      (parent.tool?.(name) ?? true) && !withheld.has(name) && (name !== "delegate_task" || mayDelegate)
  }
}

const promptOf = ({ context, goal }: Delegator.Task, cwd: string): string =>
  [
    goal,
    ...(context === undefined || context.trim() === "" ? [] : [`Context:\n${context}`]),
    `Working directory: ${cwd}`,
    "You work on your own: nobody answers questions. When you are done, reply with a summary for the agent that gave you " +
    "this task: what you did, what you found, which files you changed, and what is left."
  ].join("\n\n")

interface Watched {
  readonly trace: Array<Delegator.ChildReport["tool_trace"][number]>
  steps: number
  usage: Usage.Usage
  text: string
}

/** Keeps what a report says of a child that never gives a result, and passes its progress on. */
const watch = (parent: RunState, subagentId: string, watched: Watched) => {
  const sizes = new Map<string, number>()
  return (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    const progress: Array<RunEvent> = []
    for (const event of events) {
      switch (event._tag) {
        case "StepStarted":
          watched.steps = event.step
          break
        case "TextDelta":
          watched.text += event.text
          break
        case "UsageReported":
          watched.usage = Usage.add(watched.usage, event.usage)
          break
        case "ToolStarted":
          sizes.set(event.callId, JSON.stringify(event.params).length)
          watched.text = ""
          progress.push({ _tag: "SubagentProgress", subagentId, text: event.name })
          break
        case "ToolFinished":
          watched.trace.push({
            tool: event.name,
            args_bytes: sizes.get(event.callId) ?? 0,
            result_bytes: event.output.length,
            status: event.status
          })
          break
      }
    }
    return progress.length === 0 ? Effect.void : emit(parent, ...progress)
  }
}

interface Ending {
  readonly status: Delegator.ChildStatus
  readonly exit: string
  readonly summary: string
  readonly error?: string
}

const describe = (error: unknown): string => error instanceof Error ? error.message : String(error)

/** How a child ended. Text alone does not make its work complete. */
const endingOf = (exit: Exit.Exit<Option.Option<RunResult>, unknown>, watched: Watched): Ending => {
  if (Exit.isFailure(exit)) {
    return Cause.hasInterrupts(exit.cause)
      ? { status: "interrupted", exit: "interrupted", summary: watched.text }
      : { status: "failed", exit: "error", summary: watched.text, error: describe(Cause.squash(exit.cause)) }
  }
  if (Option.isNone(exit.value)) {
    return { status: "timeout", exit: "timeout", summary: watched.text, error: "the child ran out of time" }
  }
  const result = exit.value.value
  if (isCompleted(result)) return { status: "completed", exit: "completed", summary: result.text }
  const reason = result.exit === "max_iterations_reached" ? "max_iterations" : result.exit
  if (result.exit === "interrupted_by_user") return { status: "interrupted", exit: "interrupted", summary: result.text }
  return result.text === ""
    ? { status: "failed", exit: reason, summary: "", error: `the child ended without an answer (${result.exit})` }
    : { status: "partial", exit: reason, summary: result.text }
}

/** The port for one run. */
export const make = <E>(
  services: Services<E>,
  parent: RunState,
  cwd: string,
  runChild: RunChild
): Delegator.Service => {
  const { interceptors: { hooks }, settings } = services
  const { childTimeoutMillis, route } = settings.delegation ?? {}
  const maxSpawnDepth = settings.delegation?.maxSpawnDepth ?? defaults.maxSpawnDepth
  const maxConcurrentChildren = settings.delegation?.maxConcurrentChildren ?? defaults.maxConcurrentChildren
  const maxIterations = settings.delegation?.maxIterations ?? defaults.maxIterations
  const approval = settings.delegation?.autoApprove === true ? "approve" : "deny"
  const depth = parent.lineage?.depth ?? 0

  const child = Effect.fnUntraced(function*(task: Delegator.Task, index: number) {
    const subagentId = `sa-${index}-${yield* Ids.hex(8)}`
    const sessionId = yield* Ids.makeSessionId
    const started = yield* Clock.currentTimeMillis
    const mayDelegate = task.role === "orchestrator" && depth + 1 < maxSpawnDepth
    const lineage: Lineage = {
      parentSessionId: parent.sessionId,
      parentTurnId: parent.turnId,
      parentSubagentId: parent.lineage?.subagentId ?? "",
      subagentId,
      depth: depth + 1,
      budget: parent.budget
    }
    const watched: Watched = { trace: [], steps: 0, usage: Usage.zero, text: "" }
    const { tool_call_id: callId } = yield* Correlation
    const link = {
      parent_session_id: lineage.parentSessionId,
      parent_turn_id: lineage.parentTurnId,
      ...(callId === "" ? {} : { parent_tool_call_id: callId }),
      parent_subagent_id: lineage.parentSubagentId,
      child_session_id: sessionId,
      child_subagent_id: subagentId,
      child_role: task.role
    }
    const run = runChild({
      prompt: promptOf(task, cwd),
      sessionId,
      source: "subagent",
      cwd,
      tools: childTools(parent.tools, task, mayDelegate),
      maxIterations,
      streaming: parent.streaming,
      route: route ?? parent.routeWanted,
      onEvent: watch(parent, subagentId, watched)
    }, lineage)
    yield* emit(parent, { _tag: "SubagentStarted", subagentId, sessionId, goal: task.goal })
    const bounded = childTimeoutMillis === undefined
      ? Effect.map(run, Option.some)
      : Effect.timeoutOption(run, childTimeoutMillis)
    const duration = Effect.map(Clock.currentTimeMillis, (now) => now - started)
    const clock = yield* Clock.Clock
    const spanned = Spans.bracket(bounded, hooks, {
      open: ["subagent_start", () => ({ ...link, child_goal: task.goal })],
      close: (closing) => ["subagent_stop", () => {
        const { status, summary } = endingOf(closing, watched)
        return {
          ...link,
          child_summary: summary === "" ? null : summary,
          child_status: status,
          duration_ms: Math.max(0, Math.round(clock.currentTimeMillisUnsafe() - started))
        }
      }]
    })
    const finalized = hooks.emit("on_session_finalize", () => ({
      session_id: sessionId,
      platform: parent.platform,
      reason: "subagent_end"
    }))
    const exit = yield* Effect.exit(
      Effect.provideService(Effect.ensuring(spanned, finalized), Attendance, unattended("child agent", approval))
    )
    const ending = endingOf(exit, watched)
    const finished = Exit.isSuccess(exit) ? Option.getOrUndefined(exit.value) : undefined
    const usage = finished?.usage ?? watched.usage
    yield* emit(parent, { _tag: "SubagentFinished", subagentId, sessionId, status: ending.status })
    return {
      task_index: index,
      status: ending.status,
      summary: ending.summary,
      api_calls: watched.steps,
      duration_seconds: (yield* duration) / 1000,
      model: finished?.model ?? parent.route.model,
      exit_reason: ending.exit,
      tokens: { input: Usage.promptTokens(usage), output: usage.outputTokens },
      tool_trace: watched.trace,
      session_id: sessionId,
      ...(ending.error === undefined ? {} : { error: ending.error })
    } satisfies Delegator.ChildReport
  })

  return {
    delegate: (tasks) => {
      if (depth >= maxSpawnDepth) {
        return refused(`delegation ends at depth ${maxSpawnDepth}: do this work yourself`)
      }
      if (tasks.length > maxConcurrentChildren) {
        return refused(
          `at most ${maxConcurrentChildren} tasks at once, and ${tasks.length} were given: send fewer, or merge some`
        )
      }
      return Effect.forEach(tasks, child, { concurrency: maxConcurrentChildren })
    }
  }
}
