/**
 * Makes a tree of spans out of what the hooks tell, for whoever exports one: runs, the steps of a run, the model calls and
 * tool calls of a step, the approvals and children of a tool call. It decides what belongs where and when it is over; an
 * {@link Exporter} makes spans of it.
 *
 * **Details**
 *
 * - A child's span is under the tool call that delegated to it, whatever else runs beside it; what it runs is that span
 *   and has none of its own.
 * - A run begins with `pre_llm_call` and is over with `on_session_end`. One whose beginning was not heard begins with its
 *   first event, and is over with an answer that asks for no tool.
 * - A side call of a run (platform `auxiliary:…`) has a turn of its own; it belongs to the run of its session that was heard
 *   of last, and to no step's count.
 * - What is still open inside of something that ends is ended first, as interrupted.
 * - More than {@link maxRuns} runs at once: the one that has been silent for longest is ended.
 *
 * **Gotchas**
 *
 * Calls without an id are taken to end in the order in which they began, for each tool.
 *
 * Source: `hermes-contract.md` §5 ("Trace model"), `ARCHITECTURE.md` §7 (closing events).
 */
import { type Fields, text } from "../atof/Facts.ts"
import * as RunKey from "./RunKey.ts"

/** Runs that are open at once. */
export const maxRuns = 256

/** What a span is of. */
export type Kind = "run" | "child" | "step" | "model" | "tool" | "approval"

/** The hook event that ends a span, or that nothing did. */
export type Ending = string

/** Ends what nothing else ended. */
export const interrupted: Ending = "interrupted"

/** Ends a step, and a run whose end is not heard. */
export const over: Ending = "over"

/** Who makes spans of the tree. */
export interface Exporter<Span> {
  /** Whether a run is divided into steps. */
  readonly hasSteps: boolean
  readonly open: (kind: Kind, payload: Fields, parent: Span | undefined) => Span
  /** Told of what is known of an open span in between: `pre_llm_call` of a child, `post_llm_call`, `on_session_end`. */
  readonly note: (span: Span, event: string, payload: Fields) => void
  readonly close: (span: Span, ending: Ending, payload: Fields) => void
}

/** See the module. */
export interface Tracker<Span> {
  readonly record: (event: string, payload: Fields) => void
  /** The open span of an attempt, and of a tool call. */
  readonly model: (turnId: string, apiRequestId: string) => Span | undefined
  readonly tool: (turnId: string, toolCallId: string) => Span | undefined
  /** Runs that are open. */
  readonly size: () => number
  /** Ends everything. */
  readonly close: () => void
}

interface Run<Span> {
  readonly key: string
  readonly session: string
  readonly turn: string
  readonly span: Span
  /** Whether the span is over with the run; that of a child is over with its delegation. */
  readonly isOwner: boolean
  /** Whether its beginning was not heard. */
  readonly isImplicit: boolean
  /** Turns of its side calls that are open. */
  readonly sideTurns: Set<string>
  step: { readonly count: number; readonly span: Span } | undefined
  readonly models: Pending<Span>
  readonly tools: Pending<Span>
  readonly approvals: Pending<Span>
}

/** Open spans by what their end will name, oldest first. */
type Pending<Span> = Map<string, Array<Span>>

const put = <Span>(pending: Pending<Span>, key: string, span: Span): void => {
  const open = pending.get(key)
  if (open === undefined) pending.set(key, [span])
  else open.push(span)
}

/** Takes the oldest one; a key that has none left is gone. */
const take = <Span>(pending: Pending<Span>, key: string): Span | undefined => {
  const open = pending.get(key)
  const first = open?.shift()
  if (open?.length === 0) pending.delete(key)
  return first
}

const toolKey = (payload: Fields): string => text(payload, "tool_call_id") || text(payload, "tool_name")
const modelKey = (payload: Fields): string => text(payload, "api_request_id") || `#${String(payload["api_call_count"])}`
const questionKey = (payload: Fields): string => text(payload, "tool_call_id") || text(payload, "pattern_key")

