/**
 * Spans of runs: one for each run, child, step, attempt, tool call and approval of a {@link RunTree.Tree}. Exporters
 * supply names and attributes in a {@link View}. Ids, parents, times and outcomes are the same for all exporters, both
 * for active and for stored runs.
 *
 * **Details**
 *
 * - Span ids are derived from the ids in the record, so `traceparent` can refer to a tool call before its span is
 *   created.
 * - A child's span is below the call that delegated to it. It also represents the child's run, which has no separate
 *   span.
 * - A call that a tool made is below the call of the tool. A side task is below the call that requested it, or else
 *   below its run.
 * - Parts of a run that are still open when it ends are ended at the same time, as interrupted.
 *
 * Source: `ARCHITECTURE.md` §4 (run record), W3C Trace Context.
 */
import * as Json from "../base/domain/Json.ts"
import * as ToolOutcome from "../hooks/ToolOutcome.ts"
import * as Digest from "../base/platform/Digest.ts"
import type { JoinedText } from "./JoinedText.ts"
import * as RunTree from "./RunTree.ts"

/** Name and version of the instrumentation. */
export const scope = { name: "hermes-effect", version: "0.1.0" }

/** Value of an attribute. */
export type Value = string | number | boolean | ReadonlyArray<string> | JoinedText

/** Attributes by name. */
export type Attributes = Readonly<Record<string, Value>>

/** Attributes by name; undefined ones are omitted. */
export type SparseAttributes = Readonly<Record<string, Value | undefined>>

/** Trace and parent span of a run. */
export interface Trace {
  /** Trace id, as 32 hexadecimal digits. */
  readonly traceId: string
  /** Id of the parent span of the run. */
  readonly parentSpanId: string | undefined
  readonly sampled: boolean
  /** `tracestate` of the parent span of the run. */
  readonly traceState?: string | undefined
}

/** Failure of an operation. `type` is the value of the attribute `error.type`, taken from a small set of names. */
export interface Failure {
  readonly type: string
  readonly message: string
}

/** Outcome of an operation: completed, interrupted or failed. */
export type Outcome =
  | { readonly _tag: "Done" }
  | { readonly _tag: "Cut" }
  | { readonly _tag: "Failed"; readonly failure: Failure }

/** An event during a span. */
export interface Event {
  readonly name: string
  /** Time of the event, in epoch milliseconds. */
  readonly at: number
  readonly attributes: Attributes
}

/** The start of a span. Times are in epoch milliseconds. */
export interface SpanHead extends Trace {
  readonly node: RunTree.Node
  /** Span id, as 16 hexadecimal digits. */
  readonly spanId: string
  readonly name: string
  readonly kind: "internal" | "client"
  readonly startedAt: number
  /** Order of spans that begin in the same millisecond. A parent comes before its children. */
  readonly order: number
}

/** A span that has ended. */
export interface Span extends SpanHead {
  readonly endedAt: number
  readonly outcome: Outcome
  readonly attributes: SparseAttributes
  readonly events: ReadonlyArray<Event>
}

/** Defines the names and attributes of an exporter's spans. */
export interface View {
  /** True if steps have separate spans. */
  readonly hasSteps: boolean
  /** Returns the trace of a run that is not a child of another run in the tree. */
  readonly trace: (run: RunTree.Run) => Trace
  readonly name: (node: RunTree.Node) => string
  /** Returns the attributes of a node, without secrets. */
  readonly attributes: (
    node: RunTree.Node,
    outcome: Outcome,
    tree: Pick<RunTree.Tree, "sent" | "tools">
  ) => SparseAttributes
  readonly events?: ((node: RunTree.Node) => ReadonlyArray<Event>) | undefined
}

/** Cached ids of attempts and calls by their key, because ids are requested before the spans are created. */
const known = new Map<string, string>()

const maxKnown = 4096

const getSpanId = (seed: string): string => {
  const before = known.get(seed)
  if (before !== undefined) return before
  if (known.size >= maxKnown) known.clear()
  const made = Digest.toHex(seed, 16)
  known.set(seed, made)
  return made
}

