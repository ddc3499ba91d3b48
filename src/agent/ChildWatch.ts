/** Observes a child while it runs, so that its report describes its work even if it never returns a result. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import { isCompleted } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import type * as Delegator from "../tools/Delegator.ts"

/** Progress of a child observed so far. */
export interface ChildProgress {
  readonly trace: Array<Delegator.ChildReport["tool_trace"][number]>
  /** Sessions of the child's descendants. */
  readonly below: Array<string>
  steps: number
  /** Usage of the child and its children. */
  usage: Usage.Usage
  /** Text since its last tool call. */
  text: string
  toolCount: number
  lastTool: string | undefined
}

/** Creates the progress of a child before any event. */
export const makeProgress = (): ChildProgress => ({
  trace: [],
  below: [],
  steps: 0,
  usage: Usage.zero,
  text: "",
  toolCount: 0,
  lastTool: undefined
})

/** Records the events of a child. `tell` receives the events for the listeners of its parent. */
export const watch = (
  subagentId: string,
  watched: ChildProgress,
  tell: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
) => {
  const sizes = new Map<string, number>()
  const makeProgressEvent = (text: string): RunEvent => ({ _tag: "SubagentProgress", subagentId, text })

  const recordEvent = (event: RunEvent): RunEvent | undefined => {
    switch (event._tag) {
      case "StepStarted":
        watched.steps = event.step
        return undefined
      case "TextDelta":
        watched.text += event.text
        return undefined
      case "TextReplaced":
        watched.text = event.text
        return undefined
      case "UsageReported":
        watched.usage = Usage.add(watched.usage, event.usage)
        // Includes the usage of its children, whose events retain their origin.
        return { ...event, origin: event.origin?.startsWith("sa-") === true ? event.origin : subagentId }
      case "ToolStarted":
        sizes.set(event.callId, JSON.stringify(event.params).length)
        watched.text = ""
        watched.toolCount++
        watched.lastTool = event.name
        return makeProgressEvent(event.name)
      case "ToolFinished":
        watched.trace.push({
          tool: event.name,
          args_bytes: sizes.get(event.callId) ?? 0,
          result_bytes: event.output.length,
          status: event.status
        })
        return undefined
      case "Waiting":
        return makeProgressEvent(`waits: ${event.reason}`)
      case "SubagentStarted":
        watched.below.push(event.sessionId)
        return event
      case "SubagentFinished":
      case "SubagentProgress":
      case "RouteChanged":
        return event
      default:
        return undefined
    }
  }

  return (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    const told = events.flatMap((event) => recordEvent(event) ?? [])
    return told.length === 0 ? Effect.void : tell(told)
  }
}

/** Outcome of a child. */
export interface ChildEnding {
  readonly status: Delegator.ChildStatus
  readonly exit: string
  readonly summary: string
  readonly error?: string
}

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Creates the outcome of a child that was interrupted before it ended. */
export const makeInterruptedEnding = ({ text }: ChildProgress): ChildEnding => ({
  status: "interrupted",
  exit: "interrupted",
  summary: text
})

/** Creates the outcome of a child that waits for an answer. */
export const makeSuspendedEnding = ({ text }: ChildProgress): ChildEnding => ({
  status: "suspended",
  exit: "suspended",
  summary: text
})

const makeFailedEnding = (cause: Cause.Cause<unknown>, watched: ChildProgress): ChildEnding =>
  Cause.hasInterrupts(cause)
    ? makeInterruptedEnding(watched)
    : {
        status: Cause.hasDies(cause) ? "error" : "failed",
        exit: "error",
        summary: watched.text,
        error: describeError(Cause.squash(cause))
      }

const makeTimeoutEnding = ({ lastTool, steps, text, usage }: ChildProgress): ChildEnding => {
  const at = lastTool === undefined ? `in model call ${steps}` : `after ${lastTool}`
  const why =
    usage.requestCount === 0
      ? "the child ran out of time before its model answered once: check the provider of delegated work, or raise " +
        "delegation.child_timeout_seconds"
      : `the child ran out of time (${at})`
  return { status: "timeout", exit: "timeout", summary: text, error: why }
}

/**
 * Returns the outcome of a child. `Option.none` means that its time ran out. Text without a completed run does not make
 * the work complete.
 */
export const determineEnding = (
  exit: Exit.Exit<Option.Option<RunResult>, unknown>,
  watched: ChildProgress
): ChildEnding => {
  if (Exit.isFailure(exit)) return makeFailedEnding(exit.cause, watched)
  if (Option.isNone(exit.value)) return makeTimeoutEnding(watched)
  const result = exit.value.value
  if (isCompleted(result)) return { status: "completed", exit: "completed", summary: result.text }
  const reason = result.exit === "max_iterations_reached" ? "max_iterations" : result.exit
  if (result.exit === "interrupted_by_user") return { status: "interrupted", exit: "interrupted", summary: result.text }
  return result.text === "" || result.exit === "empty_response_exhausted"
    ? { status: "failed", exit: reason, summary: "", error: `the child ended without an answer (${result.exit})` }
    : { status: "partial", exit: reason, summary: result.text }
}