/** Whether a model call is none of the conversation: a summary, a judgement, a description. */
export const isSideCall = (payload: Fields): boolean => text(payload, "platform").startsWith("auxiliary:")

/** Whether more is to come after a model call: tools that it asked for, or another attempt. */
const goesOn = (event: string, payload: Fields): boolean =>
  event === "post_api_request"
    ? payload["assistant_tool_call_count"] !== 0
    : payload["retryable"] === true && Number(payload["retry_count"]) < Number(payload["max_retries"])

/** A tracker; `capacity` is {@link maxRuns} when absent. */
export const make = <Span>(exporter: Exporter<Span>, capacity: number = maxRuns): Tracker<Span> => {
  const { close, note, open } = exporter
  // The last one is the one that was heard of last.
  const runs = new Map<string, Run<Span>>()
  const keys = new Map<string, string>()
  const children = new Map<string, { readonly span: Span; isRunning: boolean }>()

  const closeAll = (pending: Pending<Span>): void => {
    for (const span of Array.from(pending.values()).flat().toReversed()) close(span, interrupted, {})
    pending.clear()
  }
  const closeStep = (run: Run<Span>): void => {
    if (run.step !== undefined) close(run.step.span, over, {})
    run.step = undefined
  }
  const finish = (run: Run<Span>, ending: Ending, payload: Fields): void => {
    for (const pending of [run.approvals, run.tools, run.models]) closeAll(pending)
    closeStep(run)
    runs.delete(run.key)
    for (const turn of [run.turn, ...run.sideTurns]) if (keys.get(turn) === run.key) keys.delete(turn)
    const child = children.get(run.session)
    if (child?.span === run.span) child.isRunning = false
    if (run.isOwner) close(run.span, ending, payload)
    else note(run.span, ending, payload)
  }

  const find = (payload: Fields): Run<Span> | undefined => {
    const run = runs.get(RunKey.of(payload)) ?? runs.get(keys.get(text(payload, "turn_id")) ?? "")
    if (run === undefined) return undefined
    runs.delete(run.key)
    runs.set(run.key, run)
    return run
  }
  const begin = (payload: Fields, isImplicit: boolean): Run<Span> => {
    const [session, turn, key] = [text(payload, "session_id"), text(payload, "turn_id"), RunKey.of(payload)]
    const child = children.get(session)
    const isFirst = child !== undefined && !child.isRunning
    if (isFirst) child.isRunning = true
    const run: Run<Span> = {
      key,
      session,
      turn,
      span: isFirst ? child.span : open("run", payload, child?.span),
      isOwner: !isFirst,
      isImplicit,
      sideTurns: new Set(),
      step: undefined,
      models: new Map(),
      tools: new Map(),
      approvals: new Map()
    }
    runs.set(key, run)
    if (turn !== "") keys.set(turn, key)
    if (isFirst) note(run.span, "pre_llm_call", payload)
    for (const oldest of runs.values()) {
      if (runs.size <= capacity) break
      finish(oldest, interrupted, {})
    }
    return run
  }
  /** The run that a side call is of. */
  const besides = (payload: Fields): Run<Span> | undefined => {
    const run = isSideCall(payload) ? Array.from(runs.values()).findLast(({ session }) => session === text(payload, "session_id")) : undefined
    if (run === undefined) return undefined
    run.sideTurns.add(text(payload, "turn_id"))
    keys.set(text(payload, "turn_id"), run.key)
    return run
  }
  const ensure = (payload: Fields): Run<Span> => find(payload) ?? besides(payload) ?? begin(payload, true)

  const place = (run: Run<Span>): Span => run.step?.span ?? run.span
  /** Where something belongs that happens inside of a tool call. */
  const inside = (run: Run<Span>, toolCallId: string): Span => run.tools.get(toolCallId)?.[0] ?? place(run)

  const closeModel = (event: string, payload: Fields): void => {
    const run = find(payload)
    const span = run === undefined ? undefined : take(run.models, modelKey(payload))
    if (run === undefined || span === undefined) return
    close(span, event, payload)
    if (run.sideTurns.has(text(payload, "turn_id")) && !goesOn(event, payload)) {
      run.sideTurns.delete(text(payload, "turn_id"))
      keys.delete(text(payload, "turn_id"))
    }
    const isOver = run.isImplicit && run.tools.size === 0 && run.models.size === 0 && !goesOn(event, payload)
    if (isOver) finish(run, over, payload)
  }

  const handlers: Readonly<Record<string, (payload: Fields) => void>> = {
    pre_llm_call: (payload) => {
      if (find(payload) === undefined) begin(payload, false)
    },
    post_llm_call: (payload) => {
      const run = find(payload)
      if (run !== undefined) note(run.span, "post_llm_call", payload)
    },
    on_session_end: (payload) => {
      const run = find(payload)
      if (run !== undefined) finish(run, "on_session_end", payload)
    },
    on_session_finalize: (payload) => {
      const session = text(payload, "session_id") || text(payload, "old_session_id")
      for (const run of runs.values()) if (run.session === session) finish(run, interrupted, payload)
    },
    pre_api_request: (payload) => {
      const run = ensure(payload)
      const count = payload["api_call_count"]
      if (exporter.hasSteps && !isSideCall(payload) && typeof count === "number" && count > (run.step?.count ?? 0)) {
        closeStep(run)
        run.step = { count, span: open("step", payload, run.span) }
      }
      const before = take(run.models, modelKey(payload))
      if (before !== undefined) close(before, interrupted, {})
      put(run.models, modelKey(payload), open("model", payload, place(run)))
    },
    post_api_request: (payload) => closeModel("post_api_request", payload),
    api_request_error: (payload) => closeModel("api_request_error", payload),
    pre_tool_call: (payload) => {
      const run = find(payload)
      if (run !== undefined) put(run.tools, toolKey(payload), open("tool", payload, place(run)))
    },
    post_tool_call: (payload) => {
      const run = find(payload)
      const span = run === undefined ? undefined : take(run.tools, toolKey(payload))
      if (span !== undefined) close(span, "post_tool_call", payload)
    },
    pre_approval_request: (payload) => {
      const run = find(payload)
      if (run !== undefined) {
        put(run.approvals, questionKey(payload), open("approval", payload, inside(run, text(payload, "tool_call_id"))))
      }
    },
    post_approval_response: (payload) => {
      const run = find(payload)
      const span = run === undefined ? undefined : take(run.approvals, questionKey(payload))
      if (span !== undefined) close(span, "post_approval_response", payload)
    },
    subagent_start: (payload) => {
      const run = find({ session_id: text(payload, "parent_session_id"), turn_id: text(payload, "parent_turn_id") })
      const span = open("child", payload, run === undefined ? undefined : inside(run, text(payload, "parent_tool_call_id")))
      children.set(text(payload, "child_session_id"), { span, isRunning: false })
    },
    subagent_stop: (payload) => {
      const session = text(payload, "child_session_id")
      const child = children.get(session)
      if (child === undefined) return
      for (const run of runs.values()) if (run.session === session) finish(run, interrupted, {})
      children.delete(session)
      close(child.span, "subagent_stop", payload)
    }
  }

  return {
    record: (event, payload) => {
      if (Object.hasOwn(handlers, event)) handlers[event]?.(payload)
    },
    model: (turnId, apiRequestId) => runs.get(keys.get(turnId) ?? "")?.models.get(apiRequestId)?.[0],
    tool: (turnId, toolCallId) => runs.get(keys.get(turnId) ?? "")?.tools.get(toolCallId)?.[0],
    size: () => runs.size,
    close: () => {
      for (const run of Array.from(runs.values()).toReversed()) finish(run, interrupted, {})
      for (const { span } of Array.from(children.values()).toReversed()) close(span, interrupted, {})
      children.clear()
    }
  }
}