/** Returns the trace id of a run without a parent span. */
export const makeTraceId = (turnId: string): string => Digest.toHex(`trace ${turnId}`, 32)

/** Returns the span id of a run that is not a child's run. */
export const makeRunSpanId = (turnId: string): string => Digest.toHex(`run ${turnId}`, 16)

/** Returns the span id of a child agent and of its run. */
export const makeChildSpanId = (sessionId: string): string => Digest.toHex(`child ${sessionId}`, 16)

/** Derives the span id of an attempt from its request id. */
export const makeAttemptSpanId = (apiRequestId: string): string => getSpanId(`attempt ${apiRequestId}`)

/**
 * Returns the span id of a tool call. The request id is included because providers may reuse call ids in different
 * answers.
 */
export const makeCallSpanId = (apiRequestId: string, toolCallId: string): string =>
  getSpanId(`call ${apiRequestId} ${toolCallId}`)

/**
 * Returns the span id of a step. If a run reached a limit, its summary is a second step with the last step number;
 * `isAgain` is then true.
 */
export const makeStepSpanId = (turnId: string, step: number, isAgain = false): string =>
  Digest.toHex(`step ${turnId} ${step}${isAgain ? " again" : ""}`, 16)

const isAgain = (step: RunTree.Step): boolean => {
  const { steps } = step.run
  return steps[steps.lastIndexOf(step) - 1]?.number === step.number
}

const findRequestId = ({ run, start, step }: RunTree.Call): string =>
  start?.apiRequestId ??
  step?.attempts.findLast(({ end }) => end?.status === "answered")?.start.apiRequestId ??
  run.turnId

/** Returns the span id of a node. It is cached because the node's span, its parts and every exporter request it. */
const getNodeId = (node: RunTree.Node): string => {
  if (node.spanId !== undefined) return node.spanId
  const made = makeNodeId(node)
  // The id of a call that has not begun is not cached, because its request may become known later.
  const call = node.kind === "approval" ? node.call : node.kind === "call" ? node : undefined
  if (call === undefined || call.start?.apiRequestId !== undefined) node.spanId = made
  return made
}

const makeNodeId = (node: RunTree.Node): string => {
  switch (node.kind) {
    case "run":
      return node.child === undefined ? makeRunSpanId(node.turnId) : makeChildSpanId(node.sessionId)
    case "child":
      return makeChildSpanId(node.start.sessionId)
    case "step":
      return makeStepSpanId(node.run.turnId, node.number, isAgain(node))
    case "attempt":
      return makeAttemptSpanId(node.start.apiRequestId)
    case "call":
      return makeCallSpanId(findRequestId(node), node.id)
    case "approval":
      return Digest.toHex(`approval ${getNodeId(node.call)} ${node.call.approvals.indexOf(node)}`, 16)
  }
}

const done: Outcome = { _tag: "Done" }
const cut: Outcome = { _tag: "Cut" }
const makeFailedOutcome = (type: string, message: string): Outcome => ({
  _tag: "Failed",
  failure: { type: type || "_OTHER", message: message || type }
})

/** Returns the text of a call's result as the model receives it, or `undefined` if there is no result yet. */
export const readResultText = ({ end, result }: RunTree.Call): string | undefined =>
  result === undefined ? end?.output : typeof result.result === "string" ? result.result : Json.toText(result.result)

const getRunOutcome = ({ end }: RunTree.Run): Outcome => {
  if (end === undefined || end.exit === "interrupted" || end.exit === "interrupted_by_user") return cut
  return end.exit === "failed" ? makeFailedOutcome("failed", end.failure?.message ?? "the run failed") : done
}

/** Returns the outcome of a node. A node that has not ended counts as interrupted. */
export const getOutcome = (node: RunTree.Node): Outcome => {
  switch (node.kind) {
    case "run":
      return getRunOutcome(node)
    case "child": {
      const status = node.end?.status
      if (status === "completed" || status === "partial") return done
      return status === undefined || status === "interrupted"
        ? cut
        : makeFailedOutcome(status, `the child ended as ${status}`)
    }
    case "step":
      return node.endedAt === undefined ? cut : done
    case "attempt": {
      const { end } = node
      if (end === undefined || end.status === "interrupted") return cut
      return end.status === "answered"
        ? done
        : makeFailedOutcome(end.failure?.reason ?? end.failure?.type ?? "", end.failure?.message ?? "")
    }
    case "call": {
      const { end } = node
      if (end === undefined || end.status === "cancelled") return cut
      if (end.status === "ok") return done
      const text = readResultText(node) ?? ""
      return makeFailedOutcome(
        end.reason ?? (end.status === "error" ? "tool_error" : end.status),
        ToolOutcome.fromResult(text).error_message ?? text
      )
    }
    case "approval":
      return done
  }
}

/** Returns the run that a node belongs to. */
export const findRun = (node: RunTree.Node): RunTree.Run =>
  node.kind === "run" ? node : node.kind === "child" ? node.parent : node.kind === "approval" ? node.call.run : node.run

const getStartTime = (node: RunTree.Node): number =>
  node.kind === "approval" ? node.endedAt - node.event.waitedMillis : node.startedAt

/** Distance between the order numbers of two steps, and the offset of a step's calls from its attempts. */
const [stepGap, gap] = [100, 10]

/** Returns the order number of a span among spans of the same millisecond. It does not change when nodes are added. */
const computeOrder = (node: RunTree.Node): number => {
  switch (node.kind) {
    case "run":
      return node.child === undefined ? 0 : computeOrder(node.child)
    case "child":
      return node.call === undefined
        ? computeOrder(node.parent) + gap + node.parent.children.indexOf(node)
        : computeOrder(node.call) + gap + node.call.children.indexOf(node)
    case "step":
      return computeOrder(node.run) + 1 + node.run.steps.lastIndexOf(node) * stepGap
    case "attempt":
      return node.step !== undefined
        ? computeOrder(node.step) + 1 + node.step.attempts.indexOf(node)
        : computeOrder(node.call ?? node.run) + gap + node.run.sideTasks.indexOf(node)
    case "call":
      return node.parent !== undefined
        ? computeOrder(node.parent) + gap + node.parent.calls.indexOf(node)
        : node.step === undefined
          ? computeOrder(node.run) + gap
          : computeOrder(node.step) + gap + node.step.calls.indexOf(node)
    case "approval":
      return computeOrder(node.call) + 1 + node.call.approvals.indexOf(node)
  }
}

/**
 * Returns attributes. If they cannot be computed, returns an attribute with the error, because a value that cannot be
 * encoded must not affect other spans.
 */
const describeSafely = (attributes: () => SparseAttributes): SparseAttributes => {
  try {
    return attributes()
  } catch (error) {
    return { "hermes.export.error": String(error) }
  }
}

/** Creates a builder of the heads and spans of nodes. The run of a child has no separate span. */
export const makeSpanBuilder = (view: View, tree: Pick<RunTree.Tree, "sent" | "tools">) => {
  const traces = new WeakMap<RunTree.Run, Trace>()
  const getTrace = (run: RunTree.Run): Trace => {
    const known = traces.get(run)
    if (known !== undefined) return known
    const made = run.child === undefined ? view.trace(run) : getTrace(run.child.parent)
    traces.set(run, made)
    return made
  }
  const findParentId = (node: RunTree.Node): string | undefined => {
    switch (node.kind) {
      case "run":
        return getTrace(node).parentSpanId
      case "child":
        return getNodeId(node.call ?? node.parent)
      case "step":
        return getNodeId(node.run)
      case "attempt":
        return getNodeId(node.call ?? (view.hasSteps ? node.step : undefined) ?? node.run)
      case "call":
        return getNodeId(node.parent ?? (view.hasSteps ? node.step : undefined) ?? node.run)
      case "approval":
        return getNodeId(node.call)
    }
  }
  const buildHead = (node: RunTree.Node): SpanHead => {
    const { sampled, traceId, traceState } = getTrace(findRun(node))
    return {
      node,
      traceId,
      parentSpanId: findParentId(node),
      sampled,
      traceState,
      spanId: getNodeId(node),
      name: view.name(node),
      kind: node.kind === "attempt" ? "client" : "internal",
      startedAt: getStartTime(node),
      order: computeOrder(node)
    }
  }
  /** Builds the span of a node. `end` is used if the node has not ended. */
  const buildSpan = (node: RunTree.Node, end: number): Span => {
    const head = buildHead(node)
    const outcome = getOutcome(node)
    return {
      ...head,
      endedAt: Math.max(head.startedAt, node.endedAt ?? end),
      outcome,
      attributes: head.sampled ? describeSafely(() => view.attributes(node, outcome, tree)) : {},
      events: head.sampled ? (view.events?.(node) ?? []) : []
    }
  }
  const hasSpan = (node: RunTree.Node): boolean =>
    node.kind === "run"
      ? // One of which nothing but side tasks is in the record is no run of an agent.
        node.child === undefined && (node.start !== undefined || node.steps.length > 0)
      : node.kind === "step"
        ? view.hasSteps
        : // A call that nobody began or closed was cut with the run that had just stored it.
          node.kind === "call"
          ? node.start !== undefined || node.end !== undefined
          : true
  return { has: hasSpan, buildHead, buildSpan }
}

const visitCall = (call: RunTree.Call, visit: (part: RunTree.Node) => void): void => {
  visit(call)
  for (const approval of call.approvals) visit(approval)
  for (const inner of call.calls) visitCall(inner, visit)
}

/** Visits the parts of a step, except children. */
export const visitStep = ({ attempts, calls }: RunTree.Step, visit: (part: RunTree.Node) => void): void => {
  for (const attempt of attempts) visit(attempt)
  for (const call of calls) visitCall(call, visit)
}

/** Visits the parts of a run, except children. */
export const visitRun = ({ sideTasks, steps }: RunTree.Run, visit: (part: RunTree.Node) => void): void => {
  for (const step of steps) {
    visit(step)
    visitStep(step, visit)
  }
  for (const task of sideTasks) visit(task)
}

const listParts = (run: RunTree.Run): ReadonlyArray<RunTree.Node> => {
  const parts: Array<RunTree.Node> = []
  visitRun(run, (part) => parts.push(part))
  return parts
}

const addChildren = (calls: ReadonlyArray<RunTree.Call>, into: Array<RunTree.Child>): void => {
  for (const call of calls) {
    for (const child of call.children) into.push(child)
    addChildren(call.calls, into)
  }
}

/** Lists the children of a run, including the children of all its calls. */
export const listChildren = (run: RunTree.Run): ReadonlyArray<RunTree.Child> => {
  const children = run.children.slice()
  for (const { calls } of run.steps) addChildren(calls, children)
  return children
}

const findLastTime = (run: RunTree.Run): number =>
  Math.max(
    run.startedAt,
    run.endedAt ?? 0,
    ...[...listParts(run), ...listChildren(run)].map((node) => node.endedAt ?? getStartTime(node))
  )

/** Returns the spans of all runs in a tree, including the runs of children. */
export const fromTree = (tree: RunTree.Tree, view: View): ReadonlyArray<Span> => {
  const { has, buildSpan } = makeSpanBuilder(view, tree)
  const listRunSpans = (run: RunTree.Run): ReadonlyArray<Span> => {
    const end = findLastTime(run)
    const own: ReadonlyArray<RunTree.Node> = [...listParts(run), run]
    return [
      ...listChildren(run).flatMap((child) => [
        ...(child.run === undefined ? [] : listRunSpans(child.run)),
        buildSpan(child, end)
      ]),
      ...own.filter(has).map((node) => buildSpan(node, end))
    ]
  }
  return tree.roots.flatMap(listRunSpans)
}
